"""Keeping the figures of outcomes up to date after recording, in small pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agenttrace.record.outcomes import Fact, OutcomeReader, outcomes_by_share
from agenttrace.record.texts.contents import InterpretedLine, Interpreter

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.store.outcomes import ExaminedStore

#: Lines of one piece, between which recording goes on.
_PORTION = 500
#: Between two looks for sessions that wait.
_LOOK_SECONDS = 10.0


class OutcomeUpdates:
    """Examines sessions that have new lines; ``step`` does a piece of it."""

    def __init__(self, store: ExaminedStore) -> None:
        self._store = store
        self._run: Iterator[None] | None = None
        self._next_look = 0.0

    def step(self, seconds: float) -> None:
        """Work for about this long."""
        if self._run is None:
            if time.monotonic() < self._next_look:
                return
            self._run = update(self._store)
        deadline = time.monotonic() + seconds
        for _ in self._run:
            if time.monotonic() >= deadline:
                return
        self.interrupted()
        self._next_look = time.monotonic() + _LOOK_SECONDS

    @property
    def is_busy(self) -> bool:
        """Whether a piece is to be continued."""
        return self._run is not None

    @property
    def pause(self) -> float:
        """Seconds until the next look for sessions that wait."""
        return 0.0 if self.is_busy else max(0.0, self._next_look - time.monotonic())

    def interrupted(self) -> None:
        """Begin anew: a piece failed, or recorded data was removed."""
        self._run = None


def update_all(store: ExaminedStore, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Examine all sessions that wait."""
    for _ in update(store):
        if stop():
            return


def update(store: ExaminedStore) -> Iterator[None]:
    """Examine the sessions that wait now, piece by piece."""
    for number in store.outcome_table.waiting(time.time()):
        for session in store.sessions_by_number([number]):
            yield from _examine(store, session)


def _examine(store: ExaminedStore, session: Session) -> Iterator[None]:
    """The figures are of as many events as the session had at first: with more of them it waits again."""
    reader, interpreter = OutcomeReader(), Interpreter(store)
    facts: list[Fact] = []
    unread = 0
    numbers = store.session_events(session.id)
    for start in range(0, len(numbers), _PORTION):
        lines: list[InterpretedLine] = []
        for line in store.lines_by_number(numbers[start : start + _PORTION]):
            said = interpreter.said(line)
            unread += said is None
            lines += [] if said is None else [said]
        facts += reader.facts(lines)
        yield
    found = outcomes_by_share(store, session, facts, events=0 if unread else session.events)
    store.outcome_table.put(session.id, found, now=time.time())
    yield
