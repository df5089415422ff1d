"""Opening the console in a browser, without its token in any process's arguments."""

from __future__ import annotations

import os
import sys
from html import escape
from pathlib import Path

from agenttrace.cli import output

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><title>AgentTrace</title>
<p><a href="{link}">AgentTrace</a></p>
"""


def can_open() -> bool:
    """Whether a person sits at this machine, with a browser that has a window of its own."""
    if not output.is_terminal() or "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def open_link(home: Path, link: str) -> bool:
    """Have the browser open a link; every user sees the arguments of a process, so a private file leads it there."""
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
