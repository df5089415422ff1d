"""Loading: defaults, then agenttrace.toml, then the environment, then flags, each value with its origin.

The origin is stored because the first question about a surprising value is where it came from.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from agenttrace.config.rule_tables import KINDS, RuleTables, check_actions, console_file, merged, parse_tables
from agenttrace.config.sections import SECTIONS
from agenttrace.config.settings import SETTINGS, Settings, SettingsError
from agenttrace.config.team_file import team_file
from agenttrace.destinations import BadDestinationError, DestinationSettings, parse_destination
from agenttrace.model import Price
from agenttrace.prices.parsing import TABLE_PARTS, BadPriceError, parse_prices

_KEYS = {
    section: tuple(name for name in struct.__struct_fields__ if f"{section}.{name}" not in SECTIONS)
    for section, struct in SECTIONS.items()
}
#: Tables of the file that are no sections of settings.
_TABLES = ("prices", "catalog", "apps", "events", "schedules", "destinations", *KINDS)
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
    team = _team(Path(values["home"]), {each.name for each in destinations}, environ)
    origins |= {f"destinations.{each.name}": f"file {team_file(Path(values['home']))}" for each in team}
    destinations += team
    rules = _rules(table, file, Path(values["home"]), environ)
    origins |= {f"{kind}.{name}": f"file {file}" for kind in KINDS for name in table.get(kind, {})}
    own = {**_tables_of_ones_own(table, file), **{kind: MappingProxyType(getattr(rules, kind)) for kind in KINDS}}
    return _assembled(file, values, prices, origins, own, destinations)


def _assembled(
    file: Path,
    values: Mapping[str, Any],
    prices: tuple[Price, ...],
    origins: dict[str, str],
    tables: Mapping[str, Mapping[str, Any]],
    destinations: tuple[DestinationSettings, ...],
) -> Settings:
    parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        if section:
            parts[section][key] = value
    # A section inside another one comes after it.
    for section in reversed(SECTIONS):
        outer, _, inner = section.rpartition(".")
        if outer:
            parts[outer][inner] = SECTIONS[section](**parts[section])
    structs = {section: struct for section, struct in SECTIONS.items() if "." not in section}
    rest: dict[str, Any] = {name: struct(**parts[name]) for name, struct in structs.items()} | dict(tables)
    return Settings(
        home=Path(values["home"]),
        file=file,
        destinations=destinations,
        prices=prices,
        origins=MappingProxyType(origins),
        **rest,
    )


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
        yield from _in_section(name, value, origin)


def _in_section(name: str, value: Any, origin: str) -> Iterator[tuple[str, Any, str]]:  # noqa: ANN401 - TOML
    if not isinstance(value, dict):
        fix = f"Write [{name}] on a line of its own and the settings below it."
        raise SettingsError(where=origin, key=name, problem="is not a table", fix=fix)
    for key, entry in value.items():
        if f"{name}.{key}" in _KEYS:
            yield from _in_section(f"{name}.{key}", entry, origin)
            continue
        _check(key, _KEYS[name], origin, prefix=f"{name}.")
        yield f"{name}.{key}", entry, origin


def _in_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    names = {setting.variable: name for name, setting in SETTINGS.items()}
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
    # The most exact section first: [team.oidc] is a part of [team].
    for section, keys in sorted(_KEYS.items(), reverse=True):
        prefix = f"AGENTTRACE_{section.replace('.', '_').upper()}_"
        if found.startswith(prefix):
            _check(found.removeprefix(prefix), [key.upper() for key in keys], "environment", prefix=prefix)


def _in_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name, value in flags.items():
        section, _, key = name.rpartition(".")
        if section in _KEYS:
            _check(key, _KEYS[section], "flag", prefix=f"{section}.")
        else:
            _check(name, SETTINGS, "flag")
        yield name, _plain(value), "flag"


def _check(name: str, valid: Iterable[str], where: str, prefix: str = "") -> None:
    if name not in valid:
        fix = did_you_mean(name, valid, prefix)
        raise SettingsError(where=where, key=prefix + name, problem="is not a setting", fix=fix)


def _listed(name: str, text: str) -> object:
    """The text of a variable, split where its setting is a list."""
    separators = SETTINGS[name].split
    if not separators:
        return text.strip()
    parts = re.split(f"[{re.escape(separators)}]", text)
    return [part if separators == "\n" else part.strip() for part in parts if part.strip()]


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _converted(name: str, raw: object, origin: str) -> object:
    setting = SETTINGS[name]
    wrong = _wrong(name, raw, origin, f"Give {setting.valid}.")
    try:
        value: object = msgspec.convert(raw, setting.type, strict=not origin.startswith("environment"))
    except msgspec.ValidationError:
        raise wrong from None
    rates = value.values() if name == "usage.rates" and isinstance(value, dict) else [value]
    if any(isinstance(each, Decimal) and not (each.is_finite() and each > 0) for each in rates):
        raise wrong
    if name == "export.mask" and isinstance(value, tuple):
        for pattern in value:
            _check_pattern(name, pattern, origin)
    if setting.is_zone and not _is_timezone(str(value)):
        raise wrong
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
    shown = "not usable" if SETTINGS[name].secret else repr(str(raw) if isinstance(raw, Decimal) else raw)
    return SettingsError(where=origin, key=name, problem=f"is {shown[:100]}", fix=fix)


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


def _team(home: Path, taken: set[str], environ: Mapping[str, str]) -> tuple[DestinationSettings, ...]:
    """The team that this machine joined."""
    written = team_file(home)
    found = _destinations(_read(written), written, environ) if written.exists() else ()
    return tuple(each for each in found if each.name not in taken)


def current_rules(settings: Settings, environ: Mapping[str, str] = os.environ) -> RuleTables:
    """The rules as their files have them now, for a process that was started with other ones."""
    if settings.file is not None:
        return _rules(_read(settings.file), settings.file, settings.home, environ)
    own = RuleTables(*({k: v for k, v in getattr(settings, kind).items() if _is_own(v)} for kind in KINDS))
    return _with_console(own, Path("agenttrace.toml"), settings.home, environ)


def _is_own(entry: object) -> bool:
    return getattr(entry, "origin", "file") == "file"


def _rules(table: Mapping[str, Any], file: Path, home: Path, environ: Mapping[str, str]) -> RuleTables:
    """The rules of the file, and those that were written with the console."""
    return _with_console(parse_tables(table, file, environ), file, home, environ)


def _with_console(own: RuleTables, file: Path, home: Path, environ: Mapping[str, str]) -> RuleTables:
    written = console_file(home)
    rules = merged(own, parse_tables(_read(written), written, environ, "console")) if written.exists() else own
    check_actions(rules, file, written)
    return rules


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
