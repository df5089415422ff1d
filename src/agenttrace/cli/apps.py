"""``agenttrace apps``: the whole catalog on one screen, with what is not set up yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line
from agenttrace.views.run import app_fields, event_fields, schedule_fields

if TYPE_CHECKING:
    from agenttrace.run.catalog.catalog import App, AppCatalog, Lane
    from agenttrace.run.upstream.calls import RateRule

EPILOG = """
[bold]Examples[/bold]

  agenttrace apps

  agenttrace apps --json | jq -r '.missing[]'

Applications, events and chains of your own, at DashScope or at any OpenAI-compatible endpoint, are defined in
agenttrace.toml under \\[apps.NAME] and \\[events.NAME], times for events under \\[schedules.NAME]. Needs no database
and no server.
"""

_HOUR, _MINUTE = 3600, 60


def apps(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show all applications with their providers, the chains that events start, and which variables are missing."""
    catalog, missing, advice = asking.described_catalog(opening.settings())
    if as_json:
        output.print_json(
            {
                "apps": [app_fields(app) for app in catalog.apps.values()],
                "events": [event_fields(name, lanes, catalog) for name, lanes in catalog.events.items()],
                "schedules": _schedules(catalog),
                "dimensions": catalog.dimensions,
                "missing": missing,
            }
        )
        return
    _show_apps(catalog)
    output.say()
    _show_events(catalog)
    output.say()
    if catalog.schedules:
        _show_schedules(catalog)
        output.say()
    if advice:
        ready = sum(not app.missing for app in catalog.apps.values())
        can = f"{figures.counted(ready, 'application')} can be called." if ready else "Nothing can be called yet."
        output.say(f"{can} {advice[:1].upper()}{advice[1:]}.", "yellow")
    else:
        output.say("All variables are set.", "green")


def _show_apps(catalog: AppCatalog) -> None:
    # Wide enough for the name of a variable, where one has to be set.
    widest = max((len(name) for app in catalog.apps.values() for name in app.missing[-1:]), default=0)
    columns = (
        Column("app"),
        Column("type", least=10),
        Column("title", least=8, optional=3),
        Column("provider", least=9),
        Column("id or model", least=max(10, min(widest + len("not set: "), 42))),
        Column("limit", optional=2),
        Column("results kept", least=10),
        Column("gets", optional=1),
    )
    print_table(columns, [_row(app) for app in catalog.apps.values()])


def _row(app: App) -> list[Any]:
    return [
        output.styled(app.key, "cyan"),
        one_line(app.app_type),
        one_line(app.title),
        app.provider,
        _called(app),
        ", ".join(rate_text(rule) for rule in (app.rate, app.rate_limit) if rule),
        keep_text(app),
        ", ".join(app.inputs) or "–",
    ]


def _called(app: App) -> Any:  # noqa: ANN401 - a text with a style
    """What is called, or what has to be set for that; the variable that only this application needs comes first."""
    if app.missing:
        return output.styled(f"not set: {', '.join(reversed(app.missing))}", "yellow")
    return output.styled(one_line(app.endpoint.model if app.endpoint else app.app_id), "green")


def rate_text(rate: RateRule) -> str:
    """``10 a minute per user``."""
    spans = {_MINUTE: "a minute", _HOUR: "an hour"}
    span = spans.get(round(rate.seconds)) or f"in {figures.duration(round(rate.seconds * times.MICROS))}"
    return f"{rate.limit} {span} {'in all' if rate.scope == 'app' else f'per {rate.scope}'}"


def keep_text(app: App) -> str:
    """``7 days per member``."""
    if app.cache is None:
        return "–"
    if app.cache.end_of_day:
        length = "until midnight"
    else:
        length = "for ever" if app.cache.days is None else figures.counted(app.cache.days, "day")
    return f"{length} per {app.target.replace(':', ' and ')}"


def _show_events(catalog: AppCatalog) -> None:
    rows: list[list[Any]] = [
        [output.styled(name, "cyan"), _chain_text(lanes, catalog)] for name, lanes in catalog.events.items()
    ]
    print_table((Column("event"), Column("starts", least=20)), rows)
    output.note(f"Time dimensions: {', '.join(catalog.dimensions)}")


def _schedules(catalog: AppCatalog) -> list[dict[str, Any]]:
    zone, now = opening.settings().run.timezone, datetime.now(UTC)
    return [schedule_fields(schedule, zone, now) for schedule in catalog.schedules.values()]


def _show_schedules(catalog: AppCatalog) -> None:
    columns = (
        Column("schedule"),
        Column("event", least=10),
        Column("at", least=5),
        Column("days", optional=1),
        Column("stores", least=6, optional=2),
        Column("next"),
    )
    rows: list[list[Any]] = [
        [
            output.styled(one_line(found["schedule"]), "cyan"),
            found["event"],
            ", ".join(found["at"]),
            "every day" if len(found["days"]) == 7 else ", ".join(found["days"]),
            ", ".join(map(str, found["sites"])),
            found["next"],
        ]
        for found in _schedules(catalog)
    ]
    print_table(columns, rows)
    output.note(f"Times are those of {opening.settings().run.timezone}; next is in UTC.")


def _chain_text(lanes: Sequence[Lane], catalog: AppCatalog) -> str:
    return "  +  ".join(_lane_text(lane, catalog) for lane in lanes)


def _lane_text(lane: Lane, catalog: AppCatalog) -> str:
    text = " → ".join(lane.apps)
    if lane.each_dimension:
        text += f" for each of {figures.counted(len(catalog.dimensions), 'time dimension')}"
    return f"{text} (if there is a {lane.condition})" if lane.condition else text
