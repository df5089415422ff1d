"""``agenttrace statusline`` as a command with options; the line itself is made in ``prompt.py``."""

from __future__ import annotations

from typing import Annotated

import typer

from agenttrace.cli import output, prompt

EPILOG = """
[bold]Examples[/bold]

  PS1='$(agenttrace statusline) \\$ '              in a shell prompt

  set -g status-right '#(agenttrace statusline)'   in tmux

It prints something like: 2 working, 1 waiting, $4.20 today
"""


def statusline(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print one short line for a prompt: working and waiting sessions, cost of today."""
    if not as_json:
        prompt.print_line()
        return
    try:
        output.print_json(prompt.today())
    except Exception as error:
        output.print_json({"working": None, "waiting": None, "cost": None, "error": str(error)})
