"""Log files of many machines: each has a number and a path of its own in a team's store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from urllib.parse import quote

from agenttrace.store.rows import FileOfLines

_PUT = """
INSERT INTO file_offsets (file_id, filepath, source, last_read_at) VALUES (?, ?, ?, ?)
ON CONFLICT (filepath) DO UPDATE SET source = excluded.source, last_read_at = excluded.last_read_at
"""


def write_files(connection: sqlite3.Connection, machine: str, files: Iterable[FileOfLines]) -> None:
    """Store files of a machine, which have their numbers in this store."""
    for file in files:
        path = f"{quote(machine, safe='')}:{file.file_id}:{file.path}"
        connection.execute("DELETE FROM file_offsets WHERE file_id = ? AND filepath <> ?", (file.file_id, path))
        connection.execute(_PUT, (file.file_id, path, file.source, file.revision / 1000))


def path_on_machine(path: str) -> str:
    """The path of a file on its machine."""
    return path.split(":", 2)[-1]
