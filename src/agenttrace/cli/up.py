"""``agenttrace up``: record what is on this machine, show it in the browser, and run applications beside it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import errors, opening, output
from agenttrace.cli.errors import INTERRUPTED
from agenttrace.views import figures, places

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager

    from agenttrace.cli.stopping import Stop
    from agenttrace.config import Settings
    from agenttrace.record.files.discover import FoundFile
    from agenttrace.record.formats.contract import Agent

EPILOG = """
[bold]Examples[/bold]

  agenttrace up                 find, import, follow, serve; Ctrl-C stops it

  agenttrace up --port 9000     the server somewhere else

  agenttrace up --no-browser    print the link and do not open it

  agenttrace demo               the same with demo data

Without DASHSCOPE_* variables everything works but the calls to applications; agenttrace apps says what is missing.
"""

_HEAD_BYTES = 65_536


def up(
    host: Annotated[str | None, typer.Option(help="The address of the server.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The server's port; 0: any free port.", show_default="8317"),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the console in the browser (at a terminal).")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found, and the summary at the end, as JSON lines.")
    ] = False,
) -> None:
    """Record all agents of this machine, serve the console and run applications, in the foreground."""
    from agenttrace.cli.record import follow, import_now, keep_recording, recording
    from agenttrace.config import load_settings

    output.show_warnings()
    settings = load_settings(flags={"serve.host": host, "serve.port": port})
    with recording(settings) as (lock, stop), run_half(settings, until=stop, as_json=as_json, browser=browser):
        found = what_is_there(settings)
        if as_json:
            output.print_json({"found": found, "destinations": _destinations(settings)}, one_line=True)
        else:
            show_found(found)
        keep_recording(settings, stop, lambda: import_now(settings, lock, stop, quiet=as_json))
        if stop.is_set():
            raise typer.Exit(INTERRUPTED)
        if not as_json:
            _next_steps(any(each["sessions"] for each in found))
        summary = keep_recording(settings, stop, lambda: follow(settings, lock, stop, quiet=as_json, export=True))
        if as_json:
            output.print_json(summary, one_line=True)


def _destinations(settings: Settings) -> list[dict[str, object]]:
    return [{"name": each.name, "kind": each.type, "address": each.address} for each in settings.destinations]


def run_half(settings: Settings, *, until: Stop, as_json: bool, browser: bool = False) -> AbstractContextManager[None]:
    """Server and worker beside the recorder; should they not start, recording goes on and says so."""
    from agenttrace.cli.running import beside

    async def main(stop: asyncio.Event) -> None:
        from agenttrace.cli.asking import explained
        from agenttrace.cli.browser import can_open, open_link
        from agenttrace.cli.serve import announce
        from agenttrace.serve.process import ServerReady, run_process

        def on_ready(ready: ServerReady) -> None:
            announce(ready, as_json=as_json)
            if browser and not as_json and ready.link is not None and can_open():
                open_link(settings.home, ready.link)

        await run_process(
            settings,
            role="up",
            server=True,
            worker=True,
            stop=stop,
            on_ready=on_ready,
            explain=lambda error: explained(settings.database.url, error),
        )

    return beside(main, _not_serving, until=until)


def _not_serving(error: BaseException) -> None:
    told = errors.explained(error)
    problem = str(error) or type(error).__name__ if told is None else told.problem
    output.complain(f"the server does not run, recording goes on: {problem}", told.fix if told is not None else "")


def what_is_there(settings: Settings) -> list[dict[str, object]]:
    """Sessions and bytes of each agent, with nothing read but the beginnings of files that are new."""
    from agenttrace.record.formats import AGENTS

    agents = [agent for agent in AGENTS if not settings.record.agents or agent.name in settings.record.agents]
    sessions: dict[str, set[str]] = {agent.name: set() for agent in agents}
    sizes = dict.fromkeys(sessions, 0)
    known = _known_sources(settings)
    for found in places.logs(settings).files:
        agent, session = known.get(found.path) or _whose(agents, found)
        if agent in sessions:
            sessions[agent].add(session)
            sizes[agent] += found.size
    return [
        {"agent": agent.name, "title": agent.title, "sessions": len(sessions[agent.name]), "bytes": sizes[agent.name]}
        for agent in agents
    ]


def _known_sources(settings: Settings) -> dict[str, tuple[str, str]]:
    """Agent and session of each file that was read before."""
    import msgspec

    from agenttrace.record.formats.contract import Source
    from agenttrace.store.errors import STORE_FAILURES

    # A store that is new, old or damaged only means that the files tell.
    known = {}
    with suppress(msgspec.MsgspecError, *STORE_FAILURES), opening.opened_store(settings) as store:
        for path, data in store.status.sources().items():
            source = msgspec.json.decode(data, type=Source)
            known[path] = (source.agent, source.session_id)
    return known


def _whose(agents: Sequence[Agent], found: FoundFile) -> tuple[str, str]:
    """The agent and the session of a file: from its first lines, else by where it is."""
    head = _head(found.path)
    order = sorted(agents, key=lambda agent: agent is not found.agent)
    sources = (agent.recognise(Path(found.path), head) for agent in order) if head else iter(())
    source = next((each for each in sources if each is not None), None)
    if source is not None:
        return source.agent, source.session_id
    return (found.agent.name if found.agent is not None else ""), found.path


def _head(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _HEAD_BYTES)
    finally:
        os.close(descriptor)


def show_found(found: list[dict[str, object]]) -> None:
    """``Claude Code: 214 sessions, 1.2 GB``, one line an agent."""
    output.say("Found on this machine:", "bold")
    for each in sorted(found, key=lambda each: -int(str(each["bytes"]))):
        number = each["sessions"]
        assert isinstance(number, int)
        size = each["bytes"]
        assert isinstance(size, int)
        what = f"{figures.counted(number, 'session')}, {figures.size(size)}" if number else "none"
        output.say(f"  {each['title']}: {what}", "" if number else "dim")


def _next_steps(something: bool) -> None:
    program = _program()
    if something:
        output.say("Everything is recorded. Look at it in the browser (link above), or in another terminal:", "bold")
        for command, meaning in (
            ("open", "the link to the console, once more"),
            ("sessions", "what was worked on"),
            ("usage", "tokens and cost by day"),
            ("tail", "what the agents do, live"),
            ("search TEXT", "find anything that was said"),
            ("service install", "keep recording without this terminal"),
        ):
            output.say(f"  {program} {command:<16} {meaning}")
    else:
        output.say("No agent has written anything here yet. Leave this running and use one,", "bold")
        output.say(f"or see AgentTrace with made-up sessions, in another terminal:  {program} demo")


def _program() -> str:
    """How the user can call this program: by its name where it is on the path, else as it was called."""
    if shutil.which("agenttrace") is not None or not sys.argv[0].endswith("agenttrace"):
        return "agenttrace"
    return os.path.relpath(sys.argv[0])
