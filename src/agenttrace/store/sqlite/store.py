"""The trace store in one SQLite file. ``store.store.Store`` says what its questions mean."""

# ruff: noqa: D102 - described in store.store

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.annotations import Annotation, Marks
from agenttrace.store.batch import Batch
from agenttrace.store.errors import CorruptStoreError, QueryInterruptedError
from agenttrace.store.insights import (
    CacheLoss,
    CacheQuery,
    CallOrder,
    FailedCalls,
    FindingsQuery,
    InsightCall,
    InsightQuery,
    InsightSplit,
    ModelFigures,
    RepeatedFailure,
    ToolFigures,
    TurnCost,
    TurnQuery,
    UserWait,
)
from agenttrace.store.line_cache import LineCache
from agenttrace.store.questions import (
    Agreement,
    ErrorQuery,
    EventLine,
    EventMark,
    EventPlace,
    FailedSpan,
    FileSource,
    ProviderWindow,
    RecentQuery,
    ResponseCount,
    SearchQuery,
    SessionFilter,
    SessionGroup,
    SessionGroupKind,
    SessionName,
    SessionPlace,
    SessionShares,
    SourceFile,
    SpanPlace,
    SpanRow,
    SpanView,
    StoredOutcomes,
    TimedUsage,
    TimeQuery,
    UsageQuery,
    UsageRow,
)
from agenttrace.store.rows import Changes, ChangesCursor, Row, RowKind
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.span_tree import StoredTraces, Subagents, over_at
from agenttrace.store.sqlite import (
    agreement,
    changes,
    database,
    events,
    failed_spans,
    findings,
    forks,
    insights,
    merging,
    outcomes,
    provider_limits,
    search,
    sessions,
    span_rows,
    telemetry,
    traces,
    usage,
    writing,
)
from agenttrace.store.sqlite import annotations as annotation_rows
from agenttrace.store.sqlite.annotations import SqliteAnnotations
from agenttrace.store.sqlite.database import BUSY_SECONDS, connect
from agenttrace.store.sqlite.exports import Exports
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.outcomes import OutcomeTable
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.removal import Removal
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.rules import Rules
from agenttrace.store.sqlite.search import SearchIndex
from agenttrace.store.sqlite.status import StoreStatus
from agenttrace.store.store import Store

#: After so many steps SQLite asks whether to go on.
_STEPS = 20_000


class SqliteStore(Store):
    """The store of one machine: answers questions, takes what is recorded, and holds the bookkeeping of recording."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, limits: StateLimits = LIMITS) -> None:
        self.connection = connection
        self.path = path
        self._limits = limits

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = True,
        any_thread: bool = False,
        limits: StateLimits = LIMITS,
        busy_seconds: float = BUSY_SECONDS,
        cache_kib: int | None = None,
    ) -> SqliteStore:
        """The store of a file; created or upgraded unless ``read_only``; waits so long for one that is locked."""
        connection = connect(path, read_only=read_only, any_thread=any_thread, busy_seconds=busy_seconds)
        if cache_kib is not None:
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        return cls(connection, path, limits=limits)

    def close(self) -> None:
        self.connection.close()

    def interrupt(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self.connection.interrupt()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:  # an error may have ended it
                self.connection.execute("ROLLBACK")

    @contextmanager
    def interrupted_when(self, over: Callable[[], bool]) -> Iterator[None]:
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
        return sessions.list_sessions(self.connection, wanted, limits=self._limits, limit=limit, after=after)

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        return sessions.sessions_by_number(self.connection, numbers, limits=self._limits)

    def find_sessions(self, name: str) -> list[Session]:
        return sessions.find_sessions(self.connection, name, limits=self._limits)

    def session_ids(self) -> list[str]:
        return sessions.session_ids(self.connection)

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        return sessions.session_names(self.connection, numbers)

    def session_groups(self, by: SessionGroupKind, limit: int | None = None) -> list[SessionGroup]:
        return sessions.session_groups(self.connection, by, limit)

    def agents(self) -> list[str]:
        return sessions.session_agents(self.connection)

    def active_counts(self) -> tuple[int, int]:
        return sessions.active_counts(self.connection, self._limits)

    def heard_of(self, session: Session) -> float:
        return sessions.heard_of(self.connection, session)

    def last_event(self) -> int:
        return events.last_event(self.connection)

    def sessions_changed_since(self, event: int) -> list[int]:
        return sessions.sessions_changed_since(self.connection, event)

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        return sessions.session_fingerprints(self.connection, numbers)

    def parent_of(self, session: Session) -> Session | None:
        number = forks.parent_number(self.connection, session)
        found = [] if number is None else self.sessions_by_number([number])
        return found[0] if found else None

    def forks_of(self, session: Session, limit: int) -> list[Session]:
        numbers = forks.fork_numbers(self.connection, session, limit)
        found = {each.id: each for each in self.sessions_by_number(numbers)}
        return [found[number] for number in numbers if number in found]

    # -- usage ------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        return usage.usage_rows(self.connection, query)

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        return usage.usage_by_session(self.connection, numbers)

    def recent_usage(self, query: RecentQuery) -> list[TimedUsage]:
        return usage.recent_usage(self.connection, query)

    def usage_over_time(self, query: TimeQuery) -> list[TimedUsage]:
        return usage.usage_over_time(self.connection, query)

    def responses_over_time(self, query: TimeQuery) -> list[ResponseCount]:
        return usage.responses_over_time(self.connection, query)

    def provider_windows(self) -> list[ProviderWindow]:
        return provider_limits.latest_windows(self.connection)

    def models(self) -> list[str]:
        return usage.recorded_models(self.connection)

    def agreement(self, session: int) -> Agreement:
        return agreement.check(self.connection, session)

    def sessions_with_totals(self) -> set[int]:
        return agreement.sessions_with_totals(self.connection)

    # -- spans and errors -------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        return span_rows.session_spans(self.connection, session)

    def span_rows(
        self, session: Session, *, attributes: bool = False, start: int = 0, limit: int = -1
    ) -> Iterator[SpanRow]:
        return span_rows.session_rows(self.connection, session, attributes=attributes, start=start, limit=limit)

    def changed_spans(self, session: Session, after: int) -> list[SpanRow]:
        return span_rows.changed_rows(self.connection, session, after)

    def subagents(self, session: Session) -> Subagents:
        return span_rows.subagents_of(self.connection, session.id, over_at(session))

    def spans_by_id(
        self, session: Session, wanted: Sequence[bytes], *, attributes: bool = True, subagents: Subagents | None = None
    ) -> dict[bytes, SpanRow]:
        known = subagents or self.subagents(session)
        return span_rows.some_rows(self.connection, session.id, wanted, known, attributes=attributes)

    def span_places(self, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
        return span_rows.span_places(self.connection, session, wanted)

    def span_name(self, session: int, span_id: bytes | None) -> str | None:
        return span_rows.span_name(self.connection, session, span_id)

    def tool_names(self, session: int, after: int = 0) -> tuple[int, dict[str, str]]:
        return span_rows.tool_names(self.connection, session, after)

    def spans_revision(self, session: int) -> tuple[int | None, ...]:
        return span_rows.spans_revision(self.connection, session)

    def figures_revision(self, session: int) -> tuple[int | None, ...]:
        return span_rows.figures_revision(self.connection, session)

    def errors(self, query: ErrorQuery) -> list[FailedSpan]:
        return failed_spans.failed_spans(self.connection, query)

    def traces(self, session: int) -> StoredTraces:
        return traces.session_traces(self.connection, session)

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        return traces.spans_with_attributes(self.connection, found, wanted)

    # -- insights ---------------------------------------------------------------------------------------------

    def tool_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ToolFigures]:
        return insights.tool_figures(self.connection, query, split)

    def model_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ModelFigures]:
        return insights.model_figures(self.connection, query, split)

    def tool_calls(self, query: InsightQuery, tool: str, order: CallOrder, limit: int) -> list[InsightCall]:
        return insights.tool_calls(self.connection, query, tool, order, limit)

    def model_calls(self, query: InsightQuery, order: CallOrder, limit: int) -> list[InsightCall]:
        return insights.model_call_list(self.connection, query, order, limit)

    def repeated_failures(self, query: FindingsQuery) -> list[RepeatedFailure]:
        return findings.repeated_failures(self.connection, query)

    def failed_in_a_turn(self, query: FindingsQuery) -> list[FailedCalls]:
        return findings.failed_in_a_turn(self.connection, query)

    def cache_losses(self, query: CacheQuery) -> list[CacheLoss]:
        return findings.cache_losses(self.connection, query)

    def expensive_turns(self, query: TurnQuery) -> list[TurnCost]:
        return findings.expensive_turns(self.connection, query)

    def user_waits(self, query: FindingsQuery) -> list[UserWait]:
        return findings.user_waits(self.connection, query)

    # -- events, lines and files ------------------------------------------------------------------------------

    def newest_events(self, count: int, session: int | None = None) -> list[int]:
        return events.newest_events(self.connection, session, count)

    def events_after(self, number: int, session: int | None = None, limit: int = 500) -> list[int]:
        return events.events_after(self.connection, number, session, limit)

    def session_events(self, session: int) -> array[int]:
        return events.session_events(self.connection, session)

    def lines(self, *, session: int | None = None, after: int = 0, limit: int = -1) -> Iterator[EventLine]:
        return events.raw_lines(self.connection, session=session, after=after, limit=limit)

    def lines_by_number(self, numbers: Sequence[int], cache: LineCache | None = None) -> Iterator[EventLine]:
        return events.lines_by_number(self.connection, numbers, cache)

    def line_of_event(self, session: int, event_id: bytes) -> bytes | None:
        return events.line_of_event(self.connection, session, event_id)

    def event_places(self, session: int, after: int, last: int) -> Iterator[EventPlace]:
        return events.event_places(self.connection, session, after, last)

    def event_mark(self, number: int | None = None) -> EventMark | None:
        return events.event_mark(self.connection, number)

    def file_source(self, file_id: int) -> FileSource:
        return events.file_source(self.connection, file_id)

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        return events.source_files(self.connection, file_ids)

    def outcomes(self, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
        return outcomes.stored_outcomes(self.connection, numbers)

    def outcome_shares(self, query: UsageQuery = UsageQuery()) -> list[SessionShares]:  # noqa: B008 - frozen
        return outcomes.outcome_shares(self.connection, query)

    def unexamined(self, query: UsageQuery = UsageQuery()) -> list[int]:  # noqa: B008 - frozen
        return outcomes.unexamined(self.connection, query)

    @cached_property
    def outcome_table(self) -> OutcomeTable:
        """Which sessions were examined for outcomes, and which wait for it."""
        return OutcomeTable(self.connection)

    # -- annotations ------------------------------------------------------------------------------------------

    def annotations(self, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
        return annotation_rows.annotations_of(self.connection, numbers)

    def annotation(self, annotation_id: bytes) -> Annotation | None:
        return annotation_rows.annotation_by_id(self.connection, annotation_id)

    def marks(self, numbers: Sequence[int]) -> dict[int, Marks]:
        return annotation_rows.marks_by_session(self.connection, numbers)

    def labels(self) -> list[tuple[str, int]]:
        return annotation_rows.labels(self.connection)

    def sessions_annotated_since(self, revision: int) -> list[int]:
        return annotation_rows.annotated_since(self.connection, revision)

    def annotations_revision(self) -> int:
        return annotation_rows.last_revision(self.connection)

    def search_annotations(self, query: SearchQuery) -> list[tuple[int, Annotation]]:
        return annotation_rows.search(self.connection, query)

    @cached_property
    def annotation_table(self) -> AnnotationTable:
        """Writes annotations."""
        return SqliteAnnotations(self.connection)

    # -- search -----------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[int]:
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

    def has_log(self, number: int) -> bool:
        """Whether lines of the session's own log were recorded, and not only telemetry of it."""
        return telemetry.has_log(self.connection, number)

    def has_telemetry(self, number: int) -> bool:
        """Whether telemetry of the session was recorded."""
        return telemetry.has_telemetry(self.connection, number)

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

    def changes_since(
        self,
        cursor: ChangesCursor = ChangesCursor(),  # noqa: B008 - frozen
        limit: int = 1000,
        kinds: Collection[RowKind] | None = None,
    ) -> Changes:
        return changes.changes(self.connection, cursor, limit, kinds)

    def changes_end(self) -> ChangesCursor:
        return changes.changes_end(self.connection)

    def rows_after(self, cursor: ChangesCursor) -> int:
        """About how many rows changed after the cursor."""
        return changes.rows_after(self.connection, cursor)

    def session_changes(self, cursor: ChangesCursor, limit: int = 1000) -> Changes:
        """About ``limit`` rows of the one session that the cursor is in."""
        return changes.session_changes(self.connection, cursor, limit)

    def merge(self, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
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

    @cached_property
    def removal(self) -> Removal:
        """Removes what was recorded from some files."""
        return Removal(self.connection)

    def compact(self) -> None:
        """Give the space of removed rows back to the disk."""
        self.connection.execute("VACUUM")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @cached_property
    def rules(self) -> Rules:
        """Events for rules, what they decided, and the actions of their firings."""
        return Rules(self.connection)

    @cached_property
    def exports(self) -> Exports:
        """Destinations, and what was sent to them."""
        return Exports(self.connection)

    def commits(self) -> int:
        """A number that differs after another connection has committed."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def sync_every_commit(self) -> None:
        """From now on what is committed survives a loss of power, too."""
        self.connection.execute("PRAGMA synchronous = FULL")
