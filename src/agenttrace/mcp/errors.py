"""``errors``: failed calls and turns, the latest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from agenttrace.mcp.naming import name_of, narrowed, session_named, short_time
from agenttrace.mcp.passages import KINDS, WORK
from agenttrace.mcp.tool import DATA_NOTE, NarrowedArguments, OneSession, Tool, ToolAnswer, most
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import ErrorQuery, FailedSpan
from agenttrace.views.cursors import Int64, Natural, from_cursor, page_of
from agenttrace.views.spans import joined

MOST = 50
_ASKED_CHARS, _ERROR_CHARS = 300, 500

_attributes = msgspec.json.Decoder(dict[str, Any])


class ErrorArguments(NarrowedArguments, frozen=True, kw_only=True):
    """Which failures."""

    session: OneSession = None
    limit: Annotated[int, most(MOST, "How many at most.")] = 20


class FailedCall(ToolAnswer):
    """A span that failed."""

    session: str
    agent: str
    #: What read_span is asked for.
    span: str
    #: tool call, model call, turn or other work.
    kind: str
    #: The tool, or the model.
    name: str
    turn: int = 0
    at: str | None = None
    #: What the log says about the failure.
    error: str | None = None
    #: What it was asked to do.
    asked: str | None = None
    project: str | None = None


class FailedCalls(ToolAnswer):
    """Failures, the latest first."""

    note: str
    errors: list[FailedCall]
    next_cursor: str | None = None


def failed(context: ToolContext, asked: ErrorArguments) -> FailedCalls:
    """One page of failures."""
    limit = min(asked.limit, MOST)
    query = ErrorQuery(
        session=None if asked.session is None else session_named(context, asked.session).id,
        before=None if asked.cursor is None else from_cursor(asked.cursor, tuple[Int64, Natural]),
        limit=limit + 1,
        **narrowed(context, asked),
    )
    found = context.store.errors(query)
    page, following = page_of(found, limit, lambda failure: failure.place)
    return FailedCalls(note=DATA_NOTE, errors=_calls(context, page), next_cursor=following)


def _calls(context: ToolContext, page: Sequence[FailedSpan]) -> list[FailedCall]:
    numbers = list({failure.session for failure in page})
    sessions = {session.id: session for session in context.store.sessions_by_number(numbers)}
    contents: dict[tuple[int, bytes], list[Content]] = {}
    for number, session in sessions.items():
        wanted = [failure.span_id for failure in page if failure.session == number]
        said = context.texts.contents(context.store, session, wanted)
        contents |= {(number, span_id): texts for span_id, texts in said.items()}
    return [
        _failure(context, sessions[each.session], each, contents.get((each.session, each.span_id), []))
        for each in page
        if each.session in sessions
    ]


def _failure(context: ToolContext, session: Session, failed: FailedSpan, contents: list[Content]) -> FailedCall:
    line = context.line
    attributes = _attributes.decode(failed.attributes) if failed.attributes else {}
    said = joined(contents, "error") or (joined(contents, "result") if failed.kind in WORK else None)
    short = str(attributes.get("error") or "")
    return FailedCall(
        session=name_of(context, session),
        agent=line(session.agent) or "",
        span=failed.span_id.hex(),
        kind=KINDS.get(failed.kind, failed.kind),
        name=line(failed.name.removeprefix("execute_tool ")) or "",
        turn=failed.turn_index + 1,
        at=short_time(failed.start),
        error=line(said if said and short in said else f"{short} {said or ''}", _ERROR_CHARS),
        asked=line(joined(contents, "arguments", "prompt"), _ASKED_CHARS),
        project=line(session.project),
    )


TOOL = Tool(
    name="errors",
    title="What failed lately",
    description=(
        "List what failed in recorded sessions, the latest first: tool calls that returned an error, model calls that "
        "were refused or broke off, turns that ended with an error. Each with what was asked, what the log says about "
        "the failure, its session and its span; read_span gives the whole text. Use it to see what went wrong before, "
        "or whether an error was met and solved already."
    ),
    arguments=ErrorArguments,
    answer=FailedCalls,
    ask=failed,
)
