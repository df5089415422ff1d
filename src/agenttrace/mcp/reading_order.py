"""The order in which a session is read: each turn, what happened in it, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.model import Session
from agenttrace.store.questions import MAIN_STREAM, SpanRow
from agenttrace.views.transcript import depth_first

if TYPE_CHECKING:
    from agenttrace.store.store import Store


class TranscriptEntry(NamedTuple):
    """A span, or the end of a turn."""

    span_id: bytes
    depth: int
    ends: bool
    #: The place of the turn it belongs to in ``ReadingOrder.turns``; -1 before the first one.
    turn: int


class TurnSummary(NamedTuple):
    """A turn of the session itself, and what happened in it."""

    span_id: bytes
    #: As people count them: 1 is the first.
    number: int
    tools: int
    failed: int


class ReadingOrder:
    """All entries of a session in order."""

    def __init__(self, rows: Iterable[SpanRow]) -> None:
        self.turns: list[TurnSummary] = []
        self.entries: list[TranscriptEntry] = []
        known = {row.span_id: (row.kind, row.stream, row.turn_index, row.status, row.parent_id) for row in rows}
        open_turns: list[TranscriptEntry] = []
        for span_id, depth in depth_first([(span_id, facts[4]) for span_id, facts in known.items()]):
            kind, stream, index, status, _ = known[span_id]
            while open_turns and open_turns[-1].depth >= depth:
                self.entries.append(open_turns.pop())
            if kind == "turn" and depth == 0 and stream == MAIN_STREAM:
                self.turns.append(TurnSummary(span_id, index + 1, 0, 0))
            entry = TranscriptEntry(span_id, depth, False, len(self.turns) - 1)
            self.entries.append(entry)
            if kind == "turn":
                open_turns.append(entry._replace(ends=True))
            elif kind == "tool" and self.turns:
                turn = self.turns[-1]
                self.turns[-1] = turn._replace(tools=turn.tools + 1, failed=turn.failed + (status == "error"))
        self.entries += reversed(open_turns)

    @property
    def outline(self) -> list[TranscriptEntry]:
        """The beginnings of the turns alone."""
        return [TranscriptEntry(turn.span_id, 0, False, place) for place, turn in enumerate(self.turns)]


class ReadingOrders:
    """The order of the session that was read last: its pages are read one after the other."""

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], ReadingOrder] | None = None

    def of(self, store: Store, session: Session) -> ReadingOrder:
        """The order of a session as of now."""
        key = (session.id, session.events, session.last_at, session.state, store.spans_revision(session.id))
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        order = ReadingOrder(store.span_rows(session))
        self._last = (key, order)
        return order
