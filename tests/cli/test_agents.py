"""The agents of a machine: all of them are found, recorded, listed, and their sessions can be resumed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forked
from agent_homes import KILO_HELPER, KILO_SESSION, KINDS, fill_home, golden_tokens
from agenttrace.model import Session
from agenttrace.record.formats import AGENTS
from agenttrace.service import kept_variables
from agenttrace.views.resume import Resume, quoted, resume_of

from .conftest import DATA, Program

#: How each agent goes on with a session.
COMMANDS = {
    "claude-code": "claude --resume {session}",
    "codex": "codex resume {session}",
    "copilot-cli": "copilot --resume={session}",
    "gemini-cli": "gemini --resume {session}",
    "qwen-code": "qwen --resume {session}",
    "kimi-cli": "kimi --session {session}",
    "kimi-code": "kimi --session {session}",
    "opencode": "opencode -s {session}",
    "kilo": "kilo -s {session}",
    "pi": "pi --session {log}",
    "cline": "cline --id {session}",
    "continue": "cn --fork {session}",
    "aider": "aider --restore-chat-history",
}
LIMITS = {"continue": "copy", "aider": "whole_history"}
#: Our own logs, programs that only send spans, and an extension of an editor.
WITHOUT_COMMAND = {"agenttrace", "otlp", "roo-code"}
#: Those that were made without real logs, with tests of their own.
UNSAMPLED = {"goose": "goose session --resume --session-id {session}", "grok": "grok --resume {session}"}
#: Those of which there are logs in the home directory.
SAMPLED = {*COMMANDS, "agenttrace"}


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A user of all agents, everything recorded."""
    user = tmp_path_factory.mktemp("everyone") / "user"
    user.mkdir()
    fill_home(user)
    program = Program(user)
    program.run("record", "--once", "--index")
    return program


def _sessions(program: Program) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for session in program.json("sessions"):
        found.setdefault(session["agent"], []).append(session)
    return found


def test_every_agent_is_found_and_counted(everyone: Program) -> None:
    """Without any settings, one run records all samples, and the tokens of each agent are the golden ones."""
    found = {
        row["agent"]: +Counter({kind: row[f"{kind}_tokens"] for kind in KINDS})
        for row in everyone.json("usage", "--by", "agent")["rows"]
    }
    found.pop("agenttrace")
    assert found == {agent: +tokens for agent, tokens in golden_tokens().items()}
    assert everyone.json("quarantine", "list") == []


def test_a_second_run_finds_nothing_new(everyone: Program) -> None:
    """Everything is recorded once, whatever kind of source it is in."""
    assert everyone.json("record", "--once")["recorded"] == 0


def test_kilo_has_its_subagent_inside(everyone: Program) -> None:
    """A session that Kilo started from another one is a stream of it; removed parts are no texts."""
    sessions = _sessions(everyone)["kilo"]
    assert [session["session_id"] for session in sessions] == [KILO_SESSION]
    assert (sessions[0]["turns"], sessions[0]["steps"], sessions[0]["tools"]) == (1, 2, 1)
    shown = everyone.json("show", KILO_SESSION, "--full")
    texts = [each["text"] for span in shown["spans"] for each in span.get("contents", [])]
    assert "" not in texts
    assert any(span["attributes"].get("stream") == KILO_HELPER or KILO_HELPER in str(span) for span in shown["spans"])


def test_doctor_shows_every_agent_with_its_home(everyone: Program) -> None:
    """What there is of each agent, and where it is."""
    found = next(check["found"] for check in everyone.json("doctor")["checks"] if check["name"] == "agents")
    for agent in AGENTS:
        title = re.escape(agent.title)
        logs = rf"{title}: [\d,]+ logs?, [^;]* \(" if agent.name in SAMPLED else rf"no logs of [^;]*{title}"
        assert re.search(logs, found), (agent.title, found)
    assert "(~/.gemini/tmp)" in found


def test_up_shows_every_agent(
    everyone: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is found before anything is recorded; a database is one log, however many sessions it has."""
    from agenttrace.cli.up import show_found, what_is_there
    from agenttrace.config import load_settings

    for name in (name for agent in AGENTS for name in agent.traits.variables):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(everyone.user))
    found = what_is_there(load_settings({"HOME": str(everyone.user), "AGENTTRACE_HOME": str(everyone.user / "new")}))
    assert {each["agent"] for each in found if each["sessions"]} == SAMPLED - {"agenttrace"}
    show_found(found)
    said = capsys.readouterr().out
    assert "OpenCode: 1 log," in said
    assert "Continue CLI: 8 sessions," in said
    assert ": none" not in said
    (none,) = (line for line in said.splitlines() if line.startswith("  no logs of: "))
    titles = {agent.name: agent.title for agent in AGENTS}
    assert sorted(none.partition(": ")[2].split(", ")) == sorted(
        titles[name] for name in titles.keys() - SAMPLED | {"agenttrace"}
    )


def test_agents_without_logs_are_wrapped_at_the_edge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a terminal no title is cut, and the names stay beside their label."""
    import sys

    from rich.console import Console

    from agenttrace.cli import output
    from agenttrace.cli.up import show_found

    console = Console(file=sys.stdout, width=50, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "stdout", lambda: console)
    show_found([{"agent": each.name, "title": each.title, "sessions": 0, "bytes": 0} for each in AGENTS])
    _, first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("  no logs of: AgentTrace JSONL,")
    assert rest
    assert all(line.startswith(" " * 14) and len(line) <= 50 for line in rest)
    shown = " ".join(line[14:].strip() for line in (first, *rest))
    assert shown == ", ".join(sorted((each.title for each in AGENTS), key=str.casefold))


def test_statusline_counts_sessions_of_all_agents(everyone: Program) -> None:
    """The line for prompts works with whatever was recorded."""
    told = everyone.json("statusline")
    assert "error" not in told
    assert everyone.run("statusline").stdout.strip()


def test_gemini_deletes_after_a_month(program: Program) -> None:
    """Logs that Gemini CLI deletes soon and that are not recorded are a warning; its settings count."""
    shutil.copytree(DATA / "gemini-cli-0.61.0" / ".gemini", program.user / ".gemini")
    then = time.time() - 27 * 86_400
    for path in program.user.rglob("*.jsonl"):
        os.utime(path, (then, then))

    def retention() -> tuple[str, str]:
        check = next(check for check in program.json("doctor")["checks"] if check["name"] == "retention")
        return check["state"], check["found"]

    state, found = retention()
    assert state == "warn"
    assert "Gemini CLI deletes transcripts after 30 days (its default)" in found
    (program.user / ".gemini" / "settings.json").write_text('{"general": {"sessionRetention": {"maxAge": "90d"}}}')
    assert retention()[0] == "ok"
    (program.user / ".gemini" / "settings.json").unlink()
    program.run("record", "--once")
    assert retention()[0] == "ok"


def test_only_these_agents_delete_by_age(everyone: Program) -> None:
    """Every other agent keeps its logs until the user deletes them."""
    told = [check["found"] for check in everyone.json("doctor")["checks"] if check["name"] == "retention"]
    assert sorted(found.partition(" deletes")[0] for found in told) == ["Claude Code", "Gemini CLI"]
    assert all("after 30 days" in found for found in told)


@pytest.mark.parametrize("name", ["cline", "continue", "opencode", "pi"])
def test_retention_by_kind_of_source(
    everyone: Program, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What an agent would delete counts as recorded, be it lines, documents or the rows of a database."""
    from agenttrace.config import load_settings
    from agenttrace.record.formats.contract import LogCleanup
    from agenttrace.views import checks, places

    agent = next(each for each in AGENTS if each.name == name)
    (home,) = (each for each in agent.homes({}, everyone.user) if each.exists())
    cleanup = LogCleanup(directory=home if home.is_dir() else home.parent, days=0.0, origin="a test")
    monkeypatch.setattr(type(agent), "cleanups", lambda self, logs: [cleanup] if self.name == name else [])
    monkeypatch.setenv("HOME", str(everyone.user))
    for here, state in ((everyone.user / ".agenttrace", "ok"), (tmp_path / "new", "warn")):
        settings = load_settings({"HOME": str(everyone.user), "AGENTTRACE_HOME": str(here)})
        found = [each for each in checks.deletions(settings, places.logs(settings)) if agent.title in each.found]
        assert [each.state for each in found] == [state], found


def test_the_service_gets_every_variable_that_moves_logs(tmp_path: Path) -> None:
    """Whatever variable an agent looks at to find its logs is one that the service is started with."""

    class Asked(dict[str, str]):
        def __init__(self) -> None:
            self.names: set[str] = set()

        def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as of a dictionary
            self.names.add(name)
            return default

    for agent in AGENTS:
        asked = Asked()
        agent.homes(asked, tmp_path)
        assert asked.names <= {*agent.traits.variables, "AGENTTRACE_HOME"}, agent.name
        told = dict.fromkeys(agent.traits.variables, "/elsewhere")
        assert set(told) <= set(kept_variables(tmp_path, told)), agent.name


# -- resume --------------------------------------------------------------------------------------------------------


def test_the_guide_names_every_agent_with_its_variables_and_its_command() -> None:
    """What the formats say is in the guide."""
    guide = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text()
    commands = {**COMMANDS, **UNSAMPLED}
    for agent in AGENTS:
        if agent.name in ("agenttrace", "otlp"):
            continue
        assert re.search(rf"^\| {agent.title} \|", guide, re.MULTILINE), agent.title
        assert [name for name in agent.traits.variables if f"${name}`" not in guide] == []
        if agent.name in commands:
            assert f"`{commands[agent.name].format(session='ID', log='FILE')}`" in guide


def test_every_agent_says_how_to_resume() -> None:
    """An agent that is added gets a command, or is named here as one that has none."""
    commands = {agent.name: agent.resume_command("id", []) for agent in AGENTS}
    assert {name for name, command in commands.items() if command is not None} == {*COMMANDS, *UNSAMPLED}
    assert {name for name, command in commands.items() if command is None} == WITHOUT_COMMAND
    for name, expected in UNSAMPLED.items():
        command = commands[name]
        assert command is not None
        assert " ".join(command.arguments) == expected.format(session="id")


@pytest.mark.parametrize("agent", COMMANDS)
def test_resume_prints_the_command(everyone: Program, agent: str, tmp_path: Path) -> None:
    """The agent's command after the session's directory; where that is gone, it says so and gives the command."""
    session = _sessions(everyone)[agent][0]
    if agent == "continue":
        written = {path.stem: path.stat().st_mtime_ns for path in (everyone.user / ".continue").rglob("*-*.json")}
        session = min(_sessions(everyone)[agent], key=lambda each: written[each["session_id"]])
    log = next(everyone.user.rglob(f"*_{session['session_id']}.jsonl"), None)
    command = COMMANDS[agent].format(session=session["session_id"], log=log)
    directory = session["project"]
    assert directory
    if not os.path.isdir(directory):
        refused = everyone.run("resume", session["session_id"], code=1)
        assert f"does not exist on this machine: {directory}" in refused.stderr
        assert " ".join(command.split()) in " ".join(refused.stderr.split())
        return
    assert everyone.run("resume", session["session_id"]).stdout == f"cd {directory} && {command}\n"
    told = everyone.json("resume", session["session_id"])
    assert told["arguments"] == command.split()
    assert told["limit"] == LIMITS.get(agent)


def test_continue_goes_on_with_its_latest_session_or_with_a_copy(everyone: Program) -> None:
    """``cn --resume`` takes no session: it would go on with another one."""
    documents = list((everyone.user / ".continue" / "sessions").glob("*-*.json"))
    latest = max(documents, key=lambda path: path.stat().st_mtime_ns)
    agent = next(agent for agent in AGENTS if agent.name == "continue")
    for document in documents:
        how = agent.resume_command(document.stem, [document])
        assert how is not None
        is_latest = document.stat().st_mtime_ns == latest.stat().st_mtime_ns
        assert how.arguments == (("cn", "--resume") if is_latest else ("cn", "--fork", document.stem))
        assert how.limit == ("latest_only" if is_latest else "copy")


#: What a file may have as the id of a session, or as its directory.
HOSTILE = (
    "x; touch bad",
    "$(touch bad)",
    "`touch bad`",
    "it's",
    "a\\",
    "\\'; touch bad; \\'",
    "a b",
    'a"b',
    "!!",
    "~",
    "a&b|c>d",
    "\u00e9\u4e2d",
)
REFUSED = ("-rf", "--dangerously-skip-permissions", "", "a\nb", "a\x1b[31m", "a\u202eb", "a\x00b")


def _resumed(agent: str, session_id: str, directory: str | None) -> Resume | None:
    """How to go on with a session of that name, without a store."""
    session = Session(id=1, agent=agent, session_id=session_id, project=directory)
    store = SimpleNamespace(source_files=lambda numbers: [], shows=lambda number: True)
    index = SimpleNamespace(of=lambda store, number: SimpleNamespace(files=list))
    return resume_of(store, session, index)  # type: ignore[arg-type]  # what it asks of them


@pytest.mark.parametrize("agent", [*COMMANDS, *UNSAMPLED])
def test_no_id_and_no_directory_injects(agent: str, tmp_path: Path) -> None:
    """A shell sees one word for each argument, in the directory, and runs nothing else; the rest is refused."""
    # One command names no session.
    named = agent != "aider"
    for text in HOSTILE:
        directory = tmp_path / text.replace("/", "")
        directory.mkdir(exist_ok=True)
        how = _resumed(agent, text, str(directory))
        assert how is not None
        assert any(text in argument for argument in how.arguments) == named
        program, *arguments = how.arguments
        shown = f"{program}() {{ pwd; printf '%s\\n' \"$@\"; }}; {how.line}"
        for shell in filter(shutil.which, ("sh", "bash", "zsh")):
            said = forked.run([shell, "-c", shown], capture_output=True, text=True, cwd=tmp_path, check=True)
            assert said.stdout.splitlines() == [str(directory), *arguments]
        assert not list(tmp_path.rglob("bad"))
    for text in REFUSED:
        assert _resumed(agent, text, "/") is None or not named
        how = _resumed(agent, "id", f"/tmp/{text}" if text.isprintable() else f"/{text}")
        assert how is not None
        assert how.directory is None or how.directory.isprintable()
        assert how.directory_left_out == (how.directory is None)
    for relative in ("-", "--help", "relative", ""):
        how = _resumed(agent, "id", relative)
        assert how is not None
        assert how.directory is None


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_reads_the_words_too() -> None:
    """A backslash in single quotes is one of fish's own."""
    for text in HOSTILE:
        said = forked.run(["fish", "-c", f"printf '%s' {quoted(text)}"], capture_output=True, text=True, check=True)
        assert said.stdout == text


@given(st.text(st.characters(exclude_characters="\x00")))
def test_quoted_words_are_read_back(text: str) -> None:
    """By the rules of POSIX; and single quotes protect no backslash, which fish would read."""
    assert shlex.split(f"x {quoted(text)} y") == ["x", text, "y"]
    inside = re.sub(r'"[^"]*"', "", quoted(text)) if "'" in quoted(text) else ""
    assert "\\" not in inside or '"' in text


def _pretend(program: Program, directory: Path, session: str) -> None:
    """A Claude Code session in a directory."""
    log = program.user / ".claude" / "projects" / "-x" / f"{session}.jsonl"
    log.parent.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": "0a0a0a0a-0000-4000-8000-000000000001",
        "sessionId": session,
        "cwd": str(directory),
        "timestamp": "2026-11-15T09:00:00.000Z",
        "message": {"role": "user", "content": "Hello"},
    }
    log.write_text(json.dumps(line) + "\n")
    program.run("record", "--once")


def test_resume_runs_the_agent_in_its_directory(program: Program, tmp_path: Path) -> None:
    """``--run`` becomes the agent, whose exit code comes back; the printed line does the same in a shell."""
    directory, session = tmp_path / "it's a $(touch bad); dir", "0a0a0a0a-1111-4111-8111-111111111111"
    directory.mkdir()
    _pretend(program, directory, session)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "claude").write_text('#!/bin/sh\npwd\necho "$@"\nexit 7\n')
    (tools / "claude").chmod(0o755)
    path = {"PATH": f"{tools}:{program.environment['PATH']}"}
    expected = f"{directory}\n--resume {session}\n"
    assert program.run("resume", session[:9], "--run", code=7, env=path).stdout == expected
    line = program.run("resume", session).stdout
    words = shlex.split(line)
    assert words == ["cd", str(directory), "&&", "claude", "--resume", session]
    assert "not installed" in program.run("resume", session, "--run", code=1, env={"PATH": "/nowhere"}).stderr
    program.run("resume", session, "--run", "--json", code=2)


def test_resume_of_a_session_of_another_machine(program: Program, tmp_path: Path) -> None:
    """Its log is not here, or only its telemetry is: the command is given with a warning."""
    session = "0a0a0a0a-1111-4111-8111-111111111111"
    _pretend(program, tmp_path, session)
    assert program.run("resume", session).stderr == ""
    shutil.rmtree(program.user / ".claude")
    done = program.run("resume", session)
    assert "not on this machine" in done.stderr
    assert done.stdout == f"cd {tmp_path} && claude --resume {session}\n"


def test_resume_runs_no_program_of_the_sessions_directory(program: Program, tmp_path: Path) -> None:
    """A PATH with a relative directory means that of the user, not one in a project that somebody else wrote."""
    session = "0a0a0a0a-1111-4111-8111-111111111111"
    for place, says in (("here", "right"), ("project", "wrong")):
        tool = tmp_path / place / "bin" / "claude"
        tool.parent.mkdir(parents=True)
        tool.write_text(f"#!/bin/sh\necho {says}\n")
        tool.chmod(0o755)
    _pretend(program, tmp_path / "project", session)
    done = forked.run(
        program.command("resume", session, "--run"),
        env={**program.environment, "PATH": f"bin:{program.environment['PATH']}"},
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "right\n"


def test_resume_is_refused_where_it_cannot_work(recorded: Program, program: Program) -> None:
    """An agent without such a command, and an id that would be an option of the agent's."""
    program.log("--dangerous", {"type": "turn", "id": "t1"})
    program.run("record", "--once")
    found = program.json("sessions")
    assert [session["agent"] for session in found] == ["agenttrace"]
    assert "no command" in program.run("resume", "--", found[0]["session_id"], code=1).stderr
    assert "no session" in recorded.run("resume", "nothing-like-it", code=1).stderr
