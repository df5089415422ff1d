"""What recording has come to: lines, duplicates, sessions, retention, and the size and health of the store."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from agenttrace.store.batch import UNSIZED
from agenttrace.store.questions import (
    DedupCounters,
    FileStatus,
    LinesByOutcome,
    QuarantineCounts,
)
from agenttrace.store.sqlite.files import LINE_COUNTS

#: Problems that a check of the file reports at most.
_MOST_PROBLEMS = 5

#: Of a database or a document, which is read to its end or not at all, its size stands for the bytes that were read.
_READ_BYTES = f"iif(fingerprint = '{UNSIZED}' AND offset > 0 AND filepath NOT LIKE '%.zst', file_size, offset)"
_FILES = f"""
SELECT filepath, {_READ_BYTES}, file_size, last_read_at, generation, lines, quarantined, counted_only, lost_bytes,
    error, gone_at
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
_QUARANTINE = """
SELECT coalesce(sum(resolved_at IS NULL), 0), coalesce(sum(resolved_at IS NOT NULL), 0), coalesce(sum(salvaged), 0)
FROM quarantine
"""
_RECORDED = """
SELECT coalesce(max(event_no), 0), (SELECT count(*) FROM sessions) FROM processed_events
"""


class StoreStatus:
    """Answers questions about recording."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def lines(self) -> LinesByOutcome:
        """Lines by what became of them."""
        return LinesByOutcome(**dict(zip(LINE_COUNTS, self._connection.execute(_LINES).fetchone(), strict=True)))

    def files(self) -> list[FileStatus]:
        """Every file that was read, by path."""
        return [FileStatus(*row) for row in self._connection.execute(_FILES)]

    def sources(self) -> dict[str, bytes]:
        """What the recorder found out about each file, as it encoded it."""
        query = "SELECT filepath, source FROM file_offsets WHERE source IS NOT NULL"
        return dict(self._connection.execute(query).fetchall())

    def lost_bytes(self) -> int:
        """Bytes that vanished from files before they could be read."""
        return self._sum("lost_bytes")

    def quarantine(self) -> QuarantineCounts:
        """How many lines could not be understood; looks at each of them."""
        waiting, resolved, salvaged = self._connection.execute(_QUARANTINE).fetchone()
        counted = self.counted_only()
        return QuarantineCounts(open=waiting, resolved=resolved, salvaged_events=salvaged, counted_only=counted)

    def counted_only(self) -> int:
        """Lines that could not be understood and are not kept, because there were too many."""
        return self._sum("counted_only")

    def _sum(self, column: str) -> int:
        return int(self._connection.execute(f"SELECT coalesce(sum({column}), 0) FROM file_offsets").fetchone()[0])

    def dedup(self) -> DedupCounters:
        """Duplicates by tier."""
        query = "SELECT name, value FROM counters WHERE name LIKE 'dedup_%'"
        counters = dict(self._connection.execute(query).fetchall())
        hits = {f"{tier}_hits": int(counters.get(f"dedup_{tier}_hits", 0)) for tier in ("l0", "l1", "l2")}
        events, sessions = self._connection.execute(_RECORDED).fetchone()
        return DedupCounters(**hits, misses=int(counters.get("dedup_misses", 0)), events=events, sessions=sessions)

    def problems(self) -> list[str]:
        """What is wrong with the file; empty where it is sound."""
        found = [str(row[0]) for row in self._connection.execute(f"PRAGMA quick_check({_MOST_PROBLEMS})")]
        return [] if found == ["ok"] else found

    def size(self) -> int:
        """Bytes on the disk, the write-ahead log included."""
        return sum(map(_size, (self._path, Path(f"{self._path}-wal"))))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
