"""``agenttrace usage``: tokens and cost, each response counted once."""

from __future__ import annotations

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
from agenttrace.views.usage import Group, Report, usage_report

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill

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
    by: Annotated[By, typer.Option(help="Group by.")] = By.day,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Since this day: 7d, 24h, 2026-11-01, ISO time.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare sessions with the totals of their agents.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --check: exit with 1 if a session differs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show tokens and cost by day, month, model, agent, project or session."""
    from agenttrace.record.calendar import day_finder
    from agenttrace.store.questions import UsageQuery

    settings = opening.settings()
    moment = since_micros(since, settings.usage.timezone)
    if check:
        differ = show_check(settings, moment, as_json=as_json)
        raise typer.Exit(1 if differ and exit_code else 0)
    since_day = None if moment is None else day_finder(settings.usage.timezone)(moment)
    with opening.opened_store(settings) as store:
        report = usage_report(store, cashier(settings), UsageQuery(by=by.value, since_day=since_day))
    if as_json:
        rows = [{by.value: each.name or None, **each.bill.fields()} for each in report.groups]
        output.print_json({"total": report.total.fields(), "rows": rows})
    elif not report.groups:
        output.say(
            "No usage recorded" + (f" since {since_day}." if since_day else " yet. Try: agenttrace record --once")
        )
    else:
        _show(report)


_NUMBERS = (
    Column("requests", right=True, optional=3),
    Column("input", right=True),
    Column("cache read", right=True),
    Column("cache write", right=True, optional=1),
    Column("output", right=True),
    Column("reasoning", right=True, optional=2),
    Column("cost", right=True),
)


def _show(report: Report) -> None:
    columns = (Column(report.by, least=14), *_NUMBERS)
    rows = [[_label(report.by, each), *_numbers(each.bill)] for each in report.ranked()]
    print_table(columns, rows, footer=["total", *_numbers(report.total)] if len(rows) > 1 else ())
    output.note("reasoning is part of output; input, cache read and cache write do not overlap")
    for remark in money.remarks(report.total):
        output.note(remark, "yellow")


def _label(by: str, group: Group) -> str:
    if group.title:
        return f"{one_line(group.name.removeprefix('session_'))[:8]}  {one_line(group.title, 60)}"
    return one_line(group.name) or f"(no {by})"


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
