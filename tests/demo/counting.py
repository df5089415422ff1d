"""Count usage from demo logs by the rules of each format, independent of the code that wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]


class Totals(msgspec.Struct, kw_only=True):
    """The usage of one agent, every response counted once."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    requests: int = 0


def lines(home: Path, pattern: str) -> Iterator[Json]:
    """Every line of every log that matches."""
    for path in sorted(home.glob(pattern)):
        for raw in path.read_text("utf-8").splitlines():
            yield json.loads(raw)


def kimi_cli(home: Path) -> Totals:
    """``StatusUpdate`` by message id, in every file, wrapped or not."""
    seen: dict[str, Json] = {}
    for line in lines(home, ".kimi/sessions/**/wire.jsonl"):
        message = line.get("message", {})
        while message.get("type") == "SubagentEvent":
            message = message["payload"]["event"]
        if message.get("type") == "StatusUpdate":
            seen[message["payload"]["message_id"]] = message["payload"]["token_usage"]
    return _sum(seen, "input_other", "output", "input_cache_read", "input_cache_creation")


def kimi_code(home: Path) -> Totals:
    """``usage.record`` of every agent, and nothing else."""
    rows = [line["usage"] for line in lines(home, ".kimi-code/**/wire.jsonl") if line["type"] == "usage.record"]
    numbered = {str(number): row for number, row in enumerate(rows)}
    return _sum(numbered, "inputOther", "output", "inputCacheRead", "inputCacheCreation")


def claude_code(home: Path) -> Totals:
    """By message id, the largest output; lines of the program itself do not count."""
    seen: dict[str, Json] = {}
    for line in lines(home, ".claude/projects/**/*.jsonl"):
        if line["type"] != "assistant" or line["message"]["model"] == "<synthetic>":
            continue
        name, figures = line["message"]["id"], line["message"]["usage"]
        if name not in seen or figures["output_tokens"] >= seen[name]["output_tokens"]:
            seen[name] = figures
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return _sum(seen, *names)


def codex(home: Path) -> Totals:
    """``token_usage_record`` by response id; cached is part of the input."""
    rows = [line for line in lines(home, ".codex/sessions/**/*.jsonl") if line["type"] == "token_usage_record"]
    seen = {row["payload"]["response_id"]: row["payload"]["usage"] for row in rows}
    total = _sum(seen, "input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    total.input -= total.cache_read
    total.reasoning = sum(row["reasoning_output_tokens"] for row in seen.values())
    return total


def qwen_code(home: Path) -> Totals:
    """``usageMetadata`` by uuid, not the telemetry; cached is part of the prompt."""
    rows = [line for line in lines(home, ".qwen/projects/*/chats/*.jsonl") if "usageMetadata" in line]
    seen = {row["uuid"]: row["usageMetadata"] | {"written": 0} for row in rows}
    total = _sum(seen, "promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "written")
    total.input -= total.cache_read
    total.reasoning = sum(row["thoughtsTokenCount"] for row in seen.values())
    return total


def native(home: Path) -> Totals:
    """``usage`` lines by response."""
    rows = [line for line in lines(home, ".agenttrace/logs/*.jsonl") if line["type"] == "usage"]
    empty = {"cache_read_tokens": 0, "reasoning_tokens": 0, "written": 0}
    seen = {row["response"]: empty | row["usage"] for row in rows}
    total = _sum(seen, "input_tokens", "output_tokens", "cache_read_tokens", "written")
    total.reasoning = sum(row["reasoning_tokens"] for row in seen.values())
    return total


#: The main log of each session.
LOGS = {
    "kimi-cli": ".kimi/sessions/*/*/wire.jsonl",
    "kimi-code": ".kimi-code/sessions/*/*/agents/main/wire.jsonl",
    "claude-code": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*.jsonl",
    "qwen-code": ".qwen/projects/*/chats/*.jsonl",
    "agenttrace": ".agenttrace/logs/*.jsonl",
}
COUNTERS: dict[str, Callable[[Path], Totals]] = {
    "kimi-cli": kimi_cli,
    "kimi-code": kimi_code,
    "claude-code": claude_code,
    "codex": codex,
    "qwen-code": qwen_code,
    "agenttrace": native,
}


def _sum(rows: dict[str, Json], fresh: str, output: str, read: str, written: str) -> Totals:
    return Totals(
        input=sum(row[fresh] for row in rows.values()),
        output=sum(row[output] for row in rows.values()),
        cache_read=sum(row[read] for row in rows.values()),
        cache_write=sum(row[written] for row in rows.values()),
        requests=len(rows),
    )
