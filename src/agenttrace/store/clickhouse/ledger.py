"""The usage ledger of many machines: the tokens of one response count once, in the session that had it first.

Each machine has its own ledger (see ``sqlite.ledger``) and sends for each response the session that owns it there. A
response that only one machine tells, which is nearly all of them, counts as it says. ``contested`` names the others,
and those of sessions that several machines have: they are settled when a question is asked, because which copies of
sessions are shown may change at any time. Compared are the sessions that hold such a response: see ``holders``.

``responses`` is in the order of sessions, as they are read; ``owners`` in that of responses, for a look at what is
known of them; ``rollup`` has sums by day and session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.relations import COUNTS
from agenttrace.store.clickhouse.tables import RESPONSES, Stamp, Table, put, response_values
from agenttrace.store.rows import RemovedRow, ResponseRow, StoredSpan

_OWNERS = Table.of("owners", "origin", "response", "session")
_CONTESTED = Table.of("contested", "response")
_HOLDERS = Table.of("holders", "origin", "response", "session", "span_id")
_GONE = Table.of("responses", "session", "origin", "response")

_KNOWN = """
SELECT response, argMax((session, ver), ver) FROM owners WHERE response IN :keys AND origin = :origin GROUP BY response
"""
_ON_MANY = """
SELECT response FROM owners WHERE response IN :keys GROUP BY response HAVING uniqExact(origin) > 1
"""

_OF_COPIES = """
SELECT response FROM owners WHERE response IN :keys AND origin = :origin AND session IN (SELECT session FROM copies)
"""
_CONTEST = """
INSERT INTO contested (response, ver, deleted, revision)
SELECT DISTINCT response, 0, 0, 0 FROM responses FINAL WHERE session IN :sessions
"""
_PLACE = "day, session, model, variant"
_SUMS = ", ".join(f"sum({name})" for name in COUNTS)
#: Sums that nothing is left of are taken out. The index that finds sessions is one of the key, so nothing is skipped
#: that replaces a row.
_ADD_UP = f"""
INSERT INTO rollup ({_PLACE}, origin, {", ".join(COUNTS)}, ver, deleted, revision)
SELECT {_PLACE}, :origin, {_SUMS}, :ver, sum(requests) = 0, :ver FROM (
    SELECT {_PLACE}, 1 AS requests, toInt64(estimated) AS estimated, copies, {", ".join(USAGE_FIELDS)}
    FROM responses FINAL WHERE session IN :sessions AND origin = :origin
    UNION ALL
    SELECT {_PLACE}, {", ".join("0" for _ in COUNTS)} FROM rollup FINAL
    WHERE session IN :sessions AND origin = :origin
) GROUP BY {_PLACE} SETTINGS use_skip_indexes_if_final = 1
"""


class _Known(NamedTuple):
    """What is stored of a response of one machine."""

    session: int
    ver: int


def write_responses(
    database: Database,
    rows: Iterable[ResponseRow],
    removed: Iterable[RemovedRow],
    stamp: Stamp,
    *,
    day_of: Callable[[int], str],
) -> None:
    """Store responses of one machine, and take out those that it removed.

    What ``owners`` says of them is written after everything that depends on what it said before, so that a page of
    which a part was stored is stored again as if nothing of it had been.
    """
    newest = _newest([*rows, *removed])
    if not newest:
        return
    known = _known(database, newest, stamp.origin)
    fresh = {key: row for key, row in newest.items() if key not in known or _ver(row) >= known[key].ver}
    told = [row for row in fresh.values() if isinstance(row, ResponseRow)]
    gone = [(known[key].session, row) for key, row in fresh.items() if key in known and _leaves(row, known[key])]
    put(database, RESPONSES, [response_values(row, stamp, day_of) for row in told])
    put(
        database,
        _GONE,
        [(session, stamp.origin, _key(row), *stamp.of(row.revision, deleted=True)) for session, row in gone],
    )
    _add_up(database, {row.session for row in told} | {session for session, _ in gone}, stamp.origin)
    put(database, _OWNERS, [_owner(row, stamp, known.get(key)) for key, row in fresh.items()])
    many = {key for (key,) in database.rows(_ON_MANY, keys=list(newest))}
    if database.has_rows("copies"):
        many |= {key for (key,) in database.rows(_OF_COPIES, keys=list(newest), origin=stamp.origin)}
    put(database, _CONTESTED, [(key, 0, 0, 0) for key in many])


def contest(database: Database, sessions: Sequence[int]) -> None:
    """From now on settle the responses of these sessions when a question is asked."""
    if sessions:
        database.command(_CONTEST, sessions=list(sessions))


def hold(database: Database, spans: Iterable[StoredSpan], stamp: Stamp, *, token: str | None) -> None:
    """Note of which responses these spans are."""
    rows = [
        (stamp.origin, span.response, span.session, span.span_id, *stamp.of(span.revision))
        for span in spans
        if span.response is not None
    ]
    put(database, _HOLDERS, rows, token=token)


_Told = ResponseRow | RemovedRow


def _key(row: _Told) -> bytes:
    return row.response if isinstance(row, ResponseRow) else row.key


def _ver(row: _Told) -> int:
    """A removal is newer than the row of its revision."""
    return 2 * row.revision + isinstance(row, RemovedRow)


def _newest(rows: Sequence[_Told]) -> dict[bytes, _Told]:
    found: dict[bytes, _Told] = {}
    for row in rows:
        if _key(row) not in found or _ver(row) > _ver(found[_key(row)]):
            found[_key(row)] = row
    return found


def _known(database: Database, keys: Iterable[bytes], origin: str) -> dict[bytes, _Known]:
    rows = database.rows(_KNOWN, keys=list(keys), origin=origin)
    return {key: _Known._make(place) for key, place in rows}


def _leaves(row: _Told, known: _Known) -> bool:
    """Whether a response is not in the session any more in which it was."""
    return isinstance(row, RemovedRow) or row.session != known.session


def _owner(row: _Told, stamp: Stamp, known: _Known | None) -> tuple[object, ...]:
    gone = isinstance(row, RemovedRow)
    session = (known.session if known else 0) if isinstance(row, RemovedRow) else row.session
    return stamp.origin, _key(row), session, *stamp.of(row.revision, deleted=gone)


def _add_up(database: Database, sessions: Iterable[int], origin: str) -> None:
    if wanted := sorted(set(sessions)):
        database.command(_ADD_UP, sessions=wanted, origin=origin, ver=NUMBERS.one())
