"""The usage ledger: the tokens of one model response count once, in the session that had it first.

Agents log the usage of one response several times, growing while it streams, and copy whole histories into
forks. Every mention is a claim. Claims of one response are merged by the largest output, whole record; the owner
is the session that is no known copy and was begun first. Because both rules compare, not count, the outcome does
not depend on the order in which files are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agenttrace.model import Usage

_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)
_TOKENS = ", ".join(_FIELDS)
_OUTPUT = 1
_LATEST = 2**62

_UPSERT_RESPONSE = f"""
INSERT OR REPLACE INTO responses (response, session_id, at, day, model, estimated, copies, {_TOKENS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_ADD_ROLLUP = f"""
INSERT INTO usage_rollup (day, session_id, model, requests, estimated, copies, {_TOKENS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (day, session_id, model) DO UPDATE SET
    requests = requests + excluded.requests, estimated = estimated + excluded.estimated,
    copies = copies + excluded.copies,
    {", ".join(f"{name} = {name} + excluded.{name}" for name in _FIELDS)}
"""

_DROP_EMPTY = "DELETE FROM usage_rollup WHERE day = ? AND session_id = ? AND model = ? AND requests = 0"


class Claim(NamedTuple):
    """One mention of a response's usage, in one session."""

    response: bytes
    session: int
    at: int
    model: str
    estimated: bool
    #: How often the batch logged it beyond the first time.
    copies: int
    usage: Usage


class _Entry(NamedTuple):
    """A response as the ledger holds it."""

    session: int
    at: int
    day: str
    model: str
    estimated: int
    copies: int
    tokens: tuple[int, ...]


def settle(connection: sqlite3.Connection, claims: list[Claim], *, day_of: Callable[[int], str]) -> None:
    """Enter a batch of claims and keep the roll-up equal to the ledger."""
    before = _load(connection, {claim.response for claim in claims})
    rank = _Rank(connection)
    after = dict(before)
    for claim in claims:
        after[claim.response] = _merge(after.get(claim.response), claim, rank, day_of)
    connection.executemany(
        _UPSERT_RESPONSE, ((response, *entry[:-1], *entry.tokens) for response, entry in after.items())
    )
    _apply(connection, before.values(), after.values())


def _merge(known: _Entry | None, claim: Claim, rank: _Rank, day_of: Callable[[int], str]) -> _Entry:
    usage = claim.usage
    tokens: tuple[int, ...] = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
    )
    if known is None:
        return _Entry(
            claim.session, claim.at, day_of(claim.at), claim.model, int(claim.estimated), claim.copies, tokens
        )
    session, at, day, model, estimated, copies, old_tokens = known
    if tokens[_OUTPUT] >= old_tokens[_OUTPUT]:
        model, estimated = claim.model, int(claim.estimated)
    else:
        tokens = old_tokens
    if claim.session != session and rank(claim.session) < rank(session):
        session = claim.session
    if claim.at < at:
        at, day = claim.at, day_of(claim.at)
    return _Entry(session, at, day, model, estimated, copies + claim.copies + 1, tokens)


class _Rank:
    """Who had a response first: no known copy before a copy, then the log that was begun earlier."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, tuple[int, int]] = {}

    def __call__(self, session: int) -> tuple[int, int]:
        if session not in self._known:
            row = self._connection.execute("SELECT copied, born FROM sessions WHERE id = ?", (session,)).fetchone()
            copied, born = row or (1, None)
            self._known[session] = (copied, _LATEST if born is None else born)
        return self._known[session]


def _load(connection: sqlite3.Connection, responses: set[bytes]) -> dict[bytes, _Entry]:
    wanted = list(responses)
    found: dict[bytes, _Entry] = {}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        rows = connection.execute(
            f"SELECT response, session_id, at, day, model, estimated, copies, {_TOKENS} "
            f"FROM responses WHERE response IN ({','.join('?' * len(part))})",
            part,
        )
        for row in rows:
            response, session, at, day, model, estimated, copies, *tokens = row
            found[response] = _Entry(session, at, day, model, estimated, copies, tuple(tokens))
    return found


def _apply(connection: sqlite3.Connection, before: Iterable[_Entry], after: Iterable[_Entry]) -> None:
    """Move the roll-up by the difference."""
    sums: dict[tuple[str, int, str], list[int]] = {}
    for sign, entries in ((-1, before), (1, after)):
        for entry in entries:
            row = sums.setdefault((entry.day, entry.session, entry.model), [0] * 9)
            row[0] += sign
            row[1] += sign * entry.estimated
            row[2] += sign * entry.copies
            for index, count in enumerate(entry.tokens, start=3):
                row[index] += sign * count
    changed = {place: row for place, row in sums.items() if any(row)}
    connection.executemany(_ADD_ROLLUP, ((*place, *row) for place, row in changed.items()))
    connection.executemany(_DROP_EMPTY, (place for place, row in changed.items() if row[0] < 0))


def rebuild_rollup(connection: sqlite3.Connection, *, day_of: Callable[[int], str]) -> None:
    """Recompute days and sums from the ledger, after the time zone setting changed."""
    days = ((day_of(at), response) for response, at in connection.execute("SELECT response, at FROM responses"))
    connection.executemany("UPDATE responses SET day = ? WHERE response = ?", list(days))
    connection.execute("DELETE FROM usage_rollup")
    sums = ", ".join(f"sum({name})" for name in _FIELDS)
    connection.execute(
        f"INSERT INTO usage_rollup (day, session_id, model, requests, estimated, copies, {_TOKENS}) "
        f"SELECT day, session_id, model, count(*), sum(estimated), sum(copies), {sums} "
        "FROM responses GROUP BY day, session_id, model"
    )
