"""What came of usage: commits and lines by day, model and project, and the cost of a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.prices.costing import Cashier
from agenttrace.record.outcome_updates import update_all
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import UsageGroup, UsageQuery
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.usage import usage_report
from agenttrace.views.usage_outcomes import OutcomeReport, UsageOutcomes, with_outcomes

OPUS, HAIKU = "claude-opus-4-5", "claude-haiku-4-5"


def calls(session: str, project: str, *steps: tuple[str, str, str, str]) -> list[dict[str, Any]]:
    """A session of Claude Code: of each step the time, the model, a command and its output."""
    lines: list[dict[str, Any]] = []
    common = {"sessionId": session, "cwd": project, "version": "2.1.325", "isSidechain": False}
    for number, (at, model, command, output) in enumerate(steps):
        name = f"{session}-{number}"
        call = {"type": "tool_use", "id": f"t-{name}", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": f"t-{name}", "content": output}
        usage = {"input_tokens": 1000, "output_tokens": 1000}
        answer = {"id": f"m-{name}", "role": "assistant", "model": model, "content": [call], "usage": usage}
        when = common | {"timestamp": at}
        lines += [
            when | {"type": "user", "uuid": f"u-{name}", "message": {"role": "user", "content": "go"}},
            when | {"type": "assistant", "uuid": f"a-{name}", "message": answer},
            when | {"type": "user", "uuid": f"r-{name}", "message": {"role": "user", "content": [result]}},
        ]
    return lines


ONE = calls(
    "5bc45ad6-0000-4000-8000-000000000001",
    "/w/shop",
    ("2026-11-14T10:00:00Z", OPUS, "ls", "a"),
    ("2026-11-14T23:30:00Z", OPUS, "git commit -m a", "[main 1a2b3c4] a"),
    ("2026-11-15T10:00:00Z", HAIKU, "git commit -m b; git commit -m c", "[main 2b3c4d5] b\n[main 3c4d5e6] c"),
    ("2026-11-16T10:00:00Z", HAIKU, "ls", "a"),
)
#: Reports a commit of the other session, too.
TWO = calls(
    "6bc45ad6-0000-4000-8000-000000000002",
    "/w/other",
    ("2026-11-15T12:00:00Z", OPUS, "git commit -m d", "[main 4d5e6f7] d\n[main 2b3c4d5] b"),
)
NOTHING = UsageOutcomes(commits=0, added=0, removed=0, cost_per_commit={}, known_from=[])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, SqliteStore]]:
    home: Path = tmp_path_factory.mktemp("home")
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    for name, lines in (("one", ONE), ("two", TWO)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder = Recorder(settings, paths=[str(home / "one.jsonl"), str(home / "two.jsonl")], environ={})
    recorder.run_once()
    yield settings, recorder.store
    recorder.close()


def _found(recorded: tuple[Settings, SqliteStore], query: UsageQuery, zone: str = "UTC") -> OutcomeReport:
    """As it is read from the lines, which is the same as what is stored."""
    settings, store = recorded
    cashier = Cashier.load(settings)
    report = usage_report(store, cashier, query)
    read = with_outcomes(store, cashier, query, report, zone, read=True)
    update_all(store)
    assert with_outcomes(store, cashier, query, report, zone) == read
    return read


def _commits(found: OutcomeReport) -> dict[str, int]:
    return {each.name: found.groups[each.group].commits for each in found.usage.groups}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("day", {"2026-11-14": 1, "2026-11-15": 3, "2026-11-16": 0}),
        ("month", {"2026-11": 4}),
        ("model", {OPUS: 3, HAIKU: 2}),
        ("agent", {"claude-code": 4}),
        ("project", {"/w/shop": 3, "/w/other": 2}),
        ("session", {ONE[0]["sessionId"]: 3, TWO[0]["sessionId"]: 2}),
    ],
)
def test_commits_by_group(recorded: tuple[Settings, SqliteStore], by: UsageGroup, expected: dict[str, int]) -> None:
    """Each commit once in a group, and once in all; the cost of a commit is that of the group by its commits."""
    found = _found(recorded, UsageQuery(by=by))
    assert _commits(found) == expected
    assert found.total.commits == 4
    assert found.total.known_from == ["command output"]
    assert found.not_examined == 0
    for each in found.usage.groups:
        outcomes = found.groups[each.group]
        if outcomes.commits:
            cost = each.bill.costs["USD"] / 1e6
            assert outcomes.cost_per_commit == {"USD": pytest.approx(cost / outcomes.commits, abs=1e-6)}
        else:
            assert outcomes == NOTHING


def test_days_are_those_of_the_time_zone(recorded: tuple[Settings, SqliteStore]) -> None:
    """A commit late in the evening is one of the next day further east, where nothing else may have been used."""
    settings, store = recorded
    cashier, query = Cashier.load(settings), UsageQuery(by="day")
    report = usage_report(store, cashier, query)
    only = report._replace(groups=[each for each in report.groups if each.group == "2026-11-14"])
    found = with_outcomes(store, cashier, query, only, "Asia/Shanghai", read=True)
    assert _commits(found) == {"2026-11-14": 0, "2026-11-15": 4}
    assert found.groups["2026-11-15"].cost_per_commit == {}


def test_filters(recorded: tuple[Settings, SqliteStore]) -> None:
    """Those of usage hold for what came of it."""
    for query, commits in (
        (UsageQuery(since_day="2026-11-15"), 3),
        (UsageQuery(before_day="2026-11-15"), 1),
        (UsageQuery(models=frozenset([HAIKU])), 2),
        (UsageQuery(projects=frozenset(["/w/other"])), 2),
        (UsageQuery(project_contains="SHOP", since_day="2026-11-15"), 2),
        (UsageQuery(agents=frozenset(["codex"])), 0),
    ):
        assert _found(recorded, query).total.commits == commits


def test_sessions_that_wait_to_be_examined_are_counted(tmp_path: Path) -> None:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ONE))
    recorder = Recorder(settings, paths=[str(tmp_path / "one.jsonl")], environ={})
    recorder.run_once()
    cashier, query = Cashier.load(settings), UsageQuery()
    report = usage_report(recorder.store, cashier, query)
    found = with_outcomes(recorder.store, cashier, query, report, "UTC")
    assert (found.not_examined, found.total) == (1, NOTHING)
    recorder.close()
