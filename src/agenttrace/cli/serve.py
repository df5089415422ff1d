"""``agenttrace serve`` and ``agenttrace worker``: the run half alone, on as many machines as wanted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import output
from agenttrace.cli.errors import UsageError
from agenttrace.views import figures

if TYPE_CHECKING:
    import asyncio

    from agenttrace.config import Settings
    from agenttrace.serve.process import ServerReady

SERVE_EPILOG = """
[bold]Examples[/bold]

  agenttrace serve                        HTTP at 127.0.0.1:8317; workers run the jobs

  agenttrace serve --host 10.0.0.5        for other machines

  AGENTTRACE_DATABASE_URL=postgresql://db/agenttrace agenttrace serve --port 9000
"""

WORKER_EPILOG = """
[bold]Examples[/bold]

  agenttrace worker                       runs jobs until Ctrl-C, then drains

  agenttrace worker --concurrency 40      more concurrent jobs

Start as many as you like, on one machine or on several with the same AGENTTRACE_DATABASE_URL. One that dies loses
nothing: another takes its jobs over and does not repeat what was done.
"""


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0: any free one.", show_default="8317")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say what runs as a line of JSON.")] = False,
) -> None:
    """Serve the console, triggers and chat over HTTP, without a recorder and without a worker."""
    from agenttrace.config import load_settings

    _run(load_settings(flags={"serve.host": host, "serve.port": port}), role="server", as_json=as_json)


def worker(
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Concurrent jobs.", show_default="10")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say what runs as a line of JSON.")] = False,
) -> None:
    """Run queued jobs."""
    from agenttrace.cli.asking import described_catalog, require_run_half
    from agenttrace.config import load_settings

    require_run_half()
    settings = load_settings(flags={"run.worker_concurrency": concurrency})
    catalog, _, advice = described_catalog(settings)
    if all(app.missing for app in catalog.apps.values()):
        raise UsageError(
            advice or "the catalog has no applications", "See agenttrace apps; then start the worker again."
        )
    _run(settings, role="worker", as_json=as_json)


def _run(settings: Settings, *, role: str, as_json: bool) -> None:
    from agenttrace.cli.asking import database_errors
    from agenttrace.cli.running import until_stopped
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
        )

    with database_errors(settings.database.url):
        until_stopped(main, drain_seconds=settings.run.drain_seconds)
    if not as_json:
        output.say("Stopped: what was begun is finished or recorded.")


def announce(ready: ServerReady, *, as_json: bool) -> None:
    """Say what runs, and what is missing."""
    if as_json:
        told = {"url": ready.url, "worker": ready.worker, "missing": ready.missing}
        told["problem"] = ready.problem if ready.used else None
        output.print_json(told, one_line=True)
        return
    if ready.url is not None:
        output.say(f"The console is at {shown_link(ready)} (with triggers, chat, /api/v1, /metrics)", "bold")
    if ready.link is not None and not output.stdout().is_terminal:
        output.say("The link that lets a browser in: agenttrace open")
    if ready.open_to_all:
        output.note(
            'serve.login is "none": every user and every program of this machine can read and change everything in the '
            "console. Remove the setting, and agenttrace open prints a link that lets your browser in.",
            "yellow",
        )
    if ready.locked:
        output.note("Nobody can log in to it yet. Add somebody with: agenttrace user add NAME --role admin", "yellow")
    if ready.problem is not None and ready.used:
        output.complain(f"no application can be run, recording goes on: {ready.problem}", "")
    if ready.worker:
        output.say("Carrying out jobs. Ctrl-C drains and stops.", "bold")
    can = f"{figures.counted(ready.ready_apps, 'application')} can be called" if ready.ready_apps else ""
    if not ready.used:
        output.note(ready.problem or "")
    elif ready.missing:
        output.note(
            f"{can or 'No application can be called yet'}; {_missing(ready.missing)}. Everything else works; "
            "agenttrace apps shows what belongs where.",
            "yellow",
        )


def shown_link(ready: ServerReady) -> str:
    """The address to show: with its token at a terminal alone, as anything else may be kept as a log."""
    return (ready.link if output.stdout().is_terminal else None) or ready.url or ""


def _missing(names: Sequence[str]) -> str:
    """What is not set, and what old names are called now."""
    from agenttrace.run.catalog.config import MissingVariablesError, check_variables

    try:
        check_variables(names, os.environ)
    except MissingVariablesError as error:
        return str(error)
    return "the variables were set after the start"
