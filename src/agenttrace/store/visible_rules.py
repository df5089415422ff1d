"""What rules decided, as a member or viewer of a team sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agenttrace.store.rules import (
    Answered,
    Attempt,
    ChainUse,
    Firing,
    FiringAction,
    FiringCounts,
    FiringState,
    RuleState,
)

if TYPE_CHECKING:
    from agenttrace.store.sqlite.rules import Rules


class VisibleRules:
    """Firings about sessions that are shown in full; figures of all."""

    def __init__(self, rules: Rules, shows: Callable[[int], bool]) -> None:
        self._rules, self._shows = rules, shows

    def states(self) -> dict[str, RuleState]:
        """As stored."""
        return self._rules.states()

    def counts(self, rule: str, day: str) -> FiringCounts:
        """As stored."""
        return self._rules.counts(rule, day)

    def totals(self) -> dict[tuple[str, FiringState], int]:
        """As stored."""
        return self._rules.totals()

    def last_attempt(self) -> int:
        """As stored."""
        return self._rules.last_attempt()

    def used(self, numbers: Sequence[int]) -> list[ChainUse]:
        """As stored."""
        return self._rules.used(numbers)

    def used_on(self, rule: str, day: str) -> list[ChainUse]:
        """As stored."""
        return self._rules.used_on(rule, day)

    def firings(
        self,
        *,
        rule: str | None = None,
        states: Sequence[FiringState] = (),
        session: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Firing]:
        """The latest of those that are shown."""
        found: list[Firing] = []
        while True:
            page = self._rules.firings(rule=rule, states=states, session=session, before=before, limit=limit)
            found += filter(self._is_shown, page)
            if len(page) < limit or len(found) >= limit:
                return found[:limit]
            before = page[-1].number

    def firing(self, number: int) -> Firing | None:
        """One of them."""
        found = self._rules.firing(number)
        return found if found is not None and self._is_shown(found) else None

    def actions(self, numbers: Sequence[int]) -> dict[int, list[FiringAction]]:
        """Their actions, with answers where these are about sessions that are shown."""
        found = self._rules.actions([number for number in numbers if self.firing(number) is not None])
        return {
            number: actions if self._is_whole(number) else [each._replace(answer=None, error=None) for each in actions]
            for number, actions in found.items()
        }

    def attempts(self, firing: int) -> list[Attempt]:
        """Of one firing, the same."""
        if self.firing(firing) is None:
            return []
        found = self._rules.attempts(firing)
        return found if self._is_whole(firing) else [each._replace(detail="") for each in found]

    def notices_since(self, attempt: int, limit: int) -> list[Answered]:
        """Those about sessions that are shown."""
        return [
            each
            for each in self._rules.notices_since(attempt, limit)
            if self._is_shown(each.firing) and self._is_whole(each.firing.number)
        ]

    def _is_shown(self, firing: Firing) -> bool:
        return firing.event.session is not None and self._shows(firing.event.session)

    def _is_whole(self, number: int) -> bool:
        """Whether its message is about no session that is hidden: a message may be about many."""
        return all(map(self._is_shown, self._rules.collected(number)))
