"""How far each log file is read, and what became of its lines."""

from __future__ import annotations

import sqlite3

from agenttrace.store.questions import FileStatus, LinesByOutcome
from agenttrace.store.sqlite.files import LINE_COUNTS

_FILES = """
SELECT filepath, offset, file_size, last_read_at, generation, lines, quarantined, counted_only, lost_bytes, error,
    gone_at
FROM file_offsets ORDER BY filepath
"""
#: Lines of files whose row was removed stay in the totals.
_LINES = f"""
SELECT {", ".join(f"sum({name})" for name in LINE_COUNTS)} FROM (
    SELECT {", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in LINE_COUNTS)} FROM file_offsets
    UNION ALL
    SELECT {", ".join(f"coalesce(sum(value) FILTER (WHERE name = 'forgotten_{name}'), 0)" for name in LINE_COUNTS)}
    FROM counters
)
"""


def files(connection: sqlite3.Connection) -> list[FileStatus]:
    """Every file that was read, by path."""
    return [FileStatus(*row) for row in connection.execute(_FILES)]


def offsets(connection: sqlite3.Connection) -> dict[str, int]:
    """How many bytes of each file are recorded."""
    return dict(connection.execute("SELECT filepath, offset FROM file_offsets").fetchall())


def sources(connection: sqlite3.Connection) -> dict[str, bytes]:
    """What the recorder found out about each file, as it encoded it."""
    return dict(connection.execute("SELECT filepath, source FROM file_offsets WHERE source IS NOT NULL").fetchall())


def lost_bytes(connection: sqlite3.Connection) -> int:
    """Bytes that vanished from files before they could be read."""
    return int(connection.execute("SELECT coalesce(sum(lost_bytes), 0) FROM file_offsets").fetchone()[0])


def counted_only(connection: sqlite3.Connection) -> int:
    """Lines that could not be understood and are not kept, because there were too many."""
    return int(connection.execute("SELECT coalesce(sum(counted_only), 0) FROM file_offsets").fetchone()[0])


def lines(connection: sqlite3.Connection) -> LinesByOutcome:
    """Lines by what became of them."""
    return LinesByOutcome(**dict(zip(LINE_COUNTS, connection.execute(_LINES).fetchone(), strict=True)))
