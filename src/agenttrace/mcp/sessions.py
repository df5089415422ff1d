"""``list_sessions``: what was worked on, newest first."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec

from agenttrace.costing import Bill
from agenttrace.mcp.cursors import Int64, from_cursor, to_cursor
from agenttrace.mcp.naming import agent_named, like, moment_of, name_of, short_time
from agenttrace.mcp.past import Look
from agenttrace.mcp.tool import DATA_NOTE, Agent, Answer, Arguments, Cursor, Project, Since, Tool, Until, most
from agenttrace.model import Session
from agenttrace.price_tables import MILLION
from agenttrace.store.sqlite.reading import sessions_by_number, usage_by_session
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS

MOST = 100
TITLE_CHARS = 200
_NAME_CHARS = 300
#: Sessions that do not say when they were active stand last.
_LAST = "coalesce(last_at, -9223372036854775808)"
#: Nobody logs their own death: a session that says nothing for long was interrupted.
_HEARD = "coalesce(last_at, (SELECT max(processed_at) * 1e6 FROM processed_events WHERE session_id = sessions.id), 0)"
_STATE = f"CASE WHEN state = 'working' AND {_HEARD} < :horizon THEN 'interrupted' ELSE state END"
_FOUND = "instr(folded(title, first_prompt, session_id, project, branch, model), :word{}) > 0"
#: More words than these find nothing that these do not.
_MOST_WORDS = 20


class Asked(Arguments, frozen=True, kw_only=True):
    """Which sessions."""

    query: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=1_000,
                description="Words that all occur in title, first prompt, id, directory, branch or model.",
            ),
        ]
        | None
    ) = None
    agent: Agent = None
    project: Project = None
    since: Since = None
    until: Until = None
    state: (
        Annotated[
            Literal["working", "waiting", "ended", "interrupted"],
            msgspec.Meta(description="Only those in this state; waiting: it is the user's turn."),
        ]
        | None
    ) = None
    limit: Annotated[int, most(MOST, "How many at most.")] = 20
    cursor: Cursor = None


class SessionLine(Answer):
    """A session in a list."""

    session: str
    agent: str
    state: str
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    started: str | None = None
    last: str | None = None
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    errors: int = 0
    #: Everything that went in, cached or not.
    input_tokens: int = 0
    output_tokens: int = 0
    #: By currency; amounts of different currencies are never added.
    cost: dict[str, float] = msgspec.field(default_factory=dict)
    #: Tokens of models without a known price: the cost is that much too low.
    unpriced_tokens: int = 0
    forked_from: str | None = None


class SessionList(Answer):
    """Sessions, newest first."""

    note: str
    sessions: list[SessionLine]
    #: Of the next page, where there is one.
    next_cursor: str | None = None


def listed(look: Look, asked: Asked) -> SessionList:
    """One page."""
    limit = min(asked.limit, MOST)
    rows = _numbers(look, asked, limit + 1)
    page = [number for number, _ in rows[:limit]]
    following = to_cursor(rows[limit - 1][1], rows[limit - 1][0]) if len(rows) > limit else None
    return SessionList(note=DATA_NOTE, sessions=session_lines(look, page), next_cursor=following)


def session_lines(look: Look, numbers: list[int]) -> list[SessionLine]:
    """Sessions by number, in this order."""
    stale = look.settings.record.stale_minutes
    found = {each.id: each for each in sessions_by_number(look.connection, numbers, stale_minutes=stale)}
    usage = usage_by_session(look.connection, numbers)
    return [
        _line(look, found[number], look.prices.bill(usage.get(number, ()))) for number in numbers if number in found
    ]


def _numbers(look: Look, asked: Asked, limit: int) -> list[tuple[int, int]]:
    """The numbers of the sessions that fit, newest first, each with the time it is sorted by."""
    where, values = _filter(look, asked)
    if asked.cursor is not None:
        values["last"], values["id"] = from_cursor(asked.cursor, tuple[Int64, Int64])
        where.append(f"({_LAST}, id) < (:last, :id)")
    rows = look.connection.execute(
        f"SELECT id, {_LAST} FROM sessions WHERE {' AND '.join(where)} ORDER BY last_at DESC, id DESC LIMIT :limit",
        {**values, "limit": limit},
    )
    return rows.fetchall()


def _filter(look: Look, asked: Asked) -> tuple[list[str], dict[str, str | int | None]]:
    where = ["agent <> '' AND events > 0"]
    values: dict[str, str | int | None] = {
        "horizon": round((time.time() - look.settings.record.stale_minutes * 60) * MICROS),
        "agent": agent_named(look, asked.agent),
        "project": None if asked.project is None else like(asked.project),
        "since": moment_of(look, asked.since),
        "until": moment_of(look, asked.until),
        "state": asked.state,
    }
    tests = {
        "agent": "agent = :agent",
        "project": "project LIKE :project ESCAPE '\\'",
        "since": "last_at >= :since",
        "until": "started_at < :until",
        "state": f"{_STATE} = :state",
    }
    where += [test for name, test in tests.items() if values[name] is not None]
    look.connection.create_function("folded", -1, _folded, deterministic=True)
    words = (asked.query or "").casefold().split()[:_MOST_WORDS]
    where += [_FOUND.format(number) for number in range(len(words))]
    values |= {f"word{number}": word for number, word in enumerate(words)}
    return where, values


def _folded(*texts: str | None) -> str:
    return "\n".join(text for text in texts if text).casefold()


def _line(look: Look, session: Session, bill: Bill) -> SessionLine:
    def line(text: str | None, chars: int = _NAME_CHARS) -> str | None:
        return look.shown.line(text, chars) or None

    tokens = bill.tokens
    return SessionLine(
        session=name_of(look, session),
        agent=line(session.agent) or "",
        state=session.state,
        title=line(title_of(session), TITLE_CHARS),
        project=line(session.project),
        branch=line(session.branch),
        model=line(", ".join(sorted(bill.models)) or session.model),
        started=short_time(session.started_at),
        last=short_time(session.last_at),
        turns=session.turns,
        model_calls=session.steps,
        tool_calls=session.tools,
        errors=session.errors,
        input_tokens=tokens["input_tokens"] + tokens["cache_read_tokens"] + tokens["cache_write_tokens"],
        output_tokens=tokens["output_tokens"],
        cost={currency: micros / MILLION for currency, micros in bill.costs.items()},
        unpriced_tokens=bill.unpriced_tokens,
        forked_from=line(session.parent),
    )


TOOL = Tool(
    name="list_sessions",
    title="List past sessions",
    description=(
        "List the recorded sessions of coding agents on this machine (Claude Code, Codex, Kimi and others), newest "
        "first: title, directory, state, times, counts of turns, tool calls and errors, tokens and cost. Use it to "
        "find the session you mean by project, time or title; use search for what was said inside sessions, and "
        "read_session to read one."
    ),
    arguments=Asked,
    answer=SessionList,
    ask=listed,
)
