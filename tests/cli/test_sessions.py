"""``agenttrace sessions``."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli.session_ids import ShortIds, short_id
from agenttrace.cli.sessions import _COLUMNS
from agenttrace.ids import session_key, session_number

from .conftest import CLAUDE, CLAUDE_FORK, KIMI_CODE, Program

CONTRACT = [
    "session_id",
    "agent",
    "project",
    "title",
    "state",
    "started_at",
    "last_at",
    "turns",
    "steps",
    "tools",
    "usage",
    "cost",
]
USAGE = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "requests",
]


def test_fields_of_the_contract(recorded: Program) -> None:
    """The contract's fields come first, in its order, then what we add."""
    found = recorded.json("sessions")
    assert len(found) == 7
    for session in found:
        assert list(session)[: len(CONTRACT)] == CONTRACT
        assert list(session["usage"]) == USAGE


def test_golden_numbers_of_a_session_and_its_fork(recorded: Program) -> None:
    """The original owns what both hold; the fork is shown whole and pays only for what is new."""
    found = {session["session_id"]: session for session in recorded.json("sessions")}
    original, fork = found[CLAUDE], found[CLAUDE_FORK]
    assert original["started_at"] == "2026-11-15T09:09:04.911000Z"
    assert original["project"] == "/home/dev/work"
    assert original["title"] == "SCENARIO parallel please"
    assert (original["turns"], original["tools"]) == (2, 5)
    assert fork["turns"] == 3
    assert (original["parent"], fork["parent"]) == (None, CLAUDE)
    assert original["usage"]["requests"] + fork["usage"]["requests"] == 7
    assert original["usage"]["output_tokens"] + fork["usage"]["output_tokens"] == 442
    assert fork["usage"]["requests"] == 1
    assert fork["cost"] == pytest.approx(0.004358)


def test_unknown_prices_are_unknown(recorded: Program) -> None:
    """A session of an unknown model has no cost, which is not a cost of 0."""
    session = next(each for each in recorded.json("sessions") if each["session_id"] == KIMI_CODE)
    assert session["cost"] is None
    assert session["unpriced_tokens"] == sum(session["usage"][name] for name in USAGE[:4])


def test_newest_first_and_limited(recorded: Program) -> None:
    """The order is that of the last event; ``--limit 0`` means all."""
    times = [session["last_at"] for session in recorded.json("sessions", "--limit", "0")]
    assert times == sorted(times, reverse=True)
    assert len(recorded.json("sessions", "--limit", "2")) == 2


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (("--agent", "kimi-cli"), 3),
        (("--agent", "Claude Code"), 2),
        (("--project", "work"), 7),
        (("--project", "w_rk"), 0),
        (("--since", "2026-11-15T09:05:00Z"), 3),
        (("--since", "2099-01-01"), 0),
        (("--state", "waiting"), 0),
        (("--state", "ended"), 7),
        (("--state", "working"), 0),
    ],
)
def test_filters(recorded: Program, filters: tuple[str, ...], count: int) -> None:
    """Each filter lets through exactly what it names."""
    assert len(recorded.json("sessions", *filters)) == count


def test_wrong_filters_are_usage_errors(recorded: Program) -> None:
    """Exit code 2, and the way to write it."""
    assert "2026-11-01" in recorded.run("sessions", "--since", "soon", code=2).stderr
    assert "waiting" in recorded.run("sessions", "--state", "asleep", code=2).stderr


@pytest.mark.parametrize("columns", ["60", "80", "120", "200"])
def test_the_table_fits_the_terminal(recorded: Program, columns: str) -> None:
    """No line is wider than the terminal, and id, title and cost are always there."""
    text = recorded.run("sessions", env={"COLUMNS": columns}).stdout
    lines = text.splitlines()
    assert all(len(line) <= int(columns) for line in lines)
    assert "session" in lines[0]
    assert "title" in lines[0]
    assert "cost" in lines[0]
    assert "bb1bce27" in text


def test_states_as_of_now(program: Program) -> None:
    """Working while it says something, waiting when its turn ended, interrupted when it fell silent."""
    now = time.time()
    program.log("busy", {"type": "turn.begin", "ts": now, "prompt": "a"})
    program.log("done", {"type": "turn.begin", "ts": now, "prompt": "b"}, {"type": "turn.end", "ts": now})
    program.log("dead", {"type": "turn.begin", "ts": now - 3600, "prompt": "c"})
    program.log("over", {"type": "turn.begin", "ts": now, "prompt": "d"}, {"type": "session.end", "ts": now})
    program.run("record", "--once")
    states = {session["session_id"]: session["state"] for session in program.json("sessions")}
    assert states == {"busy": "working", "done": "waiting", "dead": "interrupted", "over": "ended"}
    assert "1 session waits for you" in program.run("sessions").stderr


def test_a_session_is_found_by_the_key_of_its_address(recorded: Program) -> None:
    """What the console has in its address is a name for commands too."""
    key = session_key(session_number("claude-code", CLAUDE))
    assert recorded.json("show", key)["session"]["session_id"] == CLAUDE


def test_nothing_recorded_yet(program: Program) -> None:
    """The first thing to do is named; nothing is created by looking."""
    done = program.run("sessions", code=1)
    assert "agenttrace record --once" in done.stderr
    assert not program.home.exists()


@given(st.lists(st.text("0123456789abcdef", min_size=9, max_size=20), unique=True, max_size=20))
def test_short_ids_tell_sessions_apart(names: list[str]) -> None:
    """Short ids are beginnings, at least eight characters, and no two are alike unless one id begins another."""
    ids = ShortIds(names)
    for name in names:
        short = ids.of(name)
        assert name.startswith(short)
        assert len(short) >= 8
        assert not short[8:] or any(other.startswith(short[:-1]) for other in names if other != name)
        clashes = [other for other in names if other != name and other.startswith(short)]
        assert not clashes or all(other.startswith(name) for other in clashes)


def test_listed_ids_are_enough(program: Program) -> None:
    """Whatever is listed, its id is long enough for ``show``; how many wait is said of all sessions."""
    for number in range(4):
        begin = {"type": "session.begin", "id": "s", "title": "job", "ts": time.time()}
        turn = {"type": "turn.begin", "id": "t", "turn": 1, "prompt": "go", "ts": time.time()}
        program.log(
            f"nightly-helper-{number}a", begin, turn, {"type": "turn.end", "id": "e", "turn": 1, "ts": time.time()}
        )
    program.run("record", "--once")
    told = program.run("sessions", "--limit", "2", env={"COLUMNS": "80"})
    ids = re.findall(r"^nightly\S+", told.stdout, re.MULTILINE)
    assert len(ids) == 2
    for each in ids:
        assert program.json("show", each)["session"]["session_id"].startswith(each)
    waiting = len(program.json("sessions", "--state", "waiting"))
    assert f"In all, {waiting} sessions wait" in " ".join(told.stderr.split())


def test_agents_stay_in_narrow_terminals() -> None:
    """Of the columns that are dropped, the agent is the last one."""
    numbers = {column.name: column.optional for column in _COLUMNS if column.optional}
    assert min(numbers, key=numbers.__getitem__) == "agent"


@pytest.mark.parametrize(
    ("session", "short"),
    [
        ("b341ac93-9d28-4a5f-b743-edcd63b5a71f", "b341ac93"),
        ("session_23a8c988-f8e6-415e-8d14-214153980f20", "23a8c988"),
        ("01a1e1cf-f87d-7674-87bb-90c7a760b790", "01a1e1cf-f87d"),
        ("1794790175621_zpeix", "1794790175621"),
        ("ses_e1e345bb1ffe4AORQaLi3JbBWQ", "ses_e1e345bb1"),
        ("2026-11-16T004828-12a2413c", "2026-11-16T004828"),
        ("nightly-helper-34ce2705533c", "nightly-helper-34ce2705533c"),
    ],
)
def test_short_ids_of_times(session: str, short: str) -> None:
    """An id that begins with a time is cut where sessions of the same hour differ."""
    assert short_id(session) == short
