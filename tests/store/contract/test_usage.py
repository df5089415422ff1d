"""Usage: tokens count once, however they are grouped, and filters take away whole sessions, models or days."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.model import Session, Usage
from agenttrace.prices.costing import Cashier
from agenttrace.projects import is_demo
from agenttrace.store.questions import RecentQuery, SessionFilter, TimeQuery, UsageGroup, UsageQuery, UsageRow
from agenttrace.views.usage import usage_report

from .data import CLAUDE, MODELS, NATIVE, PROJECTS, Made, logs_of, recordings
from .machine import store_of

few = settings(max_examples=15)
GROUPS: tuple[UsageGroup, ...] = get_args(UsageGroup)

_groups = st.sampled_from(GROUPS)


def _some(values: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), max_size=2)


queries = st.builds(
    UsageQuery,
    by=_groups,
    split=_groups,
    since_day=st.none() | st.sampled_from(("2020-01-01", "9999-01-01")),
    before_day=st.none() | st.sampled_from(("2020-01-01", "9999-01-01")),
    agents=_some((NATIVE, CLAUDE)),
    projects=_some((*PROJECTS, "")),
    project_contains=st.none() | st.sampled_from(("", "SHOP", "äpf", "%", "nowhere")),
    models=_some(MODELS),
    real=st.booleans(),
)


def _sum(rows: Iterable[UsageRow]) -> tuple[int, ...]:
    fields = Usage.__struct_fields__
    listed = [(row.requests, row.copies, *(getattr(row.usage, name) for name in fields)) for row in rows]
    return tuple(map(sum, zip(*listed, strict=True))) if listed else (0,) * (2 + len(fields))


def _names(sessions: dict[int, Session]) -> dict[UsageGroup, Callable[[UsageRow], str]]:
    """What each group of a row that is by session is called, in the plainest way."""
    return {
        "total": lambda row: "",
        "day": lambda row: row.day,
        "month": lambda row: row.day[:7],
        "model": lambda row: row.model,
        "agent": lambda row: sessions[int(row.group)].agent,
        "project": lambda row: sessions[int(row.group)].project or "",
        "session": lambda row: row.group,
        "machine": lambda row: sessions[int(row.group)].machine or "",
        "person": lambda row: sessions[int(row.group)].person or "",
    }


def _matches(query: UsageQuery, row: UsageRow, session: Session) -> bool:
    wanted = SessionFilter(agents=query.agents, projects=query.projects, project_contains=query.project_contains)
    return (
        wanted.matches(session, ())
        and (not query.models or row.model in query.models)
        and not (query.real and is_demo(session.project))
        and (query.since_day is None or row.day >= query.since_day)
        and (query.before_day is None or row.day < query.before_day)
    )


@few
@given(made=recordings, asked=st.lists(queries, min_size=20, max_size=20))
def test_groups_are_sums_of_sessions(made: list[Made], asked: list[UsageQuery]) -> None:
    """Whatever is grouped, split and filtered, each group has the tokens of the sessions, models and days in it."""
    with store_of(logs_of(made)) as store:
        sessions = {session.id: session for session in store.sessions()}
        finest, names = store.usage(UsageQuery(by="session")), _names(sessions)
        for query in asked:
            expected: dict[tuple[str, str], list[UsageRow]] = {}
            for row in finest:
                if _matches(query, row, sessions[int(row.group)]):
                    expected.setdefault((names[query.by](row), names[query.split](row)), []).append(row)
            found: dict[tuple[str, str], list[UsageRow]] = {}
            for row in store.usage(query):
                found.setdefault((row.group, row.part), []).append(row)
            assert {place: _sum(rows) for place, rows in found.items()} == {
                place: _sum(rows) for place, rows in expected.items()
            }


@few
@given(made=recordings)
def test_a_response_counts_once(made: list[Made]) -> None:
    """However many sessions of an agent hold a response, it is one request, with its largest output."""
    with store_of(logs_of(made)) as store:
        claims: dict[tuple[str, str], list[int]] = {}
        for session in made:
            for each in session.responses:
                claims.setdefault((session.agent, each.name), []).append(each.output_tokens)
        rows = store.usage()
        assert sum(row.requests for row in rows) == len(claims)
        assert sum(row.usage.output_tokens for row in rows) == sum(map(max, claims.values()))
        assert set(store.models()) == {row.model for row in rows}


@few
@given(made=recordings, agents=_some((NATIVE, CLAUDE)), projects=_some((*PROJECTS, "")), models=_some(MODELS))
def test_recent_usage_is_that_of_the_groups(
    made: list[Made], agents: frozenset[str], projects: frozenset[str], models: frozenset[str]
) -> None:
    """From the beginning on it is all usage, response by response; and of a part of the time what came in it."""
    with store_of(logs_of(made)) as store:
        query = RecentQuery(since=0, agents=agents, projects=projects, models=models)
        found = store.recent_usage(query)
        grouped = store.usage(UsageQuery(by="session", agents=agents, projects=projects, models=models))
        assert _sum(each.row for each in found) == _sum(grouped)
        assert {each.row.group for each in found} == {row.group for row in grouped}
        times = [each.at for each in found]
        assert times == sorted(times)
        for since in set(times):
            later = store.recent_usage(msgspec.structs.replace(query, since=since))
            assert later == [each for each in found if each.at >= since]
            earlier = store.recent_usage(msgspec.structs.replace(query, before=since))
            assert earlier == [each for each in found if each.at < since]


@few
@given(
    made=recordings,
    step=st.sampled_from((1_000_000, 900_000_000, 86_400_000_000)),
    cut=st.integers(0, 5),
    agents=_some((NATIVE, CLAUDE)),
    real=st.booleans(),
)
def test_usage_over_time_is_that_of_the_responses(
    made: list[Made], step: int, cut: int, agents: frozenset[str], real: bool
) -> None:
    """Each step has the tokens and the number of the responses in it, of those from one moment to before another."""
    with store_of(logs_of(made)) as store:
        every = store.recent_usage(RecentQuery(since=0, agents=agents, real=real))
        since = every[min(cut, len(every) - 1)].at if every else 0
        before = every[-1].at if cut % 2 and every else 2**62
        within = [each for each in every if since <= each.at < before]
        query = TimeQuery(since=since, before=before, step=step, agents=agents, real=real)
        expected: dict[tuple[int, str], list[UsageRow]] = {}
        for each in within:
            expected.setdefault((each.at // step * step, each.row.model), []).append(each.row)
        found: dict[tuple[int, str], list[UsageRow]] = {}
        for each in store.usage_over_time(query):
            found.setdefault((each.at, each.row.model), []).append(each.row)
        assert {place: _sum(rows) for place, rows in found.items()} == {
            place: _sum(rows) for place, rows in expected.items()
        }
        counts: dict[int, int] = {}
        for each in within:
            counts[each.at // step * step] = counts.get(each.at // step * step, 0) + 1
        assert store.responses_over_time(query) == sorted(counts.items())


@few
@given(made=recordings)
def test_one_session_s_usage_is_that_of_its_group(made: list[Made]) -> None:
    """Asked for by number or as a group, a session used the same."""
    with store_of(logs_of(made)) as store:
        rows = store.usage(UsageQuery(by="session"))
        for number, own in store.usage_by_session([session.id for session in store.sessions()]).items():
            grouped = [row._replace(group="") for row in rows if row.group == str(number)]
            assert grouped == sorted(own, key=lambda row: (row.model, row.day, row.variant))


@few
@given(made=recordings, by=st.sampled_from([group for group in GROUPS if group != "total"]))
def test_the_report_is_the_same_money(made: list[Made], by: UsageGroup) -> None:
    """The groups of a report have the tokens of its total, ranked or not; what has no price is never free."""
    with store_of(logs_of(made)) as store:
        report = usage_report(store, Cashier.load(Settings(home=Path("/nowhere"))), UsageQuery(by=by, split="model"))
        ids = {str(session.id): session.session_id for session in store.sessions()}
    for groups in (report.groups, report.ranked()):
        assert sum(each.bill.requests for each in groups) == report.total.requests
        assert sum(each.bill.all_tokens for each in groups) == report.total.all_tokens
        assert sum(each.bill.unpriced_tokens for each in groups) == report.total.unpriced_tokens
    for each in report.groups:
        assert each.name == (ids[each.group] if by == "session" else each.group)
        assert sum(part.all_tokens for part in each.parts.values()) == each.bill.all_tokens
    assert [each.name for each in report.groups] == sorted(each.name for each in report.groups)
