"""Generates databases of OpenCode and Goose, and measures what importing and following them costs."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks import ours
from benchmarks.agent_work import RESPONSES, Json, Work
from benchmarks.table import Result, Row

#: A database with many sessions: so many, with so many rows each.
_SESSIONS, _ROWS = 20_000, 50
#: Texts of a large database are drawn from so many: drawing each anew takes longer than importing them.
_POOL = 3_000
#: Characters of a text in the database with many sessions.
_SHORT = 200
_SECONDS = 20.0


def _opencode(work: Work, session: str) -> Iterator[tuple[str, Json]]:
    info = {"id": session, "directory": "/w", "title": "t", "version": "1", "time": {"created": work.tick()}}
    yield "session.created.1", {"sessionID": session, "info": info}
    asked = ""
    for number in range(RESPONSES):
        if number % 20 == 0:
            asked = work.source.token("msg_")
            yield "message.updated.1", {"info": {"id": asked, "role": "user", "time": {"created": work.tick()}}}
            yield _part(work, asked, {"type": "text", "text": work.text()})
        name, call, last = work.source.token("msg_"), work.source.token("call_"), number % 20 == 19
        begun = work.tick()
        said: Json = {"id": name, "role": "assistant", "parentID": asked, "modelID": "m", "time": {"created": begun}}
        yield "message.updated.1", {"info": said}
        span = {"start": begun, "end": begun + 300}
        yield _part(work, name, {"type": "text", "text": "", "time": {"start": begun}})
        yield _part(work, name, {"type": "text", "text": work.text(), "time": span})
        if not last:
            state: Json = {"status": "running", "input": {"path": "a"}, "time": span}
            tool = {"type": "tool", "callID": call, "tool": "read"}
            yield _part(work, name, tool | {"state": state})
            yield _part(work, name, tool | {"state": state | {"status": "completed", "output": work.text()}})
        tokens = {"input": 10, "output": work.answer(), "reasoning": 0, "cache": {"read": 5, "write": 1}}
        finish = "stop" if last else "tool-calls"
        ended = said | {"tokens": tokens, "finish": finish}
        yield "message.updated.1", {"info": ended}
        yield "message.updated.1", {"info": ended | {"time": {"created": begun, "completed": work.tick()}}}


def _part(work: Work, message: str, part: Json) -> tuple[str, Json]:
    return "message.part.updated.1", {
        "part": {"id": work.source.token("prt_"), "messageID": message, **part},
        "time": work.tick(),
    }


def write_database(path: Path, work: Work, megabytes: float) -> None:
    """A database of OpenCode of about this size, in WAL mode, closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_database(path)) as connection:
        while path.stat().st_size < megabytes * 1e6:
            connection.execute("BEGIN")
            for _ in range(5):
                add_session(connection, work)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def open_database(path: Path) -> sqlite3.Connection:
    """The database as its agent holds it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, parent_id TEXT)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS event (id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT)"
    )
    connection.execute("CREATE UNIQUE INDEX IF NOT EXISTS event_aggregate_seq_idx ON event (aggregate_id, seq)")
    return connection


def add_session(connection: sqlite3.Connection, work: Work, most: int = -1) -> None:
    """One more session, of ``most`` rows."""
    session = work.source.token("ses_")
    connection.execute("INSERT INTO session VALUES (?, NULL)", (session,))
    events = islice(_opencode(work, session), most if most >= 0 else None)
    rows = (_row(work, session, seq, kind, data) for seq, (kind, data) in enumerate(events))
    connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)


def _row(work: Work, session: str, seq: int, kind: str, data: Json) -> tuple[str, str, int, str, str]:
    return work.source.token("evt_"), session, seq, kind, msgspec.json.encode(data).decode()


def write_goose(path: Path, work: Work, megabytes: float) -> None:
    """A database of Goose of about this size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, working_dir TEXT)")
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, message_id TEXT, role TEXT,"
            " content_json TEXT, created_timestamp INTEGER, metadata_json TEXT)"
        )
        connection.execute(
            "CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER, model TEXT,"
            " input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER,"
            " is_compaction INTEGER)"
        )
        while path.stat().st_size < megabytes * 1e6:
            connection.execute("BEGIN")
            for _ in range(5):
                _add_goose_session(connection, work)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _add_goose_session(connection: sqlite3.Connection, work: Work) -> None:
    session = work.source.token("")
    connection.execute("INSERT INTO sessions VALUES (?, '/w')", (session,))
    for number in range(RESPONSES):
        call, last = work.source.token("call_"), number % 20 == 19
        if number % 20 == 0:
            _add_message(connection, work, session, "user", [{"type": "text", "text": work.text()}])
        parts: list[Json] = [{"type": "text", "text": work.text()}]
        if not last:
            tool = {"status": "success", "value": {"name": "read", "arguments": {"path": "a"}}}
            parts.append({"type": "toolRequest", "id": call, "toolCall": tool})
        _add_message(connection, work, session, "assistant", parts)
        usage = (session, work.at // 1000, "m", 16, work.answer(), 5, 0, 0)
        connection.execute("INSERT INTO usage_ledger VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", usage)
        if not last:
            result = {"status": "success", "value": [{"type": "text", "text": work.text()}]}
            _add_message(
                connection, work, session, "user", [{"type": "toolResponse", "id": call, "toolResult": result}]
            )


def _add_message(connection: sqlite3.Connection, work: Work, session: str, role: str, parts: list[Json]) -> None:
    row = (session, work.source.uuid(), role, msgspec.json.encode(parts).decode(), work.tick() // 1000, "{}")
    connection.execute("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)


def _write_many(path: Path, work: Work) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_database(path)) as connection:
        for _ in range(_SESSIONS // 100):
            connection.execute("BEGIN")
            for _ in range(100):
                add_session(connection, work, _ROWS)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def measure(work: Path, megabytes: float) -> Result:
    """A database of this size, and one with many sessions: import, restart, one more row, quiet, and written to."""

    def write_large(path: Path, told: Work) -> None:
        write_database(path, told, megabytes)

    rows = [
        _measured(work, "large texts", write_large, Work(seed=1, pool=_POOL)),
        _measured(work, f"{_SESSIONS:,} sessions", _write_many, Work(seed=2, pool=_POOL, text=_SHORT)),
    ]
    return Result("Importing and following databases of OpenCode", rows)


def _measured(work: Path, name: str, write: Callable[[Path, Work], None], told: Work) -> Row:
    shutil.rmtree(work, ignore_errors=True)
    path, store = work / "agent" / "opencode.db", work / "ours"
    write(path, told)
    size = path.stat().st_size
    imported, first = ours.record_once(path, store)
    again, nothing = ours.record_once(path, store, fresh=False)
    assert nothing.lines == 0, nothing
    with closing(open_database(path)) as agent:
        add_session(agent, told, 1)
    one, added = ours.record_once(path, store, fresh=False)
    assert added.lines == 1, added
    ours.record_once(path, store, index=True, fresh=False)  # else indexing fills the quiet moments
    with closing(open_database(path)) as agent, ours.following(path, store) as process:
        ours.await_rest(process)
        shares = {"quiet CPU %": ours.cpu_share(process.pid, _SECONDS)}
        for pace in (1, 20):
            shares[f"{pace}/s CPU %"] = _share_while_written(process, agent, told, pace)
        figures = {
            "MB": f"{size / 1e6:.0f}",
            "rows": f"{first.lines}",
            "import CPU s": f"{imported.cpu_seconds:.1f}",
            "CPU s/GB": f"{imported.cpu_seconds / size * 1e9:.1f}",
            "peak MB": f"{imported.peak_mb:.0f}",
            "again CPU s": f"{again.cpu_seconds:.2f}",
            "one row CPU s": f"{one.cpu_seconds:.2f}",
            **{name: f"{share * 100:.2f}" for name, share in shares.items()},
            "RSS MB": f"{ours.rss_mb(process.pid):.0f}",
        }
    return Row(name, figures)


def _share_while_written(process: subprocess.Popen[bytes], agent: sqlite3.Connection, work: Work, pace: float) -> float:
    """How much of a core following takes while the agent commits so many rows a second."""
    before, began = ours.cpu_seconds(process.pid), time.monotonic()
    session = work.source.token("ses_")
    agent.execute("INSERT INTO session VALUES (?, NULL)", (session,))
    for seq, (kind, data) in enumerate(_opencode(work, session)):
        if time.monotonic() > began + _SECONDS:
            break
        agent.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", _row(work, session, seq, kind, data))
        time.sleep(1 / pace)
    return (ours.cpu_seconds(process.pid) - before) / (time.monotonic() - began)
