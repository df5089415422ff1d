"""Events for rules, noted in the transaction that records what they are about.

A batch costs one look at the table of rules. Rows are only written for kinds that a rule asks for, and for events that
are not older than its start: an import of old logs writes none.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session
from agenttrace.store.batch import Batch
from agenttrace.store.questions import MAIN_STREAM, TELEMETRY
from agenttrace.store.rules import RuleEvent, key_of

_WANTED = "SELECT kinds, since FROM rule_states WHERE kinds <> ''"
_NOTE = """
INSERT OR IGNORE INTO rule_events (key, kind, session_id, span_id, turn_index, at, recorded_at, facts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_TOUCH = "INSERT OR REPLACE INTO rule_sessions (session_id, touched_at) VALUES (?, ?)"
_REFUSED = """
SELECT d.name, e.session_id, e.span_id, e.answer FROM export_spans e JOIN export_destinations d USING (destination_id)
WHERE e.queue_no = ? AND e.state = 'refused'
"""

#: Kinds that silence leads to.
BY_SILENCE = ("session.ended", "session.stuck")
FAILED_KINDS = {"turn": "turn.failed", "tool": "tool.failed"}
#: What providers name calls with, each only once; others count from 1 in every answer.
_UNIQUE_CALLS, _UNIQUE_LENGTH = ("toolu_", "call_"), 20

_encode = msgspec.json.Encoder().encode
_attributes = msgspec.json.Decoder(dict[str, Any]).decode


def wanted_kinds(connection: sqlite3.Connection) -> dict[str, int]:
    """The kinds of events that rules ask for, and since when, in microseconds."""
    found: dict[str, int] = {}
    for kinds, since in connection.execute(_WANTED):
        for kind in kinds.split():
            found[kind] = min(since, found.get(kind, since))
    return found


def note_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """Note the events of a batch that rules ask for; inside its transaction."""
    wanted = wanted_kinds(connection)
    if wanted:
        now = time.time()
        note_events(connection, _events(batch, wanted, now), now)
        if any(kind in wanted for kind in BY_SILENCE):
            connection.executemany(_TOUCH, ((session.id, now) for session in batch.sessions))


def note_events(connection: sqlite3.Connection, events: Iterable[RuleEvent], now: float) -> None:
    """Note these events, each once; inside a transaction of the caller's."""
    connection.executemany(
        _NOTE,
        (
            (
                *(each.key, each.kind, each.session, each.span, each.turn, each.at, now),
                _encode(each.facts).decode() if each.facts else None,
            )
            for each in events
        ),
    )


def note_refused(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Note spans that a destination refused; inside the transaction that says so."""
    if "export.refused" not in wanted_kinds(connection):
        return
    now = time.time()
    rows = [row for number in numbers for row in connection.execute(_REFUSED, (number,))]
    note_events(
        connection,
        (refused_event(name, session, span, answer, round(now * 1_000_000)) for name, session, span, answer in rows),
        now,
    )


def refused_event(destination: str, session: int, span: bytes, answer: str | None, at: int) -> RuleEvent:
    """That a destination refused a span."""
    return RuleEvent(
        key=key_of("export.refused", destination, span.hex()),
        kind="export.refused",
        at=at,
        session=session,
        span=span,
        facts={"destination": destination, "reason": (answer or "")[:500]},
    )


def _events(batch: Batch, wanted: Mapping[str, int], now: float) -> Iterator[RuleEvent]:
    yield from _failed_spans(batch, wanted)
    yield from _session_states(batch, wanted)
    if "quarantine.grew" in wanted:
        for file, path, generation, offset, _, digest, reason, *_ in batch.quarantine:
            at = round(now * 1_000_000)
            yield quarantined_event(file, generation, offset, digest, path=path, reason=reason, at=at)


def _failed_spans(batch: Batch, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
    if not any(kind in wanted for kind in FAILED_KINDS.values()):
        return
    for row in batch.spans:
        # See ``batch.span_row``: most spans did not fail.
        if row[9] != "error":
            continue
        kind = FAILED_KINDS.get(row[5], "")
        if kind in wanted and (row[8] or row[7]) >= wanted[kind]:
            event = failed_event(FailedRow(*(row[place] for place in _PLACES)), told=row[3] in batch.told)
            if event is not None:
                yield event


class FailedRow(NamedTuple):
    """What an event is made of: columns of a span that failed."""

    span_id: bytes
    trace_id: bytes
    session_id: int
    stream: str
    kind: str
    name: str
    start: int
    end: int | None
    turn_index: int
    attributes: str | None


#: Where these are in ``batch.span_row``.
_PLACES = (0, 1, 3, 4, 5, 6, 7, 8, 11, 14)


def failed_event(row: FailedRow, *, told: bool) -> RuleEvent | None:
    """That a turn or a tool failed (``told``: says telemetry); the turn of a subagent is a part of a turn."""
    kind = FAILED_KINDS[row.kind]
    if kind == "turn.failed" and row.stream != MAIN_STREAM:
        return None
    facts: dict[str, Any] = {}
    # By its trace: that may become a part of another session.
    key = key_of(kind, row.trace_id.hex(), row.span_id.hex())
    if kind == "tool.failed":
        facts["tool"] = row.name.removeprefix("execute_tool ")
        call = _unique_call(row.attributes)
        if call is not None:
            # Telemetry and log have no other name in common for it.
            facts["call"] = call
            key = key_of(kind, row.session_id, "call", call)
    if told:
        facts["source"] = TELEMETRY
    return RuleEvent(
        key=key,
        kind=kind,
        at=row.end or row.start,
        session=row.session_id,
        span=row.span_id,
        turn=row.turn_index,
        facts=facts,
    )


def _unique_call(attributes: str | None) -> str | None:
    """The id of a tool call, where it is one of a provider; spans of programs have ids of their own."""
    known = {} if attributes is None else _attributes(attributes)
    call = known.get("call")
    if not isinstance(call, str) or "service" in known or len(call) < _UNIQUE_LENGTH:
        return None
    return call if call.startswith(_UNIQUE_CALLS) else None


def _session_states(batch: Batch, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
    """That sessions wait or have ended. Most logs do not say the latter: silence after a turn means it."""
    since = wanted.get("session.waiting")
    if since is not None:
        # Of several in a batch the last: the session went on after the others.
        last = {session: (number, turn, at) for session, number, turn, at in batch.waits}
        for session, (number, turn, at) in last.items():
            if at >= since:
                yield waiting_event(session, number, turn, at, told=session in batch.told)
    since = wanted.get("session.ended")
    if since is not None:
        for each in batch.sessions:
            if each.state != "working" and each.events and each.last_at is not None and each.last_at >= since:
                yield ended_event(each)


def waiting_event(session: int, number: int, turn: int, at: int, *, told: bool) -> RuleEvent:
    """That a session waits, for the ``number``-th time; telemetry counts otherwise than the log."""
    facts: dict[str, Any] = {"wait": number}
    parts: list[str | int] = [session, number]
    if told:
        facts["source"] = TELEMETRY
        parts.append(TELEMETRY)
    key = key_of("session.waiting", *parts)
    return RuleEvent(key=key, kind="session.waiting", at=at, session=session, turn=turn, facts=facts)


def ended_event(session: Session) -> RuleEvent:
    """That a session has ended after its last turn."""
    key = key_of("session.ended", session.id, session.turns)
    return RuleEvent(key=key, kind="session.ended", at=session.last_at or 0, session=session.id, turn=session.turns)


def stuck_event(session: int, turns: int, heard: int) -> RuleEvent:
    """That a session works in its turn and says nothing since a moment."""
    key = key_of("session.stuck", session, turns)
    return RuleEvent(key=key, kind="session.stuck", at=heard, session=session, turn=turns)


def quarantined_event(
    file: int, generation: int, offset: int, digest: bytes, *, path: str, reason: str, at: int
) -> RuleEvent:
    """That a line could not be recorded."""
    return RuleEvent(
        key=key_of("quarantine.grew", file, generation, offset, digest.hex()),
        kind="quarantine.grew",
        at=at,
        facts={"path": path, "offset": offset, "reason": reason},
    )
