"""What was said in some spans of a session, without reading the rest of it.

A line may hold what belongs to several spans of one model call: its own words, and the arguments of the tools it asks
for. So the lines of the whole model call are read, and each text goes to its span as ``record.contents`` has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agenttrace.model import Session
from agenttrace.record.agents.contract import Content
from agenttrace.record.contents import Calls, Interpreter, Said, contents_by_span
from agenttrace.record.line_index import LineIndex
from agenttrace.store.sqlite.blocks import Blocks
from agenttrace.store.sqlite.reading import LineRow, line_rows, with_text

#: Lines that are read again soon: somebody scrolls.
_BLOCK_BYTES = 64 << 20
_PORTION = 500


class _Place(NamedTuple):
    """Where a span stands."""

    span_id: bytes
    kind: str
    parent_id: bytes | None
    turn_index: int
    step_n: int

    @property
    def root(self) -> bytes:
        """The model call of a tool; every other span itself."""
        return self.parent_id if self.kind == "tool" and self.parent_id is not None else self.span_id


class Gathered(NamedTuple):
    """What belongs to some spans."""

    contents: dict[bytes, list[Content]]
    #: The lines that they, or texts of theirs, stand in.
    lines: list[Said]
    calls: Calls


class SessionTexts:
    """Reads texts back from the raw lines; what was read lately is at hand."""

    def __init__(self, index: LineIndex | None = None, block_bytes: int = _BLOCK_BYTES) -> None:
        self.index = index or LineIndex()
        self.blocks = Blocks(block_bytes)

    def contents(
        self, connection: sqlite3.Connection, session: Session, wanted: Sequence[bytes]
    ) -> dict[bytes, list[Content]]:
        """The texts of these spans, in order; spans that the session does not have are left out."""
        places = _places(connection, session.id, wanted)
        found = self.gathered(connection, session, places.values()).contents
        return {span_id: found.get(span_id, []) for span_id in wanted if span_id in places}

    def around(self, connection: sqlite3.Connection, session: Session, span_id: bytes) -> Gathered:
        """The lines of a span and of its model call, and what they say."""
        return self.gathered(connection, session, _places(connection, session.id, [span_id]).values())

    def gathered(self, connection: sqlite3.Connection, session: Session, wanted: Iterable[_Place]) -> Gathered:
        """What the lines of these spans' model calls say."""
        wanted = list(wanted)
        index = self.index.of(connection, session.id)
        near = set().union(*(index.around(place.span_id, place.turn_index, place.step_n) for place in wanted))
        places = _places(connection, session.id, list(near)) | {place.span_id: place for place in wanted}
        roots = {place.root for place in wanted}
        family = [place for place in places.values() if place.root in roots]
        numbers = {number for place in family for number in index.lines_of(place.span_id)}
        said = list(self.said(connection, line_rows(connection, list(numbers))))
        calls = Calls(session, {place.span_id: place.root for place in family}, _Tools(connection, session.id))
        return Gathered(contents_by_span(said, calls), said, calls)

    def said(self, connection: sqlite3.Connection, rows: Iterable[LineRow]) -> Iterator[Said]:
        """What these lines say."""
        interpreter = Interpreter(connection)
        for line in with_text(connection, rows, self.blocks):
            said = interpreter.said(line)
            if said is not None:
                yield said


class _Tools:
    """Whether a span is a tool call of the session."""

    def __init__(self, connection: sqlite3.Connection, session: int) -> None:
        self._connection, self._session = connection, session
        self._known: dict[bytes, bool] = {}

    def __call__(self, span_id: bytes) -> bool:
        if span_id not in self._known:
            query = "SELECT kind = 'tool' FROM spans WHERE session_id = ? AND span_id = ?"
            row = self._connection.execute(query, (self._session, span_id)).fetchone()
            self._known[span_id] = row is not None and bool(row[0])
        return self._known[span_id]


def _places(connection: sqlite3.Connection, session: int, wanted: Sequence[bytes]) -> dict[bytes, _Place]:
    found: dict[bytes, _Place] = {}
    for start in range(0, len(wanted), _PORTION):
        part = wanted[start : start + _PORTION]
        rows = connection.execute(
            "SELECT span_id, kind, parent_id, turn_index, step_n FROM spans "
            f"WHERE session_id = ? AND span_id IN ({','.join('?' * len(part))})",
            (session, *part),
        )
        found.update((row[0], _Place._make(row)) for row in rows)
    return found
