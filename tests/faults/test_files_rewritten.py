"""Files that become other files under the same name: truncated, rewritten, replaced, their inode used again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from faults.rig import EXACT, Rig, age, append, bare_line, claude_line, codex_lines, line, lines, overwrite, replace


def test_undisturbed(rig: Rig) -> None:
    """Lines that are only appended are recorded, each once, and nothing is read twice."""
    written = lines(0, 6000)
    for start in range(0, 6000, 500):
        append(rig.path(), written[start : start + 500])
        rig.look()
    assert rig.verdict(written) == EXACT
    summary = rig.stop()
    assert summary is not None
    assert (summary.lines, summary.recorded, summary.bytes) == (6000, 6000, rig.path().stat().st_size)


def test_truncated_to_zero(rig: Rig, how: str) -> None:
    """What is written after a truncation is recorded, and what stood there before stays."""
    written = lines(0, 100)
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    os.truncate(rig.path(), 0)
    rig.look()
    append(rig.path(), more := lines(100, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.total("lost_bytes") == 0


@pytest.mark.parametrize("inside", [0, 7])
def test_truncated_to_a_prefix(rig: Rig, how: str, inside: int) -> None:
    """A file that is cut short, at the end of a line or inside one, goes on from there without doubles."""
    written = lines(0, 100)
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    os.truncate(rig.path(), len(b"".join(written[:40])) + inside)
    rig.look()
    append(rig.path(), (b"\n" if inside else b""), more := lines(100, 80))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert len(rig.quarantined()) == (1 if inside else 0)


@pytest.mark.parametrize("regrown", [50, 100, 400])
def test_rewritten_in_place_with_new_content(rig: Rig, how: str, regrown: int) -> None:
    """Truncated and grown again, to less, to the same size, or past the old end, before anybody looks."""
    written = lines(100, 100)
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    overwrite(rig.path(), more := lines(500, regrown))
    rig.look()
    assert rig.verdict(written + more) == EXACT


def test_rewritten_in_place_with_the_same_content(rig: Rig, how: str) -> None:
    """The same lines again, then more: only the new ones count."""
    written = lines(0, 100)
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    overwrite(rig.path(), written, more := lines(100, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT


@pytest.mark.parametrize("length", [60, 1500, 5000])
def test_lines_of_equal_length_with_equal_ends(rig: Rig, how: str, length: int) -> None:
    """Regrown past the old end behind an equal first KiB, with lines that differ in their first bytes alone."""
    header = line("header", pad=1500)
    written = [header, *lines(100, 100, pad=length)]
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    overwrite(rig.path(), header, more := lines(300, 300, pad=length))
    rig.look()
    assert rig.verdict(written + more) == EXACT


def test_rewritten_to_the_same_size_and_time(rig: Rig) -> None:
    """Another content of the same length, so soon that size and time are as they were."""
    written = lines(100, 5)
    append(rig.path(), written)
    age(rig.path(), -1)  # a moment that lasts a little longer
    stat = rig.path().stat()
    rig.look()
    overwrite(rig.path(), more := lines(200, 5))
    os.utime(rig.path(), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    rig.look()
    assert rig.verdict(written + more) == EXACT


def test_truncated_with_unread_lines(rig: Rig) -> None:
    """Bytes that were seen and are gone before they are read cannot be recorded: they are counted."""
    written = lines(0, 100)
    append(rig.path(), written)
    rig.look()
    append(rig.path(), unread := lines(100, 50))
    rig.recorder.scan()
    overwrite(rig.path(), more := lines(200, 5))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.total("lost_bytes") == len(b"".join(unread))


@pytest.mark.parametrize("pad", [0, 3_000_000])
def test_half_line_cut_off(rig: Rig, pad: int) -> None:
    """A half line that somebody cuts off again is not mixed with what comes in its place."""
    written = lines(0, 3)
    append(rig.path(), written, line("torn", pad=pad)[:-10])
    rig.look()
    os.truncate(rig.path(), len(b"".join(written)))
    append(rig.path(), more := lines(10, 20, pad=pad // 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.quarantined() == []


def test_half_line_cut_off_is_counted(rig: Rig) -> None:
    """Where a look finds the file shorter, the bytes that are gone are known."""
    written = lines(0, 3)
    append(rig.path(), written, torn := line("torn")[:30])
    rig.look()
    os.truncate(rig.path(), len(b"".join(written)))
    rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.total("lost_bytes") == len(torn)


def test_nothing_is_lost_by_growing(rig: Rig) -> None:
    """Lost bytes are counted where bytes are gone, never where a file only went on, was rotated or saved anew."""
    append(rig.path(), written := lines(0, 10), line(10)[:20])
    rig.look()
    append(rig.path(), line(10)[20:], lines(11, 10))
    rig.recorder.scan()
    append(rig.path(), lines(21, 5))
    rig.look()
    replace(rig.path(), rig.path().read_bytes(), lines(26, 5))
    rig.look()
    rig.path().rename(rig.path("a.jsonl.1"))
    append(rig.path(), lines(31, 5))
    rig.restart()
    assert rig.verdict(written + lines(10, 26)) == EXACT
    assert rig.total("lost_bytes") == 0


def test_replaced_between_two_reads(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that becomes another one while a batch is being read is not continued in the middle of the new one."""
    monkeypatch.setattr("agenttrace.record.files.reader.CHUNK_BYTES", 1000)
    header = line("header", pad=1500)
    append(rig.path(), header, written := lines(100, 40))
    other = lines(200, 60)
    steps = count()

    def disturb() -> bool:
        if next(steps) == 2:
            overwrite(rig.path(), header, other)
        return False

    rig.recorder.scan()
    rig.recorder.drain(stop=disturb)
    assert next(steps) > 2
    rig.look()
    found = rig.stored()
    assert set(found) <= {header, *written, *other}
    assert len(set(found)) == len(found)
    assert {header, *other} <= set(found)


def test_replaced_between_reading_and_commit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of a file is what was read, not what stands there by the time it is stored."""
    append(rig.path(), written := lines(100, 40))
    write = rig.recorder.pipeline.commit

    def commit() -> None:
        overwrite(rig.path(), lines(200, 60))
        write()

    monkeypatch.setattr(rig.recorder.pipeline, "commit", commit)
    rig.recorder.scan()
    rig.recorder.drain()
    monkeypatch.undo()
    rig.look()
    assert rig.verdict(written + lines(200, 60)) == EXACT


def test_another_file_under_the_same_inode(rig: Rig, how: str) -> None:
    """The content decides, not the number: another log is written into the old one's inode."""
    written = [claude_line(number) for number in range(50)]
    append(rig.path(), written)
    rig.look()
    rig.leave(how)
    inode = rig.path().stat().st_ino
    overwrite(rig.path(), more := lines(0, 200))
    assert rig.path().stat().st_ino == inode
    rig.look()
    assert rig.verdict(written + more) == EXACT


@pytest.mark.parametrize("pad", [0, 2000])
def test_inode_used_again(rig: Rig, how: str, pad: int) -> None:
    """A file is deleted and the next one, at another path, gets its inode number."""
    append(rig.path(), written := lines(0, 250, pad=pad))
    rig.look()
    rig.leave(how)
    inode = rig.path().stat().st_ino
    rig.path().unlink()
    successor = _with_inode(rig.logs, inode, how)
    append(successor, more := lines(1000, 300, pad=pad))
    rig.look()
    append(successor, lines(2000, 5, pad=pad))
    rig.look()
    assert rig.verdict(written + more + lines(2000, 5, pad=pad)) == EXACT
    # What was recorded is still known to come from the file it came from.
    paths = {row[0] for row in rig.query("SELECT filepath FROM file_offsets")}
    assert len(paths) == 2


def _with_inode(directory: Path, inode: int, how: str) -> Path:
    """A new file with this inode number, where the file system gives numbers again and the old file is not held."""
    for number in range(200):
        path = directory / f"next-{number}.jsonl"
        path.touch()
        if path.stat().st_ino == inode:
            return path
        path.rename(path.with_suffix(".kept"))
    if how != "running":
        pytest.skip("this file system does not give inode numbers again")
    return directory / "next.jsonl"


def test_deleted_and_created_again(rig: Rig, how: str) -> None:
    """In mid-session the log is deleted and a new one begun under its name."""
    append(rig.path(), written := lines(0, 250))
    rig.look()
    rig.leave(how)
    rig.path().unlink()
    append(rig.path(), more := lines(1000, 250))
    rig.look()
    append(rig.path(), lines(2000, 5))
    rig.look()
    assert rig.verdict(written + more + lines(2000, 5)) == EXACT


def test_deleted_with_unread_lines_while_open(rig: Rig) -> None:
    """A deleted file is read to its end as long as it is open."""
    append(rig.path(), lines(0, 10))
    rig.look()
    append(rig.path(), lines(10, 20_000))
    rig.path().unlink()
    append(rig.path(), lines(30_000, 10))
    rig.look()
    assert rig.verdict(lines(0, 20_010) + lines(30_000, 10)) == EXACT
    assert rig.total("lost_bytes") == 0


def test_deleted_with_unread_lines_while_closed(rig: Rig) -> None:
    """Nobody can read them any more: they are counted, with the file and the reason."""
    append(rig.path(), written := lines(0, 10))
    rig.look()
    rig.idle()
    append(rig.path(), unread := lines(10, 20))
    rig.recorder.scan()
    rig.path().unlink()
    rig.look()
    rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.total("lost_bytes") == (lost := len(b"".join(unread)))
    assert rig.query("SELECT error FROM file_offsets") == [(f"gone with {lost} unread bytes",)]


@pytest.mark.parametrize("make", [lines, lambda first, count: [claude_line(n) for n in range(first, first + count)]])
def test_saved_atomically(rig: Rig, how: str, make: Callable[[int, int], list[bytes]]) -> None:
    """A new inode with the same content and ten lines more."""
    append(rig.path(), written := make(0, 500))
    rig.look()
    rig.leave(how)
    replace(rig.path(), written, more := make(500, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    if how == "running":
        assert rig.stop().duplicate == 0  # type: ignore[union-attr]  # it goes on where it stood


def test_saved_atomically_again_and_again(rig: Rig) -> None:
    """Each save is followed, and no descriptors pile up."""
    written: list[bytes] = []
    for number in range(40):
        written += lines(number * 10, 3)
        replace(rig.path(), written)
        rig.look()
    assert rig.verdict(written) == EXACT
    rig.idle()
    assert len(list(rig.recorder._watchlist.tracked())) == 1


def test_restored_from_backup(rig: Rig, how: str) -> None:
    """The file is deleted, its copy is put in its place with the old times, and it goes on."""
    append(rig.path(), written := lines(0, 500))
    backup = rig.root / "backup"
    shutil.copy2(rig.path(), backup)
    rig.look()
    append(rig.path(), later := lines(500, 20))
    rig.look()
    rig.leave(how)
    rig.path().unlink()
    rig.look()
    rig.leave(how)
    shutil.copy2(backup, rig.path())
    append(rig.path(), more := lines(600, 10))
    rig.look()
    assert rig.verdict(written + later + more) == EXACT


def test_lines_without_ids_when_a_file_is_read_again(rig: Rig, how: str) -> None:
    """Equal lines count as often as they stand in a file, also when it is read a second time from its start."""
    written = codex_lines(100)
    path = rig.path("rollout-2026-01-02T03-04-05-0199c5d2-4a3b-7c11-8f00-6d1f2e3a4b5c.jsonl")
    append(path, written[:60])
    rig.look()
    rig.leave(how)
    # Another first line: everything counts as new and is read again.
    replace(path, b"\n", written)
    rig.look()
    append(path, written[-1])
    rig.look()
    assert rig.verdict([*written, written[-1]]) == EXACT


def test_equal_lines_without_ids(rig: Rig, how: str) -> None:
    """Of equal lines each one counts; no restart makes one of them a double of another."""
    same = bare_line("again")
    for _ in range(3):
        append(rig.path(), same, same)
        rig.look()
        rig.leave(how)
    append(rig.path(), same)
    rig.look()
    assert rig.verdict([same] * 7) == EXACT
