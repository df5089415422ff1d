"""Grok Build: fixtures that follow public descriptions of its files; no real logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

SESSION = "0d9c9f3e-7b1d-4c37-9a53-1d6a3f1b2c4d"
USAGE = {
    "inputTokens": 1000,
    "outputTokens": 100,
    "cachedReadTokens": 700,
    "cacheCreationTokens": 100,
    "reasoningTokens": 30,
    "modelUsage": {
        "grok-4": {"inputTokens": 800, "outputTokens": 80, "cachedReadTokens": 600, "cacheCreationTokens": 100},
        "grok-4-mini": {"inputTokens": 200, "outputTokens": 20, "cachedReadTokens": 100, "cacheCreationTokens": 0},
    },
}


def update(at: int, kind: str, prompt: str = "p1", **fields: Any) -> str:  # noqa: ANN401 - as the program writes them
    method = "_x.ai/session/update" if kind == "turn_completed" else "session/update"
    meta = {"eventId": f"{prompt}-{at}", "promptId": prompt, "agentTimestampMs": (1_794_800_000 + at) * 1000}
    params = {"sessionId": SESSION, "_meta": meta, "update": {"sessionUpdate": kind, **fields}}
    return json.dumps({"timestamp": 1_794_800_000 + at, "method": method, "params": params}) + "\n"


def text(words: str) -> dict[str, Any]:
    return {"content": {"type": "text", "text": words}}


TURN = (
    update(0, "user_message_chunk", **text("List the "))
    + update(1, "user_message_chunk", **text("files"))
    + update(2, "agent_thought_chunk", **text("Hm."))
    + update(3, "agent_message_chunk", **text("I look."))
    + update(
        4, "tool_call", toolCallId="c1", title="List", rawInput={"path": "."}, _meta={"x.ai/tool": {"name": "list_dir"}}
    )
    + update(5, "tool_call_update", toolCallId="c1", status="in_progress")
    + update(
        6,
        "tool_call_update",
        toolCallId="c1",
        status="failed",
        content=[{"type": "content", **text("No such directory")}],
    )
    + update(7, "agent_message_chunk", **text("There are "))
    + update(8, "agent_message_chunk", **text("none."))
    + update(9, "turn_completed", prompt_id="p1", stop_reason="end_turn", usage=USAGE)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a session."""
    directory = tmp_path / ".grok" / "sessions" / "%2Fhome%2Fdev%2Fgrok-work" / SESSION
    directory.mkdir(parents=True)
    summary = {"info": {"id": SESSION, "cwd": "/home/dev/grok-work"}, "generated_title": "Files"}
    (directory / "summary.json").write_text(json.dumps(summary))
    (directory / "chat_history.jsonl").write_text('{"type": "system", "content": "…"}\n')
    return directory / "updates.jsonl"


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, environ={"HOME": str(tmp_path)})
    yield recorder
    recorder.close()


def rows(recorder: Recorder, query: str) -> list[tuple[Any, ...]]:
    return recorder.connection.execute(query).fetchall()


def test_a_session(log: Path, recorder: Recorder) -> None:
    """Pieces are one prompt and one answer; what the turn used counts by model, once."""
    log.write_text(TURN)
    assert recorder.run_once().quarantined == 0
    columns = "agent, session_id, project, title, state, turns, tools, errors"
    assert rows(recorder, f"SELECT {columns} FROM sessions") == [
        ("grok", SESSION, "/home/dev/grok-work", "Files", "waiting", 1, 1, 1)
    ]
    found = rows(recorder, "SELECT input_tokens, cache_read_tokens, cache_write_tokens, output_tokens FROM responses")
    assert sorted(found) == [(100, 100, 0, 20), (100, 600, 100, 80)]
    tools = (
        "SELECT json_extract(attributes, '$.tool'), json_extract(attributes, '$.error') FROM spans WHERE kind = 'tool'"
    )
    assert rows(recorder, tools) == [("list_dir", "No such directory")]


def test_turns_and_lines_that_come_later(log: Path, recorder: Recorder) -> None:
    """A second prompt is a second turn; a turn without figures by model counts as it says."""
    log.write_text(TURN)
    recorder.run_once()
    counts = {"inputTokens": 50, "outputTokens": 5, "cachedReadTokens": 20}
    with log.open("a") as file:
        file.write(update(20, "user_message_chunk", "p2", **text("And now?")))
        file.write(update(21, "turn_completed", "p2", prompt_id="p2", stop_reason="cancelled", usage=counts))
    recorder.run_once()
    assert rows(recorder, "SELECT turns FROM sessions") == [(2,)]
    assert rows(recorder, "SELECT sum(input_tokens), sum(output_tokens) FROM responses") == [(230, 105)]


def test_a_title_that_comes_later(log: Path, recorder: Recorder) -> None:
    """The summary is there when the turn ends, not when it begins."""
    summary = log.with_name("summary.json")
    known = summary.read_text()
    summary.unlink()
    begun, ended = TURN[: len(TURN) // 2], TURN[len(TURN) // 2 :]
    log.write_text(begun)
    recorder.run_once()
    summary.write_text(known)
    log.write_text(begun + ended)
    recorder.run_once()
    assert rows(recorder, "SELECT project, title FROM sessions") == [("/home/dev/grok-work", "Files")]


def test_a_damaged_beginning(log: Path, recorder: Recorder) -> None:
    """The next lines say what the log is, and the file beside it what the session is about."""
    log.write_text('{"timestamp": 17\n' + "".join(TURN.splitlines(keepends=True)[:4]))
    assert recorder.run_once().quarantined == 1
    assert rows(recorder, "SELECT project, title FROM sessions") == [("/home/dev/grok-work", "Files")]


def test_a_fork_counts_once(log: Path, recorder: Recorder) -> None:
    """A copy of the updates under another session has the same prompts."""
    log.write_text(TURN)
    fork = log.parent.parent / "1d9c9f3e-7b1d-4c37-9a53-1d6a3f1b2c4d"
    fork.mkdir()
    shutil.copy(log, fork)
    recorder.run_once()
    assert rows(recorder, "SELECT count(*) FROM sessions") == [(2,)]
    assert rows(recorder, "SELECT sum(input_tokens), sum(output_tokens) FROM responses") == [(200, 100)]
