"""The tables of a catalog as a TOML file has them, and the values that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from agenttrace.run.catalog.apps import App, Lane
from agenttrace.run.catalog.texts import TextsError, UserTexts
from agenttrace.run.guards.breaker import BreakerTable
from agenttrace.run.jobs.schedules import WEEKDAYS, Schedule, Weekday
from agenttrace.run.results.cache import CacheRule
from agenttrace.run.upstream.calls import RateRule
from agenttrace.run.upstream.openai import ResponseFormat
from agenttrace.run.upstream.providers import DASHSCOPE_KEY, Endpoint, ProviderName

#: More than the Qwen models answer by default; DashScope takes no limit for an application with the call.
MAX_TOKENS = 20_000
#: What every current Qwen model takes in.
CONTEXT_TOKENS = 30_000

T = TypeVar("T")


class CatalogError(Exception):
    """The catalog is not valid; the message says where."""


_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class _Cache(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    keep: int | Literal["day", "forever"]
    target: Literal["dimension", "member", "member:coach", "site"]

    def rule(self) -> CacheRule:
        days = self.keep if isinstance(self.keep, int) else None
        return CacheRule(cache_type=self.type, days=days, end_of_day=self.keep == "day")


class _RateLimit(msgspec.Struct, forbid_unknown_fields=True):
    calls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=31 * 86_400)] = 60

    def rule(self) -> RateRule:
        return RateRule(scope="app", limit=self.calls, seconds=self.seconds)


class AppTable(msgspec.Struct, forbid_unknown_fields=True):
    """``[apps.NAME]``."""

    type: str
    #: One for all users, or one a language: ``{ en = "…", zh = "…" }``.
    title: str | Annotated[dict[str, _Name], msgspec.Meta(min_length=1)] = ""
    provider: ProviderName = "dashscope"
    #: DashScope's id, or the variable that holds it.
    app_id: str | None = None
    app_id_env: _Name | None = None
    #: Of an OpenAI-compatible endpoint.
    base_url: Annotated[str, msgspec.Meta(pattern="^https?://[^/]")] | None = None
    model: _Name | None = None
    api_key_env: _Name | None = None
    system: str | None = None
    #: A table, or JSON as a text.
    schema: dict[str, Any] | str | None = None
    response_format: ResponseFormat | None = None
    #: Whose calls are counted by the limits of ``[run]``.
    rate: Literal["user", "store"] = "store"
    #: For all calls of this application.
    rate_limit: _RateLimit | None = None
    cache: _Cache | None = None
    inputs: tuple[str, ...] = ()
    #: As the title: one, or one a language.
    prompt: str | Annotated[dict[str, _Name], msgspec.Meta(min_length=1)] = ""
    tokens: _Tokens = 2000
    #: None: ``run.max_call_tokens``.
    max_tokens: _Tokens | None = None
    context_tokens: Annotated[int, msgspec.Meta(ge=4_000, le=10_000_000)] = CONTEXT_TOKENS
    stream: bool = False
    clues: bool = False
    parameters: dict[str, Any] = {}
    breaker: BreakerTable | None = None
    #: Nothing is missing while its variables are not set; it only cannot be called.
    optional: bool = False


class EventTable(msgspec.Struct, forbid_unknown_fields=True):
    """``[events.NAME]``."""

    lanes: tuple[str, ...]


class WholeTable(msgspec.Struct, forbid_unknown_fields=True):
    """``[catalog]``: what is set for all of it."""

    #: ``builtin``: what this file has is added to the catalog that ships.
    base: Literal["builtin", "none"] = "builtin"
    #: For users whose languages the catalog does not have.
    language: str | None = None
    texts: dict[str, dict[str, str]] = {}
    #: The system that events come from which name none.
    connector: Annotated[str, msgspec.Meta(min_length=1, max_length=30)] | None = None
    #: The application that users chat with.
    chat: str | None = None


_Clock = Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
_Site = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class ScheduleTable(msgspec.Struct, forbid_unknown_fields=True):
    """``[schedules.NAME]``."""

    event: str
    at: _Clock | tuple[_Clock, ...]
    sites: Annotated[tuple[_Site, ...], msgspec.Meta(min_length=1)]
    days: tuple[Weekday, ...] = WEEKDAYS
    member: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    payload: dict[str, Any] = {}
    forced: bool = False


def texts_of(whole: WholeTable) -> UserTexts:
    """What users read."""
    try:
        return UserTexts(whole.language or "en", whole.texts)
    except TextsError as error:
        raise CatalogError(f"[catalog]: {error}") from None


def schedule_of(key: str, given: ScheduleTable) -> Schedule:
    """When an event comes by the clock."""
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


def read_table(place: str, value: object, kind: type[T]) -> T:
    """A table of the file; a CatalogError names its place."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise CatalogError(f"[{place}]: {error}") from None


def app_of(
    key: str,
    given: AppTable,
    rates: Mapping[str, RateRule],
    environ: Mapping[str, str],
    max_tokens: int = MAX_TOKENS,
    language: str = "en",
) -> App:
    """An application, with what it lacks in this environment."""
    titles = given.title if isinstance(given.title, dict) else {}
    prompts = given.prompt if isinstance(given.prompt, dict) else {}
    endpoint = _endpoint(key, given) if given.provider == "openai" else None
    if endpoint is None:
        _check_dashscope(key, given)
    variables = _variables(given, endpoint)
    return App(
        key=key,
        app_type=given.type,
        title=_in(language, titles) or str(given.title or key),
        titles=titles,
        app_id=_app_id(key, given, environ),
        rate=rates[given.rate],
        cache=given.cache.rule() if given.cache else None,
        target=given.cache.target if given.cache else "member",
        inputs=given.inputs,
        prompt=_in(language, prompts) or str(given.prompt),
        prompts=prompts,
        is_optional=given.optional,
        expected_tokens=given.tokens,
        max_tokens=given.max_tokens or max_tokens,
        context_tokens=given.context_tokens,
        stream=given.stream,
        clues=given.clues,
        parameters=_plain(given.parameters),
        breaker=given.breaker,
        rate_limit=given.rate_limit.rule() if given.rate_limit else None,
        id_variable=given.app_id_env if given.app_id is None else None,
        endpoint=endpoint,
        variables=variables,
        missing=tuple(name for name in variables if not environ.get(name, "").strip()),
    )


def _in(language: str, texts: Mapping[str, str]) -> str | None:
    return texts.get(language) or next(iter(texts.values()), None)


def _variables(given: AppTable, endpoint: Endpoint | None) -> tuple[str, ...]:
    key = DASHSCOPE_KEY if endpoint is None else endpoint.api_key_env
    names = (key, given.app_id_env if given.app_id is None else None)
    return tuple(name for name in names if name is not None)


def _app_id(key: str, given: AppTable, environ: Mapping[str, str]) -> str:
    if given.app_id is not None:
        return given.app_id
    return f"openai/{key}" if given.provider == "openai" else environ.get(given.app_id_env or "", "").strip()


def _check_dashscope(key: str, given: AppTable) -> None:
    for name in ("base_url", "model", "api_key_env", "system", "schema", "response_format"):
        if getattr(given, name) is not None:
            raise CatalogError(f'[apps.{key}]: {name} needs provider = "openai"')
    if given.app_id is None and given.app_id_env is None:
        raise CatalogError(f"[apps.{key}]: app_id is missing, or app_id_env, the variable that holds it")


def _endpoint(key: str, given: AppTable) -> Endpoint:
    if given.base_url is None or given.model is None:
        raise CatalogError(f'[apps.{key}]: provider = "openai" needs base_url and model')
    if given.app_id_env is not None:
        raise CatalogError(f'[apps.{key}]: app_id_env needs provider = "dashscope"')
    schema = _schema(key, given.schema)
    if given.response_format == "json_schema" and schema is None:
        raise CatalogError(f"[apps.{key}]: response_format = json_schema needs a schema")
    return Endpoint(
        base_url=given.base_url,
        model=given.model,
        api_key_env=given.api_key_env,
        system=given.system or "",
        schema=schema,
        response_format=given.response_format,
        max_tokens=given.max_tokens,
    )


def _schema(key: str, given: dict[str, Any] | str | None) -> dict[str, Any] | None:
    if not isinstance(given, str):
        return None if given is None else dict(_plain(given))
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CatalogError(f"[apps.{key}]: schema is no JSON object: {error}") from None


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a settings file
    """Settings read numbers exactly, as Decimal; the wire takes them as JSON does."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def lanes_of(key: str, given: EventTable) -> tuple[Lane, ...]:
    """What an event starts."""
    if not given.lanes:
        raise CatalogError(f"[events.{key}]: lanes is empty")
    return tuple(_lane(text) for text in given.lanes)


def _lane(text: str) -> Lane:
    """``app4→app5 if coach_id``; ``->`` may be written for ``→``."""
    chain, _, condition = text.partition(" if ")
    apps = [name.strip() for name in chain.replace("->", "→").split("→")]
    return Lane(
        apps=tuple(name.removesuffix(":*") for name in apps),
        condition=condition.strip() or None,
        each_dimension=any(name.endswith(":*") for name in apps),
    )
