"""Usage of many machines: a response counts once, in the session that had it first, whatever came when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

import clickhouse_on
from agenttrace.model import USAGE_FIELDS, Session, Usage
from agenttrace.store.clickhouse.store import ClickHouseStore
from agenttrace.store.questions import RecentQuery, TimeQuery, UsageQuery
from agenttrace.store.rows import ChangesCursor, RemovedRow, ResponseRow, Row, StoredSession, StoredSpan
from agenttrace.store.sqlite.ledger import weight
from agenttrace.store.team import Page

from . import machine
from .machine import day_of

pytestmark = [
    pytest.mark.team,
    pytest.mark.parametrize("engine", ["clickhouse"], indirect=True, scope="module"),
]

MACHINES = ("amber", "birch", "cedar")
SESSIONS = (11, 12, 13, 14)
RESPONSES = [f"response-{number}------".encode()[:16] for number in range(8)]
HOUR = 3_600_000_000
BASE = 1_700_000_000_000_000


class Copy(NamedTuple):
    """A session as one machine has it."""

    session: Session
    held: frozenset[bytes]


def _rank(session: Session) -> tuple[object, ...]:
    assert session.born is not None
    return session.copied, session.born, session.last_at, session.id


class Team:
    """Random sessions on some machines, and what counts of them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.revisions = dict.fromkeys(MACHINES, 0)
        self.copies: dict[str, dict[int, Copy]] = {name: {} for name in MACHINES}
        self.told: dict[str, dict[bytes, ResponseRow]] = {name: {} for name in MACHINES}
        #: Responses that a machine removed, and when.
        self._gone: dict[tuple[str, bytes], int] = {}
        #: Of a session, the same on every machine.
        self._born = {number: BASE + chance.randint(0, 3) * HOUR for number in SESSIONS}

    def work(self, name: str) -> list[Row]:
        """Something happens on a machine: the rows that changed there."""
        self.revisions[name] += 1
        number = self._chance.choice(SESSIONS)
        known = self.copies[name].get(number)
        held = (known.held if known else frozenset()) | set(self._chance.sample(RESPONSES, self._chance.randint(1, 3)))
        events = (known.session.events if known else 0) + self._chance.randint(1, 3)
        session = Session(id=number, agent="codex", session_id=f"s{number}", events=events, project="/p")
        session.born, session.last_at = self._born[number], BASE + events * HOUR
        session.started_at, session.copied = BASE, number == SESSIONS[-1]
        self.copies[name][number] = Copy(session, frozenset(held))
        spans = [self._span(name, session, response) for response in sorted(held)]
        return [StoredSession(session, self.revisions[name]), *spans, *self._removals(name), *self._ledger(name)]

    def _removals(self, name: str) -> Iterator[RemovedRow]:
        """Now and then a machine finds that a call was none; later it may tell of it again."""
        if self.told[name] and self._chance.random() < 0.3:
            response = self._chance.choice(sorted(self.told[name]))
            del self.told[name][response]
            self._gone[name, response] = self.revisions[name]
            yield RemovedRow("response", 0, response, self.revisions[name], 0)

    def _span(self, name: str, session: Session, response: bytes) -> StoredSpan:
        place = RESPONSES.index(response)
        span = (
            place + 1,
            f"{session.id}-{place}----"[:8].encode(),
            bytes(16),
            None,
            session.id,
            "main",
            "step",
            "chat",
        )
        times = (BASE, BASE + 1, "ok", "gpt-5", 1, place)
        return StoredSpan(*span, *times, response, None, self.revisions[name])

    def _ledger(self, name: str) -> Iterator[ResponseRow]:
        """The responses of a machine that are others now, each in the session that owns it there."""
        for response in RESPONSES:
            holders = [copy.session for copy in self.copies[name].values() if response in copy.held]
            gone = self._gone.get((name, response), -1)
            if not holders or gone == self.revisions[name] or (gone >= 0 and self._chance.random() < 0.7):
                continue
            self._gone.pop((name, response), None)
            known = self.told[name].get(response)
            owner = min(holders, key=_rank).id
            if known is None or known.session != owner or self._chance.random() < 0.2:
                self.told[name][response] = self._row(name, response, owner)
                yield self.told[name][response]

    def _row(self, name: str, response: bytes, owner: int) -> ResponseRow:
        usage = Usage(input_tokens=self._chance.randint(0, 9), output_tokens=self._chance.randint(0, 2))
        at = BASE + self._chance.randint(0, 40) * HOUR
        model = self._chance.choice(("gpt-5", "kimi-k3", "unknown"))
        return ResponseRow(response, owner, at, model, False, 0, "", usage, self.revisions[name])

    def shown(self) -> dict[int, str]:
        """The machine whose copy of a session is shown."""
        held = [
            (-copy.session.events, name, number)
            for name, copies in self.copies.items()
            for number, copy in copies.items()
        ]
        return {number: name for _, name, number in sorted(held, reverse=True)}

    def counted(self) -> dict[bytes, tuple[int, ResponseRow, int, str, int]]:
        """By response: its owner, the row with its tokens, when it was, its model and how often it was told beside."""
        shown = self.shown()
        found = {}
        for response in RESPONSES:
            copies = [(name, self.copies[name][number]) for number, name in shown.items()]
            having = [(name, copy.session) for name, copy in copies if response in copy.held]
            machines = {name for name, _ in having}
            rows = [told[response] for name, told in self.told.items() if response in told and name in machines]
            if rows:
                owner = min((session for _, session in having), key=_rank)
                best = max(rows, key=lambda row: weight(row.usage, row.estimated))
                models = {row.model for row in rows} - {"unknown"}
                first = min(row.at for row in rows)
                found[response] = (owner.id, best, first, max(models, default="unknown"), len(rows) - 1)
        return found


@contextmanager
def clickhouse() -> Iterator[ClickHouseStore]:
    """A store without rows, whose parts are never merged by themselves."""
    with ClickHouseStore.open(clickhouse_on.clickhouse_address("agenttrace_test_ledger")) as store:
        machine.empty(store.database)
        for table in ("responses", "owners", "rollup"):
            store.database.command(f"SYSTEM STOP MERGES {table}")
        yield store


def _tokens(usage: Usage) -> tuple[int, ...]:
    return tuple(getattr(usage, name) for name in USAGE_FIELDS)


@pytest.mark.parametrize("seed", range(2))
def test_a_response_of_several_machines_counts_once(seed: int) -> None:
    """After every page: sums, single responses and those of sessions are what a plain look at all copies gives."""
    chance = random.Random(seed)
    team = Team(chance)
    cursors = dict.fromkeys(MACHINES, ChangesCursor())
    with clickhouse() as store:
        for turn in range(8):
            name = chance.choice(MACHINES)
            until = ChangesCursor((turn, 0), (turn, 0))
            page = Page(machine=name, person="p", store=name, after=cursors[name], until=until)
            rows = team.work(name)
            for _ in range(chance.randint(1, 2)):
                store.take(chance.sample(rows, len(rows)), page, day_of=day_of)
            cursors[name] = until
            if turn % 4 == 3:
                _compare(store, team)
        for table in ("responses", "owners", "rollup"):
            store.database.command(f"SYSTEM START MERGES {table}")
            store.database.command(f"OPTIMIZE TABLE {table} FINAL")
        _compare(store, team)


def _compare(store: ClickHouseStore, team: Team) -> None:
    expected = team.counted()
    singles = sorted(
        (at, str(owner), model, copies, _tokens(row.usage)) for owner, row, at, model, copies in expected.values()
    )
    recent = store.recent_usage(RecentQuery(since=0))
    assert singles == sorted(
        (each.at, each.row.group, each.row.model, each.row.copies, _tokens(each.row.usage)) for each in recent
    )
    sums: dict[tuple[str, str, str], list[int]] = {}
    for at, owner, model, copies, tokens in singles:
        found = sums.setdefault((owner, model, day_of(at)), [0] * (2 + len(USAGE_FIELDS)))
        found[:] = [had + more for had, more in zip(found, (1, copies, *tokens), strict=True)]
    rows = store.usage(UsageQuery(by="session"))
    assert {place: tuple(found) for place, found in sums.items()} == {
        (row.group, row.model, row.day): (row.requests, row.copies, *_tokens(row.usage)) for row in rows
    }
    by_session = store.usage_by_session(SESSIONS)
    assert sum(row.requests for rows in by_session.values() for row in rows) == len(expected)
    assert sum(
        each.responses for each in store.responses_over_time(TimeQuery(since=0, before=2**60, step=HOUR))
    ) == len(expected)
    assert set(store.models()) == {model for _, _, _, model, _ in expected.values()}
    _compare_spans(store, team, expected)


def _compare_spans(
    store: ClickHouseStore, team: Team, expected: dict[bytes, tuple[int, ResponseRow, int, str, int]]
) -> None:
    """Each span shows what its response used, and counts it in the one session that owns it."""
    for number, name in team.shown().items():
        (session,) = store.sessions_by_number([number])
        held = sorted(team.copies[name][number].held, key=RESPONSES.index)
        rows = sorted(store.span_rows(session), key=lambda row: row.step_n)
        shown = [(row.counted, row.billed_model, row.usage) for row in rows]
        wanted = [expected.get(response) for response in held]
        assert shown == [
            (1, None, None) if found is None else (int(found[0] == number), found[3], found[1].usage)
            for found in wanted
        ]
