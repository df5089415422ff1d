"""The spans of one session by trace: subagents in the trace of the turn they worked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from agenttrace.store.sqlite.span_rows import SpanRow, Subagents, some_rows, stored_rows

_OWNED = """
SELECT spans.response, start, span_id FROM spans JOIN responses USING (response)
WHERE spans.session_id = ? AND responses.session_id = spans.session_id
"""


class StoredTraces(NamedTuple):
    """All spans of a session, subagents under the calls that started them."""

    session: int
    #: In order of start; without their attributes.
    rows: dict[bytes, SpanRow]
    #: The first span of each response that this session owns.
    payers: set[bytes]
    subagents: Subagents

    def root_trace(self, trace: bytes) -> bytes:
        """The trace of the turn that everything in this trace was done for."""
        return self.subagents.root_trace(trace)


def session_traces(connection: sqlite3.Connection, session: int) -> StoredTraces:
    """Everything of a session but attributes and texts."""
    subagents = Subagents(connection, session)
    rows = map(subagents.joined, stored_rows(connection, session, attributes=False))
    return StoredTraces(session, {row.span_id: row for row in rows}, _payers(connection, session), subagents)


def spans_with_attributes(
    connection: sqlite3.Connection, traces: StoredTraces, wanted: Sequence[bytes]
) -> dict[bytes, SpanRow]:
    """These spans of a session, as far as it has them."""
    rows = some_rows(connection, traces.session, wanted, traces.subagents, attributes=True)
    return {span_id: row for span_id, row in rows.items() if span_id in traces.rows}


def _payers(connection: sqlite3.Connection, session: int) -> set[bytes]:
    first: dict[bytes, tuple[int, bytes]] = {}
    for response, start, span_id in connection.execute(_OWNED, (session,)):
        first[response] = min(first.get(response, (start, span_id)), (start, span_id))
    return {span_id for _, span_id in first.values()}
