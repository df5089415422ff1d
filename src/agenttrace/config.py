"""The settings: defaults, then agenttrace.toml, then the environment, then flags, each value with its origin.

The origin is kept because the first question about a surprising setting is always where it came from.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from agenttrace.destinations import BadDestinationError, DestinationSettings, parse_destination
from agenttrace.model import Price
from agenttrace.price_tables import TABLE_PARTS, BadPriceError, parse_prices

_MOST = 2**31 - 1

Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$", description="a string that is not empty")]
Texts = Annotated[tuple[Text, ...], msgspec.Meta(description='a list of strings, such as ["one", "two"]')]
Positive = Annotated[int, msgspec.Meta(ge=1, le=_MOST, description=f"a whole number from 1 to {_MOST}")]
Natural = Annotated[int, msgspec.Meta(ge=0, le=_MOST, description=f"a whole number from 0 to {_MOST}")]
Workers = Annotated[int, msgspec.Meta(ge=0, le=256, description="a whole number from 0 to 256")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400, description="a number above 0 and up to 86400")]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[^\s:/\\@\[\]?#%*]+(:[0-9]{1,5})?$")]
HostNames = Annotated[
    tuple[HostName, ...],
    msgspec.Meta(description='a list of host names, such as ["trace.example.com", "trace.example.com:8443"]'),
]
Hours = Annotated[int, msgspec.Meta(ge=1, le=8784, description="a whole number from 1 to 8784")]
Secret = Annotated[str, msgspec.Meta(min_length=32, description="at least 32 characters that nobody can guess")]
Login = Annotated[Literal["auto", "always", "none"], msgspec.Meta(description='one of "auto", "always" and "none"')]
Currency = Annotated[Literal["native", "USD", "CNY"], msgspec.Meta(description='one of "native", "USD" and "CNY"')]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535, description="a whole number from 0 to 65535")]
Big = Annotated[int, msgspec.Meta(ge=1, le=2**62, description="a whole number from 1")]
Switch = Annotated[bool, msgspec.Meta(description="true or false")]
Rate = Annotated[Decimal, msgspec.Meta(description="a number above 0, such as 7.1")]


class SettingsError(Exception):
    """A setting that cannot be used: where it stands, which it is, what is wrong, how to put it right."""

    def __init__(self, *, where: str, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{where}: {key} {problem}. {fix}" if key else f"{where} {problem}. {fix}")
        self.where, self.key, self.problem, self.fix = where, key, problem, fix


class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, and in what portions."""

    #: Files, directories or globs to record besides the agents' own homes.
    paths: Texts = ()
    #: The agents to record; empty: all of them.
    agents: Texts = ()
    #: Globs of paths that are never read.
    exclude: Texts = ()
    #: Each commit of another process empties SQLite's cache of pages: small batches make parallel imports slow.
    batch_lines: Positive = 20_000
    batch_bytes: Positive = 32 * 1024 * 1024
    #: What was read is written after this long at the latest.
    batch_seconds: Seconds = 0.5
    poll_seconds: Seconds = 5.0
    #: How long the handle of a rotated file is kept, to read what was still written to it.
    idle_close_seconds: Seconds = 60.0
    #: A longer line is quarantined, not loaded.
    max_line_bytes: Positive = 32 * 1024 * 1024
    #: What a compressed log holds beyond this is not read.
    max_unpacked_bytes: Big = 2 * 1024**3
    #: Lines in quarantine that are kept of one file, and of all; further ones are only counted.
    quarantine_lines_per_file: Positive = 1000
    quarantine_lines: Positive = 100_000
    #: Whether links in watched directories are followed out of them.
    follow_symlinks: Switch = False
    #: Processes for a large first import; 0: as many as there are cores.
    workers: Workers = 0
    #: A working session that is silent for this long counts as interrupted.
    stale_minutes: Positive = 15


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long recorded data is kept."""

    #: 0: for ever.
    days: Natural = 0


class UsageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How usage and cost are shown."""

    #: Where a day begins: ``local`` or an IANA name such as ``Asia/Shanghai``.
    timezone: Text = "local"
    #: ``native``: each cost in the currency its model is priced in.
    currency: Currency = "native"
    #: Yuan for one dollar. Without it amounts in different currencies stay apart.
    exchange_rate: Rate | None = None


class DatabaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run half keeps its tables."""

    #: A PostgreSQL URL; without one a server of our own runs under the data directory.
    url: Text | None = None

    def __repr__(self) -> str:
        return f"DatabaseSettings(url={self.url and '***'!r})"


class JwtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may chat."""

    #: Signs the bearer tokens of chat users (HS256).
    secret: Secret | None = None

    def __repr__(self) -> str:
        return f"JwtSettings(secret={self.secret and '***'!r})"


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and times of the calls to LLM applications."""

    #: Where a business day begins: budgets, cache expiry and duplicates go by it.
    timezone: Text = "Asia/Shanghai"
    daily_tokens: Big = 100_000
    monthly_tokens: Big = 2_000_000
    #: The most that one call can take beside its prompt, for applications that name no limit of their own.
    max_call_tokens: Positive = 20_000
    #: Consecutive failures that open an application's breaker, and how long it stays open.
    failure_threshold: Positive = 5
    recovery_seconds: Seconds = 60.0
    user_calls_per_minute: Positive = 10
    store_calls_per_hour: Positive = 100
    #: The most that one call may take, all attempts together.
    deadline_seconds: Seconds = 120.0
    stream_deadline_seconds: Seconds = 300.0
    #: Jobs that one worker runs at the same time, and steps of one job.
    worker_concurrency: Positive = 10
    step_concurrency: Positive = 8
    #: A job whose worker was silent for this long is taken over by another.
    takeover_seconds: Seconds = 15.0
    #: A call whose process was silent for this long is closed as failed.
    lost_after_seconds: Seconds = 30.0
    #: How long running calls may go on after a stop signal.
    drain_seconds: Seconds = 30.0
    #: What App2 is asked for when the day's figures are ready.
    dimensions: Texts = (
        "today",
        "yesterday",
        "this_week",
        "last_week",
        "this_month",
        "last_month",
        "this_quarter",
        "last_quarter",
    )
    #: Days that run logs are kept; 0: for ever.
    log_days: Natural = 0
    #: Cached results kept for each application.
    cache_rows: Positive = 20_000


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP server."""

    host: Text = "127.0.0.1"
    #: 0: any free port.
    port: Port = 8317
    max_body_bytes: Positive = 1_048_576
    #: A silent stream says this often that it is alive.
    heartbeat_seconds: Seconds = 15.0
    #: How long a client may take to send the header of a request; a body gets more time the more of it arrives.
    client_timeout_seconds: Seconds = 20.0
    #: Names, besides this machine's own, that the console answers to.
    allowed_hosts: HostNames = ()
    #: ``auto``: on this machine the link of ``agenttrace open`` lets in; ``always``: everybody logs in by name;
    #: ``none``: every program and user of this machine gets in.
    login: Login = "auto"
    #: How long a login to the console holds.
    login_hours: Hours = 24 * 14


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When spans may leave, and what of them."""

    #: A turn that is over is sent once nothing more was written about it for this long.
    quiet_seconds: Seconds = 30.0
    #: Regular expressions of one's own secrets; what matches is masked like those that are known anyway.
    mask: Texts = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, never changed after loading."""

    #: The data directory.
    home: Path
    #: The file that was read, or would have been if there were one.
    file: Path | None = None
    record: RecordSettings = RecordSettings()
    retention: RetentionSettings = RetentionSettings()
    usage: UsageSettings = UsageSettings()
    database: DatabaseSettings = DatabaseSettings()
    jwt: JwtSettings = JwtSettings()
    run: RunSettings = RunSettings()
    serve: ServeSettings = ServeSettings()
    export: ExportSettings = ExportSettings()
    destinations: tuple[DestinationSettings, ...] = ()
    #: What is set for the whole catalog, and applications, events and schedules of one's own, as the file has them.
    catalog: Mapping[str, Any] = MappingProxyType({})
    apps: Mapping[str, Any] = MappingProxyType({})
    events: Mapping[str, Any] = MappingProxyType({})
    schedules: Mapping[str, Any] = MappingProxyType({})
    #: The user's own prices; ``Price.model`` is a name, or the beginning of one with ``*`` behind it.
    prices: tuple[Price, ...] = ()
    origins: Mapping[str, str] = MappingProxyType({})

    def origin(self, name: str) -> str:
        """Where a value came from: ``default``, ``file PATH``, ``environment NAME`` or ``flag``."""
        if name not in self.origins and name not in SETTING_NAMES:
            raise KeyError(name)
        return self.origins.get(name, "default")

    def value(self, name: str) -> object:
        """The value of a setting by its full name, such as ``record.paths``."""
        found: object = self
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def shown(self, name: str) -> object:
        """The value of a setting as it may be shown to anybody: of a secret only that it is set."""
        value = self.value(name)
        return "***" if name in SECRETS and value is not None else value


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "record": RecordSettings,
    "retention": RetentionSettings,
    "usage": UsageSettings,
    "database": DatabaseSettings,
    "jwt": JwtSettings,
    "run": RunSettings,
    "serve": ServeSettings,
    "export": ExportSettings,
}
_KEYS = {section: struct.__struct_fields__ for section, struct in _SECTIONS.items()}
_TYPES: dict[str, Any] = {"home": Text} | {
    f"{section}.{field.name}": field.type
    for section, struct in _SECTIONS.items()
    for field in msgspec.structs.fields(struct)
}
#: Every setting that has a value of its own; prices come on top, one table for each model.
SETTING_NAMES = tuple(_TYPES)
#: Never shown: the URL may hold a password.
SECRETS = ("database.url", "jwt.secret")
#: Tables of the file that are not settings with a value of their own.
_TABLES = ("prices", "catalog", "apps", "events", "schedules", "destinations")
_LISTS_OF_PATHS = ("record.paths", "record.exclude")
_LISTS_OF_HOSTS = ("serve.allowed_hosts",)
_LISTS_OF_PATTERNS = ("export.mask",)
_LISTS = (*_LISTS_OF_PATHS, *_LISTS_OF_HOSTS, *_LISTS_OF_PATTERNS, "record.agents", "run.dimensions")
_ZONES = ("usage.timezone", "run.timezone")
_PRICE_EXAMPLE = 'Write [prices."kimi-k2.5"] and below it currency = "CNY", input = 4 and output = 21.'


def load_settings(environ: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None) -> Settings:
    """Read all settings; ``flags`` maps full names (``record.workers``) to values, ``None``: not given."""
    given = {name: value for name, value in (flags or {}).items() if value is not None and value != []}
    file = _config_file(environ, given)
    table = _read(file)
    here = Path.cwd()
    values: dict[str, Any] = {"home": _absolute("~/.agenttrace", here, environ)}
    origins: dict[str, str] = {}
    layers = (
        (_in_file(table, file), file.parent),
        (_in_environment(environ), here),
        (_in_flags(given), here),
    )
    for layer, base in layers:
        for name, raw, origin in layer:
            values[name] = _located(name, _converted(name, raw, origin), base, environ)
            origins[name] = origin
    prices = _prices(table, file)
    origins |= {f"prices.{price.model}": f"file {file}" for price in prices}
    destinations = _destinations(table, file, environ)
    origins |= {f"destinations.{each.name}": f"file {file}" for each in destinations}
    return _assembled(file, values, prices, origins, _tables_of_ones_own(table, file), destinations)


def _assembled(
    file: Path,
    values: Mapping[str, Any],
    prices: tuple[Price, ...],
    origins: dict[str, str],
    tables: Mapping[str, Mapping[str, Any]],
    destinations: tuple[DestinationSettings, ...],
) -> Settings:
    parts: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        if section:
            parts[section][key] = value
    return Settings(
        home=Path(values["home"]),
        file=file,
        record=RecordSettings(**parts["record"]),
        retention=RetentionSettings(**parts["retention"]),
        usage=UsageSettings(**parts["usage"]),
        database=DatabaseSettings(**parts["database"]),
        jwt=JwtSettings(**parts["jwt"]),
        run=RunSettings(**parts["run"]),
        serve=ServeSettings(**parts["serve"]),
        export=ExportSettings(**parts["export"]),
        destinations=destinations,
        catalog=tables["catalog"],
        apps=tables["apps"],
        events=tables["events"],
        schedules=tables["schedules"],
        prices=prices,
        origins=MappingProxyType(origins),
    )


def ensure_home(settings: Settings) -> Path:
    """Create the data directory, readable by its owner alone, and make sure that it can be used."""
    home = settings.home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
    except OSError as error:
        raise _unusable(settings, f"cannot be created ({error.strerror})") from error
    if not home.is_dir():
        raise _unusable(settings, "is not a directory")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(settings, "is not writable")
    if home.stat().st_mode & 0o077:
        # Somebody created it with the usual mode, such as a program that writes its logs into it.
        with contextlib.suppress(OSError):
            home.chmod(0o700)
    return home


def _unusable(settings: Settings, problem: str) -> SettingsError:
    fix = "Put that right, or set AGENTTRACE_HOME to a directory of your own."
    return SettingsError(where=settings.origin("home"), key="home", problem=f"{settings.home} {problem}", fix=fix)


def variable(name: str) -> str:
    """The environment variable of a setting: ``record.paths`` is ``AGENTTRACE_RECORD_PATHS``."""
    return "AGENTTRACE_" + name.replace(".", "_").upper()


def did_you_mean(wrong: str, valid: Iterable[str], prefix: str = "") -> str:
    """A hint at the nearest valid name, or at all of them when none is near; ``prefix`` is only shown."""
    names = list(valid)
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"Did you mean {prefix}{near[0]}?" if near else f"Valid here: {', '.join(names)}."


def _config_file(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Path:
    named = environ.get("AGENTTRACE_CONFIG", "")
    if named:
        path = Path(_absolute(named, Path.cwd(), environ))
        if not path.exists():
            raise SettingsError(
                where="environment AGENTTRACE_CONFIG",
                key="",
                problem=f"{path} does not exist",
                fix="Name an existing file, or remove the variable.",
            )
        return path
    home = str(flags.get("home") or environ.get("AGENTTRACE_HOME") or "~/.agenttrace")
    return Path(_absolute(home, Path.cwd(), environ)) / "agenttrace.toml"


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        problem, fix = f"cannot be read ({error.strerror})", "Make it readable, or name another file."
    except UnicodeDecodeError:
        problem, fix = "is not UTF-8 text", "Save it as UTF-8."
    except ValueError as error:
        problem, fix = f"is not valid TOML: {error}", "Correct that line."
    raise SettingsError(where=f"file {file}", key="", problem=problem, fix=fix)


def _in_file(table: Mapping[str, Any], file: Path) -> Iterator[tuple[str, Any, str]]:
    origin = f"file {file}"
    for name, value in table.items():
        if name in _TABLES:
            continue
        if name not in _KEYS:
            _check(name, ["home", *_KEYS, *_TABLES], origin)
            yield name, value, origin
            continue
        if not isinstance(value, dict):
            fix = f"Write [{name}] on a line of its own and the settings below it."
            raise SettingsError(where=origin, key=name, problem="is not a table", fix=fix)
        for key, entry in value.items():
            _check(key, _KEYS[name], origin, prefix=f"{name}.")
            yield f"{name}.{key}", entry, origin


def _in_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    names = {variable(name): name for name in SETTING_NAMES}
    for found, text in environ.items():
        if found not in names:
            _check_variable(found)
        elif text.strip():
            yield names[found], _listed(names[found], text), f"environment {found}"


def _check_variable(found: str) -> None:
    """A variable in one of our sections that means nothing is a typing error; others are not ours."""
    if found.startswith("AGENTTRACE_PRICES_"):
        fix = "Write prices into agenttrace.toml."
        raise SettingsError(where="environment", key=found, problem="is not a setting", fix=fix)
    for section, keys in _KEYS.items():
        prefix = variable(section) + "_"
        if found.startswith(prefix):
            _check(found.removeprefix(prefix), [key.upper() for key in keys], "environment", prefix=prefix)


def _in_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name, value in flags.items():
        section, _, key = name.rpartition(".")
        if section in _KEYS:
            _check(key, _KEYS[section], "flag", prefix=f"{section}.")
        else:
            _check(name, SETTING_NAMES, "flag")
        yield name, _plain(value), "flag"


def _check(name: str, valid: Iterable[str], where: str, prefix: str = "") -> None:
    if name not in valid:
        fix = did_you_mean(name, valid, prefix)
        raise SettingsError(where=where, key=prefix + name, problem="is not a setting", fix=fix)


def _listed(name: str, text: str) -> object:
    """Split the text of a variable where its setting is a list; paths may hold commas, names do not."""
    if name not in _LISTS:
        return text.strip()
    if name in _LISTS_OF_PATTERNS:
        return [line for line in text.splitlines() if line.strip()]
    # A host may have a port behind a colon.
    separators = os.pathsep if name in _LISTS_OF_PATHS else "," if name in _LISTS_OF_HOSTS else f",{os.pathsep}"
    return [part.strip() for part in re.split(f"[{re.escape(separators)}]", text) if part.strip()]


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _converted(name: str, raw: object, origin: str) -> object:
    kind = _TYPES[name]
    try:
        value: object = msgspec.convert(raw, kind, strict=not origin.startswith("environment"))
    except msgspec.ValidationError:
        raise _wrong(name, raw, origin, f"Give {_expected(kind)}.") from None
    if isinstance(value, Decimal) and not (value.is_finite() and value > 0):
        raise _wrong(name, raw, origin, f"Give {_expected(kind)}.")
    if name == "export.mask" and isinstance(value, tuple):
        for pattern in value:
            _check_pattern(name, pattern, origin)
    if name in _ZONES and not _is_timezone(str(value)):
        raise _wrong(name, raw, origin, 'Give "local" or an IANA name such as "Asia/Shanghai" (needs tzdata).')
    if name == "run.timezone" and value == "local":
        # Several machines share one budget: its day cannot begin where each of them happens to be.
        raise _wrong(name, raw, origin, 'Give an IANA name such as "Asia/Shanghai".')
    return value


def _check_pattern(name: str, pattern: str, origin: str) -> None:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            where=origin,
            key=name,
            problem=f"holds {pattern!r}, which is no regular expression ({error})",
            fix="Correct it.",
        ) from None
    if found.search(""):
        fix = "Write what a secret looks like, such as 'corp-[0-9a-f]{32}'."
        raise SettingsError(where=origin, key=name, problem=f"holds {pattern!r}, which matches nothing at all", fix=fix)


def _wrong(name: str, raw: object, origin: str, fix: str) -> SettingsError:
    shown = "not usable" if name in SECRETS else repr(str(raw) if isinstance(raw, Decimal) else raw)
    return SettingsError(where=origin, key=name, problem=f"is {shown[:100]}", fix=fix)


def _expected(kind: object) -> str:
    metas = (meta for part in (kind, *get_args(kind)) for meta in getattr(part, "__metadata__", ()))
    return next((meta.description for meta in metas if meta.description), "another value")


def _is_timezone(name: str) -> bool:
    if name == "local":
        return True
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _located(name: str, value: object, base: Path, environ: Mapping[str, str]) -> object:
    """Relative paths start where they were written: beside the file, or in the working directory."""
    if name == "home":
        return _absolute(str(value), base, environ)
    if name == "record.paths" and isinstance(value, tuple):
        return tuple(_absolute(path, base, environ) for path in value)
    if name == "record.exclude" and isinstance(value, tuple):
        return tuple(_expanded(glob, environ) for glob in value)
    return value


def _absolute(path: str, base: Path, environ: Mapping[str, str]) -> str:
    return os.path.normpath(os.path.join(base, _expanded(path, environ)))


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    if path != "~" and not path.startswith(("~/", "~" + os.sep)):
        return path
    return (environ.get("HOME") or str(Path.home())) + path[1:]


def _tables_of_ones_own(table: Mapping[str, Any], file: Path) -> dict[str, Mapping[str, Any]]:
    catalog = table.get("catalog", {})
    if not isinstance(catalog, dict):
        fix = "Write [catalog] on a line of its own and its settings below it."
        raise SettingsError(where=f"file {file}", key="catalog", problem="is not a table", fix=fix)
    found: dict[str, Mapping[str, Any]] = {"catalog": MappingProxyType(catalog)}
    for name in ("apps", "events", "schedules"):
        entries = table.get(name, {})
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            fix = f"Write [{name}.NAME] on a line of its own and its settings below it."
            raise SettingsError(where=f"file {file}", key=name, problem="is not made of tables", fix=fix)
        found[name] = MappingProxyType(entries)
    return found


def _destinations(table: Mapping[str, Any], file: Path, environ: Mapping[str, str]) -> tuple[DestinationSettings, ...]:
    origin = f"file {file}"
    entries = table.get("destinations", {})
    if not isinstance(entries, dict):
        fix = "Write [destinations.NAME] on a line of its own and its settings below it."
        raise SettingsError(where=origin, key="destinations", problem="is not made of tables", fix=fix)
    found = []
    for name, entry in entries.items():
        try:
            found.append(parse_destination(name, entry, environ, file.parent))
        except BadDestinationError as error:
            key = ".".join(filter(None, ("destinations", name, error.key)))
            raise SettingsError(where=origin, key=key, problem=error.problem, fix=error.fix) from None
    return tuple(found)


def _prices(table: Mapping[str, Any], file: Path) -> tuple[Price, ...]:
    origin = f"file {file}"
    entries = table.get("prices", {})
    if not isinstance(entries, dict):
        raise SettingsError(where=origin, key="prices", problem="is not a table", fix=_PRICE_EXAMPLE)
    return tuple(price for model, entry in entries.items() for price in _model_prices(model, entry, origin))


def _model_prices(model: str, given: object, origin: str) -> tuple[Price, ...]:
    key = f'prices."{model}"'
    entries = given if isinstance(given, list) else [given]
    for entry in entries:
        if not isinstance(entry, dict):
            raise SettingsError(where=origin, key=key, problem="is not a table", fix=_PRICE_EXAMPLE)
        for part, value in entry.items():
            if isinstance(value, dict) and part not in TABLE_PARTS:
                # [prices.kimi-k2.5] is a table "5" inside a table "kimi-k2": the dot splits the name.
                fix = f'Put the name of the model in quotes: [prices."{model}.{part}"].'
                raise SettingsError(where=origin, key=f"prices.{model}.{part}", problem="is not a price", fix=fix)
    try:
        return parse_prices(model, entries, source=origin)
    except BadPriceError as error:
        part = f"{key}.{error.key}" if error.key else key
        raise SettingsError(where=origin, key=part, problem=error.problem, fix=error.fix) from None
