"""Generates logs of other agents, and measures what importing and following them costs.

Every agent gets the same work: a prompt, then responses with a text, a tool call and its result, of about 2 KB each.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import claude_session as claude
from benchmarks import ours
from benchmarks.table import Result, Row

_START_MS = 1_789_200_000_000
#: Responses of a session.
_RESPONSES = 200
_TEXT = 1900

Json = dict[str, Any]


class Work:
    """Sessions with known texts and tokens; every agent writes them in its way."""

    def __init__(self, seed: int) -> None:
        self.source = claude.Source(seed)
        self.responses = self.output_tokens = 0
        self.at = _START_MS

    def tick(self) -> int:
        """The next moment, in milliseconds."""
        self.at += 700
        return self.at

    def stamp(self) -> str:
        """The next moment as text."""
        return datetime.fromtimestamp(self.tick() / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def text(self) -> str:
        """About 2 KB."""
        return self.source.text.prose(_TEXT)

    def answer(self) -> int:
        """The output tokens of one more response."""
        tokens = self.source.between(100, 500)
        self.responses += 1
        self.output_tokens += tokens
        return tokens


def _pi(work: Work) -> Iterator[Json]:
    yield {"type": "session", "version": 3, "id": work.source.uuid(), "timestamp": work.stamp(), "cwd": "/w"}
    for number in range(_RESPONSES):
        if number % 20 == 0:
            yield _pi_entry(work, {"role": "user", "content": [{"type": "text", "text": work.text()}]})
        call, last = work.source.token("toolu_01"), number % 20 == 19
        parts: list[Json] = [{"type": "text", "text": work.text()}]
        if not last:
            parts.append({"type": "toolCall", "id": call, "name": "read", "arguments": {"path": "a"}})
        usage = {"input": 10, "output": work.answer(), "cacheRead": 5, "cacheWrite": 1}
        said = {"role": "assistant", "content": parts, "model": "m", "usage": usage}
        yield _pi_entry(work, said | {"stopReason": "stop" if last else "toolUse", "responseId": work.source.uuid()})
        if not last:
            content = [{"type": "text", "text": work.text()}]
            yield _pi_entry(work, {"role": "toolResult", "toolCallId": call, "content": content, "isError": False})


def _pi_entry(work: Work, message: Json) -> Json:
    return {"type": "message", "id": work.source.token("")[:8], "timestamp": work.stamp(), "message": message}


def _copilot(work: Work) -> Iterator[Json]:
    session = work.source.uuid()

    def event(kind: str, **data: object) -> Json:
        return {"type": kind, "data": data, "id": work.source.uuid(), "timestamp": work.stamp()}

    yield event("session.start", sessionId=session, copilotVersion="1", context={"cwd": "/w"})
    for number in range(_RESPONSES):
        if number % 20 == 0:
            yield event("user.message", content=work.text(), messageId=work.source.uuid())
        call, last = work.source.token("call_"), number % 20 == 19
        step = {"turnId": f"{number % 20}", "interactionId": f"{session}{number // 20}"}
        yield event("assistant.turn_start", **step)
        usage = {"model": "m", "inputTokens": 16, "outputTokens": work.answer(), "cacheReadTokens": 5}
        yield event("session.usage_record", usage=usage | {"apiCallId": work.source.uuid()})
        calls = [] if last else [{"toolCallId": call, "name": "view", "arguments": {"path": "a"}}]
        yield event("assistant.message", content=work.text(), model="m", toolRequests=calls, **step)
        if not last:
            yield event("tool.execution_start", toolCallId=call, toolName="view", arguments={"path": "a"})
            result = {"content": work.text()}
            yield event("tool.execution_complete", toolCallId=call, success=True, result=result)
        yield event("assistant.turn_end", **step)


def _gemini(work: Work) -> Iterator[Json]:
    yield {"sessionId": work.source.uuid(), "startTime": work.stamp(), "kind": "main", "projectHash": "x"}
    for number in range(_RESPONSES):
        if number % 20 == 0:
            yield _gemini_message(work, "user", content=[{"text": work.text()}])
        tokens = {"input": 16, "output": work.answer(), "cached": 5, "thoughts": 0, "tool": 0}
        said = _gemini_message(work, "gemini", content=work.text(), tokens=tokens, model="m")
        yield said
        if number % 20 != 19:
            response = {"functionResponse": {"response": {"output": work.text()}}}
            call = {"id": work.source.uuid(), "name": "read_file", "args": {"path": "a"}, "status": "success"}
            yield said | {"toolCalls": [call | {"result": [response], "timestamp": work.stamp()}]}
        yield {"$set": {"lastUpdated": work.stamp()}}


def _gemini_message(work: Work, kind: str, **more: object) -> Json:
    return {"id": work.source.uuid(), "timestamp": work.stamp(), "type": kind, **more}


def _cline(work: Work) -> Iterator[Json]:
    for number in range(_RESPONSES):
        if number % 20 == 0:
            yield _cline_message(work, "user", [{"type": "text", "text": work.text()}])
        call, last = work.source.token("call_"), number % 20 == 19
        parts: list[Json] = [{"type": "text", "text": work.text()}]
        if not last:
            parts.append({"type": "tool_use", "id": call, "name": "read", "input": {"path": "a"}})
        metrics = {"inputTokens": 16, "outputTokens": work.answer(), "cacheReadTokens": 5, "cacheWriteTokens": 0}
        yield _cline_message(work, "assistant", parts) | {"metrics": metrics, "modelInfo": {"id": "m"}}
        if not last:
            result = {"type": "tool_result", "tool_use_id": call, "content": [{"result": work.text(), "success": True}]}
            yield _cline_message(work, "user", [result])


def _cline_message(work: Work, role: str, content: list[Json]) -> Json:
    return {"id": work.source.uuid(), "role": role, "content": content, "ts": work.tick()}


def _opencode(work: Work, session: str) -> Iterator[tuple[str, Json]]:
    info = {"id": session, "directory": "/w", "title": "t", "version": "1", "time": {"created": work.tick()}}
    yield "session.created.1", {"sessionID": session, "info": info}
    asked = ""
    for number in range(_RESPONSES):
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
    return connection


def add_session(connection: sqlite3.Connection, work: Work) -> None:
    """One more session."""
    session = work.source.token("ses_")
    connection.execute("INSERT INTO session VALUES (?, NULL)", (session,))
    for seq, (kind, data) in enumerate(_opencode(work, session)):
        row = (work.source.token("evt_"), session, seq, kind, json.dumps(data))
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)


def _write_lines(place: Callable[[str], str], lines: Callable[[Work], Iterator[Json]]) -> Callable[..., None]:
    def write(home: Path, work: Work, megabytes: float) -> None:
        written = 0
        while written < megabytes * 1e6:
            path = home / place(work.source.uuid())
            path.parent.mkdir(parents=True)
            written += path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines(work)))

    return write


def _write_documents(home: Path, work: Work, megabytes: float) -> None:
    written = 0
    while written < megabytes * 1e6:
        name = work.source.token("1794")
        path = home / ".cline" / "data" / "sessions" / name / f"{name}.messages.json"
        path.parent.mkdir(parents=True)
        document = {"version": 1, "sessionId": name, "origin": {"mode": "user"}, "messages": list(_cline(work))}
        written += path.write_bytes(json.dumps(document, indent=2).encode())


_WRITERS: dict[str, Callable[[Path, Work, float], None]] = {
    "OpenCode (database)": lambda home, work, megabytes: write_database(
        home / ".local/share/opencode/opencode.db", work, megabytes
    ),
    "GitHub Copilot CLI": _write_lines(lambda name: f".copilot/session-state/{name}/events.jsonl", _copilot),
    "Gemini CLI": _write_lines(lambda name: f".gemini/tmp/p/chats/{name}/session-{name[:8]}.jsonl", _gemini),
    "Pi": _write_lines(lambda name: f".pi/agent/sessions/{name}/1_{name}.jsonl", _pi),
    "Cline CLI (documents)": _write_documents,
}


def measure(work: Path, megabytes: float) -> Result:
    """CPU per gigabyte of each agent's logs, all of them the same work."""
    rows = []
    for name, write in _WRITERS.items():
        home, told = work / "home", Work(seed=1)
        shutil.rmtree(home, ignore_errors=True)
        write(home, told, megabytes)
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        cost, summary = ours.record_once(None, work / "ours", HOME=str(home), XDG_DATA_HOME=str(home / ".local/share"))
        with closing(ours.store(work / "ours")) as store:
            found = store.execute("SELECT count(*), sum(output_tokens) FROM responses").fetchone()
        figures = {
            "MB": f"{size / 1e6:.0f}",
            "lines": f"{summary.lines}",
            "CPU s": f"{cost.cpu_seconds:.2f}",
            "CPU s/GB": f"{cost.cpu_seconds / size * 1e9:.1f}",
            "peak MB": f"{cost.peak_mb:.0f}",
            "tokens exact": "yes" if found == (told.responses, told.output_tokens) else "NO",
        }
        rows.append(Row(name, figures))
    return Result("Import of other agents' logs, the same work in each", rows)


def measure_database(work: Path, megabytes: float, seconds: float = 15) -> Result:
    """Follow a database of OpenCode: when nothing happens, and while its agent writes twenty events a second."""
    shutil.rmtree(work, ignore_errors=True)
    path, told, store = work / "agent" / "opencode.db", Work(seed=1), work / "ours"
    write_database(path, told, megabytes)
    cost, _ = ours.record_once(path, store)
    ours.record_once(path, store, index=True, fresh=False)  # else indexing fills the quiet moments
    with closing(open_database(path)) as agent, ours.following(path, store) as process:
        time.sleep(12)  # until a file that has just changed counts as quiet
        quiet = ours.cpu_share(process.pid, seconds)
        before = ours.cpu_seconds(process.pid)
        began = time.monotonic()
        add_slowly(agent, told, seconds)
        busy = (ours.cpu_seconds(process.pid) - before) / (time.monotonic() - began)
        figures = {
            "quiet CPU %": f"{quiet * 100:.2f}",
            "busy CPU %": f"{busy * 100:.1f}",
            "RSS MB": f"{ours.rss_mb(process.pid):.0f}",
            "import CPU s/GB": f"{cost.cpu_seconds / path.stat().st_size * 1e9:.1f}",
        }
    return Result(f"Following an OpenCode database of {path.stat().st_size / 1e6:.0f} MB", [Row("agenttrace", figures)])


def add_slowly(connection: sqlite3.Connection, work: Work, seconds: float) -> None:
    """Twenty events a second, each in its own transaction."""
    session, ends = work.source.token("ses_"), time.monotonic() + seconds
    connection.execute("INSERT INTO session VALUES (?, NULL)", (session,))
    for seq, (kind, data) in enumerate(_opencode(work, session)):
        if time.monotonic() > ends:
            return
        row = (work.source.token("evt_"), session, seq, kind, json.dumps(data))
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
        time.sleep(0.05)
