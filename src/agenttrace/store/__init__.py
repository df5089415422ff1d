"""The trace store: every question about traces and every write of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.session_state import StateLimits
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.store.team import TeamStore


def store_path(home: Path) -> Path:
    """The file of the store in a data directory."""
    return home / "agenttrace.db"


def open_store(settings: Settings, *, read_only: bool = True) -> SqliteStore:
    """The store of a data directory, closed by its ``with`` block; created or upgraded unless ``read_only``."""
    from agenttrace.store.session_state import StateLimits
    from agenttrace.store.sqlite.store import SqliteStore

    limits = StateLimits.of(settings.record)
    return SqliteStore.open(store_path(settings.home), read_only=read_only, limits=limits)


def open_team_store(
    target: str | Path,
    *,
    read_only: bool = False,
    settings: Settings | None = None,
    limits: StateLimits | None = None,
    rules: Path | None = None,
) -> TeamStore:
    """A team's store, of a file or of a ClickHouse database by its URL; made or upgraded unless ``read_only``.

    ``rules``: the file for the bookkeeping of rules, which a database has not.
    """
    from agenttrace.store.session_state import LIMITS, StateLimits

    limits = limits or (LIMITS if settings is None else StateLimits.of(settings.record))
    if is_database(target):
        # Not with the others: its client is an extra.
        engine = import_module("agenttrace.store.clickhouse.store")
        opened: TeamStore = engine.ClickHouseStore.open(str(target), read_only=read_only, limits=limits, rules=rules)
        return opened
    from agenttrace.store.sqlite.team import SqliteTeamStore

    return SqliteTeamStore.open(Path(target), read_only=read_only, limits=limits)


def is_database(target: str | Path) -> bool:
    """Whether a team's store is a ClickHouse database, and no file."""
    return str(target).startswith(("clickhouse://", "clickhouses://", "chdb://"))
