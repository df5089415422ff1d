"""``agenttrace prune``: remove the content of old sessions and keep their tokens and cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import UsageError
from agenttrace.cli.options import AsJson, DryRun, Yes
from agenttrace.cli.search import bring_up_to_date
from agenttrace.cli.stopping import stop_event
from agenttrace.views import figures, times

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.sqlite.retention import Pruned
    from agenttrace.store.sqlite.store import SqliteStore

EPILOG = """
  agenttrace prune --older-than 90d --dry-run    show what would be removed
  agenttrace prune --older-than 90d              ask, then remove
  agenttrace prune --older-than 52w --yes --vacuum

Tokens and cost of pruned sessions stay in agenttrace usage. Reading the same log files again does not bring them
back, and what rules fired for is not fired again. Without --older-than, the setting retention.days applies; while it
is set, agenttrace up and record prune automatically.
"""


def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="SPAN", help="Sessions inactive for longer: 90d, 12w."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Shrink the database file afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the content of old sessions, and the log of rules; tokens and cost stay."""
    from agenttrace.record import maintenance

    settings = opening.settings()
    now = time.time()
    cutoff = now - _seconds(settings, older_than)
    with opening.opened_store(settings) as store:
        planned = store.retention.measure(cutoff)._replace(firings=store.rules.measure(cutoff, now))
        logs = len(maintenance.recorded_logs(store.files, settings.home, cutoff))
    if dry_run:
        _report(planned, cutoff, logs, done=False, as_json=as_json)
        return
    if (planned.sessions or planned.firings or logs) and not yes:
        _report(planned, cutoff, logs, done=False, as_json=False)
        fix = "Add --yes to prune, or --dry-run to see what would be removed."
        output.confirm("Remove it?", fix=fix, refused="nothing was removed")
    removed, logs = _prune(settings, cutoff, quiet=as_json, vacuum=vacuum)
    _report(removed, cutoff, logs, done=True, as_json=as_json)


def _seconds(settings: Settings, older_than: str | None) -> float:
    if older_than is not None:
        return times.parse_span(older_than).total_seconds()
    if settings.retention.days == 0:
        raise UsageError(
            "no age is given, and retention.days is 0: sessions are kept for ever",
            "Give one: agenttrace prune --older-than 90d. Or set retention.days in agenttrace.toml.",
        )
    return settings.retention.days * 86_400.0


def _prune(settings: Settings, cutoff: float, *, quiet: bool, vacuum: bool) -> tuple[Pruned, int]:
    from agenttrace.record import maintenance

    with opening.opened_store(settings, read_only=False) as store, stop_event() as stop:
        removed = store.retention.prune(cutoff, stop=stop.is_set)
        removed = removed._replace(firings=_prune_firings(store, cutoff, stop.is_set))
        logs = maintenance.remove_recorded_logs(store.files, settings.home, cutoff)
        for _ in maintenance.run(store, settings, days=0):
            if stop.is_set():
                break
        if removed.sessions:
            store.search_index.reset()
        if vacuum:
            store.compact()
    if removed.sessions:
        bring_up_to_date(settings, quiet=quiet)
    return removed, logs


def _prune_firings(store: SqliteStore, cutoff: float, stop: Callable[[], bool]) -> int:
    removed = 0
    for firings in store.rules.prune(cutoff, time.time()):
        removed += firings
        if stop():
            break
    return removed


def _report(pruned: Pruned, cutoff: float, logs: int, *, done: bool, as_json: bool) -> None:
    if as_json:
        before = times.iso(round(cutoff * 1e6))
        output.print_json({**pruned._asdict(), "log_files": logs, "before": before, "dry_run": not done})
        return
    since = figures.clock(round(cutoff * 1e6))
    verb = "Removed" if done else "Would remove"
    if logs:
        output.say(f"{verb} {figures.counted(logs, 'log')} of spans that were received before {since}.")
    if pruned.firings:
        fired = figures.counted(pruned.firings, "entry", "entries")
        output.say(f"{verb} {fired} of the log of rules from before {since}. What fired is not fired again.")
    if not pruned.sessions:
        if not logs and not pruned.firings:
            output.say(f"No session is older than {since}; there is nothing to remove.")
        return
    output.say(
        f"{verb} {figures.counted(pruned.sessions, 'session')} silent since {since}: "
        f"{figures.counted(pruned.events, 'event')}, {figures.counted(pruned.spans, 'span')}, "
        f"{figures.size(pruned.bytes)} of raw lines. Their tokens and cost stay."
    )
