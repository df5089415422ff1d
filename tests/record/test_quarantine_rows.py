"""The quarantine is bounded: some lines are stored, the others counted, each once however often it is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.record.ingest.quarantine import retry
from agenttrace.record.recorder import Recorder
from agenttrace.store import open_store
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.status import collected


class Counts(NamedTuple):
    """What is known of all files, and how many rows there are."""

    lines: int
    recorded: int
    duplicate: int
    quarantined: int
    counted_only: int
    rows: int


class Rig:
    """Logs, and a store beside them."""

    def __init__(self, root: Path, **record: int) -> None:
        self.root, self.record = root, record
        self.logs = root / "logs"
        self.logs.mkdir()
        ensure_home(self.settings())

    def settings(self, **record: int) -> Settings:
        flags = {f"record.{name}": value for name, value in (self.record | record).items()}
        return load_settings({"HOME": str(self.root), "AGENTTRACE_HOME": str(self.root / "home")}, flags)

    def once(self, *, batches: int | None = None, **record: int) -> None:
        """Record, and stop after some batches as if killed."""
        recorder = Recorder(self.settings(**record), paths=[str(self.logs)], environ={"HOME": str(self.root)})
        left = [batches]
        commit = recorder.pipeline.commit

        def counted() -> None:
            commit()
            left[0] = None if left[0] is None else left[0] - 1

        recorder.pipeline.commit = counted  # type: ignore[method-assign]
        recorder.scan()
        recorder.drain(fair=False, stop=lambda: left[0] is not None and left[0] <= 0)
        recorder.close()

    def counts(self) -> Counts:
        connection = connect(self.root / "home" / "agenttrace.db", read_only=True)
        try:
            names = ("lines", "recorded", "duplicate", "ignored", "quarantined", "counted_only")
            sums = ", ".join(f"sum({name})" for name in names)
            lines, recorded, duplicate, ignored, quarantined, counted = connection.execute(
                f"SELECT {sums} FROM file_offsets"
            ).fetchone()
            assert lines == recorded + duplicate + ignored + quarantined
            (rows,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
            return Counts(lines, recorded, duplicate, quarantined, counted, rows)
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        with open_store(self.settings()) as store:
            return collected(store, self.settings())


def good(number: int) -> bytes:
    return json.dumps({"v": 1, "session": "s", "type": "message", "id": number, "text": "x"}).encode() + b"\n"


def mixed(kinds: list[bool]) -> bytes:
    """Good lines and bad ones, which are all the same."""
    first = good(-1)[:-1] + b" " * 1024 + b"\n"
    return first + b"".join(good(number) if kind else b"x\n" for number, kind in enumerate(kinds))


@settings(max_examples=30)
@given(
    kinds=st.lists(st.booleans(), max_size=20),
    cap=st.integers(1, 4),
    disturbances=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.booleans()), max_size=4),
    compressed=st.booleans(),
)
def test_every_bad_line_counts_once(
    kinds: list[bool],
    cap: int,
    disturbances: list[tuple[int, int, bool]],
    compressed: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Read in pieces of any size, or again from the start: the same counts as in one undisturbed reading."""
    data = zstandard.compress(mixed(kinds)) if compressed else mixed(kinds)
    name = "a.jsonl.zst" if compressed else "a.jsonl"
    rig = Rig(tmp_path_factory.mktemp("rig"), quarantine_lines_per_file=cap)
    path = rig.logs / name
    path.write_bytes(data)
    for seconds, (batch, batches, again) in enumerate(disturbances):
        rig.once(batch_lines=batch, batches=batches)
        if again:
            # Written anew without its end, then whole: known to be another file, and read from its start.
            path.write_bytes(data if compressed else data[:-1])
            rig.once(batches=1)
            path.write_bytes(data)
            os.utime(path, (1e9 + seconds, 1e9 + seconds))
    rig.once()
    bad = kinds.count(False)
    found = rig.counts()
    assert (found.recorded, found.quarantined) == (len(kinds) - bad + 1, bad)
    assert (found.rows, found.counted_only) == (min(bad, cap), max(0, bad - cap))
    if not any(again for _, _, again in disturbances):
        assert (found.lines, found.duplicate) == (len(kinds) + 1, 0)


def test_a_truncated_log_begins_to_count_anew(tmp_path: Path) -> None:
    """Other content in the same file: its bad lines are others, wherever they are."""
    rig = Rig(tmp_path, quarantine_lines_per_file=1)
    path = rig.logs / "a.jsonl"
    path.write_bytes(good(1) + b"x\n" * 10)
    rig.once()
    with path.open("r+b") as file:
        file.truncate()
        file.write(good(2) + b"y\n" * 6)
    rig.once()
    assert rig.counts()[3:] == (16, 15, 1)


def test_the_cap_over_all_files(tmp_path: Path) -> None:
    """Counted per file beyond it; said by status, of all files and of each."""
    rig = Rig(tmp_path, quarantine_lines=5, quarantine_lines_per_file=3)
    for number in range(4):
        (rig.logs / f"{number}.jsonl").write_bytes(good(number) + b"x\n" * 4)
    rig.once()
    assert rig.counts() == Counts(20, 4, 0, 16, 11, 5)
    status = rig.status()
    assert status["quarantine"]["counted_only"] == 11
    files = [file for file in status["files"] if file["lines"]]
    assert sorted((file["quarantined"], file["counted_only"]) for file in files) == [(4, 1), (4, 2), (4, 4), (4, 4)]


def test_a_small_file_makes_no_large_store(tmp_path: Path) -> None:
    """Some kilobytes that unpack to very many bad lines."""
    rig = Rig(tmp_path)
    path = rig.logs / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(good(1) + b"x\n" * 100_000))
    assert path.stat().st_size < 1000
    rig.once()
    assert rig.counts() == Counts(100_001, 1, 0, 100_000, 99_000, 1000)
    assert rig.status()["database_bytes"] < 5_000_000


# -- what is unpacked ---------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(limit=st.integers(1, 700), batch=st.integers(1, 12), batches=st.integers(1, 5), count=st.integers(1, 9))
def test_unpacking_ends_at_the_limit(
    limit: int, batch: int, batches: int, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Behind the same line wherever reading has paused; the rest is one entry, and read once the limit allows it."""
    rig = Rig(tmp_path_factory.mktemp("rig"), max_unpacked_bytes=limit)
    data = b"".join(map(good, range(count)))
    (rig.logs / "a.jsonl.zst").write_bytes(zstandard.compress(data))
    rig.once(batch_lines=batch, batches=batches)
    rig.once()
    begun = sum(1 for number in range(count) if len(good(0)) * number < limit)
    refused = int(begun < count)
    assert rig.counts() == Counts(begun + refused, begun, 0, refused, 0, refused)
    settings = rig.settings(max_unpacked_bytes=10_000)
    with SqliteStore.open(rig.root / "home" / "agenttrace.db", read_only=False) as store:
        waiting = store.quarantine.entries()
        assert all(entry.reason.startswith("unpacked it is larger than") for entry in waiting)
        assert [each.result for each in retry(store, rig.settings(), waiting)] == ["unchanged"] * refused
        assert [each.result for each in retry(store, settings, waiting)] == ["reread"] * refused
    assert rig.counts()[:4] == (count, count, 0, 0)
