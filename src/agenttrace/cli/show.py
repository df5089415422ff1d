"""``agenttrace show``: one session as a tree of turns, model calls and tools."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.annotate import print_annotations
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import STATE_STYLES, find_one
from agenttrace.prices.costing import TOKEN_FIELDS
from agenttrace.views import figures, money
from agenttrace.views.agreement import sentence
from agenttrace.views.annotations import annotation_fields
from agenttrace.views.calls import call_line, call_text
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import one_line, safe
from agenttrace.views.sessions import bills_of, session_fields, title_of

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.model import Session, Usage
    from agenttrace.prices.costing import Bill
    from agenttrace.record.formats.contract import Content
    from agenttrace.store.questions import Agreement, SpanView

EPILOG = """
  agenttrace show 5bc45ad6           the beginning of an id is enough
  agenttrace show 5bc45ad6 --full    with prompts, answers and results
  agenttrace show 5bc45ad6 --json | jq '.spans[] | select(.status == "error")'

✓ done, ✗ failed, ⊘ cancelled, ? its end is not in the log, … still at work, ⇠ a copy that is counted elsewhere,
~ the usage is estimated, Σ the sum of everything below.
"""

_MARKS = {
    "ok": ("✓", "green"),
    "error": ("✗", "bold red"),
    "cancelled": ("⊘", "yellow"),
    "unclosed": ("?", "yellow"),
    "open": ("…", "cyan"),
}
_CONTENT_STYLES = {"prompt": "bold", "thinking": "italic dim", "error": "red", "arguments": "cyan", "result": "dim"}
_PREVIEW, _SHORT = 160, 40
#: What stands before a text in a tree with all texts.
_GUIDES = re.compile(r"[ │├└─]*(?:\w+: )?")


def show(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")],
    full: Annotated[bool, typer.Option("--full", help="Include prompts, answers, arguments and results.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one session: turns, model calls and tools, with durations, tokens and errors."""
    from agenttrace.record.texts.contents import span_contents
    from agenttrace.views.spans import span_fields

    settings = opening.settings()
    with opening.shown_store(settings) as store:
        found = find_one(store, session)
        bill = bills_of(store, settings, [found])[found.id]
        spans = store.spans(found)
        contents = span_contents(store, found, spans)
        agreement = store.agreement(found.id)
        beside = store.annotations([found.id]).get(found.id, [])
    if as_json:
        listed = [span_fields(found, span, contents.get(span.span_id, ()), full=full) for span in spans]
        fields = session_fields(found, bill) | {"check": msgspec.to_builtins(agreement)}
        annotations = [annotation_fields(each) for each in beside]
        output.print_json({"session": fields, "spans": listed, "annotations": annotations})
        return
    _show_header(found, bill, agreement)
    if beside:
        print_annotations(beside)
        output.say()
    for line in Tree(spans, contents, full=full).lines():
        if full:
            output.print_wrapped(output.stdout(), line, _margin(line.plain))
        else:
            output.put(line)
    _show_remarks(bill, spans)


def _margin(line: str) -> int:
    """Where the text of a line begins, behind the guides of the tree and the kind of text."""
    found = _GUIDES.match(line)
    return 0 if found is None else found.end()


def _show_header(session: Session, bill: Bill, agreement: Agreement) -> None:
    output.say(one_line(title_of(session)) or "(no title)", "bold")
    rows = {
        "session": session.session_id,
        "agent": " ".join(part for part in (opening.agent_title(session.agent), session.version) if part),
        "project": " ".join(part for part in (session.project, session.branch and f"({session.branch})") if part),
        "recorded": recorded_on(session),
        "forked from": session.parent,
        "model": model_name(session.model or ""),
        "time": _period(session),
        "tokens": f"{usage_text(bill.tokens)} in {figures.counted(bill.requests, 'request')}",
        "cost": money.cost_text(bill),
        "check": sentence(agreement),
    }
    output.fact("state", session.state, STATE_STYLES.get(session.state, ""))
    for name, value in rows.items():
        if value:
            output.fact(name, one_line(value))
    output.say()


def recorded_on(session: Session) -> str:
    """``on laptop-amy by amy``, of a team's store; empty elsewhere."""
    parts = (session.machine and f"on {session.machine}", session.person and f"by {session.person}")
    return " ".join(filter(None, parts))


def _period(session: Session) -> str:
    if session.started_at is None or session.last_at is None:
        return ""
    length = figures.duration(session.last_at - session.started_at)
    return f"{figures.clock(session.started_at)} – {figures.clock(session.last_at)} ({length})"


def _show_remarks(bill: Bill, spans: Sequence[SpanView]) -> None:
    output.say()
    foreign = sum(1 for span in spans if not span.counted)
    if foreign:
        output.note(
            f"⇠ {figures.counted(foreign, 'response')} copied from another session: shown here, counted there.",
            "yellow",
        )
    for remark in money.remarks(bill):
        output.note(remark, "yellow")


def usage_text(tokens: Mapping[str, int]) -> str:
    """``12.3k in (11.0k cached), 456 out``."""
    cached = tokens["cache_read_tokens"]
    all_input = tokens["input_tokens"] + cached + tokens["cache_write_tokens"]
    part = f" ({figures.tokens(cached)} cached)" if cached else ""
    return f"{figures.tokens(all_input)} in{part}, {figures.tokens(tokens['output_tokens'])} out"


class TreeRow(NamedTuple):
    """A span, and the guides before it and before what is below it."""

    span: SpanView
    lead: str
    below: str
    has_children: bool


class Tree:
    """The spans of a session, drawn line by line however many they are."""

    def __init__(
        self, spans: Sequence[SpanView], contents: Mapping[bytes, Sequence[Content]], *, full: bool = False
    ) -> None:
        self._contents = contents
        self._full = full
        self._now = time.time_ns() // 1000
        known = {span.span_id for span in spans}
        self._children: dict[bytes | None, list[SpanView]] = {}
        for span in spans:
            parent = span.parent_id if span.parent_id in known else None
            self._children.setdefault(parent, []).append(span)

    def lines(self) -> Iterator[Text]:
        """All lines, each turn followed by what happened in it."""
        for row in self.rows():
            yield self._line(row.span, row.lead)
            yield from self._texts(row.span, row.below + ("│  " if row.has_children else "   "))

    def rows(self, folded: Container[bytes] = ()) -> Iterator[TreeRow]:
        """All spans in the order of a tree, without what is below folded ones."""
        # A stack instead of recursion: subagents may nest deeper than Python likes.
        stack: list[tuple[SpanView, str, bool]] = [(span, "", True) for span in reversed(self._children.get(None, []))]
        drawn: set[bytes] = set()
        while stack:
            span, guide, last = stack.pop()
            if span.span_id in drawn:
                continue
            drawn.add(span.span_id)
            root = span.parent_id is None or guide == ""
            top = span.kind == "turn" and root and not guide
            lead = "" if top else guide + ("└─ " if last else "├─ ")
            below = guide + (" " if top else "   " if last else "│  ")
            children = self._children.get(span.span_id, [])
            yield TreeRow(span, lead, below, bool(children))
            for index, child in reversed(list(enumerate(children))) if span.span_id not in folded else ():
                stack.append((child, below, index == len(children) - 1))

    def _line(self, span: SpanView, lead: str) -> Text:
        line = self.head(span, lead)
        if span.kind == "turn":
            line.append(f"  {figures.clock(span.start)}", style="dim")
        line.append(f"  {self.duration(span)}", style="magenta")
        line.append_text(self._tokens(span))
        error = span.attributes.get("error")
        if error is None:
            return line.append_text(self.preview(span))
        # Which command failed, short enough to leave room for the reason.
        line.append_text(self.preview(span, _SHORT))
        return line.append(f"  {one_line(str(error), 120)}", style="red")

    def head(self, span: SpanView, lead: str) -> Text:
        """The mark and the name of a span behind its guides."""
        from rich.text import Text

        mark, style = _MARKS.get(span.status, ("?", ""))
        return Text.assemble((lead, "dim"), (f"{mark} ", style), self._name(span))

    def duration(self, span: SpanView) -> str:
        """How long it took, or takes until now."""
        end = span.end if span.end is not None else self._now
        return figures.duration(max(0, end - span.start))

    def _name(self, span: SpanView) -> Text:
        if span.kind == "turn" and span.parent_id is not None and span.stream == "main":
            return output.styled(span.name.removeprefix("invoke_agent "), "bold")
        if span.kind == "turn":
            number = f"Turn {span.turn_index + 1}" if span.turn_index >= 0 else "Before the first turn"
            subagent = "" if span.stream == "main" else f" · {span.name.removeprefix('invoke_agent ')}"
            return output.styled(number + subagent, "bold")
        if span.kind == "tool":
            return output.styled(str(span.attributes.get("tool") or span.name), "bold cyan")
        if span.kind == "span":
            return output.styled(span.name, "cyan")
        unlogged = span.attributes.get("not_in_log")
        return output.styled(
            (model_name(span.model or "") or "model") + (f" (not in the log: {unlogged})" if unlogged else ""), "blue"
        )

    def _tokens(self, span: SpanView) -> Text:
        from rich.text import Text

        if span.kind == "turn":
            total = self.sum(span)
            return Text(f"  Σ {usage_text(total)}" if any(total.values()) else "", style="dim")
        if span.usage is None:
            return Text()
        mark = "" if span.counted else " ⇠"
        guess = " ~" if span.estimated else ""
        return Text(f"  {usage_text(_tokens_of(span.usage))}{guess}{mark}", style="dim")

    def sum(self, turn: SpanView) -> dict[str, int]:
        """Tokens of everything below a turn, for display only: totals are made from model calls alone."""
        total = dict.fromkeys(TOKEN_FIELDS, 0)
        for span in self.family(turn):
            if span.usage is not None:
                for name, number in _tokens_of(span.usage).items():
                    total[name] += number
        return total

    def family(self, top: SpanView) -> Iterator[SpanView]:
        """A span and everything below it."""
        stack, seen = [top], {top.span_id}
        while stack:
            span = stack.pop()
            yield span
            fresh = [child for child in self._children.get(span.span_id, []) if child.span_id not in seen]
            seen.update(child.span_id for child in fresh)
            stack += fresh

    def preview(self, span: SpanView, most: int = _PREVIEW) -> Text:
        """The prompt, the call or the answer in one line."""
        if self._full:
            return output.styled("")
        contents = self._contents.get(span.span_id, ())
        if span.kind == "turn":
            text = str(span.attributes.get("prompt") or _first(contents, "prompt"))
        elif span.kind in ("tool", "span"):
            text = call_line(_first(contents, "arguments"), most)
        else:
            text = _first(contents, "text")
        shown = one_line(text[: most * 4], most)
        return output.styled(f"  {shown}" if shown else "", "" if span.kind == "turn" else "dim")

    def _texts(self, span: SpanView, guide: str) -> Iterator[Text]:
        if not self._full:
            return
        from rich.text import Text

        for content in self._contents.get(span.span_id, ()):
            style = _CONTENT_STYLES.get(content.kind, "")
            text = call_text(content.text) if content.kind == "arguments" else content.text
            for index, row in enumerate(safe(text).splitlines() or [""]):
                label = f"{content.kind:>9}: " if index == 0 else " " * 11
                yield Text.assemble((guide, "dim"), (label, "dim"), (row, style))


def _tokens_of(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in TOKEN_FIELDS}


def _first(contents: Sequence[Content], kind: str) -> str:
    return next((content.text for content in contents if content.kind == kind), "")
