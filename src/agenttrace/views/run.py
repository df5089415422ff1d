"""What the run half keeps, for JSON: rows, jobs, the budget, breakers, and the catalog of applications."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenttrace.config import Settings, did_you_mean
from agenttrace.views.times import iso, micros_of
from agenttrace.views.trouble import TroubleError

if TYPE_CHECKING:
    from agenttrace.run.catalog.catalog import App, AppCatalog, Lane
    from agenttrace.run.engine import Engine
    from agenttrace.run.guards.breaker import BreakerView
    from agenttrace.run.guards.budget import BudgetStatus
    from agenttrace.run.jobs.jobs import TriggerJob
    from agenttrace.run.jobs.schedules import Schedule


def time_field(moment: datetime | None) -> str | None:
    """A moment of the database, in UTC."""
    return None if moment is None else iso(micros_of(moment))


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON: times in UTC."""
    return {name: time_field(value) if isinstance(value, datetime) else value for name, value in row.items()}


def session_key_of(session_id: str) -> str:
    """The key of the session under which a job or a conversation is recorded."""
    from agenttrace.ids import session_number
    from agenttrace.run.results.trace_log import AGENT

    return f"{session_number(AGENT, session_id):016x}"


def job_fields(job: TriggerJob) -> dict[str, Any]:
    """A job for JSON, with the session under which its trace is recorded."""
    found = {name: value for name, value in asdict(job).items() if name not in ("idempotency_key", "apps")}
    return {**row_fields(found), "session_id": job.session_id}


# -- the budget ---------------------------------------------------------------------------------------------------


def budget_fields(status: BudgetStatus, now: datetime) -> dict[str, Any]:
    """The budget for JSON; ``left`` is what the next call may reserve, and never below zero."""
    return {
        "allowed": status.allowed,
        "reason": status.reason,
        "timezone": str(now.tzinfo),
        "day": _period(status, "daily", now.strftime("%Y-%m-%d")),
        "month": _period(status, "monthly", now.strftime("%Y-%m")),
    }


def _period(status: BudgetStatus, prefix: str, period: str) -> dict[str, Any]:
    parts = ("limit", "used", "failed", "reserved", "ceiling")
    found = {part: getattr(status, f"{prefix}_{part}") for part in parts}
    left = found["limit"] - found["used"] - found["failed"] - found["reserved"]
    return {"period": period, **found, "left": max(0, left)}


# -- breakers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Breaker:
    """A breaker and the application behind it, as far as the catalog knows it."""

    app: App | None
    app_id: str
    view: BreakerView | None

    @property
    def name(self) -> str | None:
        """The application's type."""
        return None if self.app is None else self.app.app_type

    @property
    def state(self) -> str:
        """One that never failed is closed."""
        return self.view.state.value if self.view else "closed"


async def breakers_of(engine: Engine) -> list[Breaker]:
    """The breaker of each application that has an id, then those of ids that the catalog does not know."""
    return breakers_in(engine.catalog, await engine.breaker.states())


def breakers_in(catalog: AppCatalog, states: Iterable[BreakerView]) -> list[Breaker]:
    """The same from what the database says of them."""
    views = {view.app_id: view for view in states}
    apps = {app.app_id: app for app in catalog.apps.values() if app.app_id}
    known = [Breaker(app, app_id, views.pop(app_id, None)) for app_id, app in apps.items()]
    return known + [Breaker(None, app_id, view) for app_id, view in views.items()]


async def breaker_of(engine: Engine, app_id: str) -> Breaker:
    """The breaker of one application."""
    return next(breaker for breaker in await breakers_of(engine) if breaker.app_id == app_id)


async def app_id_of(engine: Engine, name: str) -> str:
    """The id of the application that is meant: by its name, its type or that id."""
    apps = engine.catalog.apps
    for found in apps.values():
        if name in (found.key, found.app_type, found.app_id):
            if not found.app_id:
                raise TroubleError(f"{found.key} has no id yet, so it has no breaker", "See: agenttrace apps")
            return found.app_id
    if any(view.app_id == name for view in await engine.breaker.states()):
        return name
    names = [*apps, *(found.app_type for found in apps.values())]
    raise TroubleError(f"there is no application named {name!r}", did_you_mean(name, names), misused=True)


def breaker_fields(breaker: Breaker) -> dict[str, Any]:
    """A breaker for JSON."""
    view = breaker.view
    return {
        "app_type": breaker.name,
        "app_id": breaker.app_id,
        "state": breaker.state,
        "failure_count": view.failure_count if view else 0,
        "last_failure_at": time_field(view.last_failure_at) if view else None,
        "changed_at": time_field(view.changed_at) if view else None,
        "retry_after": view.retry_after if view else 0.0,
        "held": view.held if view else False,
    }


# -- the catalog --------------------------------------------------------------------------------------------------


def described_catalog(settings: Settings) -> tuple[AppCatalog, Sequence[str], str]:
    """The catalog without an engine, the variables that are missing for it, and what to say about them."""
    from agenttrace.run.catalog.catalog import load_catalog, missing_variables
    from agenttrace.run.catalog.config import MissingVariablesError, check_variables

    catalog = load_catalog(settings, os.environ)
    missing = missing_variables(catalog, os.environ)
    try:
        check_variables(missing, os.environ)
    except MissingVariablesError as error:
        return catalog, missing, str(error)
    return catalog, missing, ""


def app_fields(app: App) -> dict[str, Any]:
    """An application for JSON."""
    cache = app.cache
    return {
        "app": app.key,
        "app_type": app.app_type,
        "title": app.title,
        "titles": app.titles,
        "provider": app.provider,
        "model": app.endpoint.model if app.endpoint else None,
        "base_url": app.endpoint.base_url if app.endpoint else None,
        "app_id": app.app_id or None,
        "variable": app.id_variable,
        "missing": app.missing,
        "rate": {"scope": app.rate.scope, "limit": app.rate.limit, "seconds": app.rate.seconds},
        "rate_limit": app.rate_limit and {"limit": app.rate_limit.limit, "seconds": app.rate_limit.seconds},
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
        "max_tokens": app.max_tokens,
        "context_tokens": app.context_tokens,
        "stream": app.stream,
    }


def schedule_fields(schedule: Schedule, zone: str, now: datetime) -> dict[str, Any]:
    """A schedule for JSON, with its next time."""
    from agenttrace.run.jobs.schedules import WEEKDAYS

    return {
        "schedule": schedule.name,
        "event": schedule.event_type,
        "at": [f"{at:%H:%M}" for at in schedule.times],
        "days": [WEEKDAYS[day] for day in sorted(schedule.weekdays)],
        "timezone": zone,
        "sites": schedule.sites,
        "member_id": schedule.member_id,
        "payload": schedule.payload,
        "forced": schedule.is_forced,
        "next": time_field(schedule.next_due(now, zone)),
    }


def event_fields(name: str, lanes: Sequence[Lane], catalog: AppCatalog) -> dict[str, Any]:
    """An event and the steps it starts, for JSON."""
    conditions = [lane.condition for lane in lanes if lane.condition]
    return {
        "event": name,
        "lanes": [
            {"apps": lane.apps, "condition": lane.condition, "each_dimension": lane.each_dimension} for lane in lanes
        ],
        "steps": [step.name for step in catalog.chain(name, dict.fromkeys(conditions, True)).steps],
    }
