"""Which applications there are, and which chain of them an event starts: ``catalog.toml`` and the user's additions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec

from agenttrace.run.cache import CacheRule
from agenttrace.run.calls import RateRule
from agenttrace.run.config import REQUIRED, AIConfig
from agenttrace.run.schedules import WEEKDAYS, Schedule, Weekday
from agenttrace.run.upstream.wire import estimate_tokens

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
#: More than the Qwen models answer unless told otherwise; DashScope takes no limit for an application with the call.
MAX_TOKENS = 20_000
#: What every current Qwen model takes in.
CONTEXT_TOKENS = 30_000
#: What the columns of the run store hold.
_NAME_LIMIT, _CHAIN_LIMIT, _STEP_LIMIT = 30, 100, 60
_DEFAULTS = Path(__file__).with_name("catalog.toml")

T = TypeVar("T")


class CatalogError(Exception):
    """The catalog says something that cannot be; the message says where."""


class UnknownEventError(Exception):
    """No chain is known for an event."""

    def __init__(self, event_type: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown event type {event_type!r}; known are {', '.join(known)}")
        self.event_type = event_type


class Sizes(TypedDict):
    """The part of a call's request that says how large it may become."""

    prompt_tokens: int
    estimate: int
    ceiling: int


@dataclass(frozen=True, kw_only=True)
class App:
    """An application: how it is called, and what becomes of its results."""

    #: Its name in chains, such as ``app3``.
    key: str
    app_type: str
    title: str
    #: DashScope's id; empty while the variables are not set.
    app_id: str
    rate: RateRule
    #: None: results are not kept.
    cache: CacheRule | None
    #: Whose result it is in the cache: ``dimension``, ``member``, ``member:coach`` or ``site``.
    target: str
    #: The applications whose results its prompt holds.
    inputs: tuple[str, ...]
    prompt: str
    #: Tokens that a call is expected to use beside its prompt, until calls have shown better.
    expected_tokens: int
    #: The most tokens that one call can take beside its prompt.
    max_tokens: int
    #: Tokens that its model takes in; three quarters of them are for the history of a chat.
    context_tokens: int
    stream: bool
    #: Whether its results are written to ``member_retention_clue``.
    clues: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def tokens_of(self, prompt: str) -> Sizes:
        """What a call with this prompt will take: the prompt, all of it, and at most beside the prompt."""
        asked = estimate_tokens(prompt)
        return {"prompt_tokens": asked, "estimate": asked + self.expected_tokens, "ceiling": self.max_tokens}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call in a chain."""

    #: ``app3`` or ``app2:today``.
    name: str
    app: str
    #: The steps that have to be over before it begins.
    after: tuple[str, ...] = ()
    dimension: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Lanes that run side by side; the steps of a lane run one after another."""

    lanes: tuple[tuple[Step, ...], ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, lane by lane."""
        return tuple(step for lane in self.lanes for step in lane)

    @property
    def text(self) -> str:
        """``app3→app8→app7+app4→app5``; lanes that differ in the dimension alone as ``app2×8``."""
        counts: dict[str, int] = {}
        for lane in self.lanes:
            text = "→".join(step.app if step.dimension else step.name for step in lane)
            counts[text] = counts.get(text, 0) + 1
        text = "+".join(name if count == 1 else f"{name}×{count}" for name, count in counts.items())
        return text if len(text) <= _CHAIN_LIMIT else text[: _CHAIN_LIMIT - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A lane as the catalog has it."""

    apps: tuple[str, ...]
    #: The lane is run only where the payload has this key, with something other than null.
    condition: str | None = None
    each_dimension: bool = False

    def applies(self, payload: Mapping[str, Any]) -> bool:
        """Whether an event with this payload runs it."""
        return self.condition is None or payload.get(self.condition) is not None


_Tokens = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class _Cache(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    keep: int | Literal["day", "forever"]
    target: Literal["dimension", "member", "member:coach", "site"]

    def rule(self) -> CacheRule:
        days = self.keep if isinstance(self.keep, int) else None
        return CacheRule(cache_type=self.type, days=days, end_of_day=self.keep == "day")


class _App(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    title: str = ""
    #: None: it is in the variable that ``type`` names, as with the eight.
    app_id: str | None = None
    rate: Literal["user", "store"] = "store"
    cache: _Cache | None = None
    inputs: tuple[str, ...] = ()
    prompt: str = ""
    tokens: _Tokens = 2000
    #: None: what ``run.max_call_tokens`` says.
    max_tokens: _Tokens | None = None
    context_tokens: Annotated[int, msgspec.Meta(ge=4_000, le=10_000_000)] = CONTEXT_TOKENS
    stream: bool = False
    clues: bool = False
    parameters: dict[str, Any] = {}


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    lanes: tuple[str, ...]


_Clock = Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
_Site = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class _Schedule(msgspec.Struct, forbid_unknown_fields=True):
    event: str
    at: _Clock | tuple[_Clock, ...]
    sites: Annotated[tuple[_Site, ...], msgspec.Meta(min_length=1)]
    days: tuple[Weekday, ...] = WEEKDAYS
    member: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    payload: dict[str, Any] = {}
    forced: bool = False


class Catalog:
    """All applications and events."""

    def __init__(
        self,
        apps: Mapping[str, App],
        events: Mapping[str, Sequence[Lane]],
        dimensions: Sequence[str] = DIMENSIONS,
        schedules: Mapping[str, Schedule] = MappingProxyType({}),
    ) -> None:
        self.apps = MappingProxyType(dict(apps))
        self.events: Mapping[str, tuple[Lane, ...]] = MappingProxyType({k: tuple(v) for k, v in events.items()})
        self.dimensions = tuple(dimensions)
        self.schedules = MappingProxyType(dict(schedules))
        _check(self)

    def chain(self, event_type: str, payload: Mapping[str, Any] | None = None) -> Chain:
        """What an event starts; raises UnknownEventError."""
        lanes = self.events.get(event_type)
        if lanes is None:
            raise UnknownEventError(event_type, sorted(self.events))
        return Chain(lanes=tuple(self._lanes(lane for lane in lanes if lane.applies(payload or {}))))

    def _lanes(self, lanes: Iterator[Lane]) -> Iterator[tuple[Step, ...]]:
        for lane in lanes:
            for dimension in self.dimensions if lane.each_dimension else (None,):
                yield _steps(lane, dimension)

    @classmethod
    def load(
        cls,
        config: AIConfig | None,
        table: Mapping[str, Any] | None = None,
        *,
        dimensions: Sequence[str] = DIMENSIONS,
        user_limit: int = 10,
        store_limit: int = 100,
        max_tokens: int = MAX_TOKENS,
    ) -> Catalog:
        """The default catalog, with what ``table`` has (``apps``, ``events``, ``schedules``) added or in its place."""
        defaults = tomllib.loads(_DEFAULTS.read_text(encoding="utf-8"))
        apps, events = ({**defaults[name], **((table or {}).get(name) or {})} for name in ("apps", "events"))
        rates = {
            "user": RateRule(scope="user", limit=user_limit, seconds=60),
            "store": RateRule(scope="store", limit=store_limit, seconds=3600),
        }
        return cls(
            {
                key: _app(key, _read(f"apps.{key}", value, _App), rates, config, max_tokens)
                for key, value in apps.items()
            },
            {key: _event(key, _read(f"events.{key}", value, _Event)) for key, value in events.items()},
            dimensions,
            {
                key: _schedule(key, _read(f"schedules.{key}", value, _Schedule))
                for key, value in ((table or {}).get("schedules") or {}).items()
            },
        )


def _schedule(key: str, given: _Schedule) -> Schedule:
    times = (given.at,) if isinstance(given.at, str) else given.at
    if not times or not given.days:
        raise CatalogError(f"[schedules.{key}]: at and days name no time")
    return Schedule(
        name=key,
        event_type=given.event,
        times=tuple(sorted({time.fromisoformat(text) for text in times})),
        sites=tuple(dict.fromkeys(given.sites)),
        weekdays=frozenset(map(WEEKDAYS.index, given.days)),
        member_id=given.member,
        payload=_plain(given.payload),
        is_forced=given.forced,
    )


def _read(place: str, value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise CatalogError(f"[{place}]: {error}") from None


def _app(
    key: str, given: _App, rates: Mapping[str, RateRule], config: AIConfig | None, max_tokens: int = MAX_TOKENS
) -> App:
    return App(
        key=key,
        app_type=given.type,
        title=given.title or key,
        app_id=_app_id(key, given, config),
        rate=rates[given.rate],
        cache=given.cache.rule() if given.cache else None,
        target=given.cache.target if given.cache else "member",
        inputs=given.inputs,
        prompt=given.prompt,
        expected_tokens=given.tokens,
        max_tokens=given.max_tokens or max_tokens,
        context_tokens=given.context_tokens,
        stream=given.stream,
        clues=given.clues,
        parameters=_plain(given.parameters),
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a settings file
    """Settings read numbers exactly, as Decimal; the wire takes them as JSON does."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _app_id(key: str, given: _App, config: AIConfig | None) -> str:
    if given.app_id is not None:
        return given.app_id
    # "app3_clue" is in DASHSCOPE_APP_ID_3_CLUE.
    variable = f"DASHSCOPE_APP_ID_{given.type.removeprefix('app').upper()}"
    if variable not in REQUIRED:
        raise CatalogError(f"[apps.{key}]: app_id is missing")
    return str(getattr(config, REQUIRED[variable])) if config is not None else ""


def _event(key: str, given: _Event) -> tuple[Lane, ...]:
    if not given.lanes:
        raise CatalogError(f"[events.{key}]: lanes is empty")
    return tuple(_lane(text) for text in given.lanes)


def _lane(text: str) -> Lane:
    """``app4→app5 if coach_id``; ``->`` serves where no arrow is at hand."""
    chain, _, condition = text.partition(" if ")
    apps = [name.strip() for name in chain.replace("->", "→").split("→")]
    return Lane(
        apps=tuple(name.removesuffix(":*") for name in apps),
        condition=condition.strip() or None,
        each_dimension=any(name.endswith(":*") for name in apps),
    )


def _steps(lane: Lane, dimension: str | None) -> tuple[Step, ...]:
    names = [f"{app}:{dimension}" if dimension else app for app in lane.apps]
    return tuple(
        Step(name=name, app=app, after=tuple(names[max(place - 1, 0) : place]), dimension=dimension)
        for place, (name, app) in enumerate(zip(names, lane.apps, strict=True))
    )


def _check(catalog: Catalog) -> None:
    """Whatever would only be noticed when an event arrives is refused now."""
    for app in catalog.apps.values():
        _check_app(app, catalog)
    for name, lanes in catalog.events.items():
        _check_event(name, lanes, catalog)
    for schedule in catalog.schedules.values():
        if schedule.event_type not in catalog.events:
            raise CatalogError(f"[schedules.{schedule.name}]: {schedule.event_type!r} is no event")
        if len(schedule.name) > _STEP_LIMIT:
            raise CatalogError(f"[schedules.{schedule.name}]: the name is longer than {_STEP_LIMIT} characters")


def _check_app(app: App, catalog: Catalog) -> None:
    for name in (app.app_type, app.cache.cache_type if app.cache else ""):
        if len(name) > _NAME_LIMIT:
            raise CatalogError(f"[apps.{app.key}]: {name!r} is longer than {_NAME_LIMIT} characters")
    for name in app.inputs:
        if name not in catalog.apps:
            raise CatalogError(f"[apps.{app.key}]: its input {name!r} is no application")
    if app.clues and app.target != "member":
        raise CatalogError(f"[apps.{app.key}]: clues are those of a member, so its target has to be member")


def _check_event(name: str, lanes: tuple[Lane, ...], catalog: Catalog) -> None:
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
