"""Logs of live agents against the books of the model they talked to: every token and every call of them."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.model import Event
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.span_rows import NOT_IN_LOG

DATA = Path(__file__).resolve().parents[1] / "data"
#: Logs of agents in the layout of their home directories, and those of which only the projects are here.
HOMES = (
    "cline-3.0.65",
    "continue-cli-1.5.47",
    "copilot-1.0.102",
    "gemini-cli-0.61.0",
    "opencode-1.18.33",
    "pi-0.87.1",
)
PROJECTS = ("claude-code-2.1.325", "qwen-code-0.24.4")
#: Those that say goodbye when a process ends.
ENDED = ("copilot-1.0.102",)
#: Nothing in their logs says that they were killed, or that the call failed.
UNFINISHED = {"1794789998554_g5xnz", "1794790009662_v9niy", "1bc6b6b0-b4c1-4cc4-bb6a-14ca096968be"}
KINDS = ("input", "cache_read", "cache_write", "output")

_USAGE = """
SELECT sessions.session_id, sum(responses.input_tokens), sum(responses.cache_read_tokens),
    sum(responses.cache_write_tokens), sum(responses.output_tokens), count(*)
FROM responses JOIN sessions ON sessions.id = responses.session_id
WHERE response {} IN (SELECT response FROM spans WHERE stream = ? AND response NOT NULL) GROUP BY 1
"""


def expected(agent: str) -> dict[str, Any]:
    """The golden figures; those of a subagent count for the session that it worked for."""
    found: dict[str, Any] = json.loads((DATA / agent / "EXPECTED.json").read_text())
    sessions = {golden["session_id"]: golden for golden in found["sessions"]}
    for golden in list(sessions.values()):
        parent = sessions.get(golden["parent_session_id"])
        if parent is not None:
            parent["usage"] = _sum([parent["usage"], golden["usage"]])
            for name in ("model_response_count", "tool_call_count", "tool_errors", "tool_calls_without_result"):
                parent[name] += golden[name]
            del sessions[golden["session_id"]]
    found["sessions"] = list(sessions.values())
    return found


@pytest.fixture(scope="module", params=(*PROJECTS, *HOMES))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def store(agent: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    home = tmp_path_factory.mktemp("home")
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    if agent in HOMES:
        # Read where they are: nothing may be written there.
        recorder = Recorder(settings, environ={"HOME": str(DATA / agent)})
    else:
        recorder = Recorder(settings, paths=[str(DATA / agent / "projects")], environ={})
    summary = recorder.run_once()
    assert summary.quarantined == summary.duplicate == summary.pending == 0
    yield recorder.connection
    recorder.close()


def tokens(store: sqlite3.Connection, *, in_log: bool) -> dict[str, tuple[Counter[str], int]]:
    """Tokens and calls by session: those that messages tell, or the others."""
    rows = store.execute(_USAGE.format("NOT" if in_log else ""), (NOT_IN_LOG,))
    return {session: (Counter(dict(zip(KINDS, counts, strict=True))), calls) for session, *counts, calls in rows}


def _sum(usages: list[dict[str, int]]) -> Counter[str]:
    return Counter({kind: sum(usage[kind] for usage in usages) for kind in KINDS})


def test_each_session_used_what_the_model_answered(agent: str, store: sqlite3.Connection) -> None:
    """The calls that messages tell are those of the books, session by session, copies in forks not counted again."""
    found = tokens(store, in_log=True)
    for golden in expected(agent)["sessions"]:
        usage, calls = found.pop(golden["session_id"], (_sum([]), 0))
        assert (usage, calls) == (_sum([golden["usage"]]), golden["model_response_count"]), golden["session_id"]
    assert not found


def test_no_answered_call_is_missing(agent: str, store: sqlite3.Connection) -> None:
    """With the calls that no message has, all that the model answered in full is there, each call once."""
    if agent in HOMES:
        assert not tokens(store, in_log=False), "nothing of these logs tells of such calls"
        return
    books = expected(agent)["answered_by_mock_but_not_in_the_log"]
    missing = [call["usage"] for call in books if call["complete"]]
    found = list(tokens(store, in_log=False).values())
    assert sum((usage for usage, _ in found), Counter()) == +_sum(missing)
    rows = store.execute("SELECT sum(input_tokens), sum(output_tokens) FROM usage_rollup").fetchone()
    total = _sum([expected(agent)["totals"]["usage_recorded"], *missing])
    assert rows == (total["input"], total["output"])


def test_turns_tools_and_errors_are_those_of_the_books(agent: str, store: sqlite3.Connection) -> None:
    """Prompts are turns, also where a fork gives all of them one id; tools end as they did."""
    prompts = "SELECT count(*) FROM spans WHERE session_id = ? AND stream = 'main' AND kind = 'turn' AND {}"
    asked = "json_extract(attributes, '$.origin') IS NULL"
    for golden in expected(agent)["sessions"]:
        number, state, errors = store.execute(
            "SELECT id, state, errors FROM sessions WHERE session_id = ?", (golden["session_id"],)
        ).fetchone()
        copied = golden["copied_response_count"]
        assert store.execute(prompts.format(asked), (number,)).fetchone()[0] == golden["turns"] + copied
        tools = dict(
            store.execute(
                "SELECT status, count(*) FROM spans WHERE session_id = ? AND kind = 'tool' GROUP BY 1", (number,)
            )
        )
        assert sum(tools.values()) == golden["tool_call_count"]
        assert tools.get("error", 0) == golden["tool_errors"]
        left = tools.get("unclosed", 0) + tools.get("open", 0)
        assert left == golden["tool_calls_without_result"]
        # That a call failed is in the log of most.
        failed = golden["model_response_count"] == 0 and (bool(golden["errors"]) or agent == "cline-3.0.65")
        assert errors == golden["tool_errors"] + failed
        over = "ended" if agent in ENDED else "waiting"
        assert state == over or golden["session_id"] in UNFINISHED


def test_steps_last_as_long_as_the_calls() -> None:
    """What telemetry says of a call's duration is its step's, and no line of telemetry makes it longer."""
    folder = DATA / "qwen-code-0.24.4" / "projects"
    told: dict[str, int] = {}
    for line in (folder / "-home-dev-qwen-work" / "chats").glob("*.jsonl"):
        for record in map(json.loads, line.read_text().splitlines()):
            event = record.get("systemPayload", {}).get("uiEvent", {})
            if event.get("event.name") == "qwen-code.api_response" and "subagent_id" not in event:
                told[record["uuid"]] = event["duration_ms"]
    assert told
    steps = _steps(folder)
    assert steps
    for uuid, duration in steps.items():
        assert told[uuid] <= duration <= told[uuid] + 30, uuid


def _steps(folder: Path) -> dict[str, float]:
    """Milliseconds of each step by the telemetry that tells of it, folded file by file."""
    from agenttrace.record.formats.qwen_code import QwenCode
    from agenttrace.record.ingest.fold import Folder, StreamState

    agent, found = QwenCode(), {}
    for path in folder.glob("*/chats/*.jsonl"):
        source = agent.recognise(path, path.read_bytes())
        assert source is not None
        folder_ = Folder(source.session_id, "main", "qwen", StreamState())
        for number, raw in enumerate(path.read_bytes().splitlines()):
            event = agent.decode(raw, source)
            assert isinstance(event, Event)
            folder_.feed(number.to_bytes(16), event.at, agent.acts(event, source, folder_.state.memory))
        spans = [span for span in folder_.changed.values() if span.kind == "step"]
        for span in spans:
            assert span.end is not None
            assert span.response_name is not None
            if source.parent_session is None:
                found[span.response_name.removeprefix("qwen:")] = (span.end - span.start) / 1000
    return found
