"""Sessions: lists by a filter, one by its name, and which of them changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agenttrace.ids import key_number
from agenttrace.model import Session
from agenttrace.store.questions import (
    OUTCOME_FIELDS,
    SessionFilter,
    SessionGroup,
    SessionGroupKind,
    SessionName,
    SessionPlace,
    folded,
)
from agenttrace.store.session_state import LIMITS, StateLimits, StateTimes, state_now
from agenttrace.store.sqlite.database import marks, portions
from agenttrace.store.sqlite.outcomes import OUTCOME_COLUMNS

#: Sessions that have events; those without any were pruned, or became part of another one.
RECORDED = "s.events > 0"

_COLUMNS = tuple(field.name for field in msgspec.structs.fields(Session))
_SELECT = f"SELECT {', '.join(f's.{name}' for name in _COLUMNS)} FROM sessions s"
#: When a session last said something; when that was recorded, where its lines have no times.
_HEARD = "coalesce(s.last_at, (SELECT max(processed_at) * 1000000 FROM processed_events WHERE session_id = s.id), 0)"
_STATE = f"state_now(s.state, {_HEARD}, ?, ?)"
_TITLE = "coalesce(nullif(s.title, ''), s.first_prompt, '')"
_CAME = "EXISTS (SELECT 1 FROM outcomes o WHERE o.session_id = s.id AND o.{} > 0)"
#: Without statistics SQLite would look through all scores of a name for each session.
_ANNOTATED = (
    "SELECT {what} FROM annotations a INDEXED BY idx_annotations_session "
    "WHERE a.session_id = s.id AND a.removed_at IS NULL AND a.kind = '{kind}'"
)
_SCORE = (
    f"{_ANNOTATED.format(what='a.value', kind='score')} AND a.name = ? ORDER BY a.changed_at DESC, a.annotation_id DESC"
)
_USED = "u.input_tokens + u.output_tokens + u.cache_read_tokens + u.cache_write_tokens + u.web_searches > 0"


class _Conditions:
    """A filter as SQL: tests and their values."""

    def __init__(self) -> None:
        self.tests: list[str] = [RECORDED]
        self.values: list[str | float] = []

    def add(self, test: str, *values: str | float) -> None:
        self.tests.append(test)
        self.values += values

    def add_any(self, value: str, wanted: Iterable[str], *before: int) -> None:
        named = sorted(wanted)
        if named:
            self.add(f"{value} IN {marks(named)}", *before, *named)

    def add_contained(self, texts: str, part: str) -> None:
        self.add(f"instr(folded({texts}), ?) > 0", folded(part))


def _conditions(wanted: SessionFilter, times: StateTimes) -> _Conditions:
    """The translation of :meth:`SessionFilter.matches`."""
    found = _Conditions()
    found.add_any("s.agent", wanted.agents)
    found.add_any("coalesce(s.project, '')", wanted.projects)
    found.add_any("coalesce(s.machine, '')", wanted.machines)
    found.add_any("coalesce(s.person, '')", wanted.persons)
    if wanted.project_contains is not None:
        found.add("s.project IS NOT NULL")
        found.add_contained("s.project", wanted.project_contains)
    if wanted.since is not None:
        found.add("s.last_at >= ?", wanted.since)
    if wanted.until is not None:
        found.add("s.started_at < ?", wanted.until)
    if wanted.errors is not None:
        found.add("s.errors > 0" if wanted.errors else "s.errors = 0")
    if wanted.commits is not None:
        found.add(f"{'' if wanted.commits else 'NOT '}{_CAME.format('commits')}")
    for kind in sorted(wanted.outcomes):
        found.add(_CAME.format(OUTCOME_FIELDS[kind]))
    if wanted.text:
        found.add_contained(f"{_TITLE}, s.session_id, s.project", wanted.text)
    for word in wanted.words:
        found.add_contained("s.title, s.first_prompt, s.session_id, s.project, s.branch, s.model", word)
    found.add_any(_STATE, wanted.states, *times)
    _add_marks(found, wanted)
    _add_models(found, sorted(wanted.models))
    return found


def _add_marks(found: _Conditions, wanted: SessionFilter) -> None:
    for label in sorted(wanted.labels):
        found.add(f"EXISTS ({_ANNOTATED.format(what='1', kind='label')} AND a.name = ?)", label)
    for kind, wish in (("star", wanted.starred), ("note", wanted.noted)):
        if wish is not None:
            found.add(f"{'' if wish else 'NOT '}EXISTS ({_ANNOTATED.format(what='1', kind=kind)})")
    for test in wanted.scores:
        found.add(f"({_SCORE} LIMIT 1) {test.comparison} ?", test.name, test.value)


def _add_models(found: _Conditions, models: Sequence[str]) -> None:
    if models:
        one = f"IN {marks(models)}"
        used = f"SELECT 1 FROM usage_rollup u WHERE u.session_id = s.id AND u.model {one} AND {_USED}"
        found.add(f"(s.model {one} OR EXISTS ({used}))", *models, *models)


def list_sessions(
    connection: sqlite3.Connection,
    wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
    *,
    limits: StateLimits = LIMITS,
    limit: int | None = None,
    after: SessionPlace | None = None,
) -> list[Session]:
    """The sessions that match, newest first, with their state as of now; those after a place, where one is given."""
    times = limits.now()
    found = _conditions(wanted, times)
    if after is not None:
        found.add(f"(coalesce(s.last_at, {-(2**63)}), s.id) < (?, ?)", *after)
    rows = connection.execute(
        f"{_SELECT} WHERE {' AND '.join(found.tests)} ORDER BY s.last_at DESC, s.id DESC LIMIT ?",
        (*found.values, -1 if limit is None else limit),
    ).fetchall()
    return _made(connection, rows, times)


def sessions_by_number(
    connection: sqlite3.Connection, numbers: Sequence[int], *, limits: StateLimits = LIMITS
) -> list[Session]:
    """These sessions, where they have events, with their state as of now."""
    rows = [
        row
        for part in portions(numbers)
        for row in connection.execute(f"{_SELECT} WHERE {RECORDED} AND s.id IN {marks(part)}", part)
    ]
    return _made(connection, rows, limits.now())


def _made(connection: sqlite3.Connection, rows: Iterable[Sequence[Any]], times: StateTimes) -> list[Session]:
    return [_session(connection, row, times) for row in rows]


def _session(connection: sqlite3.Connection, row: Sequence[Any], times: StateTimes) -> Session:
    session = Session(**dict(zip(_COLUMNS, row, strict=True)))
    session.copied = bool(session.copied)
    if session.state != "ended":
        session.state = state_now(session.state, heard_of(connection, session), *times)
    if session.copied and session.parent is None:
        session.parent = _owner(connection, session)
    return session


def heard_of(connection: sqlite3.Connection, session: Session) -> float:
    """When a session last said something; when that was recorded, where its lines have no times."""
    if session.last_at is not None:
        return session.last_at
    return float(connection.execute(f"SELECT {_HEARD} FROM sessions s WHERE s.id = ?", (session.id,)).fetchone()[0])


_FIRST_OWNER = """
SELECT owners.session_id
FROM spans JOIN responses USING (response) JOIN sessions owners ON owners.id = responses.session_id
WHERE spans.session_id = ? AND responses.session_id <> spans.session_id LIMIT 1
"""


def _owner(connection: sqlite3.Connection, session: Session) -> str | None:
    """Most forks do not say what they are a copy of; it is the session that owns what they share."""
    row = connection.execute(_FIRST_OWNER, (session.id,)).fetchone()
    return None if row is None else row[0]


# -- one by its name ----------------------------------------------------------------------------------------------

_JOINED = """
SELECT whole.id FROM sessions part JOIN sessions whole ON whole.agent = part.agent AND whole.session_id = part.parent
WHERE part.id = ? AND part.events = 0 AND part.started_at IS NULL
"""
_BEGINNING = f"{_SELECT} WHERE s.session_id LIKE ? ESCAPE '\\' ORDER BY s.last_at DESC LIMIT 20"


def find_sessions(connection: sqlite3.Connection, name: str, *, limits: StateLimits = LIMITS) -> list[Session]:
    """The session of this key, those of this id, or else those whose id begins so, newest first; pruned ones too.

    A trace that is part of a session is found by its name, and the session is what comes back.
    """
    number = key_number(name)
    if number is not None:
        found = sessions_by_number(connection, [whole_session(connection, number)], limits=limits)
        if found:
            return found
    named = _made(connection, _called(connection, name), limits.now())
    whole = (each if each.events else _joined(connection, each, limits) for each in named)
    return list({session.id: session for session in whole}.values())


def _called(connection: sqlite3.Connection, name: str) -> list[tuple[Any, ...]]:
    rows = connection.execute(f"{_SELECT} WHERE s.session_id = ?", (name,)).fetchall()
    beginnings = [_like(name), *([] if "session_" in name else [f"session\\_{_like(name)}"])]
    for beginning in beginnings:
        rows = rows or connection.execute(_BEGINNING, (f"{beginning}%",)).fetchall()
    return rows


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def whole_session(connection: sqlite3.Connection, number: int) -> int:
    """The session itself, or the one that it became part of."""
    row = connection.execute(_JOINED, (number,)).fetchone()
    return number if row is None else int(row[0])


def _joined(connection: sqlite3.Connection, session: Session, limits: StateLimits) -> Session:
    found = sessions_by_number(connection, [whole_session(connection, session.id)], limits=limits)
    return found[0] if found else session


def session_ids(connection: sqlite3.Connection) -> list[str]:
    """The ids of all sessions that have events."""
    return [row[0] for row in connection.execute(f"SELECT s.session_id FROM sessions s WHERE {RECORDED}")]


def session_names(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, SessionName]:
    """What these sessions are called, by number; pruned ones too."""
    return {
        row[0]: SessionName(row[1], row[2])
        for part in portions(numbers)
        for row in connection.execute(
            f"SELECT s.id, s.session_id, {_TITLE} FROM sessions s WHERE s.id IN {marks(part)}", part
        )
    }


def session_agents(connection: sqlite3.Connection) -> list[str]:
    """The names of all agents that have sessions."""
    return [row[0] for row in connection.execute("SELECT DISTINCT agent FROM sessions ORDER BY 1")]


_GROUPS = """
SELECT {by}, count(*), min(started_at), max(last_at) FROM sessions
WHERE events > 0 AND {by} IS NOT NULL GROUP BY {by} ORDER BY max(last_at) DESC LIMIT ?
"""


def session_groups(connection: sqlite3.Connection, by: SessionGroupKind, limit: int | None) -> list[SessionGroup]:
    """The agents or directories that have sessions, the last active one first."""
    rows = connection.execute(_GROUPS.format(by=by), (-1 if limit is None else limit,))
    return [SessionGroup(*row) for row in rows]


# -- which of them are active, and which changed ------------------------------------------------------------------


def active_counts(connection: sqlite3.Connection, limits: StateLimits) -> tuple[int, int]:
    """How many sessions work now, and how many wait for the user."""
    times = limits.now()
    row = connection.execute(
        f"SELECT coalesce(sum({_STATE} = 'working'), 0), coalesce(sum({_STATE} = 'waiting'), 0) "
        f"FROM sessions s WHERE {RECORDED} AND (s.last_at >= ? OR s.last_at IS NULL)",
        (*times, *times, min(times)),
    ).fetchone()
    return int(row[0]), int(row[1])


def sessions_changed_since(connection: sqlite3.Connection, event: int) -> list[int]:
    """The numbers of the sessions with events after this one."""
    query = "SELECT DISTINCT session_id FROM processed_events WHERE event_no > ?"
    return [row[0] for row in connection.execute(query, (event,))]


def session_fingerprints(connection: sqlite3.Connection, numbers: Sequence[int] | None = None) -> dict[int, int]:
    """A number for each of these sessions, or of all, that differs when something of it changed."""
    found: dict[int, int] = {}
    for row in _stored(connection, f"{_SELECT} WHERE {RECORDED}", "s.id", numbers):
        found[row[0]] = hash(row)
    for row in _stored(connection, "SELECT session_id, * FROM usage_rollup WHERE TRUE", "session_id", numbers):
        if row[0] in found:
            found[row[0]] ^= hash(row)
    for row in _stored(connection, f"SELECT {OUTCOME_COLUMNS} FROM outcomes WHERE TRUE", "session_id", numbers):
        if row[0] in found:
            found[row[0]] ^= hash(row)
    annotated = "SELECT session_id, annotation_id, revision FROM annotations WHERE TRUE"
    for row in _stored(connection, annotated, "session_id", numbers):
        if row[0] in found:
            found[row[0]] ^= hash(row)
    return found


def _stored(
    connection: sqlite3.Connection, query: str, key: str, numbers: Sequence[int] | None
) -> Iterator[tuple[Any, ...]]:
    if numbers is None:
        yield from connection.execute(query)
        return
    for part in portions(numbers):
        yield from connection.execute(f"{query} AND {key} IN {marks(part)}", part)
