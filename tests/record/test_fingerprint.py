"""Which file is this: identities that survive growth, and marks that notice change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import FileFingerprint
from agenttrace.record.files import fingerprint as fp
from agenttrace.record.files.fingerprint import ReadMark, identity, same_head

#: Content in pieces, as it may be read: shorter and longer than what a mark keeps.
pieces = st.lists(
    st.one_of(st.binary(min_size=1, max_size=50), st.integers(1, 3000).map(lambda size: b"x" * size + b"\n")),
    min_size=1,
    max_size=6,
)


@contextmanager
def opened(directory: Path, data: bytes) -> Iterator[int]:
    path = directory / "file"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def mark_of(parts: list[bytes]) -> ReadMark:
    """The mark as reading builds it, piece by piece, each piece one line."""
    mark = fp.NOTHING_READ
    for part in parts:
        mark = mark.grown(part, mark.end)
    return mark


@given(head=st.binary(max_size=1500), more=st.binary(max_size=1500))
def test_growth_keeps_identity(head: bytes, more: bytes) -> None:
    """A file that only grew is the file it was."""
    assert same_head(identity(head), head + more)


@given(head=st.binary(min_size=1, max_size=1024), data=st.data())
def test_another_head_is_another_file(head: bytes, data: st.DataObject) -> None:
    """Any other byte among those that were hashed makes another file, and so does a missing one."""
    place = data.draw(st.integers(0, len(head) - 1))
    changed = head[:place] + bytes([head[place] ^ 1]) + head[place + 1 :]
    assert not same_head(identity(head), changed + b"more")
    assert not same_head(identity(head), head[:place])


@pytest.mark.parametrize("known", ["", "x", "10:", "10:abc", ":" + "0" * 32, "-1:" + "0" * 32, "ten:" + "0" * 32])
def test_what_is_no_identity(known: str) -> None:
    """Garbage in place of an identity fits no file."""
    assert not same_head(known, b"anything at all")


@given(parts=pieces)
def test_mark_is_the_same_however_it_comes_about(parts: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A mark built from the bytes as they are read equals the one that is read from the file."""
    mark = mark_of(parts)
    with opened(tmp_path_factory.mktemp("marks"), b"".join(parts) + b"more to come") as descriptor:
        assert fp.read_mark(descriptor, mark.end, mark.line) == mark
        assert fp.stored_mark(descriptor, mark.end, mark.identity, mark.ending) == mark


@given(parts=pieces, data=st.data())
def test_mark_notices_change(parts: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A changed byte in the head, in the last KiB, or where the last line begins does not go unnoticed."""
    mark, content = mark_of(parts), b"".join(parts)
    kept = {
        *range(min(len(content), fp.HEAD_BYTES)),
        *range(max(0, len(content) - fp.TAIL_BYTES), len(content)),
        *range(mark.line, min(mark.line + fp.TAIL_BYTES, len(content))),
    }
    place = data.draw(st.sampled_from(sorted(kept)))
    changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for other in (changed, content[:place]):
        with opened(tmp_path_factory.mktemp("marks"), other) as descriptor:
            assert fp.read_mark(descriptor, mark.end, mark.line) != mark
            assert fp.stored_mark(descriptor, mark.end, mark.identity, mark.ending) is None


@pytest.mark.parametrize("ending", [None, "", "x", "5", "5:", "99999:" + "0" * 32, "-1:" + "0" * 32, "0:" + "0" * 32])
def test_nonsense_in_place_of_a_mark(tmp_path: Path, ending: str | None) -> None:
    """Whatever is in the store, it is a mark of the file or it is none."""
    with opened(tmp_path, b"some content\n") as descriptor:
        good = fp.read_mark(descriptor, 13, 0)
        assert fp.stored_mark(descriptor, 13, good.identity, ending) is None
        assert fp.stored_mark(descriptor, 13, None, good.ending) is None
        assert fp.stored_mark(descriptor, 13, good.identity, good.ending) == good


def test_compute(tmp_path: Path) -> None:
    """The fields of the specification, from the file as it is."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 3000)
    stat = path.stat()
    found = FileFingerprint(path).compute()
    assert (found["inode"], found["size"], found["mtime"]) == (stat.st_ino, 3000, stat.st_mtime)
    assert found["identity"] == identity(b"x" * 3000) == identity(b"x" * 1024)
    assert len(found["fingerprint"]) == 16


def test_has_changed(tmp_path: Path) -> None:
    """An append is a change, and does not make it another file; nothing happening is none."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 2000)
    fingerprint = FileFingerprint(path)
    before = fingerprint.compute()
    assert not fingerprint.has_changed(before)
    with path.open("ab") as file:
        file.write(b"y")
    assert fingerprint.has_changed(before)
    assert fingerprint.compute()["identity"] == before["identity"]
    assert fingerprint.has_changed({})
