"""Outcomes of many sessions: figures in lists, and what a commit costs by project or month."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agenttrace.calendar import day_finder
from agenttrace.record.outcomes import figures_of, known_sum, session_facts
from agenttrace.record.repository import MOST_COMMITS, Repository
from agenttrace.store.questions import OutcomeFigures

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.questions import UsageRow
    from agenttrace.store.store import Store

OutcomeGroup = Literal["project", "month", "agent"]


def figures_by_session(store: Store, sessions: Sequence[Session]) -> dict[int, OutcomeFigures]:
    """The figures of these sessions: stored ones, and where those are out of date, read from the lines."""
    stored = store.outcomes([session.id for session in sessions])
    found: dict[int, OutcomeFigures] = {}
    for session in sessions:
        known = stored.get(session.id)
        current = known is not None and known.events == session.events
        found[session.id] = known.figures if known and current else _read(store, session)
    return found


def _read(store: Store, session: Session) -> OutcomeFigures:
    return figures_of(session_facts(store, session), session.project)


def figure_fields(figures: OutcomeFigures) -> dict[str, Any]:
    """Figures for JSON."""
    return {
        "files": figures.files,
        "added": figures.added,
        "removed": figures.removed,
        "commits": figures.commits,
        "pull_requests": figures.pull_requests,
        "test_runs": figures.test_runs,
        "tests_passed": figures.tests_passed,
        "tests_failed": figures.tests_failed,
    }


class KeptCommits:
    """Whether the commits of sessions are in a branch today; of very many, only the first are asked for."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._left = MOST_COMMITS

    def of(self, session: Session, figures: OutcomeFigures) -> tuple[int, int] | None:
        """How many are, of how many; ``None`` where it is not known."""
        if not figures.hashes or not session.project or len(figures.hashes) > self._left:
            return None
        if session.project not in self._repositories:
            self._repositories[session.project] = Repository(session.project)
        repository = self._repositories[session.project]
        if not repository.exists:
            return None
        self._left -= len(figures.hashes)
        known = [kept for name in figures.hashes if (kept := _is_kept(repository, name)) is not None]
        return (sum(known), len(known)) if known else None


def _is_kept(repository: Repository, name: str) -> bool | None:
    whole = repository.full_hash(name)
    branches = None if whole is None else repository.branches_with(whole)
    return None if branches is None else bool(branches)


# -- by group -----------------------------------------------------------------------------------------------------


class GroupOutcomes(NamedTuple):
    """What came of the sessions of a group, and what they cost."""

    name: str
    sessions: int
    figures: OutcomeFigures
    bill: Bill

    def per_commit(self) -> dict[str, float] | None:
        """The cost of a commit by currency; ``None`` without commits."""
        if not self.figures.commits:
            return None
        return {currency: round(micros / 1e6 / self.figures.commits, 6) for currency, micros in self.bill.costs.items()}


def outcomes_by(
    store: Store, cashier: Cashier, sessions: Sequence[Session], by: OutcomeGroup, timezone: str
) -> list[GroupOutcomes]:
    """The sessions by group, in the order of their names; a session counts for the month in which it began."""
    figures = figures_by_session(store, sessions)
    usage = store.usage_by_session([session.id for session in sessions])
    name_of = _namer(by, timezone)
    groups: dict[str, list[Session]] = {}
    for session in sessions:
        groups.setdefault(name_of(session), []).append(session)
    return [
        GroupOutcomes(
            name,
            len(members),
            _sum(figures[session.id] for session in members),
            cashier.bill(_rows(usage, members)),
        )
        for name, members in sorted(groups.items())
    ]


def _namer(by: OutcomeGroup, timezone: str) -> Callable[[Session], str]:
    if by == "project":
        return lambda session: session.project or ""
    if by == "agent":
        return lambda session: session.agent
    day_of = day_finder(timezone)
    return lambda session: "" if session.started_at is None else day_of(session.started_at)[:7]


def _rows(usage: dict[int, list[UsageRow]], sessions: Iterable[Session]) -> list[UsageRow]:
    return [row for session in sessions for row in usage.get(session.id, ())]


def _sum(figures: Iterable[OutcomeFigures]) -> OutcomeFigures:
    """Sums; a commit that several sessions report counts once. Results of tests are no sums: the last run has them."""
    found = list(figures)
    named = {name for each in found for name in each.hashes}
    unnamed = sum(each.commits - len(each.hashes) for each in found)
    return OutcomeFigures(
        files=sum(each.files for each in found),
        added=known_sum(each.added for each in found),
        removed=known_sum(each.removed for each in found),
        commits=len(named) + unnamed,
        pull_requests=sum(each.pull_requests for each in found),
        test_runs=sum(each.test_runs for each in found),
    )
