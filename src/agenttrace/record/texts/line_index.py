"""Which lines belong to which span: a cache for the sessions that were read last.

The store finds a session's events by their ids only; looking through all of them for every span that scrolls into view
would cost more than everything else. So the numbers of a session's lines are cached by span, and updated with what
was recorded since.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agenttrace.store.questions import EventMark, EventPlace

if TYPE_CHECKING:
    from agenttrace.store.store import Store

#: How many sessions are cached, and how many lines of all of them together.
MOST_SESSIONS = 32
MOST_LINES = 1_000_000


class SessionLines:
    """The numbers of one session's lines by span, up to some event of the store."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._lines: dict[bytes, array[int]] = {}
        #: Spans by turn and step: a model call and the tools it called have the same.
        self._places: dict[int, set[bytes]] = {}
        self._files: set[int] = set()
        #: The last event that there was at first, by which it is known that this is still the same store.
        self._first: EventMark | None = None
        #: The number of the last event in the index.
        self._seen = 0
        self._lock = threading.Lock()
        self.count = 0

    def refresh(self, store: Store) -> None:
        """Add what was recorded since."""
        with self._lock:
            if self._first is not None and store.event_mark(self._first.event_no) != self._first:
                self._forget()
            last = store.event_mark()
            if last is None or last.event_no <= self._seen:
                return
            self._first = self._first or last
            self._take(store.event_places(self._session, self._seen, last.event_no))
            self._seen = last.event_no

    def _forget(self) -> None:
        self._lines, self._places, self._files, self.count = {}, {}, set(), 0
        self._first, self._seen = None, 0

    def _take(self, places: Iterable[EventPlace]) -> None:
        last_file = -1
        for event_no, span_id, turn_index, step_n, file_id in places:
            self.count += 1
            if file_id != last_file:
                last_file = file_id
                self._files.add(file_id)
            if span_id is None:
                continue
            lines = self._lines.get(span_id)
            if lines is None:
                lines = self._lines[span_id] = array("q")
                self._places.setdefault(_place(turn_index, step_n), set()).add(span_id)
            lines.append(event_no)

    def around(self, span_id: bytes, turn_index: int, step_n: int) -> set[bytes]:
        """The span and its neighbours: all of the same turn and step that have lines."""
        with self._lock:
            return {span_id, *self._places.get(_place(turn_index, step_n), ())}

    def lines_of(self, span_id: bytes) -> list[int]:
        """The numbers of a span's lines, in order."""
        with self._lock:
            return list(self._lines.get(span_id, ()))

    def files(self) -> list[int]:
        """The numbers of the files that the session was read from."""
        with self._lock:
            return sorted(self._files)


def _place(turn_index: int, step_n: int) -> int:
    """Turn and step as one number, which takes less memory than a pair."""
    return turn_index << 32 | step_n & 0xFFFF_FFFF


class LineIndex:
    """The lines of the sessions that were read last, shared by the threads that read the store."""

    def __init__(self, most_sessions: int = MOST_SESSIONS, most_lines: int = MOST_LINES) -> None:
        self._most_sessions, self._most_lines = most_sessions, most_lines
        self._sessions: dict[int, SessionLines] = {}
        self._lock = threading.Lock()

    def of(self, store: Store, session: int) -> SessionLines:
        """A session's lines as of now; none of a session whose contents are not shown."""
        if not store.shows(session):
            return SessionLines(session)
        with self._lock:
            found = self._sessions.pop(session, None) or SessionLines(session)
            self._sessions[session] = found
        found.refresh(store)
        self._trim()
        return found

    @property
    def sessions(self) -> list[int]:
        """The numbers of the cached sessions, the latest last."""
        with self._lock:
            return list(self._sessions)

    def _trim(self) -> None:
        """Drop the least recently used; the latest one stays however long it is."""
        with self._lock:
            lines = sum(each.count for each in self._sessions.values())
            while len(self._sessions) > 1 and (len(self._sessions) > self._most_sessions or lines > self._most_lines):
                lines -= self._sessions.pop(next(iter(self._sessions))).count
