"""The guide says what is: every tool with its arguments, and settings that programs can read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from agenttrace.mcp.server import TOOLS
from agenttrace.mcp.tool import input_schema

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_every_tool_is_described() -> None:
    """With all its arguments, and no others."""
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", GUIDE, re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", cell) for name, cell in rows.items()} == {
        tool.name: list(input_schema(tool.arguments)["properties"]) for tool in TOOLS
    }


def test_settings_start_the_server() -> None:
    """What is to be written into a client's settings is well formed and names this program."""
    written = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)]
    written += [json.loads(text) for text in re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)]
    assert len(written) == 3
    for settings in written:
        ((_, servers),) = settings.items()
        assert servers["agenttrace"].items() >= {"command": "agenttrace", "args": ["mcp"]}.items()
