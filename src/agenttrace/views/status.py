"""How recording is doing: files and how far they are read, duplicates, quarantine, the size of the store."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agenttrace.views import places
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.discover import Listing

#: The tiers of the deduplicator.
TIERS: tuple[Literal["l0"], Literal["l1"], Literal["l2"]] = ("l0", "l1", "l2")


def collected(connection: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Everything there is to say, in the shape of the JSON."""
    from agenttrace.record.health import problem
    from agenttrace.record.lock import owner
    from agenttrace.store.sqlite.store import SqliteStore

    process = owner(settings.home)
    trouble = problem(settings.home)
    listing = places.logs(settings)
    files, unreadable = file_states(connection, listing)
    counts = {name: sum(file[name] for file in files) for name in ("offset", "behind", "lost_bytes")}
    return {
        "home": str(settings.home),
        "recorder": {
            "running": process is not None,
            "pid": process,
            "problem": None if trouble is None else trouble.reason,
            "restarts": 0 if trouble is None else trouble.restarts,
        },
        "file_count": len(files),
        "read_bytes": counts["offset"],
        "behind_bytes": counts["behind"],
        "behind_files": sum(1 for file in files if file["behind"]),
        "lost_bytes": counts["lost_bytes"],
        "lines": _lines(connection),
        "dedup": dedup_stats(connection, settings),
        "quarantine": _quarantine(connection),
        "unreadable": unreadable,
        "links_not_followed": [{"path": path, "target": target} for path, target in listing.links],
        "sessions": _sessions(connection),
        "search_backlog": SqliteStore.of(connection).search_index.backlog,
        "retention": _retention(connection, settings),
        "database_bytes": database_bytes(places.store_path(settings)),
        "files": files,
    }


def file_states(connection: sqlite3.Connection, listing: Listing) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Every file that is there or was read, how far, and what could not be read."""
    from agenttrace.record.reader import stored_path

    present = {stored_path(found.path): found for found in listing.files}
    unreadable = [{"path": path, "reason": reason} for path, reason in listing.unreadable]
    files = []
    for path, offset, size, read_at, generation, lines, quarantined, counted, lost, error, gone in connection.execute(
        "SELECT filepath, offset, file_size, last_read_at, generation, lines, quarantined, counted_only, lost_bytes, "
        "error, gone_at FROM file_offsets ORDER BY filepath"
    ):
        found = present.pop(path, None)
        now = found.size if found is not None else _size(path)
        compressed = path.endswith(".zst")
        behind = 0 if now is None or (compressed and now == size) else max(0, now - (0 if compressed else offset))
        files.append(
            {
                "path": path,
                "offset": offset,
                "size": now,
                "behind": behind,
                "lines": lines,
                "quarantined": quarantined,
                "counted_only": counted,
                "generation": generation,
                "lost_bytes": lost,
                "last_read_at": iso(round(read_at * 1e6)) if read_at else None,
                "gone": now is None or gone is not None,
                "error": error,
            }
        )
        if error is not None:
            unreadable.append({"path": path, "reason": error})
    files += [_unread(path, found.size) for path, found in present.items()]
    return files, unreadable


def _size(path: str) -> int | None:
    from agenttrace.record.stored_paths import path_on_disk

    try:
        found = path_on_disk(path)
        return None if found is None else os.stat(found).st_size
    except OSError:
        return None


def _unread(path: str, size: int) -> dict[str, Any]:
    return {
        "path": path,
        "offset": 0,
        "size": size,
        "behind": size,
        "lines": 0,
        "quarantined": 0,
        "counted_only": 0,
        "generation": 0,
        "lost_bytes": 0,
        "last_read_at": None,
        "gone": False,
        "error": None,
    }


def _lines(connection: sqlite3.Connection) -> dict[str, int]:
    """Lines by outcome, those of files whose row was removed since included."""
    from agenttrace.store.sqlite.files import LINE_COUNTS, Files

    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in LINE_COUNTS)
    row = connection.execute(f"SELECT {sums} FROM file_offsets").fetchone()
    past = Files(connection).forgotten_lines()
    return {name: number + past[name] for name, number in zip(LINE_COUNTS, row, strict=True)}


def _retention(connection: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """What the clean-up removed so far; ``days`` 0: sessions are kept for ever."""
    from agenttrace.store.sqlite.retention import Retention

    report = Retention(connection).report()
    return {
        "days": settings.retention.days,
        "last_run_at": None if report.last_run_at is None else iso(round(report.last_run_at * 1e6)),
        "removed": {
            "sessions": report.sessions,
            "spans": report.spans,
            "events": report.events,
            "bytes": report.bytes,
            "event_ids": report.event_ids,
            "files": report.files,
            "log_files": report.log_files,
        },
    }


def dedup_stats(connection: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Hits and hit rates of the three tiers since the store was begun, named as ``get_stats`` names them."""
    counters = dict(connection.execute("SELECT name, value FROM counters WHERE name LIKE 'dedup_%'").fetchall())
    hits = {tier: int(counters.get(f"dedup_{tier}_hits", 0)) for tier in TIERS}
    misses = int(counters.get("dedup_misses", 0))
    asked = sum(hits.values()) + misses
    total, sessions = connection.execute(
        "SELECT coalesce(max(event_no), 0), (SELECT count(*) FROM sessions WHERE agent <> '') FROM processed_events"
    ).fetchone()
    return {
        "db_total_events": total,
        "db_sessions": sessions,
        "db_path": str(places.store_path(settings)),
        **{f"{tier}_hits": number for tier, number in hits.items()},
        "misses": misses,
        **{f"{tier}_hit_rate": (number / asked if asked else 0.0) for tier, number in hits.items()},
    }


def _quarantine(connection: sqlite3.Connection) -> dict[str, int]:
    waiting, resolved, salvaged = connection.execute(
        "SELECT coalesce(sum(resolved_at IS NULL), 0), coalesce(sum(resolved_at IS NOT NULL), 0), "
        "coalesce(sum(salvaged), 0) FROM quarantine"
    ).fetchone()
    return {
        "open": waiting,
        "resolved": resolved,
        "salvaged_events": salvaged,
        "counted_only": counted_only(connection),
    }


def counted_only(connection: sqlite3.Connection) -> int:
    """How many bad lines are counted without being kept, because there were too many."""
    return int(connection.execute("SELECT coalesce(sum(counted_only), 0) FROM file_offsets").fetchone()[0])


def _sessions(connection: sqlite3.Connection) -> dict[str, int]:
    query = "SELECT agent, count(*) FROM sessions WHERE agent <> '' AND events > 0 GROUP BY agent ORDER BY agent"
    return dict(connection.execute(query).fetchall())


def database_bytes(path: Path) -> int:
    """The store with its write-ahead log."""
    return sum(_size(f"{path}{ending}") or 0 for ending in ("", "-wal"))
