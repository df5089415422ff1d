"""A real PostgreSQL for the tests: one embedded server a test process, and a fresh database wherever one is wanted.

``TEST_POSTGRES_URL`` names another server to test with, such as one of the oldest version that is supported.
"""

from __future__ import annotations

import os
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
#: Test processes may share a server.
_PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "alone")
_numbers = count(1)


def execute(url: str, sql: str, *params: object) -> list[tuple[Any, ...]]:
    """What a statement gives, run in a connection and a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's own database, empty; tests that write take ``database_url``."""
    if named := os.environ.get("TEST_POSTGRES_URL"):
        yield named
        return
    with EmbeddedPostgres(tmp_path_factory.mktemp("postgres")) as url:
        for setting in UNSAFE:
            execute(url, f"ALTER SYSTEM SET {setting}")
        execute(url, "SELECT pg_reload_conf()")
        yield url


@pytest.fixture(scope="session")
def template(postgres_url: str) -> str:
    """The name of a migrated database without connections, to be copied."""
    from agenttrace.run.postgres.pool import migrate

    name = f"migrated_{_PROCESS}"
    execute(postgres_url, f"DROP DATABASE IF EXISTS {name}")
    execute(postgres_url, f"CREATE DATABASE {name}")
    migrate(_beside(postgres_url, name))
    return name


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
    name = f"test_{_PROCESS}_{next(_numbers)}"
    execute(postgres_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    execute(postgres_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield _beside(postgres_url, name)
    finally:
        execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


def _beside(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
