"""The usage ledger of a team's store: what every source says of a response, settled for the sessions that are shown.

A source has a say in a response if it is shown in a session that holds it. Of what these sources say, the largest
output wins, and the session with the lowest rank owns it, as in ``ledger``.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import NamedTuple

import msgspec

from agenttrace.model import USAGE_FIELDS, Usage
from agenttrace.store.batch import Claim
from agenttrace.store.rows import ResponseRow
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import marks, portions

_TOKENS = ", ".join(USAGE_FIELDS)
_PUT = f"""
INSERT OR REPLACE INTO team_claims (response, source, session_id, at, model, estimated, copies, terms, {_TOKENS})
VALUES ({", ".join("?" * (8 + len(USAGE_FIELDS)))})
"""
_CLAIMS = f"""
SELECT response, source, session_id, at, model, estimated, copies, terms, {_TOKENS} FROM team_claims
WHERE response IN {{marks}} ORDER BY response, source
"""
#: The sessions that hold a response, with the source from which each is shown.
_HOLDERS = """
SELECT spans.response, session_id, source FROM spans JOIN team_copies USING (session_id)
WHERE shown AND spans.response IN {marks}
UNION
SELECT response, session_id, source FROM team_held JOIN team_copies USING (session_id, source)
WHERE shown AND response IN {marks}
UNION
SELECT response, session_id, source FROM team_claims JOIN team_copies USING (session_id, source)
WHERE shown AND response IN {marks}
"""


class _Said(NamedTuple):
    """What a source says of a response."""

    source: int
    claim: Claim


def put(connection: sqlite3.Connection, source: int, rows: Iterable[ResponseRow]) -> None:
    """What a source says of some responses, in place of what it said before."""
    connection.executemany(
        _PUT,
        (
            (
                row.response,
                source,
                row.session,
                row.at,
                row.model,
                int(row.estimated),
                row.copies,
                row.terms,
                *msgspec.structs.astuple(row.usage),
            )
            for row in rows
        ),
    )


def remove(connection: sqlite3.Connection, source: int, responses: Iterable[bytes]) -> None:
    """A source says nothing of these any more."""
    values = ((response, source) for response in responses)
    connection.executemany("DELETE FROM team_claims WHERE response = ? AND source = ?", values)


def responses_of(connection: sqlite3.Connection, session: int) -> set[bytes]:
    """The responses that may have another owner when another copy of a session is shown."""
    claimed = connection.execute("SELECT response FROM team_claims WHERE session_id = ?", (session,))
    held = connection.execute("SELECT response FROM team_held WHERE session_id = ?", (session,))
    return ledger.responses_of(connection, session) | {row[0] for row in claimed} | {row[0] for row in held}


def settle(
    connection: sqlite3.Connection, responses: Iterable[bytes], *, day_of: Callable[[int], str], revision: int
) -> tuple[set[bytes], set[int]]:
    """Bring the ledger up to date for these responses; those that left it, and the sessions whose usage changed."""
    gone: set[bytes] = set()
    sessions: set[int] = set()
    rank = ledger.StoredRanks(connection)
    for part in portions(responses):
        claims = _settled(connection, part, rank)
        before = _owners(connection, part)
        removed = before.keys() - claims.keys()
        changed = ledger.replace(connection, removed, list(claims.values()), day_of=day_of, revision=revision)
        sessions |= {owners[each] for each in changed | removed for owners in (before,) if each in owners}
        sessions |= {claims[each].session for each in changed}
        gone |= removed
    return gone, sessions


def _owners(connection: sqlite3.Connection, responses: list[bytes]) -> dict[bytes, int]:
    query = f"SELECT response, session_id FROM responses WHERE response IN {marks(responses)}"
    return dict(connection.execute(query, responses).fetchall())


def _settled(connection: sqlite3.Connection, part: list[bytes], rank: ledger.StoredRanks) -> dict[bytes, Claim]:
    holders: dict[bytes, dict[int, int]] = defaultdict(dict)
    places = marks(part)
    for response, session, source in connection.execute(_HOLDERS.format(marks=places), [*part, *part, *part]):
        holders[response][session] = source
    said: dict[bytes, list[_Said]] = defaultdict(list)
    for row in connection.execute(_CLAIMS.format(marks=places), part):
        said[row[0]].append(_said(row))
    settled = ((response, _merged(said[response], holders[response], rank)) for response in part)
    return {response: claim for response, claim in settled if claim is not None}


def _said(row: tuple[object, ...]) -> _Said:
    response, source, session, at, model, estimated, copies, terms, *tokens = row
    usage = Usage(**dict(zip(USAGE_FIELDS, tokens, strict=True)))  # type: ignore[arg-type]
    return _Said(source, Claim(response, session, at, model, bool(estimated), copies, usage, terms))  # type: ignore[arg-type]


def _merged(said: Iterable[_Said], holders: Mapping[int, int], rank: ledger.StoredRanks) -> Claim | None:
    shown = set(holders.values())
    claims = [each.claim for each in said if each.source in shown]
    return reduce(_joined, claims)._replace(session=min(holders, key=rank)) if claims else None


def _joined(one: Claim, other: Claim) -> Claim:
    best = max((one, other), key=lambda claim: ledger.weight(claim.usage, claim.estimated))
    return best._replace(
        at=min(one.at, other.at),
        model=ledger.named_model(one.model, other.model),
        copies=one.copies + other.copies + 1,
        terms=ledger.joined_terms(one.terms, other.terms),
    )
