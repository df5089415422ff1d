"""In the data directory of a team's server, commands, MCP and the library show the team's store."""

from __future__ import annotations

import json
import secrets
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import agenttrace
import clickhouse_on
from agenttrace.cli.errors import explained
from agenttrace.cli.program import app
from agenttrace.mcp import search, sessions, status
from agenttrace.mcp.tool_runner import ToolRunner
from agenttrace.store.current import StoreSource
from agenttrace.store.team_place import note_target

from .rig import Machine

_CLICKHOUSE = pytest.mark.skipif(not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team)")
#: Commands that ask, each with its words.
ASKING = (
    ("sessions",),
    ("sessions", "--person", "amy"),
    ("usage", "--by", "machine"),
    ("search", "parser"),
    ("insights",),
    ("insights", "tools"),
    ("outcomes",),
    ("overview",),
    ("limits",),
    ("requests", "s1"),
    ("tail", "--no-follow"),
    ("show", "s1"),
    ("compare", "s1", "s2"),
    ("note", "s1"),
    ("prices",),
    ("rules", "list"),
    ("rules", "log"),
    ("team", "now"),
    ("team", "machines"),
)


class Home:
    """The data directory of a server, and commands in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: str) -> str:
        done = CliRunner().invoke(app, list(words), env={"AGENTTRACE_HOME": str(self.path), "HOME": str(self.path)})
        problem = explained(done.exception) if isinstance(done.exception, Exception) else None
        assert done.exit_code == 0, (words, problem, done.output)
        return done.stdout

    def read(self, *words: str) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.run(*words, "--json"))


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("clickhouse", marks=[_CLICKHOUSE, pytest.mark.team, pytest.mark.xdist_group("clickhouse")]),
    ]
)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A server whose store has two machines, as the server left it: its store is noted, nothing else is there."""
    for name, session, text in (("desk", "s1", "the parser fails"), ("lap", "s2", "支付服务没有响应")):
        machine = Machine(tmp_path / "machines", name)
        machine.say(session, text, project="/projects/shop")
        machine.record()
    made = Home(tmp_path / "server")
    made.path.mkdir(mode=0o700)
    target: str | Path = tmp_path / "elsewhere.db"
    if request.param == "clickhouse":
        target = clickhouse_on.clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")
    note_target(made.path, StoreSource(target, is_team=True))
    made.run("team", "import", str(tmp_path / "machines"), "--person", "amy")
    return made


def test_commands_show_the_team(home: Home) -> None:
    """Lists, usage, search and single sessions are those of all machines; nothing is recorded or made beside it."""
    assert {each["machine"]: each["session_id"] for each in home.read("sessions")} == {"desk": "s1", "lap": "s2"}
    assert [row["machine"] for row in home.read("usage", "--by", "machine")["rows"]] == ["desk", "lap"]
    assert {hit["session_id"] for hit in home.read("search", "没有响应")} == {"s2"}
    assert {hit["machine"] for hit in home.read("search", "parser")} == {"desk"}
    for words in ASKING:
        home.run(*words)
    assert not (home.path / "agenttrace.db").exists()


def test_what_commands_write_is_beside_the_team_s_sessions(home: Home) -> None:
    """A note is in the list of the session, and found."""
    home.run("note", "s1", "look at this")
    home.run("star", "s2")
    assert [each["text"] for each in home.read("note", "s1")["annotations"]] == ["look at this"]
    assert {each["session_id"] for each in home.read("sessions", "--starred")} == {"s2"}


def test_rules_are_switched_for_the_team(home: Home) -> None:
    """Those that the server runs: its switches, and what a rule would have done where the store is a file."""
    home.run("rules", "enable", "done", "--dry")
    assert {each["name"]: each["mode"] for each in home.read("rules", "list")}["done"] == "dry"
    tried = CliRunner().invoke(app, ["rules", "test", "done", "--json"], env={"AGENTTRACE_HOME": str(home.path)})
    known = explained(tried.exception) if isinstance(tried.exception, Exception) else None
    assert tried.exit_code == 0 or (known is not None and "enable done --dry" in (known.fix or ""))
    assert not (home.path / "agenttrace.db").exists()


def test_the_library_and_mcp_show_the_team(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the commands do."""
    with agenttrace.open_store(home.path) as store:
        assert {each.machine for each in store.sessions()} == {"desk", "lap"}
        assert [hit.session.id for hit in store.search("parser")] == ["s1", "s1"]
        assert [row.group for row in store.usage("person")] == ["amy"]
    monkeypatch.setenv("AGENTTRACE_HOME", str(home.path))
    runner, over = ToolRunner(), threading.Event()
    lines = runner.asked(lambda context: sessions.listed(context, sessions.SessionArguments()), over)
    assert {each.session for each in lines.sessions} == {"s1", "s2"}
    hits = runner.asked(lambda context: search.found(context, search.SearchArguments(query="parser")), over)
    assert {hit.session for hit in hits.hits} == {"s1"}
    known = runner.asked(lambda context: status.recorded(context, status.StatusArguments()), over)
    assert [(each.name, each.sessions) for each in known.projects] == [("/projects/shop", 2)]


def test_what_is_about_one_machine_says_where_it_is(home: Home) -> None:
    """Recording and quarantine: this directory has a server, and no recorder."""
    for words in (("status",), ("quarantine", "list")):
        done = CliRunner().invoke(app, list(words), env={"AGENTTRACE_HOME": str(home.path)})
        assert isinstance(done.exception, Exception)
        known = explained(done.exception)
        assert known is not None
        assert ("team's server" in known.problem, "team status" in known.fix) == (True, True)


def test_what_this_machine_recorded_comes_first(tmp_path: Path) -> None:
    """A directory that a recorder and a server share shows what was recorded here, as before."""
    machine = Machine(tmp_path, "own")
    machine.say("mine", "hello")
    machine.record()
    other = Machine(tmp_path, "other")
    other.say("theirs", "hello")
    other.record()
    home = Home(machine.home)
    home.run("team", "import", str(other.home.parent))
    assert [each["session_id"] for each in home.read("sessions")] == ["mine"]
    with agenttrace.open_store(machine.home) as store:
        assert [each.id for each in store.sessions()] == ["mine"]


def test_an_empty_store_of_a_recorder_gives_way(tmp_path: Path) -> None:
    """A store without events, such as one that was made in passing, does not hide the team's."""
    other = Machine(tmp_path, "other")
    other.say("theirs", "hello")
    other.record()
    empty = Machine(tmp_path, "server")
    empty.record()
    home = Home(empty.home)
    home.run("team", "import", str(other.home.parent))
    assert [each["session_id"] for each in home.read("sessions")] == ["theirs"]
