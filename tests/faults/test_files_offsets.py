"""Offsets that are lost or nonsense, and ids that lie: what was recorded stays, and nothing comes twice."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

from agenttrace import IncrementalJSONLReader, PersistentOffsetStore
from agenttrace.store.sqlite.database import connect
from faults.rig import EXACT, Rig, append, bare_line, claude_line, codex_lines, line, lines

ROLLOUT = "rollout-2026-01-02T03-04-05-0199c5d2-4a3b-7c11-8f00-6d1f2e3a4b5c.jsonl"


def change(rig: Rig, sql: str, values: Sequence[Any] = ()) -> None:
    """Do something to the store that the recorder never would."""
    rig.stop()
    connection = connect(rig.settings.home / "agenttrace.db")
    connection.execute(sql, values)
    connection.close()


def test_offsets_deleted(rig: Rig) -> None:
    """The ids alone keep lines from being recorded twice, with and without ids of their own."""
    rollout = codex_lines(101)
    append(rig.path(), written := lines(0, 500))
    append(rig.path(ROLLOUT), rollout[:80])
    rig.look()
    change(rig, "DELETE FROM file_offsets")
    append(rig.path(), more := lines(500, 10))
    append(rig.path(ROLLOUT), rollout[80:])
    rig.look()
    assert rig.verdict(written + more + rollout) == EXACT
    # What was recorded before is still known to come from its files.
    orphans = "SELECT count(*) FROM raw_blocks WHERE file_id NOT IN (SELECT file_id FROM file_offsets)"
    assert rig.query(orphans) == [(0,)]


@pytest.mark.parametrize("position", [1, 700, 10**6, 2**62])
def test_offset_that_is_wrong(rig: Rig, position: int) -> None:
    """An offset that does not belong to the content is noticed, wherever it points."""
    append(rig.path(), written := lines(0, 100))
    rig.look()
    change(rig, "UPDATE file_offsets SET offset = ?, file_size = ?", (position, position))
    append(rig.path(), more := lines(100, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT


NONSENSE: tuple[object, ...] = (None, -1, 0, 1, 2**62, 1.5, "", "nonsense", "1024:" + "0" * 32, b"\x00\xff", "7:x")
COLUMNS = (
    "offset",
    "inode",
    "device",
    "fingerprint",
    "tail_hash",
    "file_size",
    "mtime_ns",
    "file_id",
    "generation",
    "blocks",
    "source",
    "lines",
    "last_read_at",
    "gone_at",
    "error",
)


@pytest.mark.parametrize("column", COLUMNS)
def test_nonsense_in_one_column(rig: Rig, column: str) -> None:
    """Whatever a field holds, the recorder starts and nothing is missing or doubled."""
    written: list[bytes] = []
    for number, value in enumerate(NONSENSE):
        append(rig.path(), more := lines(number * 100, 20))
        append(rig.path("b.jsonl"), other := lines(number * 100 + 50, 20))
        written += more + other
        rig.look()
        change(rig, f"UPDATE OR IGNORE file_offsets SET {column} = ?", (value,))
    append(rig.path(), more := lines(9000, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT


def test_nonsense_everywhere(rig: Rig) -> None:
    """A table full of garbage rows: the recorder starts, rebuilds it and records what is new."""
    chance = random.Random(7)
    written: list[bytes] = []
    for turn in range(30):
        append(rig.path(), more := lines(turn * 100, 20))
        written += more
        rig.look()
        names = ("filepath", *COLUMNS)
        values = [chance.choice([str(rig.path()), "x", *NONSENSE]), *(chance.choice(NONSENSE) for _ in COLUMNS)]
        marks = ", ".join("?" * len(names))
        change(rig, f"INSERT OR IGNORE INTO file_offsets ({', '.join(names)}) VALUES ({marks})", values)
        change(rig, f"UPDATE OR IGNORE file_offsets SET {chance.choice(COLUMNS)} = ?", (chance.choice(NONSENSE),))
    append(rig.path(), more := lines(9000, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT


def test_another_length_of_fingerprints(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version may look at more or fewer bytes; files are read again once and nothing comes twice."""
    append(rig.path(), written := lines(0, 50))
    for number, size in enumerate((200, 5000, 1024)):
        rig.stop()
        monkeypatch.setattr("agenttrace.record.files.fingerprint.HEAD_BYTES", size)
        monkeypatch.setattr("agenttrace.record.files.fingerprint.TAIL_BYTES", size)
        append(rig.path(), more := lines(100 * (number + 1), 5))
        written += more
        rig.look()
    assert rig.verdict(written) == EXACT


def test_one_number_for_two_files(rig: Rig) -> None:
    """Two rows that claim the same number do not make two files one."""
    append(rig.path(), lines(0, 50))
    append(rig.path("b.jsonl"), lines(100, 50))
    rig.look()
    change(rig, "UPDATE file_offsets SET file_id = (SELECT min(file_id) FROM file_offsets)")
    append(rig.path(), lines(50, 50))
    append(rig.path("b.jsonl"), lines(150, 50))
    rig.look()
    assert rig.verdict(lines(0, 200)) == EXACT


def test_offsets_of_the_reader_for_one_file(rig: Rig) -> None:
    """What another program has read with the reader of one file is not what the recorder has recorded."""
    append(rig.path(), written := lines(0, 50))
    with PersistentOffsetStore(rig.settings.home / "offsets.db") as offsets:
        assert len(list(IncrementalJSONLReader(rig.path(), offsets).read_new_records())) == 50
    rig.look()
    assert rig.verdict(written) == EXACT


def test_same_id_with_other_content(rig: Rig, how: str) -> None:
    """Of lines that share session, type and id the first counts; the others are counted as duplicates."""
    append(rig.path(), first := line("x", text="first"))
    rig.look()
    rig.leave(how)
    append(rig.path(), line("x", text="second"), line("x", text="third"))
    rig.look()
    assert rig.verdict([first]) == EXACT
    rig.stop()
    assert rig.query("SELECT lines, recorded, duplicate FROM file_offsets") == [(3, 1, 2)]


def test_equal_content_with_fresh_ids(rig: Rig) -> None:
    """History that is written again under new ids is new lines; no line is dropped because it says the same."""
    path = rig.path("0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl")
    written = [claude_line(number, text="same") for number in range(50)]
    again = [one.replace(b"00000000-0000-4000", b"11111111-0000-4000") for one in written]
    append(path, written)
    rig.look()
    append(path, again)
    rig.look()
    assert rig.verdict(written + again) == EXACT


def test_ids_in_different_sessions(rig: Rig) -> None:
    """An id is unique inside its session only; one file may hold many sessions in any order."""
    written = [line(number, session=f"s{number % 3}-{turn}") for number in range(30) for turn in range(3)]
    random.Random(1).shuffle(written)
    append(rig.path(), written)
    append(rig.path("b.jsonl"), bare_line("b", session="s0-0"))
    rig.look()
    assert rig.verdict([*written, bare_line("b", session="s0-0")]) == EXACT


def test_clock_going_backwards(rig: Rig, how: str) -> None:
    """Times of files jump about: what is read depends on what stands in them."""
    written: list[bytes] = []
    for number, then in enumerate((2_000_000_000, 1_000_000_000, 4_000_000_000, 0, 1_500_000_000)):
        append(rig.path(), more := lines(number * 10, 3))
        written += more
        os.utime(rig.path(), (then, then))
        rig.look()
        rig.leave(how)
    rig.look()
    assert rig.verdict(written) == EXACT
