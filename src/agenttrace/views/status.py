"""The state of recording: files and their offsets, duplicates, quarantine, the size of the store."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from agenttrace.config.rule_tables import all_rules
from agenttrace.record.health import problem
from agenttrace.record.lock import owner
from agenttrace.rules.decision import in_force
from agenttrace.rules.lock import owner as rules_owner
from agenttrace.views import places
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.files.discover import FoundFile, Listing
    from agenttrace.store.questions import FileStatus
    from agenttrace.store.sqlite.store import SqliteStore

#: The tiers of the deduplicator.
TIERS: tuple[Literal["l0"], Literal["l1"], Literal["l2"]] = ("l0", "l1", "l2")


def collected(store: SqliteStore, settings: Settings) -> dict[str, Any]:
    """The whole status, in the shape of the JSON."""
    process = owner(settings.home)
    trouble = problem(settings.home)
    listing = places.logs(settings)
    files, unreadable = file_states(store, listing, settings.record.max_line_bytes)
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
        "lines": msgspec.structs.asdict(store.status.lines()),
        "dedup": dedup_stats(store),
        "quarantine": msgspec.structs.asdict(store.status.quarantine()),
        "unreadable": unreadable,
        "links_not_followed": [{"path": path, "target": target} for path, target in listing.links],
        "sessions": {
            each.name: each.sessions for each in sorted(store.session_groups("agent"), key=lambda each: each.name)
        },
        "search_backlog": store.search_index.backlog,
        "rules": rules_status(store, settings),
        "retention": _retention(store, settings),
        "database_bytes": store.status.size(),
        "files": files,
    }


def rules_status(store: SqliteStore, settings: Settings) -> dict[str, Any]:
    """Which rules are on, dry and paused, and whether they are run."""
    process, states = rules_owner(settings.home), store.rules.states()
    active = [in_force(rule, states.get(rule.name)) for rule in all_rules(settings).rules.values()]
    paused = {name: state.paused for name, state in states.items() if state.paused is not None}
    return {
        "running": process is not None,
        "pid": process,
        "on": [rule.name for rule in active if rule.mode == "on" and rule.name not in paused],
        "dry": [rule.name for rule in active if rule.mode == "dry" and rule.name not in paused],
        "paused": [rule.name for rule in active if rule.mode != "off" and rule.name in paused],
    }


def file_states(
    store: SqliteStore, listing: Listing, max_line_bytes: int
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Every file that exists or was read, with its offset, and files that could not be read."""
    from agenttrace.record.files.kinds import is_recorded
    from agenttrace.record.files.reader import stored_path

    present = {stored_path(found.path): found for found in listing.files}
    rows = functools.cache(lambda: dict(store.files.rows()))
    unreadable = [{"path": path, "reason": reason} for path, reason in listing.unreadable]
    files = []
    for file in store.status.files():
        found = present.pop(file.path, None)
        state = _state(file, found.size if found is not None else _size(file.path))
        if state["behind"] and found is not None and _is_unsized(found):
            # What its size says is a guess: other tables grow, and a document may be written anew with nothing new.
            state["behind"] *= not is_recorded(found, rows().get(file.path), max_line_bytes)
        files.append(state)
        if file.error is not None:
            unreadable.append({"path": file.path, "reason": file.error})
    files += [_unread(path, found.size) for path, found in present.items()]
    return files, unreadable


def _is_unsized(found: FoundFile) -> bool:
    """Whether the size of a file does not tell how much of it is recorded."""
    return found.path.endswith(".zst") or (found.agent is not None and not found.agent.writes_lines)


def _state(file: FileStatus, size: int | None) -> dict[str, Any]:
    """A file that was read, and its size now."""
    compressed = file.path.endswith(".zst")
    if size is None or (compressed and size == file.size):
        behind = 0
    else:
        behind = max(0, size - (0 if compressed else file.offset))
    return {
        "path": file.path,
        "offset": file.offset,
        "size": size,
        "behind": behind,
        "lines": file.lines,
        "quarantined": file.quarantined,
        "counted_only": file.counted_only,
        "generation": file.generation,
        "lost_bytes": file.lost_bytes,
        "last_read_at": iso(round(file.read_at * 1e6)) if file.read_at else None,
        "gone": size is None or file.gone_at is not None,
        "error": file.error,
    }


def _size(path: str) -> int | None:
    from agenttrace.record.files.stored_paths import path_on_disk

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


def _retention(store: SqliteStore, settings: Settings) -> dict[str, Any]:
    """What the clean-up removed so far; ``days`` 0: sessions are kept for ever."""
    removed = msgspec.structs.asdict(store.retention.report())
    last = removed.pop("last_run_at")
    return {
        "days": settings.retention.days,
        "last_run_at": None if last is None else iso(round(last * 1e6)),
        "removed": removed,
    }


def dedup_stats(store: SqliteStore) -> dict[str, Any]:
    """Hits and hit rates of the three tiers since the store was created, named as ``get_stats`` names them."""
    found = store.status.dedup()
    hits = {"l0": found.l0_hits, "l1": found.l1_hits, "l2": found.l2_hits}
    asked = sum(hits.values()) + found.misses
    return {
        "db_total_events": found.events,
        "db_sessions": found.sessions,
        "db_path": str(store.path),
        **{f"{tier}_hits": number for tier, number in hits.items()},
        "misses": found.misses,
        **{f"{tier}_hit_rate": (number / asked if asked else 0.0) for tier, number in hits.items()},
    }
