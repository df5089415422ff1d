"""Reading lines: each complete one once, at its place, whatever the chunks and however the file grows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.record.files import archives, reader
from agenttrace.record.files.archives import ZstdReader
from agenttrace.record.files.fingerprint import seek_and_read
from agenttrace.record.files.reader import (
    Chunk,
    LineReader,
    OpenFile,
    storable,
    stored_path,
)
from agenttrace.record.formats.contract import Source

#: Bytes with many newlines and NULs among them.
contents = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n", b"\0", b"\r", b"x" * 40]), max_size=60).map(b"".join)


class Reading:
    """A file that is written piece by piece and read meanwhile."""

    def __init__(self, path: Path, limit: int = 1 << 20) -> None:
        self.path = path
        self.path.touch()
        self.file = OpenFile(str(path))
        self.reader = LineReader(self.file.descriptor, limit)
        self.position = 0
        self.chunks: list[Chunk] = []

    def more(self) -> None:
        """Read whatever is complete."""
        while (chunk := self.reader.read(self.position, self.file.stat().st_size)) is not None:
            assert chunk.end > self.position
            self.position = chunk.end
            self.chunks.append(chunk)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    @property
    def lines(self) -> list[tuple[int, bytes]]:
        return [pair for chunk in self.chunks for pair in zip(chunk.offsets, chunk.lines, strict=True)]

    def close(self) -> None:
        self.file.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 7)
    monkeypatch.setattr(archives, "CHUNK_BYTES", 7)


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    found = Reading(tmp_path / "a.jsonl")
    yield found
    found.close()


def numbered(data: bytes) -> list[tuple[int, bytes]]:
    """The complete lines of some bytes and where they begin."""
    found, offset = [], 0
    for raw in data.split(b"\n")[:-1]:
        found.append((offset, raw))
        offset += len(raw) + 1
    return found


@given(parts=st.lists(contents, max_size=8), chunk=st.sampled_from([1, 3, 7, 50, 1 << 20]))
def test_every_complete_line_once(parts: list[bytes], chunk: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """However a file grows and however much is read at a time: its lines, each once, with their offsets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK_BYTES", chunk)
        reading = Reading(tmp_path_factory.mktemp("reading") / "a.jsonl")
        for part in parts:
            reading.append(part)
            reading.more()
        reading.close()
    data = b"".join(parts)
    assert reading.lines == numbered(data)
    assert b"".join(one.data for one in reading.chunks) == data[: data.rfind(b"\n") + 1]
    assert reading.position == data.rfind(b"\n") + 1


@given(lengths=st.lists(st.integers(0, 40), max_size=12), chunk=st.sampled_from([1, 7, 1 << 20]))
def test_lines_over_the_limit(lengths: list[int], chunk: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A line longer than a chunk and the limit is not handed out but named, with its place and length."""
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK_BYTES", chunk)
        reading = Reading(tmp_path_factory.mktemp("reading") / "a.jsonl", limit=20)
        reading.append(data)
        reading.more()
        reading.close()
    found = dict(reading.lines)
    large = {one.oversized[0]: one.oversized[1] for one in reading.chunks if one.oversized is not None}
    assert found.keys() | large.keys() == {offset for offset, _ in numbered(data)}
    assert not found.keys() & large.keys()
    assert all(length > 20 for length in large.values())
    if chunk <= 20:
        assert all(len(raw) <= 20 for raw in found.values())


@pytest.mark.usefixtures("small_chunks")
def test_equal_monsters_have_equal_digests(tmp_path: Path) -> None:
    """A line that is too long is known again by its digest when the file is read a second time."""
    digests = []
    for content in (b"x" * 50, b"x" * 50, b"x" * 49 + b"y"):
        reading = Reading(tmp_path / "a.jsonl", limit=20)
        reading.path.write_bytes(content + b"\n")
        reading.more()
        reading.close()
        (chunk,) = reading.chunks
        assert chunk.oversized is not None
        digests.append(chunk.oversized[2])
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.usefixtures("small_chunks")
def test_written_over_reserved_space(reading: Reading) -> None:
    """NULs that were scanned in vain are scanned again: the program may have written over them."""
    reading.append(b"one\n" + b"\0" * 30)
    reading.more()
    assert reading.reader.solid_end(34) == 4
    with reading.path.open("r+b") as file:
        file.seek(4)
        file.write(b"a longer line than a chunk\n")
    reading.more()
    assert reading.lines == [(0, b"one"), (4, b"a longer line than a chunk")]


@pytest.mark.usefixtures("small_chunks")
def test_changed_behind_what_was_scanned(reading: Reading) -> None:
    """A newline that is written into bytes scanned before is not swallowed by the line."""
    reading.append(b"half a line that goes on and on")
    reading.more()
    with reading.path.open("r+b") as file:
        file.write(b"short\nlines\nin\nits place now...\n")
    reading.more()
    assert [raw for _, raw in reading.lines] == [b"short", b"lines", b"in", b"its place now..."]


def test_file_shorter_than_expected(reading: Reading) -> None:
    """Where the file has become shorter than a look said, nothing is invented."""
    reading.append(b"half")
    assert reading.reader.read(0, 1000) is None
    assert reading.reader.read(100, 1000) is None


def test_unterminated(reading: Reading) -> None:
    """The last line without its newline, if it is not too long to be loaded."""
    reading.append(b"one\ntwo")
    reading.more()
    assert reading.reader.unterminated(4, 7) == b"two"
    assert reading.reader.unterminated(7, 7) is None
    assert LineReader(reading.file.descriptor, 2).unterminated(4, 7) is None


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_only_files_are_opened(tmp_path: Path, kind: str) -> None:
    """What is no file is refused at once, without waiting for a writer."""
    path = tmp_path / "a.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        OpenFile(str(path))


# -- compressed files -------------------------------------------------------------------------------------------------


def zstd_lines(path: Path, position: int = 0, limit: int = 1 << 20) -> tuple[list[tuple[int, bytes]], list[int]]:
    """The lines of a compressed file from a position on, and the lengths of those that are too long."""
    file = OpenFile(str(path))
    found, large = [], []
    compressed = ZstdReader(file.descriptor, limit)
    with closing(file), suppress(OSError):
        while (chunk := compressed.read(position, 0)) is not None:
            found += list(zip(chunk.offsets, chunk.lines, strict=True))
            if chunk.oversized is not None:
                large.append(chunk.oversized[1])
            position = chunk.end
    return found, large


@given(frames=st.lists(contents, max_size=4), data=st.data())
def test_compressed_lines(frames: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Over several frames, from the start or from any line on; the last line needs no newline."""
    path = tmp_path_factory.mktemp("zstd") / "a.jsonl.zst"
    path.write_bytes(b"".join(zstandard.compress(frame) for frame in frames))
    content = b"".join(frames)
    expected = numbered(content)
    if content and not content.endswith(b"\n"):
        expected.append((content.rfind(b"\n") + 1, content[content.rfind(b"\n") + 1 :]))
    assert zstd_lines(path) == (expected, [])
    start = data.draw(st.sampled_from([0, *(offset for offset, _ in expected)]))
    assert zstd_lines(path, start) == ([pair for pair in expected if pair[0] >= start], [])


@pytest.mark.usefixtures("small_chunks")
def test_compressed_line_over_the_limit(tmp_path: Path) -> None:
    """It is named, and the lines behind it are read."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(b"one\n" + b"x" * 100 + b"\nthree\n"))
    assert zstd_lines(path, limit=20) == ([(0, b"one"), (105, b"three")], [100])


# Without a line end: where the cut falls inside a block that is not compressed, garbage takes the place of its text.
_GARBAGE = st.binary(min_size=8, max_size=20).filter(lambda garbage: b"\n" not in garbage)


@given(lines=st.integers(1, 3000), garbage=_GARBAGE, cut=st.integers(0, 3))
def test_damaged_compressed_file(
    lines: int, garbage: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every line before the damage is handed out, and then it is said that there is damage."""
    content = b"".join(b'{"n": %d}\n' % number for number in range(lines))
    path = tmp_path_factory.mktemp("zstd") / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(content) + zstandard.compress(b"half a li")[: -cut or None] + b"\0" + garbage)
    assert zstd_lines(path) == (numbered(content), [])
    file = OpenFile(str(path))
    with closing(file), pytest.raises(OSError, match="ends early"):
        ZstdReader(file.descriptor, 100).read(len(content), 0)


@pytest.mark.parametrize("start", [0, 4, 400])
def test_what_is_no_zstd(tmp_path: Path, start: int) -> None:
    """It is said, wherever reading is to begin."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"this is not compressed at all")
    file = OpenFile(str(path))
    with closing(file), pytest.raises(OSError, match="ends early"):
        ZstdReader(file.descriptor, 100).read(start, 0)


# -- what the store can hold ------------------------------------------------------------------------------------------


@given(name=st.binary(min_size=1, max_size=30))
def test_any_path_can_be_stored(name: bytes) -> None:
    """A path becomes text that can be stored, and a source taken from it can too."""
    path = os.fsdecode(name.replace(b"/", b"").replace(b"\0", b""))
    stored_path(path).encode()
    source = storable(Source(agent="x", session_id=path, directory=path, title="ünchanged"))
    assert msgspec.json.decode(msgspec.json.encode(source), type=Source) == source
    assert source.title == "ünchanged"


@given(data=st.binary(max_size=200), offset=st.integers(0, 220), length=st.integers(0, 220))
def test_reading_in_two_steps_is_reading_in_one(data: bytes, offset: int, length: int) -> None:
    """Where a system cannot read at a place in one step, the result is the same."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        assert seek_and_read(file.fileno(), length, offset) == os.pread(file.fileno(), length, offset)
