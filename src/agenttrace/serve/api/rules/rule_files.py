"""What the console writes into ``rules.toml``: rules and actions, checked as a whole before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agenttrace.config import SettingsError, current_rules
from agenttrace.config.console_rules import Tables, Written, change_tables
from agenttrace.config.rule_tables import (
    RuleTables,
    check_actions,
    console_file,
    merged,
    parse_tables,
    ready_tables,
)
from agenttrace.config.rules import ActionSettings, RuleSettings
from agenttrace.locking import LockedError
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext

#: ``new``: the name must be free; ``changed``: it must not; ``removed``.
Wish = Literal["new", "changed", "removed"]
#: Of an action, what is never shown: where a change does not name it, it stays as it is.
_SECRETS = ("url", "secret", "headers")
_MOST = 500


def environ_of(context: ServerContext) -> Mapping[str, str]:
    """The environment that this server was started with."""
    return os.environ if context.engine is None else context.engine.environ


def tables_now(context: ServerContext) -> RuleTables:
    """All rules as the files have them now; 409 where they cannot be read."""
    try:
        return merged(current_rules(context.settings, environ_of(context)), ready_tables())
    except SettingsError as error:
        raise ProblemError(409, f"The rules cannot be read: {error}") from None


def named_rule(tables: RuleTables, name: str) -> RuleSettings:
    """The rule of this name; 404 where there is none."""
    if name not in tables.rules:
        raise ProblemError(404, f"There is no rule named {name}.")
    return tables.rules[name]


def write(context: ServerContext, kind: Written, name: str, table: dict[str, Any], wish: Wish) -> RuleTables:
    """Write, replace or remove a rule or an action; the rules after it."""
    before = tables_now(context)
    _check_place(context, kind, name, before, wish)
    own = _own(before)

    def change(tables: Tables) -> None:
        entries = tables[kind]
        if wish == "removed":
            del entries[name]
            return
        if len(entries) >= _MOST and name not in entries:
            raise ProblemError(422, f"There are {_MOST} {kind} already. Remove one first.")
        given = _with_secrets(table, entries.get(name, {})) if kind == "actions" else table
        entries[name] = _without_nulls(given)

    _changed(context, change, own, name)
    return tables_now(context)


def _with_secrets(table: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A changed action: secrets that are not given stay as they are, unless its type is another one."""
    stay = {key: before[key] for key in _SECRETS if key in before and table.get("type") == before.get("type")}
    return {**stay, **table}


def _without_nulls(table: Mapping[str, Any]) -> dict[str, Any]:
    """What is null is not set: TOML has no word for it."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def _check_place(context: ServerContext, kind: Written, name: str, tables: RuleTables, wish: Wish) -> None:
    known: Mapping[str, RuleSettings | ActionSettings] = tables.rules if kind == "rules" else tables.actions
    found, what = known.get(name), kind.removesuffix("s")
    if found is not None and found.origin == "file":
        place = context.settings.file or Path("agenttrace.toml")
        raise ProblemError(409, f"The {what} {name} stands in {place} as [{kind}.{name}]. Change it there.")
    if wish == "new" and found is not None:
        raise ProblemError(409, f"There is a {what} named {name} already. Choose another name.")
    if wish == "changed" and found is None:
        raise ProblemError(404, f"There is no {what} named {name}.")
    if wish == "removed" and (found is None or found.origin != "console"):
        ships = found is not None
        raise ProblemError(
            409 if ships else 404,
            f"The {what} {name} ships with AgentTrace. Switch it off instead."
            if ships
            else f"There is no {what} named {name}.",
        )


def _own(tables: RuleTables) -> RuleTables:
    """Those of the user's file."""
    return RuleTables(
        {name: each for name, each in tables.rules.items() if each.origin == "file"},
        {name: each for name, each in tables.actions.items() if each.origin == "file"},
        dict(tables.budgets),
    )


def _changed(context: ServerContext, change: Callable[[Tables], None], own: RuleTables, name: str) -> None:
    home, environ = context.settings.home, environ_of(context)
    path = console_file(home)

    def check(tables: Tables) -> None:
        found = parse_tables({str(kind): entries for kind, entries in tables.items()}, path, environ, "console")
        check_actions(merged(own, found), context.settings.file or Path("agenttrace.toml"), path)

    try:
        change_tables(home, change, check)
    except SettingsError as error:
        raise ProblemError(422, f"{error.key} {error.problem}. {error.fix}") from None
    except UnicodeEncodeError:
        raise ProblemError(422, f"{name} has characters that cannot be stored.") from None
    except LockedError:
        raise ProblemError(503, "The rules are being changed by another process. Try again.") from None
    except OSError as error:
        raise ProblemError(503, f"{path} cannot be written ({error.strerror}).") from None
