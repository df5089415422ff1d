"""Rows of the ledger become spans that may leave: read, joined with what was said, and freed of what must stay.

What a destination's switches keep back is not read at all. A span is masked whole after it was assembled, so that every
text passes the mask, names and ids as well; only what a switch lets through as ``full`` stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol, cast

import msgspec

from agenttrace.destinations import Content, DestinationSettings
from agenttrace.export.span import ExportSession, ExportSpan, Text, TextKind
from agenttrace.export.traces import SessionTraces, digest_of
from agenttrace.model import AgentFacts, Session, Usage
from agenttrace.prices.costing import Cashier, price_of
from agenttrace.prices.parsing import MILLION
from agenttrace.prices.table import cost_micros
from agenttrace.providers import model_of, provider_of_span
from agenttrace.redaction import redacted, redacted_session
from agenttrace.store.exports import Entry
from agenttrace.store.sqlite.span_rows import SpanRow
from agenttrace.store.sqlite.store import SqliteStore

#: Spans whose texts are read together.
_PORTION = 50
#: Of one text, this many characters leave.
MOST_CHARS = 1_000_000
#: What the store remembers of a span that is no text of anybody's.
_FACTS = ("origin", "notes", "duration", "closed_by", "subagent")

#: What tools, agents and models are called, also behind what the conventions put before it.
_NAME = re.compile(r"(?:(?:invoke_agent|chat|execute_tool) )?[\w.:/@-]{0,64}")

_attributes = msgspec.json.Decoder(dict[str, Any])


class Said(Protocol):
    """A text as the logs have it."""

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def text(self) -> str:
        """All of it."""
        ...

    @property
    def call(self) -> str | None:
        """The tool call it belongs to."""
        ...


#: What was said in some spans of a session.
Texts = Callable[[SqliteStore, Session, Sequence[bytes]], Mapping[bytes, Sequence[Said]]]


class Ready(NamedTuple):
    """A span that may leave."""

    entry: Entry
    span: ExportSpan
    #: Names it as it is now.
    digest: bytes


class Assembly:
    """Builds spans for one destination."""

    def __init__(
        self,
        store: SqliteStore,
        destination: DestinationSettings,
        *,
        texts: Texts,
        mask: Callable[[str], str],
        cashier: Cashier,
        agents: Mapping[str, AgentFacts],
    ) -> None:
        self._store = store
        self._destination = destination
        self._texts = texts
        #: What every text passes that leaves.
        self.mask = mask
        self._cashier = cashier
        self._agents = agents
        self._known: tuple[int, int, Session, SessionTraces] | None = None

    def build(self, entries: Sequence[Entry]) -> tuple[list[Ready], list[Entry]]:
        """As many of these, from the first on, as a request should hold; and those that are gone from the store."""
        ready: list[Ready] = []
        gone: list[Entry] = []
        size = 0
        for number, part in self._portions(entries):
            found = self._session(number)
            built = {} if found is None else self._spans(*found, [entry.span_id for entry in part])
            for entry in part:
                if entry.span_id not in built:
                    gone.append(entry)
                    continue
                span, digest = built[entry.span_id]
                size += sum(len(text.text) for text in span.texts)
                ready.append(Ready(entry, span, digest))
            if size >= self._destination.max_body_bytes:
                break
        return ready, gone

    @staticmethod
    def _portions(entries: Sequence[Entry]) -> Iterator[tuple[int, list[Entry]]]:
        for number, group in groupby(entries, key=lambda entry: entry.session_id):
            whole = list(group)
            for start in range(0, len(whole), _PORTION):
                yield number, whole[start : start + _PORTION]

    def _session(self, number: int) -> tuple[Session, SessionTraces] | None:
        """A session and its traces; a long one is not read anew for every portion of it."""
        now = self._store.last_event()
        if self._known is None or self._known[:2] != (number, now):
            found = self._store.sessions_by_number([number])
            if not found:
                return None
            self._known = (number, now, found[0], SessionTraces(self._store.traces(number)))
        return self._known[2:]

    def _spans(
        self, session: Session, traces: SessionTraces, wanted: Sequence[bytes]
    ) -> dict[bytes, tuple[ExportSpan, bytes]]:
        rows = self._store.spans_with_attributes(traces.stored, wanted)
        answers = {span_id: traces.last_step(span_id) for span_id, row in rows.items() if row.kind == "turn"}
        said = self._said(session, list({*rows, *filter(None, answers.values())}))
        told = self._told(session)
        built = {}
        for span_id, row in rows.items():
            texts = [*said.get(span_id, ()), *_answer(said, answers.get(span_id))]
            span = self._assembled(row, session, told, traces)
            built[span_id] = (self._masked(span, texts), digest_of(row))
        return built

    # -- what was said ----------------------------------------------------------------------------------------

    def _said(self, session: Session, wanted: Sequence[bytes]) -> Mapping[bytes, Sequence[Said]]:
        switches = self._destination
        if {switches.prompts, switches.tool_inputs, switches.tool_outputs} == {"off"}:
            return {}
        return self._texts(self._store, session, wanted)

    def _switch(self, kind: str, in_tool: bool) -> Content:
        if kind == "arguments":
            return self._destination.tool_inputs
        if kind == "result" or (kind == "error" and in_tool):
            return self._destination.tool_outputs
        return self._destination.prompts

    def _texts_of(self, span: ExportSpan, said: Sequence[Said]) -> Iterator[Text]:
        for each in said:
            switch = self._switch(each.kind, span.kind == "tool")
            if switch != "off":
                text = Text(cast("TextKind", each.kind), each.text, each.call)
                text = redacted(text, self.mask, keep=_kept("text", switch))
                yield text._replace(text=_cut(text.text))

    # -- what it is -------------------------------------------------------------------------------------------

    def _told(self, session: Session) -> ExportSession:
        switch = self._destination.prompts
        masked = redacted_session(session, self.mask)
        titled = session if switch == "full" else masked
        title = None if switch == "off" else titled.title or titled.first_prompt
        agent = self._agents.get(session.agent)
        return ExportSession(
            session_id=masked.session_id,
            agent=masked.agent,
            agent_title=None if agent is None else agent.title,
            integration=None if agent is None else agent.integration,
            agent_version=masked.version,
            project=masked.project,
            branch=masked.branch,
            title=title and _cut(title),
        )

    def _masked(self, span: ExportSpan, said: Sequence[Said]) -> ExportSpan:
        """A span of which nothing is left to be masked."""
        switch = self._switch("error", span.kind == "tool")
        span = self._named(span)
        span = msgspec.structs.replace(span, error=None) if switch == "off" else span
        span = redacted(span, self.mask, keep=("session", "provider", *_kept("error", switch)))
        return msgspec.structs.replace(span, texts=tuple(self._texts_of(span, said)))

    def _named(self, span: ExportSpan) -> ExportSpan:
        """A span whose names say nothing that a switch keeps back: programs put prompts and arguments into them."""
        switches = self._destination
        if (switches.tool_inputs if span.kind == "tool" else switches.prompts) != "off":
            return span
        return msgspec.structs.replace(
            span,
            name=_first_word(span.name),
            agent_name=span.agent_name and _first_word(span.agent_name),
            tool=span.tool and _first_word(span.tool),
            finish_reason=span.finish_reason and _first_word(span.finish_reason),
            attributes={name: _first_words(value) for name, value in span.attributes.items()},
        )

    def _assembled(self, row: SpanRow, session: Session, told: ExportSession, traces: SessionTraces) -> ExportSpan:
        """A span as the store has it, without what was said in it."""
        attributes = _attributes.decode(row.attributes) if row.attributes else {}
        usage = row.usage if traces.pays(row.span_id) else None
        cost, currency = self._cost(row, usage)
        return ExportSpan(
            span_id=row.span_id,
            trace_id=row.trace_id,
            parent_id=row.parent_id,
            session=told,
            kind=cast("Literal['turn', 'step', 'tool', 'span']", row.kind),
            name=row.name,
            start=row.start,
            end=traces.ended(row),
            status=cast("Literal['ok']", "unclosed" if row.status == "open" else row.status),
            error=_text(attributes.get("error")),
            path=traces.path(row.span_id),
            turn_index=row.turn_index,
            step_n=row.step_n,
            agent_name=row.name.removeprefix("invoke_agent ") if row.kind == "turn" else None,
            subagent=row.stream != "main",
            provider=self._provider(row, attributes, session),
            model=model_of(row),
            usage=usage,
            estimated=usage is not None and bool(row.estimated),
            copied=row.usage is not None and not row.counted,
            cost=cost,
            currency=currency,
            finish_reason=_text(attributes.get("finish_reason")),
            response_id=_text(attributes.get("response_id")),
            tool=_text(attributes.get("tool")),
            call=_text(attributes.get("call")),
            attributes={name: attributes[name] for name in _FACTS if name in attributes},
        )

    def _provider(self, row: SpanRow, attributes: Mapping[str, Any], session: Session) -> str | None:
        found = provider_of_span(row, attributes, session, self._agents.get(session.agent))
        # Only a name that the log tells may hold anything that must not leave.
        return self.mask(_first_word(found)) if found is not None and "provider" in attributes else found

    def _cost(self, row: SpanRow, usage: Usage | None) -> tuple[Decimal | None, str | None]:
        price = price_of(row, self._cashier.prices) if usage is not None else None
        if price is None or usage is None:
            return None, None
        return Decimal(cost_micros(price, usage)) / MILLION, price.currency


def _answer(said: Mapping[bytes, Sequence[Said]], step: bytes | None) -> list[Said]:
    """What a turn came to: the last words of its last model call. Backends show it as the output of the trace."""
    words = [each for each in said.get(step, ()) if each.kind == "text"] if step is not None else []
    return words[-1:]


def _first_word(name: str) -> str:
    """A name without whatever else somebody put behind it."""
    found = _NAME.match(name)
    return name if found is None else f"{found[0]}{'…' if found.end() < len(name) else ''}"


def _first_words(value: object) -> object:
    """The same for an attribute, which may be a count by name."""
    if isinstance(value, dict):
        return {_first_word(str(name)): each for name, each in value.items()}
    return _first_word(value) if isinstance(value, str) else value


def _kept(field: str, switch: Content) -> tuple[str, ...]:
    """Which field of a record stays as it is: one whose switch lets it through unmasked."""
    return (field,) if switch == "full" else ()


def _cut(text: str) -> str:
    """A text that is not endless; masked before it is cut, as half a key is still a key."""
    left_out = len(text) - MOST_CHARS
    return text if left_out <= 0 else f"{text[:MOST_CHARS]} … [{left_out} more characters]"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
