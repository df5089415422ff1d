"""Random operations on log files, with restarts and crashes between them, against a model of what must be stored.

Whatever programs do to their files, three things hold: a line that stood complete in a watched file when the recorder
looked is stored, no line is stored twice, and nothing is stored that nobody wrote. Lines that vanished between two
looks may be missing; those alone.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agenttrace.record.files import reader
from agenttrace.store.sqlite.database import connect
from faults.rig import EXACT, RecorderProcess, Rig, append, bare_line, line, replace
from scratch import on_disk, quick

#: Few names, so that files get in each other's way; the last is outside what is watched.
WATCHED = ("a.jsonl", "a.jsonl.1", "a.jsonl.2", "b.jsonl")
NAMES = (*WATCHED, "a.old")

names = st.sampled_from(NAMES)
watched = st.sampled_from(WATCHED)
counts = st.integers(1, 5)
#: Where in a line a writer pauses, or a file is cut off.
fractions = st.floats(0.01, 0.99)


#: What may become of the table of offsets.
NONSENSE = (
    "DELETE FROM file_offsets",
    "UPDATE file_offsets SET offset = -7, blocks = 0",
    "UPDATE file_offsets SET offset = offset / 2, file_size = 1",
    "UPDATE file_offsets SET fingerprint = 'x', inode = 1, file_id = 5",
    "UPDATE file_offsets SET offset = x'00ff', source = 'nonsense'",
)


class KilledError(Exception):
    """The recorder dies at this very point."""


class LogFiles(RuleBasedStateMachine):
    """Programs that write, rotate, truncate, replace, delete and copy logs; a recorder that starts, stops and dies."""

    def __init__(self) -> None:
        super().__init__()
        self.places = ExitStack()
        home = self.places.enter_context(quick()) / "home"
        self.rig = Rig(self.places.enter_context(on_disk()), home=home, batch_lines=4)
        self.number = 0
        self.written: set[bytes] = set()
        #: Lines that stood complete in a watched file when the recorder looked.
        self.due: set[bytes] = set()
        self.writers: list[IO[bytes]] = []
        self.chunk_bytes = reader.CHUNK_BYTES

    @initialize(chunk=st.sampled_from([100, 300, 1 << 20]), pad=st.sampled_from([0, 0, 300, 1500]))
    def sizes(self, chunk: int, pad: int) -> None:
        """Small chunks, so that a few lines are many reads; lines shorter and longer than the marks of a file."""
        reader.CHUNK_BYTES = chunk
        self.pad = pad

    def teardown(self) -> None:
        """However it ends, a last look finds everything that is there."""
        try:
            self.look()
            self.compare()
            self.rig.stop()
        finally:
            reader.CHUNK_BYTES = self.chunk_bytes
            self.rig.crash()
            for writer in self.writers:
                writer.close()
            self.places.close()

    # -- what programs do -------------------------------------------------------------------------------------

    def fresh(self, count: int) -> list[bytes]:
        """New lines, some without an id."""
        made = []
        for _ in range(count):
            self.number += 1
            # Equal lengths and equal ends, so that only a look at what differs tells lines apart.
            name = f"{self.number:06d}"
            made.append(bare_line(name + "y" * self.pad) if self.number % 3 == 0 else line(name, pad=self.pad))
        self.written.update(made)
        return made

    def existing(self, name: str) -> Path | None:
        path = self.rig.path(name)
        return path if path.is_file() else None

    @rule(name=names, count=counts)
    def append(self, name: str, count: int) -> None:
        with self.rig.path(name).open("ab") as file:
            file.write(b"".join(self.fresh(count)))

    @rule(name=names)
    def open_writer(self, name: str) -> None:
        """A program keeps its log open, wherever the file goes."""
        if len(self.writers) < 3:
            self.writers.append(self.rig.path(name).open("ab", buffering=0))

    @precondition(lambda self: self.writers)
    @rule(count=counts, which=st.integers(0, 2))
    def write(self, count: int, which: int) -> None:
        self.writers[which % len(self.writers)].write(b"".join(self.fresh(count)))

    @precondition(lambda self: self.writers)
    @rule(where=fractions, which=st.integers(0, 2), meanwhile=st.booleans())
    def split_write(self, where: float, which: int, meanwhile: bool) -> None:
        """A line comes in two pieces."""
        (whole,) = self.fresh(1)
        cut = max(1, int(len(whole) * where))
        writer = self.writers[which % len(self.writers)]
        writer.write(whole[:cut])
        if meanwhile:
            self.look()
        writer.write(whole[cut:])

    @precondition(lambda self: self.writers)
    @rule(where=fractions, which=st.integers(0, 2))
    def torn_write(self, where: float, which: int) -> None:
        """A program dies inside a line; the next one goes on behind the piece."""
        (whole,) = self.fresh(1)
        self.writers[which % len(self.writers)].write(whole[: max(1, int(len(whole) * where))])

    @precondition(lambda self: self.writers)
    @rule(which=st.integers(0, 2))
    def close_writer(self, which: int) -> None:
        self.writers.pop(which % len(self.writers)).close()

    @rule()
    def rotate(self) -> None:
        """By renaming; the oldest is replaced."""
        for old, new in (("a.jsonl.1", "a.jsonl.2"), ("a.jsonl", "a.jsonl.1")):
            if path := self.existing(old):
                path.rename(self.rig.path(new))

    @rule(count=counts)
    def rotate_and_begin(self, count: int) -> None:
        self.rotate()
        self.append("a.jsonl", count)

    @rule(name=names, to=names)
    def rename(self, name: str, to: str) -> None:
        """Also out of what is watched and back."""
        if path := self.existing(name):
            path.rename(self.rig.path(to))

    @rule(count=st.integers(0, 5))
    def copy_and_truncate(self, count: int) -> None:
        if path := self.existing("a.jsonl"):
            self.rig.path("a.jsonl.1").write_bytes(path.read_bytes())
            os.truncate(path, 0)
            self.append("a.jsonl", count)

    @rule(name=watched, where=fractions)
    def truncate(self, name: str, where: float) -> None:
        if path := self.existing(name):
            os.truncate(path, int(path.stat().st_size * where))

    @rule(name=watched, count=st.integers(0, 8), keep=st.booleans())
    def rewrite(self, name: str, count: int, keep: bool) -> None:
        """In place, with new content, perhaps behind the old first line; perhaps longer than before."""
        if path := self.existing(name):
            first = path.read_bytes().splitlines(keepends=True)[:1] if keep else []
            with path.open("r+b") as file:
                file.truncate()
                file.write(b"".join(first + self.fresh(count)))

    @rule(name=watched, count=st.integers(0, 5), keep=st.booleans())
    def replace(self, name: str, count: int, keep: bool) -> None:
        """Atomically, with the same content and more, or with other content."""
        path = self.rig.path(name)
        old = path.read_bytes() if keep and path.is_file() else b""
        other = path.with_name("new.tmp")
        other.write_bytes(old + b"".join(self.fresh(count)))
        other.replace(path)

    @rule(name=watched)
    def delete(self, name: str) -> None:
        self.rig.path(name).unlink(missing_ok=True)

    @rule(name=watched, count=counts)
    def delete_and_create(self, name: str, count: int) -> None:
        """The new file often gets the inode number of the old one."""
        self.delete(name)
        self.append(name, count)

    @rule(name=watched, to=watched, count=st.integers(0, 3))
    def copy(self, name: str, to: str, count: int) -> None:
        """A fork: the whole history, then lines of its own."""
        if (path := self.existing(name)) and name != to:
            self.rig.path(to).write_bytes(path.read_bytes())
            self.append(to, count)

    @rule(name=watched, to=watched)
    def link(self, name: str, to: str) -> None:
        if path := self.existing(name):
            self.rig.path(to).unlink(missing_ok=True) if name != to else None
            if not self.rig.path(to).exists():
                os.link(path, self.rig.path(to))

    @rule(name=watched, seconds=st.sampled_from([1, 60, 86400, -86400]))
    def set_time(self, name: str, seconds: int) -> None:
        """A backup or a wrong clock: times say nothing about order."""
        if path := self.existing(name):
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))

    # -- what the recorder does -------------------------------------------------------------------------------

    def complete_lines(self, names: Iterable[str] = WATCHED) -> Iterator[bytes]:
        for name in names:
            if path := self.existing(name):
                for raw in path.read_bytes().split(b"\n")[:-1]:
                    yield raw + b"\n"

    @rule()
    def look(self) -> None:
        """Everything that is complete now is due."""
        self.due.update(self.written.intersection(self.complete_lines()))
        self.rig.look()

    @rule(order=st.lists(watched, unique=True, min_size=1))
    def notified(self, order: list[str]) -> None:
        """As the watcher does it: some paths, in no particular order."""
        self.due.update(self.written.intersection(self.complete_lines(order)))
        recorder = self.rig.recorder
        for name in order:
            recorder.see_path(str(self.rig.path(name)))
        recorder.look_at_open()
        recorder.look_at_unterminated()
        recorder.drain()

    @rule(data=st.data(), steps=st.integers(1, 6))
    def look_while_something_happens(self, data: st.DataObject, steps: int) -> None:
        """Between any two reads of the recorder somebody changes a file; it may also die there."""
        self.rig.recorder.scan()
        left = iter(range(steps))

        def disturb() -> bool:
            if next(left, None) is not None:
                self.disturb(data)
            return False

        try:
            self.rig.recorder.drain(stop=disturb)
        except KilledError:
            self.rig.crash()

    def disturb(self, data: st.DataObject) -> None:
        name = data.draw(watched)
        acts: list[Callable[[], None]] = [
            lambda: None,
            lambda: self.append(name, 2),
            lambda: self.truncate(name, 0.5),
            lambda: self.rewrite(name, data.draw(st.integers(0, 8)), data.draw(st.booleans())),
            lambda: self.replace(name, 2, data.draw(st.booleans())),
            lambda: self.delete(name),
            lambda: self.rotate_and_begin(2),
            lambda: self.copy_and_truncate(2),
            self.die,
        ]
        data.draw(st.sampled_from(acts))()

    def die(self) -> None:
        raise KilledError

    @rule()
    def store_locked(self) -> None:
        """Nothing can be stored: it is as if nobody had looked, and the next look makes up for it."""
        recorder = self.rig.recorder
        other = connect(self.rig.settings.home / "agenttrace.db")
        other.execute("BEGIN IMMEDIATE")
        recorder.connection.execute("PRAGMA busy_timeout = 0")
        try:
            recorder.scan()
            recorder.look_at_open()
            recorder.drain()
        except sqlite3.OperationalError:
            recorder.pipeline.roll_back()
        finally:
            other.close()
            recorder.connection.execute("PRAGMA busy_timeout = 10000")

    @rule()
    def quiet_time(self) -> None:
        """Nothing happens for so long that descriptors are given back."""
        self.rig.idle()

    @rule()
    def restart(self) -> None:
        self.rig.stop()

    @rule()
    def crash(self) -> None:
        self.rig.crash()

    @rule(how=st.sampled_from(NONSENSE))
    def spoil_offsets(self, how: str) -> None:
        self.rig.stop()
        connection = connect(self.rig.settings.home / "agenttrace.db")
        connection.execute(how)
        connection.close()

    # -- what holds -------------------------------------------------------------------------------------------

    @invariant()
    def compare(self) -> None:
        if not (self.rig.settings.home / "agenttrace.db").exists():
            return
        stored = Counter(self.rig.stored())
        assert not (missing := self.due - stored.keys()), f"missing: {sorted(missing)}"
        assert not (doubled := [raw for raw, count in stored.items() if count > 1]), f"doubled: {doubled}"
        assert not (garbled := stored.keys() - self.written), f"garbled: {garbled}"


TestLogFiles = LogFiles.TestCase


class EqualLines(RuleBasedStateMachine):
    """A log of lines without ids that are often equal: each counts, as often as it stands there."""

    def __init__(self) -> None:
        super().__init__()
        self.places = ExitStack()
        home = self.places.enter_context(quick()) / "home"
        self.rig = Rig(self.places.enter_context(on_disk()), home=home, batch_lines=4)
        self.path = self.rig.path()
        self.path.touch()
        self.chunk_bytes = reader.CHUNK_BYTES

    @initialize(chunk=st.sampled_from([100, 300, 1 << 20]))
    def sizes(self, chunk: int) -> None:
        reader.CHUNK_BYTES = chunk

    def teardown(self) -> None:
        try:
            self.look()
            self.rig.stop()
        finally:
            reader.CHUNK_BYTES = self.chunk_bytes
            self.rig.crash()
            self.places.close()

    @rule(texts=st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=6))
    def append(self, texts: list[str]) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(bare_line(text) for text in texts))

    @rule()
    def rotate_back_and_forth(self) -> None:
        """A rename changes nothing."""
        other = self.rig.path("a.jsonl.1" if self.path.name == "a.jsonl" else "a.jsonl")
        self.path = self.path.rename(other)

    def moved(self, blanks: int) -> bytes:
        """The same lines, behind some blank ones: another file, in which they stand elsewhere."""
        return b"\n" * blanks + self.path.read_bytes().lstrip(b"\n")

    @rule(blanks=st.integers(0, 5))
    def save(self, blanks: int) -> None:
        """Atomically."""
        content = self.moved(blanks)
        other = self.path.with_name("new.tmp")
        other.write_bytes(content)
        other.replace(self.path)

    @rule(blanks=st.integers(0, 5))
    def rewrite(self, blanks: int) -> None:
        """In place."""
        self.path.write_bytes(self.moved(blanks))

    @rule()
    def copy(self) -> None:
        """A copy brings nothing new."""
        self.rig.path("copy.jsonl").write_bytes(self.path.read_bytes())

    @rule(name=st.sampled_from(["quiet", "restart", "crash", "look", "forget"]))
    def recorder(self, name: str) -> None:
        if name == "quiet":
            self.rig.idle()
        elif name == "crash":
            self.rig.crash()
        elif name == "look":
            self.rig.look()
        else:
            self.rig.stop()
            if name == "forget":
                connection = connect(self.rig.settings.home / "agenttrace.db")
                connection.execute("DELETE FROM file_offsets")
                connection.close()

    @rule(steps=st.integers(1, 4))
    def dies_while_reading(self, steps: int) -> None:
        left = iter(range(steps))

        def stop() -> bool:
            if next(left, None) is None:
                raise KilledError
            return False

        self.rig.recorder.scan()
        try:
            self.rig.recorder.drain(stop=stop)
        except KilledError:
            self.rig.crash()

    @rule()
    def look(self) -> None:
        self.rig.look()
        expected = Counter(raw + b"\n" for raw in self.path.read_bytes().split(b"\n") if raw)
        assert Counter(self.rig.stored()) == expected


TestEqualLines = EqualLines.TestCase


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_while_files_change(rig: Rig, seed: int) -> None:
    """A recorder that is killed again and again while files grow, rotate and are saved anew ends up exact."""
    chance = random.Random(seed)
    environ = {"AGENTTRACE_RECORD_POLL_SECONDS": "0.2", "AGENTTRACE_RECORD_BATCH_LINES": "50"}
    written: list[bytes] = []
    number = 0
    for _ in range(6):
        process = RecorderProcess(rig, environ=environ)
        deadline = time.monotonic() + chance.uniform(0.5, 1.5)
        while time.monotonic() < deadline:
            fresh = [line(f"{number}-{index}", pad=chance.choice([0, 200, 2000])) for index in range(40)]
            number += 1
            written += fresh
            _some_program(chance, rig, b"".join(fresh), number)
            time.sleep(chance.uniform(0, 0.02))
        process.kill()
    rig.once()
    assert rig.verdict(written) == EXACT


def _some_program(chance: random.Random, rig: Rig, data: bytes, number: int) -> None:
    """Write lines somehow; nothing that was written is ever taken away."""
    path = rig.path(chance.choice(["a.jsonl", "b.jsonl"]))
    what = chance.choice(["append", "append", "split", "rotate", "save", "copy"])
    if what == "split":
        cut = chance.randrange(len(data))
        append(path, data[:cut])
        time.sleep(chance.uniform(0, 0.02))
        append(path, data[cut:])
        return
    if what == "save" and path.exists():
        replace(path, path.read_bytes(), data)
        return
    append(path, data)
    if what == "rotate":
        path.rename(rig.path(f"{path.name}.{number}"))
    elif what == "copy":
        shutil.copyfile(path, rig.path(f"copy-{number}.jsonl"))
