"""``agenttrace status``: the state of recording, its backlog and its problems."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.status import collected

EPILOG = """
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
    files: Annotated[bool, typer.Option("--files", help="List every file with its read position.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of recording: recorder, files, backlog, quarantine, store size."""
    settings = opening.settings()
    with opening.opened_store(settings) as store:
        found = collected(store, settings)
    if as_json:
        output.print_json(found)
        return
    _show(found)
    if files:
        output.say()
        print_table(_FILE_COLUMNS, found["files"])


# -- for people -----------------------------------------------------------------------------------------------


def _show(found: dict[str, Any]) -> None:
    running = found["recorder"]["running"]
    if running:
        output.fact("recorder", f"running (process {found['recorder']['pid'] or 'unknown'})", "green")
    else:
        output.fact(
            "recorder", "not running; start it with: agenttrace up, or for good: agenttrace service install", "yellow"
        )
    if found["recorder"]["problem"] is not None:
        output.fact("problem", f"recording fails and is tried again: {found['recorder']['problem']}", "red")
    behind = found["behind_bytes"]
    lag = f"{figures.size(behind)} in {figures.counted(found['behind_files'], 'file')}" if behind else "nothing"
    if found["unreadable"]:
        lag += "; unknown of what cannot be read" if not behind else ", and what cannot be read"
    output.fact("behind", lag, "yellow" if behind or found["unreadable"] else "")
    output.fact("files", f"{figures.count(found['file_count'])}, {figures.size(found['read_bytes'])} read")
    sessions = ", ".join(f"{name} {figures.count(number)}" for name, number in found["sessions"].items())
    output.wrapped(output.styled(f"{'sessions':<13}", "dim"), output.styled(sessions or "none yet"))
    lines = found["lines"]
    output.fact(
        "lines",
        f"{figures.count(lines['lines'])}: {figures.count(lines['recorded'])} recorded, "
        f"{figures.count(lines['duplicate'])} duplicate, {figures.count(lines['ignored'])} ignored, "
        f"{figures.count(lines['quarantined'])} quarantined",
    )
    _show_problems(found)
    backlog = found["search_backlog"]
    output.fact("search", f"{figures.counted(backlog, 'event')} to be indexed" if backlog else "up to date")
    _show_rules(found["rules"])
    output.fact("retention", _retention(found["retention"]))
    output.fact("database", f"{figures.size(found['database_bytes'])} in {found['home']}")
    output.say()
    _show_tiers(found["dedup"])


def _show_rules(found: dict[str, Any]) -> None:
    parts = [f"{', '.join(found[mode])} {mode}" for mode in ("on", "dry", "paused") if found[mode]]
    if not parts:
        output.fact("rules", "none is on; see: agenttrace rules")
        return
    stopped = "" if found["running"] else "; not run now, start them with: agenttrace up"
    output.fact("rules", "; ".join(parts) + stopped, "yellow" if stopped or found["paused"] else "")


def _retention(found: dict[str, Any]) -> str:
    days, removed = found["days"], found["removed"]["sessions"]
    kept = f"sessions are removed after {figures.counted(days, 'day')}" if days else "sessions are kept for ever"
    if found["last_run_at"] is None:
        return f"{kept}; no clean-up yet"
    gone = f", {figures.counted(removed, 'session')} removed so far" if removed else ""
    return f"{kept}; last clean-up {found['last_run_at'][:16].replace('T', ' ')}{gone}"


def _show_problems(found: dict[str, Any]) -> None:
    waiting, counted = found["quarantine"]["open"], found["quarantine"]["counted_only"]
    if waiting or counted:
        more = f", {figures.counted(counted, 'further line')} only counted" if counted else ""
        entries = figures.counted(waiting, "entry", "entries")
        output.fact("quarantine", f"{entries}{more}; see: agenttrace quarantine list", "yellow")
    if found["lost_bytes"]:
        output.fact("lost", f"{figures.size(found['lost_bytes'])} were cut off before they could be read", "red")
    _show_some("unreadable", [f"{each['path']}: {each['reason']}" for each in found["unreadable"]], "red")
    links = [f"{each['path']} leads to {each['target']}: not followed" for each in found["links_not_followed"]]
    _show_some("links", links, "yellow")


def _show_some(name: str, lines: list[str], style: str) -> None:
    for line in lines[:10]:
        output.fact(name, line, style)
    if len(lines) > 10:
        output.fact("", f"and {len(lines) - 10} more")


def _show_tiers(dedup: dict[str, Any]) -> None:
    asked = sum(dedup[f"{tier}_hits"] for tier in _TIERS) + dedup["misses"]
    found = [(tier.upper(), meaning, dedup[f"{tier}_hits"]) for tier, meaning in _TIERS.items()]
    columns: tuple[Column[tuple[str, str, int]], ...] = (
        Column("dedup", lambda row: row[0]),
        Column("answered by", lambda row: row[1]),
        Column("hits", lambda row: figures.count(row[2]), right=True),
        Column("rate", lambda row: f"{row[2] / asked if asked else 0:.1%}", right=True),
    )
    print_table(columns, [*found, ("", "new events", dedup["misses"])])


_FILE_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("offset", lambda file: figures.count(file["offset"]), right=True),
    Column("size", lambda file: "gone" if file["size"] is None else figures.count(file["size"]), right=True),
    Column("behind", lambda file: figures.count(file["behind"]), right=True),
    Column("lines", lambda file: figures.count(file["lines"]), right=True, optional=1),
    Column("file", lambda file: one_line(file["path"]), least=20, keep_end=True),
)
