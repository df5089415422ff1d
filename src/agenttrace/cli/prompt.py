"""One short line for a shell prompt; fast, and never in the way.

Whatever goes wrong, it prints an empty line and ends well: a prompt must not break because a store is busy.
"""

from __future__ import annotations

import sqlite3
import time


def print_line() -> None:
    """Print the line, or an empty one."""
    try:
        print(line())
    except Exception:
        print()


def line() -> str:
    """``2 working, 1 waiting, $4.20 today``."""
    found = today()
    parts = [f"{found[state]} {state}" for state in ("working", "waiting") if found[state]]
    if found["cost_text"] != "–":
        parts.append(f"{found['cost_text']} today")
    return ", ".join(parts) or "idle"


def today() -> dict[str, object]:
    """Who is active now, and what was used since midnight."""
    from agenttrace.cli.money import cost_text
    from agenttrace.cli.progress import active_counts
    from agenttrace.config import load_settings
    from agenttrace.record.calendar import day_finder
    from agenttrace.store.sqlite.reading import usage_rows
    from agenttrace.views.money import cashier

    settings = load_settings()
    path = settings.home / "agenttrace.db"
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.2)
    try:
        working, waiting = active_counts(connection, settings.record.stale_minutes)
        today = day_finder(settings.usage.timezone)(time.time_ns() // 1000)
        bill = cashier(settings).bill(usage_rows(connection, since_day=today))
    finally:
        connection.close()
    return {"working": working, "waiting": waiting, **bill.cost_fields(), "cost_text": cost_text(bill)}
