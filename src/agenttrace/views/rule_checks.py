"""Checks of ``agenttrace doctor`` about rules: what keeps those that are on from firing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agenttrace.config.rule_tables import all_rules
from agenttrace.rules.lock import owner
from agenttrace.store import open_store, store_path
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.views.checks import Finding
from agenttrace.views.rules import Rule, rules_of

if TYPE_CHECKING:
    from agenttrace.config import Settings


def active_rules(settings: Settings) -> list[Rule]:
    """The rules that are on or dry; without counts of today."""
    tables = all_rules(settings)
    found = rules_of(None, tables, day="")
    if store_path(settings.home).exists():
        try:
            with open_store(settings) as store:
                found = rules_of(store, tables, day="")
        except STORE_FAILURES:
            # Another check reports problems of the store.
            pass
    return [each for each in found if each.mode != "off"]


def rules(settings: Settings) -> Iterator[Finding]:
    """Each rule that cannot do what it should; all that are well in one line."""
    active = active_rules(settings)
    if not active:
        return
    wrong = {each.name: list(_wrong(settings, each)) for each in active}
    for findings in wrong.values():
        yield from findings
    if owner(settings.home) is None:
        yield from _without_engine(active)
    elif well := [each for each in active if not wrong[each.name]]:
        yield Finding("rules", "ok", _names(well))


def _without_engine(active: list[Rule]) -> Iterator[Finding]:
    """What happens now is not lost for rules that have been started, or that look back."""
    fix = "Start it: agenttrace up, or for good: agenttrace service install"
    new = [each for each in active if each.since is None and each.start == "now"]
    known = [each for each in active if each not in new]
    if known:
        found = "no process runs the rules, so nothing fires; what happens now fires once one does"
        yield Finding("rules", "warn", f"{_names(known)}: {found}", fix)
    if new:
        found = "no process has run the rules since this was switched on; what happens before one does will not fire"
        yield Finding("rules", "warn", f"{_names(new)}: {found}", fix)


def _names(rules: list[Rule]) -> str:
    return ", ".join(each.name if each.mode == "on" else f"{each.name} (dry)" for each in rules)


def _wrong(settings: Settings, rule: Rule) -> Iterator[Finding]:
    if rule.paused:
        fix = f"See why: agenttrace rules log {rule.name} --state failed; then: agenttrace rules enable {rule.name}"
        yield Finding("rules", "warn", f"{rule.name} is paused: {rule.paused}", fix)
    for action in rule.do:
        if action.missing:
            names = ", ".join(action.missing)
            found = f"{rule.name}: action {action.name} needs {names}, which is not set here"
            fix = f"Set {names} where agenttrace up or agenttrace record is started, and restart that."
            yield Finding("rules", "warn", found, fix)
        if action.type == "chain" and (problem := _without_applications(settings)):
            found = f"{rule.name} waits: action {action.name} runs applications, and {problem}"
            yield Finding("rules", "warn", found, "See: agenttrace doctor, checks applications and database.")


def _without_applications(settings: Settings) -> str | None:
    """Why no chain can be run."""
    from agenttrace.run.availability import is_installed
    from agenttrace.views.run_checks import database

    if not is_installed():
        return "agenttrace[run] is not installed"
    found = database(settings)
    return None if found.state == "ok" else f"the database cannot be used ({found.found})"
