"""The specification's deduplicator: the recorder's tiers for other programs, and no write to the trace store."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace import EventDeduplicator, PersistentOffsetStore, generate_event_id
from agenttrace.compat import deduplicator
from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.store import SqliteStore

reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def events(tmp_path: Path) -> Iterator[EventDeduplicator]:
    with EventDeduplicator(db_path=tmp_path / "dedup.db") as found:
        yield found


def contents(path: Path) -> list[str]:
    with SqliteStore.open(path) as store:
        return list(store.connection.iterdump())


def test_the_trace_store_is_never_written(home: Path) -> None:
    """Neither class adds an index or a row to the user's store, by default or when it is named."""
    home.mkdir(exist_ok=True)
    SqliteStore.open(home / "agenttrace.db", read_only=False).close()
    before = contents(home / "agenttrace.db")
    with EventDeduplicator() as events, PersistentOffsetStore() as offsets:
        events.mark_processed("a" * 32, "s")
        offsets.save_offset("/log", 1, 2)
    with pytest.raises(StoreError, match="is a trace store"):
        EventDeduplicator(db_path=home / "agenttrace.db")
    with pytest.raises(StoreError, match="is a trace store"):
        PersistentOffsetStore(home / "agenttrace.db")
    assert contents(home / "agenttrace.db") == before


def test_the_databases_are_private(home: Path) -> None:
    """The database files are private to the user."""
    with EventDeduplicator() as events, PersistentOffsetStore() as offsets:
        for path in (events.db_path, offsets.db_path):
            assert Path(path).stat().st_mode & 0o077 == 0


def test_expired_ids_are_new_again(tmp_path: Path) -> None:
    """``cleanup_expired`` removes ids older than ``ttl_hours``, in every tier."""
    with EventDeduplicator(ttl_hours=1, db_path=tmp_path / "dedup.db") as events:
        for age, event in enumerate(("now", "half an hour ago", "an hour ago", "yesterday")):
            events.mark_processed(event, "s")
            events._connection.execute(
                "UPDATE processed_events SET processed_at = ? WHERE event_id = ?",
                (time.time() - (0, 1800, 3601, 86_400)[age], deduplicator._as_bytes(event)),
            )
        assert events.cleanup_expired() == 2
        assert events.is_duplicate("now")
        assert events.is_duplicate("half an hour ago")
        assert not events.is_duplicate("an hour ago")
        assert not events.is_duplicate("yesterday", "s")
        assert events.cleanup_expired() == 0


def test_marked_means_duplicate(events: EventDeduplicator) -> None:
    """An event is new until it is marked, and a duplicate afterwards, however often it is marked."""
    event = generate_event_id("s", 1, 2, "ToolCall")
    assert not events.is_duplicate(event)
    events.mark_processed(event, "s", 1, 2, "ToolCall", "span")
    events.mark_processed(event, "another session", 1, 2, "ToolCall")
    assert events.is_duplicate(event)
    assert events.is_duplicate(event, "another session")
    assert events.get_stats()["db_total_events"] == 1


def test_the_row_of_a_mark(events: EventDeduplicator) -> None:
    """The row has the values of the caller."""
    before = time.time()
    events.mark_processed(generate_event_id("s", 3, 4, "Step"), "s", 3, 4, "Step", "ab")
    row = events._connection.execute(
        "SELECT hex(event_id), session_id, turn_index, step_n, event_type, span_id, processed_at FROM processed_events"
    ).fetchone()
    assert row[:6] == (generate_event_id("s", 3, 4, "Step").upper(), "s", 3, 4, "Step", "ab")
    assert before <= row[6] <= time.time()


def test_another_instance_sees_the_marks(events: EventDeduplicator) -> None:
    """Two instances over one store see each other's marks, also those made after both were opened."""
    with EventDeduplicator(db_path=events.db_path) as other:
        events.mark_processed("x" * 32)
        assert other.is_duplicate("x" * 32)
        other.mark_processed("y" * 32, "s")
        assert events.is_duplicate("y" * 32)


def test_another_process_sees_the_marks(events: EventDeduplicator) -> None:
    """Events that one process marked are duplicates for another, and the other way round."""
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
    """Two ids are equal only if they are the same text, hex digits or not."""
    for event in marked:
        events.mark_processed(event)
    for event in ("61" * 16, "a" * 16, "0A" * 16, "0a" * 16, "0a", "=", "= ", " "):
        known = events._connection.execute(
            "SELECT count(*) FROM processed_events WHERE event_id = ?", (deduplicator._as_bytes(event),)
        ).fetchone()[0]
        assert known <= 1
        if event in marked:
            assert events.is_duplicate(event)
    texts = {deduplicator._as_bytes(event) for event in marked}
    assert len(texts) == len(set(marked))


def test_defaults_and_statistics(home: Path) -> None:
    """Without a path, a separate file in the data directory is used; statistics name every tier with its hits."""
    with EventDeduplicator() as events:
        assert (events.memory_cache_size, events.ttl_hours) == (10000, 24)
        assert events.db_path == str(home / "dedup.db")
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
        "db_path": str(home / "dedup.db"),
    }
    assert (stats["l0_hits"], stats["l1_hits"], stats["l2_hits"], stats["misses"]) == (1, 1, 0, 1)
    assert (stats["l0_hit_rate"], stats["l1_hit_rate"]) == (1 / 3, 1 / 3)


def test_the_memory_cache_is_bounded(tmp_path: Path) -> None:
    """With more events than the cache can have, it stays at its size, and evicted ids are found in the database."""
    with EventDeduplicator(memory_cache_size=10, db_path=tmp_path / "dedup.db") as events:
        for number in range(30):
            events.mark_processed(f"{number}", f"session {number}")
        assert events.get_stats()["memory_cache_size"] == 10
        assert events.is_duplicate("0", "yet another")
        assert events.get_stats()["l2_hits"] == 1
