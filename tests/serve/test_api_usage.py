"""``/api/v1/usage``: every grouping of the same tokens, as JSON and as a table."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forked
from agenttrace.serve.api.sessions.usage import usage_table
from agenttrace.serve.api.shapes.figures import Bill
from agenttrace.serve.api.shapes.usage import UsageAnswer, UsageGroup
from agenttrace.views.usage import day_after, first_day
from agenttrace.views.usage_outcomes import UsageOutcomes

from .servers import Outliving
from .trace_rig import Logs
from .views_rig import Client, ask, found_logs, serving

T = TypeVar("T")

GROUPINGS = ("day", "month", "model", "agent", "project", "session", "machine", "person")
SPLITS = ("model", "agent", "project", "machine", "person")
COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "requests",
    "unpriced_tokens",
    "estimated_requests",
    "folded_copies",
)
#: One day earlier and later than all the other lines, with another model, in yuan and without a price.
OTHERS = (
    {"ts": "2026-10-31T12:00:00Z", "model": "mystery", "response": "r1", "usage": {"input_tokens": 11}},
    {"ts": "2026-11-17T12:00:00Z", "model": "qwen-max", "response": "r2", "usage": {"output_tokens": 1_000_003}},
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    made = found_logs(tmp_path_factory.mktemp("usage"))
    made.use_samples()
    for line in OTHERS:
        made.append("others", "usage", **line)
    made.record(index=False)
    return made


class Server(Outliving[Client]):
    """One server for all examples of a test."""

    def __init__(self, logs: Logs) -> None:
        super().__init__(serving(logs.settings))
        self.client = self.value

    def usage(self, **query: Any) -> Any:  # noqa: ANN401 - JSON
        return self.run(self.client.json("/usage", **query))

    def table(self, **query: Any) -> list[dict[str, str]]:  # noqa: ANN401 - any query
        answer = self.run(self.client.get("/usage.csv", **query))
        assert answer.status == 200, answer.body
        return list(csv.DictReader(io.StringIO(answer.body.decode(), newline=""), strict=True))


@pytest.fixture(scope="module")
def server(logs: Logs) -> Iterator[Server]:
    made = Server(logs)
    yield made
    made.close()


def sums(bills: Iterable[dict[str, Any]]) -> dict[str, int]:
    listed = list(bills)
    return {name: sum(bill[name] for bill in listed) for name in COUNTS}


def assert_adds_up(whole: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Counts exactly; money but for the rounding of each part to a millionth."""
    assert sums([whole]) == sums(parts)
    for currency, amount in whole["costs"].items():
        found = sum(part["costs"].get(currency, 0.0) for part in parts)
        assert found == pytest.approx(amount, abs=1e-6 * len(parts))
    assert set(whole["unpriced_models"]) == {model for part in parts for model in part["unpriced_models"]}


@pytest.mark.parametrize("by", GROUPINGS)
def test_the_total_is_the_sum_of_its_rows_and_what_the_command_line_says(server: Server, logs: Logs, by: str) -> None:
    """However usage is grouped, its rows add up to one total, and both are those of ``agenttrace usage --json``."""
    found = server.usage(by=by)
    assert found["by"] == by
    assert len(found["rows"]) > (0 if by in ("project", "machine", "person") else 1)
    assert_adds_up(found["total"], [row["bill"] for row in found["rows"]])
    printed = _printed(logs, by)
    assert found["total"] == printed["total"]
    assert {row["group"]: row["bill"] for row in found["rows"]} == {row.pop(by): row for row in printed["rows"]}


def _printed(logs: Logs, by: str) -> Any:  # noqa: ANN401 - JSON
    done = forked.run(
        [sys.executable, "-m", "agenttrace.cli.main", "usage", "--by", by, "--json"],
        env={**os.environ, "AGENTTRACE_HOME": str(logs.settings.home)},
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


names = st.lists(st.sampled_from(["claude-code", "codex", "kimi-cli", "agenttrace", "no such agent"]), unique=True)
models = st.lists(st.sampled_from(["claude-sonnet-4-5", "kimi-mock", "mystery", "qwen-max"]), unique=True)
projects = st.lists(st.sampled_from(["/home/dev/work", "", "/nowhere"]), unique=True)
days = st.none() | st.sampled_from(["2026-10-31", "2026-11-15", "2026-11-16", "2026-11-17", "2026-11-18"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    by=st.sampled_from(GROUPINGS),
    split=st.none() | st.sampled_from(SPLITS),
    agents=names,
    models=models,
    projects=projects,
    since=days,
    until=days,
)
def test_filters_divide_and_parts_add_up(
    server: Server,
    by: str,
    split: str | None,
    agents: list[str],
    models: list[str],
    projects: list[str],
    since: str | None,
    until: str | None,
) -> None:
    """Any filters with any grouping: rows add up to the total, parts to their row, and filters leave a part of all."""
    given = {"agent": agents, "model": models, "project": projects, "since": since, "until": until, "split": split}
    query = {name: value for name, value in given.items() if value not in (None, [])}
    found = server.usage(by=by, **query)
    assert_adds_up(found["total"], [row["bill"] for row in found["rows"]])
    for row in found["rows"]:
        if split is None:
            assert row["parts"] == []
        else:
            assert_adds_up(row["bill"], [part["bill"] for part in row["parts"]])
            assert len({part["name"] for part in row["parts"]}) == len(row["parts"])
    assert found["total"]["requests"] == sum(_fits(row, agents, models, projects, since, until) for row in _all(server))
    table = server.table(by=by, **query)
    assert {name: sum(int(row[name]) for row in table) for name in COUNTS} == sums([found["total"]])


_KNOWN: list[dict[str, Any]] = []


def _all(server: Server) -> list[dict[str, Any]]:
    """Requests by day, agent, model and project, asked for one by one."""
    if not _KNOWN:
        for agent in [row["group"] for row in server.usage(by="agent")["rows"]]:
            for project in [row["group"] or "" for row in server.usage(by="project", agent=agent)["rows"]]:
                for row in server.usage(by="day", split="model", agent=agent, project=project)["rows"]:
                    for part in row["parts"]:
                        place = {"day": row["group"], "agent": agent, "project": project, "model": part["name"]}
                        _KNOWN.append({**place, "requests": part["bill"]["requests"]})
    return _KNOWN


def _fits(
    row: dict[str, Any],
    agents: list[str],
    models: list[str],
    projects: list[str],
    since: str | None,
    until: str | None,
) -> int:
    fits = (
        (not agents or row["agent"] in agents)
        and (not models or row["model"] in models)
        and (not projects or row["project"] in projects)
        and (since is None or row["day"] >= since)
        and (until is None or row["day"] < until)
    )
    return int(row["requests"]) if fits else 0


def test_rows_stand_in_an_order_that_means_something(server: Server) -> None:
    """Days and months go forward; of everything else, what used the most comes first."""
    for by in ("day", "month"):
        groups = [row["group"] for row in server.usage(by=by)["rows"]]
        assert groups == sorted(groups)
    # Two currencies cannot be compared: tokens decide.
    tokens = [_tokens(row["bill"]) for row in server.usage(by="model")["rows"]]
    assert tokens == sorted(tokens, reverse=True)
    costs = [row["bill"]["cost"] or 0 for row in server.usage(by="session", agent=["claude-code", "codex"])["rows"]]
    assert costs == sorted(costs, reverse=True)


def _tokens(bill: dict[str, Any]) -> int:
    return sum(int(bill[name]) for name in COUNTS[:4])


def test_sessions_can_be_linked_to(server: Server) -> None:
    """Grouped by session, each row has the key and the title of its session; nothing else has."""
    index = server.client.context.index
    server.run(index.refresh())
    known = {row.key: row for row in index.rows()}
    rows = server.usage(by="session")["rows"]
    assert rows
    for row in rows:
        session = known[row["key"]]
        assert (row["group"], row["title"], row["bill"]) == (session.session_id, session.title, _as_json(session.bill))
    assert {(row["key"], row["title"]) for row in server.usage(by="agent")["rows"]} == {(None, None)}


def _as_json(bill: Bill) -> dict[str, Any]:
    return {name: getattr(bill, name) for name in bill.__struct_fields__}


def test_what_cannot_be_meant_is_refused(server: Server) -> None:
    """A grouping that does not exist is 422, a time that is none 400 with how to write one."""

    async def statuses(client: Client) -> list[int]:
        answers = [
            await client.get("/usage", by="colour"),
            await client.get("/usage", split="day"),
            await client.get("/usage", since="soon"),
            await client.get("/usage.csv", until="2026-02-30"),
        ]
        assert "7d" in answers[2].json()["detail"]
        return [answer.status for answer in answers]

    assert server.run(statuses(server.client)) == [422, 422, 400, 400]


def test_nothing_recorded_is_no_error(tmp_path: Path) -> None:
    """Without a store there is no usage, and a time that is none is still one."""
    logs = found_logs(tmp_path)

    async def body(client: Client) -> None:
        found = await client.json("/usage")
        assert found["rows"] == []
        assert found["total"]["requests"] == 0
        assert found["total"]["cost"] is None
        assert (await client.get("/usage", since="soon")).status == 400
        assert (await client.get("/usage.csv")).body.count(b"\r\n") == 1

    ask(logs.settings, body)
    assert not logs.store.exists()


def test_unchanged_usage_is_not_sent_again(server: Server) -> None:
    """A client that has the answer already gets 304, as JSON and as a table."""

    async def body(path: str) -> tuple[int, bytes]:
        first = await server.client.get(path, by="model")
        again = await server.client.get(path, headers={"If-None-Match": first.headers["ETag"]}, by="model")
        return again.status, again.body

    for path in ("/usage", "/usage.csv"):
        assert server.run(body(path)) == (304, b"")


# -- days ---------------------------------------------------------------------------------------------------------


@given(st.dates(), st.sampled_from(["UTC", "Asia/Shanghai", "America/Los_Angeles", "local"]))
def test_a_day_is_that_day_wherever_days_begin(day: Any, zone: str) -> None:  # noqa: ANN401 - a date
    """A day by its name means itself in every time zone; up to a day leaves it out."""
    assert first_day(f" {day.isoformat()} ", zone) == day_after(day.isoformat(), zone) == day.isoformat()


@pytest.mark.parametrize(
    ("text", "zone", "first", "after"),
    [
        ("2026-11-15T00:00:00Z", "UTC", "2026-11-15", "2026-11-15"),
        ("2026-11-15T00:00:00.000001Z", "UTC", "2026-11-15", "2026-11-16"),
        ("2026-11-15T17:00:00Z", "Asia/Shanghai", "2026-11-16", "2026-11-17"),
        ("2026-11-15T16:00:00Z", "Asia/Shanghai", "2026-11-16", "2026-11-16"),
    ],
)
def test_a_moment_is_in_a_day(text: str, zone: str, first: str, after: str) -> None:
    """Days that a moment divides count whole; one that begins with it does not count as before it."""
    assert (first_day(text, zone), day_after(text, zone)) == (first, after)


# -- the table ----------------------------------------------------------------------------------------------------


NO_OUTCOMES = UsageOutcomes(commits=0, added=0, removed=0, cost_per_commit={}, known_from=[])


def _bill(**given: Any) -> Bill:  # noqa: ANN401 - any field
    plain: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"cost": None, "currency": None, "costs": {}}
    return Bill(**plain | {"unpriced_models": []} | given)


cells = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from(
    ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "\r=1", 'a"b', "a,b", "a\r\nb", "重试", "'quoted"]
)


@given(st.lists(cells, unique=True), st.lists(cells))
def test_the_table_holds_every_text_and_no_formula(groups: list[str], unpriced: list[str]) -> None:
    """Read back, each cell is the text that went in, but for a mark before those that a spreadsheet would carry out."""
    rows = [UsageGroup(group, None, None, _bill(unpriced_models=unpriced), [], NO_OUTCOMES) for group in groups]
    body, _ = usage_table(UsageAnswer("project", None, "UTC", _bill(), rows, NO_OUTCOMES, 0))
    found = list(csv.DictReader(io.StringIO(body.decode(), newline=""), strict=True))
    assert [row["project"].removeprefix("'") for row in found] == [group.removeprefix("'") for group in groups]
    for row in found:
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_the_table_of_sessions_names_them(server: Server) -> None:
    """A row for each session with its title; with a split, a row for each part; a column for each currency."""
    found = server.usage(by="session", split="model")
    table = server.table(by="session", split="model")
    assert list(table[0])[:3] == ["session", "title", "model"]
    expected = [(row["group"], row["title"] or "", part["name"]) for row in found["rows"] for part in row["parts"]]
    assert [(row["session"], row["title"], row["model"]) for row in table] == expected
    assert {name for name in table[0] if name.startswith("cost_")} == {"cost_usd", "cost_cny"}
    for currency, amount in found["total"]["costs"].items():
        column = f"cost_{currency.lower()}"
        assert sum(float(row[column] or 0) for row in table) == pytest.approx(amount, abs=1e-6 * len(table))


def test_the_table_is_a_download(server: Server) -> None:
    """A browser saves it under a name that says what it is, and never shows it as a page."""

    async def body() -> None:
        answer = await server.client.get("/usage.csv", by="agent")
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="agenttrace-usage-by-agent.csv"'
        assert answer.body.endswith(b"\r\n")

    server.run(body())


@given(st.integers(1, 400), st.sampled_from(["UTC", "Asia/Shanghai", "America/Los_Angeles"]))
def test_days_are_counted_with_today(number: int, zone: str) -> None:
    """The last seven days are seven, today included, as on the overview; hours are not rounded to days."""
    today = date.fromisoformat(first_day("today", zone))
    assert (today - date.fromisoformat(first_day(f"{number}d", zone))).days == number - 1
    assert (today - date.fromisoformat(first_day(f"{number}w", zone))).days == 7 * number - 1
    assert (today - date.fromisoformat(first_day("24h", zone))).days == 1
