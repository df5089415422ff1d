"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonLine = Annotated[bool, typer.Option("--json", help="Print the address and what is missing as a line of JSON.")]
OnlyJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")]

Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Since this time: 7d, 24h, today, last-week, 2026-11-01, ISO time.")
]
Limit = Annotated[int, typer.Option(min=0, help="The maximum number of rows; 0: all.")]
Agent = Annotated[str | None, typer.Option(metavar="NAME", help="Filter by agent.")]
Project = Annotated[str | None, typer.Option(metavar="TEXT", help="Filter by a part of the working directory.")]
Machine = Annotated[str | None, typer.Option(metavar="NAME", help="Filter by machine, in a team's store.")]
Person = Annotated[str | None, typer.Option(metavar="NAME", help="Filter by person, in a team's store.")]
Site = Annotated[int | None, typer.Option(metavar="ID", help="Filter by store.")]
Member = Annotated[int | None, typer.Option(metavar="ID", help="Filter by member.")]
Number = Annotated[int, typer.Argument(metavar="ID", help="A number from the list.")]

Host = Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65_535, help="The port of the console; 0: any free port.", show_default="8317")
]
Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the console in the browser (at a terminal).")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

Role = Literal["viewer", "member", "admin"]
ROLES = "viewer: read only; member: the same, and own sessions in full on a team server; admin: read and change."


def only(value: str | None) -> frozenset[str]:
    """An option as a filter of the store; without it, everything."""
    return frozenset() if value is None else frozenset([value])
