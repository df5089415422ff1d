"""Conditions on sessions, for questions that name agents, directories, machines or persons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from agenttrace.store.clickhouse.literals import Value, Values
from agenttrace.store.questions import folded


@dataclass(kw_only=True)
class Conditions:
    """Tests on a session's row, and their values."""

    tests: list[str] = field(default_factory=list)
    values: Values = field(default_factory=dict)

    def add(self, test: str, **values: Value) -> None:
        """One more test."""
        self.tests.append(test)
        self.values |= values

    def add_any(self, name: str, column: str, wanted: Iterable[str]) -> None:
        """One of these values, if there are any."""
        named = sorted(wanted)
        if named:
            self.add(f"{column} IN :{name}", **{name: named})

    def add_contained(self, name: str, column: str, part: str) -> None:
        """A part of a folded text."""
        self.add(f"position({column}, :{name}) > 0", **{name: folded(part)})

    @property
    def where(self) -> str:
        """All of them."""
        return " AND ".join(self.tests) or "1"


class _Asked(Protocol):
    """A question with these fields; some have ``projects`` and ``project_contains`` as well."""

    @property
    def agents(self) -> frozenset[str]: ...

    @property
    def machines(self) -> frozenset[str]: ...

    @property
    def persons(self) -> frozenset[str]: ...


def session_conditions(query: _Asked) -> Conditions:
    """One of these agents, directories, machines, persons, a directory that contains a text; as far as any is given."""
    found = Conditions()
    found.add_any("agents", "agent", query.agents)
    found.add_any("machines", "coalesce(machine, '')", query.machines)
    found.add_any("persons", "coalesce(person, '')", query.persons)
    found.add_any("projects", "coalesce(project, '')", getattr(query, "projects", ()))
    part = getattr(query, "project_contains", None)
    if part is not None:
        found.add("project IS NOT NULL")
        found.add_contained("project_part", "folded_project", part)
    return found
