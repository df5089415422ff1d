"""``agenttrace statusline`` as a command with options; ``prompt.py`` makes the line."""

from __future__ import annotations

from typing import Annotated

import typer

from agenttrace.cli import output, prompt
from agenttrace.cli.options import AsJson

EPILOG = """
  PS1='$(agenttrace statusline) \\$ '               in a shell prompt
  set -g status-right '#(agenttrace statusline)'   in tmux

It prints something like: 2 working, 1 waiting, $4.20 today, shop 82%. Called by Claude Code as its status line, it
shows model, cost, limits and budget, and stores the limits: agenttrace hooks install claude-code --statusline

  agenttrace statusline --then 'my-statusline.sh'  in Claude Code: what your own command prints, and this line below it
"""
Then = Annotated[
    str | None,
    typer.Option("--then", metavar="COMMAND", help="Print what this command prints for the same input, then the line."),
]


def statusline(then: Then = None, as_json: AsJson = False) -> None:
    """Print one short line for a shell prompt: working and waiting sessions, cost of today, most used budget."""
    if not as_json:
        prompt.print_line(then)
        return
    try:
        output.print_json(prompt.today())
    except Exception as error:
        output.print_json({"working": None, "waiting": None, "cost": None, "error": str(error)})
