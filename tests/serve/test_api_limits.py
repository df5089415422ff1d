"""``/api/v1/limits``: budgets and windows as the commands show them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.config.rules import parse_budget
from agenttrace.store import open_store
from agenttrace.views.limits import limits_fields

from .trace_rig import Logs
from .views_rig import Client, ask, found_logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    found = found_logs(tmp_path)
    tables: dict[str, dict[str, Any]] = {
        "all": {"period": "day", "tokens": 1_000, "where": {"agent": "agenttrace"}},
        "each": {"period": "session", "limit": 5},
        "none": {"period": "week", "limit": 5, "where": {"project": "nowhere"}},
    }
    budgets = {name: parse_budget(name, table) for name, table in tables.items()}
    found.settings = msgspec.structs.replace(found.settings, budgets=budgets)
    return found


def test_limits_are_those_of_the_commands(logs: Logs) -> None:
    """Before anything is recorded there are only windows; then budgets, too."""
    limits = logs.settings.home / "limits"
    limits.mkdir(parents=True)
    window = {"used_percent": 23.5, "resets_at": time.time() + 3_600, "at": time.time()}
    (limits / "claude-code.json").write_text(json.dumps({"seven_day": window}))

    async def windows(client: Client) -> None:
        found = await client.json("/limits")
        assert found["budgets"] == []
        assert [(each["name"], each["share"]) for each in found["windows"]] == [("seven_day", 0.235)]

    ask(logs.settings, windows)
    logs.append("s", "usage", ts=time.time(), model="qwen-max", response="r", usage={"input_tokens": 900})
    logs.record(index=False)

    async def budgets(client: Client) -> None:
        found = await client.json("/limits")
        assert [(each["name"], each["share"]) for each in found["budgets"]][::2] == [("all", 0.9), ("none", 0.0)]
        assert found["budgets"][0]["crossed"] == [0.5, 0.8]
        assert found["budgets"][1]["session"] == "s"
        with open_store(logs.settings) as store:
            shown = limits_fields(store, logs.settings)
        assert [each["spent"] for each in shown["budgets"]] == [each["spent"] for each in found["budgets"]]

    ask(logs.settings, budgets)
