"""The ledger of exported spans: which was sent where, and what became of it; the queue is what is still to be sent.

A row is written as ``sending`` before anything leaves. So after a crash it is known which spans may or may not have
arrived, and they are asked for before they are sent again. ``acknowledged`` is final: nothing here leads back from it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence

from agenttrace.store.exports import RETRYABLE, STATES, Listed, ListedSpan, QueuedSpan, Sent, SpanKey, State
from agenttrace.store.sqlite.database import marks, portions, transaction
from agenttrace.store.sqlite.rule_events import note_refused
from agenttrace.store.sqlite.sessions import sessions_by_number

_ENQUEUE = """
INSERT OR IGNORE INTO export_spans (destination_id, session_id, span_id, state, queued_at, at)
VALUES (?, ?, ?, ?, ?, ?)
"""

#: The last condition is what lets SQLite use the index of those that are not acknowledged.
_IN_STATE = """
SELECT queue_no, session_id, span_id, attempts, at FROM export_spans
WHERE destination_id = ? AND state = ? AND state <> 'acknowledged' ORDER BY queue_no LIMIT ?
"""

_UNKNOWN = """
SELECT queue_no, session_id, span_id, attempts, at FROM export_spans
WHERE destination_id = ? AND state = 'unknown' AND state <> 'acknowledged' AND answer = ? ORDER BY queue_no LIMIT ?
"""

_SENT = """
UPDATE export_destinations SET
    requests = requests + 1, sent_bytes = sent_bytes + :bytes, rejected = rejected + :rejected,
    last_success_at = iif(:error IS NULL, :now, last_success_at),
    last_error = iif(:error IS NULL, last_error, :error), last_error_at = iif(:error IS NULL, last_error_at, :now),
    retry_at = :retry_at
WHERE destination_id = :destination
"""

_SEND = "UPDATE export_spans SET state = 'sending', attempts = attempts + 1, at = ?, digest = ? WHERE queue_no = ?"

_MARK = """
UPDATE export_spans SET state = ?, at = ?, answer = ? WHERE state <> 'acknowledged' AND queue_no IN {marks}
"""

#: What waits for another try may have been sent long ago, too.
_REMEMBER = """
UPDATE export_spans SET state = ?
WHERE destination_id = ? AND span_id = ? AND state IN ('queued', 'sending', 'unknown')
"""

#: What is asked for the oldest that is queued: spans that were queued again have old numbers and new times.
_FIRST = 1_000
_OLDEST = """
SELECT min(queued_at) FROM (
    SELECT queued_at FROM export_spans INDEXED BY export_spans_left
    WHERE destination_id = ? AND state = 'queued' AND state <> 'acknowledged' ORDER BY queue_no LIMIT ?
)
"""
_LATE = "SELECT destination_id, count(*) FROM export_spans INDEXED BY export_spans_late WHERE late = 1 GROUP BY 1"

_LISTED = """
SELECT queue_no, session_id, span_id, state, attempts, at, answer, late FROM export_spans INDEXED BY {index}
WHERE destination_id = :destination AND {condition} AND queue_no < :before ORDER BY queue_no DESC LIMIT :limit
"""
_SPAN = "SELECT name, kind, start FROM spans WHERE session_id = ? AND span_id = ?"


class ExportLedger:
    """The ledger of all destinations, through one connection that may write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # -- the queue --------------------------------------------------------------------------------------------

    def enqueue(self, destination: int, session: int, spans: Iterable[bytes], state: State = "queued") -> None:
        """Queue spans that are not in the ledger yet, in this order; inside a transaction of the caller's."""
        now = time.time()
        self._connection.executemany(_ENQUEUE, ((destination, session, span_id, state, now, now) for span_id in spans))

    def entries(self, destination: int, state: State, limit: int) -> list[QueuedSpan]:
        """The oldest spans in a state."""
        return [QueuedSpan._make(row) for row in self._connection.execute(_IN_STATE, (destination, state, limit))]

    def answered(self, destination: int, answer: str, limit: int) -> list[QueuedSpan]:
        """The oldest unknown spans of which the ledger says just that."""
        return [QueuedSpan._make(row) for row in self._connection.execute(_UNKNOWN, (destination, answer, limit))]

    def known(self, destination: int, spans: Iterable[bytes]) -> dict[bytes, Sent]:
        """What is known of these spans."""
        found: dict[bytes, Sent] = {}
        for part in portions(spans):
            query = (
                "SELECT span_id, state, digest FROM export_spans "
                f"WHERE destination_id = ? AND span_id IN ({','.join('?' * len(part))})"
            )
            found |= {row[0]: Sent(row[1], row[2]) for row in self._connection.execute(query, (destination, *part))}
        return found

    # -- what becomes of them ---------------------------------------------------------------------------------

    def send(self, digests: Mapping[int, bytes]) -> None:
        """These leave now, as they are now; committed before they do."""
        now = time.time()
        with transaction(self._connection):
            self._connection.executemany(_SEND, ((now, digest, number) for number, digest in digests.items()))

    def mark(self, numbers: Iterable[int], state: State, answer: str | None = None) -> None:
        """What became of spans that were sent; acknowledged ones stay what they are."""
        now = time.time()
        with transaction(self._connection):
            for part in portions(numbers):
                query = _MARK.format(marks=marks(part))
                self._connection.execute(query, (state, now, answer, *part))
                if state == "refused":
                    note_refused(self._connection, part)

    def mark_late(self, destination: int, spans: Iterable[bytes]) -> None:
        """These have changed after they were sent; inside a transaction of the caller's."""
        query = "UPDATE export_spans SET late = 1 WHERE destination_id = ? AND span_id = ?"
        self._connection.executemany(query, ((destination, span_id) for span_id in spans))

    def requested(
        self,
        destination: int,
        *,
        sent_bytes: int,
        rejected: int = 0,
        error: str | None = None,
        retry_at: float | None = None,
    ) -> None:
        """What came of a request, for whoever asks how a destination does."""
        with transaction(self._connection):
            self._connection.execute(
                _SENT,
                {
                    "destination": destination,
                    "bytes": sent_bytes,
                    "rejected": rejected,
                    "error": error,
                    "now": time.time(),
                    "retry_at": retry_at,
                },
            )

    def restore(self, destination: int, sent: Iterable[tuple[SpanKey, bool]]) -> None:
        """Enter spans that are known from elsewhere to have been sent, and whether they were acknowledged."""
        with transaction(self._connection):
            for place, acknowledged in sent:
                self.enqueue(destination, place.session_id, [place.span_id], "sending")
                state: State = "acknowledged" if acknowledged else "sending"
                self._connection.execute(_REMEMBER, (state, destination, place.span_id))

    # -- what users ask for -----------------------------------------------------------------------------------

    def retry(self, destination: int, states: Sequence[State] = RETRYABLE) -> int:
        """Queue again what was refused, or of which nobody knows; how many spans."""
        wanted = [state for state in states if state in RETRYABLE]
        now = time.time()
        with transaction(self._connection):
            query = (
                "UPDATE export_spans SET state = 'queued', queued_at = ?, at = ?, answer = NULL "
                f"WHERE destination_id = ? AND state IN ({','.join('?' * len(wanted))}) AND state <> 'acknowledged'"
            )
            return self._connection.execute(query, (now, now, destination, *wanted)).rowcount

    def accept(self, destination: int) -> int:
        """Somebody has looked: what was unknown did arrive. How many spans."""
        with transaction(self._connection):
            query = (
                "UPDATE export_spans SET state = 'acknowledged', at = ?, answer = 'confirmed by the user' "
                "WHERE destination_id = ? AND state = 'unknown' AND state <> 'acknowledged'"
            )
            return self._connection.execute(query, (time.time(), destination)).rowcount

    # -- what is shown of them --------------------------------------------------------------------------------

    def counts(self) -> dict[int, dict[State, int]]:
        """Spans of each destination by state."""
        found: dict[int, dict[State, int]] = {}
        # All of a destination is counted in the narrow unique index, the few that are not acknowledged in theirs.
        for destination, total in self._connection.execute(
            "SELECT destination_id, count(*) FROM export_spans INDEXED BY export_spans_once GROUP BY 1"
        ):
            found[destination] = dict.fromkeys(STATES, 0)
            found[destination]["acknowledged"] = total
        query = (
            "SELECT destination_id, state, count(*) FROM export_spans INDEXED BY export_spans_left "
            "WHERE state <> 'acknowledged' GROUP BY 1, 2"
        )
        for destination, state, count in self._connection.execute(query):
            found[destination][state] = count
            found[destination]["acknowledged"] -= count
        return found

    def late(self) -> dict[int, int]:
        """How many spans of each destination changed after they were sent."""
        return dict(self._connection.execute(_LATE).fetchall())

    def oldest(self, destination: int) -> float | None:
        """When the oldest span that waits was queued, in seconds since the epoch."""
        found: float | None = self._connection.execute(_OLDEST, (destination, _FIRST)).fetchone()[0]
        return found

    def listed(self, destination: int, listed: Listed, *, before: int | None = None, limit: int) -> list[ListedSpan]:
        """Spans of a destination in a state, or that changed too late, the latest first."""
        late = listed == "late"
        query = _LISTED.format(
            index="export_spans_late" if late else "export_spans_left",
            condition="late = 1" if late else "state = :state AND state <> 'acknowledged'",
        )
        values = {"destination": destination, "before": 2**63 - 1 if before is None else before, "limit": limit}
        rows = self._connection.execute(query, values if late else {**values, "state": listed}).fetchall()
        numbers = sorted({row[1] for row in rows})
        sessions = {session.id: session for session in sessions_by_number(self._connection, numbers)}
        return [
            ListedSpan._make((*row[:-1], bool(row[-1]), sessions.get(row[1]), *self._span(row[1], row[2])))
            for row in rows
        ]

    def _span(self, session: int, span_id: bytes) -> tuple[str | None, str | None, int | None]:
        """Name, kind and start of a span, as far as it is there."""
        return self._connection.execute(_SPAN, (session, span_id)).fetchone() or (None, None, None)
