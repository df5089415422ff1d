"""Spans as passages of Markdown: a heading, and as much of their texts as a reader asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from agenttrace.mcp.masked_texts import MaskedTexts
from agenttrace.mcp.pages import Passage
from agenttrace.mcp.reading_order import TurnSummary
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.views import figures
from agenttrace.views.markdown import DEEPEST_HEADING, label_of
from agenttrace.views.transcript import TranscriptSpan

Detail = Literal["outline", "conversation", "short", "full"]

#: The length of each kind of text in the level "short"; others are shown in full.
_SHORT = {"arguments": 600, "result": 1_000, "note": 300, "error": 2_000}
#: The kinds of text in the level "conversation".
_TALK = ("prompt", "text", "error", "media")
_LINE_CHARS = 200
#: Spans with arguments and a result: tool calls, and other work of programs.
WORK = ("tool", "span")
#: The names of span kinds.
KINDS = {"step": "model call", "tool": "tool call", "span": "other work"}

_attributes = msgspec.json.Decoder(dict[str, Any])


class DetailLevel(NamedTuple):
    """How much is shown."""

    detail: Detail
    thinking: bool


def turn_line(told: TranscriptSpan, turn: TurnSummary, shown: MaskedTexts) -> Passage:
    """A turn on one line."""
    calls = [figures.counted(turn.tools, "tool call")] if turn.tools else []
    failed = [f"{turn.failed} failed"] if turn.failed else []
    prompt = next((content.text for content in told.contents if content.kind == "prompt"), "")
    parts = [_title(told, shown), *told.figures, *calls, *failed, *_reason(told, shown)]
    return Passage("- " + " · ".join(filter(None, [*parts, shown.line(prompt, _LINE_CHARS)])))


def passages(told: TranscriptSpan, level: DetailLevel, shown: MaskedTexts) -> Iterator[Passage]:
    """A span; those below it follow."""
    line = " · ".join(filter(None, [_title(told, shown), *told.figures, *_reason(told, shown), *_name(told)]))
    if told.row.kind in WORK and level.detail == "conversation":
        asked = next((content.text for content in told.contents if content.kind == "arguments"), "")
        yield Passage("- " + " · ".join(filter(None, [line, shown.line(asked, _LINE_CHARS)])))
        return
    if told.row.kind != "step" or level.detail == "full" or _is_worth_a_line(told):
        yield Passage(f"{'#' * min(told.depth + 2, DEEPEST_HEADING)} {line}")
    yield from _texts(told, told.before, level, shown)


def last_passages(told: TranscriptSpan, level: DetailLevel, shown: MaskedTexts) -> Iterator[Passage]:
    """How a turn ended."""
    texts = list(_texts(told, told.after, level, shown))
    if texts:
        yield Passage(f"{'#' * min(told.depth + 2, DEEPEST_HEADING)} {_title(told, shown)}, end")
        yield from texts


def _is_worth_a_line(told: TranscriptSpan) -> bool:
    """A model call that failed, or whose answer is not that of its turn, as with agents inside a turn."""
    row = told.row
    return row.status in ("error", "cancelled") or (row.stream == MAIN_STREAM and told.depth > 1)


def _title(told: TranscriptSpan, shown: MaskedTexts) -> str:
    return shown.line(told.title, _LINE_CHARS)


def _reason(told: TranscriptSpan, shown: MaskedTexts) -> list[str]:
    """The short error of the log, if there is one."""
    attributes = _attributes.decode(told.row.attributes) if told.row.attributes else {}
    return [shown.line(str(attributes.get("error") or ""), _LINE_CHARS)]


def _name(told: TranscriptSpan) -> list[str]:
    """The id for ``read_span``; turns are shown in full."""
    return [] if told.row.kind == "turn" else [f"span {told.row.span_id.hex()}"]


def _texts(told: TranscriptSpan, contents: list[Content], level: DetailLevel, shown: MaskedTexts) -> Iterator[Passage]:
    # Texts of subagents are labelled, as they may follow any other span.
    row = told.row
    named = row.kind in WORK or row.stream == MAIN_STREAM
    whose = "" if named else f" of subagent {shown.line(row.stream, _LINE_CHARS)}"
    for content in contents:
        # Parts of arguments are joined before.
        kind = "arguments" if content.kind == "arguments_part" else content.kind
        if _is_shown(kind, level) and content.text:
            short = _SHORT.get(kind) if level.detail != "full" else None
            text = shown.whole(content.text) if short is None else shown.ends(content.text, short)
            yield Passage(label_of(kind) + whose, text)


def _is_shown(kind: str, level: DetailLevel) -> bool:
    return level.thinking if kind == "thinking" else level.detail != "conversation" or kind in _TALK
