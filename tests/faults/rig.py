"""The rig of the fault tests: writes log lines, records them, and compares what is stored with what was written."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import forked
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.events import raw_lines

#: A session's first line in the format of Claude Code; the file is recognised by any of them.
CLAUDE_SESSION = "0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001"
CODEX_SESSION = "0199c5d2-4a3b-7c11-8f00-6d1f2e3a4b5c"


class Verdict(NamedTuple):
    """How the store differs from what was written: nothing must ever be other than 0."""

    missing: int
    doubled: int
    garbled: int


EXACT = Verdict(0, 0, 0)


def line(number: int | str, *, session: str = "s", pad: int = 0, text: str = "") -> bytes:
    """A line of our own format that has an id."""
    body = {"v": 1, "session": session, "type": "message", "id": f"m-{number}", "text": text or f"text {number}"}
    return _encoded(body | ({"pad": "x" * pad} if pad else {}))


def lines(first: int, count: int, *, session: str = "s", pad: int = 0) -> list[bytes]:
    """Consecutive lines."""
    return [line(number, session=session, pad=pad) for number in range(first, first + count)]


def bare_line(text: str, *, session: str = "s") -> bytes:
    """A line of our own format without an id: its place among equal lines is its identity."""
    return _encoded({"v": 1, "session": session, "type": "message", "text": text})


def claude_line(number: int, *, session: str = CLAUDE_SESSION, text: str = "hello") -> bytes:
    """A line as Claude Code writes it."""
    return _encoded(
        {
            "parentUuid": None,
            "isSidechain": False,
            "type": "user",
            "message": {"role": "user", "content": f"{text} {number}"},
            "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "timestamp": f"2026-01-02T03:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
            "cwd": "/home/someone/project",
            "sessionId": session,
            "version": "2.1.0",
        }
    )


def codex_lines(count: int) -> list[bytes]:
    """A rollout as Codex writes it: no line has an id, and some are equal to the byte."""
    meta = {"id": CODEX_SESSION, "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/p", "cli_version": "0.80.0"}
    found = [_encoded({"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": meta})]
    for number in range(count - 1):
        # Two lines to a timestamp: every second line equals the one before it.
        stamp = f"2026-01-02T03:{number // 2 // 60 % 60:02d}:{number // 2 % 60:02d}.000Z"
        payload = {"type": "agent_message", "message": f"thought {number // 2}"}
        found.append(_encoded({"timestamp": stamp, "type": "event_msg", "payload": payload}))
    return found


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def append(path: Path, *data: bytes | Iterable[bytes]) -> None:
    """Append to a file as a program does that opens it for each write."""
    with path.open("ab") as file:
        for part in data:
            file.write(part if isinstance(part, bytes) else b"".join(part))


def overwrite(path: Path, *data: bytes | Iterable[bytes]) -> None:
    """Give the file at ``path`` (the same inode, if there is one) new content."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate()
    append(path, *data)


def replace(path: Path, *data: bytes | Iterable[bytes]) -> None:
    """Put another file in its place, as programs do that save atomically."""
    other = path.with_name(path.name + ".tmp")
    other.unlink(missing_ok=True)
    append(other, *data)
    other.replace(path)


def age(path: Path, seconds: float = 60) -> None:
    """Make a file look as if nobody had written to it for a while."""
    then = time.time() - seconds
    os.utime(path, (then, then))


class Rig:
    """A directory with logs, a store, and a recorder between them."""

    def __init__(self, root: Path, *, home: Path | None = None, **flags: int | list[str]) -> None:
        self.root = root
        self.logs = root / "logs"
        self.logs.mkdir(parents=True)
        self.environ = {"HOME": str(root), "AGENTTRACE_HOME": str(home or root / "home")}
        self.settings: Settings = load_settings(
            self.environ, {f"record.{name}": value for name, value in flags.items()}
        )
        ensure_home(self.settings)
        self._recorder: Recorder | None = None

    def path(self, name: str = "a.jsonl") -> Path:
        """A file among the logs."""
        return self.logs / name

    @property
    def recorder(self) -> Recorder:
        """The running recorder; started if there is none."""
        if self._recorder is None:
            self._recorder = Recorder(self.settings, paths=[str(self.logs)], environ=self.environ)
        return self._recorder

    def look(self) -> None:
        """One round of a recorder that is running, as its watcher does it."""
        self.recorder.scan()
        self.recorder.look_at_open()
        self.recorder.look_at_unterminated()
        self.recorder.drain()

    def stop(self) -> Summary | None:
        """End the recorder in good order; the sum of its summary must come out."""
        if self._recorder is None:
            return None
        recorder, self._recorder = self._recorder, None
        summary = recorder.finish(time.monotonic())
        recorder.close()
        check_sum(summary)
        return summary

    def restart(self) -> None:
        """Stop, start, and look."""
        self.stop()
        self.look()

    def idle(self) -> None:
        """Nothing happens for so long that the recorder gives its descriptors back."""
        for file in self.recorder._watchlist.tracked():
            file.last_growth -= 1e6
        self.recorder._close_idle()

    def leave(self, how: str) -> None:
        """What the recorder does while something happens to the files: ``running``, ``idle`` or ``stopped``."""
        if how == "idle":
            self.idle()
        elif how == "stopped":
            self.stop()

    def once(self) -> Summary:
        """What ``agenttrace record --once`` does."""
        self.stop()
        summary = self.recorder.run_once()
        self.recorder.close()
        self._recorder = None
        check_sum(summary)
        return summary

    def crash(self) -> None:
        """The process dies: nothing is finished, nothing committed, its descriptors and locks are gone."""
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            for file in list(recorder._watchlist.tracked()):
                file.close()
            recorder._compressor.shutdown(cancel_futures=True)
            recorder.connection.close()

    # -- what is stored ---------------------------------------------------------------------------------------

    def database(self) -> sqlite3.Connection:
        """The store, read only; to be closed by the caller."""
        return connect(self.settings.home / "agenttrace.db", read_only=True)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the store."""
        connection = self.database()
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def stored(self) -> list[bytes]:
        """Every recorded line, with its newline, in order of recording."""
        connection = self.database()
        try:
            return [found.raw + b"\n" for found in raw_lines(connection, after=0)]
        finally:
            connection.close()

    def verdict(self, written: Iterable[bytes]) -> Verdict:
        """Compare the store with the lines it should hold, each once."""
        expected, found = Counter(written), Counter(self.stored())
        return Verdict(
            missing=(expected - found).total(),
            doubled=sum(count - expected[raw] for raw, count in found.items() if 0 < expected[raw] < count),
            garbled=sum(count for raw, count in found.items() if raw not in expected),
        )

    def total(self, column: str) -> int:
        """A count over all files, as ``agenttrace status`` shows it."""
        return int(self.query(f"SELECT coalesce(sum({column}), 0) FROM file_offsets")[0][0])

    def quarantined(self) -> list[tuple[str, int, int]]:
        """``(reason, offset, length)`` of the lines set aside."""
        return [(row[0], row[1], row[2]) for row in self.query("SELECT reason, offset, length FROM quarantine")]


def check_sum(summary: Summary) -> None:
    """Every line is in exactly one of the five kinds."""
    kinds = (summary.recorded, summary.duplicate, summary.ignored, summary.quarantined, summary.pending)
    assert summary.lines == sum(kinds), summary


class RecorderProcess:
    """``agenttrace record`` as a process of its own, following the rig's logs."""

    def __init__(self, rig: Rig, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.rig = rig
        command = [sys.executable, "-m", "agenttrace.cli.main", "record", str(rig.logs), "--json", *arguments]
        variables = {"PATH": os.environ.get("PATH", ""), **rig.environ, **(environ or {})}
        self.process = forked.popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for(self, count: int, seconds: float = 60) -> None:
        """Until so many events are stored; fails when the process ends before."""
        deadline = time.monotonic() + seconds
        while (found := self.events()) < count:
            if self.process.poll() is not None:
                _, errors = self.process.communicate()
                raise AssertionError(f"the recorder left: {errors.decode(errors='replace')}")
            assert time.monotonic() < deadline, f"{found} of {count} events after {seconds} s"
            time.sleep(0.02)

    def events(self) -> int:
        """How many events are stored."""
        path = self.rig.settings.home / "agenttrace.db"
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        except sqlite3.OperationalError:
            return 0
        try:
            return int(connection.execute("SELECT count(*) FROM processed_events").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # not created yet
        finally:
            connection.close()

    def stop(self) -> dict[str, Any]:
        """Ask it to stop; its summary."""
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors.decode(errors="replace")
        summary: dict[str, Any] = json.loads(output)
        return summary

    def kill(self) -> None:
        """SIGKILL: no handler, no flush, no goodbye."""
        self.process.kill()
        self.process.communicate(timeout=60)
