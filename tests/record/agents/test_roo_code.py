"""Roo Code: fixtures that follow its public source; no real logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

TASK = "0d9c9f3e-7b1d-4c37-9a53-1d6a3f1b2c4d"
START = 1_794_800_000_000


def call(at: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - as the program writes them
    return {"ts": START + at, "type": "say", "say": "api_req_started", "text": json.dumps(fields)}


def said(at: int, kind: str, text: str = "", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"ts": START + at, "type": "say", "say": kind, "text": text, **fields}


def asked(at: int, kind: str, text: str = "") -> dict[str, Any]:
    return {"ts": START + at, "type": "ask", "ask": kind, "text": text}


USED = {
    "apiProtocol": "anthropic",
    "tokensIn": 1000,
    "tokensOut": 50,
    "cacheReads": 600,
    "cacheWrites": 100,
    "cost": 0.01,
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """The directory of a task in the user's VS Code."""
    storage = tmp_path / ".config" / "Code" / "User" / "globalStorage" / "rooveterinaryinc.roo-cline"
    task = storage / "tasks" / TASK
    task.mkdir(parents=True)
    item = {"id": TASK, "number": 1, "ts": START, "task": "Fix add()", "workspace": "/home/dev/roo-work", "tokensIn": 9}
    (task / "history_item.json").write_text(json.dumps(item))
    details = "<environment_details>\n<slug>code</slug>\n<model>claude-sonnet-4-5</model>\n</environment_details>"
    history = [{"role": "user", "content": [{"type": "text", "text": details}], "ts": START}]
    (task / "api_conversation_history.json").write_text(json.dumps(history))
    return task


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, environ={"HOME": str(tmp_path)})
    yield recorder
    recorder.close()


def write(task: Path, *messages: dict[str, Any]) -> None:
    (task / "ui_messages.json").write_text(json.dumps(messages))


def tokens(recorder: Recorder) -> tuple[int, ...]:
    query = """
        SELECT count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens)
        FROM responses
    """
    found: tuple[int, ...] = recorder.connection.execute(query).fetchone()
    return found


def test_a_task_is_a_session(task: Path, recorder: Recorder) -> None:
    """Turns, model calls, tools, tokens, title, directory and model; messages that change count once."""
    begun = [said(0, "text", "Fix add()"), call(10, apiProtocol="anthropic")]
    write(task, *begun, said(20, "text", "I will", partial=True))
    recorder.run_once()
    answered = [
        begun[0],
        call(10, **USED),
        said(20, "text", "I will read it."),
        asked(30, "tool", json.dumps({"tool": "readFile", "path": "app.py"})),
    ]
    write(task, *answered)
    recorder.run_once()
    write(
        task,
        *answered,
        call(40, **USED | {"tokensIn": 2000}),
        said(50, "completion_result", "Done."),
        asked(51, "completion_result"),
        said(60, "user_feedback", "And sub()?"),
        call(70, apiProtocol="anthropic", cancelReason="user_cancelled"),
    )
    recorder.run_once()
    columns = "agent, session_id, project, title, model, turns, steps, tools, errors"
    assert recorder.connection.execute(f"SELECT {columns} FROM sessions").fetchall() == [
        ("roo-code", TASK, "/home/dev/roo-work", "Fix add()", "claude-sonnet-4-5", 2, 3, 1, 0)
    ]
    assert tokens(recorder) == (2, 300 + 1300, 1200, 200, 100)
    names = "SELECT name, json_extract(attributes, '$.tool') FROM spans WHERE kind = 'tool'"
    assert "readFile" in str(recorder.connection.execute(names).fetchall())


@pytest.mark.parametrize(
    ("fields", "input_tokens"),
    [
        (USED, 300),
        (USED | {"apiProtocol": "openai"}, 300),
        (USED | {"tokensIn": 5}, 5),
    ],
)
def test_prompts_include_cached_tokens_since_3_29_5(
    task: Path, recorder: Recorder, fields: dict[str, Any], input_tokens: int
) -> None:
    """A count that is less than the cached tokens cannot include them, whatever the version."""
    write(task, said(0, "text", "Hello"), call(10, **fields))
    recorder.run_once()
    assert tokens(recorder) == (1, input_tokens, 600, 100, 50)


def test_prompts_of_older_versions(task: Path, recorder: Recorder) -> None:
    """Before, Anthropic's protocol left the cached tokens out."""
    old = call(10, **USED) | {"ts": 1_750_000_000_000}
    write(task, said(0, "text", "Hello") | {"ts": 1_749_999_000_000}, old)
    recorder.run_once()
    assert tokens(recorder) == (1, 1000, 600, 100, 50)


def test_failures(task: Path, recorder: Recorder) -> None:
    """A request that failed ends the turn with its reason; a stream that broke is the call's error."""
    broken = {"cancelReason": "streaming_failed", "streamingFailedMessage": "socket hang up"}
    write(task, said(0, "text", "Hello"), call(10, **broken), asked(20, "api_req_failed", "401 unauthorized"))
    recorder.run_once()
    found = dict(recorder.connection.execute("SELECT kind, json_extract(attributes, '$.error') FROM spans").fetchall())
    assert found == {"turn": "401 unauthorized", "step": "socket hang up"}


def test_a_document_that_is_being_written_is_read_later(task: Path, recorder: Recorder) -> None:
    """Half of it says nothing, and nothing is lost."""
    whole = json.dumps([said(0, "text", "Hello"), call(10, **USED)])
    (task / "ui_messages.json").write_text(whole[: len(whole) // 2])
    assert recorder.run_once().quarantined == 0
    (task / "ui_messages.json").write_text(whole)
    recorder.run_once()
    assert tokens(recorder) == (1, 300, 600, 100, 50)
