"""``agenttrace team export``: the changes of this machine's store as a file that ``team import`` reads."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import INTERRUPTED, CommandError, UsageError
from agenttrace.cli.options import AsJson
from agenttrace.views import figures

EPILOG = """
  agenttrace team export desk.changes.zst
  agenttrace team export old.changes.zst --from backup/agenttrace.db --machine old-laptop

On the server: agenttrace team import desk.changes.zst
"""


def export_changes(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Written; directories to import are searched for *.changes.zst.")
    ],
    store: Annotated[
        Path | None,
        typer.Option("--from", metavar="STORE", help="An agenttrace.db.", show_default="this machine's"),
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the machine.", show_default="its name in the team")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write everything that a store holds into one compressed file, texts included. Only its owner can read it."""
    from agenttrace.cli.progress import ImportProgress
    from agenttrace.cli.stopping import stop_event
    from agenttrace.store import store_path
    from agenttrace.store.rows import ChangesCursor
    from agenttrace.team.file_import import export_store
    from agenttrace.team.importing import opened, plain_name
    from agenttrace.team.membership import stored_membership

    settings = opening.settings()
    if file.is_dir():
        raise UsageError(f"{file} is a directory", f"Name the file: {file}/desk.changes.zst")
    known = stored_membership(settings.home)
    name = machine or (known.machine if known is not None else platform.node()) or "machine"
    source = store or store_path(settings.home)
    if not source.exists():
        raise CommandError(f"there is no store at {source}", "Record first: agenttrace record --once")
    with stop_event() as stop, ImportProgress(enabled=not as_json and output.is_terminal()) as progress:
        with opened(source) as found:
            progress.expect(found.rows_after(ChangesCursor()), "rows", "Exporting")
        done = export_store(source, plain_name(name), file, stop=stop.is_set, on_rows=progress.advance)
    if done is None:
        output.note("Interrupted: nothing was written.", "yellow")
        raise typer.Exit(INTERRUPTED)
    rows, events = figures.counted(done.rows, "row"), figures.counted(done.events, "event")
    text = f"{done.path}: {rows} of {done.machine}, {events} among them, {figures.size(done.bytes)}"
    output.answer(msgspec.structs.asdict(done), text, as_json=as_json)
