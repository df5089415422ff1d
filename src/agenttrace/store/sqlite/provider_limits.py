"""Windows of the providers' limits, as the logs of agents have them.

The end of one window moves by seconds from line to line, as agents compute it from the time that is left. So a window
whose end is near that of a stored one is that one: a threshold of it is crossed once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from agenttrace.store.questions import ProviderWindow

_MINUTE = 60_000_000
#: Ends that are nearer to each other belong to one window. No provider has a window of less than an hour.
NEAR = 5 * _MINUTE
#: Older windows are removed when a newer one is stored.
_KEPT = 40 * 24 * 60 * _MINUTE
_COLUMNS = ("agent", "name", "resets_at", "window_minutes", "used_percent", "at", "plan", "source")

_KNOWN = """
SELECT resets_at FROM provider_limits
WHERE agent = ? AND name = ? AND resets_at BETWEEN ? AND ? ORDER BY abs(resets_at - ?) LIMIT 1
"""

_PUT = f"""
INSERT INTO provider_limits ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (agent, name, resets_at) DO UPDATE SET
    window_minutes = excluded.window_minutes, used_percent = excluded.used_percent, at = excluded.at,
    plan = excluded.plan, source = excluded.source
WHERE excluded.at >= at
"""

_FORGET = "DELETE FROM provider_limits WHERE agent = ? AND name = ? AND resets_at < ?"

#: SQLite takes the other columns from the row with the maximum.
_LATEST = f"SELECT {', '.join(_COLUMNS)}, max(at) FROM provider_limits GROUP BY agent, name"


def write_windows(connection: sqlite3.Connection, windows: Iterable[ProviderWindow]) -> None:
    """Store windows inside the transaction of a batch; of one window the latest report counts."""
    for window in windows:
        place = (window.agent, window.name)
        end = window.resets_at
        known = connection.execute(_KNOWN, (*place, end - NEAR, end + NEAR, end)).fetchone()
        values = {name: getattr(window, name) for name in _COLUMNS}
        connection.execute(_PUT, list((values | {"resets_at": known[0] if known else end}).values()))
        connection.execute(_FORGET, (*place, end - _KEPT))


def windows_since(connection: sqlite3.Connection, since: int) -> list[ProviderWindow]:
    """The last report of every window that is stored and was told of since a moment, in the order of reports."""
    query = f"SELECT {', '.join(_COLUMNS)} FROM provider_limits WHERE at >= ? ORDER BY at"
    return [ProviderWindow(**dict(zip(_COLUMNS, row, strict=True))) for row in connection.execute(query, (since,))]


def latest_windows(connection: sqlite3.Connection) -> list[ProviderWindow]:
    """Of each window the latest report, expired or not."""
    return [ProviderWindow(**dict(zip(_COLUMNS, row, strict=False))) for row in connection.execute(_LATEST)]
