"""Checks of ``agenttrace doctor``; each returns what it found and how to fix it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from agenttrace.prices.table import PriceTable, without_effect
from agenttrace.record.health import problem
from agenttrace.record.lock import owner
from agenttrace.store import open_store, store_path
from agenttrace.store.errors import STORE_FAILURES, is_corruption
from agenttrace.views import figures, places
from agenttrace.views.prices import file_trouble, tables_used
from agenttrace.views.trouble import REBUILD

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.files.discover import FoundFile, Listing
    from agenttrace.record.formats.contract import LogCleanup
    from agenttrace.store.batch import FileRow
    from agenttrace.store.sqlite.store import SqliteStore

_LITTLE_SPACE = 100_000_000
_SOME_SPACE = 1_000_000_000
#: Tables of settings: their values are not shown, as they may be secrets.
_TABLES = ("prices.", "destinations.", "rules.", "actions.", "budgets.")
#: How long before a deletion it is worth a warning, in days.
_NEAR = 5


class Finding(NamedTuple):
    """One finding."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


def machine() -> Iterator[Finding]:
    """Python, SQLite, and what they bring along."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{version} at {sys.executable}")
    yield _sqlite()
    yield _descriptors()


def _sqlite() -> Finding:
    from agenttrace.store.sqlite import library

    found = f"SQLite {library.VERSION}"
    if not library.is_new_enough():
        return Finding("sqlite", "fail", found, "Use a Python that comes with SQLite 3.35 or newer.")
    if not library.has_full_text():
        return Finding("sqlite", "fail", f"{found} without FTS5", "Use a Python whose SQLite has full text search.")
    return Finding("sqlite", "ok", f"{found} with full text search")


def _descriptors() -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("open files", "ok", "no limit of this kind here")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 512:
        return Finding("open files", "warn", f"limited to {soft}", "Raise the limit: ulimit -n 1024")
    return Finding("open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"up to {soft:,}")


def settings_in_use(settings: Settings) -> Finding:
    """Settings that are not the default, with where they come from."""
    changed = [
        f"{name} ({origin})" if name.startswith(_TABLES) else f"{name} = {settings.shown(name)} ({origin})"
        for name, origin in sorted(settings.origins.items())
    ]
    return Finding("settings", "ok", "; ".join(changed) or "all default")


def prices(settings: Settings) -> Finding:
    """Which price table is used, and what of the user's own prices has no effect."""
    table = PriceTable.load(settings)
    trouble = file_trouble(table)
    if trouble is not None:
        return Finding("prices", "warn", *trouble)
    idle = without_effect((*table.overrides, *table.newer))
    if idle:
        told = "; ".join(f"{model}: {', '.join(parts)}" for model, parts in idle.items())
        return Finding("prices", "warn", f"without effect: {told}", "Remove these parts: see docs/prices.md.")
    return Finding("prices", "ok", tables_used(table))


# -- the data directory ---------------------------------------------------------------------------------------


def data_directory(settings: Settings) -> Iterator[Finding]:
    """Permissions and space."""
    home = settings.home
    if not home.exists():
        yield Finding("data directory", "ok", f"{home} does not exist yet; the first recording creates it")
        return
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data directory", "fail", f"{home} cannot be used", f"Make it yours: chmod 700 '{home}'")
        return
    yield _private(home)
    yield _space(home)


def _private(home: Path) -> Finding:
    if os.name == "nt":
        return Finding("data directory", "ok", str(home))
    open_to_others = [path for path in (home, store_path(home)) if path.exists() and _others(path)]
    if open_to_others:
        names = " ".join(f"'{path}'" for path in open_to_others)
        fix = f"Close it to others: chmod go-rwx {names}"
        return Finding("data directory", "fail", f"{home} can be read by other users", fix)
    return Finding("data directory", "ok", f"{home}, readable by you alone")


def _others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _space(home: Path) -> Finding:
    free = shutil.disk_usage(home).free
    found = f"{figures.size(free)} free"
    if free < _LITTLE_SPACE:
        return Finding("disk space", "fail", found, "Free some space; recording waits until there is some.")
    if free < _SOME_SPACE:
        return Finding("disk space", "warn", found, "Free some space, or remove old sessions: agenttrace prune")
    return Finding("disk space", "ok", found)


# -- the store ------------------------------------------------------------------------------------------------


def store(settings: Settings) -> Iterator[Finding]:
    """Whether the store is sound, and what waits in it."""
    if not places.store_path(settings).exists():
        yield Finding("store", "warn", "nothing recorded yet", "Record what is there: agenttrace record --once")
        return
    try:
        opened = open_store(settings)
    except STORE_FAILURES as error:
        yield Finding("store", "fail", str(error), REBUILD)
        return
    try:
        yield _sound(opened)
        yield from _waiting(opened)
    except STORE_FAILURES as error:
        yield Finding(
            "store", "fail", str(error), REBUILD if is_corruption(error) else "Try again when it is not busy."
        )
    finally:
        opened.close()


def _sound(opened: SqliteStore) -> Finding:
    if problems := opened.status.problems():
        return Finding("store", "fail", "; ".join(problems), REBUILD)
    return Finding("store", "ok", f"{opened.path}, {figures.size(opened.status.size())}, sound")


def _waiting(opened: SqliteStore) -> Iterator[Finding]:
    if held := opened.quarantine.waiting():
        fix = "Look at it: agenttrace quarantine list; after an upgrade: agenttrace quarantine retry"
        found = f"{figures.counted(held, 'entry', 'entries')} could not be parsed"
        if more := opened.status.counted_only():
            found += f", {figures.counted(more, 'further line')} only counted"
        yield Finding("quarantine", "warn", found, fix)
    else:
        yield Finding("quarantine", "ok", "empty")
    for file in opened.status.files():
        if file.error is not None:
            yield Finding("reading", "warn", f"{file.path}: {file.error}", _unread_fix(file.error))
    if lost := opened.status.lost_bytes():
        fix = "Keep the recorder running: agenttrace service install"
        yield Finding("lost bytes", "warn", f"{figures.size(lost)} were cut off before they could be read", fix)


def _unread_fix(reason: str) -> str:
    from agenttrace.record.files.databases import DAMAGED

    if DAMAGED in reason:
        return "If it stays so, repair or restore it: what was recorded stays, and the rest is read once it can be."
    return "It is read as soon as that is over; nothing else waits for it."


# -- recording ------------------------------------------------------------------------------------------------


def recorder(settings: Settings) -> Iterator[Finding]:
    """Whether a recorder runs, and why recording fails."""
    process = owner(settings.home)
    trouble = problem(settings.home)
    if trouble is not None:
        fix = "It is retried automatically. If that does not help, run: agenttrace record --once"
        yield Finding("recording", "fail", trouble.told, fix)
    if process is None:
        fix = "Start it: agenttrace up; or for good: agenttrace service install"
        yield Finding("recorder", "warn", "not running", fix)
    else:
        yield Finding("recorder", "ok", f"running, process {process or 'unknown'}")


def agents(settings: Settings, listing: Listing) -> Iterator[Finding]:
    """What the agents of this machine have written."""
    from agenttrace.record.formats import AGENTS

    wanted = [agent for agent in AGENTS if not settings.record.agents or agent.name in settings.record.agents]
    homes = _homes(settings)
    parts, absent = [], []
    for agent in wanted:
        files = [found for found in listing.files if found.agent is not None and found.agent.name == agent.name]
        size = figures.size(sum(found.size for found in files))
        place = homes.get(agent.name, "")
        if files:
            parts.append(f"{agent.title}: {figures.counted(len(files), 'log')}, {size}{place}")
        else:
            absent.append(agent.title)
    if listing.files:
        none = [f"no logs of {', '.join(sorted(absent, key=str.casefold))}"] if absent else []
        yield Finding("agents", "ok", "; ".join(parts + none))
    else:
        fix = "Use an agent, add record.paths to the settings, or try: agenttrace demo"
        yield Finding("agents", "warn", "no logs found", fix)
    for path, reason in listing.unreadable:
        yield Finding("reading", "fail", f"{path}: {reason}", f"Make it readable: chmod u+rx '{path}'")
    for path, target in listing.links:
        fix = "If it is meant to be read: follow_symlinks = true in [record], or add where it leads to record.paths."
        yield Finding("links", "warn", f"{path} leads to {target}, out of the watched directories: not followed", fix)
    for found in listing.files:
        if not os.access(found.path, os.R_OK):
            yield Finding(
                "reading", "fail", f"{found.path}: permission denied", f"Make it readable: chmod u+r '{found.path}'"
            )


def _homes(settings: Settings) -> dict[str, str]:
    """The directories of each agent that are there, by its name."""
    found: dict[str, list[str]] = {}
    for root in places.roots(settings):
        if root.agent is not None and root.path.exists():
            found.setdefault(root.agent.name, []).append(_short(root.path))
    return {name: f" ({', '.join(paths)})" for name, paths in found.items()}


def _short(path: Path) -> str:
    home = os.environ.get("HOME")
    return f"~{os.sep}{path.relative_to(home)}" if home and path.is_relative_to(home) else str(path)


def watching(listing: Listing) -> Iterator[Finding]:
    """Whether the system's limits let every directory be watched."""
    limit = _number(Path("/proc/sys/fs/inotify/max_user_watches"))
    if limit is None:
        return
    needed = len({os.path.dirname(found.path) for found in listing.files})
    if needed > limit // 2:
        fix = "Raise it: sudo sysctl fs.inotify.max_user_watches=524288 (until then changes are found by looking)"
        yield Finding("inotify", "warn", f"{limit:,} watches allowed, {needed:,} directories to watch", fix)
    else:
        yield Finding(
            "inotify", "ok", f"{limit:,} watches allowed, {figures.counted(needed, 'directory', 'directories')}"
        )


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


# -- what the agents delete -----------------------------------------------------------------------------------


def deletions(settings: Settings, listing: Listing) -> Iterator[Finding]:
    """Agents that delete their logs after a while, and logs close to that which are not recorded."""
    from agenttrace.record.formats import AGENTS

    for agent in AGENTS:
        logs = [found for found in listing.files if found.agent is not None and found.agent.name == agent.name]
        for cleanup in agent.cleanups([Path(found.path) for found in logs]):
            mine = [found for found in logs if found.path.startswith(str(cleanup.directory) + os.sep)]
            yield _deletion(settings, agent.title, mine, cleanup)


def _deletion(settings: Settings, title: str, logs: list[FoundFile], cleanup: LogCleanup) -> Finding:
    from agenttrace.record.files.kinds import is_recorded
    from agenttrace.record.files.reader import stored_path

    due = time.time() - max(0.0, cleanup.days - _NEAR) * 86_400
    near = [found for found in logs if found.mtime_ns / 1e9 < due or Path(found.path) in cleanup.surplus]
    rows = _rows(settings) if near else {}
    most = settings.record.max_line_bytes
    unread = [found for found in near if not is_recorded(found, rows.get(stored_path(found.path)), most)]
    found = f"{title} deletes transcripts after {cleanup.days:g} days ({cleanup.origin})"
    if cleanup.most is not None:
        found += f" and all but the latest {cleanup.most} of a project"
    if unread:
        count = figures.counted(len(unread), "log")
        return Finding(
            "retention", "warn", f"{found}; {count} close to it and not recorded", "Now: agenttrace record --once"
        )
    if near:
        return Finding("retention", "ok", f"{found}; {figures.counted(len(near), 'log')} close to it, all recorded")
    return Finding("retention", "ok", f"{found}; none is close to it")


def _rows(settings: Settings) -> dict[str, FileRow | None]:
    """What the store has of each file; nothing if it cannot be read, which is another check."""
    try:
        with open_store(settings) as opened:
            return dict(opened.files.rows())
    except STORE_FAILURES:
        return {}
