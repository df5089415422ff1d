"""What rules ask of the past: sessions in portions, their failed spans and waits, bad lines, refused spans."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from agenttrace.store.questions import MAIN_STREAM, TELEMETRY, ProviderWindow
from agenttrace.store.rules import RuleEvent
from agenttrace.store.sqlite.database import marks
from agenttrace.store.sqlite.provider_limits import windows_since
from agenttrace.store.sqlite.rule_events import FailedRow, quarantined_event, refused_event

_SESSIONS = "SELECT id FROM sessions WHERE id > ? AND events > 0 AND last_at >= ? ORDER BY id LIMIT ?"
_TOLD = """
SELECT session_id FROM streams WHERE session_id IN {numbers} GROUP BY session_id HAVING min(stream = ?)
"""
_FAILED = f"""
SELECT {", ".join(f'"{name}"' for name in FailedRow._fields)} FROM spans
WHERE session_id IN {{numbers}} AND status = 'error' AND kind = ? ORDER BY span_no
"""
_QUARANTINED = """
SELECT quarantine_id, file_id, generation, offset, digest, filepath, reason, found_at FROM quarantine
WHERE quarantine_id > ? AND found_at >= ? ORDER BY quarantine_id LIMIT ?
"""
_REFUSED = """
SELECT e.queue_no, d.name, e.session_id, e.span_id, e.answer, e.at
FROM export_spans e JOIN export_destinations d USING (destination_id)
WHERE e.queue_no > ? AND e.state = 'refused' AND e.at >= ? ORDER BY e.queue_no LIMIT ?
"""
_MICROS = 1_000_000


class Waited(msgspec.Struct, frozen=True):
    """What folding remembers of a session's waits: how often it waited, and in which turn it is."""

    waits: int = 0
    turns: int = 0


class Numbered(NamedTuple):
    """An event, and where to read on after it."""

    number: int
    event: RuleEvent


_waited = msgspec.msgpack.Decoder(Waited).decode


class RulePast:
    """Reads what was recorded before a rule asked for it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def sessions(self, after: int, since: int, limit: int) -> list[int]:
        """The next sessions that were active since then, by number."""
        return [row[0] for row in self._connection.execute(_SESSIONS, (after, since, limit))]

    def told(self, numbers: Sequence[int]) -> set[int]:
        """Those of these sessions that are known from telemetry alone."""
        query = _TOLD.format(numbers=marks(numbers))
        return {row[0] for row in self._connection.execute(query, (*numbers, TELEMETRY))}

    def failed(self, numbers: Sequence[int], kind: str) -> list[FailedRow]:
        """The spans of these sessions that failed: turns, or tools."""
        query = _FAILED.format(numbers=marks(numbers))
        return [FailedRow._make(row) for row in self._connection.execute(query, (*numbers, kind))]

    def waited(self, numbers: Sequence[int], told: set[int]) -> dict[int, Waited]:
        """How often each of these sessions waited so far, as its log counts, or telemetry where there is none."""
        query = f"SELECT session_id, stream, state FROM streams WHERE session_id IN {marks(numbers)}"
        return {
            number: _waited(state)
            for number, stream, state in self._connection.execute(query, numbers)
            if stream == (TELEMETRY if number in told else MAIN_STREAM)
        }

    def quarantined(self, after: int, since: int, limit: int) -> list[Numbered]:
        """The next lines that could not be recorded."""
        rows = self._connection.execute(_QUARANTINED, (after, since / _MICROS, limit))
        return [
            Numbered(
                number,
                quarantined_event(
                    file, generation, offset, digest, path=path, reason=reason, at=round(found * _MICROS)
                ),
            )
            for number, file, generation, offset, digest, path, reason, found in rows
        ]

    def windows(self, since: int) -> list[ProviderWindow]:
        """The last report of each window of a provider's limit, of those since a moment."""
        return windows_since(self._connection, since)

    def refused(self, after: int, since: int, limit: int) -> list[Numbered]:
        """The next spans that a destination refused."""
        rows = self._connection.execute(_REFUSED, (after, since / _MICROS, limit))
        return [
            Numbered(number, refused_event(name, session, span, answer, round(at * _MICROS)))
            for number, name, session, span, answer, at in rows
        ]
