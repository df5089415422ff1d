"""Assembly of spans for a destination: rows of the store, joined with their texts, filtered and masked.

Texts that a destination's switches exclude are not read. A span is masked whole after it was assembled, so that every
field passes the mask, names and ids as well; only texts whose switch is ``full`` are not masked.
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
from agenttrace.export.traces import SessionTraces, digest_of, status_of
from agenttrace.model import AgentFacts, Session, Usage
from agenttrace.prices.costing import Cashier, price_of
from agenttrace.prices.parsing import MILLION
from agenttrace.prices.table import cost_micros
from agenttrace.providers import model_of, provider_of_span
from agenttrace.redaction import redacted, redacted_session
from agenttrace.store.exports import QueuedSpan
from agenttrace.store.questions import SpanRow
from agenttrace.store.store import Store

#: Spans whose texts are read together.
_PORTION = 50
#: The most characters of one text that are sent.
MOST_CHARS = 1_000_000
#: Attributes of a stored span that are exported.
_FACTS = ("origin", "notes", "duration", "closed_by", "subagent")

#: The name of a tool, agent or model, with or without the operation of the conventions before it.
_NAME = re.compile(r"(?:(?:invoke_agent|chat|execute_tool) )?[\w.:/@-]{0,64}")

_attributes = msgspec.json.Decoder(dict[str, Any])


class LoggedText(Protocol):
    """A text of a log, as the recorder reads it."""

    @property
    def kind(self) -> str:
        """The kind of text."""
        ...

    @property
    def text(self) -> str:
        """The whole text."""
        ...

    @property
    def call(self) -> str | None:
        """The tool call it belongs to."""
        ...


#: Reads the texts of some spans of a session.
Texts = Callable[[Store, Session, Sequence[bytes]], Mapping[bytes, Sequence[LoggedText]]]


class AssembledSpan(NamedTuple):
    """A span that may be sent."""

    entry: QueuedSpan
    span: ExportSpan
    #: Identifies its present content.
    digest: bytes


class Assembly:
    """Builds spans for one destination."""

    def __init__(
        self,
        store: Store,
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
        #: Masks secrets in a text.
        self.mask = mask
        self._cashier = cashier
        self._agents = agents
        self._cached: tuple[int, int, Session, SessionTraces] | None = None

    def build(self, entries: Sequence[QueuedSpan]) -> tuple[list[AssembledSpan], list[QueuedSpan]]:
        """As many of these, from the first on, as fit in a request; and those that are no longer in the store."""
        ready: list[AssembledSpan] = []
        gone: list[QueuedSpan] = []
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
                ready.append(AssembledSpan(entry, span, digest))
            if size >= self._destination.max_body_bytes:
                break
        return ready, gone

    @staticmethod
    def _portions(entries: Sequence[QueuedSpan]) -> Iterator[tuple[int, list[QueuedSpan]]]:
        for number, group in groupby(entries, key=lambda entry: entry.session_id):
            whole = list(group)
            for start in range(0, len(whole), _PORTION):
                yield number, whole[start : start + _PORTION]

    def _session(self, number: int) -> tuple[Session, SessionTraces] | None:
        """A session and its traces, cached until the store changes: a long one has many portions."""
        now = self._store.last_event()
        if self._cached is None or self._cached[:2] != (number, now):
            found = self._store.sessions_by_number([number])
            if not found:
                return None
            self._cached = (number, now, found[0], SessionTraces(self._store.traces(number)))
        return self._cached[2:]

    def _spans(
        self, session: Session, traces: SessionTraces, wanted: Sequence[bytes]
    ) -> dict[bytes, tuple[ExportSpan, bytes]]:
        rows = self._store.spans_with_attributes(traces.stored, wanted)
        answers = {span_id: traces.last_steps.get(span_id) for span_id, row in rows.items() if row.kind == "turn"}
        said = self._said(session, list({*rows, *filter(None, answers.values())}))
        facts = self._session_facts(session)
        built = {}
        for span_id, row in rows.items():
            texts = [*said.get(span_id, ()), *_answer(said, answers.get(span_id))]
            span = self._assembled(row, session, facts, traces)
            built[span_id] = (self._masked(span, texts), digest_of(row))
        return built

    # -- texts ------------------------------------------------------------------------------------------------

    def _said(self, session: Session, wanted: Sequence[bytes]) -> Mapping[bytes, Sequence[LoggedText]]:
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

    def _texts_of(self, span: ExportSpan, said: Sequence[LoggedText]) -> Iterator[Text]:
        for each in said:
            switch = self._switch(each.kind, span.kind == "tool")
            if switch != "off":
                text = Text(cast("TextKind", each.kind), each.text, each.call)
                text = redacted(text, self.mask, keep=_unmasked("text", switch))
                yield text._replace(text=_cut(text.text))

    # -- facts ------------------------------------------------------------------------------------------------

    def _session_facts(self, session: Session) -> ExportSession:
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

    def _masked(self, span: ExportSpan, said: Sequence[LoggedText]) -> ExportSpan:
        """The span with its texts, masked."""
        switch = self._switch("error", span.kind == "tool")
        span = self._with_short_names(span)
        span = msgspec.structs.replace(span, error=None) if switch == "off" else span
        span = redacted(span, self.mask, keep=("session", "provider", *_unmasked("error", switch)))
        return msgspec.structs.replace(span, texts=tuple(self._texts_of(span, said)))

    def _with_short_names(self, span: ExportSpan) -> ExportSpan:
        """The span with short names where a switch excludes texts: programs put prompts and arguments into names."""
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

    def _assembled(self, row: SpanRow, session: Session, facts: ExportSession, traces: SessionTraces) -> ExportSpan:
        """A span as the store has it, without texts."""
        attributes = _attributes.decode(row.attributes) if row.attributes else {}
        # One span has the usage of a response, also where the response is repeated.
        usage = row.usage if row.span_id in traces.stored.payers else None
        cost, currency = self._cost(row, usage)
        return ExportSpan(
            span_id=row.span_id,
            trace_id=row.trace_id,
            parent_id=row.parent_id,
            session=facts,
            kind=cast("Literal['turn', 'step', 'tool', 'span']", row.kind),
            name=row.name,
            start=row.start,
            end=traces.ended(row),
            status=cast("Literal['ok']", status_of(row)),
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
        # Only a name from the log may contain a secret.
        return self.mask(_first_word(found)) if found is not None and "provider" in attributes else found

    def _cost(self, row: SpanRow, usage: Usage | None) -> tuple[Decimal | None, str | None]:
        price = price_of(row, self._cashier.prices) if usage is not None else None
        if price is None or usage is None:
            return None, None
        return Decimal(cost_micros(price, usage)) / MILLION, price.currency


def _answer(said: Mapping[bytes, Sequence[LoggedText]], step: bytes | None) -> list[LoggedText]:
    """The answer of a turn: the last text of its last model call. Backends show it as the output of the trace."""
    words = [each for each in said.get(step, ()) if each.kind == "text"] if step is not None else []
    return words[-1:]


def _first_word(name: str) -> str:
    """A name without any text after it."""
    found = _NAME.match(name)
    return name if found is None else f"{found[0]}{'…' if found.end() < len(name) else ''}"


def _first_words(value: object) -> object:
    """The same for an attribute, which may be a count by name."""
    if isinstance(value, dict):
        return {_first_word(str(name)): each for name, each in value.items()}
    return _first_word(value) if isinstance(value, str) else value


def _unmasked(field: str, switch: Content) -> tuple[str, ...]:
    """The field that is not masked, where its switch is ``full``."""
    return (field,) if switch == "full" else ()


def _cut(text: str) -> str:
    """A text of limited length; it is masked before it is cut, as half a key is still a key."""
    left_out = len(text) - MOST_CHARS
    return text if left_out <= 0 else f"{text[:MOST_CHARS]} … [{left_out} more characters]"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
