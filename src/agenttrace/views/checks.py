"""What ``agenttrace doctor`` looks at; each check says what it found and, if that is wrong, how to put it right."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from agenttrace.views import figures, places
from agenttrace.views.status import counted_only, database_bytes

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.discover import Listing

REBUILD = "Rebuild it with agenttrace record --once: the damaged file is kept, what can be read of it is saved."
#: The oldest SQLite whose features the store uses (upsert, window of FTS5 options).
OLDEST_SQLITE = (3, 35, 0)
_LITTLE_SPACE = 100_000_000
_SOME_SPACE = 1_000_000_000
#: Claude Code's own default, in days.
CLAUDE_PERIOD = 30
#: Settings that are tables: what is in them is not shown, as it may be a secret.
_TABLES = ("prices.", "destinations.")
#: How long before a deletion it is worth a warning, in days.
_NEAR = 5


class Check(NamedTuple):
    """One finding."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


def machine() -> Iterator[Check]:
    """Python, SQLite, and what they bring along."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", "ok", f"{version} at {sys.executable}")
    yield _sqlite()
    yield _descriptors()


def _sqlite() -> Check:
    found = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Check("sqlite", "fail", found, "Use a Python that comes with SQLite 3.35 or newer.")
    try:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(text)")
        connection.close()
    except sqlite3.OperationalError:
        return Check("sqlite", "fail", f"{found} without FTS5", "Use a Python whose SQLite has full text search.")
    return Check("sqlite", "ok", f"{found} with full text search")


def _descriptors() -> Check:
    try:
        import resource
    except ImportError:
        return Check("open files", "ok", "no limit of this kind here")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 512:
        return Check("open files", "warn", f"limited to {soft}", "Raise the limit: ulimit -n 1024")
    return Check("open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"up to {soft:,}")


def settings_in_use(settings: Settings) -> Check:
    """Settings that are not the default, with where they come from."""
    changed = [
        f"{name} ({origin})" if name.startswith(_TABLES) else f"{name} = {settings.shown(name)} ({origin})"
        for name, origin in sorted(settings.origins.items())
    ]
    return Check("settings", "ok", "; ".join(changed) or "all default")


def prices(settings: Settings) -> Check:
    """Which price table is used, and what of the user's own prices has no effect."""
    from agenttrace.prices import PriceTable, without_effect
    from agenttrace.views.prices import file_trouble, tables_used

    table = PriceTable.load(settings)
    trouble = file_trouble(table)
    if trouble is not None:
        return Check("prices", "warn", *trouble)
    idle = without_effect((*table.overrides, *table.newer))
    if idle:
        told = "; ".join(f"{model}: {', '.join(parts)}" for model, parts in idle.items())
        return Check("prices", "warn", f"without effect: {told}", "Remove these parts: see docs/prices.md.")
    return Check("prices", "ok", tables_used(table))


# -- the data directory ---------------------------------------------------------------------------------------


def data_directory(settings: Settings) -> Iterator[Check]:
    """Permissions and space."""
    home = settings.home
    if not home.exists():
        yield Check("data directory", "ok", f"{home} does not exist yet; the first recording creates it")
        return
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Check("data directory", "fail", f"{home} cannot be used", f"Make it yours: chmod 700 '{home}'")
        return
    yield _private(home)
    yield _space(home)


def _private(home: Path) -> Check:
    if os.name == "nt":
        return Check("data directory", "ok", str(home))
    open_to_others = [path for path in (home, home / "agenttrace.db") if path.exists() and _others(path)]
    if open_to_others:
        names = " ".join(f"'{path}'" for path in open_to_others)
        fix = f"Close it to others: chmod go-rwx {names}"
        return Check("data directory", "fail", f"{home} can be read by other users", fix)
    return Check("data directory", "ok", f"{home}, readable by you alone")


def _others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _space(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    found = f"{figures.size(free)} free"
    if free < _LITTLE_SPACE:
        return Check("disk space", "fail", found, "Free some space; recording waits until there is some.")
    if free < _SOME_SPACE:
        return Check("disk space", "warn", found, "Free some space, or remove old sessions: agenttrace prune")
    return Check("disk space", "ok", found)


# -- the store ------------------------------------------------------------------------------------------------


def store(settings: Settings) -> Iterator[Check]:
    """Whether the store is sound, and what waits in it."""
    from agenttrace.store.errors import StoreError
    from agenttrace.store.sqlite.database import connect, is_corruption

    path = places.store_path(settings)
    if not path.exists():
        yield Check("store", "warn", "nothing recorded yet", "Record what is there: agenttrace record --once")
        return
    try:
        connection = connect(path, read_only=True)
    except (StoreError, sqlite3.Error) as error:
        yield Check("store", "fail", str(error), REBUILD)
        return
    try:
        yield _sound(connection, path)
        yield from _waiting(connection)
    except sqlite3.Error as error:
        yield Check("store", "fail", str(error), REBUILD if is_corruption(error) else "Try again when it is not busy.")
    finally:
        connection.close()


def _sound(connection: sqlite3.Connection, path: Path) -> Check:
    result = connection.execute("PRAGMA quick_check(5)").fetchall()
    if result != [("ok",)]:
        return Check("store", "fail", "; ".join(str(row[0]) for row in result), REBUILD)
    return Check("store", "ok", f"{path}, {figures.size(database_bytes(path))}, sound")


def _waiting(connection: sqlite3.Connection) -> Iterator[Check]:
    held = connection.execute("SELECT count(*) FROM quarantine WHERE resolved_at IS NULL").fetchone()[0]
    if held:
        fix = "Look at it: agenttrace quarantine list; after an upgrade: agenttrace quarantine retry"
        found = f"{figures.counted(held, 'entry', 'entries')} not understood and set aside"
        if more := counted_only(connection):
            found += f", {figures.counted(more, 'further line')} only counted"
        yield Check("quarantine", "warn", found, fix)
    else:
        yield Check("quarantine", "ok", "empty")
    lost = connection.execute("SELECT coalesce(sum(lost_bytes), 0) FROM file_offsets").fetchone()[0]
    if lost:
        fix = "Keep the recorder running: agenttrace service install"
        yield Check("lost bytes", "warn", f"{figures.size(lost)} were cut off before they could be read", fix)


# -- recording ------------------------------------------------------------------------------------------------


def recorder(settings: Settings) -> Iterator[Check]:
    """Whether somebody records, and whether the system lets it notice changes."""
    from agenttrace.record.health import problem
    from agenttrace.record.lock import owner

    process = owner(settings.home)
    trouble = problem(settings.home)
    if trouble is not None:
        fix = "It is tried again by itself. If that does not help: agenttrace record --once says more."
        yield Check("recording", "fail", trouble.told, fix)
    if process is None:
        fix = "Start it: agenttrace up; or for good: agenttrace service install"
        yield Check("recorder", "warn", "not running", fix)
    else:
        yield Check("recorder", "ok", f"running, process {process or 'unknown'}")


def agents(settings: Settings, listing: Listing) -> Iterator[Check]:
    """What the agents of this machine have written."""
    from agenttrace.record.agents import AGENTS

    wanted = [agent for agent in AGENTS if not settings.record.agents or agent.name in settings.record.agents]
    parts = []
    for agent in wanted:
        files = [found for found in listing.files if found.agent is not None and found.agent.name == agent.name]
        size = figures.size(sum(found.size for found in files))
        parts.append(
            f"{agent.title}: {figures.counted(len(files), 'log')}, {size}" if files else f"{agent.title}: none"
        )
    if listing.files:
        yield Check("agents", "ok", "; ".join(parts))
    else:
        fix = "Use an agent, add record.paths to the settings, or try: agenttrace demo"
        yield Check("agents", "warn", "no logs found", fix)
    for path, reason in listing.unreadable:
        yield Check("reading", "fail", f"{path}: {reason}", f"Make it readable: chmod u+rx '{path}'")
    for path, target in listing.links:
        fix = "If it is meant to be read: follow_symlinks = true in [record], or add where it leads to record.paths."
        yield Check("links", "warn", f"{path} leads to {target}, out of the watched directories: not followed", fix)
    for found in listing.files:
        if not os.access(found.path, os.R_OK):
            yield Check(
                "reading", "fail", f"{found.path}: permission denied", f"Make it readable: chmod u+r '{found.path}'"
            )


def watching(listing: Listing) -> Iterator[Check]:
    """Whether the system's limits let every directory be watched."""
    limit = _number(Path("/proc/sys/fs/inotify/max_user_watches"))
    if limit is None:
        return
    needed = len({os.path.dirname(found.path) for found in listing.files})
    if needed > limit // 2:
        fix = "Raise it: sudo sysctl fs.inotify.max_user_watches=524288 (until then changes are found by looking)"
        yield Check("inotify", "warn", f"{limit:,} watches allowed, {needed:,} directories to watch", fix)
    else:
        yield Check(
            "inotify", "ok", f"{limit:,} watches allowed, {figures.counted(needed, 'directory', 'directories')}"
        )


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


# -- what the agents delete -----------------------------------------------------------------------------------


def deletions(settings: Settings, listing: Listing) -> Iterator[Check]:
    """Claude Code deletes its transcripts; what is not recorded by then is gone."""
    logs = [found for found in listing.files if found.agent is not None and found.agent.name == "claude-code"]
    if not logs:
        return
    for base, period, origin in claude_periods(logs_in={str(Path(found.path)) for found in logs}):
        mine = [found for found in logs if found.path.startswith(str(base) + os.sep)]
        yield _deletion(settings, mine, period, origin)


def _deletion(settings: Settings, logs: list, period: float, origin: str) -> Check:  # type: ignore[type-arg]
    days = f"{period:g} days"
    due = time.time() - max(0.0, period - _NEAR) * 86_400
    near = [found for found in logs if found.mtime_ns / 1e9 < due]
    offsets = recorded_offsets(settings)
    unread = [found for found in near if offsets.get(found.path, 0) < found.size]
    found = f"Claude Code deletes transcripts after {days} ({origin})"
    if unread:
        count = figures.counted(len(unread), "log")
        return Check(
            "retention", "warn", f"{found}; {count} close to it and not recorded", "Now: agenttrace record --once"
        )
    if near:
        return Check("retention", "ok", f"{found}; {figures.counted(len(near), 'log')} close to it, all recorded")
    return Check("retention", "ok", f"{found}; none is close to it")


def claude_periods(logs_in: set[str]) -> Iterator[tuple[Path, float, str]]:
    """Each configuration directory with logs in it, and after how many days it deletes them."""
    import msgspec

    bases = sorted(
        {Path(path.split(f"{os.sep}projects{os.sep}")[0]) for path in logs_in if f"{os.sep}projects{os.sep}" in path}
    )
    for base in bases:
        period, origin = float(CLAUDE_PERIOD), "its default; cleanupPeriodDays is not set"
        for name in ("settings.json", "settings.local.json"):
            try:
                value = msgspec.json.decode((base / name).read_bytes())
            except (OSError, msgspec.MsgspecError):
                continue
            days = value.get("cleanupPeriodDays") if isinstance(value, dict) else None
            if isinstance(days, int | float) and not isinstance(days, bool) and days >= 0:
                period, origin = float(days), f"cleanupPeriodDays in {base / name}"
        yield base, period, origin


def recorded_offsets(settings: Settings) -> dict[str, int]:
    """How far each file is recorded."""
    from agenttrace.store.sqlite.database import connect

    try:
        with closing(connect(places.store_path(settings), read_only=True)) as connection:
            return dict(connection.execute("SELECT filepath, offset FROM file_offsets").fetchall())
    except Exception:
        return {}
