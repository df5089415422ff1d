"""Recorded events, read back with the session and the span they belong to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.record.contents import Said


class Heard(NamedTuple):
    """An event with the session and the span it belongs to."""

    said: Said
    session: Session
    #: The span's name, such as ``execute_tool Bash``.
    span: str | None
    #: The names of the tools the event is about, by call.
    tools: dict[str, str]


class Listener:
    """Reads events back from the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        from agenttrace.record.contents import Interpreter

        self._connection = connection
        self._interpreter = Interpreter(connection)
        self._sessions: dict[int, Session] = {}
        self._calls: dict[int, dict[str, str]] = {}
        self._loaded: dict[int, int] = {}

    def newest(self, session: int | None, count: int) -> list[int]:
        """The numbers of the latest events, oldest first."""
        where, values = ("session_id = ? AND", [session]) if session is not None else ("", [])
        rows = self._connection.execute(
            f"SELECT event_no FROM processed_events WHERE {where} block_id IS NOT NULL ORDER BY event_no DESC LIMIT ?",
            [*values, count],
        )
        return [row[0] for row in rows][::-1]

    def after(self, number: int, session: int | None, limit: int = 500) -> list[int]:
        """The numbers of the events after this one, oldest first."""
        where, values = ("AND session_id = ?", [session]) if session is not None else ("", [])
        rows = self._connection.execute(
            f"SELECT event_no FROM processed_events WHERE event_no > ? {where} AND block_id IS NOT NULL "
            "ORDER BY event_no LIMIT ?",
            [number, *values, limit],
        )
        return [row[0] for row in rows]

    def hear(self, numbers: Sequence[int]) -> Iterator[Heard]:
        """These events, in order of their numbers."""
        from agenttrace.store.sqlite.reading import raw_lines

        for start in range(0, len(numbers), 500):
            part = numbers[start : start + 500]
            owners = self._owners(part)
            for line in reversed(list(raw_lines(self._connection, events=part))):
                said = self._interpreter.said(line)
                session = self._session(owners.get(line.event_no, -1))
                if said is not None and session is not None:
                    yield Heard(said, session, self._span_name(session.id, line.span_id), self._tools(session, said))

    def _owners(self, numbers: Sequence[int]) -> dict[int, int]:
        marks = ",".join("?" * len(numbers))
        query = f"SELECT event_no, session_id FROM processed_events WHERE event_no IN ({marks})"
        return dict(self._connection.execute(query, list(numbers)).fetchall())

    def _session(self, number: int) -> Session | None:
        from agenttrace.store.sqlite.writing import load_session

        if number not in self._sessions:
            session = load_session(self._connection, number)
            if session is None:
                return None
            self._sessions[number] = session
        return self._sessions[number]

    def _span_name(self, session: int, span_id: bytes | None) -> str | None:
        if span_id is None:
            return None
        query = "SELECT name FROM spans WHERE session_id = ? AND span_id = ?"
        row = self._connection.execute(query, (session, span_id)).fetchone()
        return None if row is None else str(row[0])

    def _tools(self, session: Session, said: Said) -> dict[str, str]:
        """The names of the tools that the event calls or answers for, by call."""
        wanted = {content.call for content in said.contents if content.call}
        known = self._calls.setdefault(session.id, {})
        if wanted - known.keys():
            last = self._loaded.get(session.id, 0)
            query = (
                "SELECT span_no, json_extract(attributes, '$.call'), json_extract(attributes, '$.tool') FROM spans "
                "WHERE session_id = ? AND span_no > ? AND kind = 'tool' ORDER BY span_no"
            )
            for number, call, tool in self._connection.execute(query, (session.id, last)):
                self._loaded[session.id] = number
                known[call] = tool
        return {call: known[call] for call in wanted if known.get(call)}


def event_fields(heard: Heard) -> dict[str, Any]:
    """An event for JSON."""
    said, line = heard.said, heard.said.line
    return {
        "event_no": line.event_no,
        "at": iso(said.event.at),
        "agent": heard.session.agent,
        "session_id": heard.session.session_id,
        "type": line.event_type,
        "turn_index": line.turn_index,
        "step_n": line.step_n,
        "span_id": None if line.span_id is None else line.span_id.hex(),
        "span": heard.span,
        "contents": [{"kind": content.kind, "text": content.text, "call": content.call} for content in said.contents],
        "file": said.path,
        "offset": line.offset,
    }
