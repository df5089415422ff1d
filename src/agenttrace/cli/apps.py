"""``agenttrace apps``: the catalog of applications and events, and which variables are missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line
from agenttrace.views.run import app_fields, event_fields, schedule_fields

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.run.catalog.catalog import App, AppCatalog, Lane
    from agenttrace.run.upstream.calls import RateRule

EPILOG = """
  agenttrace apps
  agenttrace apps --json | jq -r '.missing[]'

Define your own applications, at DashScope or at any OpenAI-compatible endpoint, in agenttrace.toml under
\\[apps.NAME], chains under \\[events.NAME], and times for events under \\[schedules.NAME]. This command needs no
database and no server.
"""

_HOUR, _MINUTE = 3600, 60


def apps(as_json: AsJson = False) -> None:
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
        print_table(_SCHEDULE_COLUMNS, _schedules(catalog))
        output.note(f"Times are in {opening.settings().run.timezone}; next is in UTC.")
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
    columns: tuple[Column[App], ...] = (
        Column("app", lambda app: app.key, style="cyan"),
        Column("type", lambda app: one_line(app.app_type), least=10),
        Column("title", lambda app: one_line(app.title), least=8, optional=5),
        Column("provider", lambda app: app.provider, least=9, optional=1),
        Column("id or model", _called, least=max(10, min(widest + len("not set: "), 42))),
        Column("limit", _limits, optional=4),
        Column("results kept", keep_text, least=10, optional=2),
        Column("gets", lambda app: ", ".join(app.inputs) or None, optional=3),
    )
    print_table(columns, list(catalog.apps.values()))


def _limits(app: App) -> str:
    return ", ".join(rate_text(rule) for rule in (app.rate, app.rate_limit) if rule)


def _called(app: App) -> Text:
    """The id or model, or the variables to set; the variable that only this application needs comes first."""
    if app.missing:
        return output.styled(f"not set: {', '.join(reversed(app.missing))}", "yellow")
    return output.styled(one_line(app.endpoint.model if app.endpoint else app.app_id), "green")


def rate_text(rate: RateRule) -> str:
    """``10 a minute per user``."""
    spans = {_MINUTE: "a minute", _HOUR: "an hour"}
    span = spans.get(round(rate.seconds)) or f"in {figures.duration(round(rate.seconds * times.MICROS))}"
    return f"{rate.limit} {span} {'in all' if rate.scope == 'app' else f'per {rate.scope}'}"


def keep_text(app: App) -> str | None:
    """``7 days per member``."""
    if app.cache is None:
        return None
    if app.cache.end_of_day:
        length = "until midnight"
    else:
        length = "for ever" if app.cache.days is None else figures.counted(app.cache.days, "day")
    return f"{length} per {app.target.replace(':', ' and ')}"


def _show_events(catalog: AppCatalog) -> None:
    columns: tuple[Column[tuple[str, Sequence[Lane]]], ...] = (
        Column("event", lambda event: event[0], style="cyan"),
        Column("starts", lambda event: "  +  ".join(_lane_text(lane, catalog) for lane in event[1]), least=20),
    )
    print_table(columns, list(catalog.events.items()))
    output.note(f"Time dimensions: {', '.join(catalog.dimensions)}")


def _schedules(catalog: AppCatalog) -> list[dict[str, Any]]:
    zone, now = opening.settings().run.timezone, datetime.now(UTC)
    return [schedule_fields(schedule, zone, now) for schedule in catalog.schedules.values()]


_SCHEDULE_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("schedule", lambda row: one_line(row["schedule"]), style="cyan"),
    Column("event", itemgetter("event"), least=10),
    Column("at", lambda row: ", ".join(row["at"]), least=5),
    Column("days", lambda row: "every day" if len(row["days"]) == 7 else ", ".join(row["days"]), optional=1),
    Column("stores", lambda row: ", ".join(map(str, row["sites"])), least=6, optional=2),
    Column("next", itemgetter("next")),
)


def _lane_text(lane: Lane, catalog: AppCatalog) -> str:
    text = " → ".join(lane.apps)
    if lane.each_dimension:
        text += f" for each of {figures.counted(len(catalog.dimensions), 'time dimension')}"
    return f"{text} (if there is a {lane.condition})" if lane.condition else text
