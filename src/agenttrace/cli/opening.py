"""Settings and store for a command; everything heavy is imported on first use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agenttrace.cli.errors import UsageError
from agenttrace.views.places import store_path

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.sqlite.store import SqliteStore


def settings() -> Settings:
    """The settings of this machine."""
    from agenttrace.config import load_settings

    return load_settings()


@contextmanager
def reading(of: Settings) -> Iterator[sqlite3.Connection]:
    """The store, to look at; a recorder may write to it meanwhile."""
    from agenttrace.store.sqlite.database import connect

    connection = connect(store_path(of), read_only=True)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def opened_store(of: Settings) -> Iterator[SqliteStore]:
    """The store, to ask; a recorder may write to it meanwhile."""
    from agenttrace.store.sqlite.store import SqliteStore

    with SqliteStore.open(store_path(of), stale_minutes=of.record.stale_minutes) as store:
        yield store


@contextmanager
def writing(of: Settings) -> Iterator[sqlite3.Connection]:
    """The store, to change."""
    from agenttrace.config import ensure_home
    from agenttrace.store.sqlite.database import connect

    ensure_home(of)
    connection = connect(store_path(of))
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def store_to_change(of: Settings) -> Iterator[SqliteStore]:
    """The store, to ask and to change; created where there is none."""
    from agenttrace.config import ensure_home
    from agenttrace.store.sqlite.store import SqliteStore

    ensure_home(of)
    with SqliteStore.open(store_path(of), read_only=False, stale_minutes=of.record.stale_minutes) as store:
        yield store


def agent_names() -> list[str]:
    """The names of all formats we read."""
    from agenttrace.record.agents import AGENTS

    return [agent.name for agent in AGENTS]


def agent_title(name: str) -> str:
    """The name people read."""
    from agenttrace.record.agents import AGENTS

    return next((agent.title for agent in AGENTS if agent.name == name), name)


def checked_agent(name: str | None) -> str | None:
    """An agent's name as the store knows it, or a clear error."""
    if name is None:
        return None
    from agenttrace.config import did_you_mean

    names = agent_names()
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted not in names:
        raise UsageError(f"there is no agent named {name!r}", did_you_mean(wanted, names))
    return wanted
