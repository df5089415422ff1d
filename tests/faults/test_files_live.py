"""The real program, following files while other programs do what they do to them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults.rig import EXACT, RecorderProcess, Rig, append, line, lines, overwrite, replace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and open files that are renamed are POSIX")

POLL = {"AGENTTRACE_RECORD_POLL_SECONDS": "0.5"}
#: Longer than a last line without newline has to be quiet before it is taken.
PAUSE = 1.3


class Scene:
    """A directory and a session of its own: several things can happen to one recorder at once."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig = rig
        self.name = name
        self.directory = rig.logs / name
        self.directory.mkdir()
        self.path = self.directory / "a.jsonl"
        self.written: list[bytes] = []

    def fresh(self, count: int, pad: int = 0) -> list[bytes]:
        """New lines of this scene."""
        made = lines(len(self.written), count, session=self.name, pad=pad)
        self.written += made
        return made

    def until_recorded(self) -> None:
        """Wait until everything that was written is stored: what is taken away now was seen."""
        deadline = time.monotonic() + 60
        query = "SELECT coalesce(sum(events), 0) FROM sessions WHERE session_id = ?"
        while (found := self._ask(query)) < len(self.written):
            assert time.monotonic() < deadline, f"{self.name}: {found} of {len(self.written)}"
            time.sleep(0.02)

    def _ask(self, query: str) -> int:
        connection = sqlite3.connect(self.rig.settings.home / "agenttrace.db", timeout=60)
        try:
            return int(connection.execute(query, (self.name,)).fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # not created yet
        finally:
            connection.close()


def pauses_inside_lines(scene: Scene) -> None:
    """A slow writer, slower than any patience."""
    with scene.path.open("ab", buffering=0) as writer:
        for whole in scene.fresh(3):
            writer.write(whole[: len(whole) // 2])
            time.sleep(PAUSE)
            writer.write(whole[len(whole) // 2 :])


def ends_without_newline(scene: Scene) -> None:
    """The last line is taken when the file is quiet, and its newline comes later."""
    append(scene.path, scene.fresh(10), scene.fresh(1)[0][:-1])
    scene.until_recorded()
    append(scene.path, b"\n", scene.fresh(2))


def rotates_with_a_late_writer(scene: Scene) -> None:
    """Out of sight, and still written to."""
    outside = scene.rig.root / "elsewhere.log"
    with scene.path.open("ab", buffering=0) as writer:
        writer.write(b"".join(scene.fresh(100)))
        scene.until_recorded()
        scene.path.rename(outside)
        append(scene.path, scene.fresh(10))
        time.sleep(PAUSE)
        writer.write(b"".join(scene.fresh(20)))
        scene.until_recorded()


def rotates_fast(scene: Scene) -> None:
    """Twenty times, the fifth oldest deleted."""
    for _ in range(20):
        scene.until_recorded()
        for number in range(4, 0, -1):
            if (old := scene.path.with_name(f"a.jsonl.{number}")).exists():
                old.replace(scene.path.with_name(f"a.jsonl.{number + 1}"))
        if scene.path.exists():
            scene.path.rename(scene.path.with_name("a.jsonl.1"))
        append(scene.path, scene.fresh(200))
        time.sleep(0.02)


def copies_and_truncates(scene: Scene) -> None:
    """Three times, with lines written shortly before."""
    for turn in range(3):
        append(scene.path, scene.fresh(300))
        shutil.copyfile(scene.path, scene.path.with_name(f"a.jsonl.{turn + 1}"))
        overwrite(scene.path, scene.fresh(20))
        time.sleep(0.1)


def truncates_and_regrows(scene: Scene) -> None:
    """Past the old size, at once."""
    for turn in range(3):
        append(scene.path, scene.fresh(50))
        scene.until_recorded()
        overwrite(scene.path, scene.fresh(60 * (turn + 2)))
        scene.until_recorded()


def deletes_and_creates(scene: Scene) -> None:
    """In mid-session, again and again."""
    for _ in range(5):
        append(scene.path, scene.fresh(50))
        scene.until_recorded()
        scene.path.unlink()


def saves_atomically(scene: Scene) -> None:
    """The whole file anew for every few lines."""
    for _ in range(20):
        scene.fresh(5)
        replace(scene.path, scene.written)
        time.sleep(0.02)


def begins_many_files(scene: Scene) -> None:
    """A burst, in directories that did not exist, then one line more in each."""
    paths = [scene.directory / str(number % 20) / f"{number}.jsonl" for number in range(150)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        append(path, scene.fresh(2))
    for path in paths:
        append(path, scene.fresh(1))


def points_elsewhere(scene: Scene) -> None:
    """A link that leads to one file after the other."""
    outside = scene.rig.root / "targets"
    outside.mkdir()
    for number in range(3):
        scene.path.unlink(missing_ok=True)
        scene.path.symlink_to(outside / f"{number}.jsonl")
        append(scene.path, scene.fresh(10))
        scene.until_recorded()
        append(scene.path, scene.fresh(10))
        scene.until_recorded()


SCENES: tuple[Callable[[Scene], None], ...] = (
    pauses_inside_lines,
    ends_without_newline,
    rotates_with_a_late_writer,
    rotates_fast,
    copies_and_truncates,
    truncates_and_regrows,
    deletes_and_creates,
    saves_atomically,
    begins_many_files,
    points_elsewhere,
)


@pytest.fixture
def start(rig: Rig) -> Iterator[Callable[[], RecorderProcess]]:
    """Starts recorders of one rig; none is left behind."""
    started: list[RecorderProcess] = []

    def begin() -> RecorderProcess:
        started.append(RecorderProcess(rig, environ=POLL | {"AGENTTRACE_RECORD_FOLLOW_SYMLINKS": "true"}))
        return started[-1]

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.kill()


@pytest.mark.slow
def test_everything_at_once(start: Callable[[], RecorderProcess]) -> None:
    """Ten kinds of trouble at the same time: every line is recorded, each once, none in halves; the sum is right."""
    process = start()
    scenes = [Scene(process.rig, played.__name__) for played in SCENES]
    with ThreadPoolExecutor(len(scenes)) as stage:
        for running in [stage.submit(played, scene) for played, scene in zip(SCENES, scenes, strict=True)]:
            running.result()
    written = [one for scene in scenes for one in scene.written]
    process.wait_for(len(written))
    summary = process.stop()
    assert process.rig.verdict(written) == EXACT
    kinds = ("recorded", "duplicate", "ignored", "quarantined", "pending")
    assert summary["lines"] == sum(summary[kind] for kind in kinds)
    assert (summary["recorded"], summary["quarantined"], summary["pending"]) == (len(written), 0, 0)
    assert process.rig.total("lost_bytes") == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_half_a_line_across_a_restart(start: Callable[[], RecorderProcess], end: signal.Signals) -> None:
    """A recorder that ends while a line is being written leaves it to the next one, whole."""
    process = start()
    path, whole = process.rig.path(), line("torn")
    append(path, written := lines(0, 100), whole[:40])
    process.wait_for(100)
    os.kill(process.process.pid, end)
    process.process.communicate(timeout=60)
    process = start()
    append(path, whole[40:], more := lines(200, 10))
    process.wait_for(111)
    process.stop()
    assert process.rig.verdict([*written, whole, *more]) == EXACT
    assert process.rig.quarantined() == []
