"""What users change about rules while they run: the switch of a rule, and firings that are run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agenttrace.config.rule_tables import RuleTables
from agenttrace.config.rules import RuleMode, RuleSettings
from agenttrace.rules.engine import actions_of, register, start_of
from agenttrace.store.rule_store import RuleStore


def switch(
    store: RuleStore,
    tables: RuleTables,
    rule: RuleSettings,
    mode: RuleMode | None,
    *,
    home: Path,
    day_of: Callable[[int], str],
) -> None:
    """Switch a rule, whatever its settings say; a paused one goes on with what waits. ``None``: as they say."""
    now = time.time()
    store.rules.switch(rule.name, mode, since=start_of(rule, now, day_of))
    # Events are noted from now on, also where no engine runs yet.
    register(store, tables, home=home, day_of=day_of, now=now)


def retry(store: RuleStore, tables: RuleTables, numbers: Sequence[int], *, day: str) -> int:
    """Run failed actions of these firings again, or fire what was skipped or dry; how many firings."""
    found = [(number, store.rules.firing(number)) for number in numbers]
    usable = {number: each for number, each in found if each is not None and each.rule in tables.rules}
    actions = {number: actions_of(tables.rules[each.rule], each.once_key) for number, each in usable.items()}
    return store.rules.retry(list(usable), actions, day=day)
