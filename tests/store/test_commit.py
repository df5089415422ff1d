"""The write side: a batch is stored as a whole or not at all, and what repeats in a later batch changes nothing."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.ids import file_number, session_number
from agenttrace.model import Session, Span, Usage
from agenttrace.store.batch import BLOCK_BITS, Batch, Claim, FileRow, span_row
from agenttrace.store.errors import STORE_FAILURES, is_corruption, is_refused_value
from agenttrace.store.sqlite.store import SqliteStore

SESSIONS = [session_number("claude-code", name) for name in ("a", "b", "c")]
FILES = [file_number(f"/logs/{name}.jsonl", 0) for name in ("a", "b", "c")]
NOON = 1_790_000_000_000_000


few = settings(max_examples=25)


def day_of(at: int) -> str:
    return f"2026-09-{1 + at % 9}"


@cache
def empty() -> bytes:
    """A new store; to copy one takes a tenth of the time."""
    with tempfile.TemporaryDirectory() as place:
        SqliteStore.open(Path(place) / "t.db", read_only=False).close()
        return (Path(place) / "t.db").read_bytes()


@contextmanager
def opened() -> Iterator[SqliteStore]:
    """A new store, and nothing left of it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "t.db"
        path.write_bytes(empty())
        with SqliteStore.open(path, read_only=False) as store:
            store.connection.execute("PRAGMA synchronous = OFF")
            yield store


def dump(store: SqliteStore) -> list[str]:
    """All that a store holds, the search index, the counters of SQLite and the revisions aside."""
    with closing(sqlite3.connect(":memory:")) as copy:
        store.connection.backup(copy)
        for table in ("sessions", "spans", "responses", "totals", "removed"):
            copy.execute(f"UPDATE {table} SET revision = 0")
        return [line for line in copy.iterdump() if "search" not in line and "sqlite_sequence" not in line]


# -- batches ------------------------------------------------------------------------------------------------------


def event(number: int) -> bytes:
    return number.to_bytes(16, "big")


def made(name: int, at: int, response: int | None) -> Span:
    return Span(
        span_id=name.to_bytes(8, "big"),
        trace_id=bytes(16),
        parent_id=None,
        kind="step",
        name="chat",
        start=NOON + at,
        end=NOON + at + 5,
        status="ok",
        response=None if response is None else event(response),
        attributes={"n": name},
    )


small = st.integers(0, 5)
sessions = st.sampled_from(SESSIONS)
files = st.builds(
    FileRow,
    filepath=st.sampled_from(["/logs/a.jsonl", "/logs/b.jsonl", "/logs/会话.jsonl"]),
    file_id=st.sampled_from(FILES),
    offset=st.integers(0, 2**62 - 1),
    file_size=st.integers(0, 2**62 - 1),
    inode=st.none() | st.integers(0, 2**62),
    device=st.none() | st.integers(0, 2**62),
    fingerprint=st.none() | st.just("5:" + "0" * 32),
    mtime_ns=st.none() | st.integers(0, 2**62),
    generation=small,
    blocks=small,
    source=st.none() | st.binary(max_size=5),
    lines=small,
    quarantined=small,
    error=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    gone_at=st.none() | st.floats(0, 1e10),
    last_read_at=st.floats(0, 1e10),
    counted_end=small,
)
#: What a later batch may bring again: each row has an id of its own that says what it is about.
repeatable = st.builds(
    Batch,
    quarantine=st.lists(
        st.builds(
            lambda file, place: (file, "/logs/a.jsonl", 0, place, 9, event(place)[:16], "why", 0, 1.0, b"raw"),
            st.sampled_from(FILES),
            small,
        )
    ),
    spans=st.lists(
        st.builds(
            lambda name, session, at, response: span_row(made(name, at, response), session, "main"),
            small,
            sessions,
            small,
            st.none() | small,
        ),
        unique_by=lambda row: (row[0], row[3]),
    ),
    sessions=st.lists(
        st.builds(
            lambda name, turns, at: Session(
                id=session_number("claude-code", name),
                agent="claude-code",
                session_id=name,
                turns=turns,
                born=NOON + at,
                last_at=NOON + at,
                events=1,
            ),
            st.sampled_from("abc"),
            small,
            small,
        ),
        unique_by=lambda row: row.id,
    ),
    streams=st.lists(
        st.tuples(sessions, st.sampled_from(["main", "sub"]), st.binary(max_size=4)), unique_by=lambda row: row[:2]
    ),
    links=st.lists(
        st.tuples(sessions, st.sampled_from(["sub", "other"]), st.just("main"), st.sampled_from("xy")),
        unique_by=lambda row: row[:2],
    ),
    files=st.lists(files, unique_by=(lambda row: row.file_id, lambda row: row.filepath)),
)


def whole(repeated: Batch, first: int, claims: list[Claim]) -> Batch:
    """The same batch with what a batch has only once: events, their raw lines, counters and usage."""
    block = FILES[0] << BLOCK_BITS | first
    return msgspec.structs.replace(
        repeated,
        events=[(event(first), SESSIONS[0], 0, 0, "message", None, 1.0, block, 0)],
        blocks=[(block, FILES[0], 0, 1, 3, 1.0, b"\0" * 8, b"raw" * 5000)],
        counters={"dedup_misses": 1},
        claims=claims,
    )


claims = st.lists(
    st.builds(
        lambda response, session, at, tokens: Claim(
            event(response), session, NOON + at, "glm-4.6", False, 0, Usage(output_tokens=tokens)
        ),
        small,
        sessions,
        small,
        small,
    ),
    max_size=4,
)


# -- all or nothing -----------------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(before=repeatable, batch=repeatable, claimed=claims)
def test_killed_at_any_statement_all_or_nothing_is_stored(before: Batch, batch: Batch, claimed: list[Claim]) -> None:
    """What a killed process leaves behind is its files as they are: opened again, they hold the batch or nothing."""
    with opened() as store:
        store.connection.execute("PRAGMA cache_size = 2")  # pages go to the write-ahead log before the commit
        store.commit(whole(before, 1, []), day_of=day_of)
        before_it, statements = dump(store), 0
        left: set[tuple[bytes, bytes]] = set()

        def killed(_: str) -> None:
            nonlocal statements
            statements += 1
            left.add((store.path.read_bytes(), store.path.with_name("t.db-wal").read_bytes()))

        store.connection.set_trace_callback(killed)
        store.commit(whole(batch, 2, claimed), day_of=day_of)
        store.connection.set_trace_callback(None)
        after_it = dump(store)
        assert statements > 5
        for number, (database, log) in enumerate(left):
            path = store.path.with_name(f"{number}.db")
            path.write_bytes(database)
            path.with_name(path.name + "-wal").write_bytes(log)
            with SqliteStore.open(path, read_only=False) as found:
                assert dump(found) == before_it
        with SqliteStore.open(store.path) as other:
            assert dump(other) == after_it


@few
@given(batch=repeatable, claimed=claims, place=st.integers(0, 3))
def test_a_batch_with_a_value_that_cannot_be_stored_changes_nothing(
    batch: Batch, claimed: list[Claim], place: int
) -> None:
    """Wherever the value is, the error says that it is about a value, and the next batch is stored."""
    broken = whole(batch, 2, claimed)
    if place == 0:
        broken.events *= 2  # one id twice
    elif place == 1:
        broken.files = [*broken.files, FileRow(filepath="/x", file_id=5, offset=object())]  # type: ignore[arg-type]
    elif place == 2:
        broken.streams = [*broken.streams, (SESSIONS[0], "odd", object())]  # type: ignore[list-item]
    else:
        broken.counters = {**broken.counters, "odd": None}  # type: ignore[dict-item]
    with opened() as store:
        store.commit(whole(batch, 1, []), day_of=day_of)
        before = dump(store)
        with pytest.raises(STORE_FAILURES) as caught:
            store.commit(broken, day_of=day_of)
        assert is_refused_value(caught.value)
        assert not is_corruption(caught.value)
        assert dump(store) == before
        store.commit(whole(batch, 3, []), day_of=day_of)


# -- what repeats -------------------------------------------------------------------------------------------------


@few
@given(batches=st.lists(repeatable, min_size=1, max_size=3))
def test_what_repeats_changes_nothing(batches: list[Batch]) -> None:
    """The last batch once more: every row is found by its id and is what it was."""
    with opened() as store:
        for batch in batches:
            store.commit(batch, day_of=day_of)
        before = dump(store)
        store.commit(batches[-1], day_of=day_of)
        assert dump(store) == before


@few
@given(batch=repeatable, claimed=claims)
def test_events_are_stored_once(batch: Batch, claimed: list[Claim]) -> None:
    """A batch of events that are stored is refused as a whole: neither its usage nor its offsets count again."""
    with opened() as store:
        store.commit(whole(batch, 1, claimed), day_of=day_of)
        before = dump(store)
        with pytest.raises(STORE_FAILURES):
            store.commit(whole(batch, 1, claimed), day_of=day_of)
        assert dump(store) == before


@few
@given(batch=repeatable, claimed=claims)
def test_usage_that_is_claimed_again_counts_once(batch: Batch, claimed: list[Claim]) -> None:
    """Only the number of mentions grows."""
    tokens = "SELECT response, session_id, at, day, model, output_tokens FROM responses ORDER BY 1"
    sums = "SELECT day, session_id, model, requests, output_tokens FROM usage_rollup ORDER BY 1, 2, 3"
    with opened() as store:
        store.commit(whole(batch, 1, claimed), day_of=day_of)
        before = [store.connection.execute(query).fetchall() for query in (tokens, sums)]
        store.commit(whole(batch, 2, claimed), day_of=day_of)
        assert [store.connection.execute(query).fetchall() for query in (tokens, sums)] == before


# -- where reading stands -----------------------------------------------------------------------------------------


@few
@given(batches=st.lists(st.lists(files, max_size=3), max_size=4))
def test_the_last_row_of_a_file_is_found(batches: list[list[FileRow]]) -> None:
    """A file has one row, under its latest path; a path that two files had is the last one's."""
    expected: dict[str, FileRow] = {}
    with opened() as store:
        for rows in batches:
            store.commit(Batch(files=rows), day_of=day_of)
            numbers = {row.file_id: row.filepath for row in rows}
            paths = {row.filepath: row for row in rows}
            if len(paths) < len(rows) or len(numbers) < len(rows):
                return  # one batch says two things of one file
            expected = {path: row for path, row in expected.items() if numbers.get(row.file_id, path) == path}
            expected |= paths
            assert dict(store.files.rows()) == expected
            for row in expected.values():
                assert store.files.get(row.file_id) == row
                assert store.files.read_up_to(row.filepath) == row.offset


@pytest.mark.parametrize(
    "nonsense", ["offset = -1", "offset = 'x'", "file_size = 1 << 62", "generation = -5", "blocks = 1 << 30"]
)
def test_a_row_that_makes_no_sense_is_none(nonsense: str) -> None:
    """Garbage in the table costs a second reading of that file, nothing else."""
    with opened() as store:
        store.files.save(FileRow(filepath="/a", file_id=7))
        store.connection.execute(f"UPDATE file_offsets SET {nonsense}")
        assert list(store.files.rows()) == [("/a", None)]
        assert store.files.get(7) is None
