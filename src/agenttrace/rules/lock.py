"""The lock of the engine: two engines of a data directory would run the same actions."""

from __future__ import annotations

from pathlib import Path

from agenttrace.locking import owner_of

NAME = "rules.lock"


def owner(home: Path) -> int | None:
    """The process that runs the rules of this directory now, if any."""
    return owner_of(home / NAME)
