"""``agenttrace breakers``: which applications are left alone because they failed, and opening and closing by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.grouping import ListFirst
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line
from agenttrace.views.run import (
    Breaker,
    app_id_of,
    breaker_fields,
    breaker_of,
    breakers_in,
    breakers_of,
    described_catalog,
)

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.run.guards.breaker import BreakerView

EPILOG = """
[bold]Examples[/bold]

  agenttrace breakers                the state of every application

  agenttrace breakers open app3      no calls until it is closed manually

  agenttrace breakers close app3     allow calls again

A breaker opens after five failures in a row and lets one probe through after a minute; if that succeeds it closes.
All servers and workers on one database share the breakers.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

AppArgument = Annotated[
    str, typer.Argument(metavar="APP", help="Its name (app3), its type (app3_clue) or its id at DashScope.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_breakers(as_json: AsJson = False) -> None:
    """Show the circuit breaker of every application."""
    lines = asking.look(breakers_of, _untouched)
    if as_json:
        output.print_json([breaker_fields(line) for line in lines])
    elif not lines:
        output.say("No application has an id yet. See what is missing: agenttrace apps")
    else:
        _show(lines)


def _untouched() -> list[Breaker]:
    return breakers_in(described_catalog(opening.settings())[0], ())


@app.command("open")
def open_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Open a circuit breaker: the application is not called until the breaker is closed manually."""

    async def action(engine: Engine) -> Breaker:
        app_id = await app_id_of(engine, name)
        await engine.breaker.hold_open(app_id)
        return await breaker_of(engine, app_id)

    _tell(asking.ask(action), as_json, "is open until it is closed by hand")


@app.command("close")
def close_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Close a circuit breaker: calls are allowed at once, and the failure count is reset."""

    async def action(engine: Engine) -> Breaker:
        app_id = await app_id_of(engine, name)
        await engine.breaker.close(app_id)
        return await breaker_of(engine, app_id)

    _tell(asking.ask(action), as_json, "is closed: calls go through")


def _tell(line: Breaker, as_json: bool, what: str) -> None:
    if as_json:
        output.print_json(breaker_fields(line))
    else:
        output.say(f"The breaker of {line.name or line.app_id} {what}.")


def _show(lines: list[Breaker]) -> None:
    columns = (
        Column("application", least=12),
        Column("state"),
        Column("failures", right=True),
        Column("last failure", right=True, optional=1),
        Column("next probe", right=True),
        Column("id", least=10, optional=2),
    )
    print_table(columns, [_row(line) for line in lines])
    output.note("Next: agenttrace breakers open APP, agenttrace breakers close APP")


def _row(line: Breaker) -> list[Any]:
    view, state = line.view, line.state
    return [
        one_line(line.name or "(not in the catalog)"),
        output.styled(state, asking.STYLES.get(state, "")),
        figures.count(view.failure_count if view else 0),
        asking.clock(view.last_failure_at) if view else "–",
        _next_probe(view),
        output.styled(line.app_id, "dim"),
    ]


def _next_probe(view: BreakerView | None) -> str:
    if view is None or view.state.value == "closed":
        return "–"
    if view.held:
        return "held by hand"
    return f"in {figures.duration(round(view.retry_after * times.MICROS))}" if view.retry_after else "now"
