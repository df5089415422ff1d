"""Taking a page of a machine's changes into a team's store: see ``store.team``.

A row that comes later is newer, whatever its revision: a machine sends its changes in order, and sends a row again
when it changed after that. So nothing is compared but the position, and a machine that begins anew needs nothing else.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from agenttrace.ids import file_number
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.sqlite import team_bag, team_ledger
from agenttrace.store.sqlite.changes import rows_of_session
from agenttrace.store.sqlite.revisions import next_revision, note_removed, revise_sessions
from agenttrace.store.sqlite.team_annotations import TeamAnnotations
from agenttrace.store.sqlite.team_bag import BagRow, Copy, CopyRow, session_of
from agenttrace.store.sqlite.team_copies import Copies, StoredCopy, source_of
from agenttrace.store.sqlite.team_files import path_on_machine, write_files
from agenttrace.store.sqlite.team_shown import Shown
from agenttrace.store.sqlite.team_textless import Textless
from agenttrace.store.team import Page

AnyRow = TypeVar("AnyRow", bound=BagRow)

#: In this order rows of a page are stored, which is that of ``changes_since``.
_COPIED = (StoredSession, LinkRow, TotalRow, StoredSpan, EventRow)


class Taking:
    """One page, inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, page: Page) -> None:
        self._connection, self._page = connection, page
        self._source = source_of(connection, page.machine, page.store)
        self._copies, self._textless = Copies(connection), Textless(connection)
        #: Copies of this store remove rows first, then they write others.
        self._gone = next_revision(connection)
        self._revision = self._gone + 1
        self._shown = Shown(connection, gone=self._gone, revision=self._revision)
        self._annotations = TeamAnnotations(connection, self._revision)

    def take(self, rows: Iterable[Row], day_of: Callable[[int], str]) -> None:
        """Store the rows, and what follows from them."""
        kinds: dict[type, list[Any]] = defaultdict(list)
        for row in rows:
            kinds[type(row)].append(row)
        self._tell(kinds[StoredSession])
        for row in kinds[RemovedRow]:
            self._remove(row)
        claims: list[ResponseRow] = kinds[ResponseRow]
        team_ledger.put(self._connection, self._source, claims)
        self._shown.responses |= {row.response for row in claims}
        files = {file.file_id: file for file in map(self._own, kinds[FileOfLines])}
        self._store_copies([row for kind in _COPIED for row in map(self._own, kinds[kind])], files)
        for row in kinds[AnnotationRow]:
            if not self._textless.forgets(row.session):
                self._annotations.put(self._source, row, shown=self._is_shown(row.session))
        if _is_complete(self._page):
            for session in self._copies.compare_anew(self._source):
                self._show_best(session)
        self._settle(day_of)

    def _own(self, row: AnyRow) -> AnyRow:
        """A row as it is in this store."""
        if isinstance(row, StoredSession):
            session = msgspec.structs.replace(row.session, machine=self._page.machine, person=self._page.person)
            return msgspec.structs.replace(row, session=session)
        if isinstance(row, EventRow | FileOfLines):
            return msgspec.structs.replace(row, file_id=file_number(self._page.machine, row.file_id))
        return row

    def _tell(self, rows: Iterable[StoredSession]) -> None:
        for row in rows:
            if not self._textless.has(row.session.id):
                self._copies.tell(Copy(row.session.id, self._source), row.session.events, row.revision)

    # -- rows of copies ---------------------------------------------------------------------------------------

    def _store_copies(self, rows: Sequence[CopyRow], files: Mapping[int, FileOfLines]) -> None:
        """To the tables, where the copy is shown; else into the bag."""
        sessions: dict[int, list[BagRow]] = defaultdict(list)
        for row in rows:
            sessions[session_of(row)].append(row)
        shown: dict[int, StoredCopy] = {}
        written: list[BagRow] = []
        for session, some in sessions.items():
            copy = self._shown_copy(session)
            fresh = list(self._textless.allowed(some, self._source, session))
            fresh += _files_of(fresh, files)
            if copy.source == self._source:
                shown[session] = copy
                written += fresh
            else:
                team_bag.put(self._connection, Copy(session, self._source), fresh)
        self._write(written, shown)

    def _shown_copy(self, session: int) -> StoredCopy:
        """The copy of a session that is shown; the first one is at once."""
        copy = Copy(session, self._source)
        self._copies.add(copy)
        if self._copies.shown(session) is None:
            self._copies.show(copy)
        found = self._copies.shown(session)
        assert found is not None
        return found

    def _is_shown(self, session: int) -> bool:
        return self._shown_copy(session).source == self._source

    def _write(self, rows: Sequence[BagRow], shown: Mapping[int, StoredCopy]) -> None:
        write_files(self._connection, self._page.machine, _of(FileOfLines, rows))
        for row in rows:
            if isinstance(row, StoredSession):
                self._shown.write_session(self._textless.emptied(row.session))
        self._shown.write_links(_of(LinkRow, rows))
        self._shown.write_totals(_of(TotalRow, rows))
        spans = list(_of(StoredSpan, rows))
        came = self._shown.write_events(_of(EventRow, rows))
        for copy in shown.values():
            if copy.session in came and copy.spans_at is not None:
                self._shown.events_came(copy.session, copy.spans_at)
                self._copies.expect_no_events(copy.name)
        self._shown.write_spans(spans)
        without = {row.session for row in spans} - came
        self._copies.expect_events((Copy(session, self._source) for session in without), self._shown.last)

    # -- rows that were removed -------------------------------------------------------------------------------

    def _remove(self, row: RemovedRow) -> None:
        if row.kind == "response":
            team_ledger.remove(self._connection, self._source, [row.key])
            self._shown.responses.add(row.key)
            return
        copy = next((each for each in self._copies.of_session(row.session) if each.source == self._source), None)
        if copy is None:
            return
        if row.kind == "span":
            team_bag.remove(self._connection, copy.name, ["span"], row.key)
            if copy.shown:
                self._shown.remove_span(row.session, row.key)
        elif row.revision > copy.revision:
            self._remove_copy(copy)
        else:
            team_bag.remove(self._connection, copy.name, ["span", "event"])
            if copy.shown:
                self._shown.remove_contents(row.session)

    def _remove_copy(self, copy: StoredCopy) -> None:
        team_bag.remove(self._connection, copy.name)
        self._annotations.remove(copy.name, shown=copy.shown)
        self._copies.remove(copy.name)
        if copy.shown:
            self._shown.remove_session(copy.session)
            self._show_best(copy.session)

    # -- which copy is shown ----------------------------------------------------------------------------------

    def _show_best(self, session: int) -> None:
        """Show the copy with the most events; those of former stores of a machine go when its new one has as many."""
        copies = self._copies.of_session(session)
        if copies and not copies[0].shown:
            self._swap(next((copy for copy in copies if copy.shown), None), copies[0])
        newest: dict[str, int] = {}
        for copy in copies:
            if copy.source < newest.get(copy.machine, 0):
                self._remove_copy(copy._replace(shown=False))
            newest[copy.machine] = max(copy.source, newest.get(copy.machine, 0))

    def _swap(self, old: StoredCopy | None, new: StoredCopy) -> None:
        before = list(map(_on_machine, rows_of_session(self._connection, new.session)))
        after = team_bag.rows(self._connection, new.name)
        if old is not None:
            team_bag.put(self._connection, old.name, before)
            self._annotations.hide(old.name)
        team_bag.remove(self._connection, new.name)
        self._copies.show(new.name)
        write_files(self._connection, new.machine, _of(FileOfLines, after))
        self._shown.replace(new.session, before, after)
        self._annotations.show(new.name)

    # -- what follows -----------------------------------------------------------------------------------------

    def _settle(self, day_of: Callable[[int], str]) -> None:
        responses = self._shown.responses
        gone, sessions = team_ledger.settle(self._connection, responses, day_of=day_of, revision=self._revision)
        note_removed(self._connection, [("response", 0, response) for response in gone], self._gone)
        revise_sessions(self._connection, self._shown.changed | sessions, self._revision)
        self._shown.hold_place()


def _files_of(rows: Iterable[BagRow], files: Mapping[int, FileOfLines]) -> list[FileOfLines]:
    """The files that these events came from."""
    numbers = dict.fromkeys(row.file_id for row in _of(EventRow, rows))
    return [files[number] for number in numbers if number in files]


def _on_machine(row: BagRow) -> BagRow:
    """A row as its machine sent it."""
    if isinstance(row, FileOfLines):
        return msgspec.structs.replace(row, path=path_on_machine(row.path))
    return row


def _of(kind: type[Any], rows: Iterable[BagRow]) -> Iterator[Any]:
    return (row for row in rows if isinstance(row, kind))


def _is_complete(page: Page) -> bool:
    """Whether everything of a round came: what happened since then comes in another one."""
    until = page.until
    return not until.kind or (until.kind == "event" and until.place == (until.until[1],))
