"""Lines that are torn, late, mixed up, damaged or enormous."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from faults.rig import EXACT, Rig, age, append, bare_line, claude_line, codex_lines, line, lines

MIB = 1 << 20


@pytest.mark.parametrize("cut", [1, 20, 60, -1])
def test_torn_line_completed_later(rig: Rig, how: str, cut: int) -> None:
    """Half a line waits, however often the recorder looks or starts anew, and is recorded once it is whole."""
    append(rig.path(), written := lines(0, 5), (whole := line("torn"))[:cut])
    for _ in range(3):
        rig.look()
        age(rig.path())
        rig.leave(how)
    rig.look()
    assert set(rig.stored()) - {whole} == set(written)
    append(rig.path(), whole[cut:], more := lines(10, 5))
    rig.look()
    assert rig.verdict([*written, whole, *more]) == EXACT
    assert rig.quarantined() == []


def test_torn_first_line(rig: Rig, how: str) -> None:
    """A file that so far consists of half a line is neither refused nor forgotten."""
    append(rig.path(), (whole := line("first"))[:25])
    rig.look()
    age(rig.path())
    rig.look()
    rig.leave(how)
    assert rig.quarantined() == []
    append(rig.path(), whole[25:])
    rig.look()
    assert rig.verdict([whole]) == EXACT
    assert rig.quarantined() == []


def test_torn_line_counts_as_pending(rig: Rig) -> None:
    """The summary says that a line has begun."""
    append(rig.path(), lines(0, 5), line("torn")[:-5])
    summary = rig.once()
    assert (summary.lines, summary.recorded, summary.pending) == (6, 5, 1)


@pytest.mark.parametrize("make", [line, bare_line])
def test_last_line_without_newline(rig: Rig, how: str, make: Callable[[str], bytes]) -> None:
    """A whole last line is recorded once the file is quiet, and once only, whatever comes behind it."""
    append(rig.path(), written := lines(0, 10), (last := make("last"))[:-1])
    age(rig.path(), -3600)  # not quiet, however long this takes
    rig.look()
    assert rig.verdict(written) == EXACT
    age(rig.path())
    rig.look()
    assert rig.verdict([*written, last]) == EXACT
    rig.leave(how)
    append(rig.path(), b"\n", more := lines(10, 5))
    rig.look()
    assert rig.verdict([*written, last, *more]) == EXACT
    rig.stop()
    assert rig.query("SELECT lines, recorded, ignored, quarantined FROM file_offsets") == [(16, 16, 0, 0)]


def test_only_line_without_newline(rig: Rig, how: str) -> None:
    """The same for a file of one line, with a byte order mark before it."""
    append(rig.path(), b"\xef\xbb\xbf" + line("only")[:-1])
    age(rig.path())
    rig.look()
    assert rig.verdict([line("only")]) == EXACT
    rig.leave(how)
    append(rig.path(), b"\n")
    rig.look()
    assert rig.verdict([line("only")]) == EXACT


def test_half_line_is_looked_at_once(rig: Rig) -> None:
    """What a dead program left behind is no work any more until the file changes."""
    append(rig.path(), lines(0, 5), line("torn")[:-5])
    age(rig.path())
    rig.look()
    for _ in range(2):
        rig.recorder.scan()
        rig.recorder.look_at_open()
        rig.recorder.look_at_unterminated()
        assert rig.recorder.dirty == {}


def test_torn_and_mixed_lines_in_the_middle(rig: Rig) -> None:
    """Broken lines are set aside with place and reason, the lines around them are recorded."""
    torn, mixed = line("torn")[:30] + b"\n", line("x")[:-1] + line("y")
    scalar, words = b'["no", "object"]\n', b"Traceback (most recent call last):\n"
    append(rig.path(), lines(0, 5), torn, lines(5, 5), mixed, scalar, lines(10, 5), words, lines(15, 5))
    rig.look()
    assert rig.verdict(lines(0, 20)) == EXACT
    broken = [torn, mixed, scalar, words]
    data = rig.path().read_bytes()
    assert sorted((offset, length) for _, offset, length in rig.quarantined()) == sorted(
        (data.index(one), len(one) - 1) for one in broken
    )


def test_mixed_lines_are_cut_apart(rig: Rig) -> None:
    """Two processes that wrote into each other's line: whole objects inside are recorded, the line is set aside."""
    path = rig.path("0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl")
    mixed = claude_line(100)[:50] + claude_line(101)
    append(path, claude_line(0), mixed, claude_line(1))
    rig.look()
    stored = rig.stored()
    assert {claude_line(0), claude_line(1), claude_line(101)} == set(stored)
    assert len(stored) == 3
    assert len(rig.quarantined()) == 1
    rig.stop()
    assert rig.query("SELECT lines, recorded, quarantined FROM file_offsets") == [(3, 2, 1)]


def test_damaged_bytes(rig: Rig, how: str) -> None:
    """Invalid UTF-8, NULs in a string, and a run of NULs as a crash leaves it: set aside whole, the rest recorded."""
    latin = line("latin").replace(b"text", b"caf\xe9", 1)
    nul = line("nul").replace(b"text", b"te\x00t", 1)
    run = b"\0" * 4096 + line("after")
    append(rig.path(), lines(0, 10), latin, nul, run, lines(10, 10))
    rig.look()
    rig.leave(how)
    append(rig.path(), lines(20, 3))
    rig.look()
    kept = dict(rig.query("SELECT length, raw FROM quarantine"))
    found = set(rig.stored())
    assert set(lines(0, 23)) <= found
    # A format may mend what it can; nothing is dropped in silence either way.
    for damaged in (latin, nul, run):
        assert damaged in found or len(damaged) - 1 in kept
    assert found <= {*lines(0, 23), latin, nul, run}
    assert all(raw is not None for raw in kept.values())


def test_carriage_returns_blank_lines_and_byte_order_mark(rig: Rig, how: str) -> None:
    """Files as editors on Windows leave them: every line counts, blank ones are ignored and counted."""
    append(rig.path(), b"\xef\xbb\xbf", [one[:-1] + b"\r\n" for one in lines(0, 5)], b"\n\r\n   \n\t\n", lines(5, 5))
    rig.look()
    rig.leave(how)
    append(rig.path(), b"\n\n", line(10))
    rig.look()
    found = [one.replace(b"\r", b"") for one in rig.stored()]
    assert sorted(found) == sorted(lines(0, 11))
    rig.stop()
    assert rig.query("SELECT lines, recorded, ignored, quarantined FROM file_offsets") == [(17, 11, 6, 0)]


def test_empty_files(rig: Rig, how: str) -> None:
    """Fifty empty files come to life with lines shorter than any fingerprint."""
    paths = [rig.path(f"{number}.jsonl") for number in range(50)]
    for path in paths:
        path.touch()
    rig.look()
    rig.leave(how)
    written = [line(number) for number in range(50)]
    for path, one in zip(paths, written, strict=True):
        append(path, one)
    rig.look()
    assert rig.verdict(written) == EXACT


@pytest.mark.parametrize("size", [40_000, 5 * MIB, 30 * MIB])
def test_long_lines(rig: Rig, size: int) -> None:
    """Lines as large as tool results get are recorded whole."""
    append(rig.path(), lines(0, 10), long := line("long", pad=size), lines(10, 10))
    rig.look()
    assert rig.verdict([*lines(0, 20), long]) == EXACT


@pytest.mark.parametrize("piece", [700_000, MIB, MIB + 1])
def test_long_line_that_comes_in_pieces(rig: Rig, how: str, piece: int) -> None:
    """A line that is written over many looks is scanned from where scanning stopped, and recorded whole."""
    long = line("long", pad=5 * MIB)
    append(rig.path(), line(0))
    for start in range(0, len(long), piece):
        append(rig.path(), long[start : start + piece])
        rig.look()
        rig.leave(how)
    append(rig.path(), line(1))
    rig.look()
    assert rig.verdict([line(0), long, line(1)]) == EXACT


def test_line_over_the_limit(tmp_path: Path, how: str) -> None:
    """It is set aside with its place and length, once, and what follows is recorded."""
    rig = Rig(tmp_path, max_line_bytes=MIB)
    append(rig.path(), written := lines(0, 10), monster := line("monster", pad=3 * MIB), more := lines(10, 10))
    rig.look()
    rig.leave(how)
    append(rig.path(), lines(20, 3))
    rig.look()
    assert rig.verdict(written + more + lines(20, 3)) == EXACT
    ((reason, offset, length),) = rig.quarantined()
    assert "too long" in reason
    assert (offset, length) == (len(b"".join(written)), len(monster) - 1)
    rig.stop()


def test_endless_line(tmp_path: Path) -> None:
    """A line without end costs one pass over its bytes, however often it is looked at, and is one pending line."""
    counter = Path("/proc/self/io")
    if not counter.exists():
        pytest.skip("the system does not say how much a process reads")

    def read_bytes() -> int:
        return int(counter.read_text().split()[1])

    rig = Rig(tmp_path, max_line_bytes=2 * MIB)
    append(rig.path(), lines(0, 5), b'{"text":"')
    rig.look()
    before = read_bytes()
    for _ in range(40):
        append(rig.path(), b"x" * MIB)
        rig.look()
    assert read_bytes() - before < 3 * 40 * MIB
    assert rig.quarantined() == []
    append(rig.path(), b'"}\n', lines(5, 5))
    rig.look()
    assert rig.verdict(lines(0, 10)) == EXACT
    assert len(rig.quarantined()) == 1
    rig.stop()


#: Runs the command line and then says how large the process ever was.
_WITH_PEAK = """
import atexit, re, sys
from agenttrace.cli.main import main
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
atexit.register(lambda: print(peak(), file=sys.stderr))
main()
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say how large a process was")
def test_line_of_100_megabytes_in_bounded_memory(tmp_path: Path) -> None:
    """A monstrous line is never loaded: the process that records it stays about as small as without it."""
    peaks = []
    for size in (0, 100 * MIB):
        rig = Rig(tmp_path / str(size))
        append(rig.path(), lines(0, 100))
        if size:
            append(rig.path(), b'{"text":"', (b"x" * MIB for _ in range(100)), b'"}\n', lines(100, 100))
        done = subprocess.run(
            [sys.executable, "-c", _WITH_PEAK, "record", str(rig.logs), "--once", "--json"],
            env={"PATH": os.environ.get("PATH", ""), "AGENTTRACE_RECORD_WORKERS": "1", **rig.environ},
            capture_output=True,
            check=True,
        )
        summary = json.loads(done.stdout)
        assert (summary["recorded"], summary["quarantined"]) == ((200, 1) if size else (100, 0))
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 16 * MIB


def test_space_reserved_in_advance(rig: Rig, how: str) -> None:
    """A program that reserves space writes over NULs; the size stays, until it gives the rest back."""
    written = lines(0, 40)
    with rig.path().open("wb", buffering=0) as file:
        file.truncate(3 * MIB)
        for start in range(0, 40, 10):
            file.write(b"".join(written[start : start + 10]))
            rig.look()
            rig.leave(how)
            rig.look()
            assert rig.verdict(written[: start + 10]) == EXACT
        file.truncate(file.tell())
    rig.look()
    append(rig.path(), more := lines(40, 5))
    rig.look()
    assert rig.verdict(written + more) == EXACT
    assert rig.quarantined() == []
    assert rig.total("lost_bytes") == 0


def test_space_reserved_piece_by_piece(rig: Rig) -> None:
    """The reserved space grows while lines are written into it."""
    written = lines(0, 200)
    with rig.path().open("wb", buffering=0) as file:
        for one in written:
            end = file.tell() + len(one)
            if end > rig.path().stat().st_size:
                os.truncate(rig.path(), end + 4096)
            file.write(one)
            rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.quarantined() == []


def test_offsets_beyond_2_gigabytes(rig: Rig) -> None:
    """A sparse file of more than 2 GB: lines behind the hole are read, and reading goes on there after a restart."""
    append(rig.path(), written := lines(0, 10))
    size = (1 << 31) + 1000
    os.truncate(rig.path(), size)
    append(rig.path(), b"\n", lines(10, 10))
    rig.look()
    rig.stop()
    append(rig.path(), lines(20, 10))
    rig.look()
    assert rig.verdict(written + lines(10, 20)) == EXACT
    ((_, offset, length),) = rig.quarantined()
    assert offset + length == size
    assert rig.query("SELECT offset FROM file_offsets") == [(rig.path().stat().st_size,)]


ROLLOUT = "rollout-2026-01-02T03-04-05-0199c5d2-4a3b-7c11-8f00-6d1f2e3a4b5c.jsonl"


def test_compressed_when_cold(rig: Rig, how: str) -> None:
    """A log that is compressed and deleted brings nothing twice, and what was not read of it before."""
    written = codex_lines(201)
    append(rig.path(ROLLOUT), written[:150])
    rig.look()
    rig.leave(how)
    rig.path(f"{ROLLOUT}.zst").write_bytes(zstandard.compress(b"".join(written)))
    rig.path(ROLLOUT).unlink()
    rig.look()
    rig.leave(how)
    rig.look()
    assert rig.verdict(written) == EXACT


def test_compressed_file_still_being_written(rig: Rig, how: str) -> None:
    """What can be decompressed is recorded, damage is shown, and the whole file is read once it is whole."""
    written = codex_lines(4001)
    packed = b"".join(zstandard.compress(b"".join(written[start : start + 500])) for start in range(0, 4001, 500))
    path = rig.path(f"{ROLLOUT}.zst")
    path.write_bytes(packed[: len(packed) // 2] + b"garbage")
    rig.look()
    assert set(rig.stored()) < set(written)
    assert len(rig.query("SELECT error FROM file_offsets WHERE error LIKE '%ends early%'")) == 1
    rig.leave(how)
    path.write_bytes(packed)
    rig.look()
    assert rig.verdict(written) == EXACT
    assert rig.quarantined() == []
    assert rig.query("SELECT count(*) FROM file_offsets WHERE error IS NOT NULL") == [(0,)]
