"""``agenttrace mcp``: the MCP server, which lets agents query recorded sessions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agenttrace.cli import output

EPILOG = """
  agenttrace mcp                                  start the server, as agents do
  agenttrace mcp --json                           the tools and their arguments
  claude mcp add agenttrace -- agenttrace mcp     add it to Claude Code

See docs/mcp.md for Codex, Kimi, Cursor and VS Code.
"""


def mcp(
    full: Annotated[bool, typer.Option("--full", hidden=True)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tools as JSON and exit.")] = False,
) -> None:
    """Serve recorded sessions to agents over the Model Context Protocol on stdin and stdout, read-only."""
    from agenttrace.mcp import server

    if as_json:
        tools = [
            server.described(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in server.TOOLS
        ]
        output.print_json(tools)
        return
    if sys.stdin.isatty():
        output.note("Waiting for an agent on stdin. Add it to one: claude mcp add agenttrace -- agenttrace mcp")
    output.show_warnings()
    if full:
        # Configurations of earlier versions still have it.
        output.note("--full has no effect any more: what an agent reads goes to its provider, so secrets are masked.")
    server.serve()
