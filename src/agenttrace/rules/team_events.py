"""Events of a team's store: told from the rows that machines sent, in the order in which they came.

The recorder of a machine notes events in the transaction that records them. A server takes rows, and any number of
servers may take them into one store. So events are told afterwards, from what changed since a cursor. The cursor moves
in the transaction that notes what was found, and an event has the same key whoever tells it: none is missed, none
counts twice, whichever server stored the rows.

Times are those of machines; an event is of interest since a rule began, by the clock of the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from agenttrace.model import Session
from agenttrace.rules.secrets import KIND as SECRET
from agenttrace.rules.secrets import LineSecrets, MaskText
from agenttrace.store.questions import TELEMETRY
from agenttrace.store.rows import Changes, ChangesCursor, EventRow, Row, RowKind, StoredSession, StoredSpan
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.rules import RuleEvent, key_of
from agenttrace.store.sqlite.rule_events import BY_SILENCE, FAILED_KINDS, FailedRow, ended_event, failed_event

#: Rows of a page, and pages of one look: a long past delays nothing else.
_ROWS, _PAGES = 1_000, 10
_MICROS = 1_000_000
#: What is told from which rows.
_READ: dict[str, tuple[tuple[RowKind, ...], tuple[str, ...]]] = {
    "team rows": (("session", "span"), ("session.waiting", *BY_SILENCE, *FAILED_KINDS.values())),
    "team lines": (("event",), (SECRET,)),
}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ChangesCursor).decode


class TeamEvents:
    """Reads on in what changed, while rules ask for something that it tells."""

    def __init__(self, store: RuleStore, mask: MaskText, clock: Callable[[], float] = time.time) -> None:
        """Made before rules are registered: what comes after this is news for rules that begin after this."""
        self._store, self._mask = store, mask
        self._secrets = LineSecrets(store, mask)
        self._begun, self._end = round(clock() * _MICROS), store.changes_end()

    def __call__(self, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
        """Read on; what is found is noted together with the cursor, so nothing is left to be noted."""
        for name, (rows, kinds) in _READ.items():
            asked = {kind: wanted[kind] for kind in kinds if kind in wanted}
            if asked:
                self._read(name, rows, asked)
        return iter(())

    def _read(self, name: str, kinds: Sequence[RowKind], asked: Mapping[str, int]) -> None:
        rules, stored = self._store.rules, self._store.rules.cursor(name)
        cursor = self._end if stored is None else _decode(stored)
        fresh = self._fresh(asked)
        if any(since < self._begun for _, since in fresh):
            # A rule that starts in the past reads all that there is.
            cursor = ChangesCursor()
            self._secrets = LineSecrets(self._store, self._mask)
        for _ in range(_PAGES):
            found = self._store.changes_since(cursor, _ROWS, kinds)
            if found.rows or fresh or found.cursor != cursor:
                self._note(name, found, asked)
            for rule, since in fresh:
                rules.look_back(rule, str(since), (), ())
            if not found.rows:
                return
            cursor, fresh = found.cursor, []

    def _fresh(self, asked: Mapping[str, int]) -> list[tuple[str, int]]:
        """The rules for which nothing was read yet since they were switched on, and since when they fire."""
        states = self._store.rules.states().values()
        active = [(state.rule, state.since) for state in states if any(kind in asked for kind in state.kinds)]
        return [(rule, since) for rule, since in active if self._store.rules.looked_back(rule) != str(since)]

    def _note(self, name: str, found: Changes, asked: Mapping[str, int]) -> None:
        rows = found.rows
        told = [event for row in rows for event in self._events(row)]
        events = [event for event in told if event.kind in asked and event.at >= asked[event.kind]]
        working: list[int] = []
        if any(kind in asked for kind in BY_SILENCE):
            sessions = (row.session for row in rows if isinstance(row, StoredSession))
            working = [session.id for session in sessions if session.state == "working"]
        self._store.rules.advance(name, _encode(found.cursor).decode(), events, working)

    def _events(self, row: Row) -> Iterator[RuleEvent]:
        if isinstance(row, StoredSession):
            yield from _states(row.session)
        elif isinstance(row, StoredSpan) and row.status == "error" and row.kind in FAILED_KINDS:
            event = failed_event(_failed(row), told=row.stream == TELEMETRY)
            if event is not None:
                yield event
        elif isinstance(row, EventRow):
            yield from self._secrets.events(row.session, row.span_id, row.turn_index, row.raw)


def _failed(row: StoredSpan) -> FailedRow:
    return FailedRow(
        span_id=row.span_id,
        trace_id=row.trace_id,
        session_id=row.session,
        stream=row.stream,
        kind=row.kind,
        name=row.name,
        start=row.start,
        end=row.end,
        turn_index=row.turn_index,
        attributes=row.attributes,
    )


def _states(session: Session) -> Iterator[RuleEvent]:
    """That a session waits or has ended."""
    if session.state == "working" or not session.events or session.last_at is None:
        return
    yield ended_event(session)
    if session.state == "waiting":
        # A machine does not send how often it waited: before it waits again, it takes a step or calls a tool.
        key = key_of("session.waiting", session.id, "team", session.turns, session.steps, session.tools)
        yield RuleEvent(key=key, kind="session.waiting", at=session.last_at, session=session.id, turn=session.turns)


def is_copy(store: RuleStore, event: RuleEvent) -> bool:
    """Whether the span of an event was copied from another session, as forks do.

    A call belongs to the response that asked for it, a turn has responses; those that a fork copied are another's.
    """
    if event.span is None or event.session is None or event.kind not in FAILED_KINDS.values():
        return False
    sessions = store.sessions_by_number([event.session])
    own = store.spans_by_id(sessions[0], [event.span], attributes=False).get(event.span) if sessions else None
    if own is None:
        return False
    if event.kind == "turn.failed":
        return any(not row.counted for row in store.span_rows(sessions[0]) if row.parent_id == event.span)
    asking = [] if own.parent_id is None else [own.parent_id]
    near = store.spans_by_id(sessions[0], asking, attributes=False).values()
    return any(not row.counted for row in (own, *near))
