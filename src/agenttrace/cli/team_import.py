"""``agenttrace team import``: the history of a team's machines, from copies of their stores or files of changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED, INTERRUPTED, described
from agenttrace.cli.options import AsJson
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.cli.progress import ImportProgress
    from agenttrace.cli.stopping import Stop
    from agenttrace.config import Settings
    from agenttrace.store.team import TeamStore
    from agenttrace.team.importing import Imported, Source

EPILOG = """
  agenttrace team import /srv/old-stores              the directory names the machine
  agenttrace team import backup/agenttrace.db --machine desk --person amy
  agenttrace team import desk.changes.zst            what agenttrace team export wrote
  agenttrace team import /srv/old-stores --store clickhouse://db/agenttrace

A second import brings what is new. Sessions of a machine that joins later are shown once.
"""

PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Directories, stores (agenttrace.db), or files of team export.")
]


def import_stores(
    paths: PathsArgument,
    store: Annotated[
        str | None, typer.Option(metavar="STORE", help="A path or clickhouse://…", show_default="the server's")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="NAME", help="The machine of the one store.", show_default="its directory")
    ] = None,
    person: Annotated[str, typer.Option(metavar="NAME", help="Whose machines these are.")] = "",
    as_json: AsJson = False,
) -> None:
    """Import the history of machines from copies of their stores, or what team export wrote, into the team's store."""
    from agenttrace.cli.progress import ImportProgress
    from agenttrace.cli.stopping import stop_event
    from agenttrace.config import ensure_home
    from agenttrace.store import open_team_store
    from agenttrace.store.team_place import source_of
    from agenttrace.team.importing import sources

    settings = opening.settings()
    found = sources(paths, machine)
    ensure_home(settings)
    with (
        open_team_store(source_of(settings, store).target, settings=settings) as team,
        stop_event() as stop,
        ImportProgress(enabled=not as_json and output.is_terminal()) as progress,
    ):
        outcomes = _import_all(team, found, person, settings, stop, progress)
        if not stop.is_set():
            progress.index(team, stop)
    _report(outcomes, len(found), as_json=as_json)
    if stop.is_set():
        output.note("Interrupted: the same command continues from there.", "yellow")
        raise typer.Exit(INTERRUPTED)
    if any(each.problem or each.quarantined for each in outcomes):
        raise typer.Exit(FAILED)


def _import_all(
    team: TeamStore, found: list[Source], person: str, settings: Settings, stop: Stop, progress: ImportProgress
) -> list[Imported]:
    from agenttrace.calendar import day_finder
    from agenttrace.team.file_import import import_file
    from agenttrace.team.importing import Imported, import_store, rows_to_import

    day_of = day_finder(settings.usage.timezone)
    progress.expect(rows_to_import(team, found), "rows")
    outcomes = []
    for source in found:
        if stop.is_set():
            break
        try:
            if source.mark is None:
                outcome = import_store(
                    team, source, person=person, day_of=day_of, stop=stop.is_set, on_rows=progress.advance
                )
            else:
                outcome = import_file(
                    team,
                    source,
                    person=person,
                    home=settings.home,
                    day_of=day_of,
                    stop=stop.is_set,
                    on_rows=progress.advance,
                )
        except Exception as error:
            # One store that cannot be read is no reason to leave out the others.
            problem = " ".join(described(error)).strip()
            place = str(source.path)
            outcome = Imported(machine=source.machine, path=place, rows=0, events=0, known=False, problem=problem)
        outcomes.append(outcome)
    return outcomes


def _report(outcomes: list[Imported], stores: int, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"machines": [msgspec.structs.asdict(each) for each in outcomes], "stores": stores})
        return
    for each in outcomes:
        if each.problem:
            output.complain(f"{each.machine}: {each.problem}")
        elif each.known:
            output.say(f"{each.machine}: nothing new")
        else:
            rows, events = figures.counted(each.rows, "row"), figures.counted(each.events, "event")
            output.say(f"{each.machine}: {rows} imported, {events} among them")
        if each.quarantined:
            parts = figures.counted(each.quarantined, "part")
            output.complain(f"{each.machine}: {parts} of {each.path} cannot be read; see {each.quarantine}")
