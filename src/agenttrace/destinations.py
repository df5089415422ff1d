"""Where spans are sent: the ``[destinations.NAME]`` tables of the settings."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec

#: Of what was said: nothing, everything with secrets masked, or everything.
Content = Literal["off", "masked", "full"]
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
State = Literal["ok", "error", "cancelled", "unclosed"]

#: The type of a destination that is the server of a team.
TEAM = "team"
#: What of its sessions a machine shares with a team.
TeamLevel = Literal["full", "masked", "figures"]

#: A shorter key would be found in many words that are none.
_SHORTEST_KEY = 4
#: An environment variable in a text of the settings.
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class DestinationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One destination."""

    name: Name
    #: One of ours, or the name of a plug-in.
    type: Text
    #: Where it listens; Langfuse, LangSmith and CozeLoop have a default.
    url: Text | None = None
    #: The directory that files are written to.
    path: Text | None = None
    #: Langfuse has two keys, LangSmith and CozeLoop one; an OTLP backend takes whatever ``headers`` say.
    public_key: Text | None = None
    secret_key: Text | None = None
    api_key: Text | None = None
    headers: Mapping[str, Text] = MappingProxyType({})
    #: The project there: Phoenix, LangSmith; of CozeLoop the id of the workspace.
    project: Text | None = None
    #: Told with every span, where the destination knows users and environments.
    user: Text | None = None
    environment: Text | None = None
    #: What is sent: of these agents, of projects that match one of these globs, of turns that ended like this; all.
    agents: tuple[Text, ...] = ()
    projects: tuple[Text, ...] = ()
    states: tuple[State, ...] = ()
    prompts: Content = "masked"
    tool_inputs: Content = "masked"
    tool_outputs: Content = "masked"
    #: ``now``: what happens after the destination was added; ``all``; or a day such as ``2026-11-01``.
    start: Annotated[str, msgspec.Meta(pattern=r"^(now|all|\d{4}-\d{2}-\d{2})$")] = "now"
    #: What an OTLP backend does with a span that is sent twice. Phoenix ignores it; most keep both.
    repeats: Literal["ignored", "kept"] = "kept"
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    batch_spans: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
    max_body_bytes: Annotated[int, msgspec.Meta(ge=10_000, le=100_000_000)] = 5_000_000
    #: Of a team: what is shared, and of projects (a name, a path or a glob) something else.
    level: TeamLevel = "full"
    project_levels: Mapping[str, TeamLevel] = MappingProxyType({})
    #: Whatever a plug-in wants to know beside the above.
    options: Mapping[str, Any] = MappingProxyType({})
    #: Environment variables that its table names and that are not set. Until they are, it is not used; everything else
    #: goes on, as not every shell has every key.
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"DestinationSettings(name={self.name!r}, type={self.type!r})"

    @property
    def address(self) -> str:
        """Where it leads, without what must not be shown."""
        return self.path or "" if self.url is None else shown_address(self.url)


def shown_address(url: str) -> str:
    """An address without login, password and parameters."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # A password may have a / in it, and then what looks like the host is a part of the login.
        return f"{parts.scheme}://…"
    more = "?…" if parts.query else ""
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}{more}" if parts.scheme else f"{place}{parts.path}{more}"


def keys_hidden(settings: DestinationSettings) -> Callable[[str], str]:
    """Hides the keys of a destination in a text: answers, errors and addresses repeat them now and then."""
    written = {form for key in _keys(settings) if len(key) >= _SHORTEST_KEY for form in _forms(key)}
    if not written:
        return str
    # The longest first: one key may be the beginning of another.
    pattern = re.compile("|".join(re.escape(form) for form in sorted(written, key=len, reverse=True)))
    return lambda text: pattern.sub("[masked:key]", text)


def _keys(settings: DestinationSettings) -> Iterator[str]:
    """Everything in the settings of a destination that opens it, as it is sent."""
    told = (settings.api_key, settings.secret_key, *settings.headers.values(), *_texts(settings.options))
    for key in filter(None, told):
        # "Bearer KEY": a server repeats the key, or all of it.
        yield from (key.strip(), *key.split()[-1:])
    if settings.public_key and settings.secret_key:
        yield _basic(f"{settings.public_key.strip()}:{settings.secret_key.strip()}")
    try:
        parts = urlsplit(settings.url or "")
    except ValueError:
        return
    login = parts.netloc.rpartition("@")[0]
    if login:
        yield from (login, login.partition(":")[2], _basic(unquote(login)))
    yield from (parts.query, *(value for _, value in parse_qsl(parts.query)))


def _texts(value: object) -> Iterator[str]:
    """All texts in the options of a plug-in: nobody but the plug-in knows which of them are keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _basic(login: str) -> str:
    return b64encode(login.encode("utf-8", "replace")).decode()


def _forms(key: str) -> set[str]:
    """A key as it may be written: plain, in an address, in JSON, in HTML."""
    plain = {key, unquote(key)}
    return {
        form
        for each in plain
        for form in (each, quote(each, safe=""), quote_plus(each), json.dumps(each)[1:-1], html.escape(each))
    }


class BadDestinationError(ValueError):
    """A destination that cannot be used."""

    def __init__(self, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{key} {problem}. {fix}")
        self.key, self.problem, self.fix = key, problem, fix


#: Our types, and what each cannot do without.
_NEEDED: dict[str, tuple[str, ...]] = {
    "otlp": ("url",),
    "langfuse": ("public_key", "secret_key"),
    "langsmith": ("api_key",),
    "cozeloop": ("api_key", "project"),
    "jsonl": ("path",),
    "parquet": ("path",),
    TEAM: ("url",),
}
#: What else a destination of that type has: it gets the rows of the store, and no spans.
_OF_TEAMS = frozenset({"name", "type", "url", "level", "project_levels", "start", "timeout_seconds", "missing"})
_FIELDS = tuple(
    field.name for field in msgspec.structs.fields(DestinationSettings) if field.name not in ("name", "missing")
)
_EXAMPLE = 'Write [destinations.phoenix] and below it type = "otlp" and url = "http://127.0.0.1:6006/v1/traces".'


def destination_types() -> list[str]:
    """The types that a destination may have: ours, and those of plug-ins."""
    from agenttrace.plugins import DESTINATIONS, installed

    return [*_NEEDED, *sorted({plugin.name for plugin in installed(DESTINATIONS)} - _NEEDED.keys())]


def parse_destination(name: str, table: object, environ: Mapping[str, str], base: Path = Path()) -> DestinationSettings:
    """A destination from its table; ``${NAME}`` in a text stands for an environment variable."""
    if not isinstance(table, dict):
        raise BadDestinationError("", "is not a table", _EXAMPLE)
    for key in table:
        if key not in _FIELDS:
            raise BadDestinationError(key, "is not a setting", f"Valid here: {', '.join(_FIELDS)}.")
    if "type" not in table:
        raise BadDestinationError("type", "is missing", f"Give one of {', '.join(destination_types())}.")
    missing: list[str] = []
    values = filled(table, environ, missing)
    try:
        found = msgspec.convert({**values, "name": name, "missing": missing}, DestinationSettings, strict=True)
    except msgspec.ValidationError as error:
        raise _wrong(error) from None
    if found.type not in _NEEDED and found.type not in destination_types():
        fix = f"Give one of {', '.join(destination_types())}, or install the package that adds it beside agenttrace."
        raise BadDestinationError("type", f"cannot be used (there is no destination of type {found.type!r})", fix)
    if found.options and found.type in _NEEDED:
        raise BadDestinationError("options", "is not a setting", f"A destination of type {found.type} has none.")
    for key in _NEEDED.get(found.type, ()):
        if getattr(found, key) is None:
            raise BadDestinationError(key, "is missing", f"A destination of type {found.type} needs it.")
    for key in table:
        if (found.type == TEAM and key not in _OF_TEAMS) or (found.type != TEAM and key in ("level", "project_levels")):
            raise BadDestinationError(key, "is not a setting", f"A destination of type {found.type} has none.")
    if found.url is not None and not found.missing and not is_address(found.url):
        fix = "Give one that begins with http:// or https://; in a password write / as %2F, ? as %3F and # as %23."
        raise BadDestinationError("url", "is no address", fix)
    if found.path is not None:
        found = msgspec.structs.replace(found, path=str((base / Path(found.path).expanduser()).absolute()))
    return found


def is_address(url: str) -> bool:
    """Whether a text is an address of HTTP with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _wrong(error: msgspec.ValidationError) -> BadDestinationError:
    told, _, place = str(error).partition(" - at ")
    key = place.strip("`$.") or "name"
    return BadDestinationError(key.split("[")[0], f"cannot be used ({told})", "docs/export.md has examples.")


def filled(value: Any, environ: Mapping[str, str], missing: list[str]) -> Any:  # noqa: ANN401 - part of a TOML table
    """A value with environment variables in place of ``${NAME}``; the names of unset ones are added to ``missing``."""
    if isinstance(value, dict):
        return {name: filled(each, environ, missing) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, environ, missing) for each in value]
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        text = environ.get(found[1], "")
        if not text and found[1] not in missing:
            missing.append(found[1])
        return text or found[0]

    return VARIABLE.sub(variable, value)
