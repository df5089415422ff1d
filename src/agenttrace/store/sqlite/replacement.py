"""A new store is built beside a damaged one and put in its place when it is complete; the damaged one is kept.

Killed at any instant, the next start finds either the damaged store, and begins anew, or a complete new one to finish
with.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agenttrace.store.sqlite import salvage
from agenttrace.store.sqlite.salvage import Damaged
from agenttrace.store.sqlite.store import SqliteStore

STORE = "agenttrace.db"
#: Beside the store: where a new one is built. What is in it is ours to throw away, except a complete new store.
WORKSHOP = "recovering"
_SIDE_FILES = ("", "-wal", "-shm")


class Replacement:
    """The replacement of a damaged store in a data directory."""

    def __init__(self, home: Path) -> None:
        finish_interrupted(home)
        self._home = home
        #: Where the damaged store goes.
        self.damaged = _free_name(home)

    @contextmanager
    def built(self) -> Iterator[tuple[Damaged | None, SqliteStore]]:
        """The damaged store, as far as it can be read, and the new one, to be filled; then they are swapped."""
        workshop = self._home / WORKSHOP
        shutil.rmtree(workshop, ignore_errors=True)
        workshop.mkdir(mode=0o700)
        with (
            salvage.opened(self._home / STORE, workshop) as old,
            SqliteStore.open(workshop / "building.db", read_only=False) as new,
        ):
            yield old, new
            new.checkpoint()
        os.replace(workshop / "building.db", workshop / STORE)
        _swap(self._home, self.damaged)


def finish_interrupted(home: Path) -> bool:
    """Put a complete new store in its place if a recovery was killed just before doing so; True if it was."""
    ready = home / WORKSHOP / STORE
    if not ready.exists() or (home / STORE).exists():
        return False
    moved = sorted(path for path in home.glob(f"{STORE}.damaged-*") if not path.name.endswith(_SIDE_FILES[1:]))
    _swap(home, moved[-1] if moved else _free_name(home))
    return True


def _free_name(home: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path, attempt = home / f"{STORE}.damaged-{stamp}", 1
    while path.exists():
        attempt += 1
        path = home / f"{STORE}.damaged-{stamp}-{attempt}"
    return path


def _swap(home: Path, damaged: Path) -> None:
    """The damaged store aside, then its side files, then the new store in: in this order it can be resumed."""
    for suffix in _SIDE_FILES:
        if (home / (STORE + suffix)).exists():
            os.replace(home / (STORE + suffix), damaged.with_name(damaged.name + suffix))
    os.replace(home / WORKSHOP / STORE, home / STORE)
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
    shutil.rmtree(home / WORKSHOP, ignore_errors=True)
