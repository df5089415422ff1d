"""Reads rules, actions and budgets: from the settings file, from ``rules.toml`` of the console, and those that ship."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from agenttrace.config.rules import (
    ActionSettings,
    BadRuleError,
    BudgetSettings,
    RuleSettings,
    parse_action,
    parse_budget,
    parse_rule,
)
from agenttrace.config.settings import Settings, SettingsError

KINDS = ("rules", "actions", "budgets")


class RuleTables(NamedTuple):
    """Rules, actions and budgets, each by name."""

    rules: dict[str, RuleSettings]
    actions: dict[str, ActionSettings]
    budgets: dict[str, BudgetSettings]


def console_file(home: Path) -> Path:
    """The file that the console writes rules to."""
    return home / "rules.toml"


def parse_tables(table: Mapping[str, Any], file: Path, environ: Mapping[str, str], origin: str = "file") -> RuleTables:
    """The rules of a file; raises SettingsError."""
    return RuleTables(
        _each(table, "rules", file, lambda name, entry: parse_rule(name, entry, origin)),
        _each(table, "actions", file, lambda name, entry: parse_action(name, entry, environ, origin)),
        _each(table, "budgets", file, parse_budget),
    )


def merged(first: RuleTables, second: RuleTables) -> RuleTables:
    """Both; where a name is in both, what the first says."""
    return RuleTables(
        {**second.rules, **first.rules}, {**second.actions, **first.actions}, {**second.budgets, **first.budgets}
    )


@cache
def ready_tables() -> RuleTables:
    """The rules that ship, all of them off, and their actions."""
    text = resources.files("agenttrace.config").joinpath("ready_rules.toml").read_text("utf-8")
    return parse_tables(tomllib.loads(text), Path("ready_rules.toml"), {}, "ready")


def all_rules(settings: Settings) -> RuleTables:
    """The rules of the settings, and those that ship."""
    own = RuleTables(dict(settings.rules), dict(settings.actions), dict(settings.budgets))
    return merged(own, ready_tables())


def check_actions(tables: RuleTables, file: Path, written: Path) -> None:
    """Raise SettingsError where a rule names an action that does not exist; ``written``: the file of the console."""
    known = {*tables.actions, *ready_tables().actions}
    for rule in tables.rules.values():
        for action in rule.do:
            if action not in known:
                fix = f"Write [actions.{action}], or use one of {', '.join(sorted(known))}."
                problem = f"names {action!r}, which is no action"
                place = f"file {written if rule.origin == 'console' else file}"
                raise SettingsError(where=place, key=f"rules.{rule.name}.do", problem=problem, fix=fix)


def _each(table: Mapping[str, Any], kind: str, file: Path, parse: Callable[[str, object], Any]) -> dict[str, Any]:
    origin = f"file {file}"
    entries = table.get(kind, {})
    if not isinstance(entries, dict):
        fix = f"Write [{kind}.NAME] on a line of its own and its settings below it."
        raise SettingsError(where=origin, key=kind, problem="is not made of tables", fix=fix)
    found = {}
    for name, entry in entries.items():
        try:
            found[name] = parse(name, entry)
        except BadRuleError as error:
            key = ".".join(filter(None, (kind, name, error.key)))
            raise SettingsError(where=origin, key=key, problem=error.problem, fix=error.fix) from None
    return found
