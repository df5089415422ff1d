"""A real PostgreSQL for the tests: one embedded server a test process, and a fresh database wherever one is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from agenttrace.run.postgres import EmbeddedPostgres

#: Tests may lose everything when the machine crashes; nobody else may.
UNSAFE = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
_numbers = count(1)


def execute(url: str, sql: str, *params: object) -> list[tuple[Any, ...]]:
    """What a statement gives, run in a connection and a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's own database, empty; tests that write take ``database_url``."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("postgres")) as url:
        for setting in UNSAFE:
            execute(url, f"ALTER SYSTEM SET {setting}")
        execute(url, "SELECT pg_reload_conf()")
        yield url


@pytest.fixture(scope="session")
def template(postgres_url: str) -> str:
    """The name of a migrated database that nobody is connected to, to be copied."""
    from agenttrace.run.database import migrate

    execute(postgres_url, "CREATE DATABASE migrated")
    migrate(_beside(postgres_url, "migrated"))
    return "migrated"


@pytest.fixture
def database_url(postgres_url: str, template: str) -> Iterator[str]:
    """A fresh migrated database for one test."""
    with _copied(postgres_url, template) as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(postgres_url: str, template: str) -> Iterator[str]:
    """A fresh migrated database for all tests of a module, such as those that hypothesis repeats."""
    with _copied(postgres_url, template) as url:
        yield url


@contextmanager
def _copied(postgres_url: str, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    execute(postgres_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield _beside(postgres_url, name)
    finally:
        execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


def _beside(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
