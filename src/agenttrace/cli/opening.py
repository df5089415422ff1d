"""Settings and store for a command; everything heavy is imported on first use."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace.cli.errors import UsageError

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.discover import Root


def settings() -> Settings:
    """The settings of this machine."""
    from agenttrace.config import load_settings

    return load_settings()


def store_path(of: Settings) -> Path:
    """Where the store is."""
    return of.home / "agenttrace.db"


@contextmanager
def reading(of: Settings) -> Iterator[sqlite3.Connection]:
    """The store, to look at; a recorder may write to it meanwhile."""
    from agenttrace.store.database import connect

    connection = connect(store_path(of), read_only=True)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def writing(of: Settings) -> Iterator[sqlite3.Connection]:
    """The store, to change."""
    from agenttrace.config import ensure_home
    from agenttrace.store.database import connect

    ensure_home(of)
    connection = connect(store_path(of))
    try:
        yield connection
    finally:
        connection.close()


def roots(of: Settings) -> list[Root]:
    """Where logs are looked for on this machine."""
    from agenttrace.record.agents import AGENTS
    from agenttrace.record.discover import agent_roots, named_roots

    chosen = [agent for agent in AGENTS if not of.record.agents or agent.name in of.record.agents]
    home = Path(os.environ.get("HOME") or Path.home())
    return [*agent_roots(chosen, os.environ, home), *named_roots(of.record.paths)]


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
