"""The tokens that the chains of a rule would have used: from earlier runs of the same ones, else by the input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from agenttrace.config.rule_tables import RuleTables
from agenttrace.config.rules import ActionSettings, RuleSettings
from agenttrace.rules.facts import Facts
from agenttrace.rules.trial_events import Remark
from agenttrace.store.rules import ChainUse
from agenttrace.store.sqlite.store import SqliteStore

#: ``firings``: the mean of earlier ones; ``input``: its size alone.
Basis = Literal["firings", "input"]
#: Earlier runs that an estimate is made of, the latest.
_MOST_RUNS = 50
#: Bytes of a token, and characters of a turn in an outline.
_TOKEN_BYTES, _TURN_CHARACTERS = 4, 300


class ChainEstimate(NamedTuple):
    """What one action would have used in all."""

    action: str
    apps: tuple[str, ...]
    basis: Basis
    tokens: int
    #: The earlier runs.
    uses: tuple[ChainUse, ...]


class TokenEstimates:
    """Estimates event by event, and adds up."""

    def __init__(self, store: SqliteStore, tables: RuleTables, rule: RuleSettings) -> None:
        named = (tables.actions[name] for name in rule.do if name in tables.actions)
        self._chains = [_Chain(store, tables, rule, action) for action in named if action.type == "chain"]

    def use(self, facts: Facts) -> int:
        """The tokens for an event that fires."""
        return sum(chain.use(facts) for chain in self._chains)

    def estimates(self) -> tuple[ChainEstimate, ...]:
        """What each chain would have used, in the order of the actions."""
        return tuple(
            ChainEstimate(each.action.name, each.action.apps, each.basis, each.tokens, tuple(each.uses))
            for each in self._chains
        )

    def remarks(self) -> Iterator[Remark]:
        """How it was estimated."""
        bases = {chain.basis for chain in self._chains}
        if "firings" in bases:
            yield Remark("tokens_of_firings")
        if "input" in bases:
            yield Remark("tokens_of_input")


class _Chain:
    """One action that calls applications."""

    def __init__(self, store: SqliteStore, tables: RuleTables, rule: RuleSettings, action: ActionSettings) -> None:
        self._store, self.action = store, action
        self.tokens = 0
        same = [each.name for each in tables.actions.values() if (each.type, each.apps) == ("chain", action.apps)]
        own = store.rules.used_by([action.name], rule.name, _MOST_RUNS)
        self.uses = own or store.rules.used_by(same, None, _MOST_RUNS)
        self.basis: Basis = "firings" if self.uses else "input"
        # A message of several events has a chain for each.
        events = sum(max(len(use.sessions), 1) for use in self.uses)
        self._mean = round(sum(use.tokens for use in self.uses) / events) if events else None
        self._sizes: dict[tuple[object, ...], int] = {}

    def use(self, facts: Facts) -> int:
        tokens = self._mean if self._mean is not None else self._of_input(facts)
        self.tokens += tokens
        return tokens

    def _of_input(self, facts: Facts) -> int:
        """Each application gets the text; lines of logs are longer than what is shown of them: so much at most."""
        event, kind = facts.event, self.action.input
        place = (event.session, event.turn if kind == "turn" else -1, event.span if kind == "span" else None)
        size = self._sizes.get(place)
        if size is None:
            size = self._sizes[place] = min(self._size(facts), self.action.max_chars)
        return -(-size // _TOKEN_BYTES) * len(self.action.apps)

    def _size(self, facts: Facts) -> int:
        event, session = facts.event, facts.session
        if session is None:
            return len(msgspec.json.encode({"event": event.kind, **event.facts}))
        if self.action.input == "outline":
            return session.turns * _TURN_CHARACTERS
        # Of an event without a span the turn is given as people count them: 1 is the first.
        turn, size = event.turn if event.span is not None else event.turn - 1, 0
        for line in self._store.lines(session=session.id):
            if self.action.input == "span" and event.span is not None and line.span_id != event.span:
                continue
            if self.action.input == "turn" and line.turn_index != turn:
                continue
            size += len(line.raw)
            if size >= self.action.max_chars:
                break
        return size
