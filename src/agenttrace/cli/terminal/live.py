"""Events of all sessions as they are recorded."""

from __future__ import annotations

from collections import deque

from textual import on
from textual.app import ComposeResult

from agenttrace.cli.tail import StreamedCalls, event_line
from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.screens import TraceScreen
from agenttrace.cli.terminal.session_tree import SessionScreen
from agenttrace.model import Session
from agenttrace.store.store import Store
from agenttrace.views.events import EventReader, RecordedEvent

#: So many earlier events are read at first, and so many are kept.
_EARLIER, _MOST = 400, 2_000


class LiveScreen(TraceScreen):
    """The lines of ``agenttrace tail``; the cursor stays at the end until it is moved."""

    heading = "Live"

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[RecordedEvent] = deque(maxlen=_MOST)
        self._calls = StreamedCalls()
        self._last: int | None = None

    def content(self) -> ComposeResult:
        """The events."""
        yield LineList(lambda index, width: event_line(self._events[index]))

    async def load(self) -> None:
        """Read what is new."""
        events = await self.reader.ask(self._new, list[RecordedEvent])
        joined = [each for event in events if (each := self._calls.joined(event)) is not None and each.said.contents]
        shown = self.query_one(LineList)
        following = shown.cursor >= shown.count - 1
        gone = max(0, len(self._events) + len(joined) - _MOST)
        self._events.extend(joined)
        shown.show(len(self._events), len(self._events) - 1 if following else max(0, shown.cursor - gone))
        self.update_bar()

    def _new(self, store: Store) -> list[RecordedEvent]:
        last = self._last
        numbers = store.newest_events(_EARLIER) if last is None else store.events_after(last, limit=_MOST)
        self._last = numbers[-1] if numbers else last or store.last_event()
        return list(EventReader(store).read(numbers))

    def chosen_session(self) -> Session | None:
        """The session of the event at the cursor."""
        place = self.query_one(LineList).cursor
        return self._events[place].session if place < len(self._events) else None

    @on(LineList.Selected)
    def _open(self, event: LineList.Selected) -> None:
        chosen = self._events[event.index]
        self.app.push_screen(SessionScreen(chosen.session, chosen.said.line.span_id))
