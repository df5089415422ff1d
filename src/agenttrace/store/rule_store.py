"""What rules need of a store: its questions, and a place for the bookkeeping of rules."""

from __future__ import annotations

from typing import Protocol

from agenttrace.store.sqlite.rules import Rules
from agenttrace.store.writable import WritableStore


class RuleStore(WritableStore, Protocol):
    """A store that rules run on: that of a machine, or of a team."""

    @property
    def rules(self) -> Rules:
        """Events for rules, what they decided, and the actions of their firings."""
