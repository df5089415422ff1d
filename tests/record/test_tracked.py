"""A file under watch: how far it was read, what is stored of that, and which changes are detected."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.record.files.kinds import tracked_file
from agenttrace.record.files.tracked import TrackedFile
from agenttrace.record.formats.contract import Source
from agenttrace.store.batch import FileRow

SOURCE = Source(agent="agenttrace", session_id="s")


def track(path: Path, row: FileRow | None = None) -> TrackedFile:
    """A file as the recorder sees it for the first time, or again with what the store holds."""
    return tracked_file(str(path), row or FileRow(filepath=str(path), file_id=1), 1 << 20)


def read_all(file: TrackedFile) -> list[bytes]:
    """Read what is new, as the recorder does."""
    found: list[bytes] = []
    while file.renew() and (chunk := file.read()) is not None:
        file.passed(chunk)
        found += chunk.lines
    return found


def commit(file: TrackedFile) -> FileRow:
    """Store what was read."""
    row = file.next_row()
    file.committed(row)
    return msgspec.structs.replace(row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


@pytest.fixture
def file(path: Path) -> Iterator[TrackedFile]:
    found = track(path)
    yield found
    found.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def test_goes_on_from_the_stored_row(path: Path, file: TrackedFile) -> None:
    """What was committed is not read again, by this object or another."""
    assert read_all(file) == [b"one", b"two", b"three"]
    row = commit(file)
    assert not file.dirty
    file.close()
    append(path, b"four\n")
    again = track(path, row)
    assert read_all(again) == [b"four"]
    assert again.generation == 0
    again.close()


def test_rolled_back(path: Path, file: TrackedFile) -> None:
    """What could not be stored is read again, and nothing else."""
    read_all(file)
    commit(file)
    append(path, b"four\nfive\n")
    assert read_all(file) == [b"four", b"five"]
    assert file.dirty
    file.roll_back()
    assert file.position == file.row.offset
    assert read_all(file) == [b"four", b"five"]


def test_rolled_back_before_anything_was_stored(file: TrackedFile) -> None:
    """A new file is read from its start again."""
    read_all(file)
    file.roll_back()
    assert read_all(file) == [b"one", b"two", b"three"]


def test_rolled_back_after_its_path_is_gone(path: Path, file: TrackedFile) -> None:
    """A file that was deleted must stay open: it cannot be opened again."""
    read_all(file)
    commit(file)
    append(path, b"four\n")
    path.unlink()
    read_all(file)
    file.roll_back()
    assert read_all(file) == [b"four"]


def test_stored_mark_is_of_what_was_read(path: Path, file: TrackedFile) -> None:
    """A file that becomes another one before the commit is not stored as if that one had been read."""
    read_all(file)
    path.write_bytes(b"eins\nzwei\ndrei\nvier\n")
    row = commit(file)
    file.close()
    again = track(path, row)
    assert read_all(again) == [b"eins", b"zwei", b"drei", b"vier"]
    again.close()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (b"one\ntwo\nthree\nfour\n", [b"four"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"ONE\ntwo\nthree\nfour\n", [b"ONE", b"two", b"three", b"four"]),
        (b"one\ntwo\nTHREE\nfour\n", [b"one", b"two", b"THREE", b"four"]),
        (b"one\ntwo\nthree and more\n", [b"one", b"two", b"three and more"]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_rewritten(path: Path, file: TrackedFile, change: bytes, expected: list[bytes], closed: bool) -> None:
    """Reading goes on only where everything that was read is still there."""
    read_all(file)
    commit(file)
    if closed:
        file.close()
    path.write_bytes(change)
    assert read_all(file) == expected
    assert file.generation == (0 if change.startswith(b"one\ntwo\nthree\n") else 1)


def test_unread_bytes_that_are_gone_are_counted(path: Path, file: TrackedFile) -> None:
    """Those that a look has shown, once; what was read or never shown is not."""
    read_all(file)
    commit(file)
    append(path, b"four\nfive\n")
    stat = path.stat()
    file.notice(stat.st_size, stat.st_mtime_ns)
    path.write_bytes(b"new\n")
    stat = path.stat()
    file.notice(stat.st_size, stat.st_mtime_ns)
    assert read_all(file) == [b"new"]
    assert file.lost_bytes == len(b"four\nfive\n")
    assert commit(file).lost_bytes == len(b"four\nfive\n")
    path.write_bytes(b"other\n")
    assert read_all(file) == [b"other"]
    assert commit(file).lost_bytes == len(b"four\nfive\n")


def test_fits(path: Path, file: TrackedFile, tmp_path: Path) -> None:
    """A path can be this file's if the file there begins with what was read of it."""
    read_all(file)
    for content, fitting in ((b"one\ntwo\nthree\n", True), (b"one\ntwo\nthree\n4", True), (b"one\ntwo\n", False)):
        other = tmp_path / "other"
        other.write_bytes(content)
        assert file.fits(str(other)) is fitting
    assert not file.fits(str(tmp_path / "nowhere"))
    commit(file)
    file.close()
    assert file.fits(str(path))
    assert file.handle is None


def test_is_reachable(path: Path, file: TrackedFile) -> None:
    """Only while the path leads to the open file."""
    assert not file.is_reachable()
    file.open()
    assert file.is_reachable()
    path.rename(path.with_name("b.jsonl"))
    assert not file.is_reachable()
    path.write_bytes(b"another\n")
    assert not file.is_reachable()


def test_hand_over(path: Path, file: TrackedFile) -> None:
    """A file that was saved anew goes on, and the old one is still read by another object."""
    read_all(file)
    commit(file)
    with path.open("ab", buffering=0) as writer:
        other = path.with_name("new")
        other.write_bytes(path.read_bytes() + b"four\n")
        other.replace(path)
        rest = track(path, FileRow(filepath="rest", file_id=2))
        file.hand_over(rest)
        writer.write(b"late\n")
        assert read_all(rest) == [b"late"]
    assert read_all(file) == [b"four"]
    assert (rest.lost_bytes, file.lost_bytes) == (0, 0)
    rest.close()


def test_last_line_without_newline(path: Path, file: TrackedFile) -> None:
    """It is whole only if it is the rest of the file, and its newline is not another line."""
    append(path, b"four")
    read_all(file)
    assert file.pending() == 1
    chunk = file.unterminated()
    assert chunk is not None
    assert (chunk.lines, chunk.offsets, chunk.end) == ([b"four"], [14], 18)
    file.passed(chunk)
    assert file.pending() == 0
    commit(file)
    file.close()
    append(path, b"\nfive\n\n")
    assert read_all(file) == [b"five", b""]


def test_quiet(path: Path, file: TrackedFile) -> None:
    """A file is quiet if its time says so, or if nothing was seen to happen for a while."""
    os.utime(path, (2**33, 2**33))
    file.renew()
    assert not file.is_quiet()
    os.utime(path, (1, 1))
    file.renew()
    assert file.is_quiet()
    os.utime(path, (2**33, 2**33))
    file.renew()
    file.last_growth = time.monotonic() - 60
    assert file.is_quiet()


@given(
    lines=st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=30), chunk=st.integers(1, 9), start=st.integers(0, 30)
)
def test_times_seen(lines: list[bytes], chunk: int, start: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Equal lines are numbered by their order in the file, wherever the counting begins."""
    path = tmp_path_factory.mktemp("seen") / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(line + b"\n" for line in lines))
    file = track(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agenttrace.record.files.reader.CHUNK_BYTES", chunk)
        file.open()
        for index in range(min(start, len(lines)), len(lines)):
            # The first line begins with the mark and is known without it.
            offset = 0 if index == 0 else 3 + 2 * index
            assert file.times_seen(lines[index], offset) == lines[:index].count(lines[index])
    file.close()


def test_row_has_everything(file: TrackedFile) -> None:
    """Counts add up over commits; the source comes back as it was."""
    read_all(file)
    file.source = SOURCE
    file.counts["lines"] = file.counts["recorded"] = 3
    row = commit(file)
    assert (row.offset, row.file_size, row.lines, row.recorded, row.read_count) == (14, 14, 3, 3, 1)
    file.counts["lines"] = file.counts["duplicate"] = 2
    row = commit(file)
    assert (row.lines, row.recorded, row.duplicate, row.read_count) == (5, 3, 2, 2)
    assert track(Path(file.path), row).source == SOURCE


def test_nonsense_in_place_of_a_source(path: Path) -> None:
    """A source that cannot be read is found out again."""
    assert track(path, FileRow(filepath=str(path), source=b"nonsense")).source is None


def test_quiet_files_weigh_nothing(file: TrackedFile) -> None:
    """Once its row is stored and it is closed, nothing of a file's content is in memory."""
    read_all(file)
    file.times_seen(b"one", 14)
    commit(file)
    file.close()
    assert file._mark is None
    assert file.seen_lines is None


def test_compressed(tmp_path: Path) -> None:
    """Offsets count decompressed bytes; another size or time means reading it all again."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(b"one\ntwo\n"))
    file = track(path)
    assert read_all(file) == [b"one", b"two"]
    row = commit(file)
    file.close()
    again = track(path, row)
    assert read_all(again) == []
    assert again.generation == 0
    path.write_bytes(zstandard.compress(b"one\ntwo\nthree\n"))
    assert read_all(again) == [b"one", b"two", b"three"]
    assert again.generation == 1
    again.close()
