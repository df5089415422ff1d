"""What came of usage: commits and changed lines of each group, and what a commit cost.

A commit counts on the day on which the log has it, and for the model whose call made it. Where the log does not say,
it counts in groups that do not need to know. One that several sessions report counts once in each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agenttrace.calendar import day_finder
from agenttrace.record.outcomes import QUARTER_HOUR, known_sum
from agenttrace.store.questions import KnownFrom, OutcomeShare, SessionShares
from agenttrace.views.outcome_figures import cost_per_commit, count_commits, read_outcomes
from agenttrace.views.usage import GroupUsage, UsageReport

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.questions import UsageQuery
    from agenttrace.store.store import Store


class UsageOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Commits and changed lines of a group of usage, and what a commit cost."""

    commits: int
    #: Lines; null where the log names files only.
    added: int | None
    removed: int | None
    #: The cost of the group by its commits, by currency; empty without commits, and where nothing has a price.
    cost_per_commit: dict[str, float]
    #: Where commits and lines are known from.
    known_from: list[KnownFrom]


class OutcomeReport(NamedTuple):
    """A report of usage with what came of each group."""

    #: Also groups in which nothing was used.
    usage: UsageReport
    total: UsageOutcomes
    #: By ``GroupUsage.group``.
    groups: dict[str, UsageOutcomes]
    #: Sessions with lines that were not examined: what came of these is not known yet.
    not_examined: int


def with_outcomes(
    store: Store, cashier: Cashier, query: UsageQuery, report: UsageReport, timezone: str, *, read: bool = False
) -> OutcomeReport:
    """A report with what came of each group; ``read`` examines sessions that wait for it, which may take long."""
    missing = store.unexamined(query)
    found = store.outcome_shares(query)
    if read:
        found = [each for each in found if each.number not in set(missing)] + list(_read(store, missing))
    groups: dict[str, list[OutcomeShare]] = {}
    everything: list[OutcomeShare] = []
    for group, share in _grouped(found, query, timezone):
        everything.append(share)
        if group is not None:
            groups.setdefault(group, []).append(share)
    whole = report._replace(groups=[*report.groups, *_unused(store, cashier, report, groups)])
    return OutcomeReport(
        usage=whole._replace(groups=_in_order(whole)),
        total=_sum(everything, report.total),
        groups={each.group: _sum(groups.get(each.group, ()), each.bill) for each in whole.groups},
        not_examined=0 if read else len(missing),
    )


def without_outcomes(report: UsageReport) -> OutcomeReport:
    """A report where nothing is recorded."""
    groups = {each.group: _sum((), each.bill) for each in report.groups}
    return OutcomeReport(usage=report, total=_sum((), report.total), groups=groups, not_examined=0)


def _read(store: Store, numbers: list[int]) -> Iterator[SessionShares]:
    for session in store.sessions_by_number(numbers):
        shares = read_outcomes(store, session).shares
        names = (session.machine or "", session.person or "")
        yield SessionShares(session.id, session.agent, session.project or "", shares, *names)


def _grouped(
    sessions: Iterable[SessionShares], query: UsageQuery, timezone: str
) -> Iterator[tuple[str | None, OutcomeShare]]:
    """The shares that a query asks for, each with its group; ``None`` where the log does not tell which."""
    day_of = day_finder(timezone)
    group_of = _GROUPS[query.by]
    for session in sessions:
        for share in session.shares:
            day = None if share.quarter is None else day_of(share.quarter * QUARTER_HOUR)
            if _is_within(day, query) and (not query.models or share.model in query.models):
                yield group_of(session, share, day), share


def _is_within(day: str | None, query: UsageQuery) -> bool:
    if day is None:
        return query.since_day is None and query.before_day is None
    return (query.since_day or "") <= day and (query.before_day is None or day < query.before_day)


_GROUPS: dict[str, Callable[[SessionShares, OutcomeShare, str | None], str | None]] = {
    "day": lambda _session, _share, day: day,
    "month": lambda _session, _share, day: None if day is None else day[:7],
    "model": lambda _session, share, _day: share.model,
    "agent": lambda session, _share, _day: session.agent,
    "project": lambda session, _share, _day: session.project,
    "machine": lambda session, _share, _day: session.machine,
    "person": lambda session, _share, _day: session.person,
    "session": lambda session, _share, _day: str(session.number),
    "total": lambda _session, _share, _day: "",
}


def _unused(store: Store, cashier: Cashier, report: UsageReport, groups: Iterable[str]) -> list[GroupUsage]:
    """Groups of which nothing was used, for instance a day that began between a model call and its commit."""
    known = {each.group for each in report.groups}
    missing = sorted(group for group in groups if group not in known)
    names = store.session_names([int(group) for group in missing]) if report.by == "session" else {}
    named = {str(number): name for number, name in names.items()}
    return [GroupUsage(group, *named.get(group, (group, "")), cashier.bill([]), {}) for group in missing]


def _in_order(report: UsageReport) -> list[GroupUsage]:
    return sorted(report.groups, key=lambda each: each.name)


def _sum(shares: Iterable[OutcomeShare], bill: Bill) -> UsageOutcomes:
    found = list(shares)
    commits = count_commits(found)
    return UsageOutcomes(
        commits=commits,
        added=known_sum(share.added for share in found),
        removed=known_sum(share.removed for share in found),
        cost_per_commit=cost_per_commit(bill, commits),
        known_from=sorted({origin for share in found for origin in share.known_from}),
    )
