"""The trace store of a team in ClickHouse. ``store.store.Store`` and ``store.team`` say what its questions mean."""

# ruff: noqa: D102 - described in store.store and store.team

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

from agenttrace.model import Session
from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.annotations import Annotation, Marks
from agenttrace.store.clickhouse import (
    agreement,
    changes,
    copies,
    errors,
    events,
    findings,
    insights,
    outcomes,
    retention,
    schema,
    sessions,
    span_rows,
    team,
    usage,
    writing,
)
from agenttrace.store.clickhouse import annotations as annotation_rows
from agenttrace.store.clickhouse.annotations import ClickHouseAnnotations
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.lately import Lately
from agenttrace.store.clickhouse.outcomes import OutcomeTable
from agenttrace.store.clickhouse.relations import ANNOTATIONS, EVENTS
from agenttrace.store.clickhouse.search import Search, SearchIndex
from agenttrace.store.errors import StoreError
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
from agenttrace.store.sqlite.rules import Rules
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import MachineFigures, Page, Position, TeamStore

#: How often a question that runs is asked whether it is still wanted.
_POLL_SECONDS = 0.05
_VERSION = """
SELECT (SELECT max(number) FROM events), (SELECT max(revision) FROM annotations),
    (SELECT max(revision) FROM sessions), (SELECT max(revision) FROM outcomes)
"""


class ClickHouseStore(TeamStore):
    """Answers questions about the traces of a team. Servers may have one each; it is used by one thread at a time."""

    def __init__(self, database: Database, *, limits: StateLimits = LIMITS, rules: Path | None = None) -> None:
        """``rules``: the file with the bookkeeping of rules, which has transactions."""
        self.database = database
        self._limits = limits
        self._rules_path = rules
        self._rules_store: SqliteStore | None = None
        self._events = Lately(database, "events", EVENTS, "number")
        self._search = Search(database)
        self._annotated = Lately(database, "annotations", ANNOTATIONS, "revision")

    @classmethod
    def open(
        cls, address: str, *, read_only: bool = False, limits: StateLimits = LIMITS, rules: Path | None = None
    ) -> Self:
        """The store of an address; made or brought up to date where that is needed, unless ``read_only``."""
        database = Database.open(address, read_only=read_only)
        try:
            (schema.check if read_only else schema.migrate)(database)
        except BaseException:
            database.close()
            raise
        return cls(database, limits=limits, rules=rules)

    def close(self) -> None:
        self.database.close()
        if self._rules_store is not None:
            self._rules_store.close()

    def interrupt(self) -> None:
        self.database.interrupt()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """ClickHouse has no snapshots: what is asked later may be newer."""
        yield

    @contextmanager
    def interrupted_when(self, over: Callable[[], bool]) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_POLL_SECONDS):
                if over():
                    self.interrupt()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    # -- sessions ---------------------------------------------------------------------------------------------

    def sessions(
        self,
        wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
        *,
        limit: int | None = None,
        after: SessionPlace | None = None,
    ) -> list[Session]:
        return sessions.list_sessions(self.database, wanted, limits=self._limits, limit=limit, after=after)

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        return sessions.sessions_by_number(self.database, numbers, limits=self._limits)

    def find_sessions(self, name: str) -> list[Session]:
        return sessions.find_sessions(self.database, name, limits=self._limits)

    def session_ids(self) -> list[str]:
        return sessions.session_ids(self.database)

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        return sessions.session_names(self.database, numbers)

    def session_groups(self, by: SessionGroupKind, limit: int | None = None) -> list[SessionGroup]:
        return sessions.session_groups(self.database, by, limit)

    def agents(self) -> list[str]:
        return sessions.session_agents(self.database)

    def active_counts(self) -> tuple[int, int]:
        return sessions.active_counts(self.database, self._limits)

    def heard_of(self, session: Session) -> float:
        return sessions.heard_of(self.database, session)

    def last_event(self) -> int:
        return self._events.last()

    def foreign_version(self) -> tuple[int, ...]:
        """Differs when something changed; figures of machines and outcomes come without events."""
        return tuple(int(each or 0) for each in self.database.rows(_VERSION)[0])

    def sessions_changed_since(self, event: int) -> list[int]:
        shown = copies.shown_since(self.database, event)
        return sorted({*self._events.since(event), *shown})

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        return sessions.session_fingerprints(self.database, numbers)

    def parent_of(self, session: Session) -> Session | None:
        number = sessions.parent_number(self.database, session)
        found = [] if number is None else self.sessions_by_number([number])
        return found[0] if found else None

    def forks_of(self, session: Session, limit: int) -> list[Session]:
        numbers = sessions.fork_numbers(self.database, session, limit)
        found = {each.id: each for each in self.sessions_by_number(numbers)}
        return [found[number] for number in numbers if number in found]

    # -- usage ------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        return usage.usage_rows(self.database, query)

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        return usage.usage_by_session(self.database, numbers)

    def recent_usage(self, query: RecentQuery) -> list[TimedUsage]:
        return usage.recent_usage(self.database, query)

    def usage_over_time(self, query: TimeQuery) -> list[TimedUsage]:
        return usage.usage_over_time(self.database, query)

    def responses_over_time(self, query: TimeQuery) -> list[ResponseCount]:
        return usage.responses_over_time(self.database, query)

    def provider_windows(self) -> list[ProviderWindow]:
        return []  # machines do not send them

    def models(self) -> list[str]:
        return usage.recorded_models(self.database)

    def agreement(self, session: int) -> Agreement:
        return agreement.check(self.database, session)

    def sessions_with_totals(self) -> set[int]:
        return agreement.sessions_with_totals(self.database)

    # -- spans and errors -------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        return [SpanView.of(row) for row in self.span_rows(session, attributes=True)]

    def span_rows(
        self, session: Session, *, attributes: bool = False, start: int = 0, limit: int = -1
    ) -> Iterator[SpanRow]:
        return span_rows.session_rows(self.database, session, attributes=attributes, start=start, limit=limit)

    def changed_spans(self, session: Session, after: int) -> list[SpanRow]:
        if copies.changed_at(self.database, session.id) > after:
            return list(self.span_rows(session))  # of another copy, which may have been here before
        return span_rows.changed_rows(self.database, session, after)

    def subagents(self, session: Session) -> Subagents:
        return span_rows.subagents_of(self.database, session.id, over_at(session))

    def spans_by_id(
        self, session: Session, wanted: Sequence[bytes], *, attributes: bool = True, subagents: Subagents | None = None
    ) -> dict[bytes, SpanRow]:
        known = subagents or self.subagents(session)
        return span_rows.some_rows(self.database, session.id, wanted, known, attributes=attributes)

    def span_places(self, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
        return span_rows.span_places(self.database, session, wanted)

    def span_name(self, session: int, span_id: bytes | None) -> str | None:
        return span_rows.span_name(self.database, session, span_id)

    def tool_names(self, session: int, after: int = 0) -> tuple[int, dict[str, str]]:
        return span_rows.tool_names(self.database, session, after)

    def spans_revision(self, session: int) -> tuple[int | None, ...]:
        return span_rows.spans_revision(self.database, session)

    def figures_revision(self, session: int) -> tuple[int | None, ...]:
        return span_rows.figures_revision(self.database, session)

    def errors(self, query: ErrorQuery) -> list[FailedSpan]:
        return errors.failed_spans(self.database, query)

    def traces(self, session: int) -> StoredTraces:
        return span_rows.session_traces(self.database, session)

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        rows = span_rows.some_rows(self.database, found.session, wanted, found.subagents, attributes=True)
        return {span_id: row for span_id, row in rows.items() if span_id in found.rows}

    # -- insights ---------------------------------------------------------------------------------------------

    def tool_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ToolFigures]:
        return insights.tool_figures(self.database, query, split)

    def model_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ModelFigures]:
        return insights.model_figures(self.database, query, split)

    def tool_calls(self, query: InsightQuery, tool: str, order: CallOrder, limit: int) -> list[InsightCall]:
        return insights.tool_calls(self.database, query, tool, order, limit)

    def model_calls(self, query: InsightQuery, order: CallOrder, limit: int) -> list[InsightCall]:
        return insights.model_calls(self.database, query, order, limit)

    def repeated_failures(self, query: FindingsQuery) -> list[RepeatedFailure]:
        return findings.repeated_failures(self.database, query)

    def failed_in_a_turn(self, query: FindingsQuery) -> list[FailedCalls]:
        return findings.failed_in_a_turn(self.database, query)

    def cache_losses(self, query: CacheQuery) -> list[CacheLoss]:
        return findings.cache_losses(self.database, query)

    def expensive_turns(self, query: TurnQuery) -> list[TurnCost]:
        return findings.expensive_turns(self.database, query)

    def user_waits(self, query: FindingsQuery) -> list[UserWait]:
        return findings.user_waits(self.database, query)

    # -- outcomes ---------------------------------------------------------------------------------------------

    def outcomes(self, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
        return outcomes.stored_outcomes(self.database, numbers)

    def outcome_shares(self, query: UsageQuery = UsageQuery()) -> list[SessionShares]:  # noqa: B008 - frozen
        return outcomes.outcome_shares(self.database, query)

    def unexamined(self, query: UsageQuery = UsageQuery()) -> list[int]:  # noqa: B008 - frozen
        return outcomes.unexamined(self.database, query)

    @cached_property
    def outcome_table(self) -> OutcomeTable:
        """Which sessions were examined for outcomes, and which wait for it."""
        return OutcomeTable(self.database)

    # -- events, lines and files ------------------------------------------------------------------------------

    def newest_events(self, count: int, session: int | None = None) -> list[int]:
        return events.newest_events(self.database, session, count)

    def events_after(self, number: int, session: int | None = None, limit: int = 500) -> list[int]:
        return events.events_after(self.database, number, session, limit)

    def session_events(self, session: int) -> array[int]:
        return events.session_events(self.database, session)

    def lines(self, *, session: int | None = None, after: int = 0, limit: int = -1) -> Iterator[EventLine]:
        return events.raw_lines(self.database, session=session, after=after, limit=limit)

    def lines_by_number(self, numbers: Sequence[int], cache: LineCache | None = None) -> Iterator[EventLine]:
        """Without the cache, which holds blocks of another engine."""
        return events.lines_by_number(self.database, numbers)

    def line_of_event(self, session: int, event_id: bytes) -> bytes | None:
        return events.line_of_event(self.database, session, event_id)

    def event_places(self, session: int, after: int, last: int) -> Iterator[EventPlace]:
        return events.event_places(self.database, session, after, last)

    def event_mark(self, number: int | None = None) -> EventMark | None:
        return events.event_mark(self.database, number)

    def file_source(self, file_id: int) -> FileSource:
        return events.file_source(self.database, file_id)

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        return events.source_files(self.database, file_ids)

    # -- annotations ------------------------------------------------------------------------------------------

    def annotations(self, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
        return annotation_rows.annotations_of(self.database, numbers)

    def annotation(self, annotation_id: bytes) -> Annotation | None:
        return annotation_rows.annotation_by_id(self.database, annotation_id)

    def marks(self, numbers: Sequence[int]) -> dict[int, Marks]:
        return annotation_rows.marks_by_session(self.database, numbers)

    def labels(self) -> list[tuple[str, int]]:
        return annotation_rows.labels(self.database)

    def sessions_annotated_since(self, revision: int) -> list[int]:
        return self._annotated.since(revision)

    def annotations_revision(self) -> int:
        return self._annotated.last()

    def search_annotations(self, query: SearchQuery) -> list[tuple[int, Annotation]]:
        return annotation_rows.search(self.database, query)

    @cached_property
    def annotation_table(self) -> AnnotationTable:
        """Writes annotations."""
        return ClickHouseAnnotations(self.database)

    # -- search -----------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[int]:
        return self._search(query)

    @cached_property
    def search_index(self) -> SearchIndex:
        """What is indexed, and what waits for it."""
        return SearchIndex(self.database)

    # -- rules ------------------------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> Rules:
        """Events for rules, what they decided, and the actions of their firings."""
        if self._rules_path is None:
            raise StoreError("a ClickHouse store that is opened without a file for rules has none")
        self._rules_store = SqliteStore.open(self._rules_path, read_only=False, any_thread=True)
        self._rules_store.sync_every_commit()
        # What is removed shall not be found in the file either.
        self._rules_store.connection.execute("PRAGMA secure_delete = ON")
        return self._rules_store.rules

    # -- copies in other stores -------------------------------------------------------------------------------

    def changes_since(
        self,
        cursor: ChangesCursor = ChangesCursor(),  # noqa: B008 - frozen
        limit: int = 1000,
        kinds: Collection[RowKind] | None = None,
    ) -> Changes:
        return changes.changes(self.database, cursor, limit, kinds)

    def changes_end(self) -> ChangesCursor:
        return changes.changes_end(self.database)

    def merge(self, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
        writing.merge(self.database, rows, day_of=day_of)

    # -- machines ---------------------------------------------------------------------------------------------

    def take(self, rows: Iterable[Row], page: Page, *, day_of: Callable[[int], str]) -> None:
        team.take(self.database, rows, page, day_of=day_of)

    def position(self, machine: str) -> Position | None:
        return team.position(self.database, machine)

    def machines(self) -> list[MachineFigures]:
        return team.machines(self.database)

    def remove_texts(self, person: str) -> int:
        return self._forget(retention.sessions_of(self.database, person), "person")

    def prune(self, before: int, project: str | None = None) -> int:
        return self._forget(retention.old_sessions(self.database, before, project), "time")

    def _forget(self, numbers: Sequence[int], reason: retention.Reason) -> int:
        if self._rules_path is not None:
            self.rules.forget_texts(numbers)
            assert self._rules_store is not None
            self._rules_store.checkpoint()
        return retention.forget(self.database, numbers, reason)
