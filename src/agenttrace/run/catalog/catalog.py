"""Which applications there are, and which chain of them an event starts: ``catalog.toml`` and the user's additions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agenttrace.run.catalog.apps import App, Chain, Lane, PlannedStep
from agenttrace.run.catalog.config import TOKEN
from agenttrace.run.catalog.tables import (
    MAX_TOKENS,
    AppTable,
    CatalogError,
    EventTable,
    ScheduleTable,
    WholeTable,
    app_of,
    lanes_of,
    read_table,
    schedule_of,
    texts_of,
)
from agenttrace.run.catalog.texts import UserTexts
from agenttrace.run.jobs.schedules import Schedule
from agenttrace.run.upstream.calls import RateRule

if TYPE_CHECKING:
    from agenttrace.config import Settings

__all__ = ["App", "AppCatalog", "CatalogError", "Chain", "Lane", "PlannedStep", "UnknownEventError", "load_catalog"]

DIMENSIONS = (
    "today",
    "yesterday",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "this_quarter",
    "last_quarter",
)
#: What the columns of the run store hold.
_NAME_LIMIT, _STEP_LIMIT, _ID_LIMIT = 30, 60, 100
_DEFAULTS = Path(__file__).with_name("catalog.toml")
_SESSION_APPS = Path(__file__).with_name("session_apps.toml")


class UnknownEventError(Exception):
    """No chain is known for an event."""

    def __init__(self, event_type: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown event type {event_type!r}; known are {', '.join(known)}")
        self.event_type = event_type


class WrongAppsError(UnknownEventError):
    """A chain names an application that does not exist, or one twice."""

    def __init__(self, problem: str) -> None:
        Exception.__init__(self, problem)


class AppCatalog:
    """All applications and events."""

    def __init__(
        self,
        apps: Mapping[str, App],
        events: Mapping[str, Sequence[Lane]],
        dimensions: Sequence[str] = DIMENSIONS,
        schedules: Mapping[str, Schedule] = MappingProxyType({}),
        *,
        texts: UserTexts | None = None,
        connector: str | None = None,
        chat: str | None = None,
    ) -> None:
        self.apps = MappingProxyType(dict(apps))
        self.events: Mapping[str, tuple[Lane, ...]] = MappingProxyType({k: tuple(v) for k, v in events.items()})
        self.dimensions = tuple(dimensions)
        self.schedules = MappingProxyType(dict(schedules))
        self.texts = texts or UserTexts()
        #: The system that events come from which name none.
        self.connector = connector
        self._chat = chat
        _check(self)

    @property
    def chat(self) -> App | None:
        """The application that users chat with: the one that is named, or else the first that streams."""
        if self._chat is not None:
            return self.apps[self._chat]
        return next((app for app in self.apps.values() if app.stream), None)

    @property
    def missing(self) -> tuple[str, ...]:
        """All variables that are not set, without those that no application needs."""
        needed = (app for app in self.apps.values() if not app.is_optional)
        return tuple(dict.fromkeys(name for app in needed for name in app.missing))

    def missing_for(self, event_type: str, payload: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """The variables that are not set of the applications which an event calls; raises UnknownEventError."""
        apps = (self.apps[step.app] for step in self.chain(event_type, payload).steps)
        return tuple(dict.fromkeys(name for app in apps for name in app.missing))

    def chain(
        self, event_type: str, payload: Mapping[str, Any] | None = None, apps: Sequence[str] | None = None
    ) -> Chain:
        """What an event starts, or the chain of these applications; raises UnknownEventError."""
        if apps is not None:
            return self.chain_of(apps)
        lanes = self.events.get(event_type)
        if lanes is None:
            raise UnknownEventError(event_type, sorted(self.events))
        return Chain(lanes=tuple(self._lanes(lane for lane in lanes if lane.applies(payload or {}))))

    def chain_of(self, apps: Sequence[str]) -> Chain:
        """These applications, one after another; raises WrongAppsError."""
        for name in apps:
            if name not in self.apps:
                raise WrongAppsError(f"{name!r} is no application; there are {', '.join(self.apps)}")
        if twice := next((name for name in apps if list(apps).count(name) > 1), None):
            raise WrongAppsError(f"{twice} is in the chain twice")
        return Chain(lanes=(_steps(Lane(apps=tuple(apps)), None),))

    def _lanes(self, lanes: Iterator[Lane]) -> Iterator[tuple[PlannedStep, ...]]:
        for lane in lanes:
            for dimension in self.dimensions if lane.each_dimension else (None,):
                yield _steps(lane, dimension)

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str] | None = None,
        table: Mapping[str, Any] | None = None,
        *,
        dimensions: Sequence[str] = DIMENSIONS,
        user_limit: int = 10,
        store_limit: int = 100,
        max_tokens: int = MAX_TOKENS,
    ) -> AppCatalog:
        """The catalog that ships with the additions of ``table``, or the table alone (``base = "none"``)."""
        given = {name: (table or {}).get(name) or {} for name in ("catalog", "apps", "events", "schedules")}
        whole = read_table("catalog", given["catalog"], WholeTable)
        sessions = tomllib.loads(_SESSION_APPS.read_text(encoding="utf-8"))["apps"]
        defaults = tomllib.loads(_DEFAULTS.read_text(encoding="utf-8")) if whole.base == "builtin" else {}
        whole = read_table("catalog", {**defaults.get("catalog", {}), **given["catalog"]}, WholeTable)
        shipped = {**defaults["apps"], **sessions} if defaults else {}
        apps = {**shipped, **_with_ids(_with_prompts(given["apps"], sessions), shipped)}
        events = {**defaults.get("events", {}), **given["events"]}
        rates = {
            "user": RateRule(scope="user", limit=user_limit, seconds=60),
            "store": RateRule(scope="store", limit=store_limit, seconds=3600),
        }
        language = whole.language or "en"
        return cls(
            {
                key: app_of(key, read_table(f"apps.{key}", value, AppTable), rates, environ or {}, max_tokens, language)
                for key, value in apps.items()
            },
            {key: lanes_of(key, read_table(f"events.{key}", value, EventTable)) for key, value in events.items()},
            dimensions,
            {
                key: schedule_of(key, read_table(f"schedules.{key}", value, ScheduleTable))
                for key, value in given["schedules"].items()
            },
            texts=texts_of(whole),
            connector=whole.connector,
            chat=whole.chat,
        )


def load_catalog(settings: Settings, environ: Mapping[str, str]) -> AppCatalog:
    """The catalog that the settings describe; raises CatalogError."""
    run = settings.run
    names = ("catalog", "apps", "events", "schedules")
    return AppCatalog.load(
        environ,
        {name: getattr(settings, name) for name in names},
        dimensions=run.dimensions,
        user_limit=run.user_calls_per_minute,
        store_limit=run.store_calls_per_hour,
        max_tokens=run.max_call_tokens,
    )


def missing_variables(catalog: AppCatalog, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that are not set: those of the applications, and the internal token."""
    return catalog.missing + (() if environ.get(TOKEN, "").strip() else (TOKEN,))


def _with_prompts(apps: Mapping[str, Any], sessions: Mapping[str, Any]) -> dict[str, Any]:
    """The user's applications; one for recorded sessions keeps what ships and does not depend on the provider."""

    def completed(key: str, app: Any) -> Any:  # noqa: ANN401 - checked when the table is read
        if key not in sessions or not isinstance(app, Mapping):
            return app
        kept = {name: value for name, value in sessions[key].items() if name not in ("app_id_env", "optional")}
        return kept | dict(app)

    return {key: completed(key, app) for key, app in apps.items()}


def _with_ids(apps: Mapping[str, Any], shipped: Mapping[str, Any]) -> dict[str, Any]:
    """The user's applications; one that takes the place of a shipped one of the same type keeps its variable."""
    variables = {app["type"]: app["app_id_env"] for app in shipped.values()}

    def completed(app: Any) -> Any:  # noqa: ANN401 - checked when the table is read
        if not isinstance(app, Mapping) or app.get("provider", "dashscope") != "dashscope":
            return app
        known = variables.get(str(app.get("type")))
        return app if known is None or "app_id" in app or "app_id_env" in app else {**app, "app_id_env": known}

    return {key: completed(app) for key, app in apps.items()}


def _steps(lane: Lane, dimension: str | None) -> tuple[PlannedStep, ...]:
    names = [f"{app}:{dimension}" if dimension else app for app in lane.apps]
    return tuple(
        PlannedStep(name=name, app=app, after=tuple(names[max(place - 1, 0) : place]), dimension=dimension)
        for place, (name, app) in enumerate(zip(names, lane.apps, strict=True))
    )


def _check(catalog: AppCatalog) -> None:
    """Whatever would only be noticed when an event arrives is refused now."""
    if catalog._chat is not None and catalog._chat not in catalog.apps:
        raise CatalogError(f"[catalog]: chat names {catalog._chat!r}, which is no application")
    ids = [app.app_id for app in catalog.apps.values() if app.endpoint is not None]
    for app in catalog.apps.values():
        _check_app(app, catalog)
        if app.app_id in ids and [other.app_id for other in catalog.apps.values()].count(app.app_id) > 1:
            raise CatalogError(f"[apps.{app.key}]: its app_id {app.app_id!r} is that of another application, too")
    for name, lanes in catalog.events.items():
        _check_event(name, lanes, catalog)
    for schedule in catalog.schedules.values():
        if schedule.event_type not in catalog.events:
            raise CatalogError(f"[schedules.{schedule.name}]: {schedule.event_type!r} is no event")
        if len(schedule.name) > _STEP_LIMIT:
            raise CatalogError(f"[schedules.{schedule.name}]: the name is longer than {_STEP_LIMIT} characters")


def _check_app(app: App, catalog: AppCatalog) -> None:
    for name in (app.app_type, app.cache.cache_type if app.cache else ""):
        if len(name) > _NAME_LIMIT:
            raise CatalogError(f"[apps.{app.key}]: {name!r} is longer than {_NAME_LIMIT} characters")
    if len(app.app_id) > _ID_LIMIT:
        raise CatalogError(f"[apps.{app.key}]: its app_id is longer than {_ID_LIMIT} characters")
    for name in app.inputs:
        if name not in catalog.apps:
            raise CatalogError(f"[apps.{app.key}]: its input {name!r} is no application")
    if app.clues and app.target != "member":
        raise CatalogError(f"[apps.{app.key}]: clues are those of a member, so its target has to be member")


def _check_event(name: str, lanes: tuple[Lane, ...], catalog: AppCatalog) -> None:
    if len(name) > _NAME_LIMIT:
        raise CatalogError(f"[events.{name}]: the name is longer than {_NAME_LIMIT} characters")
    steps = [step for lane in catalog._lanes(iter(lanes)) for step in lane]
    for step in steps:
        if step.app not in catalog.apps:
            raise CatalogError(f"[events.{name}]: {step.app!r} is no application")
        if len(step.name) > _STEP_LIMIT:
            raise CatalogError(f"[events.{name}]: step {step.name!r} is longer than {_STEP_LIMIT} characters")
    names = [step.name for step in steps]
    if twice := next((step for step in names if names.count(step) > 1), None):
        raise CatalogError(f"[events.{name}]: {twice} is in it twice")
