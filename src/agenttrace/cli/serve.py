"""``agenttrace serve`` and ``agenttrace worker``: server and worker without a recorder, on any number of machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import output
from agenttrace.cli.asking import database_errors, described_catalog, require_run_half
from agenttrace.cli.errors import UsageError
from agenttrace.cli.invocation import program_line
from agenttrace.cli.options import AsJsonLine, Host, Port
from agenttrace.cli.stopping import until_stopped
from agenttrace.config import Settings, load_settings
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.serve.process import ServerReady

SERVE_EPILOG = """
  agenttrace serve                        HTTP at 127.0.0.1:8317; workers run the jobs
  agenttrace serve --host 10.0.0.5        for other machines
  AGENTTRACE_DATABASE_URL=postgresql://db/agenttrace agenttrace serve --port 9000
"""

WORKER_EPILOG = """
  agenttrace worker                       runs jobs until Ctrl-C, then drains
  agenttrace worker --concurrency 40      more concurrent jobs

Start any number of workers, on one machine or on several with the same AGENTTRACE_DATABASE_URL. When a worker dies,
another takes over its jobs and does not repeat finished steps.
"""


def serve(
    host: Host = None,
    port: Port = None,
    as_json: AsJsonLine = False,
) -> None:
    """Serve the console, triggers and chat over HTTP, without a recorder and without a worker."""
    _run(load_settings(flags={"serve.host": host, "serve.port": port}), role="server", as_json=as_json)


def worker(
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Concurrent jobs.", show_default="10")
    ] = None,
    as_json: AsJsonLine = False,
) -> None:
    """Run queued jobs."""
    require_run_half()
    settings = load_settings(flags={"run.worker_concurrency": concurrency})
    catalog, _, advice = described_catalog(settings)
    if all(app.missing for app in catalog.apps.values()):
        raise UsageError(
            advice or "the catalog has no applications", "See agenttrace apps; then start the worker again."
        )
    _run(settings, role="worker", as_json=as_json)


def _run(settings: Settings, *, role: str, as_json: bool) -> None:
    from agenttrace.serve.process import run_process

    output.show_warnings()

    async def main(stop: asyncio.Event) -> None:
        await run_process(
            settings,
            role=role,
            server=role == "server",
            worker=role == "worker",
            stop=stop,
            on_ready=lambda ready: announce(ready, as_json=as_json),
            program=program_line(anywhere=True),
        )

    with database_errors(settings.database.url):
        until_stopped(main, drain_seconds=settings.run.drain_seconds)
    if not as_json:
        output.say("Stopped. Jobs that were running are finished, or stay queued for another worker.")


def announce(ready: ServerReady, *, as_json: bool, brief: bool = False) -> None:
    """Print the address of the console, and what is missing; with ``brief`` no variables of applications."""
    if as_json:
        problem = ready.problem if ready.used else None
        fields = {"url": ready.url, "worker": ready.worker, "missing": ready.missing, "problem": problem}
        output.print_json(fields, one_line=True)
        return
    if ready.url is not None:
        also = "" if brief else " (with triggers, chat, /api/v1, /metrics)"
        output.say(f"The console is at {shown_link(ready)}{also}", "bold")
    if ready.link is not None and not output.stdout().is_terminal:
        output.say(f"To log in with a browser: {program_line()} open")
    if ready.open_to_all:
        output.note(
            'serve.login is "none": every user and every program of this machine can read and change everything in the '
            f"console. Remove the setting, and log in with the link of {program_line()} open.",
            "yellow",
        )
    if ready.locked:
        output.note(f"There is no user yet. Add one with: {program_line()} user add NAME --role admin", "yellow")
    if ready.problem is not None and ready.used:
        output.complain(f"applications cannot run; recording continues: {ready.problem}", "")
    if ready.worker:
        output.say("Running jobs. Ctrl-C drains and stops.", "bold")
    if ready.used and ready.missing and brief:
        output.note(f"{_callable(ready)}; see: {program_line()} apps")
    elif ready.used and ready.missing:
        output.note(
            f"{_callable(ready)}; {_missing(ready.missing)}. Everything else works; "
            f"see {program_line()} apps for the variables of each application.",
            "yellow",
        )
    elif not ready.used and not brief:
        output.note(ready.problem or "")


def _callable(ready: ServerReady) -> str:
    if not ready.ready_apps:
        return "No application can be called yet"
    return f"{figures.counted(ready.ready_apps, 'application')} can be called"


def shown_link(ready: ServerReady) -> str:
    """The address to show: with its token only at a terminal, as other output may end up in a log."""
    return (ready.link if output.stdout().is_terminal else None) or ready.url or ""


def _missing(names: Sequence[str]) -> str:
    """The variables that are not set, and the new names of old ones."""
    from agenttrace.run.catalog.config import MissingVariablesError, check_variables

    try:
        check_variables(names, os.environ)
    except MissingVariablesError as error:
        return str(error)
    return "the variables were set after the start"
