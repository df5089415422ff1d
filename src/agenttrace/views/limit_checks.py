"""Checks of ``agenttrace doctor`` about budgets and the hooks that ask for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace.hooks.installing import Installer
from agenttrace.hooks.targets import TARGETS
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import exchange_ratio
from agenttrace.rules.budgets import BudgetState, budget_states
from agenttrace.rules.guard_state import spent_text
from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.views.checks import Finding

if TYPE_CHECKING:
    from agenttrace.config import Settings


def rates(settings: Settings) -> Iterator[Finding]:
    """Currencies that occur in what was recorded, and cannot be converted to the one that the user reads."""
    wanted = settings.usage.currency
    if wanted == "native":
        if settings.usage.rates:
            fix = 'Set the currency that they convert to, such as currency = "USD" under [usage].'
            yield Finding("currency", "warn", "usage.rates has no effect: usage.currency is native", fix)
        return
    try:
        with open_store(settings) as store:
            occurring = Cashier.load(settings).bill(store.usage()).originals
    except STORE_FAILURES:
        return  # another check reports problems of the store
    lacking = [each for each in occurring if each != wanted and exchange_ratio(each, settings.usage) is None]
    for each in lacking:
        fix = f"Set {each} under [usage.rates] in agenttrace.toml: what one {each} is in {wanted}."
        yield Finding("currency", "warn", f"costs in {each} have no rate to {wanted}, and are not in sums", fix)
    if occurring and not lacking:
        yield Finding("currency", "ok", f"all costs are shown in {wanted}")


def budgets(settings: Settings) -> Iterator[Finding]:
    """Each budget, with what keeps it from being computed."""
    if not settings.budgets:
        return
    try:
        with open_store(settings) as store:
            states = budget_states(store, settings, time.time_ns() // 1000)
    except STORE_FAILURES:
        return  # another check reports problems of the store
    for name, found in _by_name(states).items():
        broken = next((each for each in found if each.problem is not None), None)
        if broken is not None:
            fix = f"Until then, [budgets.{name}] gives no warning and refuses nothing."
            yield Finding("budget", "warn", f"{name} cannot be computed: {broken.problem}", fix)
        elif found[0].session is None:
            yield Finding("budget", "ok", f"{name}: {spent_text(found[0])}")


def _by_name(states: list[BudgetState]) -> dict[str, list[BudgetState]]:
    found: dict[str, list[BudgetState]] = {}
    for state in states:
        found.setdefault(state.name, []).append(state)
    return found


def hooks(settings: Settings) -> Iterator[Finding]:
    """Hooks that are installed, and start this program or another copy of it."""
    installer = Installer(settings.home, os.environ, Path(os.environ.get("HOME") or Path.home()))
    for status in map(installer.status, TARGETS):
        name = status.target.agent
        if status.installed and not status.current:
            found = f"{name} asks another copy of AgentTrace ({status.path})"
            yield Finding("hook", "warn", found, f"Install it again: agenttrace hooks install {name}")
        elif status.installed:
            yield Finding("hook", "ok", f"{name} asks the guard ({status.path})")
