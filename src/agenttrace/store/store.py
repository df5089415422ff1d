"""The questions that every store of traces answers, whichever engine holds the rows.

``tests/store/contract`` states what the answers mean and runs for every engine. An engine needs no transactions across
tables: a question gets typed parameters and returns typed rows. A store is used by one thread at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self

from agenttrace.model import Session
from agenttrace.store.annotations import Annotation, Marks
from agenttrace.store.errors import SessionNameError
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
from agenttrace.store.search_index import SearchIndex
from agenttrace.store.span_tree import StoredTraces, Subagents


class Store(Protocol):
    """Answers questions about traces."""

    def close(self) -> None:
        """Release the store."""

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """All questions inside see the store at one moment."""

    def interrupted_when(self, over: Callable[[], bool]) -> AbstractContextManager[None]:
        """Questions inside end with ``QueryInterruptedError`` soon after ``over()`` becomes true."""

    def shows(self, session: int) -> bool:
        """Whether the contents of this session are shown, and not its figures alone."""
        return True

    # -- sessions ------------------------------------------------------------------------------------------------

    def sessions(
        self,
        wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
        *,
        limit: int | None = None,
        after: SessionPlace | None = None,
    ) -> list[Session]:
        """The sessions that match, newest first, with their state as of now; ``after`` a place, where one is given."""

    def session(self, name: str) -> Session:
        """The session of this key, this id or this beginning of an id; ``SessionNameError`` where it is not one."""
        matching = self.find_sessions(name) if name else []
        found = [session for session in matching if session.events]
        if len(found) != 1:
            raise SessionNameError(name, found, pruned=bool(matching) and not found)
        return found[0]

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        """These sessions, where they have events, with their state as of now."""

    def find_sessions(self, name: str) -> list[Session]:
        """The session of this key, or those whose id is ``name`` or begins with it, newest first; pruned ones too."""

    def session_ids(self) -> list[str]:
        """The ids of all sessions that have events and are shown in full, in any order."""

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        """What these sessions are called, by number; pruned ones too."""

    def session_groups(self, by: SessionGroupKind, limit: int | None = None) -> list[SessionGroup]:
        """The agents or directories that have sessions, the last active one first."""

    def agents(self) -> list[str]:
        """The names of all agents that have sessions."""

    def active_counts(self) -> tuple[int, int]:
        """How many sessions work now, and how many of the last day wait for the user."""

    def heard_of(self, session: Session) -> float:
        """When a session last said something; when that was recorded, where its lines have no times."""

    def last_event(self) -> int:
        """The number of the latest event; 0 where there is none."""

    def sessions_changed_since(self, event: int) -> list[int]:
        """The numbers of the sessions with events after this one."""

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        """A number for each of these sessions, or of all, that is another one when its row or its usage changed."""

    def parent_of(self, session: Session) -> Session | None:
        """The session that this one is a fork of, where it is recorded."""

    def forks_of(self, session: Session, limit: int) -> list[Session]:
        """The sessions that are copies of this one, the oldest first."""

    def outcomes(self, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
        """What came of these sessions, as far as they were examined; pruned ones have nothing."""

    def outcome_shares(self, query: UsageQuery = UsageQuery()) -> list[SessionShares]:  # noqa: B008 - frozen
        """Lines and commits by time and model, of the sessions of the agents and projects of a query."""

    def unexamined(self, query: UsageQuery = UsageQuery()) -> list[int]:  # noqa: B008 - frozen
        """The numbers of the sessions of these agents and projects with lines that were not examined for outcomes."""

    # -- annotations ---------------------------------------------------------------------------------------------

    def annotations(self, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
        """Notes, scores, labels and stars of these sessions, the oldest first; of pruned ones too."""

    def annotation(self, annotation_id: bytes) -> Annotation | None:
        """One of them; ``None`` where there is none, or it was removed."""

    def marks(self, numbers: Sequence[int]) -> dict[int, Marks]:
        """What lists show of them, of the sessions that have any."""

    def labels(self) -> list[tuple[str, int]]:
        """All labels, the most used first, and how many sessions have each."""

    def sessions_annotated_since(self, revision: int) -> list[int]:
        """The numbers of the sessions whose annotations changed after a revision."""

    def annotations_revision(self) -> int:
        """The revision of the last change of an annotation; 0 where there is none."""

    # -- usage ---------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups."""

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        """Tokens per model of each of these sessions."""

    def recent_usage(self, query: RecentQuery) -> list[TimedUsage]:
        """The responses from a moment on, in their order, each in the session that owns it."""

    def usage_over_time(self, query: TimeQuery) -> list[TimedUsage]:
        """Tokens of a span of time, by step, model and what its price depends on, in the order of the steps."""

    def responses_over_time(self, query: TimeQuery) -> list[ResponseCount]:
        """How many responses came in each step of a span of time that has any, in their order."""

    def provider_windows(self) -> list[ProviderWindow]:
        """Of each window of a provider's limit the latest report in a log, expired or not."""

    def models(self) -> list[str]:
        """The models whose tokens are counted, the most used first."""

    def agreement(self, session: int) -> Agreement:
        """The count of a session, by number, against what its agent says it used."""

    def sessions_with_totals(self) -> set[int]:
        """The numbers of the sessions whose agent writes totals of its own."""

    # -- spans and errors ----------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        """All spans of a session in order of start, subagents under the tool calls that started them."""

    def span_rows(
        self, session: Session, *, attributes: bool = False, start: int = 0, limit: int = -1
    ) -> Iterator[SpanRow]:
        """The same as rows, from the ``start``-th on; without ``attributes`` these are not read."""

    def changed_spans(self, session: Session, after: int) -> list[SpanRow]:
        """The spans that are not what they were when ``after`` was the last event, or that later lines belong to."""

    def subagents(self, session: Session) -> Subagents:
        """Which tool calls the subagents of a session carry out; to be read once for several ``spans_by_id``."""

    def spans_by_id(
        self, session: Session, wanted: Sequence[bytes], *, attributes: bool = True, subagents: Subagents | None = None
    ) -> dict[bytes, SpanRow]:
        """These spans of a session, as far as it has them."""

    def span_places(self, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
        """Where these spans stand in their session, as far as it has them."""

    def span_name(self, session: int, span_id: bytes | None) -> str | None:
        """The name of a span; ``None`` where the session has no such span."""

    def tool_names(self, session: int, after: int = 0) -> tuple[int, dict[str, str]]:
        """The names of the tools by call, of the tool calls stored after a place; and the place of the last one."""

    def spans_revision(self, session: int) -> tuple[int | None, ...]:
        """Differs when a span of the session was added or changed."""

    def figures_revision(self, session: int) -> tuple[int | None, ...]:
        """Differs when tokens of the session's spans are counted elsewhere, or a subagent was linked to its call."""

    def errors(self, query: ErrorQuery) -> list[FailedSpan]:
        """Spans that failed, the latest first."""

    def traces(self, session: int) -> StoredTraces:
        """All spans of a session by trace, without attributes and texts."""

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        """Some spans of these traces, whole."""

    # -- insights ------------------------------------------------------------------------------------------------

    def tool_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ToolFigures]:
        """The tools that were called, each with its figures, in the order of their names and parts."""

    def model_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ModelFigures]:
        """The models that were called, each with its figures, in the order of their names and parts."""

    def tool_calls(self, query: InsightQuery, tool: str, order: CallOrder, limit: int) -> list[InsightCall]:
        """The latest failures of a tool, or its longest calls."""

    def model_calls(self, query: InsightQuery, order: CallOrder, limit: int) -> list[InsightCall]:
        """The latest failures of the models of a query, or their longest calls."""

    def repeated_failures(self, query: FindingsQuery) -> list[RepeatedFailure]:
        """Errors of a tool that several sessions met, the most frequent first."""

    def failed_in_a_turn(self, query: FindingsQuery) -> list[FailedCalls]:
        """Tools that failed again and again in one turn, the most frequent first."""

    def cache_losses(self, query: CacheQuery) -> list[CacheLoss]:
        """Model calls at which the prompt cache broke, the largest losses first."""

    def expensive_turns(self, query: TurnQuery) -> list[TurnCost]:
        """The most expensive turns of each currency, with the work of their subagents; the most expensive first."""

    def user_waits(self, query: FindingsQuery) -> list[UserWait]:
        """Where agents waited for the user for long, the longest first; in sessions that used one of the models."""

    # -- events, lines and files ---------------------------------------------------------------------------------

    def newest_events(self, count: int, session: int | None = None) -> list[int]:
        """The numbers of the latest events of a session or of all, oldest first."""

    def events_after(self, number: int, session: int | None = None, limit: int = 500) -> list[int]:
        """The numbers of the events after this one, oldest first."""

    def session_events(self, session: int) -> array[int]:
        """The numbers of all events of a session, in order."""

    def lines(self, *, session: int | None = None, after: int = 0, limit: int = -1) -> Iterator[EventLine]:
        """Recorded lines in order: of a session, or of all after a number."""

    def lines_by_number(self, numbers: Sequence[int], cache: LineCache | None = None) -> Iterator[EventLine]:
        """Recorded lines by number, in order; those whose text was pruned are left out."""

    def line_of_event(self, session: int, event_id: bytes) -> bytes | None:
        """One recorded line by the id of its event; ``None`` where it is not there, or was pruned."""

    def event_places(self, session: int, after: int, last: int) -> Iterator[EventPlace]:
        """The places of a session's events after a number and up to another one."""

    def event_mark(self, number: int | None = None) -> EventMark | None:
        """What identifies the event of this number, or the latest one."""

    def file_source(self, file_id: int) -> FileSource:
        """The file that lines came from; an empty path where it is not known any more."""

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        """How far these files were read."""

    # -- search --------------------------------------------------------------------------------------------------

    @property
    def search_index(self) -> SearchIndex:
        """What is indexed, and what waits for it."""

    def search(self, query: SearchQuery) -> list[int]:
        """The numbers of the events whose text matches, newest first.

        When an event was written is known to its format only: ``since`` and ``until`` leave out sessions that were not
        active then, and ``views.hits.find`` the other events.
        """

    def search_annotations(self, query: SearchQuery) -> list[tuple[int, Annotation]]:
        """The annotations whose name or text matches, the latest first, each with the ``before`` of a further page.

        ``since`` and ``until`` are of when they were written.
        """

    # -- copies in other stores ----------------------------------------------------------------------------------

    def changes_since(
        self,
        cursor: ChangesCursor = ChangesCursor(),  # noqa: B008 - frozen
        limit: int = 1000,
        kinds: Collection[RowKind] | None = None,
    ) -> Changes:
        """About ``limit`` rows that changed after the cursor; all rows, page by page, where it is a new one.

        ``kinds``: of these kinds only; a cursor is continued with the kinds that it was made with.
        """

    def changes_end(self) -> ChangesCursor:
        """The cursor after all that is there now."""

    def merge(self, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
        """Merge rows of another store, all of them or none; in any order, any number of times."""
