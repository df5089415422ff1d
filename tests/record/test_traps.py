"""The traps that real logs had, together in one home: read in any order they give the same totals and counts."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.ids import session_number
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.database import connect
from faults.rig import check_sum
from faults.store_rig import Rows, differences, rows

Line = dict[str, Any]

CLAUDE = "391d60d7-dca3-490d-9054-c5aeb6c3f125"
PROXIED = ("5bc45ad6-a603-48ba-a47a-d3713edbd2f0", "bb1bce27-aee4-45f3-aff7-ef5e31cd4b65")
CODEX, RESUMED, FAILED = (f"01a1de7{number}-9240-7233-b378-7a1872f63de7" for number in range(3))
QWEN = "69f0814a-8bfc-4c8e-93d3-05757f17b96f"
#: Of each file of lines that are none at most so many are kept.
_KEPT = 20


def moment(second: int) -> str:
    return f"2026-04-17T04:{second // 60:02}:{second % 60:02}.000Z"


# -- Claude Code ---------------------------------------------------------------------------------------------------


def claude(kind: str, uuid: str, second: int, session: str, **more: object) -> Line:
    head = {"parentUuid": None, "isSidechain": False, "type": kind, "uuid": uuid, "timestamp": moment(second)}
    return {**head, "cwd": "/w", "version": "2.1.325", "sessionId": session, **more}


def asked(uuid: str, second: int, session: str) -> Line:
    return claude("user", uuid, second, session, message={"role": "user", "content": f"go on with {uuid}"})


def answered(uuid: str, second: int, session: str, name: str, output: int, stop: str | None = "end_turn") -> Line:
    message = {"id": name, "role": "assistant", "model": "claude-x", "content": [{"type": "text", "text": uuid}]}
    usage = {"input_tokens": 3, "output_tokens": output}
    return claude("assistant", uuid, second, session, message={**message, "stop_reason": stop, "usage": usage})


def claude_files() -> dict[str, list[Line]]:
    """A first line of 90 KB, final usage in a replay made for a compaction, calls that only a total has, proxies."""
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"tracked": "x" * 90_000}}
    main = [asked("u1", 1, CLAUDE), answered("a1", 2, CLAUDE, "msg_A", 8, None), answered("b1", 4, CLAUDE, "msg_B", 50)]
    replay = [*main[:1], answered("a1", 2, CLAUDE, "msg_A", 3035, None), *main[2:]]
    replay.append(answered("c1", 9, CLAUDE, "msg_C", 70))
    told = {"inputTokens": 3 * 3 + 5, "outputTokens": 3035 + 50 + 70 + 11, "cacheReadInputTokens": 0}
    cost = {"type": "cost-state", "sessionId": CLAUDE, "startTime": 1_776_398_400_000, "modelUsage": {"claude-x": told}}
    files = {
        f".claude/projects/-w/{CLAUDE}.jsonl": [snapshot, *main, cost],
        f".claude/projects/-w/{CLAUDE}/subagents/agent-acompact-1.jsonl": [
            {**line, "isSidechain": True, "agentId": "acompact-1"} for line in replay
        ],
    }
    for number, session in enumerate(PROXIED):
        # A proxy makes ids from a clock, the same ones in both sessions.
        lines = [
            asked(f"pu{number}", 1, session),
            answered(f"pa{number}", 2, session, "msg_20260417043302", 5 + number),
        ]
        lines[1]["parentUuid"] = lines[0]["uuid"]
        files[f".claude/projects/-w/{session}.jsonl"] = lines
    return files


# -- Codex ---------------------------------------------------------------------------------------------------------


def codex(kind: str, second: int, **payload: object) -> Line:
    return {"timestamp": moment(second), "type": kind, "payload": payload}


def counted(total: int, last: int, second: int) -> Line:
    def tokens(number: int) -> dict[str, int]:
        return {"input_tokens": number, "output_tokens": number // 10, "total_tokens": number + number // 10}

    info = {"total_token_usage": tokens(total), "last_token_usage": tokens(last)}
    return codex("event_msg", second, type="token_count", info=info)


def codex_files() -> dict[str, list[Line]]:
    """Counts before their items, and a resumed copy of them; the command before its exit code; a turn that failed."""

    def meta(thread: str, version: str) -> Line:
        return codex("session_meta", 0, id=thread, cwd="/w", cli_version=version, source="cli")

    def said(text: str, second: int) -> Line:
        content = [{"type": "output_text", "text": text}]
        return codex("response_item", second, type="message", role="assistant", content=content)

    def ran(call: str, second: int, output: str) -> list[Line]:
        begun = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": call}
        ended = {"type": "function_call_output", "call_id": call, "output": output}
        return [codex("response_item", second, **begun), codex("response_item", second + 1, **ended)]

    old = [codex("event_msg", 1, type="user_message", message="do it"), counted(100, 100, 2)]
    old += [*ran("c1", 3, "done"), counted(300, 200, 5), said("done", 6)]
    more = [codex("event_msg", 90, type="user_message", message="more?"), counted(700, 400, 91), said("more", 92)]
    later = [line | {"timestamp": moment(80)} for line in old]
    header = "Chunk ID: 1a2b3c\nWall time: 0.0521 seconds\nProcess exited with code 3\nOriginal token count: 3"
    failed = [codex("event_msg", 1, type="task_started", turn_id="t1")]
    failed += ran("c2", 2, f"Command: /bin/bash -lc false\n{header}\nOutput:\n")
    failed.append(codex("event_msg", 5, type="task_complete", turn_id="t1", error={"message": "429 too many"}))
    lines = {
        CODEX: [meta(CODEX, "0.46.0"), *old],
        RESUMED: [meta(RESUMED, "0.46.0"), *later, *more],
        FAILED: [meta(FAILED, "0.117.0"), *failed],
    }
    return {f".codex/sessions/2026/04/17/rollout-2026-04-17T04-00-00-{name}.jsonl": lines[name] for name in lines}


# -- the others ----------------------------------------------------------------------------------------------------


def qwen_file() -> dict[str, list[Line]]:
    """A call that is in telemetry alone."""

    def line(kind: str, uuid: str, second: int, **more: object) -> Line:
        head = {"uuid": uuid, "parentUuid": None, "sessionId": QWEN, "timestamp": moment(second), "type": kind}
        return {**head, "cwd": "/w", "version": "0.24.4", **more}

    counts = {"input_token_count": 10, "output_token_count": 3, "cached_content_token_count": 4}
    event = {"event.name": "qwen-code.api_response", "prompt_id": "s########0", "model": "qwen3", **counts}
    said = {"role": "user", "parts": [{"text": "hello"}]}
    lines = [line("user", "q1", 1, message=said)]
    lines.append(line("system", "q2", 2, subtype="ui_telemetry", systemPayload={"uiEvent": event}))
    return {f".qwen/projects/-w/chats/{QWEN}.jsonl": lines}


def absurd_file() -> dict[str, list[Line]]:
    """Numbers that no store can have; the usage beside them counts."""
    steps = [2**63, -(2**63) - 1, 10**300, 1e300]
    lines = [{"v": 1, "session": "absurd", "type": "step.begin", "step": step, "ts": step} for step in steps]
    usage = {"output_tokens": 7, "input_tokens": 2**63}
    return {"logs/absurd.jsonl": [*lines, {"v": 1, "session": "absurd", "type": "usage", "usage": usage}]}


FILES = claude_files() | codex_files() | qwen_file() | absurd_file()
BOMB = zstandard.compress(b'{"v":1,"session":"bomb","type":"note"}\n' + b"x\n" * 500_000)
#: Output tokens by session.
OUTPUTS = {
    CLAUDE: 3035 + 50 + 70 + 11,
    PROXIED[0]: 5,
    PROXIED[1]: 6,
    CODEX: 10 + 20,
    RESUMED: 40,
    QWEN: 3,
    "absurd": 7,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with all these logs."""
    for age, (name, lines) in enumerate(FILES.items()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1.7e9 + age, 1.7e9 + age))
    (tmp_path / "logs" / "bomb.jsonl.zst").write_bytes(BOMB)
    return tmp_path


def recorded(home: Path, store: str, order: Iterable[int], batch: int) -> Rows:
    """The store after the files were read in this order, each whole or in small batches."""
    own = RecordSettings(
        paths=(str(home / "logs"),), max_unpacked_bytes=2_000, quarantine_lines_per_file=_KEPT, batch_lines=batch
    )
    settings = Settings(home=home / store, record=own)
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(home)})) as recorder:
        recorder.scan()
        waiting = sorted(recorder.dirty.items(), key=lambda item: item[1].path)
        recorder.dirty = dict(waiting[place] for place in order if place < len(waiting))
        assert len(recorder.dirty) == len(waiting) == len(FILES) + 1
        recorder.drain(fair=False)
        summary = recorder.finish(0.0)
    check_sum(summary)
    found = rows(settings.home)
    of_bomb = summary.lines - sum(map(len, FILES.values()))
    assert 100 < of_bomb < 1_100, summary  # what may be unpacked of it
    assert summary.quarantined == of_bomb - 1
    assert len(found["quarantine"]) == _KEPT
    return found


def outputs(home: Path, store: str) -> dict[str, int]:
    query = (
        "SELECT sessions.session_id, sum(output_tokens) FROM usage_rollup JOIN sessions "
        "ON sessions.id = usage_rollup.session_id GROUP BY 1"
    )
    with closing(connect(home / store / "agenttrace.db", read_only=True)) as connection:
        return dict(connection.execute(query))


def test_all_traps_in_any_order(home: Path) -> None:
    """Every order gives the totals that the agents would name, and the same rows of usage."""
    places = range(len(FILES) + 1)
    first = recorded(home, "first", places, 10_000)
    assert outputs(home, "first") == OUTPUTS
    orders = [list(reversed(places)), *itertools.islice(_shuffles(list(places)), 4)]
    for number, order in enumerate(orders):
        found = recorded(home, f"store-{number}", order, (2, 7, 10_000)[number % 3])
        assert outputs(home, f"store-{number}") == OUTPUTS
        changed = differences(found, first).keys()
        assert not changed & {"responses", "usage_rollup", "quarantine", "spans"}, changed


def _shuffles(places: list[int]) -> Iterable[list[int]]:
    """Some orders that have little in common."""
    for step in (3, 5, 7, 2):
        yield [place for start in range(step) for place in places[start::step]]


def test_what_was_said_of_failures(home: Path) -> None:
    """Behind a command its exit code counts, and a failed turn has its reason."""
    recorded(home, "first", range(len(FILES) + 1), 10_000)
    with closing(connect(home / "first" / "agenttrace.db", read_only=True)) as connection:
        query = "SELECT kind, status, attributes FROM spans WHERE session_id = ?"
        found = connection.execute(query, (session_number("codex", FAILED),))
        told = {kind: (status, json.loads(more or "{}")) for kind, status, more in found}
    assert (told["tool"][0], told["tool"][1]["error"]) == ("error", "exit code 3")
    assert (told["turn"][0], told["turn"][1]["error"]) == ("error", "429 too many")
