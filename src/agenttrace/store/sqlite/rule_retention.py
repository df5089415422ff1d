"""Retention of rules: what is old leaves the log of rules; what a rule fired for stays known for ever.

Of a firing that was passed on only the key stays, in the same row: a second import, or a rebuilt store, fires nothing
again. What did not fire is removed whole. Open firings stay, and so does the last message of each rule, from which its
cooldown is counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from agenttrace.store.rule_reasons import why, written
from agenttrace.store.rules import FIRED_STATES, OPEN_STATES
from agenttrace.store.sqlite.database import marks, transaction
from agenttrace.store.sqlite.rule_events import BY_SILENCE, wanted_kinds

#: Firings, or events, that one transaction removes.
_PORTION = 500
#: Daily caps count the firings of today, whatever the time zone.
_LEAST_SECONDS = 2 * 86_400.0

_IS_OPEN = f"state IN ({', '.join(repr(state) for state in OPEN_STATES)})"
#: The newest stay, so that no number is given twice.
_OLD = f"""
SELECT firing_no, state FROM rule_firings AS old
WHERE firing_no > ? AND kind <> '' AND NOT {_IS_OPEN} AND coalesce(ended_at, fired_at, created_at) < ?
    AND firing_no < (SELECT max(firing_no) FROM rule_firings)
    AND NOT EXISTS (SELECT 1 FROM rule_firings AS whole WHERE whole.firing_no = old.message AND {_IS_OPEN})
    AND firing_no NOT IN (SELECT number FROM (
        SELECT firing_no AS number, max(fired_at) FROM rule_firings WHERE day IS NOT NULL GROUP BY rule
    ))
ORDER BY firing_no LIMIT ?
"""
_KEEP_KEY = """
UPDATE OR IGNORE rule_firings SET event_key = once_key, kind = '', session_id = NULL, span_id = NULL, turn_index = -1,
    at = 0, facts = NULL, state = 'done', reason = NULL, fired_at = NULL, day = NULL, ended_at = NULL, message = NULL
WHERE firing_no IN {numbers}
"""


#: What messages about a session said: titles, tools, answers.
_MESSAGES = "SELECT coalesce(message, firing_no) FROM rule_firings WHERE session_id = :session"
_FORGET = (
    f"UPDATE rule_actions SET answer = NULL, error = NULL WHERE firing_no IN ({_MESSAGES})",
    f"UPDATE rule_attempts SET detail = '' WHERE firing_no IN ({_MESSAGES})",
    "UPDATE rule_firings SET facts = NULL, reason = iif(state IN ('skipped', 'failed'), :reason, reason) "
    "WHERE session_id = :session",
    "UPDATE rule_events SET facts = NULL WHERE session_id = :session",
)


def forget_texts(connection: sqlite3.Connection, session: int) -> None:
    """Remove what was written of a session, whose texts are removed; inside a transaction of the caller's."""
    reason = written(why("session_removed"))
    for statement in _FORGET:
        connection.execute(statement, {"session": session, "reason": reason})


def prune_firings(connection: sqlite3.Connection, cutoff: float, now: float) -> Iterator[int]:
    """Remove what ended before ``cutoff`` (seconds since the epoch), in pieces; how many firings each."""
    cutoff, last = min(cutoff, now - _LEAST_SECONDS), 0
    while rows := connection.execute(_OLD, (last, cutoff, _PORTION)).fetchall():
        last = rows[-1][0]
        with transaction(connection):
            _remove(connection, rows)
        yield len(rows)
    yield from _prune_events(connection, cutoff)


def old_firings(connection: sqlite3.Connection, cutoff: float, now: float) -> int:
    """How many firings ``prune_firings`` would remove."""
    values = (0, min(cutoff, now - _LEAST_SECONDS), -1)
    return int(connection.execute(f"SELECT count(*) FROM ({_OLD})", values).fetchone()[0])


def _remove(connection: sqlite3.Connection, rows: list[tuple[int, str]]) -> None:
    numbers = [number for number, _ in rows]
    fired = [number for number, state in rows if state in FIRED_STATES]
    others = [number for number, state in rows if state not in FIRED_STATES]
    connection.execute(f"DELETE FROM rule_actions WHERE firing_no IN {marks(numbers)}", numbers)
    connection.execute(
        f"DELETE FROM rule_attempts WHERE firing_no IN {marks(numbers)} "
        "AND attempt_no < (SELECT max(attempt_no) FROM rule_attempts)",
        numbers,
    )
    connection.execute(_KEEP_KEY.format(numbers=marks(fired)), fired)
    connection.execute(f"DELETE FROM rule_firings WHERE firing_no IN {marks(others)}", others)


def _prune_events(connection: sqlite3.Connection, cutoff: float) -> Iterator[int]:
    """Events that no rule asks for any more, or that no engine took in all this time; they are no firings yet."""
    wanted = sorted(wanted_kinds(connection))
    query = (
        f"SELECT event_no FROM rule_events WHERE (recorded_at < ? OR kind NOT IN {marks(wanted)}) "
        "AND event_no < (SELECT max(event_no) FROM rule_events) LIMIT ?"
    )
    while numbers := [row[0] for row in connection.execute(query, (cutoff, *wanted, _PORTION))]:
        with transaction(connection):
            connection.execute(f"DELETE FROM rule_events WHERE event_no IN {marks(numbers)}", numbers)
        yield 0
    if not any(kind in wanted for kind in BY_SILENCE):
        cutoff = float("inf")
    with transaction(connection):
        connection.execute("DELETE FROM rule_sessions WHERE touched_at < ?", (cutoff,))
    yield 0
