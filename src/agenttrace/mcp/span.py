"""``read_span``: one turn, model call or tool call with everything that was said in it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from agenttrace.mcp.naming import name_of, quoted, session_named, short_time
from agenttrace.mcp.pages import USUAL_CHARS, Passage, TextPage
from agenttrace.mcp.passages import KINDS
from agenttrace.mcp.tool import DATA_NOTE, Arguments, Cursor, SessionName, Tool
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.mcp.transcript import MaxChars
from agenttrace.model import Session
from agenttrace.prices.costing import cost_of
from agenttrace.providers import provider_of_span
from agenttrace.record.formats import FACTS
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import MAIN_STREAM, SpanRow
from agenttrace.views import figures
from agenttrace.views.cursors import Natural, from_cursor, to_cursor
from agenttrace.views.markdown import label_of
from agenttrace.views.times import MICROS
from agenttrace.views.trouble import TroubleError

_VALUE_CHARS = 500
_MOST_ATTRIBUTES = 30
#: Told anyway.
_KNOWN = ("tool", "prompt", "provider")

_attributes = msgspec.json.Decoder(dict[str, Any])


class SpanArguments(Arguments, frozen=True, kw_only=True):
    """Which span."""

    session: SessionName
    span: Annotated[
        str,
        msgspec.Meta(
            pattern="^[0-9a-fA-F]{16}$",
            description="The span's id, sixteen hexadecimal digits, as read_session, search and errors give it.",
        ),
    ]
    max_chars: MaxChars = USUAL_CHARS
    cursor: Cursor = None


def read(context: ToolContext, asked: SpanArguments) -> list[str]:
    """What the span is, and a page of what was said in it."""
    session = session_named(context, asked.session)
    span_id = bytes.fromhex(asked.span)
    row = context.store.spans_by_id(session, [span_id]).get(span_id)
    if row is None:
        raise TroubleError(
            f"session {name_of(context, session)} has no span {asked.span}", "read_session shows its spans."
        )
    contents = context.texts.contents(context.store, session, [span_id]).get(span_id, [])
    page = TextPage(asked.max_chars)
    following = _fill(context, contents, asked.cursor, page)
    text = page.text or "\nNothing was said in it, or nothing that was recorded.\n"
    return [_head(context, session, row), text, _foot(context, session, asked.span, following)]


def _fill(context: ToolContext, contents: list[Content], cursor: str | None, page: TextPage) -> str | None:
    first, offset = (0, 0) if cursor is None else from_cursor(cursor, tuple[Natural, Natural])
    for number, content in enumerate(contents[first:], first):
        kind = "arguments" if content.kind == "arguments_part" else content.kind
        left = page.put(Passage(label_of(kind), context.shown.whole(content.text)), offset)
        if left is not None:
            return to_cursor(number, left)
        offset = 0
    return None


def _head(context: ToolContext, session: Session, row: SpanRow) -> str:
    title = context.shown.line(row.name, _VALUE_CHARS)
    facts = {name: context.shown.line(text, _VALUE_CHARS) for name, text in _facts(context, session, row).items()}
    rows = "".join(f"- {name}: {text}\n" for name, text in facts.items() if text)
    return f"# {title}\n\n{rows}\n{DATA_NOTE}\n"


def _facts(context: ToolContext, session: Session, row: SpanRow) -> dict[str, str]:
    cost, currency = cost_of(row, context.prices)
    attributes = _attributes.decode(row.attributes) if row.attributes else {}
    others = {name: str(value) for name, value in attributes.items() if name not in _KNOWN}
    return {
        "Session": name_of(context, session),
        "Turn": str(row.turn_index + 1),
        "Subagent": "" if row.stream == MAIN_STREAM else row.stream,
        "Kind": KINDS.get(row.kind, row.kind),
        "Status": row.status,
        "Start": short_time(row.start) or "",
        "Duration": "" if row.end is None else figures.duration(row.end - row.start),
        "Model": row.model or "",
        "Provider": provider_of_span(row, attributes, session, FACTS.get(session.agent)) or "",
        "Tokens": _tokens(row),
        "Cost": "" if cost is None or currency is None else figures.money(round(cost * MICROS), currency),
        "Under": "" if row.parent_id is None else f"span {row.parent_id.hex()}",
        **dict(list(others.items())[:_MOST_ATTRIBUTES]),
    }


def _tokens(row: SpanRow) -> str:
    usage = row.usage
    if usage is None:
        return ""
    all_input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    elsewhere = "" if row.counted else " (a copy: counted in another session)"
    return f"{all_input:,} in, of them {usage.cache_read_tokens:,} cached; {usage.output_tokens:,} out{elsewhere}"


def _foot(context: ToolContext, session: Session, span: str, following: str | None) -> str:
    if following is None:
        return "\nEnd.\n"
    call = f'read_span(session={quoted(context, session)}, span="{span}", cursor="{following}")'
    return f"\nThe text goes on. Next page: {call}\n"


TOOL = Tool(
    name="read_span",
    title="Read one call of a past session",
    description=(
        "Read one span of a recorded session whole: a tool call with its arguments and its full result, a model call "
        "with its answer and thinking, or a turn with its prompt. Use it where read_session, search or errors showed "
        "a text cut short. Long texts come in pages; each page ends with the call that gives the next one."
    ),
    arguments=SpanArguments,
    answer=None,
    ask=read,
)
