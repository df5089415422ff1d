"""One session becomes part of another: all its rows, inside the caller's transaction.

Its events get new numbers after all others, so that questions for the events since a number return them.
"""

from __future__ import annotations

import sqlite3

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.sqlite.revisions import note_removed, revise_sessions

_SUMMED = ("requests", "estimated", "copies", *USAGE_FIELDS)
_SUMS = ", ".join(_SUMMED)
_ADDED = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMMED)

#: In this order. Rows that the other session has already are equal to these.
_STATEMENTS = (
    """
    INSERT OR IGNORE INTO processed_events
        (event_id, session_id, turn_index, step_n, event_type, span_id, processed_at, block_id, line_n)
    SELECT event_id, :whole, :turn, step_n, event_type, span_id, processed_at, block_id, line_n
    FROM processed_events WHERE session_id = :part ORDER BY event_no
    """,
    "DELETE FROM processed_events WHERE session_id = :part",
    """
    UPDATE responses SET session_id = :whole, revision = :revision WHERE session_id = :part
        AND response IN (SELECT response FROM spans WHERE session_id = :part AND response IS NOT NULL)
    """,
    f"""
    INSERT INTO usage_rollup (day, session_id, model, variant, {_SUMS})
    SELECT day, :whole, model, variant, {_SUMS} FROM usage_rollup WHERE session_id = :part
    ON CONFLICT (day, session_id, model, variant) DO UPDATE SET {_ADDED}
    """,
    "DELETE FROM usage_rollup WHERE session_id = :part",
    """
    UPDATE export_spans SET session_id = :whole WHERE session_id = :part
        AND destination_id IN (SELECT destination_id FROM export_destinations)
        AND span_id IN (SELECT span_id FROM spans WHERE session_id = :part)
    """,
    """
    UPDATE OR IGNORE spans SET session_id = :whole, turn_index = :turn, revision = :revision,
        changed = (SELECT coalesce(max(event_no), 0) FROM processed_events)
    WHERE session_id = :part
    """,
    "DELETE FROM spans WHERE session_id = :part",
    "DELETE FROM streams WHERE session_id = :part",
    "UPDATE annotations SET session_id = :whole, revision = :revision WHERE session_id = :part",
    "UPDATE OR REPLACE pruned SET session_id = :whole WHERE session_id = :part",
    "UPDATE OR REPLACE export_touched SET session_id = :whole WHERE session_id = :part",
    "UPDATE OR REPLACE rule_sessions SET session_id = :whole WHERE session_id = :part",
    "UPDATE rule_events SET session_id = :whole WHERE session_id = :part",
    "UPDATE rule_firings SET session_id = :whole WHERE session_id = :part",
)


def absorb(connection: sqlite3.Connection, part: int, whole: int, turn: int, revision: int) -> None:
    """Make a session part of another, as its ``turn``-th turn."""
    for statement in _STATEMENTS:
        connection.execute(statement, {"part": part, "whole": whole, "turn": turn, "revision": revision})
    note_removed(connection, [("session", part, b"")], revision)
    revise_sessions(connection, (part, whole), revision)
