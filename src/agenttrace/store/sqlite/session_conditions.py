"""Conditions on the session that events and spans belong to, for queries with the session's row as ``s``."""

from __future__ import annotations

import sqlite3
from collections.abc import Set
from typing import NamedTuple

#: Looked up once for a query, however many rows are compared.
_CONTAINED = "s.id IN (SELECT id FROM sessions WHERE instr(casefolded(project), :project_part) > 0)"


class Conditions(NamedTuple):
    """Part of a WHERE clause, beginning with AND, and its values."""

    where: str
    values: dict[str, str | int]


def session_conditions(
    connection: sqlite3.Connection,
    *,
    agents: Set[str] = frozenset(),
    projects: Set[str] = frozenset(),
    project_contains: str | None = None,
) -> Conditions:
    """One of these agents, one of these directories, a directory that contains a text; as far as any is given."""
    where, values = "", dict[str, str | int]()
    for name, column, wanted in (("agent", "s.agent", agents), ("project", "coalesce(s.project, '')", projects)):
        if wanted:
            named = {f"{name}{number}": value for number, value in enumerate(sorted(wanted))}
            where += f" AND {column} IN ({', '.join(f':{each}' for each in named)})"
            values |= named
    if project_contains is not None:
        connection.create_function("casefolded", 1, _casefolded, deterministic=True)
        where += f" AND {_CONTAINED}"
        values["project_part"] = project_contains.casefold()
    return Conditions(where, values)


def _casefolded(text: str | None) -> str | None:
    return None if text is None else text.casefold()
