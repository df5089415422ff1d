"""``agenttrace quarantine``: lines that could not be understood, kept with place and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.quarantine import entry_fields

if TYPE_CHECKING:
    from agenttrace.record.ingest.quarantine import Outcome
    from agenttrace.store.sqlite.quarantine import Entry
    from agenttrace.store.sqlite.store import SqliteStore

EPILOG = """
[bold]Examples[/bold]

  agenttrace quarantine list          quarantined lines with their reasons

  agenttrace quarantine show 3        one line, whole

  agenttrace quarantine retry         retry all, after an upgrade
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_SHOWN_BYTES = 20_000


@app.command("list")
def list_entries(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved lines.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="The maximum number of rows; 0: all.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List quarantined lines, newest first."""
    with opening.opened_store(opening.settings()) as store:
        found = store.quarantine.entries(resolved=everything, limit=limit or -1)
        counted = store.status.counted_only()
    if as_json:
        output.print_json([entry_fields(entry) for entry in found])
    elif not found:
        output.say("Nothing is in quarantine: every line was understood.")
    else:
        _show_list(found)
    if counted:
        told = figures.counted(counted, "further line")
        output.note(f"{told} could not be understood either: only counted, by record.quarantine_lines and its like.")


def _show_list(found: list[Entry]) -> None:
    columns = (
        Column("id", right=True),
        Column("found", right=True),
        Column("bytes", right=True),
        Column("offset", right=True, optional=1),
        Column("reason", least=20),
        Column("file", least=16, keep_end=True),
    )
    rows: list[list[Any]] = [
        [
            str(entry.quarantine_id),
            figures.clock(round(entry.found_at * 1e6)),
            figures.count(entry.length),
            figures.count(entry.offset),
            one_line(entry.reason) + (" (resolved)" if entry.resolved_at else ""),
            one_line(entry.filepath),
        ]
        for entry in found
    ]
    print_table(columns, rows)
    output.note("Next: agenttrace quarantine show ID, agenttrace quarantine retry")


@app.command("show")
def show_entry(
    quarantine_id: Annotated[int, typer.Argument(metavar="ID", help="A number from the list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one quarantined line."""
    with opening.opened_store(opening.settings()) as store:
        entry = _one(store, quarantine_id)
    kept = entry.kept()
    if as_json:
        text = None if kept is None else kept.decode("utf-8", "backslashreplace")
        output.print_json({**entry_fields(entry), "line": text})
        return
    for name, value in entry_fields(entry).items():
        output.say(f"{name:<14} {'–' if value is None else value}")
    output.say()
    if kept is None:
        output.say("The line was too long to be kept; its place in the file is above.")
        return
    output.say(kept[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    if len(kept) > _SHOWN_BYTES:
        output.note(f"The first {_SHOWN_BYTES:,} of {len(kept):,} bytes; all of them with --json.")


@app.command("retry")
def retry_entries(
    quarantine_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="A number from the list; without one, all of them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Retry quarantined lines, and record those that can be parsed now."""
    from agenttrace.record.ingest.quarantine import retry
    from agenttrace.record.lock import RecorderLock

    settings = opening.settings()
    with opening.opened_store(settings):
        pass  # a store that does not exist is not created by asking for it
    with RecorderLock(settings.home), opening.opened_store(settings, read_only=False) as store:
        chosen = store.quarantine.entries() if quarantine_id is None else [_one(store, quarantine_id)]
        waiting = [entry for entry in chosen if entry.resolved_at is None]
        outcomes = retry(store, settings, waiting)
    if as_json:
        output.print_json(
            [{**entry_fields(each.entry), "result": each.result, "detail": each.detail} for each in outcomes]
        )
    else:
        _show_outcomes(outcomes)


def _show_outcomes(outcomes: list[Outcome]) -> None:
    if not outcomes:
        output.say("Nothing is waiting in quarantine.")
        return
    for each in outcomes:
        style = "green" if each.result != "unchanged" else ""
        detail = f": {each.detail}" if each.detail else ""
        output.say(f"{each.entry.quarantine_id:>6}  {each.result}{detail}", style)
    solved = sum(1 for each in outcomes if each.result != "unchanged")
    output.say(f"{solved} of {figures.counted(len(outcomes), 'entry', 'entries')} resolved.")


def _one(store: SqliteStore, quarantine_id: int) -> Entry:
    found = store.quarantine.entries(only=quarantine_id)
    if not found:
        raise CommandError(f"there is no entry {quarantine_id}", "See which there are: agenttrace quarantine list")
    return found[0]
