"""A store that cannot be written for a while: said clearly, waited out, nothing lost and nothing doubled."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from agenttrace.config import SettingsError, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.watcher import Watcher
from agenttrace.store.sqlite import database
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.retention import Retention
from faults.store_rig import (
    CLI,
    Writer,
    differences,
    environ_of,
    record_once,
    recorder,
    rows,
    run,
    settings_of,
    start,
    write_logs,
)

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
NOBODY = 65534


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)


class Following:
    """A watcher at work in a thread, and the problems it reported."""

    def __init__(self, home: Path, logs: Path) -> None:
        self.problems: list[str | None] = []
        self.recorder = Recorder(settings_of(home, poll_seconds=0.2), paths=[str(logs)])
        self.stop = threading.Event()
        self.watcher = Watcher(self.recorder, self.stop, on_problem=self.problems.append)
        self.thread = threading.Thread(target=self.watcher.run)

    def __enter__(self) -> Following:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)
        self.recorder.close()

    def wait_for_problem(self, words: str) -> None:
        wait_for(lambda: any(words in (problem or "") for problem in self.problems), f"a problem with {words!r}")

    def wait_for_recovery(self) -> None:
        wait_for(lambda: bool(self.problems) and self.problems[-1] is None, "recovery")

    def wait_until_done(self, events: int) -> None:
        """Until so many events are stored."""

        def stored() -> int:
            reader = sqlite3.connect(self.recorder.settings.home / "agenttrace.db")
            try:
                return int(reader.execute("SELECT count(*) FROM processed_events").fetchone()[0])
            finally:
                reader.close()

        wait_for(lambda: stored() >= events, f"{events} events")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    place = tmp_path / "logs"
    write_logs(place, seed=4, turns=20, pad=1500)
    return place


@pytest.fixture
def undisturbed(tmp_path: Path, logs: Path) -> Path:
    home = tmp_path / "undisturbed"
    record_once(home, logs)
    return home


def events_of(home: Path) -> int:
    return len(rows(home)["processed_events"])


# -- full disk ----------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of its own; skips the test where mounting is not allowed."""
    place.mkdir()
    if not IS_ROOT or not shutil.which("mount"):
        pytest.skip("needs the right to mount a file system")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True)
    if made.returncode != 0:
        pytest.skip("may not mount a file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_while_following(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """ENOSPC on a real file system: recording waits, and goes on by itself once there is space."""
    with small_disk(tmp_path / "disk", "13m") as disk:
        filler = disk / "filler"
        filler.write_bytes(b"\0" * (11 << 20))
        with Following(disk / "home", logs) as following:
            following.wait_for_problem("full")
            filler.unlink()
            following.wait_for_recovery()
            following.wait_until_done(events_of(undisturbed))
        assert differences(rows(disk / "home"), rows(undisturbed)) == {}


def test_a_full_disk_ends_an_import_with_a_clear_error(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """``record --once`` says that the disk is full and what to do; with space again, the next run finishes the job."""
    with small_disk(tmp_path / "disk", "12m") as disk:
        filler = disk / "filler"
        filler.write_bytes(b"\0" * (11 << 20))
        command = ("record", str(logs), "--once", "--json")
        code, printed, complaints = run(disk / "home", *command)
        assert (code, printed) == (1, "")
        assert "full" in complaints
        assert "Traceback" not in complaints
        filler.unlink()
        assert run(disk / "home", *command)[0] == 0
        assert differences(rows(disk / "home"), rows(undisturbed)) == {}


def read_until(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Read what the process complains about until it says this."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be changed on Linux only")
def test_a_limit_on_file_size_while_following(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """A quota that is reached and lifted, in a process of its own and without special rights."""
    import resource

    home = tmp_path / "home"
    settings_of(home)
    process = subprocess.Popen(
        [*CLI, "record", str(logs), "--json"],
        env=environ_of(home, AGENTTRACE_RECORD_POLL_SECONDS="0.2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY)),
    )
    try:
        read_until(process, b"recording fails: ")
        assert process.poll() is None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        read_until(process, b"recording works again")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    record_once(home, logs)
    assert differences(rows(home), rows(undisturbed)) == {}


# -- read-only ----------------------------------------------------------------------------------------------------


def test_a_read_only_file_system(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """Said clearly, changes nothing; once it is writable again, the next run goes on."""
    with small_disk(tmp_path / "disk", "32m") as disk:
        record_once(disk / "home", logs / "own.jsonl")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        code, printed, complaints = run(disk / "home", "record", str(logs), "--once", "--json")
        assert (code != 0, printed) == (True, "")
        assert "not writable" in complaints
        assert "Traceback" not in complaints
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        record_once(disk / "home", logs)
        assert differences(rows(disk / "home"), rows(undisturbed)) == {}


#: The command twice in one process: as root, so that everything is loaded, then as somebody with no rights.
AS_NOBODY = f"""
import contextlib, os, sys
from agenttrace.cli.program import run
with contextlib.suppress(SystemExit):
    run()
os.setgid({NOBODY})
os.setuid({NOBODY})
os.environ["AGENTTRACE_HOME"] = os.environ["FORBIDDEN"]
sys.exit(run())
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become somebody else")
def test_a_data_directory_of_somebody_else(tmp_path: Path, logs: Path) -> None:
    """A directory that may not be written to is refused with its path, the reason and the way out."""
    place = Path(tempfile.mkdtemp())
    try:
        forbidden = place / "forbidden"
        readable = place / "logs"
        readable.mkdir()
        shutil.copy(logs / "own.jsonl", readable)
        record_once(forbidden, readable)
        before = rows(forbidden)
        for path in (place, readable, forbidden, *forbidden.iterdir()):
            path.chmod(0o755)
        command = (sys.executable, "-c", AS_NOBODY)
        process = start(tmp_path / "home", "record", str(readable), "--once", command=command, FORBIDDEN=str(forbidden))
        _, complaints = process.communicate(timeout=60)
        assert process.returncode != 0
        assert f"{forbidden} is not writable" in " ".join(complaints.decode().split())
        assert b"AGENTTRACE_HOME" in complaints
        assert b"Traceback" not in complaints
        assert differences(rows(forbidden), before) == {}
    finally:
        shutil.rmtree(place)


def test_a_data_directory_that_cannot_be(tmp_path: Path) -> None:
    """A file where the directory should be, or below it: said before anything is read."""
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SettingsError, match=r"not a directory|cannot be created"):
            ensure_home(settings_of(home))


# -- locked -------------------------------------------------------------------------------------------------------


def test_a_store_that_somebody_else_locks(
    tmp_path: Path, logs: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locked for longer than the patience of a connection: recording waits, then goes on; nothing is lost."""
    home = tmp_path / "home"
    record_once(home, logs / "own.jsonl")
    locker = sqlite3.connect(home / "agenttrace.db", isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    with Following(home, logs) as following:
        following.wait_for_problem("locked")
        locker.execute("ROLLBACK")
        following.wait_for_recovery()
        following.wait_until_done(events_of(undisturbed))
    locker.close()
    assert differences(rows(home), rows(undisturbed)) == {}


def test_a_lock_shorter_than_the_patience_is_not_noticed(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """Ten seconds of patience: whoever holds the store for a moment only delays a commit."""
    home = tmp_path / "home"
    settings = settings_of(home)
    made = Recorder(settings, paths=[str(logs)])
    locker = sqlite3.connect(home / "agenttrace.db", isolation_level=None, check_same_thread=False)
    locker.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, locker.execute, ["ROLLBACK"])
    release.start()
    made.run_once()
    made.close()
    release.join()
    locker.close()
    assert differences(rows(home), rows(undisturbed)) == {}


def test_a_reader_does_not_disturb(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """A reader that keeps an old view of the store open for the whole import blocks nothing."""
    home = tmp_path / "home"
    with recorder(home, logs) as made:
        reader = sqlite3.connect(home / "agenttrace.db", isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM processed_events").fetchone() == (0,)
        made.run_once()
        assert reader.execute("SELECT count(*) FROM processed_events").fetchone() == (0,)
        reader.close()
    assert differences(rows(home), rows(undisturbed)) == {}


# -- two recorders ------------------------------------------------------------------------------------------------


def test_the_second_recorder_leaves(tmp_path: Path, logs: Path, undisturbed: Path) -> None:
    """It names the first one and the way out, changes nothing, and its exit code says that it failed."""
    home = tmp_path / "home"
    first = start(home, "record", str(logs), "--json")
    try:
        wait_for(lambda: (home / "recorder.lock").exists(), "the lock")
        wait_for(lambda: (home / "recorder.lock").read_text() == str(first.pid), "the first one's number")
        for arguments in (("record", str(logs), "--once"), ("record", str(logs))):
            code, _, complaints = run(home, *arguments)
            assert code == 1
            assert f"already recording into {home} (process {first.pid})" in " ".join(complaints.split())
            assert "Traceback" not in complaints
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
    record_once(home, logs)
    assert differences(rows(home), rows(undisturbed)) == {}


def test_a_killed_recorder_leaves_no_lock(tmp_path: Path, logs: Path) -> None:
    """The system frees the lock with the process; the next one starts at once."""
    home = tmp_path / "home"
    first = start(home, "record", str(logs), "--json")
    wait_for(lambda: (home / "recorder.lock").exists(), "the lock")
    first.kill()
    first.communicate()
    assert run(home, "record", str(logs), "--once", "--json")[0] == 0


def test_a_session_pruned_under_a_running_recorder(tmp_path: Path) -> None:
    """A session that goes on after it was pruned counts what is there, not what the recorder remembers."""
    home, log = tmp_path / "home", tmp_path / "logs" / "own.jsonl"
    log.parent.mkdir()
    writer = Writer()
    log.write_bytes(b"".join(line for _ in range(5) for line in writer.own_turn("s")))
    with recorder(home, log.parent) as made:
        made.scan()
        made.drain()
        store = connect(home / "agenttrace.db")
        assert Retention(store).prune(time.time() + 1e9).sessions == 1
        with log.open("ab") as file:
            file.write(b"".join(writer.own_turn("s")))
        made.scan()
        made.drain()
        counted = store.execute("SELECT turns, events FROM sessions").fetchall()
        spans = store.execute("SELECT count(*) FROM spans WHERE kind = 'turn'").fetchone()[0]
        events = store.execute("SELECT count(*) FROM processed_events WHERE block_id NOT NULL").fetchone()[0]
        store.close()
    assert counted == [(spans, events)]


# -- time ---------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_backwards(
    tmp_path: Path, logs: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of storing only inform: with a clock that loses an hour at every look nothing else is different."""
    looks = count(1)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - next(looks) * 3600)
    record_once(tmp_path / "home", logs)
    with recorder(tmp_path / "home", logs) as again:
        summary = again.run_once()
    assert (summary.recorded, summary.duplicate, summary.lines) == (0, 0, 0)
    assert differences(rows(tmp_path / "home"), rows(undisturbed)) == {}


def test_a_log_whose_time_goes_backwards(tmp_path: Path, logs: Path) -> None:
    """A file that grows but looks older than before is read all the same."""
    home, log = tmp_path / "home", logs / "own.jsonl"
    record_once(home, logs)
    before = events_of(home)
    with log.open("ab") as file:
        file.write(b'{"v":1,"session":"own-0","type":"message","id":"late","text":"late"}\n')
    os.utime(log, (1, 1))
    record_once(home, logs)
    assert events_of(home) == before + 1
