"""The index of the full text search: what is indexed and what waits for it, whichever engine stores it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class SearchIndex(Protocol):
    """The index of all texts; filled after recording."""

    @property
    def position(self) -> int:
        """The number of the last event that was indexed in the order of numbers."""

    @property
    def backlog(self) -> int:
        """How many events wait to be indexed."""

    def add(self, texts: Iterable[tuple[int, str]], *, after: int, last: int) -> None:
        """Index the texts of the events after one and up to another."""

    def late(self, limit: int) -> list[int]:
        """Events to be indexed apart, as far as they can be read."""

    def add_late(self, texts: Iterable[tuple[int, str]], numbers: Iterable[int]) -> None:
        """Index the texts of these late events; of those without text it is noted that there is none."""
