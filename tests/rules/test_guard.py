"""The guard: what a hook is answered, in the contract of each agent, and that an agent goes on whatever fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forked
from agenttrace.cli import guard_hook
from agenttrace.config import load_settings
from agenttrace.rules import guard, state_files
from agenttrace.rules.hook_replies import reply_to
from spending import DOLLAR, Spent, opened, spend

AGENTS = ("claude-code", "codex", "copilot-cli", "gemini-cli", "opencode", "qwen-code")
PRICE = f'[prices."{DOLLAR}"]\ncurrency = "USD"\ninput = 1\noutput = 1\n'


class Home:
    """A data directory with budgets, as a hook finds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started: list[str | None] = []

    def budgets(self, text: str) -> None:
        """Write the settings."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        (self.path / "agenttrace.toml").write_text(f"{text}\n{PRICE}", encoding="utf-8")

    def spend(self, *spent: Spent) -> None:
        """Record these responses."""
        with opened(load_settings()) as store:
            spend(store, *spent)

    def ask(self, agent: str = "claude-code", event: str = "PreToolUse", **said: object) -> Any:  # noqa: ANN401
        """What a hook answers, as JSON; ``None`` where it says nothing."""
        fields = {"session_id": "s", "cwd": "/home/dev/shop", "hook_event_name": event, **said}
        reply = guard_hook.answer(str(self.path), agent, fields)
        assert reply.code == 0
        return json.loads(reply.stdout) if reply.stdout else None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A data directory; processes beside are noted and not started."""
    found = Home(tmp_path / "home")
    monkeypatch.setenv("AGENTTRACE_HOME", str(found.path))
    monkeypatch.delenv("AGENTTRACE_CONFIG", raising=False)
    monkeypatch.setattr(guard_hook, "start_refresh", found.started.append)
    return found


def now(name: str, dollars: float, **place: Any) -> Spent:  # noqa: ANN401
    """A response of this moment."""
    return Spent(name=name, at=time.time_ns() // 1000, tokens=round(dollars * 1_000_000), **place)


def test_it_warns_then_refuses_then_is_allowed(home: Home) -> None:
    """One warning for each level and session; at the limit the prompt and the tool are refused, until it is lifted."""
    home.budgets("[budgets.shop]\nperiod = 'month'\nlimit = 10\n")
    home.spend(now("1", 4))
    assert home.ask() is None
    home.spend(now("2", 2))
    (home.path / "guard/state.json").unlink()
    warning = home.ask()["systemMessage"]
    assert "budget shop is at 60%: $6.00 of $10.00 this month" in warning
    assert home.ask() is None
    assert home.ask(session_id="another")["systemMessage"] == warning
    home.spend(now("3", 5))
    (home.path / "guard/state.json").unlink()
    refused = home.ask()
    assert refused["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert refused["continue"] is False
    assert "$11.00 of $10.00" in refused["stopReason"]
    assert "agenttrace guard --allow 1h" in refused["stopReason"]
    assert home.ask(event="UserPromptSubmit") == {"decision": "block", "reason": refused["stopReason"]}
    line = {"at": time.time(), "until": time.time() + 60, "budget": "shop", "by": "me"}
    Path(guard.allowed_path(str(home.path))).write_text(f"{json.dumps(line)}\nnot json\n")
    assert "allowed for now" in home.ask()["systemMessage"]
    assert home.ask() is None
    log = (home.path / "guard/guard.log").read_text()
    assert "refuse claude-code session s: AgentTrace: budget shop is used up" in log


def test_budgets_of_others_do_not_matter(home: Home) -> None:
    """Of another agent, another directory, another session; of a model only where it is known to be that one."""
    home.budgets(
        "[budgets.agent]\ntokens = 1\nwhere = { agent = 'codex' }\n"
        "[budgets.project]\ntokens = 1\nwhere = { project = 'shop' }\n"
        "[budgets.model]\ntokens = 1\nwhere = { model = 'gpt-*' }\n"
        "[budgets.each]\nperiod = 'session'\ntokens = 1\n"
    )
    home.spend(now("1", 1, agent="codex", session="big", project="/home/dev/shop"))
    spoken = home.ask(session_id="new", cwd="/elsewhere")
    assert list(spoken) == ["systemMessage"]
    assert "budget model" in spoken["systemMessage"]
    assert home.ask(session_id="new", cwd="/elsewhere", model="opus") is None
    for said in ({"cwd": "/home/dev/shop"}, {"cwd": "/", "model": "gpt-5"}):
        assert "stopReason" in home.ask(**{"session_id": "new2", **said})
    texts = home.ask(agent="codex", session_id="big", cwd="/")["hookSpecificOutput"]["permissionDecisionReason"]
    # The directory is that of the recorded session.
    assert [line.split()[2] for line in texts.splitlines()] == ["agent", "project", "each"]


def test_a_budget_that_cannot_be_computed_refuses_nothing(home: Home) -> None:
    """It says what is missing, once."""
    home.budgets("[budgets.all]\nlimit = 1\n")
    home.spend(now("1", 5, model="nobody-knows"))
    assert "cannot be computed: no price is known for nobody-knows" in home.ask()["systemMessage"]
    assert home.ask() is None


def test_the_file_is_used_until_something_changes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked again when the settings have changed; when it has grown, beside, and after a minute."""
    asked = []
    from agenttrace.cli import guard_refresh

    def counted(place: str) -> Any:  # noqa: ANN401
        asked.append(place)
        return refreshed(place)

    refreshed = guard_refresh.refreshed
    monkeypatch.setattr(guard_refresh, "refreshed", counted)
    home.budgets("[budgets.all]\ntokens = 1000\n")
    home.spend(now("1", 0.0001))
    home.ask()
    home.ask()
    assert len(asked) == 1
    home.spend(now("2", 0.01))
    assert home.ask() is None  # decided by the file, which is seconds old
    assert len(asked) == 1
    _age(home, 10.0)
    started = len(home.started)
    home.ask(transcript_path="/log")
    assert home.started[started:] == ["/log"]
    _age(home, 100.0)
    assert "stopReason" in home.ask()
    assert len(asked) == 2
    home.budgets("[budgets.all]\ntokens = 10_000_000\n")
    assert home.ask() is None
    assert len(asked) == 3


def _age(home: Home, seconds: float) -> None:
    path = guard.state_path(str(home.path))
    state_files.write_json(path, {**state_files.read_json(path), "written_at": time.time() - seconds})


def test_without_budgets_a_store_that_grows_is_not_looked_at(home: Home) -> None:
    """Whoever installs the hook and sets no budget pays nothing for it."""
    home.budgets("")
    assert home.ask() is None
    home.spend(now("1", 5))
    _age(home, 1000.0)
    assert home.ask() is None
    assert state_files.read_json(guard.state_path(str(home.path)))["written_at"] < time.time() - 900


def test_budgets_before_the_first_recording(home: Home) -> None:
    """Nothing is spent; once a store is there, it counts."""
    home.budgets("[budgets.all]\ntokens = 1000\n")
    assert home.ask() is None
    home.spend(now("1", 1))
    _age(home, 100.0)
    assert "stopReason" in home.ask()


def test_the_log_of_a_session_is_recorded_while_nothing_else_records(home: Home, tmp_path: Path) -> None:
    """Else a budget would never be used up; a recorder that runs is left to it."""
    from agenttrace.cli.guard_refresh import refresh_beside
    from agenttrace.record.lock import RecorderLock

    home.budgets("[budgets.all]\nperiod = 'session'\ntokens = 10\n")
    home.spend(now("1", 0.000001))
    usage = {"input_tokens": 50, "output_tokens": 1}
    said = {"role": "assistant", "id": "m", "model": DOLLAR, "content": [], "stop_reason": "end_turn", "usage": usage}
    line = {"type": "assistant", "uuid": "u", "parentUuid": None, "isSidechain": False, "sessionId": "s", "cwd": "/"}
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    log = tmp_path / "s.jsonl"
    log.write_text(json.dumps({**line, "timestamp": at, "requestId": "r", "message": said}) + "\n")
    with RecorderLock(home.path):
        refresh_beside(str(log))
    assert home.ask() is None
    _age(home, 10.0)
    os.utime(guard.lock_path(str(home.path)), (0, 0))
    os.utime(log)
    home.started.clear()
    assert home.ask(transcript_path=str(log)) is None
    assert home.started == [str(log)]  # the store has not changed, but the log has
    refresh_beside(str(log))
    assert "51 of 10 tokens in this session" in home.ask()["stopReason"]


@pytest.mark.parametrize(
    ("where", "said", "refused"),
    [
        ("", b"", True),
        ("", b"[1]", True),
        ("", b"\xff\xfe\x00", True),
        ("where = { agent = 'claude-code' }", b"no json", True),
        ("where = { agent = 'codex' }", b"no json", False),
        ("where = { project = 'shop' }", b'{"session_id": [1, {"x"', False),
        ("where = { model = 'gpt-one-*' }", b"no json", False),
        ("period = 'session'", b"", False),
    ],
)
def test_a_session_that_is_not_known(home: Home, where: str, said: bytes, refused: bool) -> None:
    """Budgets of every session of the agent are used up for this one, too; those of some sessions refuse nothing."""
    home.budgets(f"[budgets.all]\nlimit = 1\n{where}\n")
    home.spend(now("1", 2, agent="claude-code"), now("2", 2, agent="codex", session="t"))
    done = _hook(home, said)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"stopReason" in done.stdout) is refused
    if refused:
        assert json.loads(done.stdout)["continue"] is False
        assert "budget all is used up" in (home.path / "guard" / "guard.log").read_text()


@pytest.mark.parametrize("damage", ["settings", "state", "store", "directory"])
def test_an_agent_goes_on_whatever_is_broken(home: Home, damage: str) -> None:
    """The hook says nothing and ends with 0; a log says why, unless there is no place for one."""
    home.budgets("[budgets.all]\ntokens = 1\n")
    home.spend(now("1", 1))
    said = b'{"session_id": "s", "hook_event_name": "PreToolUse"}'
    if damage == "settings":
        home.budgets("[budgets.all]\ntokens = 'many'\n")
    elif damage == "state":
        states: list[dict[str, object]] = [{"files": {}}, {"files": {}, "until": 1e12, "written_at": 0}]
        for broken in states:
            state_files.write_json(guard.state_path(str(home.path)), {"version": guard.VERSION} | broken)
            assert _hook(home, said).returncode == 0
    elif damage == "store":
        (home.path / "agenttrace.db").write_bytes(b"not a database" * 1000)
    else:
        (home.path / "guard").write_text("a file where a directory should be")
    done = _hook(home, said)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def _hook(home: Home, said: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "agenttrace.cli.main", "guard", "--agent", "claude-code"]
    environment = {**os.environ, "AGENTTRACE_HOME": str(home.path)}
    done: subprocess.CompletedProcess[bytes] = forked.run(
        command, input=said, env=environment, capture_output=True, timeout=60, check=False
    )
    return done


@pytest.mark.parametrize("agent", [*AGENTS, "another"])
def test_every_agent_is_answered_in_its_words(agent: str) -> None:
    """Nothing to say is nothing said; a refusal blocks the tool by JSON or by exit code 2."""
    assert vars(reply_to(agent, "PreToolUse", guard.Verdict("go"))) == {"stdout": "", "stderr": "", "code": 0}
    reply = reply_to(agent, "PreToolUse", guard.Verdict("refuse", ["too much"]))
    assert (reply.code, reply.stderr) == ((2, "too much") if agent == "another" else (0, ""))
    if agent != "another":
        assert "deny" in reply.stdout
        assert "too much" in reply.stdout
    warning = reply_to(agent, "PreToolUse", guard.Verdict("warn", ["soon"]))
    assert warning.code == 0
    assert "soon" in warning.stdout + warning.stderr


def test_codex_ignores_replies_that_have_fields_it_does_not_know() -> None:
    """Before tools it takes the decision, and neither ``continue`` nor ``stopReason``."""
    reply = json.loads(reply_to("codex", "PreToolUse", guard.Verdict("refuse", ["x"])).stdout)
    assert set(reply) == {"systemMessage", "hookSpecificOutput"}


budgets = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "c"]),
        "place": st.just("2026-11-11"),
        "share": st.none() | st.floats(0, 3),
        "crossed": st.lists(st.sampled_from([0.5, 0.8, 1.0])),
        "text": st.just("1 of 2 today"),
        "ends": st.sampled_from(["", "2026-11-12 00:00"]),
        "problem": st.just("why"),
        "agents": st.lists(st.sampled_from(["codex", "claude-code"])),
        "projects": st.lists(st.sampled_from(["shop", "/home/dev/*"])),
        "models": st.lists(st.sampled_from(["gpt-*", "opus"])),
        "machines": st.lists(st.sampled_from(["laptop-*"]), max_size=1),
        "persons": st.lists(st.sampled_from(["amy"]), max_size=1),
        "session": st.none() | st.sampled_from(["s", "t"]),
        "agent": st.just("codex"),
    }
)


@given(
    st.lists(budgets, max_size=4),
    st.sampled_from(["codex", "claude-code"]),
    st.dictionaries(st.sampled_from(["session_id", "cwd", "model", "hook_event_name"]), st.text() | st.none()),
    st.dictionaries(st.sampled_from(["", "a", "b"]), st.floats(0, 10)),
)
def test_only_a_used_up_budget_of_this_session_refuses(
    given_budgets: list[dict[str, Any]], agent: str, said: dict[str, Any], allowed: dict[str, float]
) -> None:
    """For any budgets, sessions and allowances."""
    call = guard.Call(agent, said)
    verdict, keys = guard.decide({"budgets": given_budgets, "sessions": {}}, call, allowed, 5.0)
    refusing = [
        each
        for each in given_budgets
        if each["share"] is not None
        and each["share"] >= 1
        and guard.concerns(each, call, {})
        and max(allowed.get("", 0), allowed.get(each["name"], 0)) <= 5.0
    ]
    assert (verdict.kind == "refuse") == bool(refusing)
    assert len(verdict.reasons) == (len(refusing) if refusing else len(keys))


def test_the_hook_loads_nothing_that_takes_time(home: Home) -> None:
    """An agent waits for it at every tool call: no settings, no store, no command line, not even ``typing``."""
    home.budgets("[budgets.all]\ntokens = 10\nwhere = { project = 'shop' }\n")
    home.spend(now("1", 0.00000001))
    home.ask()
    script = (
        "import sys; sys.argv = ['agenttrace', 'guard', '--agent', 'codex']\n"
        "from agenttrace.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=b'{"cwd": "/home/dev/shop"}',
        env={**os.environ, "AGENTTRACE_HOME": str(home.path)},
        capture_output=True,
        check=True,
    )
    loaded = set(done.stderr.decode().split())
    own = {name for name in loaded if name.startswith("agenttrace")}
    assert "agenttrace.projects" in own
    assert own <= {
        "agenttrace",
        "agenttrace.cli",
        "agenttrace.cli.guard_hook",
        "agenttrace.cli.hook_input",
        "agenttrace.cli.main",
        "agenttrace.projects",
        "agenttrace.rules",
        "agenttrace.rules.guard",
        "agenttrace.rules.hook_replies",
        "agenttrace.rules.state_files",
    }
    assert not loaded & {"typing", "msgspec", "sqlite3", "pathlib", "subprocess", "tomllib", "rich", "typer"}


# -- the status line of Claude Code -----------------------------------------------------------------------------------


def _statusline(home: Home, **options: Any) -> str:  # noqa: ANN401
    command = [sys.executable, "-m", "agenttrace.cli.main", "statusline"]
    environment = {**os.environ, "AGENTTRACE_HOME": str(home.path)}
    done = forked.run(command, env=environment, capture_output=True, timeout=60, check=True, **options)
    assert done.stderr == b""
    return str(done.stdout.decode())


def test_the_status_line_of_claude_code(home: Home) -> None:
    """Model, cost, limits and budget on one line; the limits are kept for other commands."""
    home.budgets("[budgets.all]\ntokens = 100\n")
    home.spend(now("1", 0.00008))
    home.ask()
    later = time.time() + 2.5 * 3600
    said = {
        "session_id": "s",
        "model": {"id": "claude-opus-4-6", "display_name": "Opus 4.6"},
        "cost": {"total_cost_usd": 1.234},
        "rate_limits": {
            "five_hour": {"used_percentage": 23.5, "resets_at": later},
            "seven_day": {"used_percentage": 41.2, "resets_at": later + 4 * 86_400},
        },
    }
    line = _statusline(home, input=json.dumps(said).encode())
    assert line.replace("2h29m", "2h30m") == "Opus 4.6 · $1.23 · 5h 24% (2h30m) · 7d 41% (4d02h) · all 80%\n"
    known = state_files.read_json(state_files.claude_path(str(home.path)))
    assert known["five_hour"]["used_percent"] == 23.5
    assert _statusline(home, input=json.dumps({"session_id": "s"}).encode()).startswith("5h 24%")


def _then(home: Home, command: str, said: bytes, **options: Any) -> list[str]:  # noqa: ANN401
    """The lines that are printed with a command of the user."""
    own = [sys.executable, "-m", "agenttrace.cli.main", "statusline", "--then", command]
    environment = {**os.environ, "AGENTTRACE_HOME": str(home.path)}
    done = forked.run(own, env=environment, capture_output=True, timeout=60, check=True, input=said, **options)
    return list(done.stdout.decode().splitlines())


def test_a_status_line_of_the_user_stands_above_it(home: Home, tmp_path: Path) -> None:
    """It gets the same input, byte for byte, and is printed as it is, all its lines."""
    home.budgets("")
    said = json.dumps(
        {"session_id": "s", "model": {"display_name": "Opus"}, "odd": "é \n"}, ensure_ascii=False
    ).encode()
    got = tmp_path / "got"
    command = f"cat > '{got}'; printf '\\033[1mbranch\\033[0m\\nclean  \\n'"
    assert _then(home, command, said) == ["\x1b[1mbranch\x1b[0m", "clean  ", "Opus"]
    assert got.read_bytes() == said


@pytest.mark.parametrize("command", ["exit 3", "/nowhere/at-all 2>/dev/null", "true", "kill -9 $$"])
def test_a_status_line_of_the_user_that_fails_costs_nothing(home: Home, command: str) -> None:
    """Also one that does not read its input, however much it is."""
    home.budgets("")
    said = json.dumps({"session_id": "s", "model": {"display_name": "Opus"}, "more": "x" * 200_000}).encode()
    assert _then(home, command, said) == ["Opus"]


def test_a_status_line_of_the_user_that_hangs_is_ended(home: Home, tmp_path: Path) -> None:
    """With all that it started."""
    home.budgets("")
    numbers = tmp_path / "numbers"
    said = json.dumps({"session_id": "s", "model": {"display_name": "Opus"}}).encode()
    assert _then(home, f"sleep 600 & echo $! > '{numbers}'; echo $$ >> '{numbers}'; wait", said) == ["Opus"]

    def is_over(number: int) -> bool:
        try:
            return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    assert all(is_over(int(each)) for each in numbers.read_text().split())


def _silent_pipe(run: Callable[[int], str]) -> str:
    reading, writing = os.pipe()
    try:
        return run(reading)
    finally:
        os.close(reading)
        os.close(writing)


def test_the_status_line_does_not_wait_for_a_silent_pipe(home: Home) -> None:
    """In a shell prompt and in tmux nobody writes to stdin: it prints what it always did."""
    home.budgets("")
    home.spend(now("1", 1, session="w"))
    assert "today" in _silent_pipe(lambda number: _statusline(home, stdin=number))
    assert "today" in _statusline(home, stdin=subprocess.DEVNULL)
    assert "today" in _statusline(home, input=b"no json")
    home.budgets("[budgets.all]\ntokens = 1_250_000\n")
    assert ", all 80%" in _statusline(home, stdin=subprocess.DEVNULL)
