"""The log of received spans: what was appended is there whole, whatever happened to the file before."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.serve.intake import span_log
from agenttrace.serve.intake.span_log import SpanLog

DAY = 86_400


class Clock:
    """A clock that only moves by hand."""

    def __init__(self) -> None:
        self.now = 1_794_732_814.0

    def __call__(self) -> float:
        return self.now


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


PORTIONS = st.lists(
    st.lists(st.binary(min_size=1, max_size=8).filter(lambda line: b"\n" not in line), min_size=1), max_size=5
)


@settings(max_examples=60)
@given(st.lists(st.tuples(PORTIONS, st.integers(0, 12)), min_size=1, max_size=4))
def test_a_torn_end_spoils_nothing(lives: list[tuple[list[list[bytes]], int]]) -> None:
    """Each life of the server appends portions and may die in the middle of the last write: every line of the lives
    before that was not itself cut is a line of the file, in order."""
    with tempfile.TemporaryDirectory() as root:
        expected: list[bytes] = []
        for portions, cut in lives:
            log = SpanLog(Path(root), clock=Clock())
            for portion in portions:
                log.append(b"\n".join([*portion, b""]))
                expected += portion
            log.close()
            found = next(Path(root).glob("*.jsonl"), None)
            if found is not None and cut:
                whole = found.read_bytes()[:-cut]
                found.write_bytes(whole)
                expected = whole.removesuffix(b"\n").split(b"\n") if whole else []
        stored = b"".join(files(Path(root)).values())
        assert [line for line in stored.split(b"\n") if line] == [line for line in expected if line]


def test_a_file_a_day(tmp_path: Path) -> None:
    """With a new day a new file begins."""
    clock = Clock()
    log = SpanLog(tmp_path, clock=clock)
    log.append(b"one\n")
    clock.now += DAY
    log.append(b"two\n")
    assert list(files(tmp_path).values()) == [b"one\n", b"two\n"]


def test_large_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is large enough is left for the next one, also after a restart."""
    monkeypatch.setattr(span_log, "MOST_FILE_BYTES", 4)
    for text in (b"1\n", b"22\n", b"3\n", b"4444\n", b"5\n"):
        log = SpanLog(tmp_path, clock=Clock())
        log.append(text)
        log.close()
    assert [name.split(".")[1] for name in files(tmp_path)] == ["1", "2", "3"]
    assert b"".join(files(tmp_path).values()) == b"1\n22\n3\n4444\n5\n"


def test_a_deleted_file(tmp_path: Path) -> None:
    """The file is removed while it is open: the next line goes to a new one."""
    log = SpanLog(tmp_path, clock=Clock())
    log.append(b"one\n")
    next(tmp_path.iterdir()).unlink()
    log.append(b"two\n")
    assert list(files(tmp_path).values()) == [b"two\n"]


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """A failed write raises, and the next one opens the file again."""
    log = SpanLog(tmp_path, clock=Clock())
    log.append(b"one\n")
    (path,) = tmp_path.iterdir()
    aside = path.rename(tmp_path / "aside")
    path.symlink_to("/dev/full")
    log.close()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        log.append(b"two\n")
    path.unlink()
    aside.rename(path)
    log.append(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
