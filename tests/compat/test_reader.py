"""The specification's reader: the records of a JSONL file, each once, across restarts and rewritten files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace import IncrementalJSONLReader, PersistentOffsetStore


@pytest.fixture
def offsets(tmp_path: Path) -> Iterator[PersistentOffsetStore]:
    with PersistentOffsetStore(tmp_path / "offsets.db") as store:
        yield store


def write(path: Path, *numbers: int, mode: str = "ab") -> None:
    with path.open(mode) as file:
        file.write(b"".join(json.dumps({"n": number}).encode() + b"\n" for number in numbers))


def read(path: Path, offsets: PersistentOffsetStore) -> list[int]:
    """The records that a new reader yields."""
    return [record.data["n"] for record in IncrementalJSONLReader(path, offsets).read_new_records()]


def test_records_once_across_readers(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """Each reader continues where the last one stopped."""
    path = tmp_path / "a.jsonl"
    write(path, 1, 2)
    assert read(path, offsets) == [1, 2]
    assert read(path, offsets) == []
    write(path, 3)
    assert read(path, offsets) == [3]


def test_one_reader_reads_repeatedly(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """The same object yields the records since the last read."""
    path = tmp_path / "a.jsonl"
    write(path, 1)
    reader_ = IncrementalJSONLReader(path, offsets)
    assert [record.data["n"] for record in reader_.read_new_records()] == [1]
    write(path, 2)
    assert [record.data["n"] for record in reader_.read_new_records()] == [2]
    write(path, *range(100, 150), mode="wb")
    assert [record.data["n"] for record in reader_.read_new_records()] == list(range(100, 150))


def test_half_record_waits(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """A record is yielded when its line is complete."""
    path = tmp_path / "a.jsonl"
    write(path, 1)
    with path.open("ab") as file:
        file.write(b'{"n"')
    assert read(path, offsets) == [1]
    with path.open("ab") as file:
        file.write(b": 2}\n")
    assert read(path, offsets) == [2]


def test_a_caller_that_stops_has_handled_its_record(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """A caller that stops in the middle continues after its last record."""
    path = tmp_path / "a.jsonl"
    write(path, 1, 2, 3)
    records = IncrementalJSONLReader(path, offsets).read_new_records()
    assert next(records).data == {"n": 1}
    records.close()  # type: ignore[attr-defined]  # a generator, whatever its annotation says
    assert read(path, offsets) == [2, 3]


def test_a_crash_repeats_at_most_the_current_record(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """The offset is saved with every record, not at the end."""
    path = tmp_path / "a.jsonl"
    write(path, *range(10))
    records = IncrementalJSONLReader(path, offsets).read_new_records()
    assert [next(records).data["n"] for _ in range(4)] == [0, 1, 2, 3]
    # The caller is still busy with the last one; nothing of this process is run any more.
    assert read(path, offsets) == [3, 4, 5, 6, 7, 8, 9]
    records.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("again", [False, True])
def test_a_file_rewritten_behind_its_beginning_is_read_from_its_start(
    tmp_path: Path, offsets: PersistentOffsetStore, again: bool
) -> None:
    """With the same first kilobyte and the same size, the end of the part that was read shows it."""
    path = tmp_path / "a.jsonl"
    write(path, *range(1000, 1500))
    kept = IncrementalJSONLReader(path, offsets)
    assert len(list(kept.read_new_records())) == 500
    write(path, *range(1000, 1300), *range(5300, 5500), 7777, mode="wb")
    reader_ = kept if again else IncrementalJSONLReader(path, offsets)
    assert [record.data["n"] for record in reader_.read_new_records()][-2:] == [5499, 7777]
    assert reader_.current_offset == path.stat().st_size
    assert read(path, offsets) == []


def test_offsets_of_other_programs_are_continued(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """They have only the beginning of the file."""
    path = tmp_path / "a.jsonl"
    write(path, 1, 2)
    offsets.save_offset(str(path), 9, path.stat().st_size, path.stat().st_ino)
    assert read(path, offsets) == [2]


@pytest.mark.parametrize("numbers", [(7,), tuple(range(50, 90))])
def test_replaced_file_is_read_from_its_start(
    tmp_path: Path, offsets: PersistentOffsetStore, numbers: tuple[int, ...]
) -> None:
    """Shorter or longer than the part that was read: other content is another file."""
    path = tmp_path / "a.jsonl"
    write(path, *range(10))
    assert read(path, offsets) == list(range(10))
    write(path, *numbers, mode="wb")
    assert read(path, offsets) == list(numbers)


def test_bad_lines_are_noted(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """They are skipped, with their offset and the reason; blank lines and a byte order mark are no bad lines."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1}\n\nnonsense\n[1]\n{"n": "\xff"}\n{"n": 2}\n' + b"x" * 300 + b"\n")
    reader_ = IncrementalJSONLReader(path, offsets, max_line_bytes=1 << 20)
    assert [record.data["n"] for record in reader_.read_new_records()] == [1, 2]
    assert [offset for offset, _ in reader_.bad_lines] == [13, 22, 26, 46]


def test_missing_file(tmp_path: Path, offsets: PersistentOffsetStore) -> None:
    """A file that is not there yields nothing, and everything once it is."""
    path = tmp_path / "a.jsonl"
    reader_ = IncrementalJSONLReader(path, offsets)
    assert list(reader_.read_new_records()) == []
    write(path, 1)
    assert [record.data["n"] for record in reader_.read_new_records()] == [1]
