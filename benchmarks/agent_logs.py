"""Generates logs of other agents, and measures what importing them costs.

Every agent gets the same work: a prompt, then responses with a text, a tool call and its result, of about 2 KB each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.agent_databases import write_database, write_goose
from benchmarks.agent_work import RESPONSES, Json, Work
from benchmarks.table import Result, Row


def _pi(work: Work) -> Iterator[Json]:
    yield {"type": "session", "version": 3, "id": work.source.uuid(), "timestamp": work.stamp(), "cwd": "/w"}
    for number in range(RESPONSES):
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
    for number in range(RESPONSES):
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
    for number in range(RESPONSES):
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


def _claude(work: Work) -> Iterator[Json]:
    """With the records of requests that 2.1.325 writes: system prompt and tools once, each message sent, each call."""
    session, base, keep = work.source.uuid(), None, 0
    shape = {"system": [{"type": "text", "text": work.text()}], "tools": [{"name": "Read", "description": work.text()}]}
    common: Json = {"sessionId": session, "version": "2.1.325"}
    yield {"type": "api-request-shape", **common, "shapeHash": "shape", "timestamp": work.stamp(), "shape": shape}
    asked: Json = {}
    for number in range(RESPONSES):
        if number % 20 == 0:
            asked = {"role": "user", "content": [{"type": "text", "text": work.text()}]}
        yield _claude_line(work, common, "user", asked)
        tail, call, request = work.source.token(""), work.source.token("toolu_01"), work.source.uuid()
        yield {"type": "api-request-blob", "sessionId": session, "hash": tail, "message": asked}
        sent = {"id": request, "timestamp": work.stamp(), "shapeHash": "shape", "params": {"model": "m"}}
        yield {"type": "api-request", **common, **sent, "base": base, "keep": keep, "tail": [tail]}
        base, keep, last = request, keep + 2, number % 20 == 19
        usage = {"input_tokens": 10, "output_tokens": work.answer(), "cache_read_input_tokens": 5}
        said: Json = {"id": work.source.token("msg_01"), "role": "assistant", "model": "m", "usage": usage}
        said["stop_reason"] = "end_turn" if last else "tool_use"
        parts: list[Json] = [{"type": "text", "text": work.text()}]
        if not last:
            parts.append({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "a"}})
        for part in parts:
            yield _claude_line(work, common, "assistant", said | {"content": [part]}) | {"requestRef": request}
        result = {"type": "tool_result", "tool_use_id": call, "content": work.text()}
        asked = {"role": "user", "content": [result]}


def _claude_line(work: Work, common: Json, kind: str, message: Json) -> Json:
    line = {"type": kind, "uuid": work.source.uuid(), "timestamp": work.stamp(), "message": message, **common}
    return line | {"isSidechain": False, "cwd": "/w", "gitBranch": "main"}


def _qwen(work: Work) -> Iterator[Json]:
    """With its telemetry, which repeats what the model said and used."""
    session = work.source.uuid()

    def line(kind: str, **more: object) -> Json:
        facts = {"uuid": work.source.uuid(), "sessionId": session, "timestamp": work.stamp(), "type": kind}
        return facts | {"cwd": "/w", "version": "0.24.4"} | more

    def telemetry(name: str, **more: object) -> Json:
        event = {"event.name": f"qwen-code.{name}", "event.timestamp": work.stamp(), "duration_ms": 9, **more}
        return line("system", subtype="ui_telemetry", systemPayload={"uiEvent": event})

    for number in range(RESPONSES):
        if number % 20 == 0:
            prompt = {"role": "user", "parts": [{"text": work.text()}]}
            yield line("user", provenance="real_user", message=prompt)
        text, output, call = work.text(), work.answer(), work.source.token("call_")
        counts = {"input_token_count": 16, "output_token_count": output, "cached_content_token_count": 5}
        told = counts | {"response_id": work.source.uuid(), "model": "m", "response_text": text}
        yield telemetry("api_response", **told, prompt_id=f"{session}########{number // 20}")
        parts: list[Json] = [{"text": text}]
        if number % 20 != 19:
            parts.append({"functionCall": {"id": call, "name": "read_file", "args": {"file_path": "a"}}})
        usage = {"promptTokenCount": 16, "candidatesTokenCount": output, "cachedContentTokenCount": 5}
        usage["totalTokenCount"] = 16 + output
        yield line("assistant", model="m", message={"role": "model", "parts": parts}, usageMetadata=usage)
        if number % 20 != 19:
            yield telemetry("tool_call", call_id=call, function_name="read_file", success=True)
            response = {"id": call, "name": "read_file", "response": {"output": work.text()}}
            message = {"role": "user", "parts": [{"functionResponse": response}]}
            yield line("tool_result", message=message, toolCallResult={"callId": call, "status": "success"})


def _cline(work: Work) -> Iterator[Json]:
    for number in range(RESPONSES):
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


def _continue(work: Work) -> Iterator[Json]:
    for number in range(RESPONSES):
        if number % 20 == 0:
            yield {"message": {"role": "user", "content": work.text()}, "contextItems": []}
        usage = {"prompt_tokens": 16, "completion_tokens": work.answer(), "model": "m"}
        usage |= {"prompt_tokens_details": {"cached_tokens": 5}}
        item: Json = {"message": {"role": "assistant", "content": work.text(), "usage": usage}, "contextItems": []}
        if number % 20 != 19:
            call = work.source.token("call_")
            tool = {"id": call, "type": "function", "function": {"name": "Read", "arguments": '{"filepath": "a"}'}}
            state = {"toolCallId": call, "toolCall": tool, "status": "done", "parsedArgs": {"filepath": "a"}}
            item["toolCallStates"] = [state | {"output": [{"name": "Result", "content": work.text()}]}]
        yield item


def _roo(work: Work) -> Iterator[Json]:
    for number in range(RESPONSES):
        if number % 20 == 0:
            yield {"ts": work.tick(), "type": "say", "say": "user_feedback" if number else "text", "text": work.text()}
        call = {"request": "r", "tokensIn": 16, "tokensOut": work.answer(), "cacheReads": 5, "cacheWrites": 0}
        yield {"ts": work.tick(), "type": "say", "say": "api_req_started", "text": json.dumps(call)}
        yield {"ts": work.tick(), "type": "say", "say": "text", "text": work.text()}
        if number % 20 != 19:
            tool = {"tool": "readFile", "path": "a", "content": work.text()}
            yield {"ts": work.tick(), "type": "ask", "ask": "tool", "text": json.dumps(tool)}


def _grok(work: Work) -> Iterator[Json]:
    def update(kind: str, **more: object) -> Json:
        meta = {"eventId": work.source.uuid(), "agentTimestampMs": work.tick()}
        params = {"sessionId": "s", "update": {"sessionUpdate": kind, **more}, "_meta": meta}
        return {"timestamp": work.at / 1000, "method": "session/update", "params": params}

    used = 0
    for number in range(RESPONSES):
        call, last = work.source.token("call_"), number % 20 == 19
        if number % 20 == 0:
            yield update("user_message_chunk", content={"type": "text", "text": work.text()})
        used += work.answer()
        yield update("agent_message_chunk", content={"type": "text", "text": work.text()})
        if not last:
            yield update("tool_call", toolCallId=call, title="read", rawInput={"path": "a"})
            result = [{"type": "content", "content": {"type": "text", "text": work.text()}}]
            yield update("tool_call_update", toolCallId=call, status="completed", content=result)
        else:
            work.responses -= 19  # tokens are those of a turn
            usage = {"modelUsage": {"m": {"inputTokens": 16, "outputTokens": used, "cachedReadTokens": 5}}}
            yield update("turn_completed", prompt_id=work.source.uuid(), stop_reason="end_turn", usage=usage)
            used = 0


def _aider(work: Work) -> str:
    """A chat; results of tools are not in it, and tokens are rounded to hundreds."""
    began = datetime.fromtimestamp(work.tick() / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    parts = [f"\n# aider chat started at {began}\n\n> Aider v0.86.2  \n> Model: m with diff edit format  \n"]
    for _ in range(RESPONSES):
        work.responses += 1
        work.output_tokens += 100
        asked, said = (" ".join(work.text().split()) for _ in range(2))
        parts.append(f"\n#### {asked}\n\n{said}\n\n> Tokens: 2.4k sent, 100 received.\n")
    return "".join(parts)


def _write_lines(place: Callable[[str], str], lines: Callable[[Work], Iterator[Json]]) -> Callable[..., None]:
    def write(home: Path, work: Work, megabytes: float) -> None:
        written = 0
        while written < megabytes * 1e6:
            path = home / place(work.source.uuid())
            path.parent.mkdir(parents=True)
            written += path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines(work)))

    return write


def _write_files(one: Callable[[Work], tuple[str, bytes]]) -> Callable[..., None]:
    def write(home: Path, work: Work, megabytes: float) -> None:
        written = 0
        while written < megabytes * 1e6:
            name, data = one(work)
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            written += path.write_bytes(data)

    return write


def _cline_document(work: Work) -> tuple[str, bytes]:
    name = work.source.token("1794")
    document = {"version": 1, "sessionId": name, "origin": {"mode": "user"}, "messages": list(_cline(work))}
    return f".cline/data/sessions/{name}/{name}.messages.json", json.dumps(document, indent=2).encode()


def _continue_document(work: Work) -> tuple[str, bytes]:
    name = work.source.uuid()
    document = {"sessionId": name, "title": "t", "workspaceDirectory": "/w", "history": list(_continue(work))}
    return f".continue/sessions/{name}.json", json.dumps(document, indent=2).encode()


def _roo_document(work: Work) -> tuple[str, bytes]:
    folder = f".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/{work.source.uuid()}"
    return f"{folder}/ui_messages.json", json.dumps(list(_roo(work))).encode()


def _aider_history(work: Work) -> tuple[str, bytes]:
    return f"projects/{work.source.uuid()}/.aider.chat.history.md", _aider(work).encode()


_WRITERS: dict[str, Callable[[Path, Work, float], None]] = {
    "OpenCode (database)": lambda home, work, megabytes: write_database(
        home / ".local/share/opencode/opencode.db", work, megabytes
    ),
    "Goose (database)": lambda home, work, megabytes: write_goose(
        home / ".local/share/goose/sessions/sessions.db", work, megabytes
    ),
    "GitHub Copilot CLI": _write_lines(lambda name: f".copilot/session-state/{name}/events.jsonl", _copilot),
    "Gemini CLI": _write_lines(lambda name: f".gemini/tmp/p/chats/{name}/session-{name[:8]}.jsonl", _gemini),
    "Claude Code 2.1.325": _write_lines(lambda name: f".claude/projects/{name}/{name}.jsonl", _claude),
    "Qwen Code": _write_lines(lambda name: f".qwen/projects/{name}/chats/{name}.jsonl", _qwen),
    "Pi": _write_lines(lambda name: f".pi/agent/sessions/{name}/1_{name}.jsonl", _pi),
    "Grok Build": _write_lines(lambda name: f".grok/sessions/w/{name}/updates.jsonl", _grok),
    "Cline CLI (documents)": _write_files(_cline_document),
    "Continue CLI (documents)": _write_files(_continue_document),
    "Roo Code (documents)": _write_files(_roo_document),
    "Aider (Markdown)": _write_files(_aider_history),
}


def write_home(home: Path, files: int = 5_000) -> None:
    """A home directory with logs of all these agents, so many small ones of Pi, and a hundred projects."""
    work = Work(seed=1, pool=500)
    for write in _WRITERS.values():
        write(home, work, 1)
    for _ in range(files):
        name = work.source.uuid()
        log = home / f".pi/agent/sessions/{name[:2]}/1_{name}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in islice(_pi(work), 3)))
    for number in range(100):
        (home / "projects" / f"{number}").mkdir(parents=True)


def measure_home(work: Path, seconds: float = 30) -> Row:
    """Follow such a home directory while nothing is written."""
    shutil.rmtree(work, ignore_errors=True)
    home, store = work / "home", work / "ours"
    write_home(home)
    ours.record_once(None, store, index=True, **_places(home))
    with ours.following(None, store, **_places(home)) as process:
        ours.await_rest(process)
        share = ours.cpu_share(process.pid, seconds)
        figures = {"CPU %": f"{share * 100:.2f}", "RSS MB": f"{ours.rss_mb(process.pid):.0f}"}
    return Row("a home directory with logs of all agents, 5,000 files", figures)


def _places(home: Path) -> dict[str, Any]:
    places = {"HOME": home, "XDG_DATA_HOME": home / ".local/share", "XDG_CONFIG_HOME": home / ".config"}
    return {name: str(place) for name, place in places.items()}


def measure(work: Path, megabytes: float) -> Result:
    """CPU per gigabyte of each agent's logs, all of them the same work."""
    rows = []
    for name, write in _WRITERS.items():
        home, told = work / "home", Work(seed=1)
        shutil.rmtree(home, ignore_errors=True)
        write(home, told, megabytes)
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        cost, summary = ours.record_once(None, work / "ours", **_places(home))
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
