"""One log with everything that prices depend on: the command line, the API and MCP say the same cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import RecordSettings, ServeSettings, Settings, UsageSettings, ensure_home
from cli.conftest import Program
from mcp_server.rig import serving

from .session_rig import Store

SESSION = "aaaaaaaa-0000-4000-8000-000000000001"
#: Model, tokens, terms, and what it costs in millionths of a dollar.
CALLS: tuple[tuple[str, dict[str, Any], int], ...] = (
    # Fast mode twice, and in the US a tenth more: 8.8 and 44 dollars; three searches at a cent each.
    (
        "claude-opus-5-5",
        {
            "input_tokens": 1_000,
            "output_tokens": 2_000,
            "speed": "fast",
            "inference_geo": "us",
            "server_tool_use": {"web_search_requests": 3},
        },
        8_800 + 88_000 + 30_000,
    ),
    # 110,000 tokens were given: above the step of 100,000.
    (
        "claude-haiku-5-5",
        {"input_tokens": 60_000, "cache_read_input_tokens": 50_000, "output_tokens": 1_000, "speed": "standard"},
        30_000 + 2_500 + 2_500,
    ),
    # Exactly 100,000: not above it.
    ("claude-haiku-5-5", {"input_tokens": 100_000, "output_tokens": 10, "inference_geo": "global"}, 10_005),
)
#: Before and after the price changed.
DAYS = (("2026-08-20T12:00:00Z", 35_000), ("2026-08-21T12:00:00Z", 24_000))


def _claude_lines() -> list[dict[str, Any]]:
    common = {"sessionId": SESSION, "cwd": "/work", "version": "2.1.325", "isSidechain": False, "userType": "external"}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u0", "parentUuid": None, "message": {"role": "user", "content": "go"}}
    ]
    for number, (model, usage, _) in enumerate(CALLS):
        message = {
            "id": f"msg_{number}",
            "role": "assistant",
            "model": model,
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "so"}],
            "usage": usage,
        }
        lines.append({"type": "assistant", "uuid": f"a{number}", "parentUuid": "u0", "message": message})
    times = (f"2026-11-15T12:00:{second:02}.000Z" for second in range(60))
    return [{**common, **line, "timestamp": next(times)} for line in lines]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(tmp_path_factory.mktemp("prices"))
    found.settings = Settings(
        home=found.settings.home,
        record=RecordSettings(),
        serve=ServeSettings(port=0),
        usage=UsageSettings(timezone="UTC"),
    )
    ensure_home(found.settings)
    lines = "".join(json.dumps(line) + "\n" for line in _claude_lines())
    (found.logs / f"{SESSION}.jsonl").write_text(lines)
    for at, _ in DAYS:
        usage = {"input_tokens": 1_000, "output_tokens": 1_000}
        found.write({"session": "gpt", "type": "usage", "ts": at, "model": "gpt-5.6", "response": at, "usage": usage})
    found.record()
    return found


@pytest.fixture
def program(store: Store, tmp_path: Path) -> Program:
    found = Program(tmp_path)
    found.home = store.settings.home
    found.environment |= {"AGENTTRACE_HOME": str(found.home), "AGENTTRACE_USAGE_TIMEZONE": "UTC"}
    return found


BY_MODEL = {
    "claude-opus-5-5": CALLS[0][2] / 1e6,
    "claude-haiku-5-5": (CALLS[1][2] + CALLS[2][2]) / 1e6,
    "gpt-5.6": sum(cost for _, cost in DAYS) / 1e6,
}
BY_SESSION = {SESSION: sum(cost for *_, cost in CALLS) / 1e6, "gpt": BY_MODEL["gpt-5.6"]}


def test_the_command_line_the_api_and_mcp_say_the_same_cost(store: Store, program: Program) -> None:
    """By model, by session, in total, and call by call."""
    total = round(sum(BY_MODEL.values()), 6)
    usage = program.json("usage", "--by", "model")
    assert {row["model"]: row["cost"] for row in usage["rows"]} == BY_MODEL
    assert usage["total"]["cost"] == total
    shown = {name: program.json("show", name) for name in BY_SESSION}
    assert {name: found["session"]["cost"] for name, found in shown.items()} == BY_SESSION
    with store.served() as client:
        answer = client.get("/usage", params={"by": "model"}).json()
        assert {row["group"]: row["bill"]["cost"] for row in answer["rows"]} == BY_MODEL
        assert answer["total"]["cost"] == total
        listed = client.get("/sessions").json()["items"]
        assert {one["session_id"]: one["bill"]["cost"] for one in listed} == BY_SESSION
        for name in BY_SESSION:
            spans = client.get(f"/sessions/{name}/timeline").json()
            assert round(sum(filter(None, spans["cost"])), 6) == BY_SESSION[name]
    with serving(program) as asker:
        found = asker.fields("usage", by="model")
        assert found["total"]["cost"] == total
        assert {row["group"]: row["cost"] for row in found["groups"]} == BY_MODEL


def test_a_call_names_the_price_that_was_applied(store: Store) -> None:
    """Fast mode, place and step; nothing where the usual price holds."""
    with store.served() as client:
        told = []
        for name in BY_SESSION:
            for span in client.get(f"/sessions/{name}/timeline").json()["span_id"]:
                price = client.get(f"/sessions/{name}/spans/{span}").json()["price"]
                if price is not None:
                    told.append((price["model"], price["input"], price["above"], price["terms"], price["since"]))
                    assert price["checked"]
    assert sorted(told, key=repr) == sorted(
        [
            ("claude-opus-5-5", 8.8, None, ["fast", "us"], ""),
            ("claude-haiku-5-5", 0.5, 100_000, [], ""),
            ("claude-haiku-5-5", 0.1, None, [], ""),
            ("gpt-5.6", 5.0, None, [], ""),
            ("gpt-5.6", 4.0, None, [], "2026-08-21"),
        ],
        key=repr,
    )
