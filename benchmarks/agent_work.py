"""The work that every agent logs in its own way: sessions with known texts and tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from benchmarks import claude_session as claude

_START_MS = 1_789_200_000_000
#: Responses of a session.
RESPONSES = 200
_TEXT = 1900

Json = dict[str, Any]


class Work:
    """Counts what agents write. ``pool``: texts are drawn from so many; 0: each is a new one."""

    def __init__(self, seed: int, pool: int = 0, text: int = _TEXT) -> None:
        self.source = claude.Source(seed)
        self.responses = self.output_tokens = 0
        self.at = _START_MS
        self._length = text
        self._pool = [self.source.text.prose(text) for _ in range(pool)]

    def tick(self) -> int:
        """The next moment, in milliseconds."""
        self.at += 700
        return self.at

    def stamp(self) -> str:
        """The next moment as text."""
        return datetime.fromtimestamp(self.tick() / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def text(self) -> str:
        """About 2 KB."""
        if self._pool:
            return self._pool[self.source.between(0, len(self._pool))]
        return self.source.text.prose(self._length)

    def answer(self) -> int:
        """The output tokens of one more response."""
        tokens = self.source.between(100, 500)
        self.responses += 1
        self.output_tokens += tokens
        return tokens
