"""SIGKILL at any instant, again and again: the store ends up equal to an undisturbed import, row for row."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from agenttrace.record.files import reader
from agenttrace.record.lock import owner
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.search import match_expression
from faults import store_rig
from faults.source_rig import SOURCES, LiveSource
from faults.store_rig import (
    CLI,
    JUNK,
    Writer,
    differences,
    encode,
    environ_of,
    record_once,
    recorder,
    rows,
    settings_of,
    start,
    write_copies,
    write_logs,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and process groups are POSIX")


#: The command line, told that a second process is worth its cost for a few megabytes already.
EAGER = (
    "from agenttrace.record import importing; importing.PARALLEL_BYTES = 1 << 20; "
    "from agenttrace.cli.main import main; main()"
)


def kill(process: subprocess.Popen[bytes], *, workers: bool = True) -> None:
    """No handler, no flush, no goodbye; ``workers``: those of a parallel import too, in the same instant."""
    for victim in (process.pid, *(workers_of(process) if workers else ())):
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    process.communicate()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes it started, and theirs, where the system tells."""
    return _children_of(process.pid)


def _children_of(pid: int) -> list[int]:
    try:
        listing = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    children = [int(number) for number in listing.split()]
    return children + [number for child in children for number in _children_of(child)]


def wait_until_recording(process: subprocess.Popen[bytes], home: Path) -> bool:
    """Until the process holds the recorder's lock; False if it left before."""
    while process.poll() is None:
        if owner(home) == process.pid:
            return True
        time.sleep(0.002)
    return False


def import_with_kills(home: Path, logs: Path, seed: int, command: tuple[str, ...] = CLI, **environ: str) -> int:
    """Start an import and kill it at a random moment until one gets through; how many were killed."""
    chance, kills, patience = random.Random(seed), 0, 0.1
    while True:
        process = start(home, "record", str(logs), "--once", "--index", "--json", command=command, **environ)
        if wait_until_recording(process, home):
            try:
                process.wait(chance.uniform(0, patience))
            except subprocess.TimeoutExpired:
                kill(process, workers=chance.random() < 0.5)
                kills += 1
                # However slow the machine, in the end one has the time it needs.
                patience *= 1.3
                continue
        _, errors = process.communicate()
        if b"already recording" not in errors:  # workers outlive their parent by a moment, and hold the lock
            assert process.returncode == 0, errors.decode(errors="replace")
            return kills


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "turns"), [("lines", 120), ("database", 150), ("documents", 80)])
def test_an_import_that_is_killed_again_and_again(tmp_path: Path, kind: str, turns: int) -> None:
    """Thousands of lines, killed at random moments, search index and all: the rows of an undisturbed import."""
    logs = tmp_path / "logs"
    SOURCES[kind](logs, turns=turns, pad=1000)
    with recorder(tmp_path / "undisturbed", logs) as undisturbed:
        undisturbed.run_once()
        index_all(undisturbed.store)
    kills = import_with_kills(tmp_path / "killed", logs, seed=11)
    assert kills >= 3
    assert differences(rows(tmp_path / "killed"), rows(tmp_path / "undisturbed")) == {}
    assert searchable(tmp_path / "killed") == searchable(tmp_path / "undisturbed")


def searchable(home: Path) -> list[bytes]:
    """The events in which a word stands that most of them hold, each as often as it is found."""
    store = connect(home / "agenttrace.db", read_only=True)
    query = "SELECT event_id FROM search JOIN processed_events ON event_no = search.rowid WHERE search MATCH ?"
    try:
        return sorted(row[0] for row in store.execute(query, (match_expression("会话"),)))
    finally:
        store.close()


@pytest.mark.slow
def test_a_parallel_import_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Several workers, killed with their parent or left behind: which of them got how far changes nothing.

    Least of all which of two sessions owns what both hold, where nothing tells a copy from its original.
    """
    logs = tmp_path / "logs"
    write_logs(logs, seed=2, turns=100, sessions=4, pad=1500)
    write_copies(logs, seed=2, sessions=12, pad=1500)
    record_once(tmp_path / "undisturbed", logs)
    eager = (sys.executable, "-c", EAGER)
    kills = import_with_kills(tmp_path / "killed", logs, seed=12, command=eager, AGENTTRACE_RECORD_WORKERS="3")
    assert kills >= 3
    assert differences(rows(tmp_path / "killed"), rows(tmp_path / "undisturbed")) == {}


@pytest.mark.parametrize("count", range(1, 5))
def test_workers_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Any number of workers, any of them stopped after any piece of a file and another one going on."""
    chance, logs, home = random.Random(count), tmp_path / "logs", tmp_path / "home"
    write_copies(logs, seed=count, sessions=4)
    monkeypatch.setattr(reader, "CHUNK_BYTES", 5_000)
    record_once(tmp_path / "undisturbed", logs)
    done: set[int] = set()
    while len(done) < count:
        index = chance.choice([index for index in range(count) if index not in done])
        settings = settings_of(home, batch_lines=chance.choice([1, 30]))
        worker = Recorder(settings, paths=[str(logs)], share=(index, count))
        worker.scan()
        if worker.drain(fair=False, stop=after(chance.randint(1, 25))):
            done.add(index)
        worker.close()
    assert differences(rows(home), rows(tmp_path / "undisturbed")) == {}


def after(pieces: int) -> Callable[[], bool]:
    """When to stop: so many pieces of files were read."""
    looks = itertools.count()
    return lambda: next(looks) >= pieces


def test_a_half_read_file_is_one_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill the workers of the next import share the rest: no two of them read the same file on."""
    logs, home = tmp_path / "logs", tmp_path / "home"
    write_logs(logs, seed=6, turns=20)
    monkeypatch.setattr(reader, "CHUNK_BYTES", 5_000)
    looks = itertools.count()
    with recorder(home, logs) as first:
        first.scan()
        first.drain(stop=lambda: next(looks) > 30)
        begun = first.summary.lines
    workers = [Recorder(settings_of(home), paths=[str(logs)], share=(index, 2)) for index in range(2)]
    for worker in workers:
        worker.scan()
    for worker in workers:
        worker.drain(fair=False)
        worker.close()
    assert all(worker.summary.lines for worker in workers)
    total = begun + sum(worker.summary.lines for worker in workers)
    assert total == record_once(tmp_path / "undisturbed", logs).lines
    record_once(home, logs)
    assert differences(rows(home), rows(tmp_path / "undisturbed")) == {}


def test_a_compressed_log_that_is_read_in_pieces(tmp_path: Path) -> None:
    """Stopped in the middle of a compressed file, far beyond its compressed size, the next run reads the rest."""
    logs, home = tmp_path / "logs", tmp_path / "home"
    logs.mkdir()
    lines = b"".join(encode({"v": 1, "session": "z", "type": "note", "id": n, "text": "x" * 900}) for n in range(4000))
    (logs / "z.jsonl.zst").write_bytes(zstandard.compress(lines))
    assert (logs / "z.jsonl.zst").stat().st_size < 100_000
    looks = itertools.count()
    with recorder(home, logs) as first:
        first.scan()
        first.drain(stop=lambda: next(looks) > 0)
    assert 0 < len(rows(home)["processed_events"]) < 4000
    record_once(home, logs)
    assert len(rows(home)["processed_events"]) == 4000


@pytest.mark.parametrize(("kind", "statements"), [("lines", 2), ("lines", 9), ("database", 5), ("documents", 5)])
def test_an_import_that_dies_between_two_statements(tmp_path: Path, kind: str, statements: int) -> None:
    """Each recorder dies a little later in its life, inside a transaction or between two, until one gets through."""
    logs = tmp_path / "logs"
    SOURCES[kind](logs, seed=3, turns=8)
    record_once(tmp_path / "undisturbed", logs)
    (tmp_path / "killed").mkdir()
    run = subprocess.run(
        [sys.executable, store_rig.__file__, str(statements), str(logs)],
        env=environ_of(tmp_path / "killed"),
        capture_output=True,
        check=True,
    )
    assert int(run.stdout) > 10
    assert differences(rows(tmp_path / "killed"), rows(tmp_path / "undisturbed")) == {}


class LiveWriter(threading.Thread):
    """Several agents at work: lines are appended in pieces, a file comes into being now and then."""

    def __init__(self, logs: Path, seconds: float) -> None:
        super().__init__()
        self.logs, self.seconds = logs, seconds
        self.writer = Writer(seed=5, pad=200)
        self.sessions: list[str] = []

    def run(self) -> None:
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            self._write_something()
            time.sleep(self.writer.random.uniform(0, 0.01))

    def _write_something(self) -> None:
        chance = self.writer.random
        if len(self.sessions) < 6 and (not self.sessions or chance.random() < 0.1):
            self.sessions.append(self.writer.uuid())
        session = chance.choice(self.sessions)
        data = b"".join(self.writer.claude_turn(session))
        if chance.random() < 0.2:
            data += chance.choice(JUNK)
        with (self.logs / f"{session}.jsonl").open("ab", buffering=0) as file:
            while data:
                size = chance.choice([1, 50, 700, 20_000])
                file.write(data[:size])
                data = data[size:]


@pytest.mark.slow
def test_killed_while_following(tmp_path: Path) -> None:
    """Killed four times while agents write: when all is done, the store is that of an import of the finished files."""
    logs, home = tmp_path / "logs", tmp_path / "killed"
    logs.mkdir()
    live = LiveWriter(logs, seconds=4.0)
    live.start()
    chance = random.Random(7)
    for _ in range(4):
        process = start(home, "record", str(logs), "--json")
        assert wait_until_recording(process, home)
        time.sleep(chance.uniform(0.1, 0.7))
        kill(process)
    live.join()
    finish(home, logs)
    record_once(tmp_path / "undisturbed", logs)
    assert differences(rows(home), rows(tmp_path / "undisturbed")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["database", "documents"])
def test_killed_while_following_other_sources(tmp_path: Path, kind: str) -> None:
    """The same for a database that is checkpointed and vacuumed, and for documents that are torn for a moment.

    Known messages are read again with every version of a document: only the counts of a file tell how often.
    """
    logs, home = tmp_path / "logs", tmp_path / "killed"
    live = LiveSource(logs, kind, seconds=3.0)
    live.start()
    chance = random.Random(7)
    for _ in range(4):
        process = start(home, "record", str(logs), "--json")
        assert wait_until_recording(process, home)
        time.sleep(chance.uniform(0.1, 0.6))
        kill(process)
    live.join()
    finish(home, logs)
    record_once(tmp_path / "undisturbed", logs)
    found = differences(rows(home), rows(tmp_path / "undisturbed"))
    assert found.keys() <= {"file_offsets", "raw lines"}, found


def finish(home: Path, logs: Path) -> None:
    """The last run, which nobody kills."""
    process = start(home, "record", str(logs), "--once", "--json")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode(errors="replace")
