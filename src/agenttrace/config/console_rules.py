"""``HOME/rules.toml``: the rules and actions that are written with the console.

The settings file belongs to the user, with its comments and its order, so the console has a file of its own, which is
written anew with each change.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from agenttrace.config.rule_tables import console_file
from agenttrace.config.settings import SettingsError
from agenttrace.config.toml_files import table_lines, write_private
from agenttrace.locking import ProcessLock

#: What of a settings file the console may write.
Written = Literal["rules", "actions"]
#: Tables by kind and name, as TOML has them.
Tables = dict[Written, dict[str, dict[str, Any]]]

_KINDS: tuple[Written, ...] = ("rules", "actions")
_HEAD = (
    "# Rules and actions that were written with the console, which writes this file anew with every change.\n"
    "# Your own ones belong into agenttrace.toml.\n"
)


def written_tables(home: Path) -> Tables:
    """What the file has now."""
    try:
        found = tomllib.loads(console_file(home).read_text("utf-8"))
    except FileNotFoundError:
        found = {}
    except (OSError, ValueError) as error:
        fix = f"Correct or remove {console_file(home)}."
        problem = f"cannot be read ({error})"
        raise SettingsError(where=f"file {console_file(home)}", key="", problem=problem, fix=fix) from None
    return {kind: {name: dict(table) for name, table in found.get(kind, {}).items()} for kind in _KINDS}


def change_tables(home: Path, change: Callable[[Tables], None], check: Callable[[Tables], None]) -> None:
    """Change the file: all of it or, where ``change`` or ``check`` raises, nothing. Raises LockedError."""
    with ProcessLock(home / "rules-file.lock"):
        tables = written_tables(home)
        change(tables)
        check(tables)
        write_private(console_file(home), toml_of(tables).encode("utf-8"))


# -- TOML -----------------------------------------------------------------------------------------------------------


def toml_of(tables: Tables) -> str:
    """The text of the file."""
    return _HEAD + "".join(_sections(tables))


def _sections(tables: Tables) -> Iterator[str]:
    for kind in _KINDS:
        for name, table in tables[kind].items():
            yield from table_lines(kind, name, table)
