"""``agenttrace apps``: the whole catalog on one screen, with what is not set up yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, figures, opening, output
from agenttrace.cli.columns import Column, print_table

if TYPE_CHECKING:
    from agenttrace.run.calls import RateRule
    from agenttrace.run.catalog import App, Catalog, Lane

EPILOG = """
[bold]Examples[/bold]

  agenttrace apps

  agenttrace apps --json | jq -r '.missing[]'

The ids come from the variables DASHSCOPE_APP_ID_…; more applications, events and chains can be defined in
agenttrace.toml under \\[apps.NAME] and \\[events.NAME]. Needs no database and no server.
"""

_HOUR, _MINUTE = 3600, 60


def apps(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show all applications and the chains that events start, and which variables are missing."""
    catalog, missing, advice = _loaded()
    if as_json:
        output.print_json(
            {
                "apps": [app_fields(app) for app in catalog.apps.values()],
                "events": [_event_fields(name, lanes, catalog) for name, lanes in catalog.events.items()],
                "dimensions": catalog.dimensions,
                "missing": missing,
            }
        )
        return
    _show_apps(catalog)
    output.say()
    _show_events(catalog)
    output.say()
    if advice:
        output.say(f"Nothing can be called yet. {advice[:1].upper()}{advice[1:]}.", "yellow")
    else:
        output.say("All variables are set.", "green")


def _loaded() -> tuple[Catalog, Sequence[str], str]:
    from agenttrace.run.catalog import Catalog, CatalogError
    from agenttrace.run.config import AIConfig, MissingVariablesError

    settings = opening.settings()
    config: AIConfig | None = None
    missing: Sequence[str] = ()
    advice = ""
    try:
        config = AIConfig.from_env(os.environ)
    except MissingVariablesError as error:
        missing, advice = error.missing, str(error)
    try:
        catalog = Catalog.load(
            config,
            {"apps": settings.apps, "events": settings.events},
            dimensions=settings.run.dimensions,
            user_limit=settings.run.user_calls_per_minute,
            store_limit=settings.run.store_calls_per_hour,
        )
    except CatalogError as error:
        raise asking.wrong_catalog(error) from error
    return catalog, missing, advice


def app_fields(app: App) -> dict[str, Any]:
    """An application for JSON."""
    variable = variable_of(app)
    cache = app.cache
    return {
        "app": app.key,
        "app_type": app.app_type,
        "title": app.title,
        "app_id": _id_of(app),
        "variable": variable,
        "rate": {"scope": app.rate.scope, "limit": app.rate.limit, "seconds": app.rate.seconds},
        "cache": None
        if cache is None
        else {
            "cache_type": cache.cache_type,
            "days": cache.days,
            "end_of_day": cache.end_of_day,
            "target": app.target,
        },
        "inputs": app.inputs,
        "expected_tokens": app.expected_tokens,
        "stream": app.stream,
    }


def variable_of(app: App) -> str | None:
    """The variable that holds the id of one of the eight; others have theirs in the file."""
    from agenttrace.run.config import REQUIRED

    name = f"DASHSCOPE_APP_ID_{app.app_type.removeprefix('app').upper()}"
    return name if name in REQUIRED else None


def _id_of(app: App) -> str | None:
    # The catalog has no ids at all while one of them is missing; here each is looked at by itself.
    return app.app_id or os.environ.get(variable_of(app) or "", "").strip() or None


def _event_fields(name: str, lanes: Sequence[Lane], catalog: Catalog) -> dict[str, Any]:
    return {
        "event": name,
        "lanes": [
            {"apps": lane.apps, "condition": lane.condition, "each_dimension": lane.each_dimension} for lane in lanes
        ],
        "steps": [step.name for step in catalog.chain(name, dict.fromkeys(_conditions(lanes), True)).steps],
    }


def _conditions(lanes: Sequence[Lane]) -> list[str]:
    return [lane.condition for lane in lanes if lane.condition]


def _show_apps(catalog: Catalog) -> None:
    columns = (
        Column("app"),
        Column("type", least=10),
        Column("title", least=8, optional=3),
        Column("id", least=10),
        Column("limit", optional=2),
        Column("results kept", least=10),
        Column("gets", optional=1),
    )
    print_table(columns, [_row(app) for app in catalog.apps.values()])


def _row(app: App) -> list[Any]:
    app_id = _id_of(app)
    return [
        output.styled(app.key, "cyan"),
        output.one_line(app.app_type),
        output.one_line(app.title),
        output.styled(app_id, "green") if app_id else output.styled("not set", "yellow"),
        rate_text(app.rate),
        keep_text(app),
        ", ".join(app.inputs) or "–",
    ]


def rate_text(rate: RateRule) -> str:
    """``10 a minute per user``."""
    spans = {_MINUTE: "a minute", _HOUR: "an hour"}
    span = spans.get(round(rate.seconds)) or f"in {figures.duration(round(rate.seconds * figures.MICROS))}"
    return f"{rate.limit} {span} per {rate.scope}"


def keep_text(app: App) -> str:
    """``7 days per member``."""
    if app.cache is None:
        return "–"
    if app.cache.end_of_day:
        length = "until midnight"
    else:
        length = "for ever" if app.cache.days is None else figures.counted(app.cache.days, "day")
    return f"{length} per {app.target.replace(':', ' and ')}"


def _show_events(catalog: Catalog) -> None:
    rows: list[list[Any]] = [
        [output.styled(name, "cyan"), _chain_text(lanes, catalog)] for name, lanes in catalog.events.items()
    ]
    print_table((Column("event"), Column("starts", least=20)), rows)
    output.note(f"Time dimensions: {', '.join(catalog.dimensions)}")


def _chain_text(lanes: Sequence[Lane], catalog: Catalog) -> str:
    return "  +  ".join(_lane_text(lane, catalog) for lane in lanes)


def _lane_text(lane: Lane, catalog: Catalog) -> str:
    text = " → ".join(lane.apps)
    if lane.each_dimension:
        text += f" for each of {figures.counted(len(catalog.dimensions), 'time dimension')}"
    return f"{text} (if there is a {lane.condition})" if lane.condition else text
