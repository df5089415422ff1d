"""The log formats AgentTrace reads, one module each; order matters only where two could claim a file."""

from __future__ import annotations

from agenttrace.model import AgentFacts
from agenttrace.record.formats.aider import Aider
from agenttrace.record.formats.claude_code import ClaudeCode
from agenttrace.record.formats.cline import Cline
from agenttrace.record.formats.codex import Codex
from agenttrace.record.formats.continue_cli import ContinueCli
from agenttrace.record.formats.contract import Agent
from agenttrace.record.formats.copilot import Copilot
from agenttrace.record.formats.gemini_cli import GeminiCli
from agenttrace.record.formats.goose import Goose
from agenttrace.record.formats.grok import Grok
from agenttrace.record.formats.kimi_cli import KimiCli
from agenttrace.record.formats.kimi_code import KimiCode
from agenttrace.record.formats.native import Native
from agenttrace.record.formats.opencode import Kilo, OpenCode
from agenttrace.record.formats.otlp import Otlp
from agenttrace.record.formats.pi import Pi
from agenttrace.record.formats.plugins import load_formats
from agenttrace.record.formats.qwen_code import QwenCode
from agenttrace.record.formats.roo_code import RooCode

#: The log of received spans is inside the home of our own format: whose directory is the inner one comes first.
BUILT_IN: tuple[type[Agent], ...] = (
    Otlp,
    Native,
    KimiCode,
    KimiCli,
    Codex,
    QwenCode,
    Pi,
    Copilot,
    GeminiCli,
    OpenCode,
    Kilo,
    Goose,
    Grok,
    Cline,
    ContinueCli,
    RooCode,
    Aider,
    ClaudeCode,
)
_FORMATS = load_formats(BUILT_IN)

AGENTS: tuple[Agent, ...] = _FORMATS.agents
#: Formats of other packages that cannot be used, and why.
BROKEN_FORMATS = _FORMATS.broken
#: What other parts of the product know of each agent, by name.
FACTS = {
    agent.name: AgentFacts(title=agent.title, provider=agent.traits.provider, integration=agent.traits.integration)
    for agent in AGENTS
}


def is_side_file(name: str) -> bool:
    """Whether a file that no format recognises is one that an agent writes beside its logs: no log, and no damage."""
    patterns = (agent.traits.side_files for agent in AGENTS)
    return any(pattern is not None and pattern.fullmatch(name) is not None for pattern in patterns)
