"""Sessions: lists by a filter, one by its name, and which of them changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agenttrace.ids import key_number
from agenttrace.model import Session
from agenttrace.store.clickhouse.connection import Database, Row
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import ANNOTATIONS, EVENTS, SESSIONS, SPANS, USAGE, settled
from agenttrace.store.clickhouse.session_conditions import Conditions, session_conditions
from agenttrace.store.clickhouse.tables import SESSION_FIELDS
from agenttrace.store.questions import (
    OUTCOME_FIELDS,
    SessionFilter,
    SessionGroup,
    SessionGroupKind,
    SessionName,
    SessionPlace,
)
from agenttrace.store.session_state import LIMITS, StateLimits, StateTimes, state_now

#: Sessions that have events; those without any were pruned, or became part of another one.
RECORDED = "events > 0"

_COLUMNS = ", ".join(SESSION_FIELDS)
_SELECT = f"SELECT {_COLUMNS} FROM {SESSIONS}"
_ORDER = "ORDER BY last_at DESC NULLS LAST, id DESC"
_TITLE = "coalesce(nullIf(title, ''), first_prompt, '')"
_FIRST = -(2**63)
_STATES = "('working', 'waiting', 'ended', 'interrupted')"
_STATE = f"""multiIf(
    state = 'working' AND {{heard}} < :stale, 'interrupted', state = 'waiting' AND {{heard}} < :waiting, 'ended',
    state IN {_STATES}, state, 'ended'
)"""
#: When sessions whose lines have no times last said something.
_HEARD = f"SELECT session, max(recorded_at) * 1000000 FROM {EVENTS} WHERE session IN :sessions GROUP BY session"
_UNDATED = f"SELECT id FROM {SESSIONS} WHERE last_at IS NULL AND state IN ('working', 'waiting')"
_CAME = "id IN (SELECT session FROM outcomes FINAL WHERE {} > 0)"
_NOTED = f"id IN (SELECT session FROM {ANNOTATIONS} WHERE removed_at IS NULL AND kind = '{{}}')"
_LABEL = f"id IN (SELECT session FROM {ANNOTATIONS} WHERE removed_at IS NULL AND kind = 'label' AND name = :{{}})"
_SCORE = f"""id IN (
    SELECT session FROM {ANNOTATIONS} WHERE removed_at IS NULL AND kind = 'score' AND name = :{{name}}
    GROUP BY session HAVING argMax(value, (changed_at, annotation_id)) {{comparison}} :{{value}}
)"""
_USED = "sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens + web_searches) > 0"
_MODELS = f"""(model IN :models OR id IN (
    SELECT session FROM {USAGE} WHERE model IN :models GROUP BY session, model HAVING {_USED}
))"""
#: What most forks are a copy of: the session that owns the first response that they share.
_HELD = f"(SELECT response FROM {SPANS} WHERE session IN :sessions AND response IS NOT NULL)"
_OWNERS = f"""
SELECT copy, session_id FROM (
    SELECT spans.session AS copy, counted.session AS owner FROM (
        SELECT session, span_id, response FROM {SPANS} WHERE session IN :sessions AND response IS NOT NULL
    ) AS spans JOIN (SELECT response, session FROM {settled(_HELD)}) AS counted ON counted.response = spans.response
    WHERE counted.session <> spans.session ORDER BY span_id LIMIT 1 BY spans.session
) AS found JOIN {SESSIONS} AS owners ON owners.id = found.owner
"""


def _conditions(wanted: SessionFilter) -> Conditions:
    """The translation of ``SessionFilter.matches``, but for the state."""
    found = session_conditions(wanted)
    found.add(RECORDED)
    if wanted.since is not None:
        found.add("last_at >= :since", since=wanted.since)
    if wanted.until is not None:
        found.add("started_at < :until", until=wanted.until)
    if wanted.errors is not None:
        found.add("errors > 0" if wanted.errors else "errors = 0")
    if wanted.commits is not None:
        found.add(f"{'' if wanted.commits else 'NOT '}{_CAME.format('commits')}")
    for kind in sorted(wanted.outcomes):
        found.add(_CAME.format(OUTCOME_FIELDS[kind]))
    if wanted.text:
        found.add_contained("text_part", "folded_title", wanted.text)
    for number, word in enumerate(wanted.words):
        found.add_contained(f"word{number}", "folded_words", word)
    if wanted.models:
        found.add(_MODELS, models=sorted(wanted.models))
    _add_marks(found, wanted)
    return found


def _add_marks(found: Conditions, wanted: SessionFilter) -> None:
    for number, label in enumerate(sorted(wanted.labels)):
        found.add(_LABEL.format(f"label{number}"), **{f"label{number}": label})
    for kind, wish in (("star", wanted.starred), ("note", wanted.noted)):
        if wish is not None:
            found.add(f"{'' if wish else 'NOT '}{_NOTED.format(kind)}")
    for number, test in enumerate(wanted.scores):
        name, value = f"score{number}", f"value{number}"
        asked = _SCORE.format(name=name, value=value, comparison=test.comparison)
        given: Values = {name: test.name, value: float(test.value)}
        found.add(asked, **given)


def _add_states(database: Database, found: Conditions, wanted: SessionFilter, times: StateTimes) -> None:
    if wanted.states:
        test = f"{_state(database)} IN :states"
        found.add(test, states=sorted(wanted.states), stale=times.stale, waiting=times.waiting)


def _state(database: Database) -> str:
    """The state of a session as of now; moments of sessions without times are looked up before."""
    heard = "coalesce(last_at, 0)"
    undated = heard_by_session(database, [row[0] for row in database.rows(_UNDATED)])
    if undated:
        numbers, moments = (", ".join(map(repr, each)) for each in (undated.keys(), undated.values()))
        heard = f"coalesce(toFloat64(last_at), transform(id, [{numbers}], [{moments}], 0.))"
    return _STATE.format(heard=heard)


def list_sessions(
    database: Database,
    wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
    *,
    limits: StateLimits = LIMITS,
    limit: int | None = None,
    after: SessionPlace | None = None,
) -> list[Session]:
    """The sessions that match, newest first, with their state as of now; those after a place, where one is given."""
    times = limits.now()
    found = _conditions(wanted)
    _add_states(database, found, wanted, times)
    if after is not None:
        test = "(coalesce(last_at, toInt64(:first)), id) < (toInt64(:after_at), :after_number)"
        found.add(test, first=str(_FIRST), after_at=str(after.last_at), after_number=after.number)
    part = "" if limit is None else f" LIMIT {int(limit)}"
    rows = database.rows(f"{_SELECT} WHERE {found.where} {_ORDER}{part}", **found.values)
    return _made(database, rows, times)


def sessions_by_number(database: Database, numbers: Sequence[int], *, limits: StateLimits = LIMITS) -> list[Session]:
    """These sessions, where they have events, with their state as of now."""
    rows = database.rows(f"{_SELECT} WHERE {RECORDED} AND id IN :numbers", numbers=list(numbers)) if numbers else []
    return _made(database, rows, limits.now())


def _made(database: Database, rows: Iterable[Sequence[Any]], times: StateTimes) -> list[Session]:
    sessions = [Session(**dict(zip(SESSION_FIELDS, row, strict=True))) for row in rows]
    undated = [each.id for each in sessions if each.last_at is None and each.state != "ended"]
    heard = heard_by_session(database, undated)
    orphans = [each.id for each in sessions if each.copied and each.parent is None]
    owners = _owners(database, orphans)
    return [_session(each, heard, owners, times) for each in sessions]


def _session(session: Session, heard: Mapping[int, float], owners: Mapping[int, str], times: StateTimes) -> Session:
    session.copied = bool(session.copied)
    if session.state != "ended":
        moment = heard.get(session.id, 0.0) if session.last_at is None else session.last_at
        session.state = state_now(session.state, moment, *times)
    if session.copied and session.parent is None:
        session.parent = owners.get(session.id)
    return session


def _owners(database: Database, numbers: Sequence[int]) -> dict[int, str]:
    """The sessions that copies are of which do not say so."""
    return dict(database.rows(_OWNERS, sessions=list(numbers))) if numbers else {}


def heard_by_session(database: Database, numbers: Sequence[int]) -> dict[int, float]:
    """When events of these sessions were last recorded, in microseconds."""
    return dict(database.rows(_HEARD, sessions=list(numbers))) if numbers else {}


def heard_of(database: Database, session: Session) -> float:
    """When a session last said something; when that was recorded, where its lines have no times."""
    if session.last_at is not None:
        return session.last_at
    return float(heard_by_session(database, [session.id]).get(session.id, 0.0))


# -- one by its name ----------------------------------------------------------------------------------------------

_JOINED = f"""
SELECT part.id, whole.id FROM (
    SELECT id, agent, parent FROM {SESSIONS} WHERE id IN :numbers AND events = 0 AND started_at IS NULL
) AS part JOIN (SELECT id, agent, session_id FROM {SESSIONS}) AS whole
ON whole.agent = part.agent AND whole.session_id = part.parent
"""
_BEGINNING = f"{_SELECT} WHERE startsWith(lower(session_id), lower(:beginning)) {_ORDER} LIMIT 20"


def find_sessions(database: Database, name: str, *, limits: StateLimits = LIMITS) -> list[Session]:
    """The session of this key, those of this id, or else those whose id begins so, newest first; pruned ones too.

    A trace that is part of a session is found by its name, and the session is what comes back.
    """
    number = key_number(name)
    if number is not None:
        found = sessions_by_number(database, [whole_session(database, number)], limits=limits)
        if found:
            return found
    named = _made(database, _called(database, name), limits.now())
    whole = (each if each.events else _joined(database, each, limits) for each in named)
    return list({session.id: session for session in whole}.values())


def _called(database: Database, name: str) -> list[Row]:
    rows = database.rows(f"{_SELECT} WHERE session_id = :name {_ORDER}", name=name)
    for beginning in (name, *([] if "session_" in name else [f"session_{name}"])):
        rows = rows or database.rows(_BEGINNING, beginning=beginning)
    return rows


def whole_session(database: Database, number: int) -> int:
    """The session itself, or the one that it became part of."""
    found = database.rows(_JOINED, numbers=[number])
    return int(found[0][1]) if found else number


def _joined(database: Database, session: Session, limits: StateLimits) -> Session:
    found = sessions_by_number(database, [whole_session(database, session.id)], limits=limits)
    return found[0] if found else session


def session_ids(database: Database) -> list[str]:
    """The ids of all sessions that have events."""
    return [row[0] for row in database.rows(f"SELECT session_id FROM {SESSIONS} WHERE events > 0")]


def session_names(database: Database, numbers: Sequence[int]) -> dict[int, SessionName]:
    """What these sessions are called, by number; pruned ones too."""
    query = f"SELECT id, session_id, {_TITLE} FROM {SESSIONS} WHERE id IN :numbers"
    found = database.rows(query, numbers=list(numbers)) if numbers else []
    return {number: SessionName(session_id, title) for number, session_id, title in found}


def session_agents(database: Database) -> list[str]:
    """The names of all agents that have sessions."""
    return [row[0] for row in database.rows(f"SELECT DISTINCT agent FROM {SESSIONS} ORDER BY agent")]


_GROUPS = f"""
SELECT {{by}}, count(), min(started_at), max(last_at) AS latest FROM {SESSIONS}
WHERE {RECORDED} AND {{by}} IS NOT NULL GROUP BY {{by}} ORDER BY latest DESC NULLS LAST {{limit}}
"""


def session_groups(database: Database, by: SessionGroupKind, limit: int | None) -> list[SessionGroup]:
    """The agents or directories that have sessions, the last active one first."""
    rows = database.rows(_GROUPS.format(by=by, limit="" if limit is None else f"LIMIT {int(limit)}"))
    return [SessionGroup(*row) for row in rows]


# -- forks --------------------------------------------------------------------------------------------------------

_PARENT = f"SELECT id FROM {SESSIONS} WHERE agent = :agent AND session_id = :session"
_NAMED_FORKS = f"""
SELECT id, started_at, parent FROM {SESSIONS}
WHERE agent = :agent AND {RECORDED} AND id <> :number AND (parent = :session OR copied = 1 AND parent IS NULL)
ORDER BY started_at NULLS FIRST
"""


def parent_number(database: Database, session: Session) -> int | None:
    """The number of the session that this one names as its parent."""
    query = {"agent": session.agent, "session": session.parent}
    return database.value(_PARENT, **query) if session.parent else None


def fork_numbers(database: Database, session: Session, limit: int) -> list[int]:
    """The numbers of the sessions that are copies of this one, the oldest first."""
    place: Values = {"agent": session.agent, "number": session.id, "session": session.session_id}
    found = database.rows(_NAMED_FORKS, **place)
    orphans = [number for number, _, parent in found if parent is None]
    owners = _owners(database, orphans)
    forks = [number for number, _, parent in found if parent is not None or owners.get(number) == session.session_id]
    return forks[:limit]


# -- which of them are active, and which changed ------------------------------------------------------------------


def active_counts(database: Database, limits: StateLimits) -> tuple[int, int]:
    """How many sessions work now, and how many wait for the user."""
    times = limits.now()
    state = _state(database)
    found = database.rows(
        f"SELECT countIf({state} = 'working'), countIf({state} = 'waiting') FROM {SESSIONS} "
        f"WHERE {RECORDED} AND (last_at >= :earliest OR last_at IS NULL)",
        stale=times.stale,
        waiting=times.waiting,
        earliest=min(times),
    )
    return int(found[0][0]), int(found[0][1])


def session_fingerprints(database: Database, numbers: Sequence[int] | None = None) -> dict[int, int]:
    """A number for each of these sessions, or of all, that differs when something of it changed."""
    found: dict[int, int] = {}
    for query, key in _FINGERPRINTED:
        for number, fingerprint in _stored(database, query, key, numbers):
            if query is _FINGERPRINTED[0][0]:
                found[number] = fingerprint
            elif number in found:
                found[number] ^= fingerprint
    return found


#: Sessions first.
_FINGERPRINTED = (
    (f"SELECT id, reinterpretAsInt64(sipHash64(toString(({_COLUMNS})))) FROM {SESSIONS} WHERE {RECORDED}", "id"),
    (
        f"SELECT session, reinterpretAsInt64(groupBitXor(sipHash64(toString(tuple(*))))) FROM {USAGE} "
        "WHERE 1{part} GROUP BY session",
        "session",
    ),
    (
        "SELECT session, reinterpretAsInt64(sipHash64(toString(tuple(* EXCEPT ver)))) FROM outcomes FINAL WHERE 1",
        "session",
    ),
    (
        "SELECT session, reinterpretAsInt64(groupBitXor(sipHash64(annotation_id, revision))) "
        f"FROM {ANNOTATIONS} WHERE 1{{part}} GROUP BY session",
        "session",
    ),
)


def _stored(database: Database, query: str, key: str, numbers: Sequence[int] | None) -> Iterator[Row]:
    part = "" if numbers is None else f" AND {key} IN :numbers"
    asked = query.replace("{part}", part) if "{part}" in query else query + part
    yield from database.rows(asked, numbers=None if numbers is None else list(numbers))
