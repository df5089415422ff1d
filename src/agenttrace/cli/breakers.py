"""``agenttrace breakers``: which applications are left alone because they failed, and opening and closing by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, figures, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst

if TYPE_CHECKING:
    from agenttrace.run.catalog import Catalog
    from agenttrace.run.engine import Engine
    from agenttrace.run.guards.breaker import BreakerView

EPILOG = """
[bold]Examples[/bold]

  agenttrace breakers                the state of every application

  agenttrace breakers open app3      call it no more until it is closed by hand

  agenttrace breakers close app3     call it again at once

A breaker opens after five failures in a row and lets one probe through after a minute; if that succeeds it closes.
All servers and workers on one database share the breakers.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

AppArgument = Annotated[
    str, typer.Argument(metavar="APP", help="Its name (app3), its type (app3_clue) or its id at DashScope.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class _Line:
    """A breaker and the application behind it, as far as the catalog knows it."""

    name: str | None
    app_id: str
    view: BreakerView | None


@app.command("list")
def list_breakers(as_json: AsJson = False) -> None:
    """Show the breaker of every application."""
    lines = asking.ask(_lines)
    if as_json:
        output.print_json([breaker_fields(line) for line in lines])
    elif not lines:
        output.say("No application has an id yet. See what is missing: agenttrace apps")
    else:
        _show(lines)


@app.command("open")
def open_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Call an application no more until its breaker is closed by hand."""

    async def action(engine: Engine) -> _Line:
        app_id = await _resolved(engine, name)
        await engine.breaker.hold_open(app_id)
        return await _line(engine, app_id)

    _tell(asking.ask(action), as_json, "is open until it is closed by hand")


@app.command("close")
def close_breaker(name: AppArgument, as_json: AsJson = False) -> None:
    """Let calls to an application through again at once, its failures forgotten."""

    async def action(engine: Engine) -> _Line:
        app_id = await _resolved(engine, name)
        await engine.breaker.close(app_id)
        return await _line(engine, app_id)

    _tell(asking.ask(action), as_json, "is closed: calls go through")


def _tell(line: _Line, as_json: bool, what: str) -> None:
    if as_json:
        output.print_json(breaker_fields(line))
    else:
        output.say(f"The breaker of {line.name or line.app_id} {what}.")


async def _lines(engine: Engine) -> list[_Line]:
    views = {view.app_id: view for view in await engine.breaker.states()}
    names = _names(engine.catalog)
    known = [_Line(name, app_id, views.pop(app_id, None)) for app_id, name in names.items()]
    return known + [_Line(None, app_id, view) for app_id, view in views.items()]


async def _line(engine: Engine, app_id: str) -> _Line:
    return next(line for line in await _lines(engine) if line.app_id == app_id)


def _names(catalog: Catalog) -> dict[str, str]:
    return {app.app_id: app.app_type for app in catalog.apps.values() if app.app_id}


async def _resolved(engine: Engine, name: str) -> str:
    """The id at DashScope of the application that is meant."""
    apps = engine.catalog.apps
    for found in apps.values():
        if name in (found.key, found.app_type, found.app_id):
            if not found.app_id:
                raise CommandError(f"{found.key} has no id yet, so it has no breaker", "See: agenttrace apps")
            return found.app_id
    if any(view.app_id == name for view in await engine.breaker.states()):
        return name
    from agenttrace.config import did_you_mean

    names = [*apps, *(found.app_type for found in apps.values())]
    raise UsageError(f"there is no application named {name!r}", did_you_mean(name, names))


def breaker_fields(line: _Line) -> dict[str, Any]:
    """A breaker for JSON; one that never failed is closed."""
    view = line.view
    return {
        "app_type": line.name,
        "app_id": line.app_id,
        "state": _state(line),
        "failure_count": view.failure_count if view else 0,
        "last_failure_at": figures.iso(asking.micros(view.last_failure_at)) if view else None,
        "changed_at": figures.iso(asking.micros(view.changed_at)) if view else None,
        "retry_after": view.retry_after if view else 0.0,
        "held": view.held if view else False,
    }


def _state(line: _Line) -> str:
    return line.view.state.value if line.view else "closed"


def _show(lines: list[_Line]) -> None:
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


def _row(line: _Line) -> list[Any]:
    view, state = line.view, _state(line)
    return [
        output.one_line(line.name or "(not in the catalog)"),
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
    return f"in {figures.duration(round(view.retry_after * figures.MICROS))}" if view.retry_after else "now"
