"""The import of a team's history: stores of machines that were copied to one place, or files with their changes.

An import is a push without a network: pages of changes in sequence, so one that was interrupted goes on where it ended,
and a store that grew since brings what is new. Where a machine that was imported pushes for itself later, its sessions
are copies of those that are there: one of them is shown.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from agenttrace.store.errors import CorruptStoreError, NewerStoreError, StoreError
from agenttrace.store.questions import EventMark
from agenttrace.store.rows import ChangesCursor, EventRow
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import Page, Position, TeamStore
from agenttrace.team.changes_file import SUFFIX, ChangesFile, NotChangesError, is_changes_file

#: Rows in a page; the store ends one earlier that has many bytes.
PAGE_ROWS = 4_000
_STORE = "agenttrace.db"
#: Names of directories that say what is in them, not whose it is.
_PLAIN = frozenset({".agenttrace", "agenttrace", ".local", "share", "home", ".config", "AppData", "Local", "data"})
#: What exports write.
_EXPORTED = (".jsonl", ".parquet")


class NotImportableError(Exception):
    """Something that cannot be imported, and what to do about it."""

    misused = True

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A store or a file of changes to import, and the machine that it is of."""

    path: Path
    machine: str
    #: Of a file, and when it was written.
    mark: str | None = None
    created_at: float = 0.0


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one store."""

    machine: str
    path: str
    rows: int
    #: Of the rows, how many were events.
    events: int
    #: Nothing was new.
    known: bool
    #: Parts of a file that cannot be read, and where they are listed.
    quarantined: int = 0
    quarantine: str | None = None
    #: Why it was not imported, or not to its end.
    problem: str | None = None


def sources(paths: Sequence[Path], machine: str | None = None) -> list[Source]:
    """The stores at these paths and below them, each with its machine; ``NotImportableError`` where there is none."""
    found = [source for path in paths for source in _below(path, machine)]
    if machine is not None and len(found) > 1:
        raise NotImportableError(
            f"--machine names one machine, and there are {len(found)} stores",
            "Import them one by one, or leave --machine out: then directories name the machines.",
        )
    names: dict[str, Source] = {}
    for source in found:
        known = names.setdefault(source.machine, source)
        # A machine may have written several files, each with what the earlier ones have.
        if known is not source and (known.mark is None or known.mark != source.mark):
            raise NotImportableError(
                f"{known.path} and {source.path} would both be the machine {source.machine}",
                "Put each store into a directory with the name of its machine, or import them with --machine.",
            )
    return sorted(found, key=lambda each: each.created_at)


def _below(path: Path, machine: str | None) -> list[Source]:
    if not path.exists():
        raise NotImportableError(f"{path} does not exist", "Give a directory with stores, or an agenttrace.db.")
    if path.is_file():
        if is_changes_file(path):
            return [_file_source(path, machine)]
        _check_kind(path)
        return [Source(path=path, machine=machine or _name(path.parent.absolute(), Path()))]
    found = sorted(Path(place, name) for place, _, names in os.walk(path) for name in names)
    stores = [each for each in found if each.name == _STORE]
    files = [_file_source(each, machine) for each in found if each.name.endswith(SUFFIX)]
    if not stores and not files:
        _check_exported(path)
    root = path.absolute()
    return [Source(path=each, machine=machine or _name(root, each.relative_to(path))) for each in stores] + files


def _file_source(path: Path, machine: str | None) -> Source:
    try:
        header = ChangesFile(path).header
    except NotChangesError as error:
        raise NotImportableError(
            f"{path} cannot be imported: {error}", "Write it again: agenttrace team export"
        ) from None
    name = machine or plain_name(header.machine)
    return Source(path=path, machine=name, mark=header.mark, created_at=header.created_at)


def _name(root: Path, inside: Path) -> str:
    """The first directory below the given one, or the last one above that is not a plain name."""
    parts = [part for part in inside.parent.parts if part not in _PLAIN]
    above = [part for part in root.parts[1:] if part not in _PLAIN]
    name = parts[0] if parts else above[-1] if above else "imported"
    return plain_name(name)


def plain_name(name: str) -> str:
    """A name as machines have one."""
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:64]


def _check_kind(path: Path) -> None:
    if path.suffix in _EXPORTED:
        raise _exported(path)
    with path.open("rb") as file:
        if file.read(15) != b"SQLite format 3":
            raise NotImportableError(f"{path} is not a store of AgentTrace", "Give an agenttrace.db, or a directory.")


def _check_exported(path: Path) -> None:
    first = next((each for each in sorted(path.rglob("*")) if each.suffix in _EXPORTED and each.is_file()), None)
    if first is not None:
        raise _exported(first)
    raise NotImportableError(f"there is no {_STORE} in {path}", "Copy the data directories of the machines into it.")


def _exported(path: Path) -> NotImportableError:
    return NotImportableError(
        f"{path} holds exported spans: without lines of logs, events and the keys of responses, its sessions could not "
        "be shown, and their tokens would count twice beside the machines' own",
        "Import the agenttrace.db of the machine. Logs that are still there: agenttrace record --once, then import.",
    )


@contextmanager
def opened(path: Path) -> Iterator[SqliteStore]:
    """The store of a machine; one of an older version is upgraded in a copy."""
    try:
        store = SqliteStore.open(path)
    except (NewerStoreError, CorruptStoreError):
        raise
    except StoreError:
        with tempfile.TemporaryDirectory(prefix="agenttrace-import-") as place:
            copied = Path(place) / _STORE
            for suffix in ("", "-wal"):
                if (part := path.with_name(path.name + suffix)).exists():
                    shutil.copyfile(part, copied.with_name(copied.name + suffix))
            with SqliteStore.open(copied, read_only=False) as upgraded:
                yield upgraded
        return
    with store:
        yield store


def rows_to_import(team: TeamStore, found: Sequence[Source]) -> int:
    """About how many rows of these stores are new; those that cannot be read are left out."""
    rows = 0
    for source in found:
        if source.mark is not None:
            rows += ChangesFile(source.path).expected_rows()
            continue
        with suppress(StoreError), SqliteStore.open(source.path) as store:
            rows += store.rows_after(_start(team, store, source.machine).cursor)
    return rows


def import_store(
    team: TeamStore,
    source: Source,
    *,
    person: str,
    day_of: Callable[[int], str],
    stop: Callable[[], bool] = lambda: False,
    on_rows: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import what is new in a store; ``on_rows`` gets the number of rows of each page."""
    with opened(source.path) as store:
        push = _Import(team, store, source.machine, person)
        rows = events = 0
        while not stop():
            found = push.next(day_of)
            if found is None:
                break
            rows, events = rows + found[0], events + found[1]
            on_rows(found[0])
        problem = "interrupted" if stop() else None
    return Imported(
        machine=source.machine,
        path=str(source.path),
        rows=rows,
        events=events,
        known=not rows and problem is None,
        problem=problem,
    )


class _Import:
    """Where the import of one store is."""

    def __init__(self, team: TeamStore, store: SqliteStore, machine: str, person: str) -> None:
        self._team, self._store, self._machine, self._person = team, store, machine, person
        self._name, self._cursor = msgspec.structs.astuple(_start(team, store, machine))

    def next(self, day_of: Callable[[int], str]) -> tuple[int, int] | None:
        """Import the next page: how many rows and events; ``None`` where there is none."""
        found = self._store.changes_since(_unmarked(self._cursor), PAGE_ROWS)
        if not found.rows:
            return None
        until = marked(self._store, found.cursor)
        page = Page(machine=self._machine, person=self._person, store=self._name, after=self._cursor, until=until)
        self._team.take(found.rows, page, day_of=day_of)
        self._cursor = until
        return len(found.rows), sum(isinstance(row, EventRow) for row in found.rows)


def _start(team: TeamStore, store: SqliteStore, machine: str) -> Position:
    """The name under which a store is imported, and where its import begins.

    A store that was restored from a backup gets another name: what it lost stays, and is not mixed with what came.
    """
    begun = name_of(store_mark(store))
    position = team.position(machine)
    if position is not None and position.store.startswith(begun) and _continues(store, position.cursor):
        return position
    return begun_anew(begun)


def store_mark(store: SqliteStore) -> str:
    """What identifies a store, however much it grows: its first event."""
    return _mark(store, next(iter(store.events_after(0, limit=1)), 0))


def name_of(mark: str) -> str:
    """How the name begins under which a store is imported."""
    return f"import-{mark}"


def begun_anew(name: str) -> Position:
    """The beginning of an import under a name of its own."""
    return Position(store=f"{name}-{secrets.token_hex(8)}", cursor=ChangesCursor())


def _continues(store: SqliteStore, cursor: ChangesCursor) -> bool:
    """Whether the store has what was imported; a backup from before that has not."""
    return cursor.place[-1:] == (_mark(store, cursor.until[1]),)


def marked(store: SqliteStore, cursor: ChangesCursor) -> ChangesCursor:
    """A cursor that says at which event its round of reading ends, by what identifies that event."""
    if cursor.kind == "event" and cursor.place == (cursor.until[1],):
        # The last event is the last row of a round.
        cursor = ChangesCursor(cursor.until, cursor.until)
    return msgspec.structs.replace(cursor, place=(*cursor.place, _mark(store, cursor.until[1])))


def _unmarked(cursor: ChangesCursor) -> ChangesCursor:
    """The cursor as the store reads it."""
    return msgspec.structs.replace(cursor, place=cursor.place[:-1])


def _mark(store: SqliteStore, event: int) -> str:
    """What identifies an event; empty where the store has none of this number."""
    return mark_of(store.event_mark(event))


def mark_of(mark: EventMark | None) -> str:
    """What identifies an event, in few characters."""
    return hashlib.sha256(repr(mark).encode()).hexdigest()[:16] if mark is not None else ""
