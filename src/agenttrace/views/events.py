"""Recorded events, read back with the session and the span they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.record.texts.contents import InterpretedLine
    from agenttrace.store.store import Store


class RecordedEvent(NamedTuple):
    """An event with the session and the span it belongs to."""

    said: InterpretedLine
    session: Session
    #: The span's name, such as ``execute_tool Bash``.
    span: str | None
    #: The names of the tools the event is about, by call.
    tools: dict[str, str]


class EventReader:
    """Reads events back from the store."""

    def __init__(self, store: Store) -> None:
        from agenttrace.record.texts.contents import Interpreter

        self._store = store
        self._interpreter = Interpreter(store)
        self._sessions: dict[int, Session] = {}
        #: The names of tools by call, and up to where the tool calls of a session were read for them.
        self._tools: dict[int, dict[str, str]] = {}
        self._tools_read: dict[int, int] = {}

    def read(self, numbers: Sequence[int]) -> Iterator[RecordedEvent]:
        """These events, in order of their numbers; those that cannot be read any more are left out."""
        for line in self._store.lines_by_number(numbers):
            said = self._interpreter.said(line)
            session = self._session(line.session)
            if said is not None and session is not None:
                span = self._store.span_name(session.id, line.span_id)
                yield RecordedEvent(said, session, span, self._tool_names(session.id, said))

    def _session(self, number: int) -> Session | None:
        if number not in self._sessions:
            found = self._store.sessions_by_number([number])
            if not found:
                return None
            self._sessions[number] = found[0]
        return self._sessions[number]

    def _tool_names(self, session: int, said: InterpretedLine) -> dict[str, str]:
        """The names of the tools that the event calls or answers for, by call."""
        wanted = {content.call for content in said.contents if content.call}
        known = self._tools.setdefault(session, {})
        if wanted - known.keys():
            self._tools_read[session], fresh = self._store.tool_names(session, self._tools_read.get(session, 0))
            known.update(fresh)
        return {call: known[call] for call in wanted if known.get(call)}


def event_fields(event: RecordedEvent) -> dict[str, Any]:
    """An event for JSON."""
    said, line = event.said, event.said.line
    return {
        "event_no": line.event_no,
        "at": iso(said.event.at),
        "agent": event.session.agent,
        "session_id": event.session.session_id,
        "type": line.event_type,
        "turn_index": line.turn_index,
        "step_n": line.step_n,
        "span_id": None if line.span_id is None else line.span_id.hex(),
        "span": event.span,
        "contents": [{"kind": content.kind, "text": content.text, "call": content.call} for content in said.contents],
        "file": said.path,
        "offset": line.offset,
    }
