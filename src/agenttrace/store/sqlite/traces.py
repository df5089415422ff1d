"""The spans of one session by trace: subagents in the trace of the turn they worked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from agenttrace.store.questions import SpanRow
from agenttrace.store.span_tree import StoredTraces
from agenttrace.store.sqlite.span_rows import some_rows, stored_rows, subagents_of

_OWNED = """
SELECT spans.response, start, span_id FROM spans JOIN responses USING (response)
WHERE spans.session_id = ? AND responses.session_id = spans.session_id
"""


def session_traces(connection: sqlite3.Connection, session: int) -> StoredTraces:
    """Everything of a session but attributes and texts."""
    subagents = subagents_of(connection, session)
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
