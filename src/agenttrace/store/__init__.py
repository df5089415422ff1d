"""The trace store: every question about traces and every write of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agenttrace.config import Settings
    from agenttrace.store.sqlite.store import SqliteStore


def store_path(home: Path) -> Path:
    """The file of the store in a data directory."""
    return home / "agenttrace.db"


def open_store(settings: Settings, *, read_only: bool = True) -> SqliteStore:
    """The store of a data directory, closed by its ``with`` block; created or upgraded unless ``read_only``."""
    from agenttrace.store.session_state import StateLimits
    from agenttrace.store.sqlite.store import SqliteStore

    limits = StateLimits.of(settings.record)
    return SqliteStore.open(store_path(settings.home), read_only=read_only, limits=limits)
