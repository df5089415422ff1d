"""Every kind of event, from what agents really write: what fires, and that it does once."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.record.recorder import Recorder
from agenttrace.store.exports import Listed
from agenttrace.store.sqlite.store import SqliteStore
from record import otlp_rig
from rules.rig import Rig, sessions_of
from telemetry_rig import conversation, lines

DATA = Path(__file__).parents[1] / "data"
HOOK = {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}
#: Directories with logs of agents, by what they are.
LOGS = {
    "claude": DATA / "claude-code-2.1.325" / "projects",
    "claude-older": DATA / "claude-code-2.1.197" / "projects",
    "codex": DATA / "codex-0.166.0" / "sessions",
    "codex-review": DATA / "codex-0.166.0-review" / "sessions",
    "kimi": DATA / "kimi-cli-1.49.0" / "sessions",
    "kimi-code": DATA / "kimi-code-2.1.0" / "sessions",
    "pi": DATA / "pi-0.87.1" / ".pi" / "agent" / "sessions",
    "qwen": DATA / "qwen-code-0.24.4" / "projects",
}
KINDS = {
    "tool": {"on": "tool.failed"},
    "turn": {"on": "turn.failed"},
    "ended": {"on": "session.ended", "settle": "1m"},
    "waiting": {"on": "session.waiting", "settle": "1m"},
}

MakeRig = Callable[..., Rig]


def tables(start: str = "all", **rules: dict[str, Any]) -> dict[str, Any]:
    """Rules with one action."""
    each = {name: {"do": ["hook"], "start": start, "max_per_day": 100_000, **rule} for name, rule in rules.items()}
    return {"rules": each, "actions": HOOK}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes rigs."""
    made: list[Rig] = []

    def make(start: str = "all", **rules: dict[str, Any]) -> Rig:
        made.append(Rig(tmp_path / str(len(made)), tables(start, **rules)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fired(rig: Rig) -> Counter[tuple[str, str, str | None]]:
    """What fired: rule, session, and the span if there is one."""
    found: Counter[tuple[str, str, str | None]] = Counter()
    for message in rig.noting.messages:
        for facts in message.events:
            span = facts.event.span
            assert facts.session is not None
            found[message.rule.name, facts.session.session_id, None if span is None else span.hex()] += 1
    return found


def query(rig: Rig, sql: str) -> set[tuple[Any, ...]]:
    """Rows of the store."""
    return set(rig.store.connection.execute(sql))


def expected(rig: Rig) -> set[tuple[str, str, str | None]]:
    """What should have fired after a long silence, as the store tells it."""
    failed = "SELECT '{}', n.session_id, lower(hex(s.span_id)) FROM spans s JOIN sessions n ON n.id = s.session_id "
    failed += "WHERE s.kind = '{}' AND s.status = 'error' {}"
    return (
        query(rig, failed.format("tool", "tool", ""))
        | query(rig, failed.format("turn", "turn", "AND s.stream = 'main'"))
        | query(rig, "SELECT 'ended', session_id, NULL FROM sessions WHERE events > 0")
        | query(rig, "SELECT 'waiting', session_id, NULL FROM sessions WHERE events > 0 AND state = 'waiting'")
    )


def settle(rig: Rig) -> None:
    """Long enough for everything."""
    rig.look()
    for _ in range(3):
        rig.wait(3600)
        rig.look()


@pytest.mark.parametrize("name", LOGS)
def test_logs_of_agents(rig: MakeRig, name: str) -> None:
    """Failed calls, failed turns, sessions that wait and sessions that have ended: each fires once, nothing else."""
    made = rig(**KINDS)
    shutil.copytree(LOGS[name], made.logs, dirs_exist_ok=True)
    made.record()
    settle(made)
    assert fired(made) == Counter(expected(made))
    assert fired(made).total() > 0


@pytest.mark.parametrize("name", LOGS)
def test_logs_that_grow(rig: MakeRig, name: str) -> None:
    """The same, whatever pieces the logs are recorded in, with looks and restarts in between."""
    made, chance = rig(**KINDS), random.Random(name)
    files = {path: path.read_bytes().splitlines(keepends=True) for path in LOGS[name].rglob("*.jsonl")}
    other = [path for path in LOGS[name].rglob("*") if path.is_file() and path not in files]
    for path in other:
        place = made.logs / path.relative_to(LOGS[name])
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    while any(files.values()):
        path = chance.choice([path for path, left in files.items() if left])
        count = chance.randint(1, 40)
        place = made.logs / path.relative_to(LOGS[name])
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab") as file:
            file.write(b"".join(files[path][:count]))
        del files[path][:count]
        made.record()
        # Less than it takes to settle: a session that is known by half goes on.
        made.wait(0.1)
        made.look()
        if chance.random() < 0.05:
            made.restart()
    settle(made)
    assert fired(made) == Counter(expected(made))


@pytest.mark.parametrize("name", LOGS)
def test_old_logs_write_no_events(rig: MakeRig, name: str) -> None:
    """A rule starts now: an import of what agents wrote before notes nothing."""
    made = rig("now", **KINDS, stuck={"on": "session.stuck"})
    made.now = time.time()
    shutil.copytree(LOGS[name], made.logs, dirs_exist_ok=True)
    made.restart()
    made.store.connection.execute("UPDATE rule_states SET since = ?", (round(time.time() * 1e6),))
    made.record()
    assert made.store.rules.events(10) == []
    settle(made)
    assert made.noting.messages == []
    assert made.firings() == []
