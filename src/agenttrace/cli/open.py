"""``agenttrace open``: the login link of the console, opened in a browser."""

from __future__ import annotations

import os
import sys
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError
from agenttrace.cli.options import Browser

EPILOG = """
  agenttrace open                  print the link and open it in the browser
  agenttrace open --no-browser     print it only
  agenttrace open --json

The link contains a token that is new at every start of the server and allows everything. The browser gets a cookie
instead, which stays valid after a restart. For scripts: agenttrace token create NAME
"""

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><title>AgentTrace</title>
<p><a href="{link}">AgentTrace</a></p>
"""


def open_console(
    browser: Browser = True,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="The port of the console, if several run.", show_default="newest"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and open nothing.")] = False,
) -> None:
    """Print the link to the running console, and open it in the browser."""
    from urllib.parse import urlsplit

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


def can_open() -> bool:
    """Whether this is a terminal on a machine with a graphical browser."""
    if not output.is_terminal() or "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def open_link(home: Path, link: str) -> bool:
    """Open a link in the browser, through a private file: other users can see the arguments of a process."""
    import webbrowser

    path = home / "consoles" / "open.html"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(_PAGE.format(link=escape(link)))
    try:
        return webbrowser.open(path.as_uri())
    except (webbrowser.Error, OSError):
        return False
