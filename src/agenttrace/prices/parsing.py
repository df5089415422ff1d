"""Prices as people write them: parsed from TOML into exact integers, with all problems and their fixes."""

from __future__ import annotations

import difflib
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from agenttrace.model import Price

#: Prices are per million tokens, and amounts are counted in millionths: the same number, twice.
MILLION = 1_000_000
AMOUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
#: The parts of a price that are tables themselves, or may be.
TABLE_PARTS = frozenset({"fast", "peak", "places"})
_PARTS = ("web_search", "since", "above", "fast", "peak", "places", "source", "checked")
#: Searches are priced by the thousand.
SEARCHES = 1_000
#: The shipped table has 30,000 bytes.
_LARGEST_FILE = 4_000_000
_MOST_PROBLEMS = 200

T = TypeVar("T")


class BadPriceError(ValueError):
    """A price that cannot be used: which part of it, the problem and its fix."""

    def __init__(self, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{key} {problem}. {fix}".strip())
        self.key, self.problem, self.fix = key, problem, fix


class PriceProblem(NamedTuple):
    """A problem of a price file, and its fix."""

    #: ``anthropic, claude-opus-5: input``.
    place: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place} {self.problem}. {self.fix}".strip()


class PriceFile(NamedTuple):
    """A file of prices as far as it can be read."""

    version: str
    prices: tuple[Price, ...]
    #: Empty: it can be used.
    problems: tuple[PriceProblem, ...]


# -- files -------------------------------------------------------------------------------------------------------------


def read_table(path: Path) -> PriceFile:
    """A file in the form of the shipped table; an ``OSError`` where there is none."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return _unusable(path.name, "is no file", "Name a file with a price table.")
    if found.st_size > _LARGEST_FILE:
        return _unusable(path.name, f"has {found.st_size:,} bytes", f"A price table has {_LARGEST_FILE:,} at most.")
    return decode_table(path.read_bytes(), path.name)


def decode_table(content: bytes, name: str) -> PriceFile:
    """The prices in the bytes of a file, and everything that is wrong with them."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return _unusable(name, f"is no UTF-8 text ({error.reason} at byte {error.start})", "Save it as UTF-8.")
    return parse_table(text, name)


def _unusable(place: str, problem: str, fix: str) -> PriceFile:
    return PriceFile("", (), (PriceProblem(place, problem, fix),))


def parse_table(text: str, name: str) -> PriceFile:
    """The prices of a text, and everything that is wrong with it."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        return _unusable(name, f"is no TOML: {str(error).rstrip('.')}", "Correct it there; texts stand in quotes.")
    problems: list[PriceProblem] = []
    version = table.pop("version", None)
    if not isinstance(version, str) or not version.strip():
        problems.append(PriceProblem("version", "is missing", 'Begin the file with one, such as version = "2026-11".'))
        version = ""
    found: list[Price] = []
    names: set[str] = set()
    for vendor, block in table.items():
        if not isinstance(block, dict) or not isinstance(block.get("models"), dict):
            fix = f'Write [{vendor}] with currency = "USD", and below it a table [{vendor}.models].'
            problems.append(PriceProblem(f"[{vendor}]", "has no models", fix))
            continue
        found += _vendor(vendor, block, f"{name} {version}, {vendor}", names, problems)
    if not table:
        problems.append(
            PriceProblem(name, "has no prices", 'Add a vendor: [openai] with currency = "USD", [openai.models].')
        )
    return PriceFile(version, tuple(found), tuple(problems[:_MOST_PROBLEMS]))


def _vendor(
    vendor: str, block: Mapping[str, Any], source: str, names: set[str], problems: list[PriceProblem]
) -> list[Price]:
    """The prices of a vendor; settings beside its models apply to all of them."""
    shared = {key: block[key] for key in ("checked", "web_search", "places") if key in block}
    where = block.get("source")
    if isinstance(where, str) and where:
        source = f"{source}: {where}"
    known = ("source", "currency", "models", *shared)
    for key in block.keys() - known:
        fix = "Beside models, a vendor has source, checked, currency, web_search and places."
        problems.append(PriceProblem(f"{vendor}: {key}", "is not part of a vendor", fix))
    found: list[Price] = []
    for model, given in block["models"].items():
        if plain(model) in names:
            fix = "Keep one of them; where the price changed, write a list of tables with since."
            problems.append(PriceProblem(f"{vendor}, {model}:", "is listed twice", fix))
            continue
        names.add(plain(model))
        tables = [shared | table if isinstance(table, dict) else table for table in _listed(given)]
        prices, wrong = read_prices(model, tables, source=source, currency=block.get("currency"))
        found += prices
        problems += [PriceProblem(f"{vendor}, {model}:{f' {e.key}' if e.key else ''}", e.problem, e.fix) for e in wrong]
    return found


def plain(model: str) -> str:
    """One spelling for all: small letters, and Claude's versions with dashes as its maker writes them."""
    name = model.strip().lower()
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name) if "claude" in name else name


# -- prices ------------------------------------------------------------------------------------------------------------


def parse_prices(model: str, given: object, *, source: str, currency: str | None = None) -> tuple[Price, ...]:
    """The prices of a model; raises the first ``BadPriceError``."""
    found, problems = read_prices(model, given, source=source, currency=currency)
    if problems:
        raise problems[0]
    return found


def read_prices(
    model: str, given: object, *, source: str, currency: object = None
) -> tuple[tuple[Price, ...], list[BadPriceError]]:
    """The prices of a model as people write them: one table, or a list of tables with the days they begin on."""
    tables = _listed(given)
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        return (), [BadPriceError("", "is no table", "Write one table, or a list of tables each with since.")]
    problems: list[BadPriceError] = []
    if not model.strip() or "*" in model[:-1]:
        fix = "Give a name; a * may only stand at the end, as in kimi-k2*."
        problems.append(BadPriceError("", "is no name of a model", fix))
    found = [_price(model, table, source, currency, problems) for table in tables]
    days = [price.since for price in found]
    if not problems and sorted(set(days)) != days:
        listed = ", ".join(day or "none" for day in days)
        problems.append(BadPriceError("since", f"is {listed}", "Give each price another day, the earliest first."))
    return tuple(found), problems


def _listed(given: object) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _price(model: str, table: Mapping[str, Any], source: str, currency: object, problems: list[BadPriceError]) -> Price:
    """One price, in currency units for a million tokens and for a thousand searches; problems are appended."""

    def part(key: str, read: Callable[[str, Any], T], default: T) -> T:
        try:
            return read(key, fields[key]) if key in fields else default
        except BadPriceError as error:
            problems.append(error)
            return default

    fields = {"currency": currency, **table}
    problems += _wrong_keys(fields, (*_PARTS, "currency"))
    amounts: dict[str, Any] = {key: part(key, _micros, 0) for key in AMOUNTS if key in fields}
    price = Price(
        model=model,
        currency=part("currency", _currency, "USD"),
        source=part("source", _text, source),
        checked=part("checked", _day, ""),
        since=part("since", _day, ""),
        web_search=part("web_search", _search, None),
        places=part("places", _places, {}),
        **{"input": 0, "output": 0, **amounts},
    )
    none: tuple[tuple[int, Price], ...] = ()
    return msgspec.structs.replace(
        price,
        above=part("above", lambda _, given: _steps(price, given), none),
        fast=part("fast", lambda key, given: _other(price, key, given), None),
        peak=part("peak", lambda key, given: _other(price, key, given), None),
    )


def _wrong_keys(fields: Mapping[str, Any], parts: Iterable[str]) -> Iterator[BadPriceError]:
    known = (*AMOUNTS, *parts)
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            fix = f"Did you mean {near[0]}?" if near else f"The parts of a price: {', '.join(known)}."
            yield BadPriceError(key, "is not part of a price", fix)
    for key in ("input", "output"):
        if key not in fields:
            yield BadPriceError(key, "is missing", f"Give the price of a million tokens, such as {key} = 2.5.")


def _other(price: Price, key: str, given: object) -> Price:
    """A price beside the usual one: a table, or a factor of the usual one."""
    if not isinstance(given, Mapping):
        return times(price, _thousandths(key, given))
    try:
        for error in _wrong_keys(given, ("tokens",) if key == "above" else ()):
            raise error
        amounts = {name: _micros(name, given[name]) if name in given else None for name in AMOUNTS}
    except BadPriceError as error:
        raise BadPriceError(f"{key}.{error.key}", error.problem, error.fix) from None
    return msgspec.structs.replace(price, **amounts)


def _steps(price: Price, given: object) -> tuple[tuple[int, Price], ...]:
    fix = "Write a list of tables, such as above = [{ tokens = 200000, input = 6, output = 22.5 }]."
    if not isinstance(given, list) or not all(isinstance(step, Mapping) for step in given):
        raise BadPriceError("above", f"is {given!r}", fix)
    steps: dict[int, Price] = {}
    for step in given:
        tokens = step.get("tokens")
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 < tokens < 10**12 or tokens in steps:
            raise BadPriceError("above", f"has tokens = {tokens!r}", fix)
        steps[tokens] = _other(price, "above", step)
    return tuple(sorted(steps.items(), key=lambda step: step[0]))


def times(price: Price, thousandths: int) -> Price:
    """The price of tokens times a number; what a search costs stays."""
    amounts = {
        name: None if (value := getattr(price, name)) is None else half_up(value * thousandths, 1_000)
        for name in AMOUNTS
    }
    return msgspec.structs.replace(price, **amounts)


def half_up(numerator: int, denominator: int) -> int:
    """The nearest integer; of two equally near ones the larger."""
    return (2 * numerator + denominator) // (2 * denominator)


# -- values ------------------------------------------------------------------------------------------------------------


def _currency(key: str, value: object) -> str:
    if value is None:
        raise BadPriceError(key, "is missing", 'Name the currency, such as currency = "USD".')
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{3}", value):
        raise BadPriceError(key, f"is {value!r}", 'Give three capital letters, such as "USD" or "CNY".')
    return value


def _places(key: str, value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise BadPriceError(key, f"is {value!r}", f"Write a table, such as {key} = {{ us = 1.1 }}.")
    for name in value:
        if name in ("fast", "peak"):
            raise BadPriceError(f"{key}.{name}", "is no place", f"Write {name} beside {key}.")
    return {name: _thousandths(f"{key}.{name}", factor) for name, factor in value.items()}


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadPriceError(key, f"is {value!r}", "Give a text in quotes.")
    return value


def _day(key: str, value: object) -> str:
    try:
        if isinstance(value, str):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise BadPriceError(key, f"is {value!r}", 'Give a day, such as "2026-08-21".')


def _thousandths(key: str, value: object) -> int:
    micros = _micros(key, value)
    if micros % 1_000 or not 0 < micros <= 1_000 * MILLION:
        raise BadPriceError(key, f"is {value}", "Give a number above 0 with at most three decimals.")
    return micros // 1_000


def _search(key: str, value: object) -> int:
    """The price of one search from that of a thousand."""
    micros = _micros(key, value)
    if micros % SEARCHES:
        raise BadPriceError(key, f"is {value}", "Give the price of a thousand searches with at most three decimals.")
    return micros // SEARCHES


def _micros(key: str, value: object) -> int:
    """``2.5`` becomes 2,500,000 millionths, without a float in between."""
    fix = "Give a number from 0 to 1000000 with at most six decimals."
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise BadPriceError(key, f"is {value!r}, not a number", fix)
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        raise BadPriceError(key, f"is {value!r}, not a number", fix) from None
    if not amount.is_finite() or not 0 <= amount <= MILLION:
        raise BadPriceError(key, f"is {value}", fix)
    micros = amount * MILLION
    if micros != int(micros):
        raise BadPriceError(key, f"is {value}", fix)
    return int(micros)
