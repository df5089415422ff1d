"""``agenttrace status``: is everything recorded, how far behind, what went wrong."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import figures, opening, output
from agenttrace.cli.columns import Column, print_table

if TYPE_CHECKING:
    from agenttrace.config import Settings

EPILOG = """
[bold]Examples[/bold]

  agenttrace status

  agenttrace status --files             every file with its offset

  agenttrace status --json | jq .behind_bytes
"""

_TIERS = {
    "l0": "ids of the session being read",
    "l1": "recent ids of all sessions",
    "l2": "ids in the store",
}


def status(
    files: Annotated[bool, typer.Option("--files", help="List every file with how far it was read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show whether recording runs, how far behind it is, and what it could not read."""
    settings = opening.settings()
    with opening.reading(settings) as connection:
        found = collected(connection, settings)
    if as_json:
        output.print_json(found)
        return
    _show(found)
    if files:
        _show_files(found["files"])


def collected(connection: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Everything there is to say, in the shape of the JSON."""
    from agenttrace.record import search_index
    from agenttrace.record.lock import owner

    process = owner(settings.home)
    files, unreadable = file_states(connection, settings)
    counts = {name: sum(file[name] for file in files) for name in ("offset", "behind", "lost_bytes")}
    return {
        "home": str(settings.home),
        "recorder": {"running": process is not None, "pid": process},
        "file_count": len(files),
        "read_bytes": counts["offset"],
        "behind_bytes": counts["behind"],
        "behind_files": sum(1 for file in files if file["behind"]),
        "lost_bytes": counts["lost_bytes"],
        "lines": _lines(connection),
        "dedup": dedup_stats(connection, settings),
        "quarantine": _quarantine(connection),
        "unreadable": unreadable,
        "sessions": _sessions(connection),
        "search_backlog": search_index.backlog(connection),
        "database_bytes": database_bytes(opening.store_path(settings)),
        "files": files,
    }


def file_states(
    connection: sqlite3.Connection, settings: Settings
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Every file that is there or was read, how far, and what could not be read."""
    from agenttrace.record.discover import list_files
    from agenttrace.record.reader import stored_path

    listing = list_files(opening.roots(settings), settings.record.exclude)
    present = {stored_path(found.path): found for found in listing.files}
    unreadable = [{"path": path, "reason": reason} for path, reason in listing.unreadable]
    files = []
    for path, offset, size, read_at, generation, lines, lost, error, gone in connection.execute(
        "SELECT filepath, offset, file_size, last_read_at, generation, lines, lost_bytes, error, gone_at "
        "FROM file_offsets ORDER BY filepath"
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
                "generation": generation,
                "lost_bytes": lost,
                "last_read_at": figures.iso(round(read_at * 1e6)) if read_at else None,
                "gone": now is None or gone is not None,
                "error": error,
            }
        )
        if error is not None:
            unreadable.append({"path": path, "reason": error})
    files += [_unread(path, found.size) for path, found in present.items()]
    return files, unreadable


def _size(path: str) -> int | None:
    from agenttrace.record.offsets import path_on_disk

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
        "generation": 0,
        "lost_bytes": 0,
        "last_read_at": None,
        "gone": False,
        "error": None,
    }


def _lines(connection: sqlite3.Connection) -> dict[str, int]:
    names = ("lines", "recorded", "duplicate", "ignored", "quarantined")
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
    row = connection.execute(f"SELECT {sums} FROM file_offsets").fetchone()
    return dict(zip(names, row, strict=True))


def dedup_stats(connection: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    """Hits and hit rates of the three tiers since the store was begun, named as ``get_stats`` names them."""
    counters = dict(connection.execute("SELECT name, value FROM counters WHERE name LIKE 'dedup_%'").fetchall())
    hits = {tier: int(counters.get(f"dedup_{tier}_hits", 0)) for tier in _TIERS}
    misses = int(counters.get("dedup_misses", 0))
    asked = sum(hits.values()) + misses
    total, sessions = connection.execute(
        "SELECT coalesce(max(event_no), 0), (SELECT count(*) FROM sessions WHERE agent <> '') FROM processed_events"
    ).fetchone()
    return {
        "db_total_events": total,
        "db_sessions": sessions,
        "db_path": str(opening.store_path(settings)),
        **{f"{tier}_hits": number for tier, number in hits.items()},
        "misses": misses,
        **{f"{tier}_hit_rate": (number / asked if asked else 0.0) for tier, number in hits.items()},
    }


def _quarantine(connection: sqlite3.Connection) -> dict[str, int]:
    waiting, resolved, salvaged = connection.execute(
        "SELECT coalesce(sum(resolved_at IS NULL), 0), coalesce(sum(resolved_at IS NOT NULL), 0), "
        "coalesce(sum(salvaged), 0) FROM quarantine"
    ).fetchone()
    return {"open": waiting, "resolved": resolved, "salvaged_events": salvaged}


def _sessions(connection: sqlite3.Connection) -> dict[str, int]:
    query = "SELECT agent, count(*) FROM sessions WHERE agent <> '' AND events > 0 GROUP BY agent ORDER BY agent"
    return dict(connection.execute(query).fetchall())


def database_bytes(path: Path) -> int:
    """The store with its write-ahead log."""
    return sum(_size(f"{path}{ending}") or 0 for ending in ("", "-wal"))


# -- for people -----------------------------------------------------------------------------------------------


def _show(found: dict[str, Any]) -> None:
    running = found["recorder"]["running"]
    if running:
        _fact("recorder", f"running (process {found['recorder']['pid'] or 'unknown'})", "green")
    else:
        _fact(
            "recorder", "not running; start it with: agenttrace up, or for good: agenttrace service install", "yellow"
        )
    behind = found["behind_bytes"]
    lag = (
        "nothing is behind"
        if not behind
        else f"{figures.size(behind)} in {figures.counted(found['behind_files'], 'file')}"
    )
    _fact("behind", lag, "yellow" if behind else "")
    _fact("files", f"{figures.count(found['file_count'])}, {figures.size(found['read_bytes'])} read")
    sessions = ", ".join(f"{name} {figures.count(number)}" for name, number in found["sessions"].items())
    _fact("sessions", sessions or "none yet")
    lines = found["lines"]
    _fact(
        "lines",
        f"{figures.count(lines['lines'])}: {figures.count(lines['recorded'])} recorded, "
        f"{figures.count(lines['duplicate'])} duplicate, {figures.count(lines['ignored'])} ignored, "
        f"{figures.count(lines['quarantined'])} quarantined",
    )
    _show_problems(found)
    backlog = found["search_backlog"]
    _fact("search", f"{figures.counted(backlog, 'event')} to be indexed" if backlog else "up to date")
    _fact("database", f"{figures.size(found['database_bytes'])} in {found['home']}")
    output.say()
    _show_tiers(found["dedup"])


def _fact(name: str, value: str, style: str = "") -> None:
    from rich.text import Text

    output.stdout().print(Text.assemble((f"{name:<12}", "dim"), (output.safe(value), style)), soft_wrap=True)


def _show_problems(found: dict[str, Any]) -> None:
    waiting = found["quarantine"]["open"]
    if waiting:
        _fact(
            "quarantine", f"{figures.counted(waiting, 'entry', 'entries')}; see: agenttrace quarantine list", "yellow"
        )
    if found["lost_bytes"]:
        _fact("lost", f"{figures.size(found['lost_bytes'])} were cut off before they could be read", "red")
    for each in found["unreadable"][:10]:
        _fact("unreadable", f"{each['path']}: {each['reason']}", "red")
    more = len(found["unreadable"]) - 10
    if more > 0:
        _fact("", f"and {more} more")


def _show_tiers(dedup: dict[str, Any]) -> None:
    columns = (Column("dedup"), Column("answered by"), Column("hits", right=True), Column("rate", right=True))
    rows = [
        [tier.upper(), meaning, figures.count(dedup[f"{tier}_hits"]), f"{dedup[f'{tier}_hit_rate']:.1%}"]
        for tier, meaning in _TIERS.items()
    ]
    asked = sum(dedup[f"{tier}_hits"] for tier in _TIERS) + dedup["misses"]
    rows.append(["", "new events", figures.count(dedup["misses"]), f"{dedup['misses'] / asked if asked else 0:.1%}"])
    print_table(columns, rows)


def _show_files(files: list[dict[str, Any]]) -> None:
    output.say()
    columns = (
        Column("offset", right=True),
        Column("size", right=True),
        Column("behind", right=True),
        Column("lines", right=True, optional=1),
        Column("file", least=20, keep_end=True),
    )
    rows = [
        [
            figures.count(file["offset"]),
            "gone" if file["size"] is None else figures.count(file["size"]),
            figures.count(file["behind"]),
            figures.count(file["lines"]),
            output.one_line(file["path"]),
        ]
        for file in files
    ]
    print_table(columns, rows)
