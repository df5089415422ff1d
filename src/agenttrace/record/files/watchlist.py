"""The files under watch, and the path of each: they are renamed, replaced, deleted and come back.

A path says where to look, device and inode say which open file it is, and the content alone says whether reading can
go on where it stopped. So a file that was rotated is followed to its new name; one that was saved anew (another inode,
the same content) goes on; and another file at a known path begins a row of its own, while the old row stays for the
lines that were recorded from it.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Set

import msgspec

from agenttrace.ids import file_number
from agenttrace.record.files.discover import FoundFile
from agenttrace.record.files.kinds import tracked_file
from agenttrace.record.files.reader import leads_to, stored_path
from agenttrace.record.files.tracked import TrackedFile
from agenttrace.record.formats.contract import Agent
from agenttrace.store.batch import FileRow
from agenttrace.store.sqlite.files import Files

logger = logging.getLogger(__name__)

Place = tuple[int, int]


class Watchlist:
    """All files under watch: by path, and by device and inode."""

    def __init__(
        self,
        stored: Files,
        max_line_bytes: int,
        max_unpacked_bytes: int,
        on_left: Callable[[TrackedFile], None],
    ) -> None:
        self._stored = stored
        #: Called with files that no path leads to any more and that must stay open.
        self._on_left = on_left
        self._max_line_bytes, self._max_unpacked_bytes = max_line_bytes, max_unpacked_bytes
        self.files: dict[str, TrackedFile] = {}
        #: Files that no path leads to, by their number.
        self._adrift: dict[int, TrackedFile] = {}
        #: Exactly the tracked files whose ``place`` is known, each under its own.
        self._by_place: dict[Place, TrackedFile] = {}
        #: Rows of files that are not tracked now: of an earlier run, or gone.
        self._rows: dict[str, FileRow] = {}
        self._rows_by_place: dict[Place, FileRow] = {}
        self._used_ids: set[int] = set()
        self._load_rows()

    def _load_rows(self) -> None:
        for path, row in self._stored.rows():
            if row is None or row.file_id in self._used_ids:
                # Garbage in the table costs a second reading of that file, nothing else.
                logger.warning("offset of %r is unusable: the file is read again", path)
            elif row.file_id:
                self._used_ids.add(row.file_id)
                self._put_away(row)

    def _put_away(self, row: FileRow) -> None:
        self._rows[row.filepath] = row
        if row.device is not None and row.inode is not None:
            self._rows_by_place[(row.device, row.inode)] = row

    def tracked(self) -> Iterator[TrackedFile]:
        """Every file under watch, those without a path included."""
        yield from self.files.values()
        yield from self._adrift.values()

    # -- which file is at which path --------------------------------------------------------------------------

    def see(self, found: FoundFile) -> TrackedFile:
        """The tracked file that was found: the one known at the path, one that moved there, or a new one."""
        place = (found.device, found.inode)
        file = self.files.get(found.path)
        if file is None or file.actual_place() != place:
            file = self._settle(found, place, file)
        file.notice(found.size, found.mtime_ns)
        return file

    def _settle(self, found: FoundFile, place: Place, current: TrackedFile | None) -> TrackedFile:
        owner = self._owner(place, found.path)
        if current is not None and (owner is not None or not current.fits(found.path)):
            self._displace(current)
            current = None
        if owner is not None:
            if owner.detached or not leads_to(owner.path, place):
                self._move(owner, found)
            return owner  # else a hard link to a file that is read under its other name
        if current is None:
            current = self._adopt(found)
        elif current.handle is not None and current.LEAVES_REST:
            self._leave_behind(current)
        else:
            current.close()
        self._bind(current, place)
        return current

    def _owner(self, place: Place, path: str) -> TrackedFile | None:
        """The file that last had this inode, unless another file has it now."""
        owner = self._by_place.get(place)
        if owner is None:
            return None
        actual = owner.actual_place()
        if actual != place:
            # Between looking and opening another file came to its path.
            self._bind(owner, None if actual in self._by_place else actual)
            return None
        if owner.handle is None and not owner.fits(path):
            self._bind(owner, None)
            return None
        return owner

    def _bind(self, file: TrackedFile, place: Place | None) -> None:
        if file.place is not None and self._by_place.get(file.place) is file:
            del self._by_place[file.place]
        file.place = place
        if place is not None:
            self._by_place[place] = file

    def _move(self, file: TrackedFile, found: FoundFile) -> None:
        """A file is found under a new name."""
        self._rename_row(file.row, stored_path(found.path))
        self._unlist(file)
        self._adrift.pop(file.row.file_id, None)
        file.path, file.home, file.detached = found.path, found.agent, False
        self.files[found.path] = file

    def _displace(self, file: TrackedFile) -> None:
        """The path names another file now. This one may turn up elsewhere, or be read to its end while it is open."""
        self._rename_row(file.row, _aside(file))
        self._unlist(file)
        if not file.LEAVES_REST:
            file.close()  # it is read by its path, which leads to another one
        self._set_adrift(file)

    def _leave_behind(self, file: TrackedFile) -> None:
        """The file was saved anew; a program may still write to the old one."""
        rest = self._tracked(file.path, self._new_row(_aside(file)), None)
        place = file.actual_place()
        self._bind(file, None)
        file.hand_over(rest)
        self._bind(rest, place)
        self._set_adrift(rest)

    def _set_adrift(self, file: TrackedFile) -> None:
        file.detached = True
        self._adrift[file.row.file_id] = file
        if file.handle is not None:
            self._on_left(file)

    def _unlist(self, file: TrackedFile) -> None:
        if self.files.get(file.path) is file:
            del self.files[file.path]

    # -- rows -------------------------------------------------------------------------------------------------

    def _adopt(self, found: FoundFile) -> TrackedFile:
        """Start tracking a path: a file known from an earlier time, or a new one."""
        key = stored_path(found.path)
        row = self._known_row(key, found)
        if row is None:
            self._set_aside(key)
            row = self._new_row(key)
        else:
            del self._rows[row.filepath]
            if row.filepath != key or row.gone_at is not None:
                self._rename_row(row, key)
                row.gone_at = None
        row.blocks = max(row.blocks, self._stored.next_block(row.file_id))
        file = self._tracked(found.path, row, found.agent)
        self.files[found.path] = file
        return file

    def _tracked(self, path: str, row: FileRow, home: Agent | None) -> TrackedFile:
        limit = self._max_unpacked_bytes
        return tracked_file(path, row, self._max_line_bytes, home, max_unpacked_bytes=limit)

    def _known_row(self, key: str, found: FoundFile) -> FileRow | None:
        """The row of this path or of this inode, whichever the content fits."""
        place = (found.device, found.inode)
        here, there = self._rows.get(key), self._rows_by_place.get(place)
        if here is not None and (here.offset == 0 or (here.device, here.inode) == place):
            return here  # what was read is checked when it is opened
        for row in (here, there):
            if row is not None and self._rows.get(row.filepath) is row and self._fits(row, found):
                return row
        return None

    def _fits(self, row: FileRow, found: FoundFile) -> bool:
        return row.offset > 0 and self._tracked(found.path, row, found.agent).fits(found.path)

    def reload(self, numbers: Set[int]) -> None:
        """Load what another process has changed in the rows of these files."""
        rows = {row.file_id: row for row in self._rows.values()}
        rows |= {file.row.file_id: file.row for file in self.tracked()}
        for number in numbers & rows.keys():
            found = self._stored.get(number)
            for name, value in () if found is None else msgspec.structs.asdict(found).items():
                setattr(rows[number], name, value)
        for file in self.tracked():
            if file.row.file_id in numbers:
                file.roll_back()

    def _new_row(self, key: str) -> FileRow:
        attempt = 0
        while (number := file_number(key, attempt)) in self._used_ids:
            attempt += 1
        self._used_ids.add(number)
        return FileRow(filepath=key, file_id=number)

    def _set_aside(self, key: str) -> None:
        """Another file begins at this path; the row of the old one stays for what was recorded from it."""
        row = self._rows.pop(key, None)
        if row is not None:
            self._rename_row(row, f"{key} (gone, file {row.file_id})")
            self._rows[row.filepath] = row

    def _rename_row(self, row: FileRow, key: str) -> None:
        self._stored.rename(row.file_id, key)
        row.filepath = key

    # -- leaving ----------------------------------------------------------------------------------------------

    def missing(self, present: Collection[str], unreadable: Collection[str]) -> list[TrackedFile]:
        """Files that have no path any more, after every path was checked."""
        return [file for file in self.tracked() if file.detached or not _is_there(file.path, present, unreadable)]

    def obstructed(self, present: Collection[str]) -> list[TrackedFile]:
        """Files at whose path a search found none, because something else is there: a directory, or a pipe."""
        return [file for path, file in self.files.items() if path not in present and _is_obstructed(path)]

    def let_go(self, file: TrackedFile) -> None:
        """Stop tracking a file; should it come back, its row is found again."""
        file.close()
        self._bind(file, None)
        self._unlist(file)
        self._adrift.pop(file.row.file_id, None)
        file.row.gone_at = time.time()
        if file.row.read_count:
            self._put_away(file.row)
        else:
            # Nothing was recorded from it, so its number can be reused.
            self._used_ids.discard(file.row.file_id)

    def forget_below(self, directory: str) -> list[int]:
        """Stop tracking all files in a directory, as if none had been there; their numbers."""
        beginning = directory + os.sep
        gone = [file for file in self.tracked() if file.path.startswith(beginning)]
        numbers = [file.row.file_id for file in gone]
        for file in gone:
            file.row.read_count = 0
            self.let_go(file)
        stored = stored_path(beginning)
        for path in [path for path in self._rows if path.startswith(stored)]:
            row = self._rows.pop(path)
            self._rows_by_place = {place: each for place, each in self._rows_by_place.items() if each is not row}
            self._used_ids.discard(row.file_id)
        return numbers


def _is_there(path: str, present: Collection[str], unreadable: Collection[str]) -> bool:
    """Whether a file may still be at its path: a directory that cannot be read proves nothing."""
    if path in present or any(path.startswith(directory + os.sep) for directory in unreadable):
        return True
    try:
        # Files under watch are no links: a link at the path has replaced the file.
        return not stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _is_obstructed(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)


def _aside(file: TrackedFile) -> str:
    """A name for a file that has no path."""
    inode = "unknown" if file.place is None else file.place[1]
    return f"{stored_path(file.path)} (moved away, inode {inode})"
