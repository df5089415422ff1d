"""The store is a boundary: no other module knows the engine, its tables or its pragmas."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import agenttrace
from agenttrace.store.sqlite.schema import MIGRATIONS

ROOT = Path(agenttrace.__file__).parent
#: They have databases of their own, or read those of agents.
OWN_FILES = ("store/", "serve/access/", "compat/", "record/files/databases.py")
#: Its tables are those of PostgreSQL.
OWN_TABLES = ("run/",)


def table_names() -> set[str]:
    """The tables of the trace store, with those that an early migration had."""
    script = "\n".join(MIGRATIONS)
    return set(re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", script))


@cache
def _sql() -> re.Pattern[str]:
    tables = "|".join(sorted(table_names()))
    return re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:OR\s+\w+\s+)?(?:{tables})\b|\bPRAGMA\s+\w|^VACUUM\b")


def _docstrings(tree: ast.Module) -> set[int]:
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    firsts = (node.body[0] for node in ast.walk(tree) if isinstance(node, holders) and node.body)
    return {id(first.value) for first in firsts if isinstance(first, ast.Expr)}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _executes(node: ast.AST) -> bool:
    """Whether this is ``connection.execute(...)`` or the like."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr.startswith("execute") and ast.unparse(node.func.value).endswith("connection")


def faults(source: str, *, tables: bool = True) -> Iterator[str]:
    """What a module knows of the engine: an import, SQL on one of the store's tables, a statement that it executes."""
    tree = ast.parse(source)
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if "sqlite3" in _imported(node):
            yield "imports sqlite3"
        if not tables:
            continue
        if _executes(node):
            yield f"line {node.lineno}: executes a statement"  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from (f"line {node.lineno}: {found[0]}" for found in _sql().finditer(node.value))


@cache
def found_faults() -> dict[str, list[str]]:
    """All modules outside of the store that know the engine."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(OWN_FILES):
            found[name] = list(faults(path.read_text("utf-8"), tables=not name.startswith(OWN_TABLES)))
    return {name: known for name, known in found.items() if known}


def test_tables_are_known() -> None:
    """The names come from the migrations, so a new table is guarded as soon as it exists."""
    assert {"sessions", "spans", "processed_events", "file_offsets", "quarantine", "search"} <= table_names()


def test_the_scan_finds_what_it_looks_for() -> None:
    """SQL in plain and formatted texts and every way of importing; not prose, and not a docstring."""
    bad = (
        "import sqlite3",
        "def f():\n    from sqlite3 import connect",
        "q = 'SELECT a FROM sessions'",
        "q = f'DELETE FROM spans WHERE {x}'",
        "q = f'SELECT {x} FROM file_offsets'",
        "q = 'INSERT OR REPLACE INTO meta VALUES (1)'",
        "q = 'PRAGMA data_version'",
        "q = 'VACUUM'",
        "self.store.connection.execute(q)",
    )
    for source in bad:
        assert list(faults(source)), source
    good = (
        "import agenttrace.store.sqlite",
        '"""SELECT a FROM sessions."""',
        "q = 'SELECT a FROM biz.ai_run_logs'",
        "text = 'from sessions of the last day'",
    )
    for source in good:
        assert not list(faults(source)), source


def test_only_the_store_knows_its_engine() -> None:
    """Ask the store instead: a method of it with typed parameters, whose SQL is in ``store/sqlite/``."""
    assert not found_faults()
