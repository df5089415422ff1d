"""How a span is told: its heading, and as much of what was said in it as a reader asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from agenttrace.mcp.order import TurnSummary
from agenttrace.mcp.pages import Passage
from agenttrace.mcp.shown import Shown
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.views import figures
from agenttrace.views.markdown import DEEPEST_HEADING, label_of
from agenttrace.views.transcript import TranscriptSpan

Detail = Literal["outline", "conversation", "short", "full"]

#: Of each kind of text this much is shown where texts are shown short; the others whole.
_SHORT = {"arguments": 600, "result": 1_000, "note": 300, "error": 2_000}
#: What is a part of the conversation.
_TALK = ("prompt", "text", "error")
_LINE_CHARS = 200
#: Spans that are asked something and answer: tools, and other work of programs that tell all they do.
WORK = ("tool", "span")
#: What spans are called.
KINDS = {"step": "model call", "tool": "tool call", "span": "other work"}

_attributes = msgspec.json.Decoder(dict[str, Any])


class Manner(NamedTuple):
    """How much is told."""

    detail: Detail
    thinking: bool


def turn_line(told: TranscriptSpan, turn: TurnSummary, shown: Shown) -> Passage:
    """A turn on one line."""
    calls = [figures.counted(turn.tools, "tool call")] if turn.tools else []
    failed = [f"{turn.failed} failed"] if turn.failed else []
    prompt = next((content.text for content in told.contents if content.kind == "prompt"), "")
    parts = [_title(told, shown), *told.figures, *calls, *failed, *_reason(told, shown)]
    return Passage("- " + " · ".join(filter(None, [*parts, shown.line(prompt, _LINE_CHARS)])))


def passages(told: TranscriptSpan, manner: Manner, shown: Shown) -> Iterator[Passage]:
    """A span as its turn has come; those under it follow."""
    line = " · ".join(filter(None, [_title(told, shown), *told.figures, *_reason(told, shown), *_name(told)]))
    if told.row.kind in WORK and manner.detail == "conversation":
        asked = next((content.text for content in told.contents if content.kind == "arguments"), "")
        yield Passage("- " + " · ".join(filter(None, [line, shown.line(asked, _LINE_CHARS)])))
        return
    if told.row.kind != "step" or manner.detail == "full" or _is_worth_a_line(told):
        yield Passage(f"{'#' * min(told.depth + 2, DEEPEST_HEADING)} {line}")
    yield from _texts(told, told.before, manner, shown)


def last_passages(told: TranscriptSpan, manner: Manner, shown: Shown) -> Iterator[Passage]:
    """How a turn ended."""
    texts = list(_texts(told, told.after, manner, shown))
    if texts:
        yield Passage(f"{'#' * min(told.depth + 2, DEEPEST_HEADING)} {_title(told, shown)}, end")
        yield from texts


def _is_worth_a_line(told: TranscriptSpan) -> bool:
    """A model call that failed, or whose answer is not that of the turn it stands in: agents may work in a turn."""
    row = told.row
    return row.status in ("error", "cancelled") or (row.stream == MAIN_STREAM and told.depth > 1)


def _title(told: TranscriptSpan, shown: Shown) -> str:
    return shown.line(told.title, _LINE_CHARS)


def _reason(told: TranscriptSpan, shown: Shown) -> list[str]:
    """Why it failed, as far as the log says so in a word."""
    attributes = _attributes.decode(told.row.attributes) if told.row.attributes else {}
    return [shown.line(str(attributes.get("error") or ""), _LINE_CHARS)]


def _name(told: TranscriptSpan) -> list[str]:
    """What ``read_span`` is asked for; turns are told whole."""
    return [] if told.row.kind == "turn" else [f"span {told.row.span_id.hex()}"]


def _texts(told: TranscriptSpan, contents: list[Content], manner: Manner, shown: Shown) -> Iterator[Passage]:
    # Answers stand below whatever happened before them: whose they are must not depend on what that was.
    row = told.row
    named = row.kind in WORK or row.stream == MAIN_STREAM
    whose = "" if named else f" of subagent {shown.line(row.stream, _LINE_CHARS)}"
    for content in contents:
        # Parts of arguments were joined to arguments before.
        kind = "arguments" if content.kind == "arguments_part" else content.kind
        if _is_told(kind, manner) and content.text:
            short = _SHORT.get(kind) if manner.detail != "full" else None
            text = shown.whole(content.text) if short is None else shown.ends(content.text, short)
            yield Passage(label_of(kind) + whose, text)


def _is_told(kind: str, manner: Manner) -> bool:
    return manner.thinking if kind == "thinking" else manner.detail != "conversation" or kind in _TALK
