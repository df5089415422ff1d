"""Conditions on the session that events and spans belong to, for queries with the session's row as ``s``."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from agenttrace.store.questions import folded

#: Looked up once for a query, however many rows are compared.
_CONTAINED = "s.id IN (SELECT id FROM sessions WHERE project IS NOT NULL AND instr(folded(project), :project_part) > 0)"


class Conditions(NamedTuple):
    """Part of a WHERE clause, beginning with AND, and its values."""

    where: str
    values: dict[str, str | int]


def session_conditions(
    *,
    agents: Set[str] = frozenset(),
    projects: Set[str] = frozenset(),
    project_contains: str | None = None,
    machines: Set[str] = frozenset(),
    persons: Set[str] = frozenset(),
) -> Conditions:
    """One of these agents, directories, machines, persons, a directory that contains a text; as far as any is given."""
    where, values = "", dict[str, str | int]()
    columns = (
        ("agent", "s.agent", agents),
        ("project", "coalesce(s.project, '')", projects),
        ("machine", "coalesce(s.machine, '')", machines),
        ("person", "coalesce(s.person, '')", persons),
    )
    for name, column, wanted in columns:
        if wanted:
            named = {f"{name}{number}": value for number, value in enumerate(sorted(wanted))}
            where += f" AND {column} IN ({', '.join(f':{each}' for each in named)})"
            values |= named
    if project_contains is not None:
        where += f" AND {_CONTAINED}"
        values["project_part"] = folded(project_contains)
    return Conditions(where, values)
