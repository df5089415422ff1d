"""Settings and store for a command; everything heavy is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.cli.errors import CommandError, UsageError

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.rule_store import RuleStore
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.store.store import Store


_OF_TEAM = "this is the data directory of a team's server, which records nothing itself"


def settings() -> Settings:
    """The settings of this machine."""
    from agenttrace.config import load_settings

    return load_settings()


def opened_store(of: Settings, *, read_only: bool = True) -> SqliteStore:
    """The store of this machine, for reading or writing; a recorder may write to it at the same time."""
    from agenttrace.config import ensure_home
    from agenttrace.store import open_store, store_path

    if not read_only:
        ensure_home(of)
    elif not store_path(of.home).exists() and shows_team(of):
        raise CommandError(_OF_TEAM, "Run this on a machine. About the server: agenttrace team status")
    return open_store(of, read_only=read_only)


def rule_store(of: Settings) -> RuleStore:
    """The store that rules run on, to write: this machine's, or that of the team whose server is here."""
    from agenttrace.store.team_place import shown_source

    source = shown_source(of)
    return source.writable() if source.is_team else opened_store(of, read_only=False)


def shown_store(of: Settings) -> Store:
    """The store that is shown, for reading: this machine's, or that of the team whose server is here."""
    from agenttrace.store.team_place import open_shown_store

    return open_shown_store(of)


def has_shown_store(of: Settings) -> bool:
    """Whether there is a store to show."""
    from agenttrace.store.team_place import shown_source

    return shown_source(of).exists()


def shows_team(of: Settings) -> bool:
    """Whether the store that is shown is that of a team."""
    from agenttrace.store.team_place import shown_source

    return shown_source(of).is_team


def agent_title(name: str) -> str:
    """The display name of an agent."""
    from agenttrace.record.formats import AGENTS

    return next((agent.title for agent in AGENTS if agent.name == name), name)


def checked_agent(name: str | None) -> str | None:
    """The agent's name as the store has it; ``UsageError`` for an unknown one."""
    if name is None:
        return None
    from agenttrace.config import did_you_mean
    from agenttrace.record.formats import AGENTS

    names = [agent.name for agent in AGENTS]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted not in names:
        raise UsageError(f"there is no agent named {name!r}", did_you_mean(wanted, names))
    return wanted
