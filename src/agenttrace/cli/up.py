"""``agenttrace up``: recorder, console and worker in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agenttrace.cli import errors, opening, output
from agenttrace.cli.asking import explained
from agenttrace.cli.errors import INTERRUPTED
from agenttrace.cli.invocation import program_line, temporary_environment
from agenttrace.cli.open import can_open, open_link
from agenttrace.cli.options import Browser, Host, Port
from agenttrace.cli.record import follow, import_now, keep_recording, recording
from agenttrace.cli.serve import announce
from agenttrace.cli.stopping import Stop, beside
from agenttrace.config import Settings, load_settings
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.views import figures, places

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from agenttrace.record.files.discover import FoundFile
    from agenttrace.record.formats.contract import Agent

EPILOG = """
  agenttrace up                 record, serve the console, run jobs; Ctrl-C stops it
  agenttrace up --port 9000     another port
  agenttrace up --no-browser    print the link and do not open it
  agenttrace                    the live view of what is recorded, in another terminal
  agenttrace demo               the same with demo data

LLM applications of your own are called if they are configured; agenttrace apps shows which variables they need.
"""

_HEAD_BYTES = 65_536


def up(
    host: Host = None,
    port: Port = None,
    browser: Browser = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found, and the summary at the end, as JSON lines.")
    ] = False,
) -> None:
    """Record all agents of this machine, serve the console and run applications, in the foreground."""
    output.show_warnings()
    settings = load_settings(flags={"serve.host": host, "serve.port": port})
    with recording(settings) as (lock, stop), run_half(settings, until=stop, as_json=as_json, browser=browser):
        found = what_is_there(settings)
        if as_json:
            told = {"found": found, "destinations": _destinations(settings), "rules": _rules(settings)}
            output.print_json(told, one_line=True)
        else:
            show_found(found)
            _show_rules(_rules(settings))
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


def _rules(settings: Settings) -> list[dict[str, str]]:
    """The rules that are on."""
    from agenttrace.views.rule_checks import active_rules

    return [
        {"name": each.name, "mode": "paused" if each.paused else each.mode, "on": each.on}
        for each in active_rules(settings)
    ]


def _show_rules(rules: list[dict[str, str]]) -> None:
    if rules:
        names = [each["name"] if each["mode"] == "on" else f"{each['name']} ({each['mode']})" for each in rules]
        output.wrapped(output.styled("Rules: ", "bold"), output.styled(", ".join(names)))


def run_half(settings: Settings, *, until: Stop, as_json: bool, browser: bool = False) -> AbstractContextManager[None]:
    """Server and worker beside the recorder; if they do not start, this is reported and recording continues."""

    async def main(stop: asyncio.Event) -> None:
        from agenttrace.serve.process import ServerReady, run_process

        def on_ready(ready: ServerReady) -> None:
            announce(ready, as_json=as_json, brief=True)
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
            program=program_line(anywhere=True),
        )

    return beside(main, _not_serving, until=until)


def _not_serving(error: BaseException) -> None:
    problem, fix = errors.described(error)
    output.complain(f"the server does not run; recording continues: {problem}", fix)


def what_is_there(settings: Settings) -> list[dict[str, Any]]:
    """Sessions and bytes of each agent; of new files only the beginning is read."""
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
    """Agent and session of each recorded file."""
    from agenttrace.record.formats.contract import Source

    # Without a readable store, agent and session are found in the files.
    known = {}
    with suppress(msgspec.MsgspecError, *STORE_FAILURES), opening.opened_store(settings) as store:
        for path, data in store.status.sources().items():
            source = msgspec.json.decode(data, type=Source)
            known[path] = (source.agent, source.session_id)
    return known


def _whose(agents: Sequence[Agent], found: FoundFile) -> tuple[str, str]:
    """The agent and the session of a file, by its first lines or else by its directory."""
    head = _head(found.path)
    order = sorted(agents, key=lambda agent: agent is not found.agent)
    sources = (agent.recognise(Path(found.path), head) for agent in order) if head else iter(())
    source = next((each for each in sources if each is not None), None)
    if source is not None:
        return source.agent, source.session_id
    return (found.agent.name if found.agent is not None else ""), found.path


def _head(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def show_found(found: list[dict[str, Any]]) -> None:
    """``Claude Code: 214 sessions, 1.2 GB``, one line an agent; those without logs in one line."""
    from agenttrace.record.formats import AGENTS

    # One file of theirs has many sessions, which are counted when they are recorded.
    mixed = {agent.name for agent in AGENTS if agent.traits.mixes_sessions}
    output.say("Found on this machine:", "bold")
    for each in sorted(found, key=lambda each: -each["bytes"]):
        number, unit = each["sessions"], "log" if each["agent"] in mixed else "session"
        if number:
            output.say(f"  {each['title']}: {figures.counted(number, unit)}, {figures.size(each['bytes'])}")
    if absent := sorted((each["title"] for each in found if not each["sessions"]), key=str.casefold):
        output.wrapped(output.styled("  no logs of: ", "dim"), output.styled(", ".join(absent), "dim"))


def _next_steps(something: bool) -> None:
    program = program_line()
    if not something:
        output.say("No agent has written logs here yet. Leave this running and use one,", "bold")
        output.say("or load demo data: with the button on the page, or in another terminal:")
        output.say(f"  {program} demo load")
        return
    output.say("Everything is recorded. See it in the browser (link above), or in another terminal:", "bold")
    if temporary_environment() is not None:
        output.say(f"  {program}")
        output.say("      the live view: sessions, what they do, usage, search")
        output.say("  uv tool install agenttrace && agenttrace service install")
        output.say("      keep recording without this terminal")
        return
    for command, meaning in (
        ("", "the live view: sessions, what they do, usage, search"),
        ("open", "print the link to the console again"),
        ("usage", "tokens and cost by day"),
        ("search TEXT", "search prompts, answers and tool calls"),
        ("rules", "what to start when an agent waits, ends, fails"),
        ("service install", "keep recording without this terminal"),
    ):
        output.say(f"  {program} {command:<16} {meaning}")
