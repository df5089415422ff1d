"""Finding files and getting at them: many, forbidden, vanishing, oddly named, or no files at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttrace.record.files.reader import open_limit
from faults.rig import EXACT, Rig, append, line, lines

NOBODY = 65534


@pytest.fixture
def open_rig() -> Iterator[Rig]:
    """A rig that an unprivileged user may use: nothing is forbidden to root, so tests of that must not be root."""
    with tempfile.TemporaryDirectory(prefix="agenttrace-") as name:
        root = Path(name) / "rig"
        rig = Rig(root)
        if os.geteuid() != 0:
            yield rig
            rig.stop()
            return
        root.parent.chmod(0o755)
        for place in (root, *root.rglob("*")):
            os.chown(place, NOBODY, NOBODY)
        with unprivileged():
            yield rig
            rig.stop()


@contextmanager
def unprivileged() -> Iterator[None]:
    try:
        os.seteuid(NOBODY)
    except PermissionError:
        pytest.skip("this root may not become anybody else")
    try:
        yield
    finally:
        os.seteuid(0)


def test_permission_denied_and_given_back(open_rig: Rig, how: str) -> None:
    """A file that may not be read is shown with the reason, and read once it may."""
    rig, path = open_rig, open_rig.path()
    append(path, written := lines(0, 10))
    append(rig.path("b.jsonl"), other := lines(100, 10))
    path.chmod(0o000)
    rig.look()
    assert rig.verdict(other) == EXACT
    ((error,),) = rig.query("SELECT error FROM file_offsets WHERE error IS NOT NULL")
    assert "denied" in error.lower()
    rig.leave(how)
    path.chmod(0o600)
    rig.look()
    assert rig.verdict(written + other) == EXACT
    assert rig.query("SELECT count(*) FROM file_offsets WHERE error IS NOT NULL") == [(0,)]


def test_permission_taken_away_between_reads(open_rig: Rig, how: str) -> None:
    """The lines that were written meanwhile are read when the permission is back."""
    rig, path = open_rig, open_rig.path()
    append(path, written := lines(0, 10))
    rig.look()
    rig.leave(how)
    append(path, more := lines(10, 10))
    path.chmod(0o000)
    rig.look()
    path.chmod(0o600)
    rig.look()
    assert rig.verdict(written + more) == EXACT


@pytest.mark.parametrize("forbidden", ["logs", "logs/inner"])
def test_unreadable_directory_is_not_a_deletion(open_rig: Rig, how: str, forbidden: str) -> None:
    """Files in a directory that cannot be looked at for a moment are not gone, and nothing of them is read again."""
    rig, inner = open_rig, open_rig.logs / "inner"
    inner.mkdir()
    append(inner / "a.jsonl", written := lines(0, 10))
    rig.look()
    rig.leave(how)
    (rig.root / forbidden).chmod(0o000)
    rig.look()
    rig.look()
    gone = rig.query("SELECT gone_at FROM file_offsets")
    (rig.root / forbidden).chmod(0o700)
    append(inner / "a.jsonl", more := lines(10, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert gone == [(None,)]
    assert rig.total("duplicate") == 0


def test_directory_away_for_a_moment(rig: Rig, how: str) -> None:
    """A directory that is renamed away and back brings its files back as they were, with nothing marked as gone."""
    inner = rig.logs / "inner"
    inner.mkdir()
    append(inner / "a.jsonl", lines(0, 10))
    rig.look()
    rig.leave(how)
    inner.rename(rig.root / "away")
    rig.look()
    rig.leave(how)
    rig.look()
    (rig.root / "away").rename(inner)
    rig.look()
    assert rig.query("SELECT lines, duplicate, gone_at FROM file_offsets") == [(10, 0, None)]


def test_vanishes_between_listing_and_opening(rig: Rig) -> None:
    """It is no error; the others are recorded, and what it held counts as lost."""
    append(rig.path(), gone := lines(0, 10))
    append(rig.path("b.jsonl"), other := lines(100, 10))
    rig.recorder.scan()
    rig.path().unlink()
    rig.recorder.drain()
    assert rig.verdict(other) == EXACT
    rig.look()
    assert rig.total("lost_bytes") == len(b"".join(gone))


def test_renamed_between_listing_and_opening(rig: Rig) -> None:
    """It is found under its new name at the next look, and nothing is lost."""
    append(rig.path(), written := lines(0, 10))
    rig.recorder.scan()
    rig.path().rename(rig.path("a.jsonl.1"))
    append(rig.path(), more := lines(10, 10))
    rig.recorder.drain()
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.total("lost_bytes") == 0


def test_what_is_no_file(rig: Rig) -> None:
    """Pipes, directories and dead links with the name of a log are passed by, and nobody waits for them."""
    append(rig.path(), written := lines(0, 10))
    os.mkfifo(rig.path("pipe.jsonl"))
    rig.path("directory.jsonl").mkdir()
    rig.path("dead.jsonl").symlink_to(rig.root / "nowhere")
    rig.look()
    for name in ("pipe.jsonl", "directory.jsonl", "dead.jsonl", "never.jsonl"):
        rig.recorder.see_path(str(rig.path(name)))
    rig.recorder.drain()
    assert rig.verdict(written) == EXACT
    assert rig.query("SELECT count(*) FROM file_offsets") == [(1,)]


def test_file_that_becomes_a_pipe(rig: Rig) -> None:
    """Even between listing and opening: opening it does not wait for a writer."""
    append(rig.path(), lines(0, 10))
    rig.recorder.scan()
    rig.path().unlink()
    os.mkfifo(rig.path())
    rig.recorder.drain()
    assert rig.recorder.summary.recorded == 0


@pytest.mark.parametrize(
    "name",
    [
        "with space.jsonl",
        "quote'\".jsonl",
        "percent%3f#hash?.jsonl",
        "new\nline.jsonl",
        "会话.jsonl",
        "e\u0301.jsonl",
        "-dash.jsonl",
        "star*[x].jsonl",
        "back\\slash.jsonl",
        "\U0001f600.jsonl",
    ],
)
def test_odd_names(rig: Rig, how: str, name: str) -> None:
    """Whatever a path is made of, its file is recorded and known again."""
    directory = rig.logs / name.removesuffix(".jsonl")
    directory.mkdir()
    append(directory / name, written := lines(0, 10))
    rig.look()
    rig.leave(how)
    append(directory / name, more := lines(10, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.query("SELECT filepath, lines, duplicate FROM file_offsets") == [(str(directory / name), 20, 0)]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are Unicode there")
def test_names_that_are_not_utf8(rig: Rig, how: str) -> None:
    """Names are bytes to the system; those that are no text are shown with escapes."""
    directory = Path(os.fsdecode(os.fsencode(rig.logs) + b"/d\xff"))
    directory.mkdir()
    path = Path(os.fsdecode(os.fsencode(directory) + b"/f\xfe.jsonl"))
    append(path, written := lines(0, 10))
    rig.look()
    rig.leave(how)
    append(path, more := lines(10, 10))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    ((shown, count),) = rig.query("SELECT filepath, lines FROM file_offsets")
    assert shown.endswith("d\\xff/f\\xfe.jsonl")
    assert count == 20


def test_excluded_files_are_never_read(tmp_path: Path) -> None:
    """Neither when the directory is looked through nor when a notification names one."""
    rig = Rig(tmp_path, exclude=["*/private/*"])
    (rig.logs / "private").mkdir()
    append(rig.logs / "private" / "a.jsonl", lines(0, 10))
    append(rig.path(), written := lines(100, 10))
    rig.look()
    rig.recorder.see_path(str(rig.logs / "private" / "a.jsonl"))
    rig.recorder.drain()
    assert rig.verdict(written) == EXACT
    rig.stop()


def test_unknown_format(rig: Rig, how: str) -> None:
    """A file that nobody knows is set aside as one, its lines are counted, and it does not stand in the way."""
    append(rig.path(), b"one\n", b"two\n", b"three\n")
    append(rig.path("b.jsonl"), written := lines(0, 10))
    rig.look()
    rig.leave(how)
    append(rig.path(), b"four\n")
    rig.look()
    assert rig.verdict(written) == EXACT
    rig.stop()
    assert [reason for reason, _, _ in rig.quarantined()] == ["format not recognised"]
    counted = rig.query(f"SELECT lines, quarantined + duplicate FROM file_offsets WHERE filepath = '{rig.path()}'")
    assert counted == [(4, 4)]


def test_unknown_format_that_becomes_known(rig: Rig, how: str) -> None:
    """Lines that said too little on their own are recorded once a later one tells what the file is."""
    early = [b'{"session":"s","type":"message","id":"early"}\n']
    append(rig.path(), early)
    rig.look()
    assert len(rig.quarantined()) == 1
    rig.leave(how)
    append(rig.path(), written := lines(0, 5))
    rig.look()
    assert rig.verdict(early + written) == EXACT


def test_3000_files_in_a_burst(rig: Rig) -> None:
    """All are recorded, and so is the one line that is later appended to each."""
    paths = [rig.path(f"{number}.jsonl") for number in range(3000)]
    for number, path in enumerate(paths):
        append(path, lines(number * 10, 5, session=str(number % 50)))
    rig.look()
    for number, path in enumerate(paths):
        append(path, line(number * 10 + 5, session=str(number % 50)))
    rig.look()
    expected = [line(number * 10 + k, session=str(number % 50)) for number in range(3000) for k in range(6)]
    assert rig.verdict(expected) == EXACT
    assert sum(file.handle is not None for file in rig.recorder.files.values()) <= open_limit()


def test_few_descriptors(tmp_path: Path) -> None:
    """Where the system allows 64 open files, 500 are recorded all the same, at once."""
    resource = pytest.importorskip("resource")
    rig = Rig(tmp_path)
    for number in range(500):
        append(rig.path(f"{number}.jsonl"), lines(number * 10, 3))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))\n"
    program += "from agenttrace.cli.main import main; main()"
    subprocess.run(
        [sys.executable, "-c", program, "record", str(rig.logs), "--once", "--json"],
        env={"PATH": os.environ.get("PATH", ""), **rig.environ},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert rig.verdict([one for number in range(500) for one in lines(number * 10, 3)]) == EXACT


def test_one_huge_file_does_not_starve_the_others(rig: Rig) -> None:
    """While one file takes its time, the lines of 199 small ones are committed."""
    huge = rig.path("huge.jsonl")
    append(huge, lines(1_000_000, 40_000, pad=500, session="huge"))
    small = [line(number) for number in range(199)]
    for number, one in enumerate(small):
        append(rig.path(f"{number}.jsonl"), one)
    os.utime(huge, (1, 1))  # the oldest, so that it is the first in line
    unfinished: list[int] = []

    def watch() -> bool:
        file = rig.recorder.files[str(huge)]
        if 0 < file.row.offset < huge.stat().st_size:
            unfinished.append(sum(row[0] for row in rig.query("SELECT events FROM sessions WHERE session_id = 's'")))
        return False

    rig.recorder.scan()
    rig.recorder.drain(stop=watch)
    assert unfinished, "the huge file was read in one go"
    assert min(unfinished) >= len(small)
    assert rig.verdict(small + lines(1_000_000, 40_000, pad=500, session="huge")) == EXACT


def test_forgotten_files_take_no_memory(rig: Rig) -> None:
    """What is deleted is not tracked any more, also under hundreds of names over time."""
    for number in range(300):
        path = rig.path(f"{number}.jsonl")
        append(path, line(number))
        rig.look()
        path.unlink()
        if number % 50 == 49:
            rig.idle()
            rig.look()
    assert rig.verdict(lines(0, 300)) == EXACT
    assert list(rig.recorder._watchlist.tracked()) == []
    assert rig.recorder._opened == {}
