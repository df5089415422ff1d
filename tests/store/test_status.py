"""Figures of recording: sums over the bookkeeping, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.store.sqlite.store import SqliteStore

OUTCOMES = ("lines", "recorded", "duplicate", "ignored", "quarantined")
COUNT = st.integers(0, 1000)
FILES = st.lists(st.fixed_dictionaries({**dict.fromkeys(OUTCOMES, COUNT), "counted_only": COUNT, "lost_bytes": COUNT}))
FORGOTTEN = st.dictionaries(st.sampled_from(OUTCOMES), COUNT)
QUARANTINED = st.lists(st.tuples(st.booleans(), COUNT), max_size=10)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    path: Path = tmp_path_factory.mktemp("status") / "agenttrace.db"
    with SqliteStore.open(path, read_only=False) as opened:
        yield opened


@settings(max_examples=40, deadline=None)
@given(files=FILES, forgotten=FORGOTTEN, quarantined=QUARANTINED)
def test_figures_are_sums(
    store: SqliteStore, files: list[dict[str, int]], forgotten: dict[str, int], quarantined: list[tuple[bool, int]]
) -> None:
    """Lines of files whose row was removed stay in the totals; everything else is that of the rows."""
    with store.snapshot():
        fill(store, files, forgotten, quarantined)
        lines, status = msgspec.structs.asdict(store.status.lines()), store.status
        assert lines == {name: sum(file[name] for file in files) + forgotten.get(name, 0) for name in OUTCOMES}
        assert status.lost_bytes() == sum(file["lost_bytes"] for file in files)
        found = status.files()
        assert [file.path for file in found] == sorted(f"/f{number}" for number in range(len(files)))
        counts = status.quarantine()
        assert counts.open + counts.resolved == len(quarantined)
        assert counts.open == len(store.quarantine.entries()) == sum(not resolved for resolved, _ in quarantined)
        assert len(store.quarantine.entries(resolved=True)) == len(quarantined)
        assert counts.salvaged_events == sum(salvaged for _, salvaged in quarantined)
        assert counts.counted_only == status.counted_only() == sum(file["counted_only"] for file in files)
        assert counts.open == store.quarantine.waiting()


def fill(
    store: SqliteStore, files: list[dict[str, int]], forgotten: dict[str, int], quarantined: list[tuple[bool, int]]
) -> None:
    execute = store.connection.executemany
    names = (*OUTCOMES, "counted_only", "lost_bytes")
    execute(
        f"INSERT INTO file_offsets (filepath, offset, last_read_at, {', '.join(names)}) "
        f"VALUES (?, ?, 1{', ?' * len(names)})",
        [(f"/f{number}", number * 7, *(file[name] for name in names)) for number, file in enumerate(files)],
    )
    execute("INSERT INTO counters VALUES (?, ?)", [(f"forgotten_{name}", count) for name, count in forgotten.items()])
    execute(
        "INSERT INTO quarantine (file_id, filepath, generation, offset, length, digest, reason, salvaged, found_at, "
        "resolved_at) VALUES (1, '/f', 0, ?, 1, x'00', 'why', ?, 1, ?)",
        [(number, salvaged, 2 if resolved else None) for number, (resolved, salvaged) in enumerate(quarantined)],
    )


def test_a_sound_store_has_no_problems(store: SqliteStore) -> None:
    """Its size is that of the files on the disk; compacting keeps it sound."""
    assert store.status.problems() == []
    assert store.status.size() >= store.path.stat().st_size > 0
    store.compact()
    assert store.status.problems() == []
    assert store.status.size() == store.path.stat().st_size
