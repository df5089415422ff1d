"""``agenttrace statusline`` as a command with options; ``prompt.py`` makes the line."""

from __future__ import annotations

from agenttrace.cli import output, prompt
from agenttrace.cli.options import AsJson

EPILOG = """
  PS1='$(agenttrace statusline) \\$ '               in a shell prompt
  set -g status-right '#(agenttrace statusline)'   in tmux

It prints something like: 2 working, 1 waiting, $4.20 today, shop 82%. Called by Claude Code as its status line, it
shows model, cost, limits and budget, and stores the limits: agenttrace hooks install claude-code --statusline
"""


def statusline(as_json: AsJson = False) -> None:
    """Print one short line for a shell prompt: working and waiting sessions, cost of today, most used budget."""
    if not as_json:
        prompt.print_line()
        return
    try:
        output.print_json(prompt.today())
    except Exception as error:
        output.print_json({"working": None, "waiting": None, "cost": None, "error": str(error)})
