"""``agenttrace breakers``: circuit breakers of applications, and opening and closing them manually."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson
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
  agenttrace breakers                the state of every application
  agenttrace breakers open app3      no calls until it is closed manually
  agenttrace breakers close app3     allow calls again

By default a breaker opens after five failures in a row and allows one probe after a minute; if that succeeds, it
closes. All servers and workers on one database share the breakers.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

AppArgument = Annotated[
    str, typer.Argument(metavar="APP", help="The name (app3), type (app3_clue) or DashScope id of an application.")
]


@app.command("list")
def list_breakers(as_json: AsJson = False) -> None:
    """Show the circuit breaker of every application."""
    print_list(
        asking.look(breakers_of, lambda: breakers_in(described_catalog(opening.settings())[0], ())),
        _COLUMNS,
        breaker_fields,
        as_json=as_json,
        empty="No application has an id yet. See what is missing: agenttrace apps",
        hint="Next: agenttrace breakers open APP, agenttrace breakers close APP",
    )


@app.command("open")
def open_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Open a circuit breaker: the application is not called until the breaker is closed manually."""

    async def action(engine: Engine) -> Breaker:
        app_id = await app_id_of(engine, name)
        await engine.breaker.hold_open(app_id)
        return await breaker_of(engine, app_id)

    _print(asking.ask(action), "is open until it is closed manually", as_json=as_json)


@app.command("close")
def close_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Close a circuit breaker: calls are allowed at once, and the failure count is reset."""

    async def action(engine: Engine) -> Breaker:
        app_id = await app_id_of(engine, name)
        await engine.breaker.close(app_id)
        return await breaker_of(engine, app_id)

    _print(asking.ask(action), "is closed: calls are allowed", as_json=as_json)


def _print(line: Breaker, outcome: str, *, as_json: bool) -> None:
    output.answer(breaker_fields(line), f"The breaker of {line.name or line.app_id} {outcome}.", as_json=as_json)


_COLUMNS: tuple[Column[Breaker], ...] = (
    Column("application", lambda line: one_line(line.name or "(not in the catalog)"), least=12),
    Column("state", lambda line: line.state, style=asking.STYLES),
    Column("failures", lambda line: figures.count(line.view.failure_count if line.view else 0), right=True),
    Column(
        "last failure",
        lambda line: asking.clock(line.view.last_failure_at) if line.view else None,
        right=True,
        optional=1,
    ),
    Column("next probe", lambda line: _next_probe(line.view), right=True),
    Column("id", lambda line: line.app_id, least=10, optional=2, style="dim"),
)


def _next_probe(view: BreakerView | None) -> str | None:
    if view is None or view.state.value == "closed":
        return None
    if view.held:
        return "held open"
    return f"in {figures.duration(round(view.retry_after * times.MICROS))}" if view.retry_after else "now"
