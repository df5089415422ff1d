"""``agenttrace demo``: generated sessions of every agent, and applications, in a temporary home directory."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError
from agenttrace.cli.invocation import program_line
from agenttrace.cli.options import Browser, OnlyJson, Port
from agenttrace.cli.record import import_now, recording
from agenttrace.cli.tail import Printer, new_events, recorder_thread
from agenttrace.config import ensure_home
from agenttrace.prices.costing import Cashier
from agenttrace.store.questions import UsageQuery
from agenttrace.views import figures, money
from agenttrace.views.events import EventReader
from agenttrace.views.usage import usage_report

if TYPE_CHECKING:
    from agenttrace.cli.demo_apps import Facts
    from agenttrace.config import Settings

EPILOG = """
  agenttrace demo                       half a minute, or until Ctrl-C
  agenttrace demo --console             in the browser, live until Ctrl-C
  agenttrace demo --seconds 5 --keep    keep the data to explore it
  agenttrace demo --no-apps             agents only
  agenttrace demo load                  demo sessions in your own console
  agenttrace demo remove                remove them again

Without load or remove your own logs and data are neither read nor changed: the demo uses a temporary home directory.
"""

Action = Literal["load", "remove"]
_DONE = {
    ("load", True): "Demo sessions are loaded. agenttrace demo remove removes them again.",
    ("load", False): "The demo sessions were loaded before.",
    ("remove", True): "The demo sessions are removed.",
    ("remove", False): "The recorder is still removing the demo sessions; it will finish without this command.",
}


def demo(
    action: Annotated[
        Action | None, typer.Argument(help="Load demo sessions into your own data, or remove them.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long it runs; 0: until Ctrl-C.")] = 30.0,
    speed: Annotated[float, typer.Option(min=0.01, help="Speed factor.")] = 2.0,
    days: Annotated[int, typer.Option(min=0, max=365, help="Days of history to generate.")] = 28,
    seed: Annotated[int, typer.Option(help="Seed of the generated data.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data directory of the demo.")] = False,
    apps: Annotated[bool, typer.Option("--apps/--no-apps", help="Include applications.")] = True,
    console: Annotated[bool, typer.Option("--console", help="Open the console, until Ctrl-C.")] = False,
    port: Port = None,
    browser: Browser = True,
    as_json: OnlyJson = False,
) -> None:
    """Run a demo: generated sessions of every agent, then applications with limits, a breaker and a budget."""
    from agenttrace.cli import demo_console
    from agenttrace.demo.writer import environment, past

    if action is not None:
        _change_data(action, as_json=as_json)
        return
    home = Path(tempfile.mkdtemp(prefix="agenttrace-demo-"))
    variables = {"HOME": str(home), "AGENTTRACE_HOME": str(home / ".agenttrace"), **environment(home)}
    try:
        # Settings of the user, such as destinations and a database, are not those of the demo.
        for name in [name for name in os.environ if name.startswith("AGENTTRACE_")]:
            del os.environ[name]
        os.environ.update(variables)
        (home / ".agenttrace").mkdir(mode=0o700)
        past(home, days=days, seed=seed)
        if console:
            opened = browser and not as_json and output.is_terminal()
            demo_console.show(home, port=port, speed=speed, seed=seed, as_json=as_json, browser=opened)
            return
        settings = opening.settings()
        facts = _run(settings, home, seconds=seconds, speed=speed, seed=seed, quiet=as_json, apps=apps)
        if as_json:
            output.print_json(_fields(settings, variables if keep else None) | {"apps": facts})
        else:
            _closing_words(settings, variables, keep=keep)
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def _change_data(action: Action, *, as_json: bool) -> None:
    """Load demo sessions into the store of the settings, or remove them."""
    from agenttrace.record import demo_data

    settings = opening.settings()
    ensure_home(settings)
    try:
        done = (demo_data.load if action == "load" else demo_data.remove)(settings)
    except demo_data.DemoBusyError as error:
        raise CommandError(str(error), "") from None
    if as_json:
        output.print_json({"state": demo_data.state(settings.home), "changed": done})
    else:
        output.say(_DONE[action, done])


def _run(
    settings: Settings, home: Path, *, seconds: float, speed: float, seed: int, quiet: bool, apps: bool
) -> Facts | None:
    from agenttrace.demo.writer import play

    with recording(settings) as (lock, stop):
        if not quiet:
            output.say(f"Six agents at work in {home}; their logs are recorded as they are written.", "bold")
        import_now(settings, lock, stop, quiet=quiet, index=False)
        writer = threading.Thread(target=play, args=(home,), kwargs={"speed": speed, "seed": seed, "stop": stop})
        with recorder_thread(settings, stop):
            writer.start()
            _watch(settings, stop, time.monotonic() + seconds if seconds else float("inf"), quiet=quiet)
            interrupted = stop.is_set()
            stop.set()
            writer.join()
        facts = _apps(quiet=quiet) if apps and not interrupted else None
        # What was written in the last instant, and the search index.
        import_now(settings, lock, threading.Event(), quiet=True)
    return facts


def _apps(*, quiet: bool) -> Facts | None:
    from agenttrace.cli.demo_apps import play, settings_for_apps
    from agenttrace.run.availability import INSTALL, is_installed

    if not is_installed():
        output.note(f"Applications are not shown: the run half is not installed. {INSTALL}")
        return None
    return asyncio.run(play(settings_for_apps(), quiet=quiet))


def _watch(settings: Settings, stop: threading.Event, deadline: float, *, quiet: bool) -> None:
    """The live tail of the demo's store."""
    printer = Printer(as_json=False, everything=False)
    with opening.opened_store(settings) as store:
        for event in new_events(EventReader(store), store, stop, store.last_event(), deadline=deadline):
            if not quiet:
                printer.show(event)


def _fields(settings: Settings, variables: dict[str, str] | None) -> dict[str, Any]:
    with opening.opened_store(settings) as store:
        report = usage_report(store, Cashier.load(settings), UsageQuery(by="agent"))
        sessions = store.sessions()
    return {
        "home": None if variables is None else variables["HOME"],
        "environment": variables,
        "sessions": len(sessions),
        "events": sum(session.events for session in sessions),
        "total": report.total.fields(),
        "rows": [{"agent": each.name, **each.bill.fields()} for each in report.groups],
    }


def _closing_words(settings: Settings, variables: dict[str, str], *, keep: bool) -> None:
    with opening.opened_store(settings) as store:
        report = usage_report(store, Cashier.load(settings), UsageQuery(by="agent"))
    output.say()
    output.say("What they used:", "bold")
    for each in report.groups:
        output.say(
            f"  {opening.agent_title(each.name):<18} {figures.counted(each.bill.requests, 'request'):>14}  "
            f"{figures.tokens(each.bill.tokens['output_tokens']):>8} tokens out  {money.cost_text(each.bill)}"
        )
    output.say()
    if not keep:
        output.say(f"The data of the demo is removed. To keep it: {program_line()} demo --keep")
        return
    output.say("Explore it (the data stays until you delete it):", "bold")
    home = variables["AGENTTRACE_HOME"]
    for command in ("sessions", "usage --by model", "search retry", "status"):
        output.say(f"  AGENTTRACE_HOME={home} {program_line()} {command}")
