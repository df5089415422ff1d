"""The trace store in one SQLite file: the questions of ``store.questions``, answered through one connection."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.batch import Batch
from agenttrace.store.errors import CorruptStoreError, QueryInterruptedError, SessionNameError
from agenttrace.store.questions import (
    Agreement,
    ErrorQuery,
    EventLine,
    EventMark,
    EventPlace,
    FailedSpan,
    FileSource,
    SearchQuery,
    SessionFilter,
    SessionName,
    SessionPlace,
    SourceFile,
    SpanPlace,
    SpanRow,
    SpanView,
    UsageQuery,
    UsageRow,
)
from agenttrace.store.rows import Changes, ChangesCursor, Row
from agenttrace.store.session_state import STALE_MINUTES
from agenttrace.store.sqlite import (
    agreement,
    changes,
    database,
    events,
    failed_spans,
    forks,
    merging,
    search,
    sessions,
    span_rows,
    traces,
    usage,
    writing,
)
from agenttrace.store.sqlite.blocks import Blocks
from agenttrace.store.sqlite.database import BUSY_SECONDS, connect
from agenttrace.store.sqlite.exports import Exports
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.search import SearchIndex
from agenttrace.store.sqlite.span_rows import Subagents
from agenttrace.store.sqlite.status import StoreStatus
from agenttrace.store.sqlite.traces import StoredTraces

#: After so many steps SQLite asks whether to go on.
_STEPS = 20_000


class SqliteStore:
    """Answers questions; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, stale_minutes: float = STALE_MINUTES) -> None:
        self.connection = connection
        self.path = path
        self._stale_minutes = stale_minutes

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = True,
        any_thread: bool = False,
        stale_minutes: float = STALE_MINUTES,
        busy_seconds: float = BUSY_SECONDS,
        cache_kib: int | None = None,
    ) -> SqliteStore:
        """The store of a file; created or upgraded unless ``read_only``; waits so long for one that is locked."""
        connection = connect(path, read_only=read_only, any_thread=any_thread, busy_seconds=busy_seconds)
        if cache_kib is not None:
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        return cls(connection, path, stale_minutes=stale_minutes)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""
        with suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self.connection.interrupt()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All questions inside see the store at one moment."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:  # an error may have ended it
                self.connection.execute("ROLLBACK")

    @contextmanager
    def interrupted_when(self, over: Callable[[], bool]) -> Iterator[None]:
        """Questions inside end with ``QueryInterruptedError`` soon after ``over()`` becomes true."""
        self.connection.set_progress_handler(over, _STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise QueryInterruptedError("the question was interrupted") from error
            # SQLite stores whatever bytes it is given as text, and fails when these are read.
            if "decode" in str(error):
                raise CorruptStoreError(f"what was recorded cannot be read ({error})") from error
            raise
        finally:
            self.connection.set_progress_handler(None, 0)

    # -- sessions ---------------------------------------------------------------------------------------------

    def sessions(
        self,
        wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
        *,
        limit: int | None = None,
        after: SessionPlace | None = None,
    ) -> list[Session]:
        """The sessions that match, newest first, with their state as of now; ``after`` a place, where one is given."""
        return sessions.list_sessions(
            self.connection, wanted, stale_minutes=self._stale_minutes, limit=limit, after=after
        )

    def session(self, name: str) -> Session:
        """The session of this key, this id or this beginning of an id; ``SessionNameError`` where it is not one."""
        matching = self.find_sessions(name) if name else []
        found = [session for session in matching if session.events]
        if len(found) != 1:
            raise SessionNameError(name, found, pruned=bool(matching) and not found)
        return found[0]

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        """These sessions, where they have events, with their state as of now."""
        return sessions.sessions_by_number(self.connection, numbers, stale_minutes=self._stale_minutes)

    def find_sessions(self, name: str) -> list[Session]:
        """The session of this key, or those whose id is ``name`` or begins with it, newest first; pruned ones too."""
        return sessions.find_sessions(self.connection, name, stale_minutes=self._stale_minutes)

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        """What these sessions are called, by number; pruned ones too."""
        return sessions.session_names(self.connection, numbers)

    def agents(self) -> list[str]:
        """The names of all agents that have sessions."""
        return sessions.session_agents(self.connection)

    def active_counts(self) -> tuple[int, int]:
        """How many sessions work now, and how many of the last day wait for the user."""
        return sessions.active_counts(self.connection, self._stale_minutes)

    def heard_of(self, session: Session) -> float:
        """When a session last said something; when that was recorded, where its lines have no times."""
        return sessions.heard_of(self.connection, session)

    def last_event(self) -> int:
        """The number of the latest event; 0 where there is none."""
        return sessions.last_event(self.connection)

    def sessions_changed_since(self, event: int) -> list[int]:
        """The numbers of the sessions with events after this one."""
        return sessions.sessions_changed_since(self.connection, event)

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        """A number for each of these sessions, or of all, that is another one when its row or its usage changed."""
        return sessions.session_fingerprints(self.connection, numbers)

    def parent_of(self, session: Session) -> Session | None:
        """The session that this one is a fork of, where it is recorded."""
        number = forks.parent_number(self.connection, session)
        found = [] if number is None else self.sessions_by_number([number])
        return found[0] if found else None

    def forks_of(self, session: Session, limit: int) -> list[Session]:
        """The sessions that are copies of this one, the oldest first."""
        numbers = forks.fork_numbers(self.connection, session, limit)
        found = {each.id: each for each in self.sessions_by_number(numbers)}
        return [found[number] for number in numbers if number in found]

    # -- usage ------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups."""
        return usage.usage_rows(self.connection, query)

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        """Tokens per model of each of these sessions."""
        return usage.usage_by_session(self.connection, numbers)

    def models(self) -> list[str]:
        """The models whose tokens are counted, the most used first."""
        return usage.recorded_models(self.connection)

    def agreement(self, session: int) -> Agreement:
        """The count of a session, by number, against what its agent says it used."""
        return agreement.check(self.connection, session)

    def sessions_with_totals(self) -> set[int]:
        """The numbers of the sessions whose agent writes totals of its own."""
        return agreement.sessions_with_totals(self.connection)

    # -- spans and errors -------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        """All spans of a session in order of start, subagents under the tool calls that started them."""
        return span_rows.session_spans(self.connection, session)

    def span_rows(
        self, session: Session, *, attributes: bool = False, start: int = 0, limit: int = -1
    ) -> Iterator[SpanRow]:
        """The same as rows, from the ``start``-th on; without ``attributes`` these are not read."""
        return span_rows.session_rows(self.connection, session, attributes=attributes, start=start, limit=limit)

    def changed_spans(self, session: Session, after: int) -> list[SpanRow]:
        """The spans that are not what they were when ``after`` was the last event, or that later lines belong to."""
        return span_rows.changed_rows(self.connection, session, after)

    def subagents(self, session: Session) -> Subagents:
        """Which tool calls the subagents of a session carry out; to be read once for several ``spans_by_id``."""
        return Subagents(self.connection, session.id, span_rows.over_at(session))

    def spans_by_id(
        self, session: Session, wanted: Sequence[bytes], *, attributes: bool = True, subagents: Subagents | None = None
    ) -> dict[bytes, SpanRow]:
        """These spans of a session, as far as it has them."""
        known = subagents or self.subagents(session)
        return span_rows.some_rows(self.connection, session.id, wanted, known, attributes=attributes)

    def span_places(self, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
        """Where these spans stand in their session, as far as it has them."""
        return span_rows.span_places(self.connection, session, wanted)

    def span_name(self, session: int, span_id: bytes | None) -> str | None:
        """The name of a span; ``None`` where the session has no such span."""
        return span_rows.span_name(self.connection, session, span_id)

    def tool_names(self, session: int, after: int = 0) -> tuple[int, dict[str, str]]:
        """The names of the tools by call, of the tool calls stored after a place; and the place of the last one."""
        return span_rows.tool_names(self.connection, session, after)

    def spans_revision(self, session: int) -> tuple[int | None, ...]:
        """Differs when a span of the session was added or changed."""
        return span_rows.spans_revision(self.connection, session)

    def figures_revision(self, session: int) -> tuple[int | None, ...]:
        """Differs when tokens of the session's spans are counted elsewhere, or a subagent was linked to its call."""
        return span_rows.figures_revision(self.connection, session)

    def errors(self, query: ErrorQuery) -> list[FailedSpan]:
        """Spans that failed, the latest first."""
        return failed_spans.failed_spans(self.connection, query)

    def traces(self, session: int) -> StoredTraces:
        """All spans of a session by trace, without attributes and texts."""
        return traces.session_traces(self.connection, session)

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        """Some spans of these traces, whole."""
        return traces.spans_with_attributes(self.connection, found, wanted)

    # -- events, lines and files ------------------------------------------------------------------------------

    def newest_events(self, count: int, session: int | None = None) -> list[int]:
        """The numbers of the latest events of a session or of all, oldest first."""
        return events.newest_events(self.connection, session, count)

    def events_after(self, number: int, session: int | None = None, limit: int = 500) -> list[int]:
        """The numbers of the events after this one, oldest first."""
        return events.events_after(self.connection, number, session, limit)

    def session_events(self, session: int) -> array[int]:
        """The numbers of all events of a session, in order."""
        return events.session_events(self.connection, session)

    def lines(self, *, session: int | None = None, after: int = 0, limit: int = -1) -> Iterator[EventLine]:
        """Recorded lines in order: of a session, or of all after a number."""
        return events.raw_lines(self.connection, session=session, after=after, limit=limit)

    def lines_by_number(self, numbers: Sequence[int], cache: Blocks | None = None) -> Iterator[EventLine]:
        """Recorded lines by number, in order; those whose text was pruned are left out."""
        return events.lines_by_number(self.connection, numbers, cache)

    def line_of_event(self, session: int, event_id: bytes) -> bytes | None:
        """One recorded line by the id of its event; ``None`` where it is not there, or was pruned."""
        return events.line_of_event(self.connection, session, event_id)

    def event_places(self, session: int, after: int, last: int) -> Iterator[EventPlace]:
        """The places of a session's events after a number and up to another one."""
        return events.event_places(self.connection, session, after, last)

    def event_mark(self, number: int | None = None) -> EventMark | None:
        """What identifies the event of this number, or the latest one."""
        return events.event_mark(self.connection, number)

    def file_source(self, file_id: int) -> FileSource:
        """The file that lines came from; an empty path where it is not known any more."""
        return events.file_source(self.connection, file_id)

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        """How far these files were read."""
        return events.source_files(self.connection, file_ids)

    # -- search -----------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[int]:
        """The numbers of the events whose text matches, newest first.

        When an event was written is known to its format only: ``since`` and ``until`` leave out sessions that were not
        active then, and ``views.hits.find`` the other events.
        """
        return search.search(self.connection, query)

    @cached_property
    def search_index(self) -> SearchIndex:
        """What is indexed, and what waits for it."""
        return SearchIndex(self.connection)

    # -- recording --------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, *, day_of: Callable[[int], str]) -> None:
        """Store a batch: all of it or nothing. ``day_of`` gives the day that usage at a time counts for."""
        writing.write_batch(self.connection, batch, day_of=day_of)

    def stored_session(self, number: int) -> Session | None:
        """A session's row, to go on with."""
        return writing.load_session(self.connection, number)

    def stored_stream(self, number: int, stream: str) -> bytes | None:
        """What folding remembered of a stream."""
        return writing.load_stream(self.connection, number, stream)

    def has_events(self, number: int) -> bool:
        """Whether event ids of a session are known."""
        return writing.has_events(self.connection, number)

    def known_events(self, number: int, candidates: Iterable[bytes]) -> set[bytes]:
        """Which of these events of a session are recorded already."""
        return writing.known_event_ids(self.connection, number, candidates)

    def keep_days(self, zone: str, day_of: Callable[[int], str]) -> None:
        """Make days and sums anew when what they are counted by has changed: the time zone, the steps of prices."""
        writing.keep_days(self.connection, zone, day_of)

    # -- copies in other stores -------------------------------------------------------------------------------

    def changes_since(self, cursor: ChangesCursor = ChangesCursor(), limit: int = 1000) -> Changes:  # noqa: B008 - frozen
        """About ``limit`` rows that changed after the cursor; all rows, page by page, where it is a new one."""
        return changes.changes(self.connection, cursor, limit)

    def merge(self, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
        """Merge rows of another store, all of them or none; in any order, any number of times."""
        merging.merge(self.connection, rows, day_of=day_of)

    # -- the file on disk -------------------------------------------------------------------------------------

    def foreign_version(self) -> int:
        """A number that changes when another connection has committed something."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def checkpoint(self) -> None:
        """Fold the write-ahead log back into the file and empty it."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def expect_small_commits(self) -> None:
        """Checkpoint earlier from now on: the log that suits an import is larger than all that a day records."""
        database.shorten_log(self.connection)

    def shrink_memory(self) -> None:
        """Give back the memory that a burst of work took."""
        self.connection.execute("PRAGMA shrink_memory")

    # -- bookkeeping of this machine --------------------------------------------------------------------------

    @cached_property
    def files(self) -> Files:
        """How far each log file was read."""
        return Files(self.connection)

    @cached_property
    def status(self) -> StoreStatus:
        """What recording has come to: lines, files, duplicates, retention, the size and health of the store."""
        return StoreStatus(self.connection, self.path)

    @cached_property
    def quarantine(self) -> Quarantine:
        """Lines that were set aside."""
        return Quarantine(self.connection)

    @cached_property
    def retention(self) -> Retention:
        """What clean-up removes."""
        return Retention(self.connection)

    def compact(self) -> None:
        """Give the space of removed rows back to the disk."""
        self.connection.execute("VACUUM")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @cached_property
    def exports(self) -> Exports:
        """Destinations, and what was sent to them."""
        return Exports(self.connection)

    def sync_every_commit(self) -> None:
        """From now on what is committed survives a loss of power, too."""
        self.connection.execute("PRAGMA synchronous = FULL")
