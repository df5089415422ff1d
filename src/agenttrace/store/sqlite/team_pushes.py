"""How far the changes of this store were sent to the server of a team, and what of each session is sent."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from agenttrace.store.exports import STATES, State
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sqlite.changes import pruned_events
from agenttrace.store.sqlite.database import portions, transaction
from agenttrace.store.sqlite.events import last_event
from agenttrace.store.sqlite.revisions import last_revision

#: The level of a session that is not sent until it changes.
HELD = "held"

_ADD = "INSERT OR IGNORE INTO team_pushes (destination_id, store, acknowledged) VALUES (?, ?, ?)"
_STATE = "SELECT store, acknowledged, sending, passed, rows, refused, lost FROM team_pushes WHERE destination_id = ?"
_LEVEL = """
INSERT INTO export_team_sessions (destination_id, session_id, level, due, epoch, events) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET level = excluded.level, due = excluded.due, epoch = excluded.epoch, events = excluded.events
"""
_SUCCESS = """
UPDATE export_destinations SET last_success_at = :now, last_error = NULL, last_error_at = NULL, retry_at = NULL,
    requests = requests + 1, sent_bytes = sent_bytes + :bytes
WHERE destination_id = :number
"""
_FAILURE = """
UPDATE export_destinations SET last_error = :error, last_error_at = :now, retry_at = :retry_at,
    requests = requests + 1, sent_bytes = sent_bytes + :bytes
WHERE destination_id = :number
"""
#: Sessions whose last activity was before a moment; those without a time count by when they were recorded.
_QUIET = """
SELECT {columns} FROM sessions WHERE coalesce(last_at, started_at, (
    SELECT CAST(max(processed_at) * 1000000 AS INTEGER) FROM processed_events WHERE session_id = id
), 0) < ?
"""
_HOLD = f"""
INSERT OR IGNORE INTO export_team_sessions (destination_id, session_id, level, events)
{_QUIET.format(columns="?, id, 'held', events")}
"""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ChangesCursor)


class PushState(NamedTuple):
    """How far a destination is."""

    #: Names the store.
    store: str
    acknowledged: ChangesCursor
    #: The end of the page that was being sent.
    sending: ChangesCursor | None
    #: How far behind what is acknowledged nothing is to be sent.
    passed: ChangesCursor | None
    rows: int
    refused: int
    lost: int


class SharedSession(NamedTuple):
    """What of a session is sent; ``due``: all of it, anew."""

    level: str
    due: bool
    epoch: int
    #: How many events it had when it was held.
    events: int = 0


class Backlog(NamedTuple):
    """What is not acknowledged yet."""

    sessions: int
    events: int
    held: int

    @property
    def rows(self) -> int:
        """At least so many rows."""
        return self.sessions + self.events


class TeamPushes:
    """The pushes to teams, through one connection; all of a destination goes with ``forget``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # -- how far it is ----------------------------------------------------------------------------------------

    def begin(self, number: int) -> PushState:
        """The state of a destination, which is made where there is none yet."""
        found = self.state(number)
        if found is None:
            with transaction(self._connection):
                self._connection.execute(_ADD, (number, secrets.token_hex(8), _encoder.encode(ChangesCursor())))
            found = self.state(number)
        assert found is not None
        return found

    def state(self, number: int) -> PushState | None:
        """The state of a destination; ``None`` where nothing was sent from this store."""
        row = self._connection.execute(_STATE, (number,)).fetchone()
        if row is None:
            return None
        store, *cursors = row[:4]
        acknowledged, sending, passed = (cursor and _decoder.decode(cursor) for cursor in cursors)
        return PushState(store, acknowledged, sending, passed, *row[4:])

    def send(self, number: int, until: ChangesCursor) -> None:
        """A page is sent now; committed before it leaves."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE team_pushes SET sending = ? WHERE destination_id = ?", (_encoder.encode(until), number)
            )

    def acknowledge(self, number: int, until: ChangesCursor, *, rows: int, sent_bytes: int) -> None:
        """A page arrived."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE team_pushes SET acknowledged = ?, sending = NULL, passed = NULL, rows = rows + ? "
                "WHERE destination_id = ?",
                (_encoder.encode(until), rows, number),
            )
            self._connection.execute(_SUCCESS, {"now": time.time(), "bytes": sent_bytes, "number": number})

    def restart(self, number: int, *, renamed: bool = False) -> None:
        """Begin anew with the first row, which sends what was due as well.

        ``renamed``: as another store. One that was restored from a backup is not mixed with what it lost.
        """
        state = self.begin(number)
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE team_pushes SET store = ?, acknowledged = ?, sending = NULL, passed = NULL "
                "WHERE destination_id = ?",
                (secrets.token_hex(8) if renamed else state.store, _encoder.encode(ChangesCursor()), number),
            )

    def failed(self, number: int, error: str, retry_at: float, sent_bytes: int) -> None:
        """A request failed."""
        told = {"error": error, "now": time.time(), "retry_at": retry_at, "bytes": sent_bytes, "number": number}
        with transaction(self._connection):
            self._connection.execute(_FAILURE, told)

    def pass_by(self, number: int, until: ChangesCursor) -> None:
        """Nothing is to be sent up to there."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE team_pushes SET passed = ? WHERE destination_id = ?", (_encoder.encode(until), number)
            )

    def refuse(self, number: int) -> None:
        """Count a row that the server refuses, and that is not sent again."""
        with transaction(self._connection):
            self._connection.execute("UPDATE team_pushes SET refused = refused + 1 WHERE destination_id = ?", (number,))

    def count_lost(self, number: int, after: int, until: int) -> None:
        """Count the lines in a range of events that retention removed before they were sent."""
        lost = pruned_events(self._connection, after, until)
        if lost:
            with transaction(self._connection):
                self._connection.execute(
                    "UPDATE team_pushes SET lost = lost + ? WHERE destination_id = ?", (lost, number)
                )

    def backlog(self, number: int) -> Backlog:
        """What is not acknowledged yet."""
        state = self.state(number)
        at = ChangesCursor() if state is None else state.passed or state.acknowledged
        since = at.until if not at.kind else at.since
        one = self._connection.execute
        held = one(
            "SELECT count(*) FROM export_team_sessions WHERE destination_id = ? AND level = 'held' AND NOT due",
            (number,),
        ).fetchone()[0]
        if since == (last_revision(self._connection), last_event(self._connection)) and not self.due(number):
            return Backlog(0, 0, held)
        sessions = one(
            "SELECT count(*) FROM sessions WHERE revision > ? AND id NOT IN (SELECT session_id FROM "
            "export_team_sessions WHERE destination_id = ? AND level = 'held' AND NOT due AND ? < 0)",
            (since[0], number, since[0]),
        ).fetchone()[0]
        return Backlog(sessions, last_event(self._connection) - since[1], held)

    def counts(self, number: int) -> dict[State, int]:
        """The rows of a destination by state."""
        state, left = self.state(number), self.backlog(number)
        found: dict[State, int] = dict.fromkeys(STATES, 0)
        found["queued"] = left.rows
        if state is not None:
            found |= {"acknowledged": state.rows, "refused": state.refused, "dropped": state.lost}
        return found

    # -- what of each session ---------------------------------------------------------------------------------

    def hold_quiet(self, number: int, since: int) -> None:
        """Hold back the sessions that were last active before a moment, as far as nothing of them was sent."""
        with transaction(self._connection):
            self._connection.execute(_HOLD, (number, since))

    def release(self, number: int, since: int) -> int:
        """Make the held sessions due that were active since a moment, in a transaction of the caller's; how many."""
        return self._connection.execute(
            f"UPDATE export_team_sessions SET due = 1 WHERE destination_id = ? AND level = 'held' AND NOT due "
            f"AND session_id NOT IN ({_QUIET.format(columns='id')})",
            (number, since),
        ).rowcount

    def shared(self, number: int, sessions: Iterable[int]) -> dict[int, SharedSession]:
        """What of these sessions is sent, as far as that was decided."""
        found: dict[int, SharedSession] = {}
        for part in portions(sessions):
            query = (
                "SELECT session_id, level, due, epoch, events FROM export_team_sessions "
                f"WHERE destination_id = ? AND session_id IN ({','.join('?' * len(part))})"
            )
            rows = self._connection.execute(query, (number, *part))
            found |= {session: SharedSession(level, bool(due), *rest) for session, level, due, *rest in rows}
        return found

    def share(self, number: int, sessions: Mapping[int, SharedSession]) -> None:
        """Decide what of sessions is sent."""
        with transaction(self._connection):
            self._connection.executemany(_LEVEL, ((number, session, *each) for session, each in sessions.items()))

    def due(self, number: int, limit: int = 1) -> list[int]:
        """Sessions that are to be sent whole."""
        query = "SELECT session_id FROM export_team_sessions WHERE destination_id = ? AND due ORDER BY 1 LIMIT ?"
        return [row[0] for row in self._connection.execute(query, (number, limit))]

    def epoch(self, number: int) -> int:
        """How often the identity of a session of this destination changed."""
        query = "SELECT coalesce(max(epoch), 0) FROM export_team_sessions WHERE destination_id = ?"
        return int(self._connection.execute(query, (number,)).fetchone()[0])

    def change_levels(self, number: int, is_other: Callable[[str, str | None], bool]) -> int:
        """Make the sessions due whose level and project say that they are sent under another number now; how many."""
        query = (
            "SELECT id, project, level FROM export_team_sessions AS shared JOIN sessions ON id = shared.session_id "
            "WHERE destination_id = ? AND level <> 'held'"
        )
        rows = self._connection.execute(query, (number,)).fetchall()
        changed = [session for session, project, level in rows if is_other(level, project)]
        with transaction(self._connection):
            self._connection.executemany(
                "UPDATE export_team_sessions SET due = 1 WHERE destination_id = ? AND session_id = ?",
                ((number, session) for session in changed),
            )
        return len(changed)


def forget_pushes(connection: sqlite3.Connection, name: str) -> None:
    """Forget what was sent to a destination; inside a transaction of the caller's."""
    for table in ("team_pushes", "export_team_sessions"):
        connection.execute(
            f"DELETE FROM {table} WHERE destination_id = "
            "(SELECT destination_id FROM export_destinations WHERE name = ?)",
            (name,),
        )
