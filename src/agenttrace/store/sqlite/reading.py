"""Reading the store: sessions and usage. Lists come from roll-ups and never load bodies."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.questions import SpanView as SpanView
from agenttrace.store.sqlite.events import raw_lines as raw_lines
from agenttrace.store.sqlite.span_rows import USAGE_FIELDS
from agenttrace.store.sqlite.span_rows import session_spans as session_spans

_SESSION_COLUMNS = tuple(field.name for field in msgspec.structs.fields(Session))
_SESSION_LIST = ", ".join(f"s.{name}" for name in _SESSION_COLUMNS)


class UsageRow(NamedTuple):
    """Tokens of one model in one group."""

    group: str
    model: str
    requests: int
    estimated: int
    copies: int
    usage: Usage
    #: The part of the group, where groups were split.
    part: str = ""
    #: What the price depends on beside the model.
    day: str = ""
    variant: str = ""


def list_sessions(
    connection: sqlite3.Connection,
    *,
    agent: str | None = None,
    project: str | None = None,
    since: int | None = None,
    state: str | None = None,
    stale_minutes: int = 15,
    limit: int | None = None,
) -> list[Session]:
    """Sessions, newest first, with their state as of now."""
    where: list[str] = ["s.agent <> '' AND s.events > 0"]
    values: list[str | int] = []
    if agent is not None:
        where.append("s.agent = ?")
        values.append(agent)
    if project is not None:
        where.append("s.project LIKE ? ESCAPE '\\'")
        values.append(f"%{_like(project)}%")
    if since is not None:
        where.append("s.last_at >= ?")
        values.append(since)
    rows = connection.execute(
        f"SELECT {_SESSION_LIST} FROM sessions s WHERE {' AND '.join(where)} ORDER BY s.last_at DESC", values
    )
    sessions = (_session(connection, row, stale_minutes) for row in rows)
    found: list[Session] = []
    for session in sessions:
        if state is None or session.state == state:
            found.append(session)
        if limit is not None and len(found) >= limit:
            break
    _name_parents(connection, found)
    return found


def agent_names(connection: sqlite3.Connection) -> list[str]:
    """The names of all agents that have sessions."""
    query = "SELECT DISTINCT agent FROM sessions WHERE agent <> '' ORDER BY agent"
    return [row[0] for row in connection.execute(query)]


def sessions_by_number(
    connection: sqlite3.Connection, numbers: Sequence[int], *, stale_minutes: int = 15
) -> list[Session]:
    """These sessions, where they have events, with their state as of now."""
    found: list[Session] = []
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        rows = connection.execute(
            f"SELECT {_SESSION_LIST} FROM sessions s "
            f"WHERE s.agent <> '' AND s.events > 0 AND s.id IN ({','.join('?' * len(part))})",
            part,
        )
        found += [_session(connection, row, stale_minutes) for row in rows]
    _name_parents(connection, found)
    return found


_FIRST_OWNER = """
SELECT owners.session_id
FROM spans JOIN responses USING (response) JOIN sessions owners ON owners.id = responses.session_id
WHERE spans.session_id = ? AND responses.session_id <> spans.session_id LIMIT 1
"""


def _name_parents(connection: sqlite3.Connection, sessions: Sequence[Session]) -> None:
    """Most forks do not say what they are a copy of; the session that owns what they share is it."""
    for session in sessions:
        if session.copied and session.parent is None:
            row = connection.execute(_FIRST_OWNER, (session.id,)).fetchone()
            session.parent = None if row is None else row[0]


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _session(connection: sqlite3.Connection, row: Sequence[Any], stale_minutes: int) -> Session:
    session = Session(**dict(zip(_SESSION_COLUMNS, row, strict=True)))
    session.copied = bool(session.copied)
    # Nobody logs their own death: a session that says nothing for long was interrupted.
    horizon = (time.time() - stale_minutes * 60) * 1_000_000
    if session.state == "working" and heard_of(connection, session) < horizon:
        session.state = "interrupted"
    return session


def heard_of(connection: sqlite3.Connection, session: Session) -> float:
    """When a session last said something; when that was recorded, where its lines have no times."""
    if session.last_at is not None:
        return session.last_at
    query = "SELECT max(processed_at) FROM processed_events WHERE session_id = ?"
    return (connection.execute(query, (session.id,)).fetchone()[0] or 0) * 1_000_000


_JOINED = """
SELECT whole.id FROM sessions part JOIN sessions whole ON whole.agent = part.agent AND whole.session_id = part.parent
WHERE part.id = ? AND part.events = 0 AND part.started_at IS NULL
"""


def find_sessions(connection: sqlite3.Connection, name: str, *, stale_minutes: int = 15) -> list[Session]:
    """Sessions whose id is ``name`` or begins with it, newest first; pruned ones (without events) too.

    A trace that is part of a session is found by its id, and the session is what comes back.
    """
    query = f"SELECT {_SESSION_LIST} FROM sessions s WHERE s.agent <> '' AND s.session_id"
    rows = connection.execute(f"{query} = ?", (name,)).fetchall()
    if not rows:
        rows = connection.execute(
            f"{query} LIKE ? ESCAPE '\\' ORDER BY s.last_at DESC LIMIT 20", (_like(name) + "%",)
        ).fetchall()
    if not rows and "session_" not in name:
        rows = connection.execute(
            f"{query} LIKE ? ESCAPE '\\' ORDER BY s.last_at DESC LIMIT 20", (f"session\\_{_like(name)}%",)
        ).fetchall()
    found = [_whole(connection, _session(connection, row, stale_minutes), stale_minutes) for row in rows]
    _name_parents(connection, found)
    return list({session.id: session for session in found}.values())


def joined_to(connection: sqlite3.Connection, number: int) -> int | None:
    """The session that a trace became part of, where its row is only the note of that."""
    row = connection.execute(_JOINED, (number,)).fetchone()
    return None if row is None else int(row[0])


def _whole(connection: sqlite3.Connection, session: Session, stale_minutes: int) -> Session:
    """The session itself, or the one that it became part of."""
    number = joined_to(connection, session.id) if session.events == 0 else None
    found = [] if number is None else sessions_by_number(connection, [number], stale_minutes=stale_minutes)
    return found[0] if found else session


# -- usage --------------------------------------------------------------------------------------------------------

_GROUPS = {
    "day": "u.day",
    "month": "substr(u.day, 1, 7)",
    "model": "u.model",
    "agent": "s.agent",
    "project": "coalesce(s.project, '')",
    "session": "s.session_id",
    "number": "CAST(u.session_id AS TEXT)",
    "total": "''",
}
_SUMS = ", ".join(f"sum(u.{name})" for name in ("requests", "estimated", "copies", *USAGE_FIELDS))


def usage_rows(
    connection: sqlite3.Connection,
    *,
    by: str = "total",
    split: str = "total",
    since_day: str | None = None,
    before_day: str | None = None,
    agents: Sequence[str] = (),
    projects: Sequence[str] = (),
    models: Sequence[str] = (),
) -> list[UsageRow]:
    """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups.

    Of what is named, one must fit, where any is.
    """
    where, values = _usage_filter(since_day, before_day, {"agent": agents, "project": projects, "model": models})
    join = "JOIN sessions s ON s.id = u.session_id" if "s." in f"{_GROUPS[by]} {_GROUPS[split]} {where}" else ""
    rows = connection.execute(
        f"SELECT {_GROUPS[by]} AS whole, u.model, {_SUMS}, {_GROUPS[split]} AS part, u.day, u.variant "
        f"FROM usage_rollup u {join} WHERE {where} GROUP BY whole, part, u.model, u.day, u.variant "
        "ORDER BY whole, part, u.model, u.day, u.variant",
        values,
    )
    return list(map(_usage_row, rows))


def _usage_filter(
    since_day: str | None, before_day: str | None, named: Mapping[str, Sequence[str]]
) -> tuple[str, list[str]]:
    where, values = ["1"], []
    for test, day in (("u.day >= ?", since_day), ("u.day < ?", before_day)):
        if day is not None:
            where.append(test)
            values.append(day)
    for name, wanted in named.items():
        if wanted:
            where.append(f"{_GROUPS[name]} IN ({','.join('?' * len(wanted))})")
            values += wanted
    return " AND ".join(where), values


def _usage_row(row: Sequence[Any]) -> UsageRow:
    counts, place = row[5 : 5 + len(USAGE_FIELDS)], row[5 + len(USAGE_FIELDS) :]
    return UsageRow._make((*row[:5], _usage(counts), *place))


def _usage(counts: Sequence[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, counts, strict=True)))


def usage_by_session(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
    """Tokens per model of each of these sessions."""
    found: dict[int, list[UsageRow]] = {}
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        rows = connection.execute(
            f"SELECT u.session_id, u.model, {_SUMS}, '', u.day, u.variant FROM usage_rollup u "
            f"WHERE u.session_id IN ({','.join('?' * len(part))}) GROUP BY u.session_id, u.model, u.day, u.variant",
            part,
        )
        for row in rows:
            found.setdefault(row[0], []).append(_usage_row(("", *row[1:])))
    return found
