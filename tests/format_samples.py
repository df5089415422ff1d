"""Logs of the agents as records that a test may change, leave out or put in another order, and write where they belong.

A record is a line, a message of a document or a row of a database, as JSON; of Aider's Markdown it is a line.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parent / "record" / "agents"))  # logs of agents that we have no real ones of

import test_goose
import test_grok
import test_roo_code

DATA = Path(__file__).resolve().parent / "data"
#: Records beyond this cost time and show nothing that shorter ones do not.
_LONGEST = 20_000

Write = Callable[[Path, list[bytes]], None]


class Log(NamedTuple):
    """A log: its path in a home directory, its records, how they are written, and the small files beside it."""

    path: str
    records: list[bytes]
    write: Write
    beside: tuple[tuple[str, Path | bytes], ...] = ()

    def __repr__(self) -> str:
        return f"Log({self.path}, {len(self.records)} records)"

    def put(self, home: Path, records: list[bytes] | None = None) -> Path:
        """Write it, or a state of it that has these records."""
        path = home / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, source in self.beside:
            place = home / name
            if isinstance(source, Path):
                shutil.copyfile(source, place)
            else:
                place.write_bytes(source)
        self.write(path, self.records if records is None else records)
        return path


def write_lines(path: Path, records: list[bytes]) -> None:
    """Each record on a line."""
    path.write_bytes(b"".join(record + b"\n" for record in records))


def _lines(sample: str, pattern: str, *, under: str = "", beside: str = "") -> list[Log]:
    """The files of lines of a sample, in the layout of a home directory."""
    root = DATA / sample
    found = []
    for path in sorted(root.glob(pattern)):
        name = f"{under}{path.relative_to(root)}"
        records = [raw for raw in path.read_bytes().splitlines() if len(raw) < _LONGEST]
        small = (path.with_suffix(".meta.json"), *(path.parent.glob(beside) if beside else ()))
        near = tuple((str(Path(name).parent / other.name), other) for other in small if other.is_file())
        found.append(Log(name, records, write_lines, near))
    return found


# -- documents -----------------------------------------------------------------------------------------------------


def _document(head: dict[str, Any], field: str) -> Write:
    """Writes a document whose field has the records; they may be anything."""

    def write(path: Path, records: list[bytes]) -> None:
        whole = json.dumps({**head, field: "\0"}).encode()
        path.write_bytes(whole.replace(json.dumps("\0").encode(), b"[" + b",\n".join(records) + b"]"))

    return write


def _documents(sample: str, pattern: str, field: str) -> list[Log]:
    root = DATA / sample
    found = []
    for path in sorted(root.glob(pattern)):
        name = str(path.relative_to(root))
        head = json.loads(path.read_bytes())
        records = [json.dumps(each).encode() for each in head.pop(field)]
        facts = (path.with_name(path.name.replace(".messages", "")), path.with_name("sessions.json"))
        beside = tuple((str(Path(name).parent / each.name), each) for each in facts if each.is_file() and each != path)
        found.append(Log(name, records, _document(head, field), beside))
    return found


def _roo() -> list[Log]:
    place = f".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/{test_roo_code.TASK}"
    messages = [
        test_roo_code.said(0, "text", "Fix add()"),
        test_roo_code.call(10, **test_roo_code.USED),
        test_roo_code.said(20, "reasoning", "Hm."),
        test_roo_code.asked(30, "tool", json.dumps({"tool": "readFile", "path": "app.py"})),
        test_roo_code.call(40, **{**test_roo_code.USED, "tokensIn": 1200, "tokensOut": 70}),
        test_roo_code.asked(50, "command", "pytest -q"),
        test_roo_code.said(60, "command_output", "1 failed"),
        test_roo_code.said(70, "completion_result", "Done."),
        test_roo_code.said(80, "user_feedback", "Once more"),
        test_roo_code.call(90, **{**test_roo_code.USED, "cancelReason": "streaming_failed"}),
        test_roo_code.asked(95, "api_req_failed", "503"),
    ]

    def write(path: Path, records: list[bytes]) -> None:
        path.write_bytes(b"[" + b",\n".join(records) + b"]")

    item = json.dumps({"id": test_roo_code.TASK, "task": "Fix add()", "workspace": "/home/dev/roo-work"}).encode()
    records = [json.dumps(each).encode() for each in messages]
    return [Log(f"{place}/ui_messages.json", records, write, ((f"{place}/history_item.json", item),))]


def _aider() -> list[Log]:
    path = DATA / "aider-0.86.2" / "project" / ".aider.chat.history.md"
    return [Log("shop/.aider.chat.history.md", path.read_bytes().splitlines(), write_lines)]


# -- databases -----------------------------------------------------------------------------------------------------

_COLUMNS = ("id", "aggregate_id", "seq", "type", "data")


def _write_events(path: Path, records: list[bytes]) -> None:
    """Rows that are not there yet, in a table that takes anything; a record that is none is the data of a row."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS event (id, aggregate_id, seq, type, data)")
        connection.execute("CREATE TABLE IF NOT EXISTS session (id, parent_id)")
        (known,) = connection.execute("SELECT count(*) FROM event").fetchone()
        if not known:
            connection.executemany("INSERT INTO session VALUES (?, ?)", _parents())
        for record in records[known:]:
            row = _object(record)
            values = [row.get(name) for name in _COLUMNS] if row else ["?", "?", None, "?", record]
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", [_column(value) for value in values])


def _object(record: bytes) -> dict[str, Any]:
    try:
        value = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _column(value: object) -> object:
    """What a column takes; a lone surrogate becomes bytes, as a program without checks would write it."""
    if isinstance(value, dict | list):
        value = json.dumps(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)


def _opencode(query: str) -> list[tuple[Any, ...]]:
    sample = DATA / "opencode-1.18.33" / ".local/share/opencode/opencode.db"
    with closing(sqlite3.connect(f"file:{sample}?immutable=1", uri=True)) as connection:
        return connection.execute(query).fetchall()


def _parents() -> list[tuple[Any, ...]]:
    return _opencode("SELECT id, parent_id FROM session")


def _event_logs(name: str) -> list[Log]:
    """Some sessions of the sample: with tools, resumed and forked, with a subagent."""
    found = []
    for titles in ("%multi1%", "%shell%", "%helper%' OR title LIKE '%subagent%", "%slowtool%"):
        rows = _opencode(
            f"SELECT {', '.join(_COLUMNS)} FROM event WHERE aggregate_id IN "
            f"(SELECT id FROM session WHERE title LIKE '{titles}') ORDER BY rowid"
        )
        assert rows
        values = [dict(zip(_COLUMNS, (*row[:4], json.loads(row[4])), strict=True)) for row in rows]
        records = [json.dumps(value).encode() for value in values]
        found.append(Log(f".local/share/{name}/{name}.db", records, _write_events))
    return found


def _goose() -> list[Log]:
    """A session that was compacted: messages and rows of the ledger."""

    def message(number: int, role: str, part: dict[str, Any], at: int, *, shown: bool = True) -> dict[str, Any]:
        row = {"message_id": f"m{number}", "session_id": "s", "role": role, "content_json": json.dumps([part])}
        more = {"created_timestamp": test_goose.START + at, "metadata_json": json.dumps({"userVisible": shown})}
        return {"table": "messages", **row, **more}

    def used(number: int, at: int, *counts: int, compaction: int = 0) -> dict[str, Any]:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        row = {
            "id": number,
            "session_id": "s",
            "created_timestamp": test_goose.START + at,
            "model": "claude-sonnet-4-5",
        }
        return {"table": "usage_ledger", **row, **dict(zip(names, counts, strict=True)), "is_compaction": compaction}

    rows = [
        message(1, "user", test_goose.ASKED, 0),
        message(2, "assistant", test_goose.CALLED, 1),
        used(1, 2, 1000, 50, 600, 100),
        message(3, "user", test_goose.FAILED, 3),
        message(4, "assistant", test_goose.DONE, 4),
        used(2, 5, 1100, 60, 700, 0),
        used(3, 6, 3000, 500, 0, 0, compaction=1),
        message(5, "user", {"type": "text", "text": "What was said"}, 7, shown=False),
        message(6, "user", test_goose.ASKED, 20),
        message(7, "assistant", test_goose.DONE, 21),
        used(4, 22, 900, 40, 500, 20),
    ]
    return [Log(".local/share/goose/sessions/sessions.db", [json.dumps(row).encode() for row in rows], _write_goose)]


def _write_goose(path: Path, records: list[bytes]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            for name in ("messages", "usage_ledger"):
                columns = dict.fromkeys(_goose_columns(name))
                connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            connection.execute("CREATE TABLE sessions (id, working_dir, created_at)")
            connection.execute("INSERT INTO sessions VALUES ('s', '/home/dev/goose-work', '2026-11-16 09:00:00')")
        tables = ("messages", "usage_ledger")
        known = sum(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables)
        for record in records[known:]:
            row = _object(record)
            name = "usage_ledger" if row.get("table") == "usage_ledger" else "messages"
            values = [_column(row.get(column)) for column in _goose_columns(name)]
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(values))})", values)


def _goose_columns(table: str) -> tuple[str, ...]:
    if table == "messages":
        return ("message_id", "session_id", "role", "content_json", "created_timestamp", "metadata_json")
    counts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return ("id", "session_id", "created_timestamp", "model", *counts, "is_compaction")


def _grok() -> list[Log]:
    place = f".grok/sessions/%2Fhome%2Fdev%2Fgrok-work/{test_grok.SESSION}"
    again = test_grok.TURN.replace("p1", "p2")
    summary = {"info": {"id": test_grok.SESSION, "cwd": "/home/dev/grok-work"}, "generated_title": "Files"}
    beside = ((f"{place}/summary.json", json.dumps(summary).encode()),)
    return [Log(f"{place}/updates.jsonl", (test_grok.TURN + again).encode().splitlines(), write_lines, beside)]


# -- all of them ---------------------------------------------------------------------------------------------------


def _all() -> Iterator[tuple[str, list[Log]]]:
    yield "aider", _aider()
    yield "claude-code", _lines("claude-code-2.1.325", "projects/**/*.jsonl", under=".claude/")
    yield "cline", _documents("cline-3.0.65", ".cline/data/sessions/**/*.messages.json", "messages")
    yield "continue", _documents("continue-cli-1.5.47", ".continue/sessions/????????-*.json", "history")
    yield "copilot-cli", _lines("copilot-1.0.102", ".copilot/session-state/*/events.jsonl", beside="workspace.yaml")
    yield "gemini-cli", _lines("gemini-cli-0.61.0", ".gemini/tmp/*/chats/**/*.jsonl")
    yield "goose", _goose()
    yield "grok", _grok()
    yield "kilo", _event_logs("kilo")
    yield "opencode", _event_logs("opencode")
    yield "pi", _lines("pi-0.87.1", ".pi/agent/sessions/**/*.jsonl")
    yield "qwen-code", _lines("qwen-code-0.24.4", "projects/**/*.jsonl", under=".qwen/")
    yield "roo-code", _roo()


#: The logs of each agent by its name.
LOGS = dict(_all())
