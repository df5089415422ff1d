"""Numbers that prove themselves: our count of a session against what its agent says it used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.questions import MAIN_STREAM, NOTHING, TELEMETRY, Agreement, Reason
from agenttrace.store.sqlite.totals import COMPARED, NOT_PRUNED, Book, CountedCall, Tokens, added, calls_of

#: The fields that are compared; every token is in exactly one of them.
FIELDS = USAGE_FIELDS[:COMPARED]

_STREAMS = f"""
SELECT whose, max(at), {", ".join(f"sum({field})" for field in USAGE_FIELDS)} FROM totals
WHERE session_id = ? AND scope = 'stream' AND {NOT_PRUNED} GROUP BY whose ORDER BY whose
"""
_WITH_TOTALS = f"SELECT DISTINCT session_id FROM totals WHERE scope IN ('session', 'stream') AND {NOT_PRUNED}"
_ESTIMATED = "SELECT estimated FROM responses WHERE response = ?"
_QUARANTINED = """
SELECT count(*) FROM quarantine WHERE file_id IN (
    SELECT DISTINCT file_id FROM raw_blocks WHERE block_id IN
        (SELECT DISTINCT block_id FROM processed_events WHERE session_id = ?)
)
"""


class _Part(NamedTuple):
    """One comparison."""

    claimed: Tokens
    calls: list[CountedCall]
    unlogged: Tokens
    difference: Tokens
    reasons: list[Reason]


def sessions_with_totals(connection: sqlite3.Connection) -> set[int]:
    """The sessions whose agent told a total."""
    return {row[0] for row in connection.execute(_WITH_TOTALS)}


def check(connection: sqlite3.Connection, session: int) -> Agreement:
    """Compare what we counted of a session with what its agent says."""
    parts = [*_whole(connection, session), *_streams(connection, session)]
    if not any(part.calls or any(part.claimed[:COMPARED]) for part in parts):
        return NOTHING
    difference = added(part.difference for part in parts)
    differ = [part for part in parts if any(part.difference[:COMPARED])]
    reasons = [reason for part in parts for reason in part.reasons]
    if differ:
        reasons += _explained(connection, session, [call for part in differ for call in part.calls], bool(reasons))
    unlogged = added(part.unlogged for part in parts)
    counted = added([unlogged, *(call.tokens for part in parts for call in part.calls)])
    return Agreement(
        status="differ" if differ else "agree",
        checked=sum(len(part.calls) for part in parts),
        claimed=_named(added(part.claimed for part in parts)),
        counted=_named(counted),
        unlogged=_named(unlogged) if any(unlogged[:COMPARED]) else {},
        difference=_named(difference) if differ else {},
        reasons=reasons,
    )


def _named(tokens: Tokens) -> dict[str, int]:
    return dict(zip(FIELDS, tokens, strict=False))


def _whole(connection: sqlite3.Connection, session: int) -> Iterator[_Part]:
    for stretch in Book(connection).stretches(session):
        reasons = [Reason("killed", len(stretch.forgotten))] if stretch.forgotten else []
        unlogged = added(stretch.unlogged.values())
        yield _Part(added(stretch.claimed.values()), stretch.calls, unlogged, stretch.difference, reasons)


def _streams(connection: sqlite3.Connection, session: int) -> Iterator[_Part]:
    for stream, at, *tokens in connection.execute(_STREAMS, (session,)).fetchall():
        if stream == TELEMETRY and not any(tokens):
            continue  # withdrawn: the log counts
        shown = MAIN_STREAM if stream == TELEMETRY else stream
        calls = [call for call in calls_of(connection, session, shown) if call.at <= at]
        counted = added(call.tokens for call in calls)
        difference = tuple(theirs - ours for theirs, ours in zip(tokens, counted, strict=True))
        reasons = [] if calls else [Reason("missing", name=stream)]
        yield _Part(tuple(tokens), calls, (0,) * len(tokens), difference, reasons)


def _explained(
    connection: sqlite3.Connection, session: int, calls: Iterable[CountedCall], known: bool
) -> Iterator[Reason]:
    estimated = sum(connection.execute(_ESTIMATED, (call.response,)).fetchone()[0] for call in calls)
    if estimated:
        yield Reason("placeholder", estimated)
    (quarantined,) = connection.execute(_QUARANTINED, (session,)).fetchone()
    if quarantined:
        yield Reason("unread", quarantined)
    if not (estimated or quarantined or known):
        yield Reason("unknown")
