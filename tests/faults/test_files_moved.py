"""Files that change their names, are copied, or have several: rotation, forks, links."""

from __future__ import annotations

import os
import random
import shutil
from itertools import permutations

import pytest

from agenttrace.config import load_settings
from faults.rig import EXACT, Rig, age, append, bare_line, claude_line, line, lines, overwrite, replace


def test_rotated_by_renaming(rig: Rig, how: str) -> None:
    """The old file is known under its new name, and nothing of it is read again."""
    append(rig.path(), written := lines(0, 100))
    rig.look()
    rig.leave(how)
    rig.path().rename(rig.path("a.jsonl.1"))
    append(rig.path(), more := lines(100, 50))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    summary = rig.stop()
    assert summary is not None
    assert summary.duplicate == 0


def test_writer_goes_on_in_the_rotated_file(rig: Rig, how: str) -> None:
    """Rename rotation does not stop a program that has the file open: both files are followed."""
    with rig.path().open("ab", buffering=0) as writer:
        writer.write(b"".join(written := lines(0, 100)))
        rig.look()
        rig.leave(how)
        rig.path().rename(rig.path("a.jsonl.1"))
        for start in range(100, 400, 30):
            append(rig.path(), lines(start, 10))
            rig.look()
            writer.write(b"".join(lines(start + 10, 10)))
            rig.look()
            append(rig.path(), lines(start + 20, 10))
    rig.look()
    assert rig.verdict(written + lines(100, 300)) == EXACT


@pytest.mark.parametrize("order", list(permutations(["a.jsonl", "a.jsonl.1", "a.jsonl.2"])))
def test_rotation_seen_in_any_order(rig: Rig, how: str, order: tuple[str, ...]) -> None:
    """Notifications come in no order: whichever path is looked at first, no file is lost or read as another."""
    written = lines(0, 30)
    append(rig.path("a.jsonl.1"), written[:10])
    append(rig.path("a.jsonl"), written[10:])
    rig.look()
    rig.leave(how)
    rig.path("a.jsonl.1").rename(rig.path("a.jsonl.2"))
    rig.path("a.jsonl").rename(rig.path("a.jsonl.1"))
    append(rig.path("a.jsonl.1"), lines(30, 3))
    append(rig.path("a.jsonl"), lines(40, 3))
    for _ in range(2):
        for name in order:
            rig.recorder.see_path(str(rig.path(name)))
        rig.recorder.look_at_open()
        rig.recorder.drain()
        for name in order:
            append(rig.path(name), lines(100 * int(name[-1]) if name[-1].isdigit() else 50, 2))
    rig.look()
    expected = written + lines(30, 3) + lines(40, 3) + lines(50, 2) + lines(100, 2) + lines(200, 2)
    assert rig.verdict(expected) == EXACT
    known = {row[0] for row in rig.query("SELECT filepath FROM file_offsets WHERE gone_at IS NULL")}
    assert known == {str(rig.path(name)) for name in order}


@pytest.mark.parametrize("newest_first", [True, False])
def test_rotation_listed_in_any_order(rig: Rig, how: str, newest_first: bool) -> None:
    """The times of the files say nothing: the new one may look older than the one that was rotated away."""
    append(rig.path(), written := lines(0, 50))
    rig.look()
    rig.leave(how)
    rig.path().rename(rig.path("a.jsonl.1"))
    append(rig.path(), more := lines(100, 10))
    append(rig.path("a.jsonl.1"), late := lines(200, 5))
    age(rig.path("a.jsonl" if newest_first else "a.jsonl.1"))
    rig.look()
    append(rig.path(), more2 := lines(300, 5))
    rig.look()
    rig.restart()
    assert rig.verdict(written + more + late + more2) == EXACT


def test_late_write_to_a_file_rotated_out_of_sight(rig: Rig) -> None:
    """A file that left what is watched is read through its descriptor as long as somebody may write to it."""
    with rig.path().open("ab", buffering=0) as writer:
        writer.write(b"".join(lines(0, 100)))
        rig.look()
        (rig.root / "elsewhere").mkdir()
        rig.path().rename(rig.root / "elsewhere" / "a.log")
        append(rig.path(), lines(100, 10))
        rig.look()
        writer.write(b"".join(lines(110, 20)))
        rig.look()
    assert rig.verdict(lines(0, 130)) == EXACT


def test_moved_out_of_sight_with_nothing_in_its_place(rig: Rig) -> None:
    """The same where the path stays empty: the path's absence does not end the reading."""
    with rig.path().open("ab", buffering=0) as writer:
        writer.write(b"".join(lines(0, 10)))
        rig.look()
        rig.path().rename(rig.root / "a.log")
        rig.look()
        writer.write(b"".join(lines(10, 10)))
        for file in rig.recorder.files.values():
            file.last_growth -= 30  # quiet for half a minute, and not yet idle
        rig.look()
    assert rig.verdict(lines(0, 20)) == EXACT


def test_leaves_and_returns(rig: Rig, how: str) -> None:
    """A file that is moved away and back, changed or not, is the file it was."""
    append(rig.path(), written := lines(0, 500))
    rig.look()
    for start in (500, 510):
        rig.leave(how)
        rig.path().rename(rig.root / "away")
        rig.look()
        rig.leave(how)
        append(rig.root / "away", lines(start, 10))
        (rig.root / "away").rename(rig.path())
        rig.look()
    assert rig.verdict(written + lines(500, 20)) == EXACT
    assert rig.query("SELECT lines, duplicate, lost_bytes, gone_at FROM file_offsets") == [(520, 0, 0, None)]


def test_copied_and_truncated(rig: Rig, how: str) -> None:
    """Three times; the copy inside what is watched brings what was not read before the truncation."""
    written: list[bytes] = []
    for turn in range(3):
        append(rig.path(), lines(turn * 1000, 400))
        rig.look()
        rig.leave(how)
        append(rig.path(), lines(turn * 1000 + 400, 100))
        shutil.copyfile(rig.path(), rig.path(f"a.jsonl.{turn + 1}"))
        overwrite(rig.path(), lines(turn * 1000 + 500, 33))
        written += lines(turn * 1000, 533)
        rig.look()
    assert rig.verdict(written) == EXACT


def test_writer_that_goes_on_behind_a_hole(rig: Rig) -> None:
    """After a truncation a program that does not append writes where it stood: NULs fill the gap, and are set aside."""
    with rig.path().open("wb", buffering=0) as writer:
        writer.write(b"".join(lines(0, 100)))
        rig.look()
        os.truncate(rig.path(), 0)
        writer.write(b"".join(lines(100, 10)))
        rig.look()
        writer.write(b"".join(lines(110, 10)))
        rig.look()
    assert rig.verdict(lines(0, 100) + lines(101, 19)) == EXACT
    (aside,) = rig.quarantined()
    assert aside[2] == len(b"".join(lines(0, 100))) + len(line(100)) - 1


def test_rotated_fast(rig: Rig) -> None:
    """Twenty rotations, the fifth oldest deleted each time, with looks at some of them."""
    chance = random.Random(4)
    written: list[bytes] = []
    for turn in range(20):
        for number in range(4, 0, -1):
            if rig.path(f"a.jsonl.{number}").exists():
                rig.path(f"a.jsonl.{number}").replace(rig.path(f"a.jsonl.{number + 1}"))
        if rig.path().exists():
            rig.path().rename(rig.path("a.jsonl.1"))
        append(rig.path(), more := lines(turn * 3000, 2000))
        written += more
        if turn % 3 == 0 or chance.random() < 0.5:
            rig.look()
    rig.look()
    assert rig.verdict(written) == EXACT
    # Every line can be traced to its file, deleted or not.
    orphans = "SELECT count(*) FROM raw_blocks WHERE file_id NOT IN (SELECT file_id FROM file_offsets)"
    assert rig.query(orphans) == [(0,)]


def test_fork(rig: Rig, how: str) -> None:
    """A new session begins as a copy of an old one and goes on; each line is recorded once."""
    append(rig.path(), written := lines(0, 100))
    rig.look()
    rig.leave(how)
    shutil.copyfile(rig.path(), rig.path("fork.jsonl"))
    append(rig.path("fork.jsonl"), own := lines(1000, 50))
    append(rig.path(), more := lines(100, 50))
    rig.look()
    assert rig.verdict(written + own + more) == EXACT


def test_fork_of_another_session(rig: Rig) -> None:
    """Where the copy is another session, each session has its lines, once."""
    fork = "11111111-2222-4333-8444-555555555555"
    original, copy = rig.path("0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl"), rig.path(f"{fork}.jsonl")
    append(original, written := [claude_line(number) for number in range(100)])
    rig.look()
    shutil.copyfile(original, copy)
    append(copy, own := [claude_line(number, session=fork) for number in range(100, 150)])
    rig.look()
    assert rig.verdict(written * 2 + own) == EXACT
    counts = rig.query("SELECT session_id, events FROM sessions ORDER BY events")
    assert counts == [(original.stem, 100), (fork, 150)]


def test_cold_resume(rig: Rig, how: str) -> None:
    """The whole history is appended again to the same file, then the session goes on."""
    path = rig.path("0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl")
    append(path, written := [claude_line(number) for number in range(200)])
    rig.look()
    rig.leave(how)
    append(path, written, more := [claude_line(number) for number in range(200, 250)])
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.query("SELECT lines, recorded, duplicate FROM file_offsets") == [(450, 250, 200)]


def test_files_that_begin_alike(rig: Rig, how: str) -> None:
    """Five files share their first 1.5 KB."""
    header = line("header", pad=1400)
    names = [f"{letter}.jsonl" for letter in "abcde"]
    for number, name in enumerate(names):
        append(rig.path(name), header, lines(number * 100, 25))
    rig.look()
    rig.leave(how)
    for number, name in enumerate(names):
        append(rig.path(name), lines(number * 100 + 25, 26))
    rig.look()
    assert rig.verdict([header] + [one for n in range(5) for one in lines(n * 100, 51)]) == EXACT


def test_short_files_that_grow(rig: Rig, how: str) -> None:
    """Files that are equal while they are short become different ones."""
    names = [f"{letter}.jsonl" for letter in "abcde"]
    for name in names:
        append(rig.path(name), line("first"))
    rig.look()
    for step in range(30):
        rig.leave(how)
        for number, name in enumerate(names):
            append(rig.path(name), line(f"{number}-{step}"))
        rig.look()
    assert rig.verdict([line("first")] + [line(f"{n}-{step}") for n in range(5) for step in range(30)]) == EXACT


def test_symbolic_links(rig: Rig, how: str) -> None:
    """A link, its target, and a directory reached twice: one file."""
    inner = rig.logs / "inner"
    inner.mkdir()
    append(inner / "a.jsonl", written := lines(0, 10))
    (rig.logs / "link.jsonl").symlink_to(inner / "a.jsonl")
    (rig.logs / "again").symlink_to(inner)
    (inner / "loop").symlink_to(rig.logs)
    (inner / "self.jsonl").symlink_to(inner / "self.jsonl")
    (inner / "dangling.jsonl").symlink_to(rig.root / "nowhere")
    rig.look()
    rig.leave(how)
    append(rig.logs / "link.jsonl", more := lines(10, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.query("SELECT count(*), sum(duplicate) FROM file_offsets") == [(1, 0)]


def test_link_to_another_target(rig: Rig, how: str) -> None:
    """``current.jsonl`` points to one file after the other, outside what is watched, and links are to be followed."""
    rig.settings = load_settings(rig.environ, {"record.follow_symlinks": True})
    (rig.root / "store").mkdir()
    link = rig.logs / "current.jsonl"
    written: list[bytes] = []
    for number in range(3):
        target = rig.root / "store" / f"{number}.jsonl"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        append(link, lines(number * 100, 20))
        rig.look()
        append(link, lines(number * 100 + 20, 20))
        written += lines(number * 100, 40)
        rig.look()
        rig.leave(how)
    rig.look()
    assert rig.verdict(written) == EXACT


def test_a_link_in_the_place_of_a_log(rig: Rig, how: str) -> None:
    """Nothing is read of what it leads to, whatever stood there before."""
    append(rig.path(), written := lines(0, 5), b'{"v":1')
    rig.look()
    rig.leave(how)
    (rig.root / "secret").write_bytes(b"".join(lines(0, 5)) + b"root:secret\n" * 5)
    rig.path().unlink()
    rig.path().symlink_to(rig.root / "secret")
    for _ in range(3):
        rig.look()
        rig.recorder.see_path(str(rig.path().resolve()))
        rig.leave(how)
    rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.quarantined() == []


def test_hard_links(rig: Rig, how: str) -> None:
    """Many names of one file are one file, whichever of them a listing shows first and whichever are removed."""
    names = [f"{letter}.jsonl" for letter in "mabcdxyz"]
    append(rig.path(names[0]), written := lines(0, 10))
    rig.look()
    for number, name in enumerate(names[1:], 1):
        rig.leave(how)
        os.link(rig.path(names[number - 1]), rig.path(name))
        append(rig.path(name), more := lines(number * 100, 3))
        written += more
        rig.look()
        if number % 2:
            rig.path(names[number - 1]).unlink()
            append(rig.path(name), more := lines(number * 100 + 50, 3))
            written += more
            rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.total("duplicate") == 0


def test_equal_lines_in_two_files(rig: Rig) -> None:
    """Lines without an id that two files of a session share are copies: they count as often as in one file."""
    same = [bare_line("again")] * 3
    append(rig.path("a.jsonl"), same)
    append(rig.path("b.jsonl"), same, same)
    rig.look()
    assert rig.verdict(same * 2) == EXACT


def test_names_do_not_wander_with_every_look(rig: Rig) -> None:
    """Once things are quiet, further looks find nothing to do: no file is taken for another in turns."""
    append(rig.path(), lines(0, 50))
    rig.look()
    rig.idle()
    rig.path().rename(rig.path("a.jsonl.1"))
    append(rig.path(), lines(100, 10))
    append(rig.path("a.jsonl.1"), lines(200, 5))
    replace(rig.path("b.jsonl"), lines(300, 5))
    for name in ("a.jsonl", "a.jsonl.1", "b.jsonl"):
        age(rig.path(name), 30)
    rig.look()
    before = rig.query("SELECT filepath, file_id, read_count, generation FROM file_offsets ORDER BY filepath")
    for _ in range(3):
        rig.recorder.scan()
        assert rig.recorder.dirty == {}
        rig.recorder.drain()
    assert rig.query("SELECT filepath, file_id, read_count, generation FROM file_offsets ORDER BY filepath") == before
