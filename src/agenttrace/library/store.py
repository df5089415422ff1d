"""``open_store()``: sessions, spans, conversations, usage and search as small frozen objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from agenttrace import model
from agenttrace.config import Settings, load_settings
from agenttrace.library.objects import Annotation, Hit, Message, Session, Span, Usage
from agenttrace.library.rows import Rows, columns_of
from agenttrace.prices import costing
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.annotations import Annotation as StoredAnnotation
from agenttrace.store.errors import SessionNameError
from agenttrace.store.questions import SearchQuery, SessionFilter, SpanRow, UsageGroup, UsageQuery, title_of
from agenttrace.store.search_terms import has_words
from agenttrace.store.session_state import SessionState
from agenttrace.store.team_place import open_shown_store
from agenttrace.views.hits import TextMatch, find_events, snippet
from agenttrace.views.times import MICROS, micros_of, moment, parse_moment
from agenttrace.views.transcript import Transcript, TranscriptSpan
from agenttrace.views.usage import usage_report

When = str | date | datetime

T = TypeVar("T", bound=str)

_ROLES = {"prompt": "user", "text": "assistant", "thinking": "assistant", "arguments": "assistant", "note": "system"}


def open_store(home: str | Path | None = None) -> Store:
    """The recorded sessions of a data directory, read-only; without ``home`` those of this machine.

    A recorder may write meanwhile. Raises ``agenttrace.StoreError`` where nothing was recorded yet.
    """
    settings = load_settings(flags={"home": None if home is None else str(home)})
    return Store(settings)


class Store:
    """Questions about recorded sessions; used by one thread at a time, closed by ``close()`` or ``with``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_shown_store(settings)
        self._cashier = Cashier.load(settings)
        self._texts = SessionTexts()

    def close(self) -> None:
        """Release the file."""
        self._store.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sessions(
        self,
        *,
        agent: str | None = None,
        project: str | None = None,
        state: SessionState | None = None,
        since: When | None = None,
        until: When | None = None,
        text: str = "",
        label: str | None = None,
        starred: bool | None = None,
        machine: str | None = None,
        person: str | None = None,
        limit: int | None = None,
    ) -> Rows[Session]:
        """Sessions, the last active first.

        ``project`` is a part of the directory; ``text`` are words of title, prompt, id, directory, branch or model;
        ``since`` and ``until`` are ``7d``, ``2026-11-01``, an ISO time, a date or a datetime.
        """
        if state is not None:
            _check("state", state, get_args(SessionState))
        asked = SessionFilter(
            agents=_only(agent),
            project_contains=project,
            states=_only(state),
            words=tuple(text.split()),
            labels=_only(label),
            starred=starred,
            machines=_only(machine),
            persons=_only(person),
            since=self._micros(since),
            until=self._micros(until),
        )
        return Rows(map(self._session, self._store.sessions(asked, limit=limit)), columns_of(Session))

    def session(self, id: str) -> Session:  # noqa: A002 - what it is called everywhere
        """The session with this id, or the one whose id begins with it; ``LookupError`` for none or several."""
        try:
            return self._session(self._store.session(id))
        except SessionNameError as error:
            count = len(error.found)
            problem = f"{count} sessions have an id that begins with" if count else "there is no session"
            raise LookupError(f"{problem} {id!r}") from None

    def usage(
        self,
        by: UsageGroup = "total",
        *,
        agent: str | None = None,
        project: str | None = None,
        model: str | None = None,
        machine: str | None = None,
        person: str | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> Rows[Usage]:
        """Tokens and cost by group, in the order of the groups; ``project`` is a whole directory."""
        _check("by", by, get_args(UsageGroup))
        query = UsageQuery(
            by=by,
            agents=_only(agent),
            projects=_only(project),
            models=_only(model),
            machines=_only(machine),
            persons=_only(person),
            since_day=self._day(since),
            before_day=self._day(until),
        )
        report = usage_report(self._store, self._cashier, query)
        if by == "total":
            return Rows([_usage("", report.total)], columns_of(Usage))
        return Rows((_usage(group.name, group.bill) for group in report.groups), columns_of(Usage))

    def search(
        self,
        text: str,
        *,
        session: Session | None = None,
        agent: str | None = None,
        project: str | None = None,
        machine: str | None = None,
        person: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int = 50,
    ) -> Rows[Hit]:
        """Recorded texts with all of these words, newest first; ``"a phrase"`` in quotes, prefixes as ``migrat*``."""
        if not has_words(text):
            raise ValueError("there is nothing to search for: give at least one word")
        query = SearchQuery(
            text=text,
            session=None if session is None else session._number,
            agents=_only(agent),
            project_contains=project,
            machines=_only(machine),
            persons=_only(person),
            since=self._micros(since),
            until=self._micros(until),
            limit=limit,
        )
        page = find_events(self._store, query, most_read=sys.maxsize)
        return Rows((self._hit(each) for each in page.matches if isinstance(each, TextMatch)), columns_of(Hit))

    # -- what objects ask for -----------------------------------------------------------------------------------

    def _spans(self, session: Session) -> Rows[Span]:
        rows = self._store.span_rows(self._stored(session), attributes=True)
        return Rows(map(self._span, rows), columns_of(Span))

    def _conversation(self, session: Session) -> Rows[Message]:
        transcript = Transcript(self._store, self._stored(session), self._texts, self._cashier)
        messages: list[Message] = []
        while told := transcript.more(self._store):
            messages += [message for each in told for message in _messages(each)]
        return Rows(messages, columns_of(Message))

    def _session_usage(self, session: Session) -> Usage:
        rows = self._store.usage_by_session([session._number]).get(session._number, [])
        return _usage(session.id, self._cashier.bill(rows))

    def _annotations(self, session: Session) -> Rows[Annotation]:
        found = self._store.annotations([session._number]).get(session._number, [])
        return Rows(map(_annotation, found), columns_of(Annotation))

    def _stored(self, session: Session) -> model.Session:
        found = self._store.sessions_by_number([session._number])
        if not found:
            raise LookupError(f"session {session.id!r} was removed")
        return found[0]

    # -- shapes -----------------------------------------------------------------------------------------------

    def _session(self, session: model.Session) -> Session:
        return Session(
            id=session.session_id,
            agent=session.agent,
            state=session.state,
            title=title_of(session) or None,
            project=session.project,
            branch=session.branch,
            machine=session.machine,
            person=session.person,
            model=session.model,
            version=session.version,
            parent=session.parent,
            started=_moment(session.started_at),
            last_active=_moment(session.last_at),
            turns=session.turns,
            model_calls=session.steps,
            tool_calls=session.tools,
            errors=session.errors,
            _number=session.id,
            _store=self,
        )

    def _span(self, row: SpanRow) -> Span:
        usage = row.usage
        attributes: dict[str, Any] = msgspec.json.decode(row.attributes) if row.attributes else {}
        cost, currency = costing.cost_of(row, self._cashier)
        return Span(
            id=row.span_id.hex(),
            trace_id=row.trace_id.hex(),
            parent_id=None if row.parent_id is None else row.parent_id.hex(),
            kind=row.kind,
            name=row.name,
            start=moment(row.start),
            end=_moment(row.end),
            status=row.status,
            model=row.model,
            tool=attributes.get("tool"),
            stream=row.stream,
            turn=row.turn_index,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cache_read_tokens=None if usage is None else usage.cache_read_tokens,
            cache_write_tokens=None if usage is None else usage.cache_write_tokens,
            cost=cost,
            currency=currency,
            attributes=attributes,
        )

    def _hit(self, match: TextMatch) -> Hit:
        event, content = match.event, match.content
        return Hit(
            session=self._session(event.session),
            kind=event.said.line.event_type if content is None else content.kind,
            snippet="" if content is None else snippet(content.text, match.place),
            at=_moment(event.said.event.at),
            span_id=None if match.span_id is None else match.span_id.hex(),
            span=match.span,
        )

    def _micros(self, when: When | None) -> int | None:
        return None if when is None else micros_of(self._moment_of(when))

    def _day(self, when: When | None) -> str | None:
        return None if when is None else self._moment_of(when).date().isoformat()

    def _moment_of(self, when: When) -> datetime:
        if isinstance(when, datetime) and when.tzinfo is not None:
            return when
        return parse_moment(when if isinstance(when, str) else when.isoformat(), self._settings.usage.timezone)


def _only(value: T | None) -> frozenset[T]:
    return frozenset() if value is None else frozenset((value,))


def _check(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ValueError(f"{name} is {value!r}: give one of {', '.join(valid)}")


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else moment(micros)


def _annotation(stored: StoredAnnotation) -> Annotation:
    return Annotation(
        id=stored.annotation_id.hex(),
        kind=stored.kind,
        name=stored.name or None,
        value=stored.value,
        text=stored.text or None,
        source=stored.source,
        author=stored.author,
        created=moment(int(stored.created_at * MICROS)),
        changed=moment(int(stored.changed_at * MICROS)),
        span_id=None if stored.span_id is None else stored.span_id.hex(),
    )


def _usage(group: str, bill: costing.Bill) -> Usage:
    fields = bill.fields()
    return Usage(group=group, **{name: fields[name] for name in columns_of(Usage) if name in fields})


def _messages(told: TranscriptSpan) -> Iterable[Message]:
    row = told.row
    tool = row.name.removeprefix("execute_tool ") if row.kind == "tool" else None
    for content in told.contents:
        yield Message(
            role=_ROLES.get(content.kind, "tool" if row.kind == "tool" else "system"),
            kind=content.kind,
            text=content.text,
            at=moment(row.start),
            span_id=row.span_id.hex(),
            tool=tool,
            depth=told.depth,
        )
