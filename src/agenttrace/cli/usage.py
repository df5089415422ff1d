"""``agenttrace usage``: tokens and cost, each response counted once."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import money, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.times import since_micros
from agenttrace.cli.usage_check import show_check
from agenttrace.views import figures
from agenttrace.views.money import cashier
from agenttrace.views.plain import one_line
from agenttrace.views.usage import ordered

if TYPE_CHECKING:
    from agenttrace.costing import Bill

EPILOG = """
[bold]Examples[/bold]

  agenttrace usage                            by day

  agenttrace usage --by model --since 30d     which models the money goes to

  agenttrace usage --by project               what each project cost

  agenttrace usage --by month --json | jq .total.cost

  agenttrace usage --check                    our figures against the agents' own totals

Forked and resumed sessions repeat whole histories; tokens of one response count once, in the session that had it
first. Prices come from a table that ships with AgentTrace; set your own in agenttrace.toml under \\[prices]. A model
without a price is shown as unpriced tokens (?), never as free. Where an agent writes totals of its own, every session
is checked against them.
"""


class By(StrEnum):
    """What usage can be grouped by."""

    day = "day"
    month = "month"
    model = "model"
    agent = "agent"
    project = "project"
    session = "session"


def usage(
    by: Annotated[By, typer.Option(help="How to group.")] = By.day,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="From that day on: 7d, 24h, 2026-11-01, ISO time.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare sessions with what their agents say they used.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --check: exit with 1 if a session differs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show tokens and cost, by day, month, model, agent, project or session."""
    from agenttrace.record.calendar import day_finder
    from agenttrace.store.sqlite.reading import usage_rows

    settings = opening.settings()
    moment = since_micros(since, settings.usage.timezone)
    if check:
        differ = show_check(settings, moment, as_json=as_json)
        raise typer.Exit(1 if differ and exit_code else 0)
    since_day = None if moment is None else day_finder(settings.usage.timezone)(moment)
    with opening.reading(settings) as connection:
        rows = usage_rows(connection, by=by.value, since_day=since_day)
        titles = _titles(connection) if by is By.session and not as_json else {}
    cash = cashier(settings)
    total, groups = cash.bill(rows), cash.by_group(rows)
    if as_json:
        output.print_json(
            {
                "total": total.fields(),
                "rows": [{by.value: group or None, **bill.fields()} for group, bill in groups.items()],
            }
        )
    elif not rows:
        output.say(
            "No usage recorded" + (f" since {since_day}." if since_day else " yet. Try: agenttrace record --once")
        )
    else:
        _show(by.value, total, groups, titles)


_NUMBERS = (
    Column("requests", right=True, optional=3),
    Column("input", right=True),
    Column("cache read", right=True),
    Column("cache write", right=True, optional=1),
    Column("output", right=True),
    Column("reasoning", right=True, optional=2),
    Column("cost", right=True),
)


def _show(by: str, total: Bill, groups: dict[str, Bill], titles: dict[str, str]) -> None:
    columns = (Column(by, least=14), *_NUMBERS)
    sorted_groups = ordered(by, total, groups).items()
    rows = [[_label(by, group, titles.get(group, "")), *_numbers(bill)] for group, bill in sorted_groups]
    print_table(columns, rows, footer=["total", *_numbers(total)] if len(groups) > 1 else ())
    output.note("reasoning is part of output; input, cache read and cache write do not overlap")
    for remark in money.remarks(total):
        output.note(remark, "yellow")


def _label(by: str, group: str, title: str) -> str:
    if title:
        return f"{one_line(group.removeprefix('session_'))[:8]}  {one_line(title, 60)}"
    return one_line(group) or f"(no {by})"


def _titles(connection: sqlite3.Connection) -> dict[str, str]:
    query = "SELECT session_id, coalesce(title, first_prompt, '') FROM sessions WHERE agent <> ''"
    return dict(connection.execute(query).fetchall())


def _numbers(bill: Bill) -> list[Any]:
    tokens = bill.tokens
    number = figures.count if output.stdout().width >= 110 else figures.tokens
    return [
        figures.count(bill.requests),
        number(tokens["input_tokens"]),
        number(tokens["cache_read_tokens"]),
        number(tokens["cache_write_tokens"]),
        number(tokens["output_tokens"]),
        number(tokens["reasoning_tokens"]),
        output.styled(money.cost_text(bill)),
    ]
