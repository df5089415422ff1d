"""The result of a benchmark: a table whose rows are compared with one of them."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table


class Row(msgspec.Struct, frozen=True):
    """One row of a table: name, figures, and the ratio to the base."""

    who: str
    figures: dict[str, str]
    #: The main figure divided by that of the base (AgentTrace, if programs are compared).
    ratio: float | None = None
    note: str = ""


class Result(msgspec.Struct, frozen=True):
    """The result of one benchmark."""

    title: str
    rows: list[Row]
    #: What the ratio is a multiple of.
    base: str = "ours"


def show(result: Result, console: Console) -> None:
    """Print a table."""
    names = list(dict.fromkeys(name for row in result.rows for name in row.figures))
    table = Table(title=result.title, title_justify="left")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    compared = any(row.ratio is not None for row in result.rows)
    if compared:
        table.add_column(f"times {result.base}", justify="right")
    for row in result.rows:
        cells = [row.figures.get(name, "") for name in names]
        ratio = [f"{row.ratio:.2f}" if row.ratio is not None else row.note] if compared else []
        table.add_row(row.who, *cells, *ratio)
    console.print(table)
