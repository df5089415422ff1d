"""The recorder: tracks the files, reads what is new in them and commits it in batches."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatch
from glob import has_magic
from pathlib import Path

import msgspec

from agenttrace.calendar import day_finder, zone_name
from agenttrace.config import Settings, SettingsError, did_you_mean
from agenttrace.ids import session_number
from agenttrace.prices.table import shape as price_shape
from agenttrace.record import demo_data
from agenttrace.record.files.discover import (
    Bounds,
    FoundFile,
    Listing,
    Root,
    agent_roots,
    demo_roots,
    expanded,
    found_file,
    is_companion,
    is_excluded,
    list_files,
    named_roots,
)
from agenttrace.record.files.documents import NOT_WHOLE, TOO_LARGE
from agenttrace.record.files.project_logs import MOST_PROJECTS, ProjectLogs
from agenttrace.record.files.reader import BOM, LOG_SUFFIX, NOT_A_FILE, Chunk, open_limit, storable, stored_path
from agenttrace.record.files.recognition import may_become_known, openings, recognised
from agenttrace.record.files.tracked import COUNTS, HEAD_BYTES, TrackedFile
from agenttrace.record.files.watchlist import Watchlist
from agenttrace.record.formats import AGENTS, BROKEN_FORMATS, is_side_file
from agenttrace.record.formats.contract import Agent, Source
from agenttrace.record.formats.lenient import DECODING_ERRORS
from agenttrace.record.ingest.bad_lines import BadLineError, BatchLimit, blame, is_a_lines_fault
from agenttrace.record.ingest.pipeline import Pipeline
from agenttrace.record.ingest.quarantine_rows import UNRECOGNISED, QuarantineLimits
from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.sqlite.database import Connection

logger = logging.getLogger(__name__)

#: A file that grew within this time is active.
ACTIVE_SECONDS = 10.0
#: Between two looks at logs in projects.
PROJECT_SECONDS = 1.0


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

    def add(self, counts: Mapping[str, int]) -> None:
        """Add up lines."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + counts[name])


class Recorder:
    """Reads log files into the store. ``scan`` finds what is new, ``drain`` records it."""

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
        for broken in BROKEN_FORMATS if share is None else ():
            logger.warning("%s", broken)
        self.roots = _roots(settings, self.agents, paths, os.environ if environ is None else environ)
        self._all_paths_named = bool(paths)
        #: Not where the user named all paths.
        self._project_logs = ProjectLogs(() if paths else self.agents)
        #: Logs in projects, which no watch reports, and when they were looked at.
        self._in_projects: set[str] = set()
        self._projects: list[str] = []
        self._projects_version = (-1, -1)
        self._looked_at = 0.0
        self.store = open_store(settings, read_only=False)
        self._compressor = ThreadPoolExecutor(1, thread_name_prefix="compress")
        day_of = day_finder(settings.usage.timezone)
        self.store.keep_days(f"{zone_name(settings.usage.timezone)}; prices {price_shape()}", day_of)
        self.store.exports.destinations.keep(settings.destinations)
        self.pipeline = Pipeline(
            self.store,
            {agent.name: agent for agent in self.agents},
            day_of=day_of,
            compressor=self._compressor,
            alone=share is None,
            limits=QuarantineLimits(settings.record.quarantine_lines_per_file, settings.record.quarantine_lines),
        )
        self._watchlist = Watchlist(
            self.store.files, settings.record.max_line_bytes, settings.record.max_unpacked_bytes, self._keep_open
        )
        self.files = self._watchlist.files
        self.dirty: dict[int, TrackedFile] = {}
        self.summary = Summary()
        #: A file may have several; one whose lines have no meaning counts, too.
        self.sessions = self.pipeline.sessions
        self._share = share
        self._fair = True
        self._queue: deque[TrackedFile] = deque()
        self._limit = BatchLimit(settings.record.batch_lines)
        #: Whether a file is open that no path leads to.
        self._left_open = False
        self._last_taken = time.monotonic()
        self._on_progress = on_progress
        self._unterminated: dict[int, TrackedFile] = {}
        self._for_others: set[int] = set()
        self._links: set[str] = set()
        self._opened: dict[int, TrackedFile] = {}
        self._open_limit = open_limit()

    @property
    def connection(self) -> Connection:
        """The connection of the store, for questions that it does not answer itself yet."""
        return self.store.connection

    # -- which files ------------------------------------------------------------------------------------------

    @property
    def current_roots(self) -> list[Root]:
        """Where logs are looked for: the roots, and the demo data as long as there is some."""
        return self.roots if self._all_paths_named else [*self.roots, *demo_roots(self.agents, self.settings.home)]

    def scan(self) -> Listing:
        """Search all roots for new, grown, moved and vanished files."""
        if self._share is None and demo_data.removal_requested(self.settings.home):
            self._remove_demo()
        listing = self.listing()
        self._say_links(listing)
        for found in listing.files:
            self.see(found)
        self._in_projects = {each.path for each in listing.files if each.agent and each.agent.traits.project_log}
        present = {found.path for found in listing.files}
        for file in self._watchlist.obstructed(present):
            self._cannot_read(file, OSError(errno.EINVAL, NOT_A_FILE))
        for file in self._watchlist.missing(present, [path for path, _ in listing.unreadable]):
            if file.handle is None:
                self._let_go(file)
            else:
                self.dirty[file.row.file_id] = file
        self._close_idle()
        return listing

    def listing(self) -> Listing:
        """The logs that are there."""
        record = self.settings.record
        return list_files([*self.current_roots, *self._project_roots()], record.exclude, follow=record.follow_symlinks)

    def _project_roots(self) -> list[Root]:
        """Logs in the projects of recorded sessions, which are asked for again only after something was recorded."""
        if not self._project_logs:
            return []
        version = (self.summary.recorded, self.store.foreign_version())
        if version != self._projects_version:
            self._projects_version = version
            self._projects = [each.name for each in self.store.session_groups("project", MOST_PROJECTS)]
        return self._project_logs.roots(self._projects)

    def _remove_demo(self) -> None:
        """Remove the logs of the demo first: what is recorded of them cannot come back."""
        place = demo_data.directory(self.settings.home)
        real = os.path.realpath(place)
        try:
            shutil.rmtree(place)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("the demo data cannot be removed: %s", error)
            return
        self.pipeline.roll_back()
        for number in self._watchlist.forget_below(real):
            for known in (self.dirty, self._unterminated, self._opened):
                known.pop(number, None)
            self._for_others.discard(number)
        self.store.removal.remove_below(stored_path(real))
        demo_data.removal_finished(self.settings.home)

    def _say_links(self, listing: Listing) -> None:
        """Log each link that is not followed, once."""
        for path, target in listing.links:
            if path not in self._links:
                logger.warning("link out of the watched directories not followed: %s leads to %s", path, target)
        self._links = {path for path, _ in listing.links}

    def see_path(self, path: str) -> None:
        """Look at one path that something happened to; what is new in a database is in its log first."""
        path = path.removesuffix(LOG_SUFFIX)
        if path in self.files:
            agent = self.files[path].home
        elif not self._may_be_log(path):
            return
        else:
            roots_now = self.current_roots
            bounds = Bounds(roots_now, follow=self.settings.record.follow_symlinks)
            # What a pattern of directories matches is not watched, and takes long to find: the slow scan does it.
            roots = (root for root in roots_now if root.agent is None or not has_magic(os.fspath(root.path.parent)))
            parts = (part for root in roots for part in expanded(root, bounds))
            root = next((root for root in parts if _covers(root, path)), None)
            if root is None or is_excluded(path, self.settings.record.exclude):
                return
            agent = root.log_at(path)[1]
        try:
            found = os.stat(path)
        except OSError:
            if path in self.files:
                self.dirty[self.files[path].row.file_id] = self.files[path]
            return
        if stat.S_ISREG(found.st_mode):
            self.see(found_file(path, agent, found))

    def _may_be_log(self, path: str) -> bool:
        """By its name alone: most of what changes beside logs is none, and a closer look takes milliseconds.

        An agent's home may be a single file of any name; what the user named may be a link to one.
        """
        name = os.path.basename(path)
        return any(
            root.agent is None or fnmatch(name, root.path.name) or root.agent.is_log(Path(path))
            for root in self.current_roots
        )

    def see(self, found: FoundFile) -> None:
        """Add a file to those to be read, if it changed."""
        known = len(self.files)
        file = self._watchlist.see(found)
        self.summary.files += max(0, len(self.files) - known)
        if file.differs(found.size, found.mtime_ns) or file.row.error is not None:
            self.dirty[file.row.file_id] = file

    def _keep_open(self, file: TrackedFile) -> None:
        """A program may still write to a file that no path leads to."""
        self._left_open = True
        self._opened[file.row.file_id] = self.dirty[file.row.file_id] = file

    def _let_go(self, file: TrackedFile) -> None:
        """A file is gone; bytes of it that were seen and never read are counted as lost."""
        lost = file.unread_bytes()
        file.row.lost_bytes += lost
        self._watchlist.let_go(file)
        self._unterminated.pop(file.row.file_id, None)
        if lost or file.row.error is not None:
            file.row.error = f"gone with {lost} unread bytes" if lost else None
            self.pipeline.touch_error(file, file.row.error)
        self.store.files.set_gone(file.row.file_id, file.row.gone_at)

    def reload(self, numbers: Set[int]) -> None:
        """Another process recorded lines of these files, while no batch was open here: load what the store has."""
        self.pipeline.roll_back()
        self._watchlist.reload(numbers)

    def backlog(self) -> int:
        """How many bytes wait to be read."""
        waiting = 0
        for found in self.scan().files:
            file = self.files.get(found.path)
            if file is not None and file.row.file_id in self.dirty:
                waiting += file.waiting_bytes(found.size)
        return waiting

    # -- reading them -----------------------------------------------------------------------------------------

    def drain(self, *, fair: bool = True, stop: Callable[[], bool] = lambda: False) -> bool:
        """Record everything that is new. ``fair``: a piece of each file in turn, else file after file.

        False if ``stop`` ended it early; what was read by then is committed.
        """
        self._fair = fair
        queue = self._queue = deque(sorted(self.dirty.values(), key=lambda file: is_companion(file.path)))
        self.dirty = {}
        try:
            while True:
                while queue and not stop():
                    self._read_on(queue.popleft())
                self._commit_or_requeue()
                if not queue or stop():
                    break
        finally:
            # What was not reached, because of a stop or a failure, is still to be read.
            self.dirty.update((file.row.file_id, file) for file in queue)
        self._close_idle()
        return not queue

    def _read_on(self, file: TrackedFile) -> None:
        """Read the next piece of a file, and commit if that was enough."""
        try:
            more = self._advance(file)
        except BadLineError as error:
            self._isolate(error, file)
            return
        if more:
            self._queue.append(file) if self._fair else self._queue.appendleft(file)
        if self._batch_full():
            self._commit_or_requeue()
        if len(self._opened) >= 2 * self._open_limit:
            self._commit_or_requeue()
            self._close_idle()

    def _batch_full(self) -> bool:
        """By lines, by bytes, or by time; a one-time import goes by size alone."""
        record, pipeline = self.settings.record, self.pipeline
        if pipeline.lines >= self._limit.lines or pipeline.bytes >= record.batch_bytes:
            return True
        return self._fair and pipeline.age() >= record.batch_seconds

    def _commit_or_requeue(self) -> None:
        touched, lines, first = self.pipeline.files, self.pipeline.lines, self.pipeline.first
        try:
            self.commit()
        except BaseException as error:
            if is_a_lines_fault(error) and self._narrow(lines, first, error):
                self._put_back(touched)
                return
            self.dirty.update((file.row.file_id, file) for file in touched)
            raise
        self._limit.stored()

    def _isolate(self, bad: BadLineError, file: TrackedFile) -> None:
        """A line could not be decoded or folded: set it aside, and read everything else of the batch again."""
        touched = self.pipeline.files
        self.pipeline.roll_back()
        if not self.pipeline.refuse(bad.file, bad.offset, bad.raw, str(bad)):
            raise bad
        logger.warning("%s, line at byte %d: %s", bad.file.path, bad.offset, bad)
        self._limit.end_before(bad.before)
        self._put_back([*touched, file])

    def _narrow(self, lines: int, first: tuple[TrackedFile, int, bytes] | None, error: BaseException) -> bool:
        """A batch could not be stored: look for the line that causes it. False if no line does."""
        if lines > 1:
            self._limit.failed(lines)
            return True
        if first is None or not self.pipeline.refuse(*first, blame(error)):
            return False
        logger.warning("%s, line at byte %d: %s", first[0].path, first[1], blame(error))
        self._limit.failed(lines)
        return True

    def _put_back(self, files: Sequence[TrackedFile]) -> None:
        """Read the files next whose lines were rolled back."""
        waiting = set(self._queue)
        fresh = list(dict.fromkeys(file for file in files if file not in waiting))
        self._queue.extendleft(reversed(fresh))

    def commit(self) -> None:
        """Commit what was read."""
        if self.pipeline.empty:
            return
        read = self.pipeline.read_bytes
        counts = [file.counts for file in self.pipeline.files]
        self.pipeline.commit()
        for each in counts:
            self.summary.add(each)
        self.summary.bytes += read
        if self._on_progress is not None:
            self._on_progress(read)

    def _advance(self, file: TrackedFile) -> bool:
        """Read the next piece of a file; True if there may be more."""
        if file.source is not None and not self._is_wanted(file.source):
            return False
        self._opened[file.row.file_id] = file
        try:
            if not file.renew():
                self._note_restart(file)
                self._note_readable(file)
                return False
            if file.source is None and not self._recognise(file):
                return False
            chunk = file.read(max(1, self._limit.lines - self.pipeline.lines))
            self._note_readable(file)
            if chunk is None:
                self._note_restart(file)
                chunk = self._unterminated_chunk(file)
                if chunk is None:
                    return file.position == 0 and file.source is None
        except OSError as error:
            self._cannot_read(file, error)
            return False
        before = file.position
        if self.pipeline.lines and self.pipeline.bytes + file.bytes_in(chunk) > self.settings.record.batch_bytes:
            self._commit_or_requeue()
        if file.position == before:  # else it was rolled back with the batch, and waits to be read again
            self._take(file, chunk)
        return file.has_more

    def _note_readable(self, file: TrackedFile) -> None:
        """A file that could not be read can be read again."""
        if file.row.error is not None:
            file.row.error = None
            self.pipeline.touch_error(file, None)

    def _note_restart(self, file: TrackedFile) -> None:
        if file.dirty:
            self.pipeline.touch_file(file)

    def _take(self, file: TrackedFile, chunk: Chunk) -> None:
        self._last_taken = time.monotonic()
        if file.position == 0 and file.row.quarantined and chunk.broken is None and chunk.refused is None:
            for reason in (NOT_WHOLE, TOO_LARGE):
                self.pipeline.resolve(file, reason)
        self.pipeline.take(file, chunk)
        file.passed(chunk)
        self._unterminated.pop(file.row.file_id, None)
        assert file.source is not None
        self.sessions.add((file.source.agent, file.source.session_id))

    def _unterminated_chunk(self, file: TrackedFile) -> Chunk | None:
        """A last line without newline, read once it is complete and the file has not changed for a while."""
        if not file.pending():
            return None
        if not file.is_quiet():
            self._unterminated[file.row.file_id] = file
            return None
        # Checked once; if the line goes on, the file has changed.
        self._unterminated.pop(file.row.file_id, None)
        chunk = file.unterminated()
        return chunk if chunk is not None and _is_whole(chunk.lines[0]) else None

    def look_at_unterminated(self) -> None:
        """Files that ended without a newline may be quiet by now."""
        self.dirty.update(self._unterminated)

    def _recognise(self, file: TrackedFile) -> bool:
        """Find the format of the file; True once its lines can be read."""
        if file.row.file_id in self._for_others:
            return False
        if file.position and not may_become_known(file):
            self._refuse(file)
            return False
        head = file.head()
        if b"\n" not in head and len(head) < HEAD_BYTES and self._unterminated_chunk(file) is None:
            return False
        source = self._source(file)
        if not self._is_ours(source):
            file.close()
            return False
        if source is None:
            if file.row.file_id not in self._for_others:
                self._refuse(file)
            return False
        if file.position:
            # No format recognised it when it was shorter; now all its lines are recorded.
            self.pipeline.resolve(file, UNRECOGNISED)
            file.forgive()
        file.source = storable(source)
        return True

    def _is_wanted(self, source: Source) -> bool:
        """Whether this recorder reads the lines of such a file."""
        return source.agent in self.pipeline.agents and self._is_ours(source)

    def _is_ours(self, source: Source | None) -> bool:
        """Whether the session is in this recorder's share of a parallel import.

        Files that may have several sessions, and files that no format recognises, are all in the first share.
        """
        if self._share is None:
            return True
        index, count = self._share
        if source is None or self._mixes_sessions(source):
            return index == 0
        return session_number(source.agent, source.session_id) % count == index

    def _mixes_sessions(self, source: Source) -> bool:
        agent = self.pipeline.agents.get(source.agent)
        return agent is not None and agent.traits.mixes_sessions

    def _source(self, file: TrackedFile) -> Source | None:
        """What the file is; ``None`` if no agent knows it, or none of those that are recorded."""
        path, home = Path(file.path), file.home
        order = _order(self.agents, home)
        others = [agent for agent in AGENTS if agent not in self.agents and agent.writes_lines]
        for opening in openings(file):
            source = recognised(order, path, opening)
            if source is not None:
                return source
            if home is None and (is_side_file(path.name) or recognised(others, path, opening) is not None):
                self._leave_to_others(file)
                return None
        if home is not None:
            # In an agent's own directory, a file with a damaged beginning is still that agent's.
            return Source(agent=home.name, session_id=home.session_name(path), directory=str(path.parent))
        return None

    def _leave_to_others(self, file: TrackedFile) -> None:
        """It is no log of the agents that are recorded now: another agent's log, or a file beside logs."""
        self._for_others.add(file.row.file_id)
        self.summary.files -= 1
        file.close()

    def _refuse(self, file: TrackedFile) -> None:
        """No known format: one row in quarantine for the file, all its lines counted, read again if it changes."""
        lines = 0
        noted = file.position > 0
        while (chunk := file.read()) is not None:
            lines += len(chunk.lines) + (chunk.oversized is not None or chunk.refused is not None)
            file.passed(chunk)
        if not lines:
            return
        file.counts["lines"] += lines
        fresh = noted or self.pipeline.quarantine.add(file, 0, file.head()[:4096], UNRECOGNISED)
        file.counts["quarantined" if fresh else "duplicate"] += lines
        self.pipeline.touch_file(file)

    def _cannot_read(self, file: TrackedFile, error: OSError) -> None:
        """Gone, forbidden, or failing: logged once, retried with the next scan."""
        if not file.detached:
            file.close()
        self._unterminated.pop(file.row.file_id, None)
        reason = error.strerror or str(error)
        if error.errno in (errno.EAGAIN, errno.EBUSY):
            self._unterminated[file.row.file_id] = file  # it is busy: another look soon
            if error.errno == errno.EAGAIN and not file.is_quiet():
                return  # that takes moments, unless what it waits for was left behind
        if isinstance(error, FileNotFoundError) or file.row.error == reason:
            return
        logger.warning("cannot read %s: %s", file.path, reason)
        if file.dirty:
            # What was read of it before is committed first, because a commit clears the error.
            self._commit_or_requeue()
        file.row.error = reason
        self.pipeline.touch_error(file, reason)

    def _close_idle(self) -> None:
        """Close files that have not changed for a while; stop tracking those that have no path."""
        horizon = time.monotonic() - self.settings.record.idle_close_seconds
        opened = [file for file in self._opened.values() if file.handle is not None]
        excess = len(opened) - self._open_limit
        if excess > 0:
            # Those that a path leads to are closed first: they can be opened again.
            opened.sort(key=lambda file: (not file.is_reachable(), file.last_growth))
        for index, file in enumerate(opened):
            if file.detached and self._has_more(file):
                continue  # once closed, the rest of it could not be read any more
            if file.last_growth < horizon or index < excess:
                file.close()
                if file.detached:
                    self._let_go(file)
        self._opened = {file.row.file_id: file for file in opened if file.handle is not None}
        self._left_open = any(file.detached for file in self._opened.values())

    def look_at_open(self) -> None:
        """No watch reports files whose path is gone or names another file: check the descriptors.

        Of the others only active ones are checked, in case a notification was missed; the slow scan finds the rest.
        """
        recently = time.monotonic() - ACTIVE_SECONDS
        if self._last_taken < recently and not self._left_open:
            return
        for file in self._opened.values():
            if (file.last_growth > recently or file.detached) and self._has_more(file):
                self.dirty[file.row.file_id] = file

    def look_at_projects(self) -> None:
        """Logs in projects, which are not watched."""
        if time.monotonic() - self._looked_at >= PROJECT_SECONDS:
            self._looked_at = time.monotonic()
            for path in self._in_projects:
                self.see_path(path)

    @staticmethod
    def _has_more(file: TrackedFile) -> bool:
        """Whether an open file has something that was not read."""
        if file.handle is None:
            return False
        return file.differs(*file.look())

    # -- ending -----------------------------------------------------------------------------------------------

    def run_once(self, *, stop: Callable[[], bool] = lambda: False) -> Summary:
        """Record what is there, and return what was done."""
        started = time.monotonic()
        self.catch_up(stop=stop)
        return self.finish(started)

    def catch_up(self, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Record what is there; then what is in projects of which only that told."""
        self.scan()
        self.drain(fair=False, stop=stop)
        if not stop() and any(os.path.realpath(root.path) not in self.files for root in self._project_roots()):
            self.scan()
            self.drain(fair=False, stop=stop)

    def finish(self, started: float) -> Summary:
        """The summary, with what is pending counted in."""
        summary = self.summary
        waiting = (file for file in self.files.values() if file.row.file_id not in self._for_others)
        # A database that its agent holds is looked at again soon, like a line that has not ended.
        summary.pending = sum(file.row.file_id in self._unterminated or file.pending() for file in waiting)
        summary.lines += summary.pending
        summary.sessions = len(self.sessions)
        summary.seconds = round(time.monotonic() - started, 3)
        return summary

    def close(self) -> None:
        """Close files and store."""
        for file in self._opened.values():
            file.close()
        self._compressor.shutdown()
        with suppress(*STORE_FAILURES):  # the next start does the checkpoint
            self.store.checkpoint()
        self.store.close()


def _chosen_agents(settings: Settings, only: str | None) -> list[Agent]:
    known = [agent.name for agent in AGENTS]
    for name in settings.record.agents:
        if name not in known:
            raise SettingsError(
                where=settings.origin("record.agents"),
                key="record.agents",
                problem=f"names an agent that is not known: {name!r}",
                fix=did_you_mean(name, known),
            )
    names = [only] if only else settings.record.agents
    return [agent for agent in AGENTS if not names or agent.name in names]


def _roots(settings: Settings, agents: Sequence[Agent], paths: Sequence[str], environ: Mapping[str, str]) -> list[Root]:
    if paths:
        return named_roots(paths, agents)
    home = Path(environ.get("HOME") or Path.home())
    # The run half writes its logs to the data directory of the settings.
    environ = {**environ, "AGENTTRACE_HOME": str(settings.home)}
    return [*agent_roots(agents, environ, home), *named_roots(settings.record.paths, agents)]


def _order(agents: Sequence[Agent], home: Agent | None) -> Sequence[Agent]:
    """Who is asked whether a file is theirs: first the agent in whose directory it is.

    Lines of a database or of a document are what that agent makes of them, so no other one can know them.
    """
    if home is not None and not home.writes_lines:
        return [home]
    writers = [agent for agent in agents if agent.writes_lines]
    return writers if home is None else [home, *(agent for agent in writers if agent is not home)]


def _covers(root: Root, path: str) -> bool:
    top = os.path.realpath(root.path)
    if path == top:
        return True
    if not path.startswith(top + os.sep):
        return False
    return root.log_at(path)[0]


def _is_whole(line: bytes) -> bool:
    """Whether a line that lacks its newline lacks nothing else."""
    if not line.rstrip().endswith(b"}"):
        return False
    try:
        msgspec.json.decode(line.removeprefix(BOM), type=dict[str, msgspec.Raw])
    except DECODING_ERRORS:
        return False
    return True
