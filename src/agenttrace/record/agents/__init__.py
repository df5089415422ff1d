"""The log formats AgentTrace reads, one module each; order matters only where two could claim a file."""

from __future__ import annotations

import re

from agenttrace.record.agents.claude_code import ClaudeCode
from agenttrace.record.agents.codex import Codex
from agenttrace.record.agents.contract import Agent
from agenttrace.record.agents.kimi_cli import KimiCli
from agenttrace.record.agents.kimi_code import KimiCode
from agenttrace.record.agents.native import Native
from agenttrace.record.agents.otlp import Otlp
from agenttrace.record.agents.qwen_code import QwenCode

#: The log of received spans is inside the home of our own format: whose directory is the inner one comes first.
AGENTS: tuple[Agent, ...] = (Otlp(), Native(), KimiCode(), KimiCli(), Codex(), QwenCode(), ClaudeCode())

#: What agents keep beside their logs: Kimi CLI the messages it sends, others lists of prompts and of sessions.
_SIDE_FILES = re.compile(r"(context(_sub)?(_\d+)?|session_index|history|journal|audit|[0-9a-f]{32})\.jsonl")


def is_side_file(name: str) -> bool:
    """Whether a file whose content no agent recognises is kept beside logs by one of them: no log, and no damage."""
    return _SIDE_FILES.fullmatch(name) is not None
