"""Changes of a store in a file: written, and imported as the store itself would be.

A store and its files are imported under one name, so each continues where the other ended. Of a later file the rows
are taken that are new. What cannot be read of a file is listed beside the team's store, and the rest is taken; as
something is missing then, a file that is whole, or the store, is imported anew after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from agenttrace.config.toml_files import write_private
from agenttrace.store.questions import EventMark
from agenttrace.store.rows import ChangesCursor, EventRow, FileOfLines, LinkRow, Row
from agenttrace.store.team import Page, Position, TeamStore
from agenttrace.team import importing
from agenttrace.team.changes_file import (
    FORMAT,
    MOST_QUOTED,
    VERSION,
    BadLine,
    ChangesFile,
    ChangesWriter,
    Header,
)
from agenttrace.team.importing import Imported, Source, begun_anew, mark_of, marked, name_of, store_mark

_QUARANTINE = "import-quarantine"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written into a file."""

    path: str
    machine: str
    rows: int
    events: int
    bytes: int


def export_store(
    path: Path,
    machine: str,
    target: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_rows: Callable[[int], None] = lambda _: None,
) -> Exported | None:
    """Write all changes of a store into a file; ``None`` where it was stopped before the end."""
    with importing.opened(path) as store:
        mark, cursor, events = store_mark(store), ChangesCursor(), 0
        header = Header(format=FORMAT, version=VERSION, machine=machine, mark=mark, created_at=time.time())
        with ChangesWriter(target, header) as writer:
            while (found := store.changes_since(cursor, importing.PAGE_ROWS)).rows:
                if stop():
                    return None
                cursor = found.cursor
                writer.add(found.rows, marked(store, cursor))
                events += sum(isinstance(row, EventRow) for row in found.rows)
                on_rows(len(found.rows))
            rows, size = writer.rows, writer.finish()
    return Exported(path=str(target), machine=machine, rows=rows, events=events, bytes=size)


class _Scan(NamedTuple):
    """What a look through a whole file found."""

    #: Where its pages end.
    ends: list[ChangesCursor]
    bad: list[BadLine]
    #: What identifies the event that was looked for; empty where it is not there.
    mark: str


def import_file(
    team: TeamStore,
    source: Source,
    *,
    person: str,
    home: Path,
    day_of: Callable[[int], str],
    stop: Callable[[], bool] = lambda: False,
    on_rows: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import what is new in a file; ``home``: where the parts are listed that cannot be read."""
    file = ChangesFile(source.path)
    known = team.position(source.machine)
    scan = _scan(file, known)
    listed = _quarantine(home, file, scan.bad)
    start = _start(file, scan, known)
    rows = events = 0
    problem = None
    for page in _new_pages(file, scan, start):
        if stop():
            problem = "interrupted"
            break
        place = Page(machine=source.machine, person=person, store=start.store, after=start.cursor, until=page.until)
        team.take(page.rows, place, day_of=day_of)
        start = Position(store=start.store, cursor=page.until)
        rows, events = rows + len(page.rows), events + sum(isinstance(row, EventRow) for row in page.rows)
        on_rows(len(page.rows))
    return Imported(
        machine=source.machine,
        path=str(source.path),
        rows=rows,
        events=events,
        known=not rows and problem is None,
        quarantined=len(scan.bad),
        quarantine=listed,
        problem=problem,
    )


def _scan(file: ChangesFile, known: Position | None) -> _Scan:
    wanted = 0 if known is None else known.cursor.until[1]
    found = _Scan([], [], "")
    for page in _pages(file, found.bad):
        found.ends.append(page.until)
        for row in page.rows:
            if isinstance(row, EventRow) and row.number == wanted:
                found = found._replace(mark=mark_of(EventMark(row.number, row.event_id, row.recorded_at)))
    return found


class _WholePage(NamedTuple):
    rows: list[Row]
    until: ChangesCursor


def _pages(file: ChangesFile, bad: list[BadLine] | None = None) -> Iterator[_WholePage]:
    """The pages of a file, each with an end: rows of one without are in the next one. ``bad`` gets what is not read."""
    rows, last = list[Row](), ChangesCursor()
    for page in file.pages():
        if bad is not None:
            bad += page.bad
        rows += page.rows
        if page.until is not None:
            yield _WholePage(rows, page.until)
            rows, last = [], page.until
    if rows:
        yield _WholePage(rows, msgspec.structs.replace(last, place=(*last.place, "rest")))


def _start(file: ChangesFile, scan: _Scan, known: Position | None) -> Position:
    """Under which name a file is imported, and where it is continued."""
    name = name_of(file.header.mark)
    if scan.bad:
        # Not the name of the store: what is missing would be taken for known.
        name = f"damaged-{file.header.mark}-{file.digest()}"
        return known if known is not None and known.store == name else Position(store=name, cursor=ChangesCursor())
    if known is None or not known.store.startswith(name):
        return begun_anew(name)
    if known.cursor in scan.ends or _continues(scan, known.cursor):
        return known
    return begun_anew(name)


def _continues(scan: _Scan, cursor: ChangesCursor) -> bool:
    """Whether a file has what was imported by an earlier one, or of the store: all of some rounds of reading."""
    return not cursor.kind and cursor != ChangesCursor() and cursor.place[-1:] == (scan.mark,)


def _new_pages(file: ChangesFile, scan: _Scan, start: Position) -> Iterator[_WholePage]:
    """The pages after a position, without the rows that are known."""
    begun = start.cursor not in scan.ends
    newest = start.cursor.until if begun else (-1, 0)
    for page in _pages(file):
        if begun:
            yield page._replace(rows=[row for row in page.rows if _is_new(row, newest)])
        begun = begun or page.until == start.cursor


def _is_new(row: Row, newest: tuple[int, int]) -> bool:
    revision, event = newest
    if isinstance(row, LinkRow | FileOfLines):
        return True  # they belong to rows that are
    return row.number > event if isinstance(row, EventRow) else row.revision > revision


def _quarantine(home: Path, file: ChangesFile, bad: list[BadLine]) -> str | None:
    """List what cannot be read of a file; the same file has one list."""
    if not bad:
        return None
    place = home / _QUARANTINE
    place.mkdir(mode=0o700, exist_ok=True)
    target = place / f"{file.digest()}.jsonl"
    first = {"file": str(file.path), "bad": len(bad)}
    write_private(target, b"".join(msgspec.json.encode(each) + b"\n" for each in (first, *bad[:MOST_QUOTED])))
    return str(target)
