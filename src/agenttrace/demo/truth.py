"""What the demo wrote, so that what was recorded can be compared with it."""

from __future__ import annotations

import msgspec

from agenttrace.model import Usage


class Totals(msgspec.Struct, kw_only=True):
    """The usage of one agent, every model response counted once."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    requests: int = 0

    def add(self, spent: Usage) -> None:
        """Count one more response."""
        self.input += spent.input_tokens
        self.output += spent.output_tokens
        self.cache_read += spent.cache_read_tokens
        self.cache_write += spent.cache_write_tokens
        self.reasoning += spent.reasoning_tokens
        self.requests += 1


class Truth(msgspec.Struct, kw_only=True):
    """The expected totals of every agent, exact at any moment while the demo writes."""

    agents: dict[str, Totals] = msgspec.field(default_factory=dict)
    #: Sessions begun, by agent.
    sessions: dict[str, int] = msgspec.field(default_factory=dict)

    def spent(self, agent: str, usage: Usage) -> None:
        """A response of this agent has been written."""
        self.agents.setdefault(agent, Totals()).add(usage)

    def began(self, agent: str) -> None:
        """A session of this agent has been begun."""
        self.sessions[agent] = self.sessions.get(agent, 0) + 1
