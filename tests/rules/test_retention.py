"""Retention of rules: the log is bounded, and what left it never fires again."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agenttrace.cli.program import app
from agenttrace.record import maintenance
from rules.rig import START, Rig

DAY = 86_400.0
TABLES: dict[str, dict[str, Any]] = {
    "rules": {
        "tool": {"on": "tool.failed", "do": ["hook", "second"], "start": "all"},
        "ended": {"on": "session.ended", "settle": "1m", "do": ["hook"], "start": "all"},
        "held": {"on": "tool.failed", "do": ["hook"], "start": "all", "cooldown": "30d"},
        "dry": {"on": "tool.failed", "do": ["hook"], "start": "all", "mode": "dry"},
    },
    "actions": {name: {"type": "webhook", "url": "https://x"} for name in ("hook", "second")},
}


def happen(rig: Rig, *calls: str, session: str = "s") -> None:
    """A turn with these failed calls, and what rules do about it."""
    rig.write("turn.begin", session, turn=1, id=f"t{calls}")
    for call in calls:
        rig.tool(call, session)
    rig.write("turn.end", session, turn=1, id=f"t{calls}")
    rig.record()
    rig.look()
    rig.wait(61)
    rig.look()


def prune(rig: Rig, days: float = 90) -> int:
    """Store times are those of the real clock."""
    return sum(rig.store.rules.prune(time.time() + days * DAY, time.time() + (days + 3) * DAY))


def sizes(rig: Rig) -> dict[str, int]:
    names = ("rule_firings WHERE kind <> ''", "rule_actions", "rule_attempts", "rule_events")
    return {name: rig.store.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def again(rig: Rig) -> None:
    """The same logs into a store that lost everything but the journals."""
    rig.close()
    for path in rig.settings.home.glob("agenttrace.db*"):
        path.unlink()
    tables = {"rules": {name: TABLES["rules"][name] for name in rig.tables.rules}, "actions": TABLES["actions"]}
    fresh = Rig(rig.root, tables)
    fresh.now, fresh.steady = rig.now, rig.steady
    rig.__dict__.update(fresh.__dict__)
    rig.record()


def test_what_was_pruned_does_not_fire_again(tmp_path: Path) -> None:
    """Not when its events are noted once more, not from a rebuilt store; new ones do."""
    rig = Rig(tmp_path, TABLES)
    happen(rig, "a", "b", "c")
    first = {message.idempotency_key for message in rig.noting.messages}
    noted = [(each.rule, each.event) for each in rig.firings()]
    assert prune(rig) > 0
    assert sizes(rig)["rule_actions"] == 4, "of the last message of each rule"
    rig.noting.messages.clear()
    # As if their lines were new.
    rig.store.rules.note(event for _, event in noted)
    assert not rig.look()
    rig.wait(DAY * 31)
    happen(rig, "d", session="other")
    assert {message.rule.name for message in rig.noting.messages} >= {"tool", "ended"}
    sent = first | {message.idempotency_key for message in rig.noting.messages}
    assert not first & {message.idempotency_key for message in rig.noting.messages}
    prune(rig)
    again(rig)
    rig.wait(DAY)
    (late,) = rig.look()
    assert late.rule.name == "held", "its cooldown had not ended"
    assert late.idempotency_key not in sent
    rig.close()


def test_the_log_is_bounded(tmp_path: Path) -> None:
    """Of a firing no more than a key stays; open ones, today's and the last message stay whole."""
    rig = Rig(tmp_path, TABLES)
    for number in range(40):
        happen(rig, f"c{number}", session=f"s{number}")
    assert sizes(rig)["rule_firings WHERE kind <> ''"] >= 160
    assert sum(rig.store.rules.prune(time.time(), time.time())) == 0, "today's firings count for daily caps"
    held = len(rig.firings(["held"]))
    assert held == 39
    assert rig.store.rules.measure(time.time() + 90 * DAY, time.time() + 93 * DAY) == prune(rig)
    left = rig.firings()
    assert len([each for each in left if each.state == "held"]) == held
    assert len([each for each in left if each.state != "held"]) <= 4
    assert sizes(rig)["rule_attempts"] <= 6
    assert prune(rig) == 0
    assert rig.store.rules.last_message_at("held") is not None, "its cooldown goes on"
    rig.wait(31 * DAY)
    (message,) = rig.look()
    assert len(message.events) == held
    rig.close()


def test_a_message_that_waits_keeps_what_it_collected(tmp_path: Path) -> None:
    """However old: the events of a message that is tried again are in it."""
    from agenttrace.rules.actions.contract import ActionResult

    rig = Rig(tmp_path, {**TABLES, "rules": {"held": {**TABLES["rules"]["held"], "cooldown": "10m"}}})
    happen(rig, "a")
    happen(rig, "b", "c")
    rig.noting.results = [ActionResult("retry", "busy")]
    rig.wait(601)
    rig.look()
    assert len(rig.firings(["collected"])) == 1
    prune(rig)
    rig.wait(60)
    (message,) = rig.look()
    assert len(message.events) == 2
    rig.close()


def test_events_that_no_rule_asks_for_go(tmp_path: Path) -> None:
    """Those of a rule that was switched off before it was asked, and sessions that were watched for it."""
    rig = Rig(tmp_path, TABLES)
    rig.write("turn.begin", turn=1, id="t1")
    for call in ("a", "b"):
        rig.tool(call)
    assert sizes(rig)["rule_events"] >= 2
    rig.store.rules.keep({})
    prune(rig)
    assert sizes(rig)["rule_events"] <= 1, "the last one stays, so that its number is not given again"
    assert not rig.store.rules.touched(10)
    rig.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from(["happen", "prune", "restart", "note", "lose"]), max_size=10))
def test_pruning_at_any_moment_fires_nothing_twice(steps: list[str]) -> None:
    """Each call once, however often the log is pruned, its events come back, and the store is lost."""
    with tempfile.TemporaryDirectory() as root:
        rig = Rig(Path(root), {**TABLES, "rules": {"tool": TABLES["rules"]["tool"]}})
        sent, events, calls = [], [], 0
        for step in (*steps, "note"):
            if step == "happen":
                calls += 1
                happen(rig, f"c{calls}", session=f"s{calls}")
                events += [each.event for each in rig.firings()]
            elif step == "prune":
                prune(rig)
            elif step == "restart":
                rig.restart()
            elif step == "lose":
                sent += rig.noting.messages
                again(rig)
            else:
                rig.store.rules.note(events)
            rig.look()
        keys = [message.idempotency_key for message in (*sent, *rig.noting.messages)]
        assert len(keys) == len(set(keys)) == 2 * calls, "two actions each"
        rig.close()


def test_recorder_and_command_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an hour by the setting, and by hand with an age; the command says how much, and asks before."""
    rig = Rig(tmp_path, TABLES)
    happen(rig, "a", "b")
    for _ in maintenance.run(rig.store, rig.settings, now=time.time() + 89 * DAY):
        pass
    before = sizes(rig)
    for _ in maintenance.run(rig.store, rig.settings, now=time.time() + 91 * DAY):
        pass
    after = sizes(rig)
    assert after["rule_actions"] < before["rule_actions"]
    assert rig.store.retention.report().firings > 0
    happen(rig, "c", "d", session="other")
    environ = {"AGENTTRACE_HOME": str(rig.settings.home), "HOME": str(rig.root)}
    then = time.time() + 10 * DAY
    monkeypatch.setattr("agenttrace.cli.prune.time.time", lambda: then)
    shutil.rmtree(rig.logs)

    def run(*arguments: str) -> dict[str, int]:
        done = CliRunner().invoke(app, ["prune", "--older-than", "5d", "--json", *arguments], env=environ)
        assert done.exit_code == 0, done.output
        found: dict[str, int] = json.loads(done.stdout)
        return found

    planned = run("--dry-run")["firings"]
    assert planned > 0
    assert run("--yes")["firings"] == planned
    assert run("--yes")["firings"] == 0
    assert then > START
    rig.close()
