"""``agenttrace export``: what is recorded is sent once, and the ledger says what became of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.cli import output, progress
from agenttrace.cli.child_process import watching_store
from agenttrace.config import load_settings
from agenttrace.destinations import DestinationSettings
from agenttrace.export.lock import ExporterLock
from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import connect

from .collector import Collector, collecting
from .conftest import Program, eventually, stop

FILES = '[destinations.files]\ntype = "jsonl"\npath = "out"\nstart = "all"\n'
FIELDS = [
    "name",
    "kind",
    "address",
    "state",
    "reason",
    "retry_at",
    "paused",
    "queued",
    "sending",
    "acknowledged",
    "refused",
    "unknown",
    "dropped",
    "late",
    "rejected",
    "annotations",
    "refused_annotations",
    "refusal",
    "oldest_queued_at",
    "last_success_at",
    "last_error",
    "last_error_at",
    "requests",
    "sent_bytes",
    "added_at",
    "since",
]
COMMANDS = ("status", "retry", "accept", "pause", "resume", "backfill", "check", "forget")


def configure(program: Program, text: str) -> Program:
    """Write the settings file; relative paths begin beside it."""
    program.home.mkdir(mode=0o700, exist_ok=True)
    (program.home / "agenttrace.toml").write_text(text)
    return program


def otlp(url: str, name: str = "there", **more: str) -> str:
    """The table of a destination."""
    settings = {"type": "otlp", "url": url, "start": "all"} | more
    return f"[destinations.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in settings.items())


def rows(program: Program, query: str) -> list[Any]:
    """What the store has."""
    with closing(sqlite3.connect(program.home / "agenttrace.db")) as connection:
        return connection.execute(query).fetchall()


def recorded_spans(program: Program) -> set[bytes]:
    """The ids of all spans."""
    return {row[0] for row in rows(program, "SELECT span_id FROM spans")}


def written_spans(program: Program) -> Counter[bytes]:
    """The ids in the files that a jsonl destination wrote."""
    lines = [line for path in sorted((program.home / "out").rglob("*.jsonl")) for line in path.read_text().splitlines()]
    return Counter(bytes.fromhex(json.loads(line)["span_id"]) for line in lines)


def counts(program: Program, name: str = "there") -> tuple[int, int, int, int]:
    """Acknowledged, queued, refused, unknown."""
    each = program.json("export", "status", name)
    return each["acknowledged"], each["queued"] + each["sending"], each["refused"], each["unknown"]


@pytest.fixture
def recorded_here(machine: Program) -> Program:
    """A user with the logs of four agents, recorded, and a destination of files that was not sent to yet."""
    configure(machine, FILES)
    machine.run("record", "--once")
    return machine


@pytest.fixture
def there() -> Iterator[Collector]:
    """Somebody to send to."""
    with collecting() as collector:
        yield collector


@pytest.fixture
def away(machine: Program, there: Collector) -> Program:
    """A user with the logs of four agents, recorded, and a destination over HTTP."""
    configure(machine, otlp(there.url))
    machine.run("record", "--once")
    return machine


# -- nothing to send to, and names that are none --------------------------------------------------------------


def test_without_a_destination_every_command_shows_how_to_add_one(program: Program) -> None:
    """The status is no error; what needs a destination is one; nothing is created by asking."""
    said = program.run("export")
    assert "[destinations.phoenix]" in said.stdout
    assert str(program.home / "agenttrace.toml") in said.stdout
    assert program.json("export") == {"exporter": {"running": False, "pid": None}, "destinations": []}
    for command in (*COMMANDS[1:], "run"):
        arguments = () if command == "run" else ("phoenix",)
        assert "[destinations.files]" in program.run("export", command, *arguments, code=1).stderr
    assert not program.home.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_name_is_reported_with_the_nearest_one(program: Program, command: str) -> None:
    """Exit code 1, and the name that was meant."""
    configure(program, otlp("http://127.0.0.1:1", name="langfuse-eu"))
    told = program.run("export", command, "langfuse-us", code=1).stderr
    assert "there is no destination named 'langfuse-us'" in told
    assert "Did you mean langfuse-eu?" in told


def test_before_anything_is_recorded(program: Program) -> None:
    """A destination is shown, can be paused, and is paused still when the first turn is recorded."""
    configure(program, FILES)
    (each,) = program.json("export")["destinations"]
    assert list(each) == FIELDS
    assert (each["state"], each["acknowledged"]) == ("stopped", 0)
    program.run("export", "pause", "files")
    program.use_fixtures()
    program.run("record", "--once")
    (each,) = program.json("export")["destinations"]
    assert list(each) == FIELDS
    assert (each["state"], each["paused"]) == ("paused", True)


# -- sending --------------------------------------------------------------------------------------------------


def test_once_sends_everything_and_nothing_twice(recorded_here: Program) -> None:
    """Each span of the store is in the files once, however often it is run; the status has the same numbers."""
    spans = recorded_spans(recorded_here)
    found = recorded_here.json("export", "run", "--once")
    assert found["destinations"] == [
        {"name": "files", "acknowledged": len(spans), "refused": 0, "unknown": 0, "dropped": 0, "left": 0}
        | {"annotations": 0, "refused_annotations": 0, "left_annotations": 0, "reason": None}
    ]
    assert written_spans(recorded_here) == Counter(spans)
    assert "nothing new was sent" in recorded_here.run("export", "run", "--once").stdout
    assert written_spans(recorded_here) == Counter(spans)
    assert counts(recorded_here, "files") == (len(spans), 0, 0, 0)
    table = recorded_here.run("export").stdout
    assert f"{len(spans)}" in table.splitlines()[2]


def test_once_leaves_what_cannot_be_sent_and_says_why(machine: Program) -> None:
    """Exit code 1 with the reason; what is left is sent when the destination is there."""
    configure(machine, otlp("http://127.0.0.1:1/v1/traces"))
    machine.run("record", "--once")
    told = machine.run("export", "run", "--once", code=1)
    assert "there: " in told.stderr
    assert "agenttrace export check there" in told.stderr
    spans = recorded_spans(machine)
    assert counts(machine) == (0, len(spans), 0, 0)
    each = machine.json("export", "status", "there")
    assert each["last_error"]
    assert each["oldest_queued_at"]
    with collecting() as collector:
        configure(machine, otlp(collector.url))
        machine.run("export", "run", "--once")
        assert collector.spans == Counter(spans)
    assert counts(machine) == (len(spans), 0, 0, 0)


def test_a_paused_destination_gets_nothing_and_the_others_do(recorded_here: Program, there: Collector) -> None:
    """What is paused waits; resumed, it goes on."""
    configure(recorded_here, FILES + otlp(there.url))
    assert recorded_here.json("export", "pause", "there") == {"name": "there", "paused": True}
    found = recorded_here.json("export", "run", "--once", code=1)
    assert {each["name"]: each["left"] > 0 for each in found["destinations"]} == {"files": False, "there": True}
    assert not there.spans
    recorded_here.run("export", "resume", "there")
    recorded_here.run("export", "run", "--once")
    assert there.spans == written_spans(recorded_here) == Counter(recorded_spans(recorded_here))


def test_what_is_refused_is_shown_with_its_answer_and_sent_again_when_asked(away: Program, there: Collector) -> None:
    """Exit code 1 for a refusal; nothing is sent by itself; after ``retry`` everything is there once."""
    there.manner = "refuse"
    away.run("export", "run", "--once", code=1)
    spans = recorded_spans(away)
    assert counts(away) == (0, 0, len(spans), 0)
    shown = away.run("export", "status", "there").stdout
    assert "these are no good" in shown
    entries = away.json("export", "status", "there")["spans"]["refused"]
    assert len(entries) == min(20, len(spans))
    assert all("these are no good" in entry["answer"] and entry["attempts"] >= 1 for entry in entries)
    assert {bytes.fromhex(entry["span_id"]) for entry in entries} <= spans
    there.manner = "take"
    away.run("export", "run", "--once")
    assert not there.spans
    assert away.json("export", "retry", "there") == {"name": "there", "queued": len(spans)}
    away.run("export", "run", "--once")
    assert there.spans == Counter(spans)
    assert away.json("export", "retry", "there") == {"name": "there", "queued": 0}


def _doubtful(program: Program, there: Collector) -> int:
    """Make all spans unknown: sent without an answer; how many spans."""
    there.manner = "busy"
    program.run("export", "run", "--once", code=1)
    there.manner = "take"
    with closing(sqlite3.connect(program.home / "agenttrace.db")) as connection, connection:
        return connection.execute("UPDATE export_spans SET state = 'unknown', answer = 'it hung up'").rowcount


def test_unknown_spans_wait_for_the_user(away: Program, there: Collector) -> None:
    """A plain retry leaves unknown spans alone, and so does every run; accepted, they are never sent."""
    unknown = _doubtful(away, there)
    assert counts(away) == (0, 0, 0, unknown)
    told = away.run("export", "retry", "there")
    assert "0 spans queued again" in told.stdout
    assert "agenttrace export accept there" in told.stderr
    assert "it hung up" in away.run("export", "status", "there").stdout
    away.run("export", "run", "--once")
    assert counts(away) == (0, 0, 0, unknown)
    assert away.json("export", "accept", "there") == {"name": "there", "acknowledged": unknown}
    away.run("export", "run", "--once")
    assert counts(away) == (unknown, 0, 0, 0)
    assert not there.spans


def test_unknown_spans_are_retried_on_request(away: Program, there: Collector) -> None:
    """With ``--unknown``: it had not arrived, and is there once then."""
    unknown = _doubtful(away, there)
    assert away.json("export", "retry", "there", "--unknown") == {"name": "there", "queued": unknown}
    away.run("export", "run", "--once")
    assert there.spans == Counter(recorded_spans(away))
    assert counts(away) == (unknown, 0, 0, 0)


def test_backfill_sends_what_was_before_and_nothing_twice(machine: Program, there: Collector) -> None:
    """A destination starts with what happens after it was added; backfill queues the rest, and can be repeated."""
    configure(machine, f'[destinations.there]\ntype = "otlp"\nurl = "{there.url}"\n')
    machine.run("record", "--once")
    machine.run("export", "run", "--once")
    assert not there.spans
    ((traces,),) = rows(machine, "SELECT count(*) FROM (SELECT DISTINCT session_id, trace_id FROM spans)")
    assert machine.json("export", "backfill", "there", "--since", "2100-01-01")["traces"] == 0
    found = machine.json("export", "backfill", "there", "--since", "all")
    assert found == {"name": "there", "since": None, "traces": traces}
    machine.run("export", "run", "--once")
    assert there.spans == Counter(recorded_spans(machine))
    assert machine.json("export", "backfill", "there", "--since", "all")["traces"] == traces
    machine.run("export", "run", "--once")
    assert there.spans == Counter(recorded_spans(machine))
    assert "is not a time" in machine.run("export", "backfill", "there", "--since", "soon", code=2).stderr


def test_what_was_forgotten_is_sent_anew(recorded_here: Program) -> None:
    """It asks first; without a terminal nothing is reset."""
    recorded_here.run("export", "run", "--once")
    spans = recorded_spans(recorded_here)
    assert "--yes" in recorded_here.run("export", "forget", "files", code=2).stderr
    assert counts(recorded_here, "files")[0] == len(spans)
    assert recorded_here.json("export", "forget", "files", "--yes") == {"name": "files", "forgotten": len(spans)}
    assert counts(recorded_here, "files") == (0, 0, 0, 0)
    recorded_here.run("export", "run", "--once")
    assert written_spans(recorded_here) == Counter(dict.fromkeys(spans, 2))


def test_a_destination_that_the_settings_name_no_longer(recorded_here: Program) -> None:
    """It is not shown unless asked for, its ledger is kept until it is forgotten, and back again it goes on."""
    recorded_here.run("export", "run", "--once")
    number = len(recorded_spans(recorded_here))
    configure(recorded_here, otlp("http://127.0.0.1:1"))
    assert [each["name"] for each in recorded_here.json("export")["destinations"]] == ["there"]
    recorded_here.run("export", "pause", "there")
    found = {each["name"]: each for each in recorded_here.json("export", "status", "--all")["destinations"]}
    assert (found["files"]["state"], found["files"]["acknowledged"]) == ("removed", number)
    recorded_here.run("export", "retry", "files", code=1)
    configure(recorded_here, FILES)
    assert "nothing new was sent" in recorded_here.run("export", "run", "--once").stdout
    configure(recorded_here, otlp("http://127.0.0.1:1"))
    recorded_here.run("export", "pause", "there")
    assert recorded_here.json("export", "forget", "files", "--yes")["forgotten"] == number
    assert [each["name"] for each in recorded_here.json("export", "status", "--all")["destinations"]] == ["there"]


# -- the guide ------------------------------------------------------------------------------------------------

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_first_steps_of_the_guide_work(machine: Program) -> None:
    """Its table and its commands, one after the other: the files hold each span once."""
    section = re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    (settings,), (commands,) = blocks("toml", section), blocks("console", section)
    configure(machine, settings)
    for line in commands.splitlines():
        _, *arguments = shlex.split(line.removeprefix("$ "))
        machine.run(*arguments)
    (file,) = (machine.user / "agenttrace-export").iterdir()
    written = Counter(bytes.fromhex(json.loads(line)["span_id"]) for line in file.read_text().splitlines())
    assert written == Counter(recorded_spans(machine))


def built_in() -> str:
    """The guide without its section on plug-ins, which tests/test_plugins.py follows."""
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition("## A destination of your own\n")
    return before + rest.partition("\n## ")[2]


@pytest.mark.parametrize("text", blocks("toml", built_in()), ids=lambda text: text.split()[0])
def test_every_table_of_the_guide_can_be_used(text: str, tmp_path: Path) -> None:
    """Each is a whole settings file, with nothing in it that does not exist."""
    file = tmp_path / "agenttrace.toml"
    file.write_text(text)
    found = load_settings(environ={"AGENTTRACE_CONFIG": str(file), "HOME": str(tmp_path)})
    assert found.destinations or found.export.mask


def test_the_guide_has_every_setting_of_a_destination() -> None:
    """All that a table may hold, with the default it has."""
    section = GUIDE.read_text(encoding="utf-8").partition("## All settings of a destination")[2]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE)
    told = {
        name: default.strip('`"').replace(",", "") for names, default in rows for name in re.findall(r"`(\w+)`", names)
    }
    fields = {each.name: each for each in msgspec.structs.fields(DestinationSettings)}
    assert sorted(told) == sorted(fields.keys() - {"name", "missing"})
    for name in ("prompts", "start", "repeats", "timeout_seconds", "batch_spans", "max_body_bytes"):
        default = fields[name].default
        assert told[name] == (f"{default:g}" if isinstance(default, float) else str(default))


# -- reaching -------------------------------------------------------------------------------------------------


def test_check_reaches_each_destination_and_sends_no_span(program: Program, there: Collector) -> None:
    """Working and broken ones are reported, with the exit code of the worst; nothing is stored."""
    configure(program, otlp(there.url) + FILES)
    program.run("export", "check")
    configure(program, otlp(there.url) + otlp("http://127.0.0.1:1", name="gone") + _keyed("lang"))
    found = {each["name"]: each for each in program.json("export", "check", code=1)}
    assert {name: each["ok"] for name, each in found.items()} == {"there": True, "gone": False, "lang": False}
    assert "THE_SECRET" in found["lang"]["problem"]
    program.run("export", "check", "there")
    assert "gone" in program.run("export", "check", "gone", code=1).stdout
    assert not there.spans
    assert not (program.home / "agenttrace.db").exists()


def _keyed(name: str) -> str:
    return f'[destinations.{name}]\ntype = "langfuse"\npublic_key = "pk-lf-1"\nsecret_key = "${{THE_SECRET}}"\n'


def test_a_destination_without_its_key_is_not_used_and_the_others_are(recorded_here: Program) -> None:
    """It is named with the variable that is missing, by the run, the status and the doctor."""
    configure(recorded_here, FILES + _keyed("lang"))
    told = recorded_here.run("export", "run", "--once", code=1)
    assert told.stderr.count("THE_SECRET") == 1
    assert written_spans(recorded_here) == Counter(recorded_spans(recorded_here))
    found = {each["name"]: each for each in recorded_here.json("export")["destinations"]}
    assert found["lang"]["state"] == "unused"
    assert "THE_SECRET" in found["lang"]["reason"]
    assert _doctor(recorded_here)["lang"]["state"] == "warn"


def _doctor(program: Program) -> dict[str, dict[str, str]]:
    """The findings about destinations, by name."""
    checks = [each for each in program.json("doctor")["checks"] if each["name"] == "export"]
    return {each["found"].split()[0].strip(":"): each for each in checks}


def test_the_doctor_names_what_keeps_spans_from_a_destination(recorded_here: Program) -> None:
    """Queued without an exporter, refused and unknown, each with the command that helps."""
    recorded_here.run("export", "run", "--once")
    assert _doctor(recorded_here)["files"]["state"] == "ok"
    for state, command in {
        "queued": "agenttrace export run --once",
        "refused": "agenttrace export retry files",
        "unknown": "agenttrace export accept files",
    }.items():
        with closing(sqlite3.connect(recorded_here.home / "agenttrace.db")) as connection, connection:
            connection.execute("UPDATE export_spans SET state = ?", (state,))
        check = _doctor(recorded_here)["files"]
        assert check["state"] == "warn"
        assert command in check["fix"]


def test_keys_are_never_shown(machine: Program) -> None:
    """Neither in any answer, nor in the store, whatever is asked and however it fails."""
    secrets = ("sk-lf-hidden-1", "hidden-header-2", "hidden-password-3", "lsv2_hidden_4")
    configure(
        machine,
        f"""
[destinations.lang]
type = "langfuse"
url = "http://user:{secrets[2]}@127.0.0.1:1"
public_key = "pk"
secret_key = "{secrets[0]}"
[destinations.open]
type = "otlp"
url = "http://127.0.0.1:1"
headers = {{ authorization = "{secrets[1]}" }}
[destinations.smith]
type = "langsmith"
url = "http://127.0.0.1:1"
api_key = "{secrets[3]}"
""",
    )
    machine.run("record", "--once")
    for name in ("lang", "open", "smith"):
        machine.run("export", "backfill", name, "--since", "all")
    said = []
    for arguments, code in ((("run", "--once"), 1), (("check",), 1), (("status",), 0), (("status", "lang"), 0)):
        for more in ((), ("--json",)):
            done = machine.run("export", *arguments, *more, code=code)
            said.append(done.stdout + done.stderr)
    said.append(machine.run("doctor").stdout)
    stored = (machine.home / "agenttrace.db").read_bytes() + (machine.home / "agenttrace.db-wal").read_bytes()
    assert [secret for secret in secrets if secret in "".join(said) or secret.encode() in stored] == []


def test_sending_that_takes_long_shows_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing where it is over in a moment; else the spans that were dealt with, of all, up to the last."""
    output.stderr.cache_clear()
    with progress.SendingProgress(lambda: (7, 7), enabled=True) as shown:
        shown.update()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.0)
    figures = iter([(3, 7), (7, 7)])
    with progress.SendingProgress(lambda: next(figures), enabled=True) as shown:
        shown.update()
    assert "7 of 7" in capsys.readouterr().err
    output.stderr.cache_clear()


# -- as a process ---------------------------------------------------------------------------------------------


def test_one_exporter_a_data_directory(
    recorded_here: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """The second one says who the first is; what changes the store works beside it; Ctrl-C ends it well."""
    process = background("export", "run")
    exporter = eventually(lambda: _exporter(recorded_here), "the exporter")
    assert exporter == process.pid
    assert str(exporter) in recorded_here.run("export", "run", "--once", code=1).stderr
    assert str(exporter) in recorded_here.run("export", "forget", "files", "--yes", code=1).stderr
    recorded_here.run("export", "pause", "files")
    assert recorded_here.json("export", "status", "files")["state"] == "paused"
    recorded_here.run("export", "resume", "files")
    out, err = stop(process)
    assert process.returncode == 0, err
    assert "files: " in out
    assert _exporter(recorded_here) is None


def _is_made(program: Program) -> bool:
    try:
        connect(program.home / "agenttrace.db", read_only=True).close()
    except StoreError:
        return False
    return True


def _exporter(program: Program) -> int | None:
    found: int | None = program.json("export")["exporter"]["pid"]
    return found


def test_a_turn_is_sent_once_it_is_over(program: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """``record`` sends beside its work what is written after it began, and ends its exporter with itself."""
    configure(program, FILES.replace("all", "now") + "[export]\nquiet_seconds = 0.1\n")
    process = background("record")
    eventually(lambda: _is_made(program), "the store")
    eventually(lambda: _exporter(program), "the exporter")
    now = time.time()
    program.log(
        "one",
        {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "hello"},
        {"type": "turn.end", "id": "t", "ts": now + 1, "turn": 1},
        {"type": "turn.begin", "id": "u", "ts": now + 2, "turn": 2, "prompt": "more"},
    )
    eventually(lambda: written_spans(program).total() == 1, "the first turn to be sent")
    out, err = stop(process)
    assert process.returncode == 0, err
    assert "Sending to files (jsonl, " in out
    assert _exporter(program) is None
    assert written_spans(program).total() == 1


def test_the_exporter_dies_with_the_recorder_and_lives_on_without_itself(
    recorded_here: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Killed, it is started again; when its parent is killed, it ends too."""
    configure(recorded_here, FILES + "[export]\nquiet_seconds = 0.1\n")
    process = background("record")
    first = eventually(lambda: _exporter(recorded_here), "the exporter")
    os.kill(first, signal.SIGKILL)
    second = eventually(lambda: (found := _exporter(recorded_here)) != first and found, "another exporter")
    eventually(lambda: counts(recorded_here, "files")[0] == len(recorded_spans(recorded_here)), "everything sent")
    process.kill()
    process.wait()
    eventually(lambda: _exporter(recorded_here) is None, "the exporter to end")
    with pytest.raises(ProcessLookupError):
        eventually(lambda: os.kill(second, 0), "the process to be gone", seconds=30)
    assert written_spans(recorded_here) == Counter(recorded_spans(recorded_here))


def test_without_destinations_no_exporter_is_started(
    machine: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Nobody pays for what they do not use."""
    process = background("record")
    eventually(lambda: machine.recorder_pid() == process.pid, "the recorder")
    eventually(lambda: _has_spans(machine), "spans")
    assert not (machine.home / "exporter.lock").exists()
    stop(process)


def _has_spans(program: Program) -> bool:
    try:
        return bool(recorded_spans(program))
    except sqlite3.OperationalError:
        return False  # the store is being made


def test_a_second_exporter_waits_for_the_end_of_the_first(
    recorded_here: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """A recorder beside an exporter says so, and sends when that has ended."""
    configure(recorded_here, FILES + "[export]\nquiet_seconds = 0.1\n")
    with ExporterLock(recorded_here.home):
        process = background("record")
        eventually(lambda: recorded_here.recorder_pid() == process.pid, "the recorder")
        assert process.stderr is not None
        assert f"Process {os.getpid()} is exporting" in process.stderr.readline()
    eventually(lambda: counts(recorded_here, "files")[1:] == (0, 0, 0) and written_spans(recorded_here), "the spans")
    stop(process)
    assert written_spans(recorded_here) == Counter(recorded_spans(recorded_here))


def test_interrupted_while_sending(away: Program, there: Collector) -> None:
    """Ctrl-C lets the request under way finish; the next run sends the rest, and nothing twice."""
    configure(away, otlp(there.url).replace("start", "batch_spans = 1\nstart"))
    process = away.start("export", "run", "--once", "--json")
    assert there.asked.wait(60)
    out, err = stop(process)
    assert process.returncode in (0, 130), err
    done = json.loads(out)["destinations"][0]
    assert done["acknowledged"] == there.spans.total()
    assert done["acknowledged"] + done["left"] == len(recorded_spans(away))
    away.run("export", "run", "--once")
    assert there.spans == Counter(recorded_spans(away))


def test_a_store_that_is_rebuilt_is_sent_from(
    recorded_here: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """A damaged store is made anew while the exporter runs, and what is recorded into it afterwards is sent."""
    configure(recorded_here, FILES + "[export]\nquiet_seconds = 0.1\n")
    recorded_here.run("export", "run", "--once")
    before = written_spans(recorded_here)
    process = background("export", "run")
    eventually(lambda: _exporter(recorded_here) == process.pid, "the exporter")
    _replace(recorded_here.home / "agenttrace.db")
    now = time.time()
    recorded_here.log(
        "later",
        {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "hello"},
        {"type": "turn.end", "id": "t", "ts": now + 1, "turn": 1},
    )
    recorded_here.run("record", "--once")
    eventually(lambda: written_spans(recorded_here).total() > before.total(), "the new turn")
    stop(process)
    assert written_spans(recorded_here) == Counter(recorded_spans(recorded_here))


def test_a_store_that_is_rebuilt_while_it_is_opened_is_opened_anew(tmp_path: Path) -> None:
    """A process that opens the store while its file is replaced notices that, whichever of the two it opened."""
    path = tmp_path / "agenttrace.db"

    async def main() -> None:
        path.write_bytes(b"the first")
        async with watching_store(path, asyncio.Event()) as done:
            Path(f"{path}.new").write_bytes(b"the second")
            os.replace(f"{path}.new", path)
            await asyncio.wait_for(done.wait(), 30)

    asyncio.run(main())


def _replace(path: Path) -> None:
    """The same store as another file, as a rebuilt one is."""
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(f"{path}.new")) as new:
        old.backup(new)
        version = old.execute("PRAGMA user_version").fetchone()[0]
        new.execute(f"PRAGMA user_version = {version}")
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    os.replace(f"{path}.new", path)
