"""Copies of lines in files that are read in any order: every response counts once, with its final usage."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from otlp_rig import RESPONSES

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from faults.store_rig import write_copies

SESSION = "391d60d7-dca3-490d-9054-c5aeb6c3f125"
RESUMED = "5bc45ad6-a603-48ba-a47a-d3713edbd2f0"
REPLAY = f"{SESSION}/subagents/agent-acompact-1.jsonl"
TABLES = {"responses": RESPONSES, "usage_rollup": "SELECT * FROM usage_rollup"}


def line(kind: str, uuid: str, second: int, message: dict[str, Any], **more: object) -> dict[str, Any]:
    head = {"parentUuid": None, "isSidechain": False, "type": kind, "message": message, "uuid": uuid}
    return {**head, "timestamp": f"2026-04-17T04:33:{second:02}.000Z", "sessionId": SESSION, **more}


def prompt(uuid: str, second: int) -> dict[str, Any]:
    return line("user", uuid, second, {"role": "user", "content": "go on"})


def answer(uuid: str, second: int, name: str, output: int, stop: str | None = None) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": output}
    text = [{"type": "text", "text": uuid}]
    message = {"id": name, "role": "assistant", "model": "claude-x", "content": text, "stop_reason": stop}
    return line("assistant", uuid, second, {**message, "usage": usage})


MAIN = [prompt("u1", 1), answer("a1", 2, "msg_A", 8), answer("a2", 3, "msg_A", 8), answer("b1", 4, "msg_B", 50)]
#: The final usage of the first response stands here alone, in a line that the main log has as well.
REPLAYED = [*MAIN[:2], answer("a2", 3, "msg_A", 3035), MAIN[3], answer("c1", 9, "msg_C", 70, "end_turn")]
#: It says nothing of when the response came, which is not the beginning of time.
del REPLAYED[2]["timestamp"]
FILES = {
    f"{SESSION}.jsonl": MAIN,
    REPLAY: [{**told, "isSidechain": True, "agentId": "acompact-1"} for told in REPLAYED],
    f"{RESUMED}.jsonl": [*MAIN, prompt("u2", 20), answer("d1", 21, "msg_D", 90, "end_turn")],
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, lines in FILES.items():
        session = name[: len(SESSION)]
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({**told, "sessionId": session}) + "\n" for told in lines))
    return tmp_path / "logs"


def recorded(home: Path, *paths: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The ledger after these paths were read, each in a separate run."""
    settings = load_settings({"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)})
    ensure_home(settings)
    for path in paths:
        recorder = Recorder(settings, paths=[str(path)], environ={})
        recorder.run_once()
        found = {name: sorted(recorder.connection.execute(query)) for name, query in TABLES.items()}
        recorder.close()
    return found


def outputs(home: Path, *paths: Path) -> dict[str, int]:
    """Output tokens by session."""
    recorded(home, *paths)
    recorder = Recorder(load_settings({"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)}), paths=[str(home)])
    query = (
        "SELECT s.session_id, sum(output_tokens) FROM usage_rollup r JOIN sessions s ON s.id = r.session_id GROUP BY 1"
    )
    found = dict(recorder.connection.execute(query))
    recorder.close()
    return found


def test_the_final_usage_of_a_line_that_is_known(tmp_path: Path, logs: Path) -> None:
    """The replay made for a compaction has it; the session that was resumed counts what it added."""
    assert outputs(tmp_path / "home", logs) == {SESSION: 3035 + 50 + 70, RESUMED: 90}


def test_every_response_once_with_its_final_usage(tmp_path: Path) -> None:
    """Resumed and replayed sessions, half of them with a proxy's ids: a response is known by its first line."""
    write_copies(tmp_path / "logs", turns=3, sessions=4)
    final: dict[str, int] = {}
    for path in tmp_path.rglob("*.jsonl"):
        name = first = ""
        for told in map(json.loads, path.read_text().splitlines()):
            if told["type"] == "assistant":
                message = told["message"]
                first = first if message["id"] == name else told["uuid"]
                name = message["id"]
                final[first] = max(final.get(first, 0), message["usage"]["output_tokens"])
    responses = recorded(tmp_path / "home", tmp_path / "logs")["responses"]
    assert sorted(row[10] for row in responses) == sorted(final.values())


def test_files_in_any_order(tmp_path: Path, logs: Path) -> None:
    """The ledger is the same to the last column, the number of folded mentions included."""
    expected = recorded(tmp_path / "home", logs)
    for number, order in enumerate(itertools.permutations(FILES)):
        assert recorded(tmp_path / f"home{number}", *(logs / name for name in order)) == expected


def test_a_second_reading_changes_nothing(tmp_path: Path, logs: Path) -> None:
    """A file that was written anew is read from its start: all its lines are known, and their usage is not added."""
    expected = recorded(tmp_path / "home", logs)
    for name in FILES:
        path = logs / name
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(b"\n" + data)
        os.utime(path, (1, 1))
        assert recorded(tmp_path / "home", logs) == expected
