"""Deduplication: three tiers that agree with one set, a true LRU, and ids that live as long as what they guard."""

from __future__ import annotations

import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agenttrace.record.files.stored_paths import still_there
from agenttrace.record.ingest import dedup
from agenttrace.record.ingest.dedup import Tiers
from agenttrace.store.batch import Batch
from agenttrace.store.sqlite.store import SqliteStore

IDS = [bytes([number]) * 16 for number in range(12)]
#: The session of the newest event.
LAST = 99
DAY = 24 * 3600.0

reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(tmp_path / "agenttrace.db", read_only=False) as found:
        yield found


def commit(store: SqliteStore, session: int, events: Iterable[bytes]) -> None:
    """Store events as the recorder does."""
    rows = [(event, session, 0, 0, "", None, 0.0, None, None) for event in events]
    store.commit(Batch(events=rows), day_of=lambda _: "2026-11-01")


# -- the tiers against a model ------------------------------------------------------------------------------------


class TiersAgainstModel(RuleBasedStateMachine):
    """Random questions, marks, evictions and ends of sessions; one plain set and one ordered dict know the truth."""

    CAPACITY = 4

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.store = SqliteStore.open(Path(self.place.name) / "agenttrace.db", read_only=False)
        self.tiers = Tiers(self.store, self.CAPACITY)
        self.stored: set[tuple[int, bytes]] = set()
        self.recent: OrderedDict[bytes, None] = OrderedDict()
        self.sets: dict[int, set[bytes]] = {}
        self.hits = {"l0": 0, "l1": 0, "l2": 0}
        self.misses = 0

    def teardown(self) -> None:
        self.store.close()
        self.place.cleanup()

    def _use(self, event: bytes) -> None:
        self.recent.pop(event, None)
        self.recent[event] = None
        while len(self.recent) > self.CAPACITY:
            self.recent.popitem(last=False)

    @rule(session=st.integers(1, 3), event=st.sampled_from(IDS))
    def ask(self, session: int, event: bytes) -> None:
        """The answer is right, and the tier that gave it is counted."""
        mine = event[:15] + bytes([session])
        known = self.tiers.known(self.tiers.session(session, new=False), (mine,))
        assert known == ({mine} if (session, mine) in self.stored else set())
        if mine in self.sets.setdefault(session, set()):
            self.hits["l0"] += 1
        elif mine in self.recent:
            self.hits["l1"] += 1
            self._use(mine)
        elif (session, mine) in self.stored:
            self.hits["l2"] += 1
            self._use(mine)
        else:
            self.misses += 1

    @rule(session=st.integers(1, 3), event=st.sampled_from(IDS))
    def mark(self, session: int, event: bytes) -> None:
        """An event is stored, then entered into L0 and L1, as a committed batch does."""
        mine = event[:15] + bytes([session])
        if (session, mine) not in self.stored:
            commit(self.store, session, [mine])
        self.tiers.session(session, new=False).ids.add(mine)
        self.tiers.remember((mine,))
        self.stored.add((session, mine))
        self.sets.setdefault(session, set()).add(mine)
        self._use(mine)

    @precondition(lambda self: self.sets)
    @rule(session=st.integers(1, 3))
    def end(self, session: int) -> None:
        """A session that ended gives its set back; its events stay known."""
        self.tiers.end_session(session)
        self.sets.pop(session, None)

    @rule()
    def roll_back(self) -> None:
        """After a rolled back batch both caches start anew."""
        self.tiers.forget()
        self.sets.clear()
        self.recent.clear()

    @invariant()
    def caches_are_as_the_model_says(self) -> None:
        """L1 has the most recently used ids in that order, never more than its capacity."""
        assert list(self.tiers._recent) == list(self.recent)
        assert self.tiers.recent_count <= self.CAPACITY
        assert (self.tiers.hits, self.tiers.misses) == (self.hits, self.misses)


TestTiersAgainstModel = TiersAgainstModel.TestCase


@reuses_store
@given(batches=st.lists(st.lists(st.sampled_from(IDS), max_size=6), max_size=8), capacity=st.integers(0, 5))
def test_many_at_once_are_as_one_after_the_other(store: SqliteStore, batches: list[list[bytes]], capacity: int) -> None:
    """A chunk's ids asked together, repeats included, give the answers and the number of hits of single questions."""
    marked = set(IDS[::2])
    commit(store, 1, marked - store.known_events(1, IDS))
    tiers = Tiers(store, capacity)
    for batch in batches:
        assert tiers.known(tiers.session(1, new=False), batch) == set(batch) & marked
        assert tiers.recent_count <= capacity
    asked = [event for batch in batches for event in batch]
    assert sum(tiers.hits.values()) == sum(event in marked for event in asked)
    assert tiers.misses == sum(event not in marked for event in asked)


def test_a_new_session_needs_no_other_tier(store: SqliteStore) -> None:
    """While a session's own set is complete, a miss there is final: the store is not asked."""
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    tiers = Tiers(store)
    session = tiers.session(1, new=True)
    assert tiers.known(session, IDS) == set()
    session.ids.update(IDS)
    assert tiers.known(session, IDS) == set(IDS)
    assert statements == []


def test_the_sets_of_idle_sessions_make_room(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """L0 as a whole is bounded; the session idle longest loses its set, and is asked of the store from then on."""
    monkeypatch.setattr(dedup, "SESSION_IDS_LIMIT", 8)
    tiers = Tiers(store)
    for number in (1, 2):
        tiers.session(number, new=True).ids.update(IDS[:5])
    tiers.session(1, new=False)
    tiers.trim_sessions()
    assert tiers.session(1, new=False).complete
    assert not tiers.session(2, new=False).complete


# -- how long ids live --------------------------------------------------------------------------------------------


class Retention:
    """A store with one session whose file is there, and the means to prune it."""

    def __init__(self, store: SqliteStore, log: Path) -> None:
        self.store, self.log = store, log
        self.connection = store.connection

    def expire(self, age: float = DAY) -> int:
        """Remove ids as the recorder's clean-up does."""
        return sum(self.store.retention.expire_ids(time.time() - age, still_there))

    def add(
        self, event: bytes, *, block: int | None, age: float = 30 * DAY, session: int = 7, number: int | None = None
    ) -> None:
        self.connection.execute(
            "INSERT INTO processed_events "
            "(event_no, event_id, session_id, turn_index, step_n, event_type, processed_at, block_id) "
            "VALUES (coalesce(?, (SELECT count(*) FROM processed_events)), ?, ?, 0, 0, '', ?, ?)",
            (number, event, session, time.time() - age, block),
        )

    def add_file(self, path: Path | str, file_id: int = 1) -> None:
        self.connection.execute(
            "INSERT INTO file_offsets (filepath, last_read_at, file_id, blocks) VALUES (?, 0, ?, 1)",
            (str(path), file_id),
        )

    def prune(self, *, age: float = 20 * DAY, file_id: int = 1, session: int = 7) -> None:
        self.connection.execute(
            "INSERT INTO pruned (session_id, file_id, pruned_at) VALUES (?, ?, ?)",
            (session, file_id, time.time() - age),
        )

    def left(self) -> set[bytes]:
        found = self.connection.execute("SELECT event_id FROM processed_events WHERE session_id <> ?", (LAST,))
        return {row[0] for row in found}


@pytest.fixture
def retention(store: SqliteStore, tmp_path: Path) -> Retention:
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n")
    made = Retention(store, log)
    made.add_file(log)
    # The newest event keeps its number whatever happens to its session: here it is of another one.
    made.add(IDS[-1], block=1, session=LAST, number=1000)
    return made


def test_ids_of_living_data_stay(retention: Retention) -> None:
    """However old, an id whose data was never pruned stays, also when its file is gone."""
    retention.add(IDS[0], block=1, age=1000 * DAY)
    retention.log.unlink()
    assert retention.expire() == 0
    assert retention.left() == {IDS[0]}


def test_ids_of_a_living_file_stay(retention: Retention) -> None:
    """What was pruned must not come back from a file that is still there."""
    retention.add(IDS[0], block=None)
    retention.prune()
    assert retention.expire() == 0
    assert retention.left() == {IDS[0]}


def test_ids_of_pruned_data_without_a_file_go(retention: Retention) -> None:
    """Data pruned and file gone: nothing is left to guard, once the ids are older than the limit."""
    retention.add(IDS[0], block=None)
    retention.add(IDS[1], block=None, age=3600)
    retention.add(IDS[2], block=None, session=8)
    retention.prune()
    retention.log.unlink()
    assert retention.expire() == 1
    assert retention.left() == {IDS[1], IDS[2]}


def test_a_session_that_went_on_after_pruning(retention: Retention) -> None:
    """Ids of lines recorded after the pruning guard data again: they stay."""
    retention.add(IDS[0], block=None, age=40 * DAY)
    retention.add(IDS[1], block=5, age=10 * DAY)
    retention.prune(age=30 * DAY)
    retention.log.unlink()
    assert retention.expire() == 1
    assert retention.left() == {IDS[1]}


def test_one_of_two_files_is_left(retention: Retention) -> None:
    """A session that came from two files keeps its ids while one of them is there."""
    retention.add(IDS[0], block=None)
    retention.add_file(retention.log.with_name("gone.jsonl"), file_id=2)
    retention.prune(file_id=1)
    retention.prune(file_id=2)
    assert retention.expire() == 0
    retention.log.unlink()
    assert retention.expire() == 1


def test_a_file_whose_name_is_not_utf8_is_left(retention: Retention) -> None:
    """The store shows such a name with escapes; the file behind it still counts."""
    odd = os.fsencode(retention.log.parent) + b"/odd-\xff\\x.jsonl"
    Path(os.fsdecode(odd)).write_text("{}\n")
    retention.add(IDS[0], block=None)
    retention.add_file(odd.decode("utf-8", "backslashreplace"), file_id=2)
    retention.prune(file_id=2)
    assert retention.expire() == 0
    os.unlink(odd)
    assert retention.expire() == 1


def test_the_newest_event_keeps_its_number(retention: Retention) -> None:
    """Else the next event would get it, and be found by words of one that was removed."""
    retention.add(IDS[0], block=None, number=2000)
    retention.prune()
    retention.log.unlink()
    assert retention.expire() == 0
    assert retention.left() == {IDS[0]}


def test_ids_outlive_their_file_by_the_limit(retention: Retention) -> None:
    """A file that vanished an hour ago may come back; its ids go a day after it."""
    retention.add(IDS[0], block=None)
    retention.prune()
    retention.log.unlink()
    retention.connection.execute("UPDATE file_offsets SET gone_at = ?", (time.time() - 3600,))
    assert retention.expire() == 0
    retention.connection.execute("UPDATE file_offsets SET gone_at = ?", (time.time() - 25 * 3600,))
    assert retention.expire() == 1


def test_recently_pruned_ids_wait(retention: Retention) -> None:
    """Ids outlive the pruning by a day at least."""
    retention.add(IDS[0], block=None)
    retention.prune(age=3600)
    retention.log.unlink()
    assert retention.expire() == 0
    assert retention.expire(60) == 1
