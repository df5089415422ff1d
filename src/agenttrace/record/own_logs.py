"""Logs of received spans are ours, unlike those of agents: they go when retention removes what was recorded of them."""

from __future__ import annotations

import os
from pathlib import Path

from agenttrace.store.sqlite.files import Files


def recorded_before(files: Files, home: Path, cutoff: float) -> list[Path]:
    """Logs that nobody wrote to since ``cutoff`` (seconds since the epoch), and of which every byte was read."""
    directory = home / "logs" / "otlp"
    found = []
    for path in sorted(directory.glob("spans-*.jsonl")):
        now = path.stat()
        read = files.read_up_to(os.path.realpath(path))
        if now.st_mtime < cutoff and read is not None and read >= now.st_size:
            found.append(path)
    return found


def remove_recorded(files: Files, home: Path, cutoff: float) -> int:
    """Remove these logs; how many."""
    found = recorded_before(files, home, cutoff)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)
