"""A team's store as a member or viewer sees it: every question, answered for a ``Sight``.

A session that is not shown in full has its figures and nothing of its contents: no lines, texts, attributes, titles,
notes, and hashes in place of its id and directory. Filters compare with what is shown, so that nothing can be found out
by asking. What concerns the server alone, such as its log files, is not there at all (``HiddenError``).
"""

# ruff: noqa: D102 - described in store.store

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from agenttrace.ids import key_number, session_key
from agenttrace.model import Session
from agenttrace.store.annotations import NO_MARKS, Annotation, Marks
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
    NOTHING,
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
    folded,
)
from agenttrace.store.rows import Changes, ChangesCursor, Row, RowKind
from agenttrace.store.sight import Level, Sight, span_name
from agenttrace.store.span_tree import StoredTraces, Subagents
from agenttrace.store.store import Store
from agenttrace.store.visible_rules import VisibleRules

if TYPE_CHECKING:
    from agenttrace.store.search_index import SearchIndex

Query = TypeVar("Query", UsageQuery, RecentQuery, InsightQuery, FindingsQuery, CacheQuery, TurnQuery, ErrorQuery)
Found = TypeVar("Found", FailedSpan, InsightCall, FailedCalls, CacheLoss, TurnCost, UserWait)

#: Groups and filters that name a session, a directory, or who worked.
_NAMING = frozenset(("project", "session", "machine", "person"))
#: What of a filter compares contents.
_CONTENT_FILTERS = ("text", "words", "projects", "project_contains", "labels", "starred", "noted", "scores")
_NO_FILTER = SessionFilter()


class HiddenError(AttributeError):
    """Asked for something that only admins see."""


class VisibleStore(Store):
    """A store for one sight; made for each question, as sessions may change hands."""

    def __init__(self, store: Store, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self._known: dict[int, Session | None] = {}

    @property
    def over(self) -> Store:
        """The store itself."""
        return self._store

    def __getattr__(self, name: str) -> NoReturn:
        raise HiddenError(f"only admins see {name}")

    # -- what is shown -------------------------------------------------------------------------------------------

    def shows(self, session: int) -> bool:
        return self._level(session) == "full"

    def _level(self, number: int) -> Level:
        self._learn([number])
        session = self._known[number]
        return self._sight.others if session is None else self._sight.level(session)

    def _learn(self, numbers: Iterable[int]) -> None:
        missing = [number for number in dict.fromkeys(numbers) if number not in self._known]
        if not missing:
            return
        self._known |= {session.id: session for session in self._store.sessions_by_number(missing)}
        for number in missing:
            if number not in self._known:  # a pruned one
                found = self._store.find_sessions(session_key(number))
                self._known[number] = next((each for each in found if each.id == number), None)

    def _seen(self, sessions: Iterable[Session]) -> list[Session]:
        """Sessions as they are shown, without those that are not."""
        found = []
        for session in sessions:
            level = self._sight.level(session)
            if level != "nothing":
                found.append(session if level == "full" else self._sight.masked(session))
        return found

    def _shown(self, numbers: Sequence[int]) -> list[int]:
        """Those of these sessions that are shown in full."""
        self._learn(numbers)
        return [number for number in numbers if self.shows(number)]

    def _present(self, numbers: Sequence[int]) -> list[int]:
        """Those of these sessions that are shown at all."""
        self._learn(numbers)
        return [number for number in numbers if self._level(number) != "nothing"]

    # -- filters and names ---------------------------------------------------------------------------------------

    @cached_property
    def _projects(self) -> frozenset[str]:
        """The directories of sessions that are shown in full."""
        asked = [UsageQuery(by="project", persons=self._sight.persons)] if self._sight.persons else []
        asked += [UsageQuery(by="project", machines=self._sight.machines)] if self._sight.machines else []
        return frozenset(row.group for query in asked for row in self._store.usage(query))

    @cached_property
    def _hidden_projects(self) -> dict[str, str]:
        """All other directories, by the hashes that stand for them."""
        names = {row.group for row in self._store.usage(UsageQuery(by="project"))} - self._projects - {""}
        return {self._sight.name("project", name): name for name in names}

    def _project(self, name: str) -> str:
        return name if not name or name in self._projects else self._sight.name("project", name)

    def _named_projects(self, projects: frozenset[str], part: str | None) -> frozenset[str]:
        """The directories that a filter means, which names them as they are shown."""
        shown = {name: name for name in (*self._projects, "")} | self._hidden_projects
        return frozenset(
            name
            for seen, name in shown.items()
            if (not projects or seen in projects) and (part is None or (seen and folded(part) in folded(seen)))
        )

    def _asked(self, query: Query, *groups: str) -> Query | None:
        """The question as the store understands it; ``None`` where its answer is empty."""
        changed: dict[str, Any] = {}
        part = getattr(query, "project_contains", None)
        projects: frozenset[str] = getattr(query, "projects", frozenset())
        if projects or part is not None:
            changed["projects"] = named = self._named_projects(projects, part)
            if not named:
                return None
            if part is not None:
                changed["project_contains"] = None
        names_who = bool(_NAMING & set(groups) or projects or part is not None or query.persons or query.machines)
        if names_who and not self._sight.figures:
            changed["persons"] = own = self._sight.persons & (query.persons or self._sight.persons)
            if not own:
                return None
        return msgspec.structs.replace(query, **changed) if changed else query

    # -- the store itself ----------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file of a store that has one."""
        path: Path = self._inner("path")
        return path

    @property
    def search_index(self) -> SearchIndex:
        """How far the store is searchable."""
        index: SearchIndex = self._inner("search_index")
        return index

    @property
    def rules(self) -> VisibleRules:
        """What rules decided about sessions that are shown in full."""
        return VisibleRules(self._inner("rules"), self.shows)

    def _inner(self, name: str) -> Any:  # noqa: ANN401 - a part that only some stores have
        return getattr(self._store, name)

    def close(self) -> None:
        self._store.close()

    def interrupt(self) -> None:
        self._store.interrupt()

    def snapshot(self) -> AbstractContextManager[None]:
        return self._store.snapshot()

    def interrupted_when(self, over: Callable[[], bool]) -> AbstractContextManager[None]:
        return self._store.interrupted_when(over)

    # -- sessions ------------------------------------------------------------------------------------------------

    def sessions(
        self,
        wanted: SessionFilter = _NO_FILTER,
        *,
        limit: int | None = None,
        after: SessionPlace | None = None,
    ) -> list[Session]:
        nothing = {name: getattr(_NO_FILTER, name) for name in _CONTENT_FILTERS}
        figures = msgspec.structs.replace(wanted, **nothing)
        contents = SessionFilter(**{name: getattr(wanted, name) for name in _CONTENT_FILTERS})
        found: list[Session] = []
        while True:
            page = self._store.sessions(figures, limit=limit, after=after)
            found += self._matching(page, contents)
            if limit is None or len(page) < limit or len(found) >= limit:
                return found if limit is None else found[:limit]
            after = SessionPlace.of(page[-1])

    def _matching(self, page: list[Session], contents: SessionFilter) -> list[Session]:
        seen = self._seen(page)
        if contents == _NO_FILTER:
            return seen
        marks = self.marks([session.id for session in seen])
        return [each for each in seen if contents.matches(each, (), None, marks.get(each.id, NO_MARKS))]

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        return self._seen(self._store.sessions_by_number(numbers))

    def find_sessions(self, name: str) -> list[Session]:
        # The name of a session that is not shown in full is its key: its id is not to be guessed.
        number = key_number(name)
        found = self._store.find_sessions(name)
        return self._seen(each for each in found if each.id == number or self._sight.level(each) == "full")

    def session_ids(self) -> list[str]:
        return [each.session_id for each in self._store.sessions() if self._sight.level(each) == "full"]

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        names = self._store.session_names(self._present(numbers))
        return {
            number: name if self.shows(number) else SessionName(self._sight.name("session", name.session_id), "")
            for number, name in names.items()
        }

    def session_groups(self, by: SessionGroupKind, limit: int | None = None) -> list[SessionGroup]:
        found: dict[str, list[Session]] = {}
        for session in self.sessions():  # the last active one first
            if (name := getattr(session, by)) is not None:
                found.setdefault(name, []).append(session)
        return [_group(name, sessions) for name, sessions in list(found.items())[:limit]]

    def agents(self) -> list[str]:
        return self._store.agents()

    def active_counts(self) -> tuple[int, int]:
        return self._store.active_counts()

    def heard_of(self, session: Session) -> float:
        return self._store.heard_of(session)

    def last_event(self) -> int:
        return self._store.last_event()

    def sessions_changed_since(self, event: int) -> list[int]:
        return self._present(self._store.sessions_changed_since(event))

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        found = self._store.session_fingerprints(numbers)
        return {number: found[number] for number in self._present(list(found))}

    def parent_of(self, session: Session) -> Session | None:
        parent = self._store.parent_of(session)
        return None if parent is None else next(iter(self._seen([parent])), None)

    def forks_of(self, session: Session, limit: int) -> list[Session]:
        return self._seen(self._store.forks_of(session, limit))

    def outcomes(self, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
        return self._store.outcomes(self._present(numbers))

    def outcome_shares(self, query: UsageQuery = UsageQuery()) -> list[SessionShares]:  # noqa: B008 - frozen
        asked = self._asked(query, query.by, query.split)
        found = [] if asked is None else self._store.outcome_shares(asked)
        return [each._replace(project=self._project(each.project)) for each in found]

    def unexamined(self, query: UsageQuery = UsageQuery()) -> list[int]:  # noqa: B008 - frozen
        asked = self._asked(query, query.by, query.split)
        return [] if asked is None else self._store.unexamined(asked)

    # -- annotations ---------------------------------------------------------------------------------------------

    def annotations(self, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
        return self._store.annotations(self._shown(numbers))

    def annotation(self, annotation_id: bytes) -> Annotation | None:
        found = self._store.annotation(annotation_id)
        return found if found is not None and self.shows(found.session) else None

    def marks(self, numbers: Sequence[int]) -> dict[int, Marks]:
        return self._store.marks(self._shown(numbers))

    def labels(self) -> list[tuple[str, int]]:
        counts: dict[str, int] = {}
        numbers = [session.id for wanted in self._full_filters(_NO_FILTER) for session in self._store.sessions(wanted)]
        for marks in self._store.marks(list(dict.fromkeys(numbers))).values():
            for label in marks.labels:
                counts[label] = counts.get(label, 0) + 1
        return sorted(counts.items(), key=lambda each: (-each[1], each[0]))

    def sessions_annotated_since(self, revision: int) -> list[int]:
        return self._shown(self._store.sessions_annotated_since(revision))

    def annotations_revision(self) -> int:
        return self._store.annotations_revision()

    # -- usage ---------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        asked = self._asked(query, query.by, query.split)
        rows = [] if asked is None else self._store.usage(asked)
        if query.split == "project":
            rows = [row._replace(part=self._project(row.part)) for row in rows]
        if query.by == "project":
            rows = sorted((row._replace(group=self._project(row.group)) for row in rows), key=lambda row: row.group)
        return rows

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        return self._store.usage_by_session(self._present(numbers))

    def recent_usage(self, query: RecentQuery) -> list[TimedUsage]:
        asked = self._asked(query)
        return [] if asked is None else self._store.recent_usage(asked)

    def usage_over_time(self, query: TimeQuery) -> list[TimedUsage]:
        return self._store.usage_over_time(query)

    def responses_over_time(self, query: TimeQuery) -> list[ResponseCount]:
        return self._store.responses_over_time(query)

    def provider_windows(self) -> list[ProviderWindow]:
        return self._store.provider_windows()

    def models(self) -> list[str]:
        return self._store.models()

    def agreement(self, session: int) -> Agreement:
        level = self._level(session)
        if level == "nothing":
            return NOTHING
        found = self._store.agreement(session)
        if level == "full":
            return found
        reasons = [msgspec.structs.replace(reason, name="") for reason in found.reasons]
        return msgspec.structs.replace(found, reasons=reasons)

    def sessions_with_totals(self) -> set[int]:
        return set(self._present(list(self._store.sessions_with_totals())))

    # -- spans and errors ----------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        if self.shows(session.id):
            return self._store.spans(session)
        return [SpanView.of(row) for row in self.span_rows(session)]

    def span_rows(
        self, session: Session, *, attributes: bool = False, start: int = 0, limit: int = -1
    ) -> Iterator[SpanRow]:
        attributes = attributes and self.shows(session.id)
        found = self._store.span_rows(session, attributes=attributes, start=start, limit=limit)
        return iter(self._rows(session.id, found))

    def changed_spans(self, session: Session, after: int) -> list[SpanRow]:
        return list(self._rows(session.id, self._store.changed_spans(session, after)))

    def subagents(self, session: Session) -> Subagents:
        return self._store.subagents(session)

    def spans_by_id(
        self, session: Session, wanted: Sequence[bytes], *, attributes: bool = True, subagents: Subagents | None = None
    ) -> dict[bytes, SpanRow]:
        attributes = attributes and self.shows(session.id)
        found = self._store.spans_by_id(session, wanted, attributes=attributes, subagents=subagents)
        return dict(zip(found, self._rows(session.id, found.values()), strict=False))

    def _rows(self, session: int, rows: Iterable[SpanRow]) -> Iterable[SpanRow]:
        level = self._level(session)
        if level == "full":
            return rows
        return map(self._sight.masked_span, rows) if level == "figures" else ()

    def span_places(self, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
        return self._store.span_places(session, wanted) if self._level(session) != "nothing" else {}

    def span_name(self, session: int, span_id: bytes | None) -> str | None:
        if self.shows(session):
            return self._store.span_name(session, span_id)
        places = {} if span_id is None else self.span_places(session, [span_id])
        name = self._store.span_name(session, span_id)
        return None if name is None or not places else span_name(next(iter(places.values())).kind, name)

    def tool_names(self, session: int, after: int = 0) -> tuple[int, dict[str, str]]:
        return self._store.tool_names(session, after) if self._level(session) != "nothing" else (after, {})

    def spans_revision(self, session: int) -> tuple[int | None, ...]:
        return self._store.spans_revision(session)

    def figures_revision(self, session: int) -> tuple[int | None, ...]:
        return self._store.figures_revision(session)

    def errors(self, query: ErrorQuery) -> list[FailedSpan]:
        asked = self._error_query(query)
        found = [] if asked is None else self._of_present(self._store.errors(asked))
        return [
            each if self.shows(each.session) else each._replace(name=span_name(each.kind, each.name), attributes=None)
            for each in found
        ]

    def _error_query(self, query: ErrorQuery) -> ErrorQuery | None:
        """Errors have no exact directories to filter by: a part of one means those of sessions shown in full."""
        if query.project_contains is None:
            return self._asked(query)
        own = self._sight.persons & (query.persons or self._sight.persons)
        return msgspec.structs.replace(query, persons=own) if own else None

    def traces(self, session: int) -> StoredTraces:
        found = self._store.traces(session)
        if self.shows(session):
            return found
        rows = dict(zip(found.rows, self._rows(session, found.rows.values()), strict=False))
        return found._replace(rows=rows, payers=found.payers & rows.keys())

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        rows = self._store.spans_with_attributes(found, wanted)
        return dict(zip(rows, self._rows(found.session, rows.values()), strict=False))

    # -- insights ------------------------------------------------------------------------------------------------

    def tool_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ToolFigures]:
        asked = self._asked(query, split)
        found = [] if asked is None else self._store.tool_figures(asked, split)
        return [each._replace(part=self._part(each.part, split)) for each in found]

    def model_figures(
        self,
        query: InsightQuery = InsightQuery(),  # noqa: B008 - frozen
        split: InsightSplit = "total",
    ) -> list[ModelFigures]:
        asked = self._asked(query, split)
        found = [] if asked is None else self._store.model_figures(asked, split)
        return [each._replace(part=self._part(each.part, split)) for each in found]

    def _part(self, part: str, split: InsightSplit) -> str:
        return self._project(part) if split == "project" else part

    def tool_calls(self, query: InsightQuery, tool: str, order: CallOrder, limit: int) -> list[InsightCall]:
        asked = self._asked(query)
        return [] if asked is None else self._calls(self._store.tool_calls(asked, tool, order, limit))

    def model_calls(self, query: InsightQuery, order: CallOrder, limit: int) -> list[InsightCall]:
        asked = self._asked(query)
        return [] if asked is None else self._calls(self._store.model_calls(asked, order, limit))

    def repeated_failures(self, query: FindingsQuery) -> list[RepeatedFailure]:
        asked = self._asked(query)
        found = [] if asked is None else self._store.repeated_failures(asked)
        return [self._repeated(each) for each in found]

    def _repeated(self, found: RepeatedFailure) -> RepeatedFailure:
        """The error is shown to those who have it in a session of their own."""
        calls = self._calls(found.calls)
        is_known = any(self.shows(call.session) for call in calls)
        return found._replace(error=found.error if is_known else "", calls=tuple(calls))

    def failed_in_a_turn(self, query: FindingsQuery) -> list[FailedCalls]:
        asked = self._asked(query)
        found = [] if asked is None else self._of_present(self._store.failed_in_a_turn(asked))
        return [each._replace(calls=tuple(self._calls(each.calls))) for each in found]

    def cache_losses(self, query: CacheQuery) -> list[CacheLoss]:
        asked = self._asked(query)
        return [] if asked is None else self._of_present(self._store.cache_losses(asked))

    def expensive_turns(self, query: TurnQuery) -> list[TurnCost]:
        asked = self._asked(query)
        return [] if asked is None else self._of_present(self._store.expensive_turns(asked))

    def user_waits(self, query: FindingsQuery) -> list[UserWait]:
        asked = self._asked(query)
        return [] if asked is None else self._of_present(self._store.user_waits(asked))

    def _of_present(self, found: Sequence[Found]) -> list[Found]:
        self._learn(each.session for each in found)
        return [each for each in found if self._level(each.session) != "nothing"]

    def _calls(self, calls: Sequence[InsightCall]) -> list[InsightCall]:
        return [call if self.shows(call.session) else call._replace(error=None) for call in self._of_present(calls)]

    # -- events, lines and files ---------------------------------------------------------------------------------

    def newest_events(self, count: int, session: int | None = None) -> list[int]:
        return self._store.newest_events(count, session) if session is None or self.shows(session) else []

    def events_after(self, number: int, session: int | None = None, limit: int = 500) -> list[int]:
        return self._store.events_after(number, session, limit) if session is None or self.shows(session) else []

    def session_events(self, session: int) -> array[int]:
        return self._store.session_events(session) if self.shows(session) else array("q")

    def lines(self, *, session: int | None = None, after: int = 0, limit: int = -1) -> Iterator[EventLine]:
        if session is not None and not self.shows(session):
            return iter(())
        return self._lines(self._store.lines(session=session, after=after, limit=limit))

    def lines_by_number(self, numbers: Sequence[int], cache: LineCache | None = None) -> Iterator[EventLine]:
        return self._lines(self._store.lines_by_number(numbers, cache))

    def _lines(self, lines: Iterable[EventLine]) -> Iterator[EventLine]:
        return (line for line in lines if self.shows(line.session))

    def line_of_event(self, session: int, event_id: bytes) -> bytes | None:
        return self._store.line_of_event(session, event_id) if self.shows(session) else None

    def event_places(self, session: int, after: int, last: int) -> Iterator[EventPlace]:
        return self._store.event_places(session, after, last) if self.shows(session) else iter(())

    def event_mark(self, number: int | None = None) -> EventMark | None:
        return self._store.event_mark(number)

    def file_source(self, file_id: int) -> FileSource:
        # Numbers of files are known from lines and places of events only.
        return self._store.file_source(file_id)

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        return self._store.source_files(file_ids)

    # -- search --------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[int]:
        found = {number for asked in self._full_filters(query) for number in self._store.search(asked)}
        return sorted(found, reverse=True)[: query.limit]

    def search_annotations(self, query: SearchQuery) -> list[tuple[int, Annotation]]:
        found = {
            number: annotation
            for asked in self._full_filters(query)
            for number, annotation in self._store.search_annotations(asked)
            if self.shows(annotation.session)
        }
        return sorted(found.items(), key=lambda each: -each[0])[: query.limit]

    def _full_filters(self, query: Narrowed) -> Iterator[Narrowed]:
        """The question about sessions of the person, and of machines that share theirs."""
        persons = self._sight.persons & (query.persons or self._sight.persons)
        machines = self._sight.machines & (query.machines or self._sight.machines)
        if persons:
            yield msgspec.structs.replace(query, persons=persons)
        if machines:
            yield msgspec.structs.replace(query, machines=machines)

    # -- copies in other stores ----------------------------------------------------------------------------------

    def changes_since(
        self,
        cursor: ChangesCursor = ChangesCursor(),  # noqa: B008 - frozen
        limit: int = 1000,
        kinds: Collection[RowKind] | None = None,
    ) -> Changes:
        raise HiddenError("only admins copy a store")

    def changes_end(self) -> ChangesCursor:
        raise HiddenError("only admins copy a store")

    def merge(self, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
        raise HiddenError("only admins change a store")


Narrowed = TypeVar("Narrowed", SessionFilter, SearchQuery)


def _group(name: str, sessions: Sequence[Session]) -> SessionGroup:
    starts = [each.started_at for each in sessions if each.started_at is not None]
    ends = [each.last_at for each in sessions if each.last_at is not None]
    return SessionGroup(name, len(sessions), min(starts, default=None), max(ends, default=None))
