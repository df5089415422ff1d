"""What a session is doing now: its log says what it did last, the time that has passed since then says the rest.

``state_now`` is the one place that decides it, for lists, filters, counts, the console, MCP and rules. The store
has what was recorded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from agenttrace.config import RecordSettings

SessionState = Literal["working", "waiting", "ended", "interrupted"]

#: ``record.stale_minutes`` and ``record.waiting_hours`` where no settings say otherwise.
STALE_MINUTES = 15
WAITING_HOURS = 12
#: An interrupted session is news for so long.
RECENT_SECONDS = 86_400

_MICROS = 1_000_000
_STATES: frozenset[str] = frozenset(get_args(SessionState))


class StateTimes(NamedTuple):
    """The moments, in microseconds, before which silence changes the state of a session."""

    #: A working session counts as interrupted.
    stale: int
    #: A waiting session counts as ended.
    waiting: int


class StateLimits(NamedTuple):
    """How long a state lasts in silence; 0 hours: waiting lasts for ever."""

    stale_minutes: float = STALE_MINUTES
    waiting_hours: float = WAITING_HOURS

    @classmethod
    def of(cls, record: RecordSettings) -> StateLimits:
        """As the settings have it."""
        return cls(record.stale_minutes, record.waiting_hours)

    def now(self) -> StateTimes:
        """The moments as of now."""
        now = time.time()
        waiting = round((now - self.waiting_hours * 3600) * _MICROS) if self.waiting_hours else -(2**62)
        return StateTimes(round((now - self.stale_minutes * 60) * _MICROS), waiting)


LIMITS = StateLimits()


def recent_since() -> int:
    """The moment in microseconds since which a session must have been active to count as recent."""
    return round((time.time() - RECENT_SECONDS) * _MICROS)


def state_now(state: str, heard: float, stale: float, waiting: float) -> SessionState:
    """The state of a session that was last heard of at ``heard``; for the other moments see ``StateTimes``.

    No agent logs its own death, so a session that says nothing for long was interrupted. That a session waits for the
    user is news for some hours; then it is history. States that only another version knows are of sessions that do not
    go on.
    """
    if state == "working" and heard < stale:
        return "interrupted"
    if state == "waiting" and heard < waiting:
        return "ended"
    return state if state in _STATES else "ended"  # type: ignore[return-value]
