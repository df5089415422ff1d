"""Calls that no message line has: known from the agent's own totals, or from its telemetry alone.

They are shown as model calls of a stream of their own, ``not in the log``, in the turn in which they were told. What is
known only as a difference of totals has its tokens here and nowhere else; a call of telemetry is a claim like any other
and only needs a span where no line has it. All of it is worked out anew, for the sessions that a batch touched, from
what is stored, inside the transaction of the batch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from agenttrace import ids
from agenttrace.model import USAGE_FIELDS, Span, Usage
from agenttrace.store.batch import UNKNOWN_MODEL, Claim
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import marks, portions
from agenttrace.store.sqlite.revisions import note_removed
from agenttrace.store.sqlite.span_rows import NOT_IN_LOG
from agenttrace.store.sqlite.totals import Totals
from agenttrace.store.totals import Book, Count, Tokens

#: How a call is named of which only the agent's total tells.
COMPACTION = "compaction, title or another call of the agent itself"
#: How the calls of a quarter of an hour are named of which only metrics tell.
METERED = "calls that metrics count"

#: Sessions with such calls among these, and those that count under the same names: forks.
_CONCERNED = """
SELECT session_id FROM totals WHERE scope IN ('session', 'call', 'meter') AND session_id IN {marks}
UNION
SELECT session_id FROM totals WHERE scope = 'session' AND name IN
    (SELECT name FROM totals WHERE scope = 'session' AND session_id IN {marks})
"""

#: Sessions with totals that hold these responses.
_HOLDERS = """
SELECT DISTINCT spans.session_id FROM spans
WHERE spans.session_id IN (SELECT session_id FROM totals WHERE scope = 'session') AND response IN {marks}
"""

_TOLD_CALLS = """
SELECT whose, name, at, since, trace_id, parent_id, turn_index, model FROM totals
WHERE session_id = ? AND scope = 'call'
"""

_KNOWN = 'SELECT span_id, response, parent_id, start, "end" FROM spans WHERE session_id = ? AND stream = ?'
_IN_LINES = "SELECT response FROM spans WHERE session_id = ? AND stream <> ? AND response IS NOT NULL"
_DELETE = "DELETE FROM spans WHERE session_id = ? AND span_id = ?"


class Unlogged(NamedTuple):
    """A span for a call that no line has, and its tokens where nothing else claims them."""

    span: Span
    claim: Claim | None


def concerned(connection: sqlite3.Connection, sessions: Iterable[int], changed: Iterable[bytes]) -> set[int]:
    """The sessions whose calls must be worked out anew after these sessions and responses changed."""
    found: set[int] = set()
    if connection.execute("SELECT 1 FROM totals WHERE scope <> 'stream' LIMIT 1").fetchone() is None:
        return found
    for part in portions(set(sessions) | set(_held(connection, changed))):
        found.update(row[0] for row in connection.execute(_CONCERNED.format(marks=marks(part)), part * 2))
    return found


def _held(connection: sqlite3.Connection, responses: Iterable[bytes]) -> Iterable[int]:
    for part in portions(set(responses)):
        yield from (row[0] for row in connection.execute(_HOLDERS.format(marks=marks(part)), part))


def settle(
    connection: sqlite3.Connection, sessions: Iterable[int], *, day_of: Callable[[int], str], revision: int
) -> list[tuple[int, Span]]:
    """Bring these sessions' calls up to date; the spans that are to be written come back with their sessions."""
    totals = Totals(connection)
    book = Book(totals)
    spans: list[tuple[int, Span]] = []
    for session in sorted(sessions):
        if connection.execute("SELECT 1 FROM sessions WHERE id = ? AND events > 0", (session,)).fetchone():
            metered = totals.meters(session)
            if metered and totals.has_calls(session):
                metered = []
            spans += [(session, span) for span in _settle_one(connection, book, metered, session, day_of, revision)]
    return spans


def _settle_one(
    connection: sqlite3.Connection,
    book: Book,
    metered: Iterable[Count],
    session: int,
    day_of: Callable[[int], str],
    revision: int,
) -> list[Span]:
    calls = {ids.response_key(row[1]): row for row in connection.execute(_TOLD_CALLS, (session,))}
    in_lines = {row[0] for row in connection.execute(_IN_LINES, (session, NOT_IN_LOG))} if calls else set()
    wanted = [_from_telemetry(session, key, *row) for key, row in calls.items() if key not in in_lines]
    wanted += _from_totals(book, session)
    wanted += _from_meters(metered, session)
    known = {row[0]: tuple(row[1:]) for row in connection.execute(_KNOWN, (session, NOT_IN_LOG))}
    gone = known.keys() - {entry.span.span_id for entry in wanted}
    connection.executemany(_DELETE, ((session, span_id) for span_id in gone))
    note_removed(connection, [("span", session, span_id) for span_id in gone], revision)
    # What telemetry claimed stays claimed: a line has it now.
    removed = {response for span_id in gone if (response := known[span_id][0]) not in calls}
    claims = [entry.claim for entry in wanted if entry.claim is not None]
    moved = ledger.replace(connection, removed, claims, day_of=day_of, revision=revision)
    note_removed(connection, [("response", 0, response) for response in removed if response], revision)
    return [
        entry.span
        for entry in wanted
        if entry.span.response in moved or known.get(entry.span.span_id) != _place(entry.span)
    ]


def _place(span: Span) -> tuple[object, ...]:
    return span.response, span.parent_id, span.start, span.end


def _from_telemetry(
    session: int,
    response: bytes,
    whose: str,
    name: str,
    at: int,
    since: int,
    trace_id: bytes,
    parent_id: bytes | None,
    turn_index: int,
    model: str,
) -> Unlogged:
    span = _span(session, name, model, since, at, (trace_id, parent_id, turn_index), whose or "telemetry")
    span.response, span.response_name = response, name
    return Unlogged(span, None)


def _from_totals(book: Book, session: int) -> Iterator[Unlogged]:
    for stretch in book.stretches(session):
        count = stretch.told
        for model, tokens in stretch.unlogged.items():
            name = f"not in the log:{session}:{count.name}:{count.at}:{model}"
            yield _counted(session, name, model, tokens, count, COMPACTION)


def _from_meters(metered: Iterable[Count], session: int) -> Iterator[Unlogged]:
    for count in metered:
        for model, tokens in count.by_model.items():
            if any(tokens):
                yield _counted(session, f"metered:{session}:{count.name}:{model}", model, tokens, count, METERED)


def _counted(session: int, name: str, model: str, tokens: Tokens, count: Count, who: str) -> Unlogged:
    """A call whose tokens nothing else claims."""
    place = (count.trace_id, count.parent_id, count.turn_index)
    span = _span(session, name, model, count.at, count.at, place, who)
    span.response, span.response_name = ids.response_key(name), name
    usage = Usage(**dict(zip(USAGE_FIELDS, tokens, strict=True)))
    return Unlogged(span, Claim(span.response, session, count.at, model or UNKNOWN_MODEL, False, 0, usage))


def _span(
    session: int, name: str, model: str, start: int, end: int, place: tuple[bytes, bytes | None, int], who: str
) -> Span:
    trace_id, parent_id, turn_index = place
    return Span(
        span_id=ids.span_id(str(session), NOT_IN_LOG, name),
        trace_id=trace_id,
        parent_id=parent_id,
        kind="step",
        name=f"chat {model}" if model else "chat",
        start=start,
        end=end,
        status="ok",
        model=model or None,
        turn_index=turn_index,
        attributes={"not_in_log": who},
    )
