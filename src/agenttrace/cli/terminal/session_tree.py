"""One session as a tree: turns, model calls and tools, with what they took, used and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from agenttrace.cli import opening
from agenttrace.cli.output import styled
from agenttrace.cli.sessions import STATE_STYLES
from agenttrace.cli.show import Tree, TreeRow, usage_text
from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.screens import TraceScreen, safe_title
from agenttrace.model import Session
from agenttrace.prices.costing import Bill, cost_of
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import SpanView
from agenttrace.store.store import Store
from agenttrace.views import figures, money
from agenttrace.views.calls import call_text
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import one_line, safe
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS

#: In a session with more spans only the last turn is open at first.
_MOST_OPEN = 400
#: Of a longer text the beginning is shown.
_MOST_CHARACTERS = 100_000
#: So many lines around those on the screen have their texts.
_MARGIN_LINES = 50
_LABELS = {"prompt": "prompt", "text": "answer", "thinking": "thinking", "arguments": "call", "result": "result"}


class Loaded(NamedTuple):
    """A session as it is in the store at a moment."""

    session: Session
    spans: list[SpanView]
    #: Of model calls, in micro-units by currency.
    costs: dict[bytes, Mapping[str, int]]
    bill: Bill | None
    revision: tuple[object, ...]


class SessionScreen(TraceScreen):
    """The tree of a session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold", show=False),
        Binding("left", "close_span", "Close", show=False),
        Binding("right", "open_span", "Open", show=False),
        Binding("e", "next_error", "Error"),
        Binding("f", "follow", "Follow"),
        Binding("u", "app.usage", "Usage", show=False),
    ]

    def __init__(self, session: Session, span_id: bytes | None = None) -> None:
        super().__init__()
        self._loaded = Loaded(session, [], {}, None, ())
        self._wanted = span_id
        self._contents: dict[bytes, list[Content]] = {}
        self._tree = Tree([], {})
        self._rows: list[TreeRow] = []
        self._folded: set[bytes] | None = None
        self._figures: dict[bytes, str] = {}
        self._following = False

    def content(self) -> ComposeResult:
        """Facts of the session, and its tree."""
        yield Static(id="facts", markup=False)
        yield LineList(self._line)

    async def load(self) -> None:
        """Read the spans, unless nothing of the session changed."""
        known = self._loaded
        cashier = self.reader.cashier

        def read(store: Store) -> Loaded:
            session = next(iter(store.sessions_by_number([known.session.id])), known.session)
            revision = (session.events, store.spans_revision(session.id), store.figures_revision(session.id))
            if revision == known.revision:
                return known._replace(session=session)
            rows = list(store.span_rows(session, attributes=True))
            costs = {row.span_id: _micros(*cost_of(row, cashier)) for row in rows}
            bill = cashier.bill(store.usage_by_session([session.id]).get(session.id, ()))
            return Loaded(session, [SpanView.of(row) for row in rows], costs, bill, revision)

        self._loaded = await self.reader.ask(read, lambda: known)
        if self._loaded.revision != known.revision:
            self._contents.clear()
        self._tree = Tree(self._loaded.spans, self._contents)
        self._figures.clear()
        if self._folded is None and self._loaded.spans:
            turns = [span.span_id for span in self._loaded.spans if span.kind == "turn" and span.parent_id is None]
            self._folded = set(turns[:-1]) if len(self._loaded.spans) > _MOST_OPEN else set()
            if self._wanted is not None:
                self._folded.clear()
        self._draw()
        await self._read_texts()
        self._show_facts()
        self.update_bar()

    def _draw(self) -> None:
        chosen = self._wanted or (self._chosen.span_id if self._chosen is not None else None)
        self._wanted = None
        self._rows = list(self._tree.rows(self._folded or ()))
        place = next((index for index, row in enumerate(self._rows) if row.span.span_id == chosen), None)
        self._list.show(len(self._rows), len(self._rows) - 1 if self._following else place)

    @property
    def _list(self) -> LineList:
        return self.query_one(LineList)

    @property
    def _chosen(self) -> SpanView | None:
        return self._rows[self._list.cursor].span if self._list.cursor < len(self._rows) else None

    def chosen_session(self) -> Session | None:
        """This session."""
        return self._loaded.session

    def _show_facts(self) -> None:
        session, bill = self._loaded.session, self._loaded.bill
        title = one_line(title_of(session), 300) or "(no title)"
        self.heading = safe_title(title) + ("  (following)" if self._following else "")
        agent = " ".join(
            filter(None, (opening.agent_title(session.agent), session.version, model_name(session.model or "")))
        )
        used = "" if bill is None else f"{usage_text(bill.tokens)}, {money.cost_text(bill)}"
        work = ", ".join(
            (
                figures.counted(session.turns, "turn"),
                figures.counted(session.tools, "tool call"),
                figures.counted(session.errors, "error"),
            )
        )
        first = Text.assemble((session.state, STATE_STYLES.get(session.state, "")), f"  {work}  {used}")
        second = styled(f"{agent}  {one_line(session.project or '')}", "dim")
        for line in (first, second):
            line.truncate(max(1, self.size.width - 2), overflow="ellipsis")
        self.query_one("#facts", Static).update(Text.assemble(first, "\n", second))

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, index: int, width: int) -> Text:
        """What it is at the left, what it took, used and cost at the right."""
        row = self._rows[index]
        right = self._right(row.span) if width >= 60 else f"{self._tree.duration(row.span):>8}"
        line = self._tree.head(row.span, row.lead)
        if row.has_children and row.span.span_id in (self._folded or ()):
            line.append(" +", style="bold")
        line.append_text(self._tree.preview(row.span))
        if error := row.span.attributes.get("error"):
            line.append(f"  {one_line(str(error), 200)}", style="red")
        line.truncate(width - len(right) - 1, overflow="ellipsis")
        return line + Text(" " * (width - len(right) - line.cell_len)) + Text(right, style="dim")

    def _right(self, span: SpanView) -> str:
        if span.span_id not in self._figures:
            self._figures[span.span_id] = self._counted(span)
        return f"{self._tree.duration(span):>8}{self._figures[span.span_id]}"

    def _counted(self, span: SpanView) -> str:
        """Tokens in and out, and the cost; of a turn those of everything below it."""
        costs, read, written = Counter[str](), 0, 0
        for each in self._tree.family(span) if span.kind == "turn" else (span,):
            costs.update(self._loaded.costs.get(each.span_id, {}))
            if (used := each.usage) is not None:
                read += used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
                written += used.output_tokens
        if not read and not written:
            return " " * 23
        cost = " + ".join(figures.money(micros, currency) for currency, micros in costs.items())
        return f"{figures.tokens(read):>7}{figures.tokens(written):>7}{cost:>9}"

    @on(LineList.Moved)
    async def _read_texts(self) -> None:
        """The texts of the spans around the cursor."""
        lines = self._list.visible_lines()
        around = self._rows[max(0, lines.start - _MARGIN_LINES) : lines.stop + _MARGIN_LINES]
        wanted = [row.span.span_id for row in around if row.span.span_id not in self._contents]
        if wanted:
            self._contents |= await self.reader.ask(
                lambda store: self.reader.texts.contents(store, self._loaded.session, wanted), dict
            )
            self._list.refresh()

    # -- keys ----------------------------------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Hide or show what is below the span."""
        if self._chosen is not None and self._folded is not None:
            self._folded ^= {self._chosen.span_id}
            self._draw()

    def action_close_span(self) -> None:
        """Hide what is below the span; where nothing is, move to its parent."""
        row = self._rows[self._list.cursor] if self._rows else None
        if row is None or self._folded is None:
            return
        if row.has_children and row.span.span_id not in self._folded:
            self.action_fold()
            return
        parents = (index for index, each in enumerate(self._rows) if each.span.span_id == row.span.parent_id)
        self._list.cursor = next(parents, self._list.cursor)

    def action_open_span(self) -> None:
        """Show what is below the span."""
        if self._chosen is not None and self._folded and self._chosen.span_id in self._folded:
            self.action_fold()

    def action_next_error(self) -> None:
        """Move to the next span that failed, also inside of folded ones."""
        every = [row.span for row in self._tree.rows()]
        chosen = self._chosen
        place = next((index for index, span in enumerate(every) if chosen and span.span_id == chosen.span_id), -1)
        found = next((span for span in every[place + 1 :] + every[: place + 1] if span.status == "error"), None)
        if found is None:
            self.notify("Nothing failed in this session.")
            return
        self._wanted = found.span_id
        parents = {span.span_id: span.parent_id for span in every}
        above = parents.get(found.span_id)
        while above is not None and self._folded is not None:
            self._folded.discard(above)
            above = parents.get(above)
        self._draw()

    async def action_follow(self) -> None:
        """Keep the cursor at the end while the session goes on."""
        self._following = not self._following
        self._draw()
        self._show_facts()
        self.update_bar()

    @on(LineList.Selected)
    async def action_details(self) -> None:
        """All texts of the span."""
        if (span := self._chosen) is not None:
            await self._read_texts()
            texts = self._contents.get(span.span_id, [])
            self.app.push_screen(SpanScreen(self._tree.head(span, ""), self._right(span), span, texts))


def _micros(amount: float | None, currency: str | None) -> Mapping[str, int]:
    return {} if amount is None or currency is None else {currency: round(amount * MICROS)}


class SpanScreen(TraceScreen):
    """All texts of one span."""

    def __init__(self, head: Text, right: str, span: SpanView, texts: list[Content]) -> None:
        super().__init__()
        self._head, self._right, self._span, self._texts = head, right, span, texts
        self.heading = one_line(head.plain, 60)

    def content(self) -> ComposeResult:
        """The texts, which can be scrolled."""
        with VerticalScroll(id="texts"):
            yield Static(span_text(self._head, self._right, self._span, self._texts), markup=False)


def span_text(head: Text, right: str, span: SpanView, texts: list[Content]) -> Text:
    """A span with all that it says, as one text."""
    text = Text.assemble(head, f"   {' '.join(right.split())}\n")
    text.append(f"{figures.clock(span.start)}   {safe(span.status)}\n", style="dim")
    if error := span.attributes.get("error"):
        text.append(f"\nerror\n{safe(str(error))}\n", style="red")
    for content in texts:
        shown = call_text(content.text) if content.kind == "arguments" else content.text
        text.append(f"\n{_LABELS.get(content.kind, content.kind)}\n", style="bold")
        text.append(safe(shown[:_MOST_CHARACTERS]) + "\n", style="red" if content.kind == "error" else "")
        if len(shown) > _MOST_CHARACTERS:
            more = figures.counted(len(shown) - _MOST_CHARACTERS, "more character")
            text.append(f"… {more}; all of it: agenttrace show SESSION --full\n", style="dim")
    if not texts:
        text.append("\nThe log has no text for it.\n", style="dim")
    return text
