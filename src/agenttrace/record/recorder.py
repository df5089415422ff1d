"""The recorder: keeps track of the files, reads what is new in them and has it committed in batches."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from agenttrace.config import Settings
from agenttrace.ids import file_number, session_number
from agenttrace.record.agents import AGENTS
from agenttrace.record.agents.contract import Agent, Source
from agenttrace.record.calendar import day_finder
from agenttrace.record.discover import (
    LOG_NAME,
    Found,
    Listing,
    Root,
    agent_roots,
    is_companion,
    list_files,
    named_roots,
)
from agenttrace.record.pipeline import Pipeline
from agenttrace.record.reader import Chunk, stored_path
from agenttrace.record.tracked import COUNTS, FileRow, TrackedFile
from agenttrace.store.database import connect, transaction

logger = logging.getLogger(__name__)

#: Descriptors kept open at most; files idle longest give theirs back first.
OPEN_FILES = 256
ACTIVE_SECONDS = 10.0
_HEAD_LIMIT = 65_536
_FILE_COLUMNS = tuple(field.name for field in msgspec.structs.fields(FileRow))


class Summary(msgspec.Struct, kw_only=True):
    """What a recording run did; ``lines`` is the sum of the five kinds."""

    files: int = 0
    bytes: int = 0
    lines: int = 0
    recorded: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    pending: int = 0
    sessions: int = 0
    seconds: float = 0.0


class Recorder:
    """Reads log files into the store. ``scan`` looks what is there, ``drain`` records it."""

    def __init__(
        self,
        settings: Settings,
        *,
        paths: Sequence[str] = (),
        agent: str | None = None,
        environ: Mapping[str, str] | None = None,
        share: tuple[int, int] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.settings = settings
        self.agents = _chosen_agents(settings, agent)
        self.roots = _roots(settings, self.agents, paths, os.environ if environ is None else environ)
        self.connection = connect(settings.home / "agenttrace.db")
        self._compressor = ThreadPoolExecutor(1, thread_name_prefix="compress")
        self.pipeline = Pipeline(
            self.connection,
            {agent.name: agent for agent in self.agents},
            day_of=day_finder(settings.usage.timezone),
            compressor=self._compressor,
        )
        self.files: dict[str, TrackedFile] = {}
        self.dirty: dict[int, TrackedFile] = {}
        self.summary = Summary()
        self.sessions: set[tuple[str, str]] = set()
        self._by_inode: dict[tuple[int, int], TrackedFile] = {}
        self._homes: dict[str, Agent | None] = {}
        self._rows, self._used_ids = self._load_rows()
        self._rows_by_inode = {(row.device, row.inode): row for row in self._rows.values() if row.inode is not None}
        self._share = share
        self._on_progress = on_progress
        self._unterminated: dict[int, TrackedFile] = {}
        self._opened: dict[int, TrackedFile] = {}

    # -- which files ------------------------------------------------------------------------------------------

    def _load_rows(self) -> tuple[dict[str, FileRow], set[int]]:
        cursor = self.connection.execute(f"SELECT {', '.join(_FILE_COLUMNS)} FROM file_offsets")
        rows = {}
        for values in cursor:
            try:
                row = msgspec.convert(dict(zip(_FILE_COLUMNS, values, strict=True)), FileRow)
            except msgspec.ValidationError as error:
                # Garbage in the table costs a second reading of that file, nothing else.
                logger.warning("offset of %r is unusable (%s): the file is read again", values[0], error)
                continue
            rows[row.filepath] = row
        return rows, {row.file_id for row in rows.values()}

    def scan(self) -> Listing:
        """Look at all roots: new, grown, moved and vanished files."""
        listing = list_files(self.roots, self.settings.record.exclude)
        for found in listing.files:
            self.see(found)
        self._notice_gone({found.path for found in listing.files}, [path for path, _ in listing.unreadable])
        return listing

    def see_path(self, path: str) -> None:
        """Look at one path that something happened to."""
        if path in self.files:
            agent = self._homes[path]
        else:
            root = next((root for root in self.roots if _covers(root, path)), None)
            if root is None:
                return
            agent = root.agent
        try:
            stat = os.stat(path)
        except OSError:
            if path in self.files:
                self.dirty[self.files[path].row.file_id] = self.files[path]
            return
        self.see(Found(path, agent, stat.st_size, stat.st_mtime_ns, stat.st_dev, stat.st_ino))

    def see(self, found: Found) -> None:
        """Take note of a file as it is now."""
        place = (found.device, found.inode)
        file = self.files.get(found.path)
        if file is None:
            file = self._adopt(found)
            if file is None:
                return
        elif file.handle is not None and (file.handle.device, file.handle.inode) != place:
            self._detach(file)
        self._by_inode[place] = file
        if self._has_news(file, found):
            self.dirty[file.row.file_id] = file

    @staticmethod
    def _has_news(file: TrackedFile, found: Found) -> bool:
        row = file.row
        same = (row.inode, file.size, file.mtime_ns) == (found.inode, found.size, found.mtime_ns)
        return not same or (found.size != file.position and not file.compressed)

    def _adopt(self, found: Found) -> TrackedFile | None:
        """Start tracking a path: a file moved here, one known from an earlier run, or a new one."""
        moved = self._by_inode.get((found.device, found.inode))
        if moved is not None:
            if not moved.detached and _names(moved.path, found):
                return None  # a hard link to a file that is read under its other name
            self.files.pop(moved.path, None)
            moved.path, moved.detached = found.path, False
            self.files[found.path] = moved
            self._homes[found.path] = found.agent
            self.dirty[moved.row.file_id] = moved
            return moved
        row = self._row_for(found)
        file = TrackedFile(found.path, row, self.settings.record.max_line_bytes)
        self.files[found.path] = file
        self._homes[found.path] = found.agent
        self.summary.files += 1
        return file

    def _row_for(self, found: Found) -> FileRow:
        key = stored_path(found.path)
        row = self._rows.pop(key, None)
        if row is None:
            # Renamed while nobody watched: the inode leads to the row, head and tail are checked on opening.
            old = self._rows_by_inode.get((found.device, found.inode))
            if old is not None and old.filepath in self._rows and not os.path.lexists(old.filepath):
                row = self._rows.pop(old.filepath)
                row.filepath = key
        if row is None:
            row = FileRow(filepath=key, file_id=self._new_file_id(key))
        elif row.file_id == 0:
            row.file_id = self._new_file_id(key)
        return row

    def _new_file_id(self, key: str) -> int:
        attempt = 0
        while (number := file_number(key, attempt)) in self._used_ids:
            attempt += 1
        self._used_ids.add(number)
        return number

    def _detach(self, file: TrackedFile) -> None:
        """Another file stands at the path: what is still written to the old one is read through its handle."""
        handle = file.handle
        assert handle is not None
        key = f"{file.row.filepath} (moved away, inode {handle.inode})"
        row = FileRow(filepath=key, file_id=self._new_file_id(key))
        rest = TrackedFile(file.path, row, self.settings.record.max_line_bytes)
        rest.handle, file.handle = handle, None
        rest.detached, rest.source = True, file.source
        rest.position = row.offset = file.position
        rest.size, rest.mtime_ns = file.size, file.mtime_ns
        rest._make_reader()
        self._by_inode[(handle.device, handle.inode)] = rest
        self._opened[row.file_id] = self.dirty[row.file_id] = rest

    def _notice_gone(self, present: set[str], unreadable: list[str]) -> None:
        for path, file in list(self.files.items()):
            if path in present or any(path.startswith(directory + os.sep) for directory in unreadable):
                continue
            if os.path.lexists(path):
                continue
            if file.handle is not None:
                self.dirty[file.row.file_id] = file
            elif file.row.gone_at is None and file.row.inode is not None:
                file.row.gone_at = time.time()
                with transaction(self.connection):
                    self.connection.execute(
                        "UPDATE file_offsets SET gone_at = ? WHERE file_id = ?", (file.row.gone_at, file.row.file_id)
                    )

    def backlog(self) -> int:
        """How many bytes wait to be read."""
        waiting = 0
        for found in self.scan().files:
            file = self.files.get(found.path)
            if file is not None and file.row.file_id in self.dirty:
                waiting += max(0, found.size - file.position)
        return waiting

    # -- reading them -----------------------------------------------------------------------------------------

    def drain(self, *, fair: bool = True, stop: Callable[[], bool] = lambda: False) -> bool:
        """Record everything that is new. ``fair``: a piece of each file in turn, else file after file.

        False if ``stop`` ended it early; what was read by then is committed.
        """
        queue = deque(sorted(self.dirty.values(), key=lambda file: is_companion(file.path)))
        self.dirty = {}
        while queue:
            if stop():
                self.dirty.update((file.row.file_id, file) for file in queue)
                break
            file = queue.popleft()
            if self._advance(file):
                queue.append(file) if fair else queue.appendleft(file)
            if self._batch_full():
                self._commit_or_requeue()
        self._commit_or_requeue()
        self._close_idle()
        return not queue

    def _batch_full(self) -> bool:
        record = self.settings.record
        return self.pipeline.lines >= record.batch_lines or self.pipeline.bytes >= record.batch_bytes

    def _commit_or_requeue(self) -> None:
        touched = self.pipeline.files
        try:
            self.commit()
        except BaseException:
            self.dirty.update((file.row.file_id, file) for file in touched)
            raise

    def commit(self) -> None:
        """Commit what was read."""
        if self.pipeline.empty:
            return
        counts = dict.fromkeys(COUNTS, 0)
        for file in self.pipeline.files:
            for name in COUNTS:
                counts[name] += file.counts[name]
        self.pipeline.commit()
        for name, count in counts.items():
            setattr(self.summary, name, getattr(self.summary, name) + count)

    def _advance(self, file: TrackedFile) -> bool:
        """Read the next piece of a file; True if there may be more."""
        self._opened[file.row.file_id] = file
        try:
            if not file.renew():
                self._note_restart(file)
                return False
            if file.source is None and not self._recognise(file):
                return False
            chunk = file.read()
            if chunk is None:
                self._note_restart(file)
                chunk = self._unterminated_chunk(file)
                if chunk is None:
                    return file.position == 0 and file.source is None
        except OSError as error:
            self._cannot_read(file, error)
            return False
        self._take(file, chunk)
        return True

    def _note_restart(self, file: TrackedFile) -> None:
        if file.dirty:
            self.pipeline.touch_file(file)

    def _take(self, file: TrackedFile, chunk: Chunk) -> None:
        before = file.position
        self.pipeline.take(file, chunk)
        self._unterminated.pop(file.row.file_id, None)
        self.summary.bytes += chunk.end - before
        assert file.source is not None
        self.sessions.add((file.source.agent, file.source.session_id))
        if self._on_progress is not None:
            self._on_progress(chunk.end - before)

    def _unterminated_chunk(self, file: TrackedFile) -> Chunk | None:
        """A last line without newline, taken once it is whole and the file quiet; never a half."""
        if file.pending():
            self._unterminated[file.row.file_id] = file
        line = file.unterminated()
        if line is None or not line.rstrip().endswith(b"}"):
            return None
        try:
            msgspec.json.decode(line, type=dict)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return Chunk([line], [file.position], file.size)

    def look_at_unterminated(self) -> None:
        """Files that ended without a newline may be quiet by now."""
        self.dirty.update(self._unterminated)

    def _recognise(self, file: TrackedFile) -> bool:
        """Find out what the file is; True once its lines can be read."""
        head = file.head()
        if not head or (b"\n" not in head and len(head) < _HEAD_LIMIT and not file.unterminated()):
            if head:
                self._unterminated[file.row.file_id] = file
            return False
        home = self._homes.get(file.path)
        file.source = self._source(Path(file.path), head, home)
        if not self._is_ours(file.source):
            file.source = None
            file.close()
            return False
        if file.source is None:
            self._refuse(file)
            return False
        self.pipeline.take_link(file.source)
        return True

    def _is_ours(self, source: Source | None) -> bool:
        """Whether this recorder's share of a parallel import holds the session.

        Files that may hold several sessions, and files nobody knows, all fall to the first share.
        """
        if self._share is None:
            return True
        index, count = self._share
        if source is None or source.agent == "agenttrace":
            return index == 0
        return session_number(source.agent, source.session_id) % count == index

    def _source(self, path: Path, head: bytes, home: Agent | None) -> Source | None:
        order = self.agents if home is None else [home, *(agent for agent in self.agents if agent is not home)]
        for agent in order:
            source = agent.recognise(path, head)
            if source is not None:
                return source
        if home is not None:
            # In an agent's own directory a damaged beginning does not make the rest somebody else's.
            name = path.parent.name if path.stem == "wire" else path.stem
            return Source(agent=home.name, session_id=name, directory=str(path.parent))
        return None

    def _refuse(self, file: TrackedFile) -> None:
        """No format we know: one note in quarantine for the file, all its lines counted, read again if it changes."""
        lines = 0
        start = file.position
        while (chunk := file.read()) is not None:
            lines += len(chunk.lines)
            file.position = chunk.end
        known = self.pipeline.quarantine(file, start, file.head()[:4096], "format not recognised")
        file.counts["lines"] += lines
        file.counts["quarantined" if known else "duplicate"] += lines
        self.pipeline.touch_file(file)

    def _cannot_read(self, file: TrackedFile, error: OSError) -> None:
        """Gone, forbidden, or failing: said once, tried again with the next look."""
        file.close()
        reason = error.strerror or str(error)
        if isinstance(error, FileNotFoundError) or file.row.error == reason:
            return
        logger.warning("cannot read %s: %s", file.path, reason)
        file.row.error = reason
        self.pipeline.touch_error(file, reason)

    def _close_idle(self) -> None:
        """Give back descriptors of files that went quiet; forget moved-away files for good."""
        horizon = time.monotonic() - self.settings.record.idle_close_seconds
        opened = [file for file in self._opened.values() if file.handle is not None]
        opened.sort(key=lambda file: file.last_growth)
        excess = len(opened) - OPEN_FILES
        for index, file in enumerate(opened):
            if file.last_growth < horizon or (index < excess and not file.detached):
                self._close_file(file)
        self._opened = {file.row.file_id: file for file in opened if file.handle is not None}

    def _close_file(self, file: TrackedFile) -> None:
        handle = file.handle
        assert handle is not None
        file.close()
        if file.detached:
            self._by_inode.pop((handle.device, handle.inode), None)

    def look_at_open(self) -> None:
        """Files whose path is gone or names another file grow unseen by any watch: ask the descriptors.

        Of the others only those at work are asked, in case a notification was missed; the slow look finds the rest.
        """
        recently = time.monotonic() - ACTIVE_SECONDS
        for file in self._opened.values():
            if file.handle is not None and (file.last_growth > recently or file.detached):
                stat = file.handle.stat()
                if stat.st_size != file.size or stat.st_mtime_ns != file.mtime_ns:
                    self.dirty[file.row.file_id] = file

    # -- ending -----------------------------------------------------------------------------------------------

    def run_once(self, *, stop: Callable[[], bool] = lambda: False) -> Summary:
        """Record what is there and say what was done."""
        started = time.monotonic()
        self.scan()
        self.drain(fair=False, stop=stop)
        return self.finish(started)

    def finish(self, started: float) -> Summary:
        """The summary, with what is pending counted in."""
        summary = self.summary
        summary.pending = sum(file.pending() for file in self.files.values() if file.source or file.size)
        summary.lines += summary.pending
        summary.sessions = len(self.sessions)
        summary.seconds = round(time.monotonic() - started, 3)
        return summary

    def close(self) -> None:
        """Close files and store."""
        for file in self._opened.values():
            file.close()
        self._compressor.shutdown()
        with suppress(sqlite3.Error):  # what a checkpoint cannot do now, the next start does
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()


def _chosen_agents(settings: Settings, only: str | None) -> list[Agent]:
    names = [only] if only else settings.record.agents
    return [agent for agent in AGENTS if not names or agent.name in names]


def _roots(settings: Settings, agents: Sequence[Agent], paths: Sequence[str], environ: Mapping[str, str]) -> list[Root]:
    if paths:
        return named_roots(paths)
    home = Path(environ.get("HOME") or Path.home())
    return [*agent_roots(agents, environ, home), *named_roots(settings.record.paths)]


def _covers(root: Root, path: str) -> bool:
    top = os.path.realpath(root.path)
    if path == top:
        return True
    if not path.startswith(top + os.sep):
        return False
    return LOG_NAME.search(path) is not None and (root.agent is None or root.agent.is_log(Path(path)))


def _names(path: str, found: Found) -> bool:
    """Whether ``path`` is still a name of the file that was found."""
    try:
        stat = os.stat(path)
    except OSError:
        return False
    return (stat.st_dev, stat.st_ino) == (found.device, found.inode)
