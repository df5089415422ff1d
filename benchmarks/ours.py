"""Runs AgentTrace by its command line, as a user does, and measures it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.usage import usage_rows
from benchmarks.measure import Cost, run, sandbox_environ, tree_bytes
from benchmarks.peers import Imported

_TICK = os.sysconf("SC_CLK_TCK")
#: A file that changed so recently is looked at more often.
_SETTLE_SECONDS = 12
#: The share of a core below which nothing is left to do.
_RESTING = 0.03


class Summary(msgspec.Struct, kw_only=True):
    """What ``agenttrace record --once --json`` prints."""

    files: int
    bytes: int
    lines: int
    recorded: int
    duplicate: int
    quarantined: int
    sessions: int
    seconds: float


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of following many idle files."""

    cpu_share: float
    rss_mb: float
    #: From the start of the program until a line appended meanwhile is stored.
    restart_seconds: float


def _program() -> Path:
    return Path(sys.executable).with_name("agenttrace")


def _environ(work: Path) -> dict[str, str]:
    return sandbox_environ(work, AGENTTRACE_HOME=str(work / "agenttrace"))


def record_once(
    path: Path | None, work: Path, *, index: bool = False, fresh: bool = True, **environ: str
) -> tuple[Cost, Summary]:
    """Import a path, or the directories of the agents' variables; into an empty store unless ``fresh`` is False."""
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    wish = "--index" if index else "--no-index"
    command: list[str | Path] = [_program(), "record", "--once", "--json", wish]
    if path is not None:
        command.append(path)
    cost = run(command, environ=_environ(work) | environ, merge=False)
    if cost.exit_code:
        raise RuntimeError(f"agenttrace record failed with {cost.exit_code}: {cost.output[-500:]}")
    return cost, msgspec.json.decode(cost.output, type=Summary)


def store(work: Path) -> sqlite3.Connection:
    """The store of a run, read-only."""
    return connect(work / "agenttrace" / "agenttrace.db", read_only=True)


def import_tree(tree: Path, work: Path, *, index: bool) -> Imported:
    """Import a tree of sessions into an empty store, from where Claude Code would have written it."""
    cost, summary = record_once(None, work, index=index, CLAUDE_CONFIG_DIR=str(tree))
    connection = store(work)
    rows = [row.usage for row in usage_rows(connection)]
    connection.close()
    tokens = (
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
        sum(row.cache_read_tokens for row in rows),
        sum(row.cache_write_tokens for row in rows),
    )
    size = tree_bytes(work / "agenttrace")
    return Imported(cost=cost, stored_bytes=size, sessions=summary.sessions, tokens=tokens)


def second_pass(tree: Path, work: Path) -> Cost:
    """The same import again: nothing is new."""
    cost, summary = record_once(None, work, fresh=False, CLAUDE_CONFIG_DIR=str(tree))
    assert summary.lines == 0, summary
    return cost


def write_own_lines(path: Path, like: Path) -> None:
    """Write the lines of a file in the AgentTrace log format: the same texts, 2 KB each, as messages of one session."""
    with like.open("rb") as source, path.open("wb") as out:
        for number, line in enumerate(source):
            text = line[200:2080].decode("utf-8", "ignore")
            message = {"v": 1, "session": "s", "type": "message", "id": number, "ts": 1_789_200_000 + number}
            out.write(msgspec.json.encode(message | {"role": "assistant", "text": text}) + b"\n")


@contextmanager
def following(path: Path | None, work: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``agenttrace record PATH``, or record the agents' homes, while the block runs."""
    command = [str(_program()), "record", "--json", *([] if path is None else [str(path)])]
    process = subprocess.Popen(command, env=_environ(work) | environ, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


class Watch:
    """Reads the store of a running recorder."""

    def __init__(self, work: Path, patience: float = 300) -> None:
        self._path = work / "agenttrace" / "agenttrace.db"
        self._patience = patience
        self._connection: sqlite3.Connection | None = None

    def stored(self) -> int:
        """The number of the last committed event."""
        return self._number("SELECT coalesce(max(event_no), 0) FROM processed_events")

    def files(self) -> int:
        """How many files have been read."""
        return self._number("SELECT count(*) FROM file_offsets WHERE offset > 0")

    def wait_stored(self, number: int, *, nap: float = 0.0002) -> None:
        """Until the event with this number is committed."""
        self._wait(lambda: self.stored() >= number, nap)

    def wait_files(self, count: int) -> None:
        """Until this many files have been read."""
        self._wait(lambda: self.files() >= count, 0.2)

    def _wait(self, reached: Callable[[], bool], nap: float) -> None:
        deadline = time.monotonic() + self._patience
        while not reached():
            if time.monotonic() > deadline:
                raise TimeoutError("the recorder did not get there")
            time.sleep(nap)

    def _number(self, query: str) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None)
            return int(self._connection.execute(query).fetchone()[0])
        except sqlite3.OperationalError:
            self._connection = None
            return 0


def latency(work: Path, *, lines: int = 500, pause: float = 0.02) -> list[float]:
    """Seconds from the end of each write to the row being committed, one line at a time."""
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "logs"
    folder.mkdir(parents=True)
    log = folder / "live.jsonl"
    log.write_bytes(_native_line(0))
    watch, taken = Watch(work), []
    with following(folder, work):
        watch.wait_stored(1)
        with log.open("ab", buffering=0) as out:
            for number in range(1, lines + 1):
                out.write(_native_line(number))
                began = time.perf_counter()
                watch.wait_stored(number + 1)
                taken.append(time.perf_counter() - began)
                time.sleep(pause)
    return sorted(taken)


def _native_line(number: int, session: str = "live") -> bytes:
    text = f"line {number} of a session that somebody watches"
    line = {"v": 1, "session": session, "type": "message", "id": number, "ts": 1_789_200_000 + number}
    return json.dumps(line | {"role": "assistant", "text": text}).encode() + b"\n"


def idle(work: Path, *, files: int = 10_000, seconds: float = 30) -> Idle:
    """Follow many idle files, then restart."""
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "logs"
    for number in range(files):
        log = folder / f"{number // 100:03}" / f"{number}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(_native_line(0, session=f"quiet-{number}"))
    watch = Watch(work)
    with following(folder, work) as process:
        watch.wait_files(files)
        time.sleep(5)
        share = cpu_share(process.pid, seconds)
        rss = rss_mb(process.pid)
    return Idle(cpu_share=share, rss_mb=rss, restart_seconds=_restart(folder, work, watch))


def _restart(folder: Path, work: Path, watch: Watch) -> float:
    known = watch.stored()
    with (folder / "000" / "7.jsonl").open("ab", buffering=0) as out:
        out.write(_native_line(1, session="quiet-7"))
    began = time.perf_counter()
    with following(folder, work):
        watch.wait_stored(known + 1, nap=0.002)
        return time.perf_counter() - began


def await_rest(process: subprocess.Popen[bytes], patience: float = 300) -> None:
    """Until everything is done that waits for a quiet moment: indexing, figures of outcomes, clean-up."""
    time.sleep(_SETTLE_SECONDS)
    deadline = time.monotonic() + patience
    while cpu_share(process.pid, 3) > _RESTING and time.monotonic() < deadline:
        pass


def cpu_share(pid: int, seconds: float) -> float:
    """How much of a core a process takes for so long."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def cpu_seconds(pid: int) -> float:
    """What a process has used of all cores."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss_mb(pid: int) -> float:
    """The memory that a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
