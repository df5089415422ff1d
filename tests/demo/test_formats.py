"""The lines of the demo have the shapes that the agents write."""

from __future__ import annotations

import json
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.demo import FORMATS, play
from agenttrace.demo.stories import STORIES

from .counting import LOGS, lines

Json = dict[str, Any]

#: Fields that the reference documents and the samples do not have.
DOCUMENTED = {"payload.git", "payload.effort"}
SHARED = Path(__file__).resolve().parents[3] / "shared" / "samples"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stories by all agents."""
    place = tmp_path_factory.mktemp("demo")
    play(place, speed=math.inf, seed=7, stop=threading.Event(), sessions=len(STORIES))
    return place


def test_every_line_is_a_json_object(home: Path) -> None:
    """Logs hold whole lines of JSON objects in raw UTF-8, Chinese among them."""
    chinese = 0
    for path in home.rglob("*.jsonl"):
        data = path.read_bytes()
        assert data.endswith(b"\n")
        for raw in data.splitlines():
            assert isinstance(json.loads(raw), dict)
            chinese += "测试".encode() in raw
    assert chinese > 20


def test_every_agent_has_logs(home: Path) -> None:
    """A session of every story, where the agent stores them."""
    found = {agent: len(list(home.glob(logs))) for agent, logs in LOGS.items()}
    assert found == dict.fromkeys(FORMATS, len(STORIES))


def test_kimi_cli_cuts_arguments_and_repeats_subagents(home: Path) -> None:
    """Parallel calls are cut, joined parts parse, and a subagent's events are in two files."""
    cut = joined = 0
    for path in home.glob(".kimi/sessions/*/*/wire.jsonl"):
        arguments: list[str] = []
        for line in map(json.loads, path.read_text("utf-8").splitlines()[1:]):
            kind, payload = line["message"]["type"], line["message"]["payload"]
            if kind == "ToolCall":
                arguments.append(payload["function"]["arguments"])
            elif kind == "ToolCallPart":
                cut += 1
                arguments[-1] += payload["arguments_part"]
        joined += len([json.loads(text) for text in arguments])
    assert cut >= 3
    assert joined >= 15
    wrapped = [line["message"]["payload"]["event"] for line in _subagent_events(home)]
    own = [line["message"] for line in lines(home, ".kimi/sessions/*/*/subagents/*/wire.jsonl") if "message" in line]
    assert sorted(map(str, wrapped)) == sorted(map(str, own))


def _subagent_events(home: Path) -> Iterator[Json]:
    for line in lines(home, ".kimi/sessions/*/*/wire.jsonl"):
        if line.get("message", {}).get("type") == "SubagentEvent":
            yield line


def test_kimi_code_writes_usage_three_times(home: Path) -> None:
    """In every wire file the records, the step ends and the repeated messages have the same sum."""
    for path in home.glob(".kimi-code/sessions/*/*/agents/*/wire.jsonl"):
        sums = [0, 0, 0]
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            if line["type"] == "usage.record":
                sums[0] += line["usage"]["output"]
            elif line["type"] == "context.append_loop_event" and line["event"]["type"] == "step.end":
                sums[1] += line["event"].get("usage", {"output": 0})["output"]
            elif line["type"] == "agent.message.appended":
                sums[2] += line["message"]["meta"].get("usage", {"output": 0})["output"]
        assert sums[0] == sums[1] == sums[2] > 0


def test_claude_code_lines_form_a_tree(home: Path) -> None:
    """Every parent exists, the parent of a result is its call, and a subagent names the call that started it."""
    for path in home.glob(".claude/projects/**/*.jsonl"):
        known: set[str] = set()
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            if "uuid" in line:
                assert line["parentUuid"] is None or line["parentUuid"] in known
                known.add(line["uuid"])
    calls = {
        block["id"]
        for line in lines(home, ".claude/projects/*/*.jsonl")
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block.get("name") == "Agent"
    }
    metas = list(home.glob(".claude/projects/*/*/subagents/*.meta.json"))
    assert {json.loads(path.read_bytes())["toolUseId"] for path in metas} == calls
    assert len(calls) >= 2


def test_codex_ordinals_have_no_gap(home: Path) -> None:
    """Lines are numbered from 0, and the running total is the sum of the records."""
    for path in home.glob(".codex/sessions/*/*/*/*.jsonl"):
        found = [json.loads(raw) for raw in path.read_text("utf-8").splitlines()]
        assert [line["ordinal"] for line in found] == list(range(len(found)))
        records = [line["payload"] for line in found if line["type"] == "token_usage_record"]
        total = sum(record["usage"]["total_tokens"] for record in records)
        assert records[-1]["thread_token_usage"]["total_tokens"] == total
        assert found[0]["payload"]["id"] in path.name


def test_qwen_code_counts_usage_twice(home: Path) -> None:
    """The telemetry repeats what the answers say, so that adding both would count double."""
    answers = telemetry = 0
    for line in lines(home, ".qwen/projects/*/chats/*.jsonl"):
        answers += line.get("usageMetadata", {}).get("totalTokenCount", 0)
        telemetry += line.get("systemPayload", {}).get("uiEvent", {}).get("total_token_count", 0)
    assert answers == telemetry > 0


def test_native_lines_name_their_place(home: Path) -> None:
    """Every line has the version, its session, a type and a time; an id is used once for a type."""
    found = list(lines(home, ".agenttrace/logs/*.jsonl"))
    assert all(line["v"] == 1 and line["session"] and line["type"] and line["ts"] > 0 for line in found)
    assert len({(line["type"], line["id"]) for line in found}) == len(found)
    spawned = {line["spawns"] for line in found if "spawns" in line}
    assert spawned == {line["stream"] for line in found if "stream" in line} != set()


def _claude_kind(line: Json) -> str:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    block = content[0]["type"] if isinstance(content, list) and content else ""
    return f"{line['type']}/{line.get('subtype', '')}/{block}"


def _kimi_cli_kind(line: Json) -> str:
    return str(line["message"]["type"]) if "message" in line else "metadata"


def _kimi_code_kind(line: Json) -> str:
    return f"{line['type']}/{line.get('event', {}).get('type', '')}"


def _codex_kind(line: Json) -> str:
    return f"{line['type']}/{line['payload'].get('type', '')}"


def _shapes(found: Iterator[Json], kind: Callable[[Json], str]) -> dict[str, set[str]]:
    """The field names of every kind of line, two levels deep."""
    shapes: dict[str, set[str]] = defaultdict(set)
    for line in found:
        for name, value in line.items():
            shapes[kind(line)].add(name)
            if isinstance(value, dict) and name in ("message", "payload", "event"):
                shapes[kind(line)].update(f"{name}.{inner}" for inner in value)
    return shapes


@pytest.mark.skipif(not SHARED.exists(), reason="the samples are not here")
@pytest.mark.parametrize(
    ("written", "sample", "kind"),
    [
        (".claude/projects/*/*.jsonl", "claude/[gr]*/**/*.jsonl", _claude_kind),
        (".kimi/sessions/*/*/wire.jsonl", "kimi/generated-kimi-cli*/**/wire.jsonl", _kimi_cli_kind),
        (".kimi-code/sessions/**/wire.jsonl", "kimi/generated-kimi-code*/**/wire.jsonl", _kimi_code_kind),
        (".codex/sessions/**/*.jsonl", "codex/generated*/**/*.jsonl", _codex_kind),
    ],
)
def test_no_field_is_invented(written: str, sample: str, kind: Callable[[Json], str], home: Path) -> None:
    """For every kind of line that the samples have, the demo uses only fields that real lines have."""
    real = _shapes(_readable(sample), kind)
    invented = {
        name: fields - real[name] - DOCUMENTED
        for name, fields in _shapes(lines(home, written), kind).items()
        if name in real and fields - real[name] - DOCUMENTED
    }
    assert invented == {}


def _readable(pattern: str) -> Iterator[Json]:
    """Lines of the samples, some of which are broken on purpose."""
    for path in SHARED.glob(pattern):
        for raw in path.read_bytes().splitlines():
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and ("type" in line or "message" in line):
                yield line
