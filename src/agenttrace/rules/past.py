"""Events of the past, told from what is stored: the same events, under the same keys, as if they were recorded now.

A trial asks what held then, such as that a session was silent for a while before it went on. A rule that starts in the
past looks back for what holds now: a session that went on has not ended, and one that does not wait any more needs no
notification. Both read in portions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from agenttrace.config.rules import EventKind
from agenttrace.model import Session
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.store.rules import RuleEvent
from agenttrace.store.session_state import RECENT_SECONDS
from agenttrace.store.sqlite.rule_events import (
    BY_SILENCE,
    FAILED_KINDS,
    ended_event,
    failed_event,
    stuck_event,
    waiting_event,
)
from agenttrace.store.sqlite.store import SqliteStore

#: Kinds whose sources look back by themselves, or that have no past: what is crossed is crossed now.
_ELSEWHERE = frozenset(("secret.found", "budget.crossed", "limit.crossed"))
#: Sessions, or events, of one portion.
_PORTION = 200
_SPAN_KINDS = {kind: name for name, kind in FAILED_KINDS.items()}
_MICROS = 1_000_000


class PastEvent(NamedTuple):
    """An event, and for how many seconds its session was silent after it."""

    event: RuleEvent
    silent: float


class Portion(NamedTuple):
    """Some events, and where to read on."""

    events: list[RuleEvent]
    #: ``None``: that was all.
    following: int | None
    #: Sessions that work: silence may end them, or show that they are stuck.
    working: Sequence[int] = ()


def past_events(
    store: SqliteStore, kind: EventKind, since: int, until: int, settle: float = 0.0
) -> Iterator[PastEvent]:
    """What happened in a period (microseconds), in any order; ``settle``: after which silence a session is stuck.

    Not what is crossed, and no secrets: see ``trial_events.py``.
    """
    after: int | None = 0
    while after is not None:
        if kind.startswith("session."):
            numbers = store.rules.past.sessions(after, since, _PORTION)
            for session in store.sessions_by_number(numbers):
                if kind == "session.stuck":
                    found = _silences(store, session, until, settle)
                    yield from (each for each in found if since <= each.event.at < until)
                else:
                    yield from _pauses(store, session, kind, since, until)
            after = numbers[-1] if len(numbers) == _PORTION else None
        else:
            events, after, _ = portion_of(store, kind, since, after, until)
            yield from (PastEvent(each, float("inf")) for each in events if since <= each.at < until)


def portion_of(store: SqliteStore, kind: EventKind, since: int, after: int, now: int) -> Portion:
    """The next events that a rule looks back for: what holds now."""
    past = store.rules.past
    if kind in ("quarantine.grew", "export.refused"):
        read = past.quarantined if kind == "quarantine.grew" else past.refused
        rows = read(after, since, _PORTION)
        return Portion([row.event for row in rows], rows[-1].number if len(rows) == _PORTION else None)
    if kind in _ELSEWHERE:
        return Portion([], None)
    numbers = past.sessions(after, since, _PORTION)
    following = numbers[-1] if len(numbers) == _PORTION else None
    if kind in _SPAN_KINDS:
        events = _failures(store, kind, numbers)
    else:
        sessions = store.sessions_by_number(numbers)
        working = [each.id for each in sessions if each.state == "working"] if kind in BY_SILENCE else []
        events = _held(store, kind, sessions, now)
        return Portion([each for each in events if each.at >= since], following, working)
    return Portion([each for each in events if each.at >= since], following)


def _failures(store: SqliteStore, kind: EventKind, numbers: Sequence[int]) -> list[RuleEvent]:
    past = store.rules.past
    told = past.told(numbers)
    rows = past.failed(numbers, _SPAN_KINDS[kind])
    found = (failed_event(row, told=row.session_id in told) for row in rows)
    return [event for event in found if event is not None]


def _held(store: SqliteStore, kind: EventKind, sessions: Sequence[Session], now: int) -> list[RuleEvent]:
    """What is so now: sessions that have ended, or that wait; who was not answered for a day does not wait any more."""
    if kind == "session.ended":
        return [ended_event(each) for each in sessions if each.state != "working" and each.last_at is not None]
    if kind != "session.waiting":
        return []
    past = store.rules.past
    waiting = [
        each for each in sessions if each.state == "waiting" and (each.last_at or 0) >= now - RECENT_SECONDS * _MICROS
    ]
    numbers = [each.id for each in waiting]
    told = past.told(numbers)
    waited = past.waited(numbers, told)
    return [
        waiting_event(each.id, known.waits, known.turns, each.last_at or 0, told=each.id in told)
        for each in waiting
        if (known := waited.get(each.id)) is not None and known.waits
    ]


def _silences(store: SqliteStore, session: Session, until: int, settle: float) -> Iterator[PastEvent]:
    """Of each turn the first silence in it that is long enough, or the longest; subagents are heard as well."""
    rows = list(store.span_rows(session))
    heard = sorted({at for row in rows for at in (row.start, row.end) if at is not None and at < until})
    turns = [row for row in rows if row.kind == "turn" and row.stream == MAIN_STREAM]
    for number, (turn, following) in enumerate(zip(turns, [*turns[1:], None], strict=True), start=1):
        end = turn.end if turn.end is not None else until if following is None else following.start
        moments = heard[bisect_left(heard, turn.start) : bisect_left(heard, min(end, until))]
        if moments:
            gaps = list(zip(moments, [*moments[1:], min(end, until)], strict=True))
            enough = (gap for gap in gaps if (gap[1] - gap[0]) / _MICROS >= settle)
            begin, over = next(enough, max(gaps, key=lambda gap: gap[1] - gap[0]))
            yield PastEvent(stuck_event(session.id, number, begin), (over - begin) / _MICROS)


def _pauses(store: SqliteStore, session: Session, kind: EventKind, since: int, until: int) -> Iterator[PastEvent]:
    """The ends of a session's turns, and how long it was silent after each."""
    turns = [row for row in store.span_rows(session) if row.kind == "turn" and row.stream == MAIN_STREAM]
    for number, (turn, following) in enumerate(zip(turns, [*turns[1:], None], strict=True), start=1):
        end = turn.end or session.last_at or turn.start
        if not since <= end < until:
            continue
        silent = ((until if following is None else following.start) - end) / _MICROS
        if kind == "session.ended":
            event = ended_event(msgspec.structs.replace(session, turns=number, last_at=end))
        else:
            # Waits for permissions are not stored, so these have numbers of their own; nothing is fired by them.
            event = waiting_event(session.id, number, number, end, told=False)
        yield PastEvent(event, silent)
