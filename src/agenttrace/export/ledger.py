"""The ledger: which span was sent where, and what became of it; the queue is the part that is still to be sent.

A row is written as ``sending`` before anything leaves. So after a crash it is known which spans may or may not have
arrived, and they are asked for before they are sent again. ``acknowledged`` is final: nothing here leads back from it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from agenttrace.store.sqlite.database import transaction

State = Literal["queued", "sending", "acknowledged", "refused", "unknown", "dropped"]
STATES: tuple[State, ...] = ("queued", "sending", "acknowledged", "refused", "unknown", "dropped")
#: What a user may have sent again.
RETRYABLE: tuple[State, ...] = ("refused", "unknown")

_PORTION = 500
T = TypeVar("T")

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
UPDATE export_spans SET state = ?, at = ?, answer = ? WHERE state <> 'acknowledged' AND queue_no IN ({marks})
"""


#: What waits for another try may have been sent long ago, too.
_REMEMBER = """
UPDATE export_spans SET state = ?
WHERE destination_id = ? AND span_id = ? AND state IN ('queued', 'sending', 'unknown')
"""


class Place(NamedTuple):
    """A span, wherever it is sent."""

    session_id: int
    span_id: bytes


class Entry(NamedTuple):
    """A span in the queue of a destination."""

    queue_no: int
    session_id: int
    span_id: bytes
    attempts: int
    #: When it came into its state.
    at: float

    @property
    def place(self) -> Place:
        """Which span it is."""
        return Place(self.session_id, self.span_id)


class Sent(NamedTuple):
    """What the ledger knows of a span that is there already."""

    state: State
    digest: bytes | None


class Ledger:
    """The ledger of all destinations, through one connection that may write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    # -- the queue --------------------------------------------------------------------------------------------

    def enqueue(self, destination: int, session: int, spans: Iterable[bytes], state: State = "queued") -> None:
        """Queue spans that are not in the ledger yet, in this order; inside a transaction of the caller's."""
        now = time.time()
        self.connection.executemany(_ENQUEUE, ((destination, session, span_id, state, now, now) for span_id in spans))

    def entries(self, destination: int, state: State, limit: int) -> list[Entry]:
        """The oldest spans in a state."""
        return [Entry._make(row) for row in self.connection.execute(_IN_STATE, (destination, state, limit))]

    def answered(self, destination: int, answer: str, limit: int) -> list[Entry]:
        """The oldest unknown spans of which the ledger says just that."""
        return [Entry._make(row) for row in self.connection.execute(_UNKNOWN, (destination, answer, limit))]

    def known(self, destination: int, spans: Iterable[bytes]) -> dict[bytes, Sent]:
        """What is known of these spans."""
        found: dict[bytes, Sent] = {}
        for part in _portions(list(spans)):
            query = (
                "SELECT span_id, state, digest FROM export_spans "
                f"WHERE destination_id = ? AND span_id IN ({','.join('?' * len(part))})"
            )
            found |= {row[0]: Sent(row[1], row[2]) for row in self.connection.execute(query, (destination, *part))}
        return found

    # -- what becomes of them ---------------------------------------------------------------------------------

    def send(self, digests: Mapping[int, bytes]) -> None:
        """These leave now, as they are now; committed before they do."""
        now = time.time()
        with transaction(self.connection):
            self.connection.executemany(_SEND, ((now, digest, number) for number, digest in digests.items()))

    def mark(self, numbers: Iterable[int], state: State, answer: str | None = None) -> None:
        """What became of spans that were sent; acknowledged ones stay what they are."""
        now = time.time()
        with transaction(self.connection):
            for part in _portions(list(numbers)):
                query = _MARK.format(marks=",".join("?" * len(part)))
                self.connection.execute(query, (state, now, answer, *part))

    def mark_late(self, destination: int, spans: Iterable[bytes]) -> None:
        """These have changed after they were sent; inside a transaction of the caller's."""
        query = "UPDATE export_spans SET late = 1 WHERE destination_id = ? AND span_id = ?"
        self.connection.executemany(query, ((destination, span_id) for span_id in spans))

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
        with transaction(self.connection):
            self.connection.execute(
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

    def remember(self, destination: int, session: int, span_id: bytes, *, acknowledged: bool) -> None:
        """Enter a span that is known from elsewhere to have been sent; inside a transaction of the caller's."""
        self.enqueue(destination, session, [span_id], "sending")
        state: State = "acknowledged" if acknowledged else "sending"
        self.connection.execute(_REMEMBER, (state, destination, span_id))

    # -- what users ask for -----------------------------------------------------------------------------------

    def retry(self, destination: int, states: Sequence[State] = RETRYABLE) -> int:
        """Queue again what was refused, or of which nobody knows; how many spans."""
        wanted = [state for state in states if state in RETRYABLE]
        now = time.time()
        with transaction(self.connection):
            query = (
                "UPDATE export_spans SET state = 'queued', queued_at = ?, at = ?, answer = NULL "
                f"WHERE destination_id = ? AND state IN ({','.join('?' * len(wanted))}) AND state <> 'acknowledged'"
            )
            return self.connection.execute(query, (now, now, destination, *wanted)).rowcount

    def accept(self, destination: int) -> int:
        """Somebody has looked: what was unknown did arrive. How many spans."""
        with transaction(self.connection):
            query = (
                "UPDATE export_spans SET state = 'acknowledged', at = ?, answer = 'confirmed by the user' "
                "WHERE destination_id = ? AND state = 'unknown' AND state <> 'acknowledged'"
            )
            return self.connection.execute(query, (time.time(), destination)).rowcount


def counts(connection: sqlite3.Connection) -> dict[int, dict[State, int]]:
    """Spans of each destination by state."""
    found: dict[int, dict[State, int]] = {}
    # All of a destination is counted in the narrow unique index, the few that are not acknowledged in theirs.
    for destination, total in connection.execute(
        "SELECT destination_id, count(*) FROM export_spans INDEXED BY export_spans_once GROUP BY 1"
    ):
        found[destination] = dict.fromkeys(STATES, 0)
        found[destination]["acknowledged"] = total
    query = (
        "SELECT destination_id, state, count(*) FROM export_spans INDEXED BY export_spans_left "
        "WHERE state <> 'acknowledged' GROUP BY 1, 2"
    )
    for destination, state, count in connection.execute(query):
        found[destination][state] = count
        found[destination]["acknowledged"] -= count
    return found


def _portions(items: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), _PORTION):
        yield items[start : start + _PORTION]
