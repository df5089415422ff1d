"""``agenttrace quarantine``: lines that could not be parsed, with file, offset and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import CommandError
from agenttrace.cli.options import AsJson, Limit, Number
from agenttrace.record.lock import RecorderLock
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.quarantine import entry_fields

if TYPE_CHECKING:
    from agenttrace.record.ingest.quarantine import Outcome
    from agenttrace.store.sqlite.quarantine import QuarantineEntry
    from agenttrace.store.sqlite.store import SqliteStore

EPILOG = """
  agenttrace quarantine list          quarantined lines with their reasons
  agenttrace quarantine show 3        one line in full
  agenttrace quarantine retry         retry all, after an upgrade
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

_SHOWN_BYTES = 20_000


@app.command("list")
def list_entries(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved lines.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List quarantined lines, newest first."""
    with opening.opened_store(opening.settings()) as store:
        found = store.quarantine.entries(resolved=everything, limit=limit or -1)
        counted = store.status.counted_only()
    print_list(
        found,
        _COLUMNS,
        entry_fields,
        as_json=as_json,
        empty="The quarantine is empty: every line was parsed.",
        hint="Next: agenttrace quarantine show ID, agenttrace quarantine retry",
    )
    if counted:
        more = figures.counted(counted, "further line")
        output.note(f"{more} could not be parsed and were only counted: the limits record.quarantine_* are reached.")


_COLUMNS: tuple[Column[QuarantineEntry], ...] = (
    Column("id", lambda entry: entry.quarantine_id, right=True),
    Column("found", lambda entry: figures.clock(round(entry.found_at * 1e6)), right=True),
    Column("bytes", lambda entry: figures.count(entry.length), right=True),
    Column("offset", lambda entry: figures.count(entry.offset), right=True, optional=1),
    Column("reason", lambda entry: one_line(entry.reason) + (" (resolved)" if entry.resolved_at else ""), least=20),
    Column("file", lambda entry: one_line(entry.filepath), least=16, keep_end=True),
)


@app.command("show")
def show_entry(quarantine_id: Number, as_json: AsJson = False) -> None:
    """Show one quarantined line."""
    with opening.opened_store(opening.settings()) as store:
        entry = _one(store, quarantine_id)
    kept = entry.kept()
    if as_json:
        text = None if kept is None else kept.decode("utf-8", "backslashreplace")
        output.print_json({**entry_fields(entry), "line": text})
        return
    for name, value in entry_fields(entry).items():
        output.fact(name, value, width=15)
    output.say()
    if kept is None:
        output.say("It was too long to be stored; its offset in the file is above.")
        return
    output.say(kept[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    if len(kept) > _SHOWN_BYTES:
        output.note(f"The first {_SHOWN_BYTES:,} of {len(kept):,} bytes; all of them with --json.")


@app.command("retry")
def retry_entries(
    quarantine_id: Annotated[
        int | None, typer.Argument(metavar="ID", help="A number from the list; without one, all of them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Retry quarantined lines, and record those that can be parsed now."""
    from agenttrace.record.ingest.quarantine import retry

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


def _one(store: SqliteStore, quarantine_id: int) -> QuarantineEntry:
    found = store.quarantine.entries(only=quarantine_id)
    if not found:
        raise CommandError(f"there is no entry {quarantine_id}", "See which there are: agenttrace quarantine list")
    return found[0]
