"""Outcomes of many sessions: figures in lists, and what a commit costs by project or month."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.calendar import day_finder
from agenttrace.record.outcomes import OutcomeReader, known_sum, outcomes_by_share
from agenttrace.record.repository import BUDGET, MOST_COMMITS, Repository
from agenttrace.record.texts.contents import session_lines
from agenttrace.store.questions import OutcomeFigures, OutcomeGroup, OutcomeShare, StoredOutcomes

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.questions import UsageRow
    from agenttrace.store.store import Store


def outcomes_by_session(store: Store, sessions: Sequence[Session]) -> dict[int, StoredOutcomes]:
    """What came of these sessions: stored, and where that is out of date, read from the lines."""
    stored = store.outcomes([session.id for session in sessions])
    found: dict[int, StoredOutcomes] = {}
    for session in sessions:
        known = stored.get(session.id)
        found[session.id] = known if known and known.events == session.events else read_outcomes(store, session)
    return found


def read_outcomes(store: Store, session: Session) -> StoredOutcomes:
    """What came of a session, read from its lines."""
    facts = OutcomeReader().facts(session_lines(store, session))
    return outcomes_by_share(store, session, facts, events=session.events)


class KeptCommits:
    """Whether the commits of sessions are in a branch today; of very many, only the first are asked for."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._left = MOST_COMMITS
        self._deadline = time.monotonic() + BUDGET

    def of(self, session: Session, found: StoredOutcomes) -> tuple[int, int] | None:
        """How many are, of how many; ``None`` where it is not known."""
        hashes = found.hashes
        if not hashes or not session.project or len(hashes) > self._left:
            return None
        if session.project not in self._repositories:
            self._repositories[session.project] = Repository(session.project, deadline=self._deadline)
        repository = self._repositories[session.project]
        if not repository.exists:
            return None
        self._left -= len(hashes)
        known = [each.kept for each in repository.kept(hashes).values() if each.kept is not None]
        return (sum(known), len(known)) if known else None


# -- by group -----------------------------------------------------------------------------------------------------


class GroupOutcomes(NamedTuple):
    """What came of the sessions of a group, and what they cost."""

    name: str
    sessions: int
    figures: OutcomeFigures
    bill: Bill

    def per_commit(self) -> dict[str, float] | None:
        """The cost of a commit by currency; ``None`` without commits."""
        return cost_per_commit(self.bill, self.figures.commits) or None


def outcomes_by(
    store: Store, cashier: Cashier, sessions: Sequence[Session], by: OutcomeGroup, timezone: str
) -> list[GroupOutcomes]:
    """The sessions by group, in the order of their names; a session counts for the month in which it began."""
    found = outcomes_by_session(store, sessions)
    usage = store.usage_by_session([session.id for session in sessions])
    name_of = _namer(by, timezone)
    groups: dict[str, list[Session]] = {}
    for session in sessions:
        groups.setdefault(name_of(session), []).append(session)
    return [
        GroupOutcomes(
            name,
            len(members),
            _sum(found[session.id] for session in members),
            cashier.bill(_rows(usage, members)),
        )
        for name, members in sorted(groups.items())
    ]


def _namer(by: OutcomeGroup, timezone: str) -> Callable[[Session], str]:
    if by == "project":
        return lambda session: session.project or ""
    if by == "agent":
        return lambda session: session.agent
    if by in ("machine", "person"):
        return lambda session: getattr(session, by) or ""
    day_of = day_finder(timezone)
    return lambda session: "" if session.started_at is None else day_of(session.started_at)[:7]


def _rows(usage: dict[int, list[UsageRow]], sessions: Iterable[Session]) -> list[UsageRow]:
    return [row for session in sessions for row in usage.get(session.id, ())]


def _sum(outcomes: Iterable[StoredOutcomes]) -> OutcomeFigures:
    """Sums; a commit that several sessions report counts once. Results of tests are no sums: the last run has them."""
    found = list(outcomes)
    figures = [each.figures for each in found]
    return OutcomeFigures(
        files=sum(each.files for each in figures),
        added=known_sum(each.added for each in figures),
        removed=known_sum(each.removed for each in figures),
        commits=count_commits(share for each in found for share in each.shares),
        pull_requests=sum(each.pull_requests for each in figures),
        test_runs=sum(each.test_runs for each in figures),
    )


def count_commits(shares: Iterable[OutcomeShare]) -> int:
    """The commits of these, each once."""
    found = list(shares)
    named = {name for share in found for name in share.hashes}
    return len(named) + sum(share.commits - len(share.hashes) for share in found)


def cost_per_commit(bill: Bill, commits: int) -> dict[str, float]:
    """By currency; nothing without commits."""
    return {currency: round(micros / 1e6 / commits, 6) for currency, micros in bill.costs.items()} if commits else {}
