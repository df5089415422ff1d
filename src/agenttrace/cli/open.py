"""``agenttrace open``: the link that lets a browser of this machine into the console."""

from __future__ import annotations

from typing import Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError

EPILOG = """
[bold]Examples[/bold]

  agenttrace open                  print the link and open it in the browser

  agenttrace open --no-browser     print it only

  agenttrace open --json

The link holds a token that is made at every start of the server; who has it may do everything. The browser keeps a
cookie instead, which outlives a restart. For scripts: agenttrace token create NAME
"""


def open_console(
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")] = True,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="The console's port, if several run.", show_default="newest"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and open nothing.")] = False,
) -> None:
    """Print the link to the running console, and open it in the browser."""
    from urllib.parse import urlsplit

    from agenttrace.cli.browser import can_open, open_link
    from agenttrace.serve.access.link import running_consoles

    settings = opening.settings()
    running = running_consoles(settings.home)
    found = next((each for each in running if port is None or urlsplit(each.url).port == port), None)
    if found is None:
        raise _nothing_runs(port, [each.url for each in running])
    link = found.link or found.url
    if as_json:
        output.print_json({"url": found.url, "link": link, "token": found.link is not None})
        return
    output.say(link)
    if browser and can_open() and not open_link(settings.home, link):
        output.note("No browser could be opened; copy the link.", "yellow")


def _nothing_runs(port: int | None, others: list[str]) -> CommandError:
    if others:
        return CommandError(f"no console runs at port {port}", f"Running: {', '.join(others)}")
    return CommandError("no console runs for this data directory", "Start it: agenttrace up")
