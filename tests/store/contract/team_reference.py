"""What a team's store has to answer, worked out from the stores of its machines: of each session the copy that counts.

The reference is an ordinary store with the rows of these copies, and with responses that are worked out here.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.insights import CacheQuery, FindingsQuery, InsightQuery, InsightSplit
from agenttrace.store.questions import ErrorQuery, SearchQuery, UsageQuery
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store

from .machine import all_changes, day_of
from .team_machine import Member, Team

_FAR = 10**9
USAGE = (
    UsageQuery(by="session", split="model"),
    UsageQuery(by="machine", split="person"),
    UsageQuery(by="day", split="project"),
    UsageQuery(),
)
SPLITS: tuple[InsightSplit, ...] = ("total", "model", "machine", "person")


class _Copy(NamedTuple):
    """A session as a machine has it."""

    session: Session
    member: Member


def shown_copies(members: Sequence[Member]) -> dict[int, _Copy]:
    """Of each session the copy with the most events; of equal ones that of the first machine by name."""
    found: dict[int, _Copy] = {}
    for member in sorted(members, key=lambda each: each.name):
        with member.store() as store:
            for row in all_changes(store, limit=1000)[0]:
                if isinstance(row, StoredSession):
                    known = found.get(row.session.id)
                    if known is None or row.session.events > known.session.events:
                        found[row.session.id] = _Copy(row.session, member)
    return found


def reference_rows(members: Sequence[Member]) -> list[Row]:
    """The rows of all copies that are shown."""
    shown = shown_copies(members)
    rows: list[Row] = []
    claims: dict[bytes, list[tuple[Member, ResponseRow]]] = defaultdict(list)
    for place, member in enumerate(members):
        with member.store() as store:
            for row in all_changes(store, limit=1000)[0]:
                if isinstance(row, ResponseRow):
                    claims[row.response].append((member, row))
                elif isinstance(row, FileOfLines) or _is_shown(row, shown, member):
                    rows.append(_numbered(row, place, member))
    return rows + list(_responses(rows, claims, shown))


def _is_shown(row: Row, shown: dict[int, _Copy], member: Member) -> bool:
    number = row.session.id if isinstance(row, StoredSession) else getattr(row, "session", None)
    kinds = (StoredSession, StoredSpan, LinkRow, TotalRow, EventRow, AnnotationRow)
    return isinstance(row, kinds) and number in shown and shown[number].member is member


def _numbered(row: Row, place: int, member: Member) -> Row:
    """Numbers of the first machine before those of the second."""
    if isinstance(row, StoredSession):
        session = msgspec.structs.replace(row.session, machine=member.name, person=member.person)
        return msgspec.structs.replace(row, session=session)
    if isinstance(row, EventRow | StoredSpan):
        return msgspec.structs.replace(row, number=place * _FAR + row.number)
    return row


def _responses(
    rows: Sequence[Row], claims: dict[bytes, list[tuple[Member, ResponseRow]]], shown: dict[int, _Copy]
) -> Iterator[ResponseRow]:
    holders: dict[bytes, set[int]] = defaultdict(set)
    for row in rows:
        if isinstance(row, StoredSpan) and row.response is not None:
            holders[row.response].add(row.session)
    for response, told in claims.items():
        having = holders[response] | {
            row.session for member, row in told if row.session in shown and shown[row.session].member is member
        }
        said = [row for member, row in told if any(shown[number].member is member for number in having)]
        if said:
            yield _joined(said, min(having, key=lambda number: _rank(shown[number].session)))


def _rank(session: Session) -> tuple[object, ...]:
    if session.born is None or session.last_at is None:
        return session.copied, _FAR**2 if session.born is None else session.born, 0, session.id
    return session.copied, session.born, session.last_at, session.id


def _joined(said: Sequence[ResponseRow], owner: int) -> ResponseRow:
    """The largest output, whole; the earliest time; a model that is named; how often it was logged beyond once."""
    best = max(said, key=lambda row: (row.usage.output_tokens, not row.estimated, -row.usage.total, _tokens(row.usage)))
    named = [row.model for row in said if row.model != "unknown"]
    return msgspec.structs.replace(
        best,
        session=owner,
        at=min(row.at for row in said),
        model=max(named, default="unknown"),
        copies=sum(row.copies + 1 for row in said) - 1,
        revision=1,
    )


def _tokens(usage: Usage) -> tuple[int, ...]:
    return msgspec.structs.astuple(usage)


@contextmanager
def reference(members: Sequence[Member]) -> Iterator[SqliteStore]:
    """A store that answers as the team's store has to."""
    with tempfile.TemporaryDirectory() as root, SqliteStore.open(Path(root) / "r.db", read_only=False) as store:
        store.merge(reference_rows(members), day_of=day_of)
        index_all(store)
        yield store


# -- what stores say ----------------------------------------------------------------------------------------------


def answers(store: Store) -> dict[str, object]:
    """What a store says to questions of every kind, without numbers that depend on the order in which rows came."""
    sessions = store.sessions()
    everything = FindingsQuery(limit=1000)
    return {
        "sessions": [msgspec.structs.replace(each, parent=None) if each.copied else each for each in sessions],
        "usage": [_plain(store.usage(query)) for query in USAGE],
        "spans": {each.id: _spans(store, each) for each in sessions},
        "lines": {each.id: _lines(store, each) for each in sessions},
        "search": {word: _found(store, word) for word in ("hello", "make", "x*", "fix", "转", "later")},
        "errors": sorted(row._replace(order=0) for row in store.errors(ErrorQuery(limit=1000))),
        "agreement": {each.id: store.agreement(each.id) for each in sessions},
        "tools": [_plain(store.tool_figures(InsightQuery(), split)) for split in SPLITS],
        "models": [_plain(store.model_figures(InsightQuery(), split)) for split in SPLITS],
        "calls": _plain(store.model_calls(InsightQuery(), "slow", 1000)),
        "repeated": _plain(store.repeated_failures(everything)),
        "in a turn": _plain(store.failed_in_a_turn(everything)),
        "cache": _plain(store.cache_losses(CacheQuery(limit=1000))),
        "waits": _plain(store.user_waits(everything)),
        "annotations": {
            number: [msgspec.structs.replace(note, revision=0) for note in notes]
            for number, notes in store.annotations([each.id for each in sessions]).items()
        },
    }


def _plain(rows: Sequence[object]) -> list[str]:
    return sorted(map(repr, rows))


def _spans(store: Store, session: Session) -> list[object]:
    return [row._replace(changed=0) for row in store.span_rows(session, attributes=True)]


def _lines(store: Store, session: Session) -> list[object]:
    lines = list(store.lines(session=session.id))
    assert [line.event_no for line in lines] == sorted({line.event_no for line in lines})
    return [(line._replace(event_no=0, file_id=0), store.file_source(line.file_id)) for line in lines]


def _found(store: Store, word: str) -> list[tuple[int, bytes]]:
    numbers = store.search(SearchQuery(text=word, limit=10_000))
    return sorted((line.session, line.raw) for line in store.lines_by_number(numbers))


def assert_same(team: Team) -> None:
    """The team's store answers as the reference does."""
    team.index()
    with reference(list(team.members.values())) as expected:
        found, wanted = answers(team.store), answers(expected)
        for question, answer in wanted.items():
            assert found[question] == answer, question
