"""``read_requests``: what each model call of a session was sent, and where the prompt cache broke."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agenttrace.mcp.naming import session_named, short_time
from agenttrace.mcp.tool import Arguments, Cursor, SessionName, Tool, ToolAnswer, most
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.record.formats.context import PARTS
from agenttrace.record.texts.call_changes import KnownFrom, ModelCall
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.views.cursors import Natural, from_cursor, to_cursor
from agenttrace.views.requests import Requests, break_text, change_text

MOST = 200
_LINE_CHARS = 300
_MOST_CHANGES = 20


class RequestArguments(Arguments, frozen=True, kw_only=True):
    """Whose requests."""

    session: SessionName
    only_cache_breaks: Annotated[
        bool, msgspec.Meta(description="Only the calls where the prompt cache broke, with the causes.")
    ] = False
    limit: Annotated[int, most(MOST, "How many calls at most.")] = 50
    cursor: Cursor = None


class SentRequest(ToolAnswer, kw_only=True, omit_defaults=True):
    """A model call and the context that it was sent."""

    #: Its number in the session, from 1 on.
    call: int
    at: str | None = None
    #: The subagent that made it.
    subagent: str | None = None
    #: For read_span; left out: the request was not answered.
    span: str | None = None
    model: str | None = None
    #: "request": exact, from the log's record of the request. "conversation": computed. "usage": only tokens are known.
    known_from: KnownFrom
    #: Characters of the context by part.
    parts: dict[str, int] = msgspec.field(default_factory=dict)
    #: Parts that the log does not have.
    unknown_parts: list[str] = msgspec.field(default_factory=list)
    #: Left out: the log has no tokens of it.
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    #: Where the prompt cache broke: how much was lost, and what is known to have changed.
    cache_break: str | None = None
    #: What is not as it was in the call before.
    changes: list[str] = msgspec.field(default_factory=list)


class RequestPage(ToolAnswer, kw_only=True, omit_defaults=True):
    """Some model calls of a session, and counts of all of them."""

    calls: int
    cache_breaks: int
    #: Tokens that were in the cache and were not read from it, in all cache breaks.
    cache_lost_tokens: int
    compactions: int
    #: Tools that were not offered all the time.
    moved_tools: list[str] = msgspec.field(default_factory=list)
    requests: list[SentRequest] = msgspec.field(default_factory=list)
    next_cursor: str | None = None


def read(context: ToolContext, asked: RequestArguments) -> RequestPage:
    """A page of the requests of a session."""
    session = session_named(context, asked.session)
    (after,) = (0,) if asked.cursor is None else from_cursor(asked.cursor, tuple[Natural])
    found = Requests.of(context.store, session)
    limit = min(asked.limit, MOST)
    wanted = [
        (number, call)
        for number, call in enumerate(found.calls, 1)
        if number > after and (call.cache_lost or not asked.only_cache_breaks)
    ]
    page = wanted[:limit]
    return RequestPage(
        calls=len(found.calls),
        cache_breaks=found.cache_breaks,
        cache_lost_tokens=found.cache_lost,
        moved_tools=[_line(context, text) for text in found.moved_tools()],
        compactions=found.compactions,
        requests=[_request(context, number, call) for number, call in page],
        next_cursor=to_cursor(page[-1][0]) if len(wanted) > limit else None,
    )


def _request(context: ToolContext, number: int, call: ModelCall) -> SentRequest:
    usage = call.usage
    return SentRequest(
        call=number,
        at=short_time(call.at),
        subagent=None if call.stream == MAIN_STREAM else _line(context, call.stream),
        span=None if call.span_id is None else call.span_id.hex(),
        model=None if call.model is None else _line(context, call.model),
        known_from=call.known_from,
        parts={part: call.parts[part] for part in PARTS if call.parts.get(part)},
        unknown_parts=[part for part in PARTS if part not in call.parts],
        input_tokens=None if usage is None else usage.input_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read_tokens,
        cache_write_tokens=None if usage is None else usage.cache_write_tokens,
        cache_break=break_text(call) if call.cache_lost else None,
        changes=[_line(context, change_text(change)) for change in call.changes[:_MOST_CHANGES]],
    )


def _line(context: ToolContext, text: str) -> str:
    return context.shown.line(text, _LINE_CHARS)


TOOL = Tool(
    name="read_requests",
    title="What the model was sent",
    description=(
        "The model calls of a recorded session: how large the context of each was, by part (system prompt, tools, "
        "files, results, prompts, answers, thinking), the tokens read from and written to the prompt cache, where the "
        "cache broke and what changed there, and what a compaction dropped. Sizes are characters; each call says "
        "whether they are exact or computed. It shows no texts: read_span does."
    ),
    arguments=RequestArguments,
    answer=RequestPage,
    ask=read,
)
