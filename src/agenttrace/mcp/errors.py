"""``errors``: what failed lately, and where."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec

from agenttrace.mcp.cursors import Int64, Natural, from_cursor, to_cursor
from agenttrace.mcp.naming import agent_named, like, moment_of, name_of, session_named, short_time
from agenttrace.mcp.past import Look
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
from agenttrace.record.agents.contract import Content
from agenttrace.store.sqlite.reading import sessions_by_number
from agenttrace.views.spans import joined

MOST = 50
_NAME_CHARS = 200
_ASKED_CHARS, _ERROR_CHARS = 300, 500

_SESSIONS = """
SELECT id, last_at FROM sessions s WHERE s.agent <> '' AND s.errors > 0{where} ORDER BY s.last_at DESC
"""
_TESTS = {
    "session": " AND s.id = :session",
    "agent": " AND s.agent = :agent",
    "project": " AND s.project LIKE :project ESCAPE '\\'",
    "since": " AND s.last_at >= :since",
}
_FAILED = """
SELECT start, span_no, session_id, span_id, kind, name, turn_index, attributes FROM spans
WHERE session_id = :number AND status = 'error' AND (start, span_no) < (:start, :span)
    AND start >= :since AND start < :until
ORDER BY start DESC, span_no DESC LIMIT :limit
"""
_FIRST, _LAST = -(2**63), 2**63 - 1

_attributes = msgspec.json.Decoder(dict[str, Any])


class Asked(Arguments, frozen=True, kw_only=True):
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


class Failed(NamedTuple):
    """A failed span as it is stored."""

    start: int
    span_no: int
    session: int
    span_id: bytes
    kind: str
    name: str
    turn_index: int
    attributes: str | None


def failed(look: Look, asked: Asked) -> FailureList:
    """One page of failures."""
    limit = min(asked.limit, MOST)
    found = _latest(look, asked, limit + 1)
    page = found[:limit]
    following = to_cursor(page[-1].start, page[-1].span_no) if len(found) > limit else None
    return FailureList(note=DATA_NOTE, errors=_told(look, page), next_cursor=following)


def _latest(look: Look, asked: Asked, limit: int) -> list[Failed]:
    """The latest failures of all sessions, without looking into more sessions than it takes.

    Nothing in a session is later than the session's last sign of life: once there are enough failures after that of
    the next session, the remaining sessions cannot matter.
    """
    start, span = (_LAST, _LAST) if asked.cursor is None else from_cursor(asked.cursor, tuple[Int64, Natural])
    since, until = moment_of(look, asked.since), moment_of(look, asked.until)
    values = {
        "start": start,
        "span": span,
        "since": _FIRST if since is None else since,
        "until": _LAST if until is None else until,
        "limit": limit,
    }
    found: list[Failed] = []
    for number, last_at in _sessions(look, asked, since):
        if len(found) == limit and last_at is not None and found[0].start > last_at:
            break
        rows = look.connection.execute(_FAILED, {**values, "number": number})
        for row in map(Failed._make, rows):
            if len(found) < limit:
                heapq.heappush(found, row)
            elif heapq.heappushpop(found, row) == row:
                break
    return sorted(found, reverse=True)


def _sessions(look: Look, asked: Asked, since: int | None) -> Iterator[tuple[int, int | None]]:
    """Sessions with failures, those with the latest sign of life first."""
    values = {
        "session": None if asked.session is None else session_named(look, asked.session).id,
        "agent": agent_named(look, asked.agent),
        "project": None if asked.project is None else like(asked.project),
        "since": since,
    }
    where = "".join(_TESTS[name] for name, value in values.items() if value is not None)
    yield from look.connection.execute(_SESSIONS.format(where=where), values)


def _told(look: Look, page: list[Failed]) -> list[Failure]:
    numbers = list({failure.session for failure in page})
    sessions = {session.id: session for session in sessions_by_number(look.connection, numbers)}
    contents: dict[tuple[int, bytes], list[Content]] = {}
    for number, session in sessions.items():
        wanted = [failure.span_id for failure in page if failure.session == number]
        said = look.texts.contents(look.connection, session, wanted)
        contents |= {(number, span_id): texts for span_id, texts in said.items()}
    return [
        _failure(look, sessions[each.session], each, contents.get((each.session, each.span_id), []))
        for each in page
        if each.session in sessions
    ]


def _failure(look: Look, session: Session, failed: Failed, contents: list[Content]) -> Failure:
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
    arguments=Asked,
    answer=FailureList,
    ask=failed,
)
