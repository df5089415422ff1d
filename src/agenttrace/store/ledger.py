"""The usage ledger: the tokens of one model response count once, in the session that had it first.

Agents log the usage of one response several times, growing while it streams, and copy whole histories into
forks. Every mention is a claim. Claims of one response are merged by the largest output, whole record; the owner
is the session that is no known copy and was begun first. Both rules compare and never count, so the outcome does not
depend on the order in which files are read, but for draws; a session of which more becomes known is compared anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from agenttrace.model import Session, Usage

Wanted = TypeVar("Wanted")

_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "web_searches",
)
_TOKENS = ", ".join(_FIELDS)
#: What a copy says that does not name the model; any name is better.
UNKNOWN_MODEL = "unknown"
_OUTPUT = 1
#: The first fields are disjoint; those after them are parts of them.
_DISJOINT = 4
_LATEST = 2**62

_UPSERT_RESPONSE = f"""
INSERT OR REPLACE INTO responses (response, session_id, at, day, model, estimated, copies, {_TOKENS})
VALUES ({", ".join("?" * (7 + len(_FIELDS)))})
"""

_ADD_ROLLUP = f"""
INSERT INTO usage_rollup (day, session_id, model, requests, estimated, copies, {_TOKENS})
VALUES ({", ".join("?" * (6 + len(_FIELDS)))})
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


def weight(usage: Usage, estimated: bool) -> tuple[object, ...]:
    """By what mentions of one response are compared: the largest output wins, the rest settles draws.

    Of two that agree on the output, the one with fewer tokens in all is taken: rather too few than invented.
    """
    return _weight(_tokens(usage), estimated)


def _weight(tokens: tuple[int, ...], estimated: bool) -> tuple[object, ...]:
    return tokens[_OUTPUT], not estimated, -sum(tokens[:_DISJOINT]), tokens


def named_model(new: str, old: str, *, heavier: bool) -> str:
    """The model of two mentions of one response; some copies do not name it, and any name is better than none."""
    if UNKNOWN_MODEL in (new, old):
        return old if new == UNKNOWN_MODEL else new
    return new if heavier else old


def _tokens(usage: Usage) -> tuple[int, ...]:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        usage.web_searches,
    )


def moved_sessions(connection: sqlite3.Connection, sessions: Iterable[Session]) -> dict[int, bool]:
    """Sessions of which more is known than the store has, so that they rank anew; True: they rank lower.

    A subagent's log is often read before the main log that tells when the session began.
    """
    now = {session.id: _rank_of(session.copied, session.born) for session in sessions}
    moved: dict[int, bool] = {}
    for part in _portions(list(now)):
        query = f"SELECT id, copied, born FROM sessions WHERE id IN ({','.join('?' * len(part))})"
        for number, copied, born in connection.execute(query, part):
            before = _rank_of(copied, born)
            if before != now[number]:
                moved[number] = now[number] > before
    return moved


def settle(
    connection: sqlite3.Connection,
    claims: Sequence[Claim],
    *,
    day_of: Callable[[int], str],
    moved: Mapping[int, bool] = MappingProxyType({}),
) -> set[bytes]:
    """Enter a batch of claims and keep the roll-up equal to the ledger; ``moved`` sessions are stored by now.

    The responses come back that were known before and are told differently now.
    """
    contested = _held_by(connection, moved)
    before = _load(connection, {claim.response for claim in claims} | contested.keys())
    rank = _Rank(connection)
    after = dict(before)
    for claim in claims:
        after[claim.response] = _merge(after.get(claim.response), claim, rank, day_of)
    for response, holders in contested.items():
        if response in after:
            owner = min((after[response].session, *holders), key=rank)
            after[response] = after[response]._replace(session=owner)
    connection.executemany(
        _UPSERT_RESPONSE, ((response, *entry[:-1], *entry.tokens) for response, entry in after.items())
    )
    _apply(connection, before.values(), after.values())
    return {
        response
        for response, entry in before.items()
        if (entry.at, entry.tokens) != (after[response].at, after[response].tokens)
    }


def replace(
    connection: sqlite3.Connection, removed: Iterable[bytes], claims: Sequence[Claim], *, day_of: Callable[[int], str]
) -> set[bytes]:
    """Take responses out, and enter claims in place of what was known of theirs; those that are new or others now."""
    gone = set(removed)
    after = {
        claim.response: _Entry(
            claim.session,
            claim.at,
            day_of(claim.at),
            claim.model,
            int(claim.estimated),
            claim.copies,
            _tokens(claim.usage),
        )
        for claim in claims
    }
    before = _load(connection, gone | after.keys())
    changed = {response: entry for response, entry in after.items() if before.get(response) != entry}
    connection.executemany("DELETE FROM responses WHERE response = ?", ((response,) for response in gone))
    connection.executemany(
        _UPSERT_RESPONSE, ((response, *entry[:-1], *entry.tokens) for response, entry in changed.items())
    )
    old = [entry for response, entry in before.items() if response in gone or response in changed]
    _apply(connection, old, changed.values())
    return set(changed)


def _held_by(connection: sqlite3.Connection, moved: Mapping[int, bool]) -> dict[bytes, set[int]]:
    """The responses of these sessions, with the sessions that may own them now."""
    held: dict[bytes, set[int]] = {}
    for session in moved:
        query = "SELECT response FROM spans WHERE session_id = ? AND response IS NOT NULL"
        for (response,) in connection.execute(query, (session,)):
            held.setdefault(response, set()).add(session)
    if any(moved.values()):
        # Whoever ranks lower may lose to a session that is not among them. Rare enough for one look at all spans.
        for response, session in connection.execute("SELECT response, session_id FROM spans WHERE response NOTNULL"):
            if response in held:
                held[response].add(session)
    return held


def _merge(known: _Entry | None, claim: Claim, rank: _Rank, day_of: Callable[[int], str]) -> _Entry:
    tokens = _tokens(claim.usage)
    if known is None:
        return _Entry(
            claim.session, claim.at, day_of(claim.at), claim.model, int(claim.estimated), claim.copies, tokens
        )
    session, at, day, model, estimated, copies, old_tokens = known
    heavier = (_weight(tokens, claim.estimated), claim.model) > (_weight(old_tokens, bool(estimated)), model)
    model = named_model(claim.model, model, heavier=heavier)
    if heavier:
        estimated = int(claim.estimated)
    else:
        tokens = old_tokens
    if claim.session != session and rank(claim.session) < rank(session):
        session = claim.session
    if claim.at < at:
        at, day = claim.at, day_of(claim.at)
    return _Entry(session, at, day, model, estimated, copies + claim.copies + 1, tokens)


class _Rank:
    """Who had a response first: no known copy before a copy, then the log that was begun earlier.

    A draw (a copy that nothing tells from its original) leaves the response with whoever was recorded first.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, tuple[int, int]] = {}

    def __call__(self, session: int) -> tuple[int, int]:
        if session not in self._known:
            row = self._connection.execute("SELECT copied, born FROM sessions WHERE id = ?", (session,)).fetchone()
            self._known[session] = _rank_of(*(row or (True, None)))
        return self._known[session]


def _rank_of(copied: int | bool, born: int | None) -> tuple[int, int]:
    return int(copied), _LATEST if born is None else born


def _load(connection: sqlite3.Connection, responses: set[bytes]) -> dict[bytes, _Entry]:
    found: dict[bytes, _Entry] = {}
    for part in _portions(list(responses)):
        rows = connection.execute(
            f"SELECT response, session_id, at, day, model, estimated, copies, {_TOKENS} "
            f"FROM responses WHERE response IN ({','.join('?' * len(part))})",
            part,
        )
        for row in rows:
            response, session, at, day, model, estimated, copies, *tokens = row
            found[response] = _Entry(session, at, day, model, estimated, copies, tuple(tokens))
    return found


def _portions(wanted: list[Wanted]) -> Iterator[list[Wanted]]:
    """As many as one statement may bind."""
    for start in range(0, len(wanted), 500):
        yield wanted[start : start + 500]


def _apply(connection: sqlite3.Connection, before: Iterable[_Entry], after: Iterable[_Entry]) -> None:
    """Move the roll-up by the difference."""
    sums: dict[tuple[str, int, str], list[int]] = {}
    for sign, entries in ((-1, before), (1, after)):
        for entry in entries:
            row = sums.setdefault((entry.day, entry.session, entry.model), [0] * (3 + len(_FIELDS)))
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
