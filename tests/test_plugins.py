"""Plug-ins: what other packages add is used like what is built in, and what is broken in them stops nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.destinations import BadDestinationError, keys_hidden, parse_destination
from agenttrace.export.kinds import PluginDestination, UnusableDestinationError, destination_of
from agenttrace.model import Event
from agenttrace.plugins import FORMATS, Plugin, PluginError, installed
from agenttrace.record.formats import AGENTS, BUILT_IN
from agenttrace.record.formats.contract import Content, Source, Unusable
from agenttrace.record.formats.native import Native
from agenttrace.record.formats.plugins import PluginAgent, load_formats
from agenttrace.record.ingest.acts import Act
from agenttrace.record.recorder import Recorder

#: When the made-up sessions happen, in seconds: long ago.
NOW = 1_700_000_000.0
ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "tests" / "plugin-example"
PARROT_LOG = """\
{"t": 1794732810.0, "n": 1, "who": "user", "say": "Polly?"}
{"t": 1794732811.5, "n": 2, "who": "parrot", "say": "Let me look.", "call": {"id": "c1", "tool": "mirror", "with": "me"}, "tokens": {"in": 30, "cached": 10, "out": 5}}
{"t": 1794732811.9, "n": 3, "who": "tool", "call": {"id": "c1"}, "say": "a parrot"}
{"t": 1794732812.8, "n": 4, "who": "parrot", "say": "Polly!", "tokens": {"in": 60, "cached": 30, "out": 3}}
"""  # noqa: E501 - a log


class Machine:
    """A user's machine with packages of its own, on which commands are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = root / "packages"
        self.home = root / ".agenttrace"
        self.packages.mkdir()
        self.home.mkdir()

    def install(self, source: Path) -> None:
        """What ``pip install`` leaves of a package: its modules, and a directory that says what is in it."""
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        for each in source.iterdir():
            if each.is_dir():
                shutil.copytree(each, self.packages / each.name)
        self.declare(project["name"], project["version"], project["entry-points"])

    def declare(self, name: str, version: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
        info = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [
            line
            for group, entries in entry_points.items()
            for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def configure(self, text: str) -> None:
        (self.home / "agenttrace.toml").write_text(text)

    def write_parrot_log(self) -> None:
        (self.root / ".parrot").mkdir()
        (self.root / ".parrot" / "polly.log").write_text(PARROT_LOG)

    def run(self, *arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = self._done(*arguments)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    def _done(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTTRACE_")}
        environ |= {"HOME": str(self.root), "AGENTTRACE_HOME": str(self.home), "PYTHONPATH": str(self.packages)}
        command = [sys.executable, "-m", "agenttrace.cli.main", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever a command says
        return json.loads(self.run(*arguments, "--json").stdout)

    def findings(self) -> list[dict[str, str]]:
        """What ``doctor`` says of plug-ins."""
        found = json.loads(self._done("doctor", "--json").stdout)["checks"]
        return [check for check in found if check["name"] == "plug-in"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_package_adds_a_format_and_a_destination(machine: Machine) -> None:
    """The logs of its agent are found, recorded, shown and sent to its destination, each span once."""
    machine.install(EXAMPLE)
    machine.write_parrot_log()
    notes = machine.root / "notes.txt"
    machine.configure(
        f'[destinations.notes]\ntype = "notebook"\npath = "{notes}"\nstart = "all"\n'
        '[destinations.notes.options]\nheading = "*"\n'
    )
    recorded = machine.json("record", "--once")
    assert (recorded["recorded"], recorded["quarantined"]) == (4, 0)
    shown = machine.json("show", "polly")
    spans = shown["spans"]
    assert shown["session"]["agent"] == "parrot"
    assert [span["kind"] for span in spans] == ["turn", "step", "tool", "step"]
    assert sum(span["usage"]["output_tokens"] for span in spans if span["usage"]) == 8
    (sent,) = machine.json("export", "run", "--once")["destinations"]
    assert (sent["acknowledged"], sent["reason"]) == (4, None)
    lines = notes.read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(span["span_id"] for span in spans)
    assert all(line.startswith("* ") for line in lines)
    assert [(each["state"], each["found"].split(" (")[0]) for each in machine.findings()] == [
        ("ok", "log format parrot of agenttrace-parrot 1.0"),
        ("ok", "destination notebook of agenttrace-parrot 1.0"),
    ]


BROKEN = '''
"""Formats and destinations that do not work."""

from agenttrace.record.formats.native import Native


class Nameless(Native):
    name = "another"


class Failing(Native):
    """Loads, and fails at everything it is asked."""

    name, title = "failing", "Failing"

    def homes(self, environ, home):
        raise OSError("no home")

    def recognise(self, path, head):
        raise ValueError("what is this")


class Empty:
    name, title = "empty", "Empty"


def refuses(settings):
    raise RuntimeError("not today")


class Silent:
    """A destination that gives no proper answer."""

    def __init__(self, settings):
        pass

    async def send(self, spans):
        return None

    async def present(self, spans):
        return "nothing"

    async def check(self):
        raise ZeroDivisionError

    async def close(self):
        raise OSError
'''


def test_what_is_broken_is_reported_and_stops_nothing(machine: Machine) -> None:
    """Formats that cannot be loaded or fail, destinations that cannot be made or give no answer: with their reasons."""
    (machine.packages / "broken.py").write_text(BROKEN)
    (machine.packages / "exits.py").write_text("import sys\nsys.exit('good bye')\n")
    formats = {
        "absent": "there_is_no_such_module:Format",
        "attribute": "broken:Nothing",
        "claude-code": "broken:Failing",
        "empty": "broken:Empty",
        "exits": "exits:Format",
        "failing": "broken:Failing",
        "nameless": "broken:Nameless",
    }
    destinations = {"otlp": "broken:Silent", "gone": "there_is_no_such_module:make", "refuses": "broken:refuses"}
    destinations["silent"] = "broken:Silent"
    machine.declare("broken", "0.1", {"agenttrace.formats": formats, "agenttrace.destinations": destinations})
    tables = [f'[destinations.{name}]\ntype = "{name}"\nstart = "all"\n' for name in ("gone", "refuses", "silent")]
    files = machine.root / "files"
    machine.configure("".join(tables) + f'[destinations.files]\ntype = "jsonl"\npath = "{files}"\nstart = "all"\n')
    log = machine.root / ".agenttrace" / "logs" / "one.jsonl"
    log.parent.mkdir()
    line = {"v": 1, "session": "one", "turn": 1, "ts": NOW}
    kinds = [{"type": "turn.begin", "id": "a", "prompt": "hi"}, {"type": "turn.end", "id": "b", "status": "ok"}]
    log.write_text("".join(json.dumps(line | kind) + "\n" for kind in kinds))

    recorded = machine.run("record", "--once", "--json")
    assert json.loads(recorded.stdout)["recorded"] == 2
    for name in formats:
        assert f"log format {name} of broken 0.1" in recorded.stderr
    sent = json.loads(machine.run("export", "run", "--once", "--json", fails=True).stdout)
    found = {each["name"]: each for each in sent["destinations"]}
    assert found["files"]["acknowledged"] == 1
    assert "there_is_no_such_module" in found["gone"]["reason"]
    assert "not today" in found["refuses"]["reason"]
    assert found["silent"]["unknown"] == 1
    checked = json.loads(machine.run("export", "check", "--json", fails=True).stdout)
    assert "ZeroDivisionError" in {each["name"]: each["problem"] for each in checked}["silent"]

    reported = {re.match(r"the (.+?) of broken", each["found"]): each for each in machine.findings()}
    states = {match[1]: each["state"] for match, each in reported.items() if match}
    assert set(states.values()) == {"warn"}
    assert states.keys() == {f"log format {name}" for name in formats.keys() - {"failing"}} | {
        "destination otlp",
        "destination gone",
    }


def _named(name: str, **attributes: object) -> type[Any]:
    """A class of a format like our own under another name, with some of it changed."""
    return type(name.title(), (Native,), {"name": name, **attributes})


def _unmade(self: object) -> None:
    raise ZeroDivisionError("not today")


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"decode": None, "acts": None}, "it has no decode, acts"),
        ({"traits": "fast"}, "its traits are no"),
        ({"__init__": _unmade}, "it cannot be made: ZeroDivisionError: not today"),
    ],
)
def test_formats_of_this_package_pass_the_checks_of_others(
    monkeypatch: pytest.MonkeyPatch, attributes: dict[str, object], why: str
) -> None:
    """One that a package may not add this package may not have either; for a package it is no more than left out."""
    bad = _named("bad", **attributes)
    with pytest.raises(PluginError, match=re.escape(why)):
        load_formats([Native, bad])
    plugins = (Plugin(FORMATS, "bad", "x", EntryPoint("bad", "bad:Bad", FORMATS)),)
    monkeypatch.setattr(EntryPoint, "load", lambda self: bad)
    monkeypatch.setattr("agenttrace.record.formats.plugins.installed", lambda group: plugins)
    found = load_formats([Native])
    assert [agent.name for agent in found.agents] == ["agenttrace"]
    assert [why in broken.reason for broken in found.broken] == [True]


def test_a_name_is_taken_once() -> None:
    """Whoever comes first has it; the formats of this package have all of theirs, in their order."""
    with pytest.raises(PluginError, match="another format of that name"):
        load_formats([Native, _named("other"), _named("other")])
    assert [agent.name for agent in AGENTS[: len(BUILT_IN)]] == [each.name for each in BUILT_IN]
    assert [type(agent) for agent in AGENTS[: len(BUILT_IN)]] == list(BUILT_IN)


class Stumbling(Native):
    """Our own format, whose reader fails over some lines in the way that their types name."""

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        if b"undecodable" in raw:
            raise KeyError("decode")
        return super().decode(raw, source)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[Act]:
        yield from super().acts(event, source, memory)
        if event.type == "full disk":
            raise OSError(28, "No space left on device")
        if event.type == "locked":
            raise sqlite3.OperationalError("database is locked")

    def content(self, event: Event, source: Source) -> list[Content]:
        raise RecursionError


def test_a_line_over_which_a_plug_in_fails_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised, also what looks like a fault of the disk or of the store: the other lines are recorded."""
    entry = EntryPoint("agenttrace", "stumbling:Stumbling", FORMATS)
    agent = PluginAgent(Plugin(FORMATS, "agenttrace", "stumbling 1.0", entry), Stumbling())
    monkeypatch.setattr("agenttrace.record.recorder.AGENTS", (agent,))
    log = tmp_path / "one.jsonl"
    kinds = ["turn.begin", "undecodable", "full disk", "note", "locked", "turn.end"]
    lines = [{"v": 1, "session": "one", "turn": 1, "id": kind, "ts": NOW, "type": kind} for kind in kinds]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = Settings(home=tmp_path / "home")
    ensure_home(settings)
    with closing(Recorder(settings, paths=[str(log)], environ={})) as recorder:
        found = recorder.run_once()
        reasons = [row[0] for row in recorder.connection.execute("SELECT reason FROM quarantine ORDER BY offset")]
    assert (found.recorded, found.quarantined) == (3, 3)
    assert all("stumbling 1.0" in reason for reason in reasons)
    for part, reason in zip(("KeyError", "No space left", "database is locked"), reasons, strict=True):
        assert part in reason


@pytest.fixture
def installed_here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example in this process."""
    machine.install(EXAMPLE)
    monkeypatch.syspath_prepend(machine.packages)
    installed.cache_clear()
    yield
    installed.cache_clear()


@pytest.mark.usefixtures("installed_here")
def test_settings_of_a_plug_in() -> None:
    """Its type is accepted, with options whose texts are hidden; ours have none, and what nothing adds is refused."""
    table = {"type": "notebook", "path": "/notes", "options": {"deep": [{"token": "${TOKEN}"}], "number": 3}}
    found = parse_destination("notes", table, {"TOKEN": "a-secret-token"})
    assert (found.type, found.options["number"]) == ("notebook", 3)
    assert keys_hidden(found)("401: a-secret-token") == "401: [masked:key]"
    assert "a-secret-token" not in repr(found)
    with pytest.raises(BadDestinationError, match="options is not a setting"):
        parse_destination("files", table | {"type": "jsonl"}, {})
    with pytest.raises(BadDestinationError, match=r"'notebok'.* notebook, or install the package"):
        parse_destination("notes", table | {"type": "notebok"}, {})


@pytest.mark.usefixtures("installed_here")
def test_the_table_of_the_guide_can_be_used(tmp_path: Path) -> None:
    """With the example installed it is a whole settings file, and makes the destination."""
    section = (ROOT / "docs" / "export.md").read_text().partition("## A destination of your own\n")[2]
    _, table = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    (tmp_path / "agenttrace.toml").write_text(table)
    settings = load_settings(environ={"AGENTTRACE_CONFIG": str(tmp_path / "agenttrace.toml"), "HOME": str(tmp_path)})
    (found,) = settings.destinations
    assert isinstance(destination_of(found), PluginDestination)
    assert found.options == {"heading": "*"}


@pytest.mark.usefixtures("installed_here")
def test_a_plug_in_that_cannot_be_made_says_why() -> None:
    """What its class says is the reason that users read."""
    with pytest.raises(UnusableDestinationError, match="path is missing: it is the file to write to"):
        destination_of(parse_destination("notes", {"type": "notebook"}, {}))


@pytest.mark.parametrize(("document", "module"), [("adding-a-format.md", "parrot.py"), ("export.md", "notebook.py")])
def test_the_guides_show_the_example(document: str, module: str) -> None:
    """The code of the guides is the code that these tests run."""
    code = (EXAMPLE / "agenttrace_parrot" / module).read_text()
    assert code in (ROOT / "docs" / document).read_text()
    declared = (EXAMPLE / "pyproject.toml").read_text()
    (wanted,) = re.findall(rf"^\w+ = \"agenttrace_parrot\.{module[:-3]}:\w+\"$", declared, re.MULTILINE)
    assert wanted in (ROOT / "docs" / document).read_text()
