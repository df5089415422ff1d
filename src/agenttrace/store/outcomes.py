"""Which sessions wait to be examined for outcomes, whichever engine stores what came of them."""

from __future__ import annotations

from typing import Protocol

from agenttrace.store.questions import StoredOutcomes
from agenttrace.store.store import Store

#: An active session is examined again once it was quiet for a while, or after a longer while.
QUIET_SECONDS = 60.0
AGAIN_SECONDS = 1_800.0


class OutcomeTable(Protocol):
    """The figures of all sessions, and which of them are out of date."""

    def waiting(self, now: float) -> list[int]:
        """The numbers of the sessions to be examined, the latest first."""

    def put(self, session: int, found: StoredOutcomes, *, now: float) -> None:
        """Store what came of a session as of so many events; 0: it is to be examined again later."""


class ExaminedStore(Store, Protocol):
    """A store whose sessions are examined."""

    @property
    def outcome_table(self) -> OutcomeTable:
        """Which sessions were examined for outcomes, and which wait for it."""
