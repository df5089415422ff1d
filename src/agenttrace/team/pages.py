"""What a machine sends next: pages of its changes, each session at the level at which it is shared.

A session that was quiet since before the machine joined is held: nothing of it is sent until it changes, and then all
of it. Between figures and the other levels a session has another number, so one that changes sides is sent whole, and
its other number is removed at the server. Whole sessions are sent between two rounds of reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from agenttrace.model import Session
from agenttrace.projects import is_demo
from agenttrace.redaction import LineMask
from agenttrace.store.rows import ChangesCursor, EventRow, FileOfLines, RemovedRow, Row, StoredSession
from agenttrace.store.sqlite.changes import session_cursor, whole_session
from agenttrace.store.sqlite.revisions import last_revision
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team_pushes import HELD, SharedSession
from agenttrace.team.figures import Figures
from agenttrace.team.levels import Sharing, masked_rows

#: Rows in a page; the store ends one earlier that has many bytes.
PAGE_ROWS = 4_000
#: With more sessions than this to send whole, everything is sent anew: less work than reading them one by one.
MOST_DUE = 200
#: Every change of an identity puts all revisions above those that were sent before; revisions are milliseconds.
_EPOCH_BITS = 44
_ALL_EVENTS = 2**53


class NextPage(NamedTuple):
    """Rows to send, and where reading goes on once they arrived."""

    rows: list[Row]
    until: ChangesCursor
    #: The session that has been sent whole with this page.
    finished: int | None = None


class PageReader:
    """Reads the pages of one destination from the store of this machine."""

    def __init__(
        self,
        store: SqliteStore,
        number: int,
        *,
        sharing: Sharing,
        mask: LineMask,
        figures: Callable[[Callable[[int], tuple[str, str] | None]], Figures],
    ) -> None:
        self._store, self._pushes, self._number = store, store.exports.teams, number
        self._sharing, self._mask = sharing, mask
        self._names: dict[int, tuple[str, str]] = {}
        self._figures = figures(self._name)
        self._epoch = self._pushes.epoch(number)
        # The settings may have changed since the last process.
        self._pushes.change_levels(number, self.is_other)

    def next(self, cursor: ChangesCursor, limit: int = PAGE_ROWS) -> NextPage:
        """The next page with rows for the server; one without rows where there is nothing new."""
        while True:
            page = self._page(cursor, limit)
            if page is None:
                return NextPage([], cursor)
            if page.rows:
                return page
            if page.finished is not None:
                self.finish(page.finished)
            cursor = page.until

    def finish(self, session: int) -> None:
        """All of a session arrived."""
        known = self._pushes.shared(self._number, [session]).get(session)
        if known is not None:
            self._pushes.share(self._number, {session: known._replace(due=False)})

    def _page(self, cursor: ChangesCursor, limit: int) -> NextPage | None:
        if not cursor.kind:
            due = self._pushes.due(self._number, MOST_DUE + 1)
            if len(due) > MOST_DUE:
                self._send_anew(due)
                return NextPage([], ChangesCursor())
            if due:
                cursor = session_cursor(cursor, due[0])
        session = whole_session(cursor)
        if session is not None:
            return self._whole(session, cursor, limit)
        found = self._store.changes_since(cursor, limit)
        if not found.rows:
            return None
        if not found.cursor.kind and cursor.since[1] and not self._store_is_new(cursor):
            self._pushes.count_lost(self._number, cursor.since[1], found.cursor.until[1])
        return NextPage(self._shared(found.rows), found.cursor)

    def _store_is_new(self, cursor: ChangesCursor) -> bool:
        return cursor.since[0] < 0

    def _send_anew(self, due: list[int]) -> None:
        while due:
            for session in due:
                self._decide_anew(session)
                self.finish(session)
            due = self._pushes.due(self._number, MOST_DUE)
        self._pushes.restart(self._number)

    # -- a whole session --------------------------------------------------------------------------------------

    def _whole(self, session: int, cursor: ChangesCursor, limit: int) -> NextPage:
        begins = len(cursor.place) == 1
        shared = self._decide_anew(session) if begins else self._pushes.shared(self._number, [session]).get(session)
        found = self._store.session_changes(cursor, limit)
        rows: list[Row] = []
        if shared is not None and shared.level != HELD:
            rows = self._at_level(found.rows, shared.level)
            if begins and shared.epoch:
                rows = self._gone(session, shared.level) + rows
        if found.cursor.kind:
            return NextPage(rows, found.cursor)
        # A cursor of its own: a page that ends where it began would look like one that arrived before.
        ends = ChangesCursor(found.cursor.since, found.cursor.until, "", (session, self._sent()))
        return NextPage(rows, ends, session)

    def _sent(self) -> int:
        return self._pushes.begin(self._number).rows

    def _decide_anew(self, number: int) -> SharedSession | None:
        """The level of a session that is sent whole; a new epoch where it gets another number by that."""
        stored, known = self._store.stored_session(number), self._pushes.shared(self._number, [number]).get(number)
        if stored is None or known is None:
            return known
        level = self._level(stored)
        epoch = known.epoch
        if known.level != HELD and _is_figures(known.level) != _is_figures(level):
            epoch = self._epoch = self._pushes.epoch(self._number) + 1
        decided = SharedSession(level, True, epoch)
        self._pushes.share(self._number, {number: decided})
        return decided

    def _gone(self, number: int, level: str) -> list[Row]:
        """What removes all that was sent of a session under its other number."""
        stored = self._store.stored_session(number)
        if stored is None:
            return []
        other = stored if _is_figures(level) else self._figures.session(stored)
        revision = self._raised(last_revision(self._store.connection)) + 1
        return [RemovedRow("session", other.id, b"", revision, _ALL_EVENTS)]

    # -- levels -----------------------------------------------------------------------------------------------

    def _shared(self, rows: list[Row]) -> list[Row]:
        """The rows that are sent of a round, each at the level of its session."""
        decided = self._decided(rows)
        parts: dict[str, list[Row]] = {}
        for row in rows:
            session = session_of(row)
            if session is None:
                continue
            known = decided.get(session)
            if known is not None and known.level != HELD and not known.due:
                parts.setdefault(known.level, []).append(row)
            elif session == 0 and isinstance(row, RemovedRow):
                parts.setdefault("figures", []).append(row)
        files = {row.file_id: row for row in rows if isinstance(row, FileOfLines)}
        return [row for level, part in parts.items() for row in self._at_level(_with_files(part, files), level)]

    def _decided(self, rows: Iterable[Row]) -> dict[int, SharedSession]:
        """What is sent of the sessions of these rows; decides it for those that are new, and that changed."""
        rows = list(rows)
        numbers = {number for row in rows if (number := session_of(row))}
        sessions = {row.session.id: row.session for row in rows if isinstance(row, StoredSession)}
        known = self._pushes.shared(self._number, numbers)
        changed: dict[int, SharedSession] = {}
        for number in numbers:
            session = sessions.get(number) or (None if number in known else self._store.stored_session(number))
            if session is not None:
                decided = self._decision(known.get(number), session)
                if decided != known.get(number):
                    changed[number] = decided
        if changed:
            self._pushes.share(self._number, changed)
        return known | changed

    def _decision(self, known: SharedSession | None, session: Session) -> SharedSession:
        level = self._level(session)
        if known is None:
            return SharedSession(level, False, 0)
        if known.due or level == HELD:
            return known
        if known.level == HELD:
            return known._replace(due=session.events > known.events)
        if self.is_other(known.level, session.project):
            return known._replace(due=True)
        return known._replace(level=level)

    def _level(self, session: Session) -> str:
        """What is sent of a session; nothing of the demo's."""
        return HELD if is_demo(session.project) else self._sharing.of(session.project)

    def is_other(self, level: str, project: str | None) -> bool:
        """Whether a session that was sent at a level has another number now."""
        return _is_figures(level) != _is_figures(self._sharing.of(project))

    def _at_level(self, rows: list[Row], level: str) -> list[Row]:
        if level == "figures":
            rows = self._figures.rows(rows)
        elif level == "masked":
            rows = masked_rows(rows, self._mask)
        return [self._raised_row(row) for row in rows] if self._epoch else rows

    def _raised_row(self, row: Row) -> Row:
        revision = getattr(row, "revision", None)
        return row if revision is None else msgspec.structs.replace(row, revision=self._raised(revision))

    def _raised(self, revision: int) -> int:
        return revision + (self._epoch << _EPOCH_BITS)

    def _name(self, number: int) -> tuple[str, str] | None:
        """Agent and id of a session."""
        if number not in self._names:
            found = self._store.stored_session(number)
            if found is None:
                return None
            self._names[number] = (found.agent, found.session_id)
        return self._names[number]


def session_of(row: Row) -> int | None:
    """The session that a row belongs to; ``None`` for files."""
    if isinstance(row, StoredSession):
        return row.session.id
    return None if isinstance(row, FileOfLines) else row.session


def _with_files(rows: list[Row], files: dict[int, FileOfLines]) -> list[Row]:
    """The rows behind the files that their lines came from."""
    wanted = {row.file_id for row in rows if isinstance(row, EventRow)}
    return [*(file for number, file in files.items() if number in wanted), *rows]


def _is_figures(level: str) -> bool:
    return level == "figures"
