"""The contents of generated logs, counted while they are written."""

from __future__ import annotations

from typing import Any

import msgspec


class Truth(msgspec.Struct, kw_only=True):
    """The counts that a correct reader must find; tests count them again from the files."""

    bytes: int = 0
    files: int = 0
    #: The number of sessions: files that do not belong to a subagent.
    sessions: int = 0
    subagents: int = 0
    forks: int = 0
    lines: int = 0
    #: Prompts and tool calls without the copies in forks.
    prompts: int = 0
    tool_calls: int = 0
    #: Model responses, each counted once, without repetitions in lines, files and forks.
    responses: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def count_response(self, usage: dict[str, Any]) -> None:
        """Add one response's final usage."""
        self.responses += 1
        self.input_tokens += usage["input_tokens"]
        self.output_tokens += usage["output_tokens"]
        self.cache_read_tokens += usage["cache_read_input_tokens"]
        self.cache_write_tokens += usage["cache_creation_input_tokens"]

    def tokens(self) -> tuple[int, int, int, int]:
        """Input, output, cache read and cache write tokens, for comparison."""
        return self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens
