"""A session as a transcript, a few spans at a time, for documents about it.

Only the order of all spans is in memory; rows and texts are read when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.model import Session
from agenttrace.prices import costing
from agenttrace.prices.costing import Cashier, cost_of
from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.questions import MAIN_STREAM, SpanRow
from agenttrace.views import figures
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import hidden_replaced, one_line
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS, moment

if TYPE_CHECKING:
    from agenttrace.store.store import Store

#: So many spans are read at once.
_PORTION = 16

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
#: Of hidden characters in a row so many are named; of more only how many there are, as they may hold a whole text.
_NAMED = 4


def visible(text: str) -> str:
    """The text with what cannot be seen, or makes other text look different, as something that can be seen."""
    if text.isascii() and text.isprintable():
        return text
    pictured = _CONTROLS.sub(lambda found: _picture(ord(found[0])), text.replace("\r\n", "\n"))
    return hidden_replaced(pictured, _named)


def _named(run: str) -> str:
    if len(run) > _NAMED:
        return f"⟦{len(run)} hidden characters from U+{ord(run[0]):04X} on⟧"
    return "".join(f"⟦U+{ord(char):04X}⟧" for char in run)


def _picture(code: int) -> str:
    return "␡" if code == 0x7F else chr(0x2400 + code)


class TranscriptSpan(NamedTuple):
    """A span of a transcript."""

    row: SpanRow
    #: How many spans are above it.
    depth: int
    contents: Sequence[Content]
    cost: float | None
    currency: str | None

    @property
    def before(self) -> list[Content]:
        """Texts before the spans below it."""
        return [content for content in self.contents if not self._closes(content)]

    @property
    def after(self) -> list[Content]:
        """Texts after them."""
        return [content for content in self.contents if self._closes(content)]

    def _closes(self, content: Content) -> bool:
        # The line with the last answer belongs to the turn, but was written at its end.
        return self.row.kind == "turn" and content.kind in ("text", "thinking", "error")

    @property
    def title(self) -> str:
        """The title of the span."""
        row = self.row
        if row.kind == "turn" and not is_inner_agent(row):
            who = "Turn" if row.stream == MAIN_STREAM else f"Subagent {row.stream}, turn"
            return one_line(f"{who} {row.turn_index + 1}")
        return one_line(row.name.removeprefix("execute_tool ").removeprefix("invoke_agent "), 200)

    @property
    def figures(self) -> list[str]:
        """Time, duration, tokens, cost, and the status if it is not ok."""
        row = self.row
        found = [clock(row.start)] if row.kind == "turn" else []
        if row.end is not None:
            found.append(figures.duration(row.end - row.start))
        if row.input_tokens is not None:
            all_input = row.input_tokens + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
            found.append(f"{figures.tokens(all_input)} in, {figures.tokens(row.output_tokens or 0)} out")
        if self.cost is not None and self.currency is not None:
            found.append(figures.money(round(self.cost * MICROS), self.currency))
        if row.status != "ok":
            found.append(row.status)
        return found


def is_inner_agent(row: SpanRow) -> bool:
    """Whether it is an agent at work inside a turn, whose span says so: subagents of other logs have a stream."""
    return row.kind == "turn" and row.parent_id is not None and row.stream == MAIN_STREAM


def clock(micros: int) -> str:
    """A time in UTC, to the second."""
    return moment(micros).strftime("%Y-%m-%d %H:%M:%S UTC")


def facts_of(session: Session, bill: costing.Bill) -> dict[str, str]:
    """The facts at the top of a document."""
    tokens = bill.tokens
    all_input = tokens["input_tokens"] + tokens["cache_read_tokens"] + tokens["cache_write_tokens"]
    amounts = [figures.money(micros, currency) for currency, micros in bill.costs.items()]
    unpriced = [f"{figures.tokens(bill.unpriced_tokens)} tokens without a known price"] if bill.unpriced_tokens else []
    found = {
        "Session": session.session_id,
        "Agent": " ".join(filter(None, (session.agent, session.version))),
        "Project": " ".join(filter(None, (session.project, session.branch and f"({session.branch})"))),
        "Model": ", ".join(map(_model, sorted(bill.models) or [session.model or ""])),
        "Forked from": session.parent or "",
        "Time": " – ".join(clock(at) for at in (session.started_at, session.last_at) if at is not None),
        "Work": ", ".join(
            (
                figures.counted(session.turns, "turn"),
                figures.counted(session.steps, "model call"),
                figures.counted(session.tools, "tool call"),
                figures.counted(session.errors, "error"),
            )
        ),
        "Tokens": f"{figures.tokens(all_input)} in, {figures.tokens(tokens['output_tokens'])} out",
        "Cost": " + ".join(amounts + unpriced),
    }
    return {name: one_line(text, 500) for name, text in found.items() if text}


def _model(model: str) -> str:
    """``Sonnet 4.5 (claude-sonnet-4-5)``."""
    name = model_name(model)
    return model if name == model else f"{name} ({model})"


def heading_of(session: Session) -> str:
    """The title, on one line."""
    return one_line(title_of(session), 200) or one_line(session.session_id, 200)


class TurnSums:
    """Tokens and cost of everything in a turn."""

    __slots__ = ("costs", "errors", "input", "output")

    def __init__(self) -> None:
        self.input = self.output = self.errors = 0
        #: Millionths by currency.
        self.costs: dict[str, int] = {}

    @property
    def figures(self) -> list[str]:
        """``12.3k in, 456 out``, and the cost."""
        found = [f"{figures.tokens(self.input)} in, {figures.tokens(self.output)} out"] if self.input else []
        return found + [figures.money(micros, currency) for currency, micros in self.costs.items()]


class _SpanSums(NamedTuple):
    """What a span adds to the turns around it."""

    kind: str
    input: int
    output: int
    cost: float | None
    currency: str | None
    failed: bool


class Transcript:
    """The spans of a session in the order in which a tree of them is read; without ``tools`` no tool calls."""

    def __init__(
        self, store: Store, session: Session, texts: SessionTexts, prices: Cashier, *, tools: bool = True
    ) -> None:
        self._session, self._texts, self._prices = session, texts, prices
        self._subagents = store.subagents(session)
        spans: list[tuple[bytes, bytes | None]] = []
        adds: dict[bytes, _SpanSums] = {}
        for row in store.span_rows(session):
            spans.append((row.span_id, row.parent_id))
            adds[row.span_id] = _adds(row, prices)
        order = depth_first(spans)
        self.sums = _sums_by_turn(order, adds)
        self._order = order if tools else _without_tools(order, adds)
        self._told = 0

    def more(self, store: Store) -> list[TranscriptSpan]:
        """The next few spans; none after the last."""
        part = self._order[self._told : self._told + _PORTION]
        self._told += len(part)
        wanted = [span_id for span_id, _ in part]
        if not wanted:
            return []
        rows = store.spans_by_id(self._session, wanted, attributes=False, subagents=self._subagents)
        contents = self._texts.contents(store, self._session, wanted)
        return [
            TranscriptSpan(rows[span_id], depth, contents.get(span_id, ()), *cost_of(rows[span_id], self._prices))
            for span_id, depth in part
            if span_id in rows
        ]


def _adds(row: SpanRow, prices: Cashier) -> _SpanSums:
    all_input = (row.input_tokens or 0) + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
    return _SpanSums(row.kind, all_input, row.output_tokens or 0, *cost_of(row, prices), row.status == "error")


def _sums_by_turn(order: Sequence[tuple[bytes, int]], adds: Mapping[bytes, _SpanSums]) -> dict[bytes, TurnSums]:
    """The sums of each turn, those of the turns inside it included."""
    found: dict[bytes, TurnSums] = {}
    around: list[tuple[int, TurnSums]] = []
    for span_id, depth in order:
        while around and around[-1][0] >= depth:
            around.pop()
        span = adds[span_id]
        if span.kind == "turn":
            found[span_id] = sums = TurnSums()
            around.append((depth, sums))
        for _, sums in around:
            sums.input += span.input
            sums.output += span.output
            sums.errors += span.failed and span.kind != "turn"
            if span.cost is not None and span.currency is not None:
                sums.costs[span.currency] = sums.costs.get(span.currency, 0) + round(span.cost * MICROS)
    return found


def _without_tools(order: Sequence[tuple[bytes, int]], adds: Mapping[bytes, _SpanSums]) -> list[tuple[bytes, int]]:
    """Turns and model calls that are in no tool call."""
    found: list[tuple[bytes, int]] = []
    inside: int | None = None
    for span_id, depth in order:
        if inside is not None and depth > inside:
            continue
        inside = depth if adds[span_id].kind in ("tool", "span") else None
        if inside is None:
            found.append((span_id, depth))
    return found


def depth_first(spans: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[bytes, int]]:
    """Every span once, after its parent; spans without a known parent are roots."""
    known = {span_id for span_id, _ in spans}
    children: dict[bytes | None, list[bytes]] = {}
    for span_id, parent in spans:
        children.setdefault(parent if parent in known else None, []).append(span_id)
    order: list[tuple[bytes, int]] = []
    seen: set[bytes] = set()
    # Spans in a cycle are below no root; they follow at the end.
    for root in (*children.get(None, ()), *(span_id for span_id, _ in spans)):
        stack = [(root, 0)]
        while stack:
            span_id, depth = stack.pop()
            if span_id not in seen:
                seen.add(span_id)
                order.append((span_id, depth))
                stack += [(child, depth + 1) for child in reversed(children.get(span_id, ()))]
    return order
