"""The log formats AgentTrace reads, one module each; order matters only where two could claim a file."""

from __future__ import annotations

from agenttrace.record.agents.claude_code import ClaudeCode
from agenttrace.record.agents.codex import Codex
from agenttrace.record.agents.contract import Agent
from agenttrace.record.agents.kimi_cli import KimiCli
from agenttrace.record.agents.kimi_code import KimiCode
from agenttrace.record.agents.native import Native
from agenttrace.record.agents.qwen_code import QwenCode

AGENTS: tuple[Agent, ...] = (Native(), KimiCode(), KimiCli(), Codex(), QwenCode(), ClaudeCode())
