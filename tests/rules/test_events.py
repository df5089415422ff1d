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

from agenttrace.config.rule_tables import parse_tables
from agenttrace.export.destination import Delivery
from agenttrace.record.recorder import Recorder
from export.rig import Shelf, World
from rules.rig import START, Rig, sessions_of
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

TRACE = f"{1:032x}"
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
    # A fork copies calls of its session.
    call = "json_extract({}.attributes, '$.call')"
    original = f"SELECT {call.format('o')} FROM spans o WHERE o.kind = 'tool' AND o.session_id <> s.session_id"
    return (
        query(rig, failed.format("tool", "tool", f"AND NOT (n.copied AND {call.format('s')} IN ({original}))"))
        | query(rig, failed.format("turn", "turn", "AND s.stream = 'main'"))
        | query(rig, "SELECT 'ended', session_id, NULL FROM sessions WHERE events > 0")
        | query(rig, "SELECT 'waiting', session_id, NULL FROM sessions WHERE events > 0 AND state = 'waiting'")
    )


def lose_store(rig: Rig) -> None:
    """Everything has to be imported again."""
    rig.close()
    for path in rig.settings.home.glob("agenttrace.db*"):
        path.unlink()
    rig.recorder = Recorder(rig.settings, paths=[str(rig.logs)])
    rig.open()


def settle(rig: Rig) -> None:
    """Long enough for everything."""
    rig.look()
    for _ in range(3):
        rig.wait(3600)
        rig.look()


@pytest.mark.parametrize("first", ["rules", "logs"])
@pytest.mark.parametrize("name", LOGS)
def test_logs_of_agents(rig: MakeRig, name: str, first: str) -> None:
    """Failed calls, failed turns, sessions that wait and sessions that have ended: each fires once, nothing else.

    A rule that is written later looks back, and then the logs come a second time.
    """
    made = rig(**KINDS) if first == "rules" else rig()
    shutil.copytree(LOGS[name], made.logs, dirs_exist_ok=True)
    made.record()
    if first == "logs":
        made.look()
        made.tables = parse_tables(tables("all", **KINDS), Path("agenttrace.toml"), {})
        made.restart()
        made.look()
        lose_store(made)
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


def test_stuck(rig: MakeRig) -> None:
    """A session that works and says nothing is stuck, once in a turn; one that waits or was cancelled is not."""
    made = rig("now", stuck={"on": "session.stuck", "settle": "2m"})
    made.now = time.time() + 1
    made.restart()
    for session in ("a", "b", "c"):
        made.write("turn.begin", session, turn=1, id="t1")
    made.write("turn.end", "b", turn=1, id="t1")
    made.write("turn.end", "c", turn=1, id="t1", status="cancelled")
    made.record()
    made.wait(119)
    assert made.look() == []
    made.wait(2)
    assert [sessions_of(message) for message in made.look()] == [["a"]]
    made.write("tool.begin", "a", id="x", name="shell", arguments={})
    made.record()
    made.wait(300)
    assert made.look() == []
    made.write("turn.begin", "a", turn=2, id="t2")
    made.record()
    made.restart()
    assert made.look() == []
    made.wait(121)
    assert len(made.look()) == 1


@pytest.mark.parametrize("status", ["ok", "error", "cancelled"])
def test_how_turns_end(rig: MakeRig, status: str) -> None:
    """A turn that was cancelled did not fail, and the agent does not wait for an answer; the session has ended."""
    made = rig(**KINDS)
    made.turn(1, status=status)
    settle(made)
    found = Counter(message.rule.name for message in made.noting.messages)
    assert found == {"ok": {"waiting": 1, "ended": 1}, "error": {"turn": 1, "waiting": 1, "ended": 1}}.get(
        status, {"ended": 1}
    )


def test_an_end_in_the_log(rig: MakeRig) -> None:
    """A session that says that it has ended has; what comes later in it is no second end."""
    made = rig(**KINDS)
    made.turn(1)
    made.write("session.end")
    made.record()
    made.wait(61)
    assert [message.rule.name for message in made.look()] == ["ended"]
    assert made.reasons() == ["the session ended, or waited for longer than record.waiting_hours"]
    made.turn(2)
    made.wait(61)
    assert [message.rule.name for message in made.look()] == ["waiting"]


def test_a_question_in_a_turn(rig: MakeRig) -> None:
    """An agent that asks in the middle of a turn waits, and again at its end."""
    made = rig(waiting={"on": "session.waiting"})
    made.write("turn.begin", turn=1, id="t1")
    made.write("note", kind="waiting")
    made.record()
    assert len(made.look()) == 1
    made.write("tool.begin", id="x", name="shell", arguments={})
    made.write("tool.end", id="x", status="ok", result="x")
    made.write("turn.end", turn=1, id="t1")
    made.record()
    assert len(made.look()) == 1


def test_the_turn_of_a_subagent(rig: MakeRig) -> None:
    """It fails within a turn, which does not."""
    made = rig(**KINDS)
    shutil.copytree(LOGS["claude"], made.logs, dirs_exist_ok=True)
    made.record()
    settle(made)
    of_subagents = query(made, "SELECT lower(hex(span_id)) FROM spans WHERE kind = 'turn' AND stream <> 'main'")
    assert of_subagents
    assert not {(span,) for rule, _, span in fired(made) if rule == "turn"} & of_subagents


def test_telemetry_alone(rig: MakeRig) -> None:
    """A session without a log ends, too; its log, read later, fires nothing again."""
    made = rig(**KINDS)
    made.logs.joinpath("otlp").mkdir()
    (made.logs / "otlp" / "spans-2026-11-15.1.jsonl").write_bytes(b"".join(lines(*conversation("s1"))))
    made.record()
    settle(made)
    found = fired(made)
    assert found["ended", "s1", None] == 1
    (made.logs / "otlp" / "spans-2026-11-15.2.jsonl").write_bytes(b"".join(lines(*conversation("s1"))))
    made.record()
    settle(made)
    assert fired(made) == found


def otlp_span(number: int, parent: int | None = None, status: str = "ok", **attributes: str) -> dict[str, Any]:
    """A line of the intake's log."""
    begun = round(START * 1e9)
    found = {
        "otlp": 1,
        "trace": TRACE,
        "span": f"{number:016x}",
        "name": "work",
        "start": begun,
        "end": begun + 10**9,
        "attributes": {name.replace("__", "."): value for name, value in attributes.items()},
        "resource": {"service.name": "shop"},
        "status": status,
    }
    return found if parent is None else found | {"parent": f"{parent:016x}"}


def failing(number: int) -> dict[str, Any]:
    """A tool that failed."""
    return otlp_span(number, 1, "error", gen_ai__operation__name="execute_tool", gen_ai__tool__name="shell")


@pytest.mark.parametrize("looks", [False, True])
def test_a_trace_that_becomes_a_part_of_a_session(rig: MakeRig, looks: bool) -> None:
    """A failed call fires once, whether its session is named before or after that; what waited goes on."""
    made = rig(**KINDS)
    log = made.logs / "otlp" / "spans-2026-11-15.1.jsonl"
    log.parent.mkdir()

    def append(*found: dict[str, Any]) -> None:
        with log.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in found)
        made.record()

    append(failing(2))
    if looks:
        made.look()
    append(otlp_span(1, session__id="talk"))
    append(failing(2), failing(3))
    settle(made)
    found = Counter((rule, session) for rule, session, _ in fired(made).elements())
    assert found["tool", TRACE] == looks
    assert found["tool", TRACE] + found["tool", "talk"] == 2
    assert found["ended", "talk"] == 1
    assert "the session was removed" not in made.reasons()


def test_pruned_sessions(rig: MakeRig) -> None:
    """A session that is removed while an event settles fires with what is left of it, or says why not."""
    made = rig(**KINDS)
    made.turn(1, status="error")
    made.store.retention.prune_session(made.store.session("s").id, time.time())
    settle(made)
    assert all(firing.state in ("done", "skipped") for firing in made.firings())
    assert fired(made)["ended", "s", None] <= 1


def test_a_fork(rig: MakeRig) -> None:
    """What a fork copies from its session fires no second time."""
    made = rig(**KINDS)
    source = LOGS["claude"] / "-home-dev-claude-work"
    for path in source.glob("*.jsonl"):
        shutil.copy(path, made.logs / path.name)
    made.record()
    settle(made)
    before = fired(made)
    assert any(rule == "tool" for rule, _, _ in before)
    for path in source.glob("*.jsonl"):
        copy = "f" + path.stem[1:]
        found = [json.loads(each.replace(path.stem, copy)) for each in path.read_text().splitlines()]
        marked = [each | {"forkedFrom": {"sessionId": path.stem}} if "uuid" in each else each for each in found]
        (made.logs / f"{copy}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in marked))
    made.record()
    settle(made)
    again = Counter(rule for rule, _, _ in (fired(made) - before))
    assert again["tool"] == 0
    # Turns that failed before the model answered are told apart by nothing.
    without = "SELECT 1 FROM spans s WHERE kind = 'turn' AND status = 'error' AND stream = 'main' AND NOT EXISTS "
    without += "(SELECT 1 FROM spans WHERE parent_id = s.span_id AND response IS NOT NULL)"
    assert again["turn"] <= len(made.store.connection.execute(without).fetchall())


def test_quarantine(rig: MakeRig) -> None:
    """A line that cannot be recorded fires once, however often its file is read."""
    made = rig(bad={"on": "quarantine.grew"})
    made.now = time.time()
    made.turn(1)
    with (made.logs / "s.jsonl").open("a") as file:
        file.write('{"v": 1, "session": "s", "type": \n')
    made.record()
    (message,) = made.look()
    facts = message.events[0].event.facts
    assert facts["path"].endswith("s.jsonl")
    assert facts["reason"]
    made.turn(2)
    made.restart()
    assert made.look() == []


def test_a_refused_span(tmp_path: Path) -> None:
    """A destination that refuses a span says why; the event has the name of the destination and the session."""
    rules = tables(refused={"on": "export.refused", "where": {"destination": "there"}})
    made = Rig(tmp_path / "rules", rules)
    world = World(tmp_path, home=made.settings.home)
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=-1.0)
    shelf = Shelf()
    shelf.always = lambda shelf, spans: Delivery(verdict="refused", reason="400 malformed")
    world.deliver(shelf)
    messages = made.look()
    assert len(messages) == len(world.span_ids())
    assert {message.events[0].event.facts["reason"] for message in messages} == {"400 malformed"}
    assert {name for message in messages for name in sessions_of(message)} == {"s"}
    assert made.look() == []
    made.close()
