"""The usage ledger: the tokens of one model response count once, in the session that had it first.

Agents log the usage of one response several times, growing while it streams, and copy whole histories into
forks. Every mention is a claim. Claims of one response are merged by the largest output, whole record. The owner is
the lowest of the sessions that hold it, in a total order on what their logs say: no known copy before a copy, then the
log that was begun first, then the one that ended first (a resumed session goes on where its original stops), then the
number of the session. Nothing depends on the order in which files are read; a session of which more becomes known is
compared anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agenttrace.model import USAGE_FIELDS, Session, Usage
from agenttrace.prices.table import variant_of
from agenttrace.store.batch import UNKNOWN_MODEL, Claim
from agenttrace.store.rows import RemovedRow, ResponseRow
from agenttrace.store.sqlite.database import marks, portions

_TOKENS = ", ".join(USAGE_FIELDS)
_OUTPUT = 1
#: The first fields are disjoint; those after them are parts of them.
_DISJOINT = 4
_LATEST = 2**62
#: Columns of a response before its tokens.
_BEFORE_TOKENS = 9

_UPSERT_RESPONSE = f"""
INSERT OR REPLACE INTO responses (response, session_id, at, day, model, estimated, copies, terms, variant, {_TOKENS},
    revision)
VALUES ({", ".join("?" * (10 + len(USAGE_FIELDS)))})
"""

_ADD_ROLLUP = f"""
INSERT INTO usage_rollup (day, session_id, model, variant, requests, estimated, copies, {_TOKENS})
VALUES ({", ".join("?" * (7 + len(USAGE_FIELDS)))})
ON CONFLICT (day, session_id, model, variant) DO UPDATE SET
    requests = requests + excluded.requests, estimated = estimated + excluded.estimated,
    copies = copies + excluded.copies,
    {", ".join(f"{name} = {name} + excluded.{name}" for name in USAGE_FIELDS)}
"""

_DROP_EMPTY = "DELETE FROM usage_rollup WHERE day = ? AND session_id = ? AND model = ? AND variant = ? AND requests = 0"


class _Entry(NamedTuple):
    """A response as the ledger holds it."""

    session: int
    at: int
    day: str
    model: str
    estimated: int
    copies: int
    terms: str
    #: What its price depends on beside model and day.
    variant: str
    tokens: tuple[int, ...]


def _entry(claim: Claim, day: str) -> _Entry:
    """A response as its first claim tells it."""
    tokens = _tokens(claim.usage)
    variant = _variant(claim.model, tokens, claim.at, claim.terms)
    place = (claim.session, claim.at, day, claim.model)
    return _Entry(*place, int(claim.estimated), claim.copies, claim.terms, variant, tokens)


def _variant(model: str, tokens: tuple[int, ...], at: int, terms: str) -> str:
    prompt = sum(tokens[:_DISJOINT]) - tokens[_OUTPUT]
    return variant_of(model, prompt, at, terms)


def weight(usage: Usage, estimated: bool) -> tuple[object, ...]:
    """By what mentions of one response are compared: the largest output wins, the rest settles draws.

    Of two that agree on the output, the one with fewer tokens in all is taken: rather too few than invented.
    """
    return _weight(_tokens(usage), estimated)


def _weight(tokens: tuple[int, ...], estimated: bool) -> tuple[object, ...]:
    return tokens[_OUTPUT], not estimated, -sum(tokens[:_DISJOINT]), tokens


def named_model(one: str, other: str) -> str:
    """The model of two mentions of one response: some copies do not name it; two names never depend on the order."""
    if UNKNOWN_MODEL in (one, other):
        return other if one == UNKNOWN_MODEL else one
    return max(one, other)


def joined_terms(one: str, other: str) -> str:
    """The terms of two mentions of one response: the first lines of a stream do not tell all of them yet."""
    if one == other or not other:
        return one
    return " ".join(sorted({*one.split(), *other.split()}))


def _tokens(usage: Usage) -> tuple[int, ...]:
    return msgspec.structs.astuple(usage)


class _Rank(NamedTuple):
    """Where a session stands among those that hold a response: the lowest owns it."""

    copied: int
    born: int
    #: Of two logs with one beginning, the one that stops first is what the other was continued from.
    ended: int
    number: int


def _rank_of(number: int, copied: int | bool, born: int | None, last_at: int | None) -> _Rank:
    if born is None or last_at is None:
        return _Rank(int(copied), _LATEST if born is None else born, 0, number)
    return _Rank(int(copied), born, last_at, number)


class Moved(NamedTuple):
    """Sessions that rank otherwise than the store has them."""

    #: They may take responses over from others.
    risen: frozenset[int]
    #: Any other session may take responses over from them.
    fallen: frozenset[int]


def moved_sessions(connection: sqlite3.Connection, sessions: Iterable[Session]) -> Moved:
    """Which sessions rank anew with a batch; asked before their rows are written.

    A subagent's log is often read before the main log that tells when the session began. While a log grows its end
    moves, which matters only to sessions with the same beginning.
    """
    now = {row.id: _rank_of(row.id, row.copied, row.born, row.last_at) for row in sessions}
    before = _ranks(connection, "id", list(now))
    risen: set[int] = set()
    fallen: set[int] = set()
    grown: set[int] = set()
    for number, rank in before.items():
        if now[number] < rank:
            risen.add(number)
        elif rank < now[number]:
            (grown if rank[:2] == now[number][:2] else fallen).add(number)
    if grown:
        twins = _ranks(connection, "born", list({before[number].born for number in grown}))
        risen |= {
            twin
            for number in grown
            for twin, rank in twins.items()
            if before[number] < rank and now.get(twin, rank) < now[number]
        }
    return Moved(frozenset(risen), frozenset(fallen))


def _ranks(connection: sqlite3.Connection, column: str, wanted: list[int]) -> dict[int, _Rank]:
    """The stored ranks of the sessions that have one of these values."""
    found: dict[int, _Rank] = {}
    for part in portions(wanted):
        query = f"SELECT id, copied, born, last_at FROM sessions WHERE {column} IN {marks(part)}"
        found.update((row[0], _rank_of(*row)) for row in connection.execute(query, part))
    return found


def without_strangers(connection: sqlite3.Connection, claims: Sequence[Claim]) -> list[Claim]:
    """The claims without those of repeated lines that name a response of which their session knew nothing by then.

    Such a line contradicts the one that was recorded under its id. Where batches end must not decide whether it counts,
    so this is asked before the batch's spans are written.
    """
    told: dict[tuple[bytes, int], int] = {}
    for claim in claims:
        if claim.copies >= 0:
            place = (claim.response, claim.session)
            told[place] = min(claim.order, told.get(place, claim.order))
    late = [claim for claim in claims if claim.copies < 0 and told.get(claim[:2], claim.order) >= claim.order]
    stored = _load(connection, {claim.response for claim in late})
    raising = {claim for claim in late if claim.response in stored and _raises(stored[claim.response], claim)}
    held = {session: responses_of(connection, session) for session in {claim.session for claim in raising}}
    strangers = {claim for claim in late if claim not in raising or claim.response not in held[claim.session]}
    return [claim for claim in claims if claim not in strangers]


def _raises(known: _Entry, claim: Claim) -> bool:
    """Whether a repeated line changes what is known."""
    return (
        _weight(_tokens(claim.usage), claim.estimated) > _weight(known.tokens, bool(known.estimated))
        or claim.at < known.at
        or joined_terms(known.terms, claim.terms) != known.terms
        or named_model(claim.model, known.model) != known.model
    )


def responses_of(connection: sqlite3.Connection, session: int) -> set[bytes]:
    """The responses that the spans of a session name."""
    query = "SELECT response FROM spans WHERE session_id = ? AND response IS NOT NULL"
    return {response for (response,) in connection.execute(query, (session,))}


def settle(
    connection: sqlite3.Connection,
    claims: Sequence[Claim],
    *,
    day_of: Callable[[int], str],
    moved: Moved,
    revision: int,
) -> set[bytes]:
    """Enter a batch of claims and keep the roll-up equal to the ledger; ``moved`` sessions are stored by now.

    The responses come back that were known before and are told differently now.
    """
    contested = _held_by(connection, moved)
    before = _load(connection, {claim.response for claim in claims} | contested.keys())
    rank = StoredRanks(connection)
    after = dict(before)
    for claim in claims:
        if claim.copies >= 0:
            after[claim.response] = _merge(after.get(claim.response), claim, rank, day_of)
    for claim in claims:
        if claim.copies < 0 and (known := after.get(claim.response)) is not None:
            after[claim.response] = _merge(known, claim._replace(session=known.session), rank, day_of)
    for response, holders in contested.items():
        if response in after:
            owner = min((after[response].session, *holders), key=rank)
            after[response] = after[response]._replace(session=owner)
    changed = {response: entry for response, entry in after.items() if entry != before.get(response)}
    _put(connection, changed, revision)
    _apply(connection, (before[response] for response in changed.keys() & before.keys()), changed.values())
    return {
        response
        for response, entry in before.items()
        if (entry.at, entry.tokens) != (after[response].at, after[response].tokens)
    }


def replace(
    connection: sqlite3.Connection,
    removed: Iterable[bytes],
    claims: Sequence[Claim],
    *,
    day_of: Callable[[int], str],
    revision: int,
) -> set[bytes]:
    """Take responses out, and enter claims in place of what was known of theirs; those that are new or others now."""
    gone = set(removed)
    after = {claim.response: _entry(claim, day_of(claim.at)) for claim in claims}
    before = _load(connection, gone | after.keys())
    changed = {response: entry for response, entry in after.items() if before.get(response) != entry}
    connection.executemany("DELETE FROM responses WHERE response = ?", ((response,) for response in gone))
    _put(connection, changed, revision)
    old = [entry for response, entry in before.items() if response in gone or response in changed]
    _apply(connection, old, changed.values())
    return set(changed)


def merge(
    connection: sqlite3.Connection,
    rows: Iterable[ResponseRow],
    removed: Iterable[RemovedRow],
    *,
    day_of: Callable[[int], str],
) -> None:
    """Enter responses of another store, and take out those that it removed, where these are not newer here."""
    given = {row.response: row for row in rows}
    gone = {row.key: row.revision for row in removed}
    stored = _revisions(connection, given.keys() | gone.keys())
    out = {response for response, revision in gone.items() if stored.get(response, revision + 1) <= revision}
    fresh = [row for response, row in given.items() if row.revision > stored.get(response, -1)]
    before = _load(connection, out | {row.response for row in fresh})
    connection.executemany("DELETE FROM responses WHERE response = ?", ((response,) for response in out))
    after = {row.response: _copied(row, day_of(row.at)) for row in fresh}
    for row in fresh:
        _put(connection, {row.response: after[row.response]}, row.revision)
    _apply(connection, before.values(), after.values())


def _copied(row: ResponseRow, day: str) -> _Entry:
    tokens = _tokens(row.usage)
    variant = _variant(row.model, tokens, row.at, row.terms)
    place = (row.session, row.at, day, row.model)
    return _Entry(*place, int(row.estimated), row.copies, row.terms, variant, tokens)


def _revisions(connection: sqlite3.Connection, responses: Iterable[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for part in portions(responses):
        query = f"SELECT response, revision FROM responses WHERE response IN {marks(part)}"
        found.update(connection.execute(query, part).fetchall())
    return found


def _put(connection: sqlite3.Connection, entries: Mapping[bytes, _Entry], revision: int) -> None:
    rows = ((response, *entry[:-1], *entry.tokens, revision) for response, entry in entries.items())
    connection.executemany(_UPSERT_RESPONSE, rows)


def _held_by(connection: sqlite3.Connection, moved: Moved) -> dict[bytes, set[int]]:
    """The responses that may have another owner now, with the sessions that may be it."""
    held: dict[bytes, set[int]] = {}
    for session in moved.risen | moved.fallen:
        for response in responses_of(connection, session):
            held.setdefault(response, set()).add(session)
    if moved.fallen:
        # Rare enough for one look at all spans.
        for response, session in connection.execute("SELECT response, session_id FROM spans WHERE response NOTNULL"):
            if response in held:
                held[response].add(session)
    return held


def _merge(known: _Entry | None, claim: Claim, rank: StoredRanks, day_of: Callable[[int], str]) -> _Entry:
    if known is None:
        return _entry(claim, day_of(claim.at))
    session, at, day, model, estimated, copies, terms, _, tokens = known
    if _weight(_tokens(claim.usage), claim.estimated) > _weight(tokens, bool(estimated)):
        estimated, tokens = int(claim.estimated), _tokens(claim.usage)
    terms = joined_terms(terms, claim.terms)
    if claim.session != session and rank(claim.session) < rank(session):
        session = claim.session
    if claim.at < at:
        at, day = claim.at, day_of(claim.at)
    model = named_model(claim.model, model)
    variant = _variant(model, tokens, at, terms)
    return _Entry(session, at, day, model, estimated, copies + claim.copies + 1, terms, variant, tokens)


class StoredRanks:
    """The ranks of sessions, each looked up once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, _Rank] = {}

    def __call__(self, session: int) -> _Rank:
        """The rank of a session."""
        if session not in self._known:
            found = _ranks(self._connection, "id", [session])
            self._known[session] = found.get(session) or _rank_of(session, True, None, None)
        return self._known[session]


def _load(connection: sqlite3.Connection, responses: set[bytes]) -> dict[bytes, _Entry]:
    found: dict[bytes, _Entry] = {}
    for part in portions(responses):
        rows = connection.execute(
            f"SELECT response, session_id, at, day, model, estimated, copies, terms, variant, {_TOKENS} "
            f"FROM responses WHERE response IN {marks(part)}",
            part,
        )
        for row in rows:
            found[row[0]] = _Entry._make((*row[1:_BEFORE_TOKENS], tuple(row[_BEFORE_TOKENS:])))
    return found


def _apply(connection: sqlite3.Connection, before: Iterable[_Entry], after: Iterable[_Entry]) -> None:
    """Move the roll-up by the difference."""
    sums: dict[tuple[str, int, str, str], list[int]] = {}
    for sign, entries in ((-1, before), (1, after)):
        for entry in entries:
            row = sums.setdefault((entry.day, entry.session, entry.model, entry.variant), [0] * (3 + len(USAGE_FIELDS)))
            row[0] += sign
            row[1] += sign * entry.estimated
            row[2] += sign * entry.copies
            for index, count in enumerate(entry.tokens, start=3):
                row[index] += sign * count
    changed = {place: row for place, row in sums.items() if any(row)}
    connection.executemany(_ADD_ROLLUP, ((*place, *row) for place, row in changed.items()))
    connection.executemany(_DROP_EMPTY, (place for place, row in changed.items() if row[0] < 0))


def rebuild_rollup(connection: sqlite3.Connection, *, day_of: Callable[[int], str]) -> None:
    """Recompute days, variants and sums from the ledger, after the time zone or the steps of prices changed."""
    rows = connection.execute(f"SELECT response, at, model, terms, {_TOKENS} FROM responses").fetchall()
    connection.executemany(
        "UPDATE responses SET day = ?, variant = ? WHERE response = ?",
        ((day_of(at), _variant(model, tuple(tokens), at, terms), key) for key, at, model, terms, *tokens in rows),
    )
    connection.execute("DELETE FROM usage_rollup")
    sums = ", ".join(f"sum({name})" for name in USAGE_FIELDS)
    connection.execute(
        f"INSERT INTO usage_rollup (day, session_id, model, variant, requests, estimated, copies, {_TOKENS}) "
        f"SELECT day, session_id, model, variant, count(*), sum(estimated), sum(copies), {sums} "
        "FROM responses GROUP BY day, session_id, model, variant"
    )
