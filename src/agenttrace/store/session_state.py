"""What a session is doing now: its log says what it did last, the time that has passed since then says the rest."""

from __future__ import annotations

import time
from typing import Literal, get_args

SessionState = Literal["working", "waiting", "ended", "interrupted"]

#: ``record.stale_minutes`` where no settings say otherwise.
STALE_MINUTES = 15
#: A session that was left waiting longer ago does not wait for the user any more.
RECENT_SECONDS = 86_400

_MICROS = 1_000_000
_STATES: frozenset[str] = frozenset(get_args(SessionState))


def stale_before(stale_minutes: float) -> int:
    """The moment in microseconds before which a working session must have been heard of to count as interrupted."""
    return round((time.time() - stale_minutes * 60) * _MICROS)


def recent_since() -> int:
    """The moment in microseconds since which a session must have been active to count as recent."""
    return round((time.time() - RECENT_SECONDS) * _MICROS)


def state_now(state: str, heard: float, stale: float) -> SessionState:
    """The state of a session that was last heard of at ``heard``, where silence since ``stale`` means interrupted.

    No agent logs its own death, so a session that says nothing for long was interrupted. States that only another
    version knows are of sessions that do not go on.
    """
    if state == "working" and heard < stale:
        return "interrupted"
    return state if state in _STATES else "ended"  # type: ignore[return-value]
