"""Logs of received spans are ours, unlike those of agents: they go when retention removes what was recorded of them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path


def recorded_before(connection: sqlite3.Connection, home: Path, cutoff: float) -> list[Path]:
    """Logs that nobody wrote to since ``cutoff`` (seconds since the epoch), and of which every byte was read."""
    directory = home / "logs" / "otlp"
    found = []
    for path in sorted(directory.glob("spans-*.jsonl")):
        now = path.stat()
        query = "SELECT offset FROM file_offsets WHERE filepath = ?"
        row = connection.execute(query, (os.path.realpath(path),)).fetchone()
        if now.st_mtime < cutoff and row is not None and row[0] >= now.st_size:
            found.append(path)
    return found


def remove_recorded(connection: sqlite3.Connection, home: Path, cutoff: float) -> int:
    """Remove these logs; how many."""
    found = recorded_before(connection, home, cutoff)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)
