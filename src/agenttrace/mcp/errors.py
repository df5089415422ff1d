"""``errors``: what failed lately, and where."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from agenttrace.mcp.cursors import Int64, Natural, from_cursor, to_cursor
from agenttrace.mcp.naming import agent_named, moment_of, name_of, session_named, short_time
from agenttrace.mcp.past import ToolContext
from agenttrace.mcp.telling import KINDS, WORK
from agenttrace.mcp.tool import (
    DATA_NOTE,
    MOST_NAME,
    Agent,
    Answer,
    Arguments,
    Cursor,
    Project,
    Since,
    Tool,
    Until,
    most,
)
from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.store.questions import ErrorQuery, FailedSpan
from agenttrace.views.spans import joined

MOST = 50
_NAME_CHARS = 200
_ASKED_CHARS, _ERROR_CHARS = 300, 500

_attributes = msgspec.json.Decoder(dict[str, Any])


class ErrorArguments(Arguments, frozen=True, kw_only=True):
    """Which failures."""

    session: (
        Annotated[str, msgspec.Meta(max_length=MOST_NAME, description="Only in this session: its id or the beginning.")]
        | None
    ) = None
    agent: Agent = None
    project: Project = None
    since: Since = None
    until: Until = None
    limit: Annotated[int, most(MOST, "How many at most.")] = 20
    cursor: Cursor = None


class Failure(Answer):
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


class FailureList(Answer):
    """Failures, the latest first."""

    note: str
    errors: list[Failure]
    next_cursor: str | None = None


def failed(look: ToolContext, asked: ErrorArguments) -> FailureList:
    """One page of failures."""
    limit, agent = min(asked.limit, MOST), agent_named(look, asked.agent)
    query = ErrorQuery(
        session=None if asked.session is None else session_named(look, asked.session).id,
        agents=frozenset() if agent is None else frozenset({agent}),
        project_contains=asked.project,
        since=moment_of(look, asked.since),
        until=moment_of(look, asked.until),
        before=None if asked.cursor is None else from_cursor(asked.cursor, tuple[Int64, Natural]),
        limit=limit + 1,
    )
    found = look.store.errors(query)
    page = found[:limit]
    following = to_cursor(*page[-1].place) if len(found) > limit else None
    return FailureList(note=DATA_NOTE, errors=_told(look, page), next_cursor=following)


def _told(look: ToolContext, page: list[FailedSpan]) -> list[Failure]:
    numbers = list({failure.session for failure in page})
    sessions = {session.id: session for session in look.store.sessions_by_number(numbers)}
    contents: dict[tuple[int, bytes], list[Content]] = {}
    for number, session in sessions.items():
        wanted = [failure.span_id for failure in page if failure.session == number]
        said = look.texts.contents(look.store, session, wanted)
        contents |= {(number, span_id): texts for span_id, texts in said.items()}
    return [
        _failure(look, sessions[each.session], each, contents.get((each.session, each.span_id), []))
        for each in page
        if each.session in sessions
    ]


def _failure(look: ToolContext, session: Session, failed: FailedSpan, contents: list[Content]) -> Failure:
    def line(text: str | None, chars: int = _NAME_CHARS) -> str | None:
        return look.shown.line(text, chars) or None

    attributes = _attributes.decode(failed.attributes) if failed.attributes else {}
    said = joined(contents, "error") or (joined(contents, "result") if failed.kind in WORK else None)
    short = str(attributes.get("error") or "")
    return Failure(
        session=name_of(look, session),
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
    answer=FailureList,
    ask=failed,
)
