"""Deduplication: three tiers that agree with one set, a true LRU, and ids that live as long as what they guard."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agenttrace import EventDeduplicator, generate_event_id
from agenttrace.ids import session_number
from agenttrace.record import dedup
from agenttrace.record.dedup import Tiers, cleanup_expired
from agenttrace.store.sqlite.database import connect

IDS = [bytes([number]) * 16 for number in range(12)]
#: The session of the newest event.
LAST = 99
DAY = 24 * 3600.0

reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def events(tmp_path: Path) -> Iterator[EventDeduplicator]:
    with EventDeduplicator(db_path=tmp_path / "agenttrace.db") as found:
        yield found


# -- the tiers against a model ------------------------------------------------------------------------------------


class TiersAgainstModel(RuleBasedStateMachine):
    """Random questions, marks, evictions and ends of sessions; one plain set and one ordered dict know the truth."""

    CAPACITY = 4

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.connection = connect(Path(self.place.name) / "agenttrace.db")
        self.tiers = Tiers(self.connection, self.CAPACITY)
        self.stored: set[tuple[int, bytes]] = set()
        self.recent: OrderedDict[bytes, None] = OrderedDict()
        self.sets: dict[int, set[bytes]] = {}
        self.hits = {"l0": 0, "l1": 0, "l2": 0}
        self.misses = 0

    def teardown(self) -> None:
        self.connection.close()
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
        self.connection.execute(
            "INSERT OR IGNORE INTO processed_events "
            "(event_id, session_id, turn_index, step_n, event_type, processed_at) VALUES (?, ?, 0, 0, '', 0)",
            (mine, session),
        )
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
        """L1 holds the most recently used ids in that order, never more than its capacity."""
        assert list(self.tiers._recent) == list(self.recent)
        assert self.tiers.recent_count <= self.CAPACITY
        assert (self.tiers.hits, self.tiers.misses) == (self.hits, self.misses)


TestTiersAgainstModel = TiersAgainstModel.TestCase


@reuses_store
@given(batches=st.lists(st.lists(st.sampled_from(IDS), max_size=6), max_size=8), capacity=st.integers(0, 5))
def test_many_at_once_are_as_one_after_the_other(
    events: EventDeduplicator, batches: list[list[bytes]], capacity: int
) -> None:
    """A chunk's ids asked together, repeats included, give the answers and the number of hits of single questions."""
    marked = set(IDS[::2])
    for event in marked:
        events.mark_processed(event.hex(), "s")
    tiers = Tiers(events._connection, capacity)
    for batch in batches:
        assert tiers.known(tiers.session(session_number("", "s"), new=False), batch) == set(batch) & marked
        assert tiers.recent_count <= capacity
    asked = [event for batch in batches for event in batch]
    assert sum(tiers.hits.values()) == sum(event in marked for event in asked)
    assert tiers.misses == sum(event not in marked for event in asked)


def test_a_new_session_asks_nobody_else(tmp_path: Path) -> None:
    """While a session's own set is complete, a miss there is final: the store is not asked."""
    store = connect(tmp_path / "agenttrace.db")
    statements: list[str] = []
    store.set_trace_callback(statements.append)
    tiers = Tiers(store)
    session = tiers.session(1, new=True)
    assert tiers.known(session, IDS) == set()
    session.ids.update(IDS)
    assert tiers.known(session, IDS) == set(IDS)
    assert statements == []
    store.close()


def test_the_sets_of_idle_sessions_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L0 as a whole is bounded; the session idle longest loses its set, and is asked of the store from then on."""
    monkeypatch.setattr(dedup, "SESSION_IDS_LIMIT", 8)
    tiers = Tiers(connect(tmp_path / "agenttrace.db"))
    for number in (1, 2):
        tiers.session(number, new=True).ids.update(IDS[:5])
    tiers.session(1, new=False)
    tiers.trim_sessions()
    assert tiers.session(1, new=False).complete
    assert not tiers.session(2, new=False).complete
    tiers._connection.close()


# -- the public class ---------------------------------------------------------------------------------------------


def test_marked_means_duplicate(events: EventDeduplicator) -> None:
    """An event is new until it is marked, and a duplicate for ever after, however often it is marked."""
    event = generate_event_id("s", 1, 2, "ToolCall")
    assert not events.is_duplicate(event)
    events.mark_processed(event, "s", 1, 2, "ToolCall", "span")
    events.mark_processed(event, "another session", 1, 2, "ToolCall")
    assert events.is_duplicate(event)
    assert events.is_duplicate(event, "another session")
    assert events.get_stats()["db_total_events"] == 1


def test_what_is_stored(events: EventDeduplicator) -> None:
    """The row holds what the caller said; the session's number leads to its name."""
    before = time.time()
    events.mark_processed(generate_event_id("s", 3, 4, "Step"), "s", 3, 4, "Step", "ab")
    row = events._connection.execute(
        "SELECT hex(event_id), sessions.session_id, turn_index, step_n, event_type, span_id, processed_at "
        "FROM processed_events JOIN sessions ON sessions.id = processed_events.session_id"
    ).fetchone()
    assert row[:6] == (generate_event_id("s", 3, 4, "Step").upper(), "s", 3, 4, "Step", "ab")
    assert before <= row[6] <= time.time()


def test_another_instance_knows(events: EventDeduplicator) -> None:
    """Two instances over one store see each other's marks, also those made after both were opened."""
    with EventDeduplicator(db_path=events.db_path) as other:
        events.mark_processed("x" * 32)
        assert other.is_duplicate("x" * 32)
        other.mark_processed("y" * 32, "s")
        assert events.is_duplicate("y" * 32)


def test_another_process_knows(events: EventDeduplicator) -> None:
    """What one process marked, the next one finds, and the other way round."""
    program = (
        "import sys\n"
        "from agenttrace import EventDeduplicator\n"
        "with EventDeduplicator(db_path=sys.argv[1]) as events:\n"
        "    print(events.is_duplicate('from here'), events.is_duplicate('from there'))\n"
        "    events.mark_processed('from there')\n"
    )
    events.mark_processed("from here")
    run = subprocess.run([sys.executable, "-c", program, events.db_path], capture_output=True, check=True, text=True)
    assert run.stdout.split() == ["True", "False"]
    assert events.is_duplicate("from there")


@reuses_store
@given(st.lists(st.text("0aA \ud83d=", max_size=3) | st.sampled_from(["61" * 16, "a" * 16, "0A" * 16, "0a" * 16])))
def test_ids_are_taken_literally(events: EventDeduplicator, marked: list[str]) -> None:
    """Two ids are one only if they are the same text, hex digits or not."""
    for event in marked:
        events.mark_processed(event)
    for event in ("61" * 16, "a" * 16, "0A" * 16, "0a" * 16, "0a", "=", "= ", " "):
        known = events._connection.execute(
            "SELECT count(*) FROM processed_events WHERE event_id = ?", (dedup._as_bytes(event),)
        ).fetchone()[0]
        assert known <= 1
        if event in marked:
            assert events.is_duplicate(event)
    texts = {dedup._as_bytes(event) for event in marked}
    assert len(texts) == len(set(marked))


def test_defaults_and_statistics(home: Path) -> None:
    """Without a path the store of the data directory is used; statistics name every tier with its hits and rate."""
    with EventDeduplicator() as events:
        assert (events.memory_cache_size, events.ttl_hours) == (10000, 24)
        assert events.db_path == str(home / "agenttrace.db")
        events.mark_processed("a" * 32, "s")
        assert events.is_duplicate("a" * 32, "s")
        events.end_session("s")
        assert events.is_duplicate("a" * 32, "s")
        assert not events.is_duplicate("b" * 32, "s")
        stats = events.get_stats()
    assert {name: stats[name] for name in ("memory_cache_size", "db_total_events", "db_sessions", "db_path")} == {
        "memory_cache_size": 1,
        "db_total_events": 1,
        "db_sessions": 1,
        "db_path": str(home / "agenttrace.db"),
    }
    assert (stats["l0_hits"], stats["l1_hits"], stats["l2_hits"], stats["misses"]) == (1, 1, 0, 1)
    assert (stats["l0_hit_rate"], stats["l1_hit_rate"]) == (1 / 3, 1 / 3)


def test_the_memory_cache_is_bounded(tmp_path: Path) -> None:
    """More events than the cache holds: it stays at its size, and the forgotten ones are found in the store."""
    with EventDeduplicator(memory_cache_size=10, db_path=tmp_path / "agenttrace.db") as events:
        for number in range(30):
            events.mark_processed(f"{number}", f"session {number}")
        assert events.get_stats()["memory_cache_size"] == 10
        assert events.is_duplicate("0", "yet another")
        assert events.get_stats()["l2_hits"] == 1


# -- how long ids live --------------------------------------------------------------------------------------------


class Retention:
    """A store with one session whose file is there, and the means to prune it."""

    def __init__(self, events: EventDeduplicator, log: Path) -> None:
        self.events, self.log = events, log
        self.connection = events._connection

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
def retention(events: EventDeduplicator, tmp_path: Path) -> Retention:
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n")
    made = Retention(events, log)
    made.add_file(log)
    # The newest event keeps its number whatever happens to its session: here it is of another one.
    made.add(IDS[-1], block=1, session=LAST, number=1000)
    return made


def test_ids_of_living_data_stay(retention: Retention) -> None:
    """However old, an id whose data was never pruned stays, also when its file is gone."""
    retention.add(IDS[0], block=1, age=1000 * DAY)
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 0
    assert retention.left() == {IDS[0]}


def test_ids_of_a_living_file_stay(retention: Retention) -> None:
    """What was pruned must not come back from a file that is still there."""
    retention.add(IDS[0], block=None)
    retention.prune()
    assert retention.events.cleanup_expired() == 0
    assert retention.left() == {IDS[0]}


def test_ids_of_pruned_data_without_a_file_go(retention: Retention) -> None:
    """Data pruned and file gone: nothing is left to guard, once the ids are older than the limit."""
    retention.add(IDS[0], block=None)
    retention.add(IDS[1], block=None, age=3600)
    retention.add(IDS[2], block=None, session=8)
    retention.prune()
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 1
    assert retention.left() == {IDS[1], IDS[2]}


def test_a_session_that_went_on_after_pruning(retention: Retention) -> None:
    """Ids of lines recorded after the pruning guard data again: they stay."""
    retention.add(IDS[0], block=None, age=40 * DAY)
    retention.add(IDS[1], block=5, age=10 * DAY)
    retention.prune(age=30 * DAY)
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 1
    assert retention.left() == {IDS[1]}


def test_one_of_two_files_is_left(retention: Retention) -> None:
    """A session that came from two files keeps its ids while one of them is there."""
    retention.add(IDS[0], block=None)
    retention.add_file(retention.log.with_name("gone.jsonl"), file_id=2)
    retention.prune(file_id=1)
    retention.prune(file_id=2)
    assert retention.events.cleanup_expired() == 0
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 1


def test_a_file_whose_name_is_not_utf8_is_left(retention: Retention) -> None:
    """The store shows such a name with escapes; the file behind it still counts."""
    odd = os.fsencode(retention.log.parent) + b"/odd-\xff\\x.jsonl"
    Path(os.fsdecode(odd)).write_text("{}\n")
    retention.add(IDS[0], block=None)
    retention.add_file(odd.decode("utf-8", "backslashreplace"), file_id=2)
    retention.prune(file_id=2)
    assert retention.events.cleanup_expired() == 0
    os.unlink(odd)
    assert retention.events.cleanup_expired() == 1


def test_the_newest_event_keeps_its_number(retention: Retention) -> None:
    """Else the next event would get it, and be found by words of one that was removed."""
    retention.add(IDS[0], block=None, number=2000)
    retention.prune()
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 0
    assert retention.left() == {IDS[0]}


def test_ids_outlive_their_file_by_the_limit(retention: Retention) -> None:
    """A file that vanished an hour ago may come back; its ids go a day after it."""
    retention.add(IDS[0], block=None)
    retention.prune()
    retention.log.unlink()
    retention.connection.execute("UPDATE file_offsets SET gone_at = ?", (time.time() - 3600,))
    assert retention.events.cleanup_expired() == 0
    retention.connection.execute("UPDATE file_offsets SET gone_at = ?", (time.time() - 25 * 3600,))
    assert retention.events.cleanup_expired() == 1


def test_recently_pruned_ids_wait(retention: Retention) -> None:
    """``ttl_hours`` is how long ids outlive the pruning at least."""
    retention.add(IDS[0], block=None)
    retention.prune(age=3600)
    retention.log.unlink()
    assert retention.events.cleanup_expired() == 0
    assert cleanup_expired(retention.connection, time.time() - 60) == 1
