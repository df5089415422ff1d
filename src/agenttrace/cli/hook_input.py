"""Reads what a program wrote to stdin, and never waits for a terminal or for a pipe that stays silent."""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 8 << 20
_PIECE = 1 << 16


def read_json(seconds: float) -> Any:  # noqa: ANN401 - whatever was written
    """The JSON on stdin; ``None`` where there is a terminal, nothing in this time, or something else."""
    return parsed(read_bytes(seconds))


def parsed(data: bytes) -> Any:  # noqa: ANN401 - whatever was written
    """The JSON in what was read; ``None`` where it is something else."""
    try:
        return json.loads(data) if data.strip() else None
    except (ValueError, RecursionError):
        return None


def read_bytes(seconds: float) -> bytes:
    """What is on stdin; nothing where there is a terminal, or a pipe that is silent for this time."""
    try:
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            return b""
        return _in_thread(seconds) if os.name == "nt" else _selected(sys.stdin.fileno(), seconds)
    except (OSError, ValueError):
        return b""


def _selected(number: int, seconds: float) -> bytes:
    import select

    deadline = time.monotonic() + seconds
    found = b""
    while len(found) <= _LARGEST:
        ready, _, _ = select.select([number], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        piece = os.read(number, _PIECE)
        if not piece:
            break
        found += piece
        if found.rstrip().endswith(b"}") and _whole(found):
            break  # some agents leave the pipe open
    return found


def _whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _in_thread(seconds: float) -> bytes:
    """Windows cannot wait for a pipe with a time limit."""
    import threading

    pieces: list[bytes] = []

    def read() -> None:
        while piece := os.read(0, _PIECE):
            pieces.append(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(seconds)
    return b"".join(pieces)
