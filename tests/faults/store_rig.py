"""The rig of the store's fault tests: made-up logs, processes that record them, stores compared row for row.

Run as a program it forks recorders that die, each a little further on in its life, until one gets through:
``python store_rig.py STATEMENTS PATH``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.record.files import databases, reader
from agenttrace.record.ingest.fold import StreamState
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.events import raw_lines

Line = dict[str, Any]
Rows = dict[str, list[tuple[Any, ...]]]

#: Columns that say when something was stored, or number it in order of storing; everything else must be equal.
INCIDENTAL = {
    "processed_events": ("event_no", "processed_at", "block_id", "line_n"),
    "spans": ("span_no", "changed", "revision"),
    "sessions": ("revision",),
    "responses": ("revision",),
    "file_offsets": ("last_read_at", "read_count", "blocks"),
    "quarantine": ("quarantine_id", "found_at"),
    "pruned": ("pruned_at",),
}
TABLES = (
    "processed_events",
    "spans",
    "sessions",
    "streams",
    "links",
    "responses",
    "usage_rollup",
    "file_offsets",
    "quarantine",
    "pruned",
)
CLI = (sys.executable, "-m", "agenttrace.cli.main")
_state = msgspec.msgpack.Decoder(StreamState)


# -- logs ---------------------------------------------------------------------------------------------------------


class Writer:
    """Makes up sessions; the same seed always gives the same bytes."""

    def __init__(self, seed: int = 1, pad: int = 400) -> None:
        self.random = random.Random(seed)
        self.pad = pad
        self.at = 1_789_200_000.0
        self._numbers = count(1)

    def uuid(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"

    def stamp(self) -> str:
        self.at += self.random.randint(1, 20_000) / 1000
        return datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def text(self, size: int) -> str:
        words = [f"{self.random.getrandbits(40):x}" for _ in range(max(1, size // 20))]
        return " ".join(words) + " 会话 🚀"

    # Claude Code: prompts, answers of several lines with growing usage, tools, one session a file.

    def claude_turn(self, session: str, *, agent: str | None = None) -> list[bytes]:
        """A prompt, two model calls, parallel tools; sometimes the agent is killed before it is done."""
        common: Line = {"sessionId": session, "cwd": "/home/dev/work", "version": "2.1.92", "gitBranch": "main"}
        if agent is not None:
            common["agentId"] = agent
        prompt = {"role": "user", "content": self.text(80)}
        lines = [self._claude("user", common, prompt, agent, promptId=self.uuid())]
        for last in (False, True):
            if last and self.random.random() < 0.1:
                break
            lines += self._claude_response(common, agent, last=last)
        return lines

    def claude_note(self, session: str) -> bytes:
        """A line that says nothing."""
        head: Line = {"parentUuid": None, "isSidechain": False, "type": "system", "content": "forked"}
        return encode({**head, "uuid": self.uuid(), "timestamp": self.stamp(), "sessionId": session})

    def _claude_response(self, common: Line, agent: str | None, *, last: bool) -> list[bytes]:
        message, model = f"msg_{self.uuid()}", self.random.choice(["claude-sonnet-4-5", "claude-opus-4-5"])
        calls = [] if last else [f"toolu_{next(self._numbers):08d}" for _ in range(self.random.randint(1, 3))]
        blocks: list[Line] = [{"type": "text", "text": self.text(self.pad)}]
        blocks += [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}} for call in calls]
        lines, output = [], self.random.randint(40, 400)
        for number, block in enumerate(blocks, start=1):
            done = number == len(blocks)
            body = {
                "id": message,
                "model": model,
                "role": "assistant",
                "content": [block],
                "stop_reason": ("end_turn" if last else "tool_use") if done else None,
                "usage": {"input_tokens": 9, "output_tokens": output if done else 1, "cache_read_input_tokens": 900},
            }
            lines.append(self._claude("assistant", common, body, agent, requestId=f"req_{message}"))
        self.random.shuffle(calls)
        for call in calls:
            result = {"type": "tool_result", "tool_use_id": call, "content": self.text(self.pad), "is_error": False}
            lines.append(self._claude("user", common, {"role": "user", "content": [result]}, agent))
        return lines

    def _claude(self, kind: str, common: Line, message: Line, agent: str | None, **more: str) -> bytes:
        head: Line = {"parentUuid": None, "isSidechain": agent is not None, "type": kind, "message": message}
        return encode({**head, **more, "uuid": self.uuid(), "timestamp": self.stamp(), **common})

    # Our own format: several sessions in one file, lines with and without ids, some equal to the byte.

    def own_turn(self, session: str) -> list[bytes]:
        """A turn with a tool; its note has no id and is the same in every turn."""
        number = next(self._numbers)
        common: Line = {"v": 1, "session": session, "turn": number}
        at = self.at = self.at + 1
        lines: list[Line] = [
            {**common, "type": "turn.begin", "id": f"{number}-t", "ts": at, "text": self.text(30)},
            {**common, "type": "step.begin", "step": 1, "id": f"{number}-s", "ts": at + 0.1, "model": "kimi-k2.5"},
            {
                **common,
                "type": "tool.begin",
                "id": f"{number}-b",
                "call": f"c{number}",
                "name": "Shell",
                "ts": at + 0.2,
            },
            {"v": 1, "session": session, "type": "note", "text": "the same every time"},
            {**common, "type": "tool.end", "id": f"{number}-e", "call": f"c{number}", "ts": at + 0.4},
            {**common, "type": "usage", "id": f"{number}-u", "output_tokens": 7, "ts": at + 0.5},
        ]
        if self.random.random() < 0.8:
            lines.append({**common, "type": "turn.end", "id": f"{number}-x", "ts": at + 0.6})
        return [encode(line) for line in lines]

    # Codex: lines without ids.

    def codex(self, lines: int) -> Iterator[bytes]:
        """A rollout."""
        session = self.uuid()
        meta = {"id": session, "timestamp": self.stamp(), "cwd": "/p", "cli_version": "0.80.0"}
        yield encode({"timestamp": self.stamp(), "type": "session_meta", "payload": meta})
        for number in range(lines):
            payload = {"type": "agent_message", "message": self.text(self.pad) if number % 3 else "again"}
            yield encode({"timestamp": "2026-01-02T03:04:05.000Z", "type": "event_msg", "payload": payload})


def encode(line: Line) -> bytes:
    """A line with its newline."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


JUNK = [b"\n", b"no json at all\n", b'{"torn": \n', b'{"bad": "\xff"}\n', b"\0\0\0\n"]


def write_logs(root: Path, *, seed: int = 1, turns: int = 30, sessions: int = 4, pad: int = 400) -> None:
    """Sessions of three agents under ``root``: forks, subagents, junk lines; older files first."""
    writer = Writer(seed, pad)
    files: list[Path] = []
    for number in range(sessions):
        files += _write_claude(writer, root, turns, subagent=number % 2 == 0, fork=number % 3 == 0)
    own = [line for number in range(turns * 2) for line in writer.own_turn(f"own-{number % 3}")]
    files.append(_save(root / "own.jsonl", _with_junk(writer, own)))
    files.append(_save(root / "codex" / f"rollout-{writer.uuid()}.jsonl", writer.codex(turns * 4)))
    files.append(_save(root / "strange.jsonl", [b"this is no log of anybody\n"] * 20))
    for age, path in enumerate(reversed(files)):
        os.utime(path, (writer.at - age, writer.at - age))


def _write_claude(writer: Writer, root: Path, turns: int, *, subagent: bool, fork: bool) -> list[Path]:
    session, folder = writer.uuid(), root / "projects" / "-home-dev-work"
    lines = [line for _ in range(turns) for line in writer.claude_turn(session)]
    files = []
    if subagent:
        # Done before its parent, so its file is the older one.
        agent = f"{writer.random.getrandbits(64):016x}"
        place = folder / session / "subagents" / f"agent-{agent}.jsonl"
        own = [line for _ in range(turns // 4) for line in writer.claude_turn(session, agent=agent)]
        files.append(_save(place, own))
        call = next(line for line in lines if b"toolu_" in line).partition(b"toolu_")[2][:8].decode()
        meta = {"agentType": "coder", "toolUseId": f"toolu_{call}"}
        place.with_suffix(".meta.json").write_text(json.dumps(meta))
    files.append(_save(folder / f"{session}.jsonl", _with_junk(writer, lines)))
    if fork:
        other = writer.uuid()
        copied = [line.replace(session.encode(), other.encode()) for line in lines]
        # Begins with a line of its own, later than the history that follows: that is how a fork is known for one.
        files.append(_save(folder / f"{other}.jsonl", [writer.claude_note(other), *copied, *writer.claude_turn(other)]))
    return files


def write_copies(root: Path, *, seed: int = 1, turns: int = 6, sessions: int = 6, pad: int = 400) -> None:
    """Claude Code sessions whose copies nothing tells from their originals; file times say nothing of their order.

    Each is resumed into a second file, some of those into a third; in some the original goes on as well. A replay made
    for a compaction repeats the main log, with the final usage of responses of which that has placeholders. Every
    other session has a proxy's message ids, the same ones in all sessions.
    """
    writer = Writer(seed, pad)
    files: list[Path] = []
    for number in range(sessions):
        files += _write_resumed(writer, root / "projects" / "-home-dev-work", turns, number)
    writer.random.shuffle(files)
    for age, path in enumerate(files):
        os.utime(path, (writer.at - age, writer.at - age))


def _write_resumed(writer: Writer, folder: Path, turns: int, number: int) -> list[Path]:
    names = [writer.uuid() for _ in range(3 if number % 2 else 2)]
    lines = [json.loads(line) for _ in range(turns) for line in writer.claude_turn(names[0])]
    if number % 2:
        _give_clock_ids(lines)
    replay = [_final({**line, "isSidechain": True, "agentId": "acompact-1"}) for line in lines]
    saved = [_save_chain(folder / names[0] / "subagents" / "agent-acompact-1.jsonl", replay, writer, names[0], 1)]
    for name in names:
        # The original goes on after it was copied, in some.
        more = 1 if name != names[0] or number % 3 == 0 else 0
        saved.append(_save_chain(folder / f"{name}.jsonl", lines, writer, name, more))
    return saved


def _save_chain(path: Path, lines: list[Line], writer: Writer, session: str, turns: int) -> Path:
    """The lines under a session's id, each hung on the one before, and so many turns of its own."""
    own = [json.loads(line) for _ in range(turns) for line in writer.claude_turn(session)]
    lines += own
    parents = [None, *(line["uuid"] for line in lines)]
    chained = ({**line, "parentUuid": parent} for line, parent in zip(lines, parents, strict=False))
    return _save(path, (encode({**line, "sessionId": session}) for line in chained))


def _give_clock_ids(lines: list[Line]) -> None:
    """Message ids that another session has as well; a proxy sends no request ids."""
    ids: dict[str, str] = {}
    for line in lines:
        if line["type"] == "assistant":
            message = line["message"]
            message["id"] = ids.setdefault(message["id"], f"msg_{20251030084941 + len(ids)}")
            del line["requestId"]


def _final(line: Line) -> Line:
    """The line with all of its response's tokens."""
    message = line["message"]
    if message.get("stop_reason"):
        message = {**message, "usage": {**message["usage"], "output_tokens": 3000}}
    return {**line, "message": message}


def _with_junk(writer: Writer, lines: list[bytes]) -> list[bytes]:
    for junk in JUNK:
        lines.insert(writer.random.randint(1, len(lines)), junk)
    return lines


def _save(path: Path, lines: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


# -- recording ----------------------------------------------------------------------------------------------------


def settings_of(home: Path, **record: float) -> Settings:
    """Settings for a data directory; small batches, so that there are many commits."""
    flags = {f"record.{name}": value for name, value in ({"batch_lines": 30, "workers": 1} | record).items()}
    found = load_settings({"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)}, flags)
    ensure_home(found)
    return found


@contextmanager
def recorder(home: Path, logs: Path, **record: float) -> Iterator[Recorder]:
    """A recorder in this process."""
    made = Recorder(settings_of(home, **record), paths=[str(logs)])
    try:
        yield made
    finally:
        made.close()


def record_once(home: Path, logs: Path, **record: float) -> Summary:
    """Import what is there, undisturbed."""
    with recorder(home, logs, **record) as made:
        return made.run_once()


def environ_of(home: Path, **more: str) -> dict[str, str]:
    """The environment of a process that records into ``home``."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home.parent),
        "AGENTTRACE_HOME": str(home),
        "AGENTTRACE_RECORD_BATCH_LINES": "100",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **more,
    }


def start(home: Path, *arguments: str, command: tuple[str, ...] = CLI, **environ: str) -> subprocess.Popen[bytes]:
    """``agenttrace`` as a process of its own."""
    import forked  # this file is a program as well, which does not find it

    home.mkdir(mode=0o700, exist_ok=True)
    environment = environ_of(home, **environ)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return forked.popen([*command, *arguments], env=environment, late=True, **pipes)


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    """``agenttrace`` from beginning to end: its exit code, what it printed, what it complained about."""
    process = start(home, *arguments)
    printed, complaints = process.communicate(timeout=120)
    return process.returncode, printed.decode(), complaints.decode()


# -- comparing ----------------------------------------------------------------------------------------------------


def rows(home: Path) -> Rows:
    """Everything a store holds that does not depend on when and in how many batches it was stored."""
    connection = connect(home / "agenttrace.db", read_only=True)
    try:
        found = {table: _table(connection, table) for table in TABLES}
        found["raw lines"] = sorted(
            (line.file_id, line.generation, line.offset, line.raw) for line in raw_lines(connection, after=0)
        )
        found["events in their lines"] = _events_in_lines(connection)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
    return found


def _table(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    kept = [name for name in names if name not in INCIDENTAL.get(table, ())]
    query = ", ".join(f'"{name}"' for name in kept)
    found = connection.execute(f"SELECT {query} FROM {table}").fetchall()
    if table == "streams":
        found = [(session, stream, _readable(state)) for session, stream, state in found]
    return sorted(found, key=repr)


def _readable(state: bytes) -> str:
    return repr(_state.decode(state))


def _events_in_lines(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    ids = dict(connection.execute("SELECT event_no, event_id FROM processed_events"))
    return sorted((ids[line.event_no], line.file_id, line.offset) for line in raw_lines(connection, after=0))


def differences(found: Rows, expected: Rows) -> dict[str, tuple[list[Any], list[Any]]]:
    """Per table what is too much and what is missing; empty when the stores are equal."""
    result = {}
    for table in expected:
        if found[table] != expected[table]:
            extra, missing = Counter(found[table]), Counter(expected[table])
            result[table] = (list(extra - missing)[:3], list(missing - extra)[:3])
    return result


# -- dying on the way ---------------------------------------------------------------------------------------------


def _record_and_die(dies_at: int, path: str) -> None:
    """Record; SIGKILL this process before it executes its ``dies_at``-th statement."""
    for module in (reader, databases):
        setattr(module, "CHUNK_BYTES", 20_000)  # noqa: B010
    made = Recorder(settings_of(Path(os.environ["AGENTTRACE_HOME"])), paths=[path])
    executed = count(1)

    def trace(_: str) -> None:
        if next(executed) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    made.connection.set_trace_callback(trace)
    made.run_once()
    made.close()


def _die_again_and_again(step: int, path: str) -> None:
    """Fork recorders until one gets through; print how many died."""
    deaths, dies_at = 0, 1
    while True:
        child = os.fork()
        if child == 0:
            _record_and_die(dies_at, path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"failed with {status}") if status else sys.stdout.write(str(deaths))
            return
        deaths += 1
        dies_at += step


if __name__ == "__main__":
    _die_again_and_again(int(sys.argv[1]), sys.argv[2])
