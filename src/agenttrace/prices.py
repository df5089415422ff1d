"""What tokens cost: the shipped price table, the user's own prices, and exact integer arithmetic.

A model without a price has no cost, which is not a cost of nothing: ``PriceTable.price`` answers ``None`` and
its tokens are counted as unpriced.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.model import Price, Usage

if TYPE_CHECKING:
    from agenttrace.config import Settings, UsageSettings

#: Prices are per million tokens, and amounts are counted in millionths: the same number, twice.
MILLION = 1_000_000

AMOUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
#: The other parts of a price as people write it.
_PARTS = ("web_search", "since", "above", "fast", "peak", "places", "source", "checked")
#: Searches are priced by the thousand.
_SEARCHES = 1_000
#: The hours (UTC) of weekdays at which ``peak`` prices hold: DeepSeek's, the only one that has them.
_PEAK_HOURS = frozenset({1, 2, 3, 6, 7, 8, 9})
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
#: 1970-01-05 was a Monday.
_FIRST_MONDAY = 4 * _DAY
#: The terms of a response that a price may depend on, as its log tells them.
FAST = "fast"

#: The file in the data directory that ``agenttrace prices update`` writes.
FILE_NAME = "prices.toml"

#: No model has a longer name; whatever is longer came from a damaged log and is not worth searching.
_LONGEST_NAME = 200
_REMEMBERED_NAMES = 4096

_BEDROCK = re.compile(
    r"^(?:(?:us|us-gov|eu|apac|ap|jp|au|ca|sa|uk|global)\.)?"
    r"(?:anthropic|deepseek|google|moonshot|moonshotai|openai|qwen|zai)\."
)
_MONTH_DAY = r"(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])"
_NEUTRAL_ENDING = re.compile(
    rf"""(?: \[\d+[km]\]                       # claude-sonnet-4-5[1m]
           | @(?:\d{{8}}|default|latest)      # claude-sonnet-4-5@20250929
           | (?<=\d)-v\d+(?::\d+)?(?::\d+k)?  # anthropic.claude-sonnet-4-5-20250929-v1:0
           | -(?:20)?\d\d-?{_MONTH_DAY}       # gpt-5-2025-08-07, claude-sonnet-4-5-20250929, kimi-k2-250905
           | -{_MONTH_DAY}                    # kimi-k2-0905
           | -00\d                            # gemini-2.0-flash-001
           | -latest
         )$""",
    re.VERBOSE,
)
#: A name carries a date, a deployment version and a context marker at most.
_MOST_ENDINGS = 4


class BadPriceError(ValueError):
    """A price that cannot be used: which part of it, what is wrong, and how to put it right."""

    def __init__(self, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{key} {problem}. {fix}")
        self.key, self.problem, self.fix = key, problem, fix


class BadTableError(ValueError):
    """A file of prices that cannot be used: where, what is wrong, and how to put it right."""


def parse_prices(model: str, given: object, *, source: str, currency: str | None = None) -> tuple[Price, ...]:
    """Read the prices of a model as people write them: one table, or a list of tables with the days they begin on."""
    tables = _listed(given)
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise BadPriceError("", "is no table", "Write one table, or a list of tables each with since.")
    found = [parse_price(model, table, source=source, currency=currency) for table in tables]
    days = [price.since for price in found]
    if sorted(set(days)) != days:
        raise BadPriceError("since", f"is {days}", "Give each price of a model another day, the earliest first.")
    return tuple(found)


def parse_price(model: str, table: Mapping[str, Any], *, source: str, currency: str | None = None) -> Price:
    """Read one price as people write it, in currency units for a million tokens and for a thousand searches."""
    fields = dict(table)
    code = fields.pop("currency", currency)
    if code is None:
        raise BadPriceError("currency", "is missing", 'Name the currency, such as currency = "USD".')
    if not isinstance(code, str) or not re.fullmatch(r"[A-Z]{3}", code):
        raise BadPriceError("currency", f"is {code!r}", 'Give three capital letters, such as "USD" or "CNY".')
    if "*" in model[:-1]:
        raise BadPriceError("", "has a * inside", "A * may only stand at the end, as in kimi-k2*.")
    _check_keys(fields)
    amounts: dict[str, Any] = {key: _micros(key, fields[key]) for key in AMOUNTS if key in fields}
    price = Price(
        model=model,
        currency=code,
        source=_text("source", fields.get("source", source)),
        checked=_day("checked", fields.get("checked", "")),
        since=_day("since", fields.get("since", "")),
        web_search=_micros("web_search", fields["web_search"]) // _SEARCHES if "web_search" in fields else None,
        places={name: _thousandths(name, value) for name, value in _table("places", fields.get("places", {})).items()},
        **amounts,
    )
    return msgspec.structs.replace(
        price,
        above=_steps(price, fields.get("above", [])),
        fast=_other(price, "fast", fields["fast"]) if "fast" in fields else None,
        peak=_other(price, "peak", fields["peak"]) if "peak" in fields else None,
    )


def _check_keys(fields: Mapping[str, Any], parts: Iterable[str] = _PARTS) -> None:
    known = (*AMOUNTS, *parts)
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(key, [*known, "currency"], n=1)
            fix = f"Did you mean {near[0]}?" if near else f"The parts of a price: currency, {', '.join(known)}."
            raise BadPriceError(key, "is not part of a price", fix)
    for key in ("input", "output"):
        if key not in fields:
            raise BadPriceError(key, "is missing", f"Give the price of a million tokens, such as {key} = 2.5.")


def _other(price: Price, key: str, given: object) -> Price:
    """A price beside the usual one: a table of its own, or a number that multiplies the usual one."""
    if isinstance(given, Mapping):
        _check_keys(given, ("tokens",))
        amounts = {name: _micros(name, given[name]) if name in given else None for name in AMOUNTS}
        return msgspec.structs.replace(price, **amounts)
    return times(price, _thousandths(key, given))


def _steps(price: Price, given: object) -> tuple[tuple[int, Price], ...]:
    fix = "Write a list of tables, such as above = [{ tokens = 200000, input = 6, output = 22.5 }]."
    if not isinstance(given, list) or not all(isinstance(step, Mapping) for step in given):
        raise BadPriceError("above", f"is {given!r}", fix)
    steps = []
    for step in given:
        tokens = step.get("tokens")
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens <= 0:
            raise BadPriceError("above", f"has tokens = {tokens!r}", fix)
        steps.append((tokens, _other(price, "above", step)))
    return tuple(sorted(steps, key=lambda step: step[0]))


def times(price: Price, thousandths: int) -> Price:
    """The price of tokens times a number; what a search costs stays."""
    amounts = {
        name: None if (value := getattr(price, name)) is None else _half_up(value * thousandths, 1_000)
        for name in AMOUNTS
    }
    return msgspec.structs.replace(price, **amounts)


def _table(key: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadPriceError(key, f"is {value!r}", f"Write a table, such as {key} = {{ us = 1.1 }}.")
    return value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadPriceError(key, f"is {value!r}", "Give a text in quotes.")
    return value


def _day(key: str, value: object) -> str:
    if isinstance(value, date) or value == "":
        return str(value)
    try:
        return date.fromisoformat(_text(key, value)).isoformat()
    except ValueError:
        raise BadPriceError(key, f"is {value!r}", 'Give a day, such as "2026-08-21".') from None


def _thousandths(key: str, value: object) -> int:
    micros = _micros(key, value)
    if micros % 1_000 or not 0 < micros <= 1_000 * MILLION:
        raise BadPriceError(key, f"is {value}", "Give a number above 0 with at most three decimals.")
    return micros // 1_000


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


def variant_of(model: str, prompt: int, at: int, terms: str) -> str:
    """What the price of a response depends on beside model and day: ``>200000``, ``peak``, and its terms.

    ``prompt``: how many tokens the model was given, cached ones included.
    """
    steps, has_peak = _dimensions(model)
    parts = terms.split() if terms else []
    if has_peak and (at // _HOUR) % 24 in _PEAK_HOURS and ((at - _FIRST_MONDAY) // _DAY) % 7 < 5:
        parts.append("peak")
    for tokens in steps:
        if prompt > tokens:
            return " ".join([f">{tokens}", *sorted(parts)])
    return " ".join(sorted(parts))


@functools.lru_cache(maxsize=_REMEMBERED_NAMES)
def _dimensions(model: str) -> tuple[tuple[int, ...], bool]:
    """At which lengths of a prompt a shipped price of the model changes, longest first; whether it has peak hours."""
    if len(model) > _LONGEST_NAME:
        return (), False
    prices = _shipped_book().find(list(_names(model)))
    steps = {tokens for price in prices for tokens, _ in price.above}
    return tuple(sorted(steps, reverse=True)), any(price.peak for price in prices)


def shape() -> str:
    """Names the rules that ``variant_of`` follows: when it changes, stored sums are made anew."""
    steps = {price.model: [tokens for tokens, _ in price.above] for price in _shipped()[1] if price.above}
    return hashlib.sha256(repr((sorted(steps.items()), sorted(_PEAK_HOURS))).encode()).hexdigest()[:12]


class PriceTable:
    """Finds the price of a model: the user's own prices first, then those of a newer file, then the shipped table."""

    def __init__(
        self, overrides: Iterable[Price], shipped: Iterable[Price], version: str, newer: Iterable[Price] = ()
    ) -> None:
        self.version = version
        self.overrides = tuple(overrides)
        self.newer = tuple(newer)
        self.shipped = tuple(shipped)
        self._books = (_Book(self.overrides), _Book(self.newer), _Book(self.shipped))
        self._found: dict[str, tuple[Price, ...]] = {}
        self._rates: dict[tuple[str, str, str], Price] = {}

    @classmethod
    def load(cls, settings: Settings) -> PriceTable:
        """The shipped table under the file of ``agenttrace prices update`` and the user's settings."""
        version, shipped = _shipped()
        try:
            newer_version, newer = read_table(settings.home / FILE_NAME)
        except (OSError, ValueError):
            newer_version, newer = "", ()
        return cls(settings.prices, shipped, max(version, newer_version), newer)

    def price(self, model: str, day: str = "", variant: str = "") -> Price | None:
        """The price of a model under whatever name a log gives it, on a day; ``None`` if nobody knows it."""
        periods = self._periods(model)
        if not periods:
            return None
        if len(periods) > 1:
            day = day or date.today().isoformat()
        price = next((price for price in reversed(periods) if price.since <= day), periods[0])
        if not variant:
            return price
        key = (model, price.since, variant)
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= _REMEMBERED_NAMES:
                self._rates.clear()
            rate = self._rates[key] = _rate(price, variant)
        return rate

    def _periods(self, model: str) -> tuple[Price, ...]:
        """The prices of a model, each from its day on."""
        try:
            return self._found[model]
        except KeyError:
            pass
        if len(model) > _LONGEST_NAME:
            return ()
        names = list(_names(model))
        found = next((prices for book in self._books if (prices := book.find(names))), ())
        if len(self._found) >= _REMEMBERED_NAMES:
            self._found.clear()
        self._found[model] = found
        return found


def _rate(price: Price, variant: str) -> Price:
    """The price for a variant; parts of it that the price does not know change nothing."""
    terms = variant.split()
    step = next((int(term[1:]) for term in terms if re.fullmatch(r">\d{1,12}", term)), 0)
    rate = price
    if FAST in terms and price.fast is not None:
        rate = price.fast
    elif "peak" in terms and price.peak is not None:
        rate = price.peak
    else:
        rate = next((other for tokens, other in reversed(price.above) if tokens <= step), price)
    for term in terms:
        if term in price.places:
            rate = times(rate, price.places[term])
    return rate


class _Book:
    """Prices from one place, by exact name and by beginning."""

    def __init__(self, prices: Iterable[Price]) -> None:
        self._exact: dict[str, tuple[Price, ...]] = {}
        families: dict[str, tuple[Price, ...]] = {}
        for price in prices:
            name = _plain(price.model)
            if name.endswith("*"):
                families[name[:-1]] = (*families.get(name[:-1], ()), price)
            else:
                self._exact[name] = (*self._exact.get(name, ()), price)
        self._families = sorted(families.items(), key=lambda family: -len(family[0]))

    def find(self, names: list[str]) -> tuple[Price, ...]:
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for beginning, prices in self._families:
            if any(name.startswith(beginning) for name in names):
                return prices
        return ()


def _plain(model: str) -> str:
    """One spelling for all: small letters, and Claude's versions with dashes as its maker writes them."""
    name = model.strip().lower()
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name) if "claude" in name else name


def _names(model: str) -> Iterator[str]:
    """The names a model may be listed under, the most exact first.

    Only what never changes the price is taken away: the provider in front, and dates and deployment marks
    behind. An unknown variant (``gpt-5-ultra``) or version (``claude-opus-4-9``) is another model.
    """
    name = _plain(model)
    yield name
    name = name.rsplit("/", 1)[-1]
    yield name
    name = _BEDROCK.sub("", name)
    yield name
    for _ in range(_MOST_ENDINGS):
        name, cut = _NEUTRAL_ENDING.subn("", name)
        if not cut:
            return
        yield name


@functools.cache
def _shipped() -> tuple[str, tuple[Price, ...]]:
    text = resources.files("agenttrace").joinpath("prices.toml").read_text(encoding="utf-8")
    return parse_table(text, "prices.toml")


@functools.cache
def _shipped_book() -> _Book:
    return _Book(_shipped()[1])


def read_table(path: Path) -> tuple[str, tuple[Price, ...]]:
    """The version and the prices of a file in the form of the shipped table."""
    return parse_table(path.read_text(encoding="utf-8"), path.name)


def parse_table(text: str, name: str) -> tuple[str, tuple[Price, ...]]:
    """The version and the prices of a table; a ``BadTableError`` says where it is wrong."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise BadTableError(f"{name} is no TOML: {error}") from error
    version = table.pop("version", None)
    if not isinstance(version, str) or not version:
        raise BadTableError(f'{name} has no version. Its first line is one, such as version = "2026-11".')
    found: list[Price] = []
    for vendor, block in table.items():
        if not isinstance(block, dict) or not isinstance(block.get("models"), dict):
            raise BadTableError(f"{name}: [{vendor}] has no table [{vendor}.models].")
        found += _vendor(block, f"{name} {version}, {vendor}", f"{name}: {vendor}")
    return version, tuple(found)


def _vendor(block: Mapping[str, Any], source: str, place: str) -> Iterator[Price]:
    """What the vendor's block says beside its models holds for each of them."""
    shared = {key: block[key] for key in ("checked", "web_search", "places") if key in block}
    for model, given in block["models"].items():
        tables = [shared | table if isinstance(table, dict) else table for table in _listed(given)]
        try:
            yield from parse_prices(model, tables, source=source, currency=block.get("currency"))
        except BadPriceError as error:
            raise BadTableError(f"{place}, {model}: {error}") from error


def _listed(given: object) -> list[Any]:
    return given if isinstance(given, list) else [given]


def cost_numerator(price: Price, usage: Usage) -> int:
    """The exact cost in millionths of a millionth, for sums that must not round part by part."""
    cache_read = price.input if price.cache_read is None else price.cache_read
    cache_write = price.input if price.cache_write is None else price.cache_write
    cache_write_1h = cache_write if price.cache_write_1h is None else price.cache_write_1h
    an_hour = min(usage.cache_write_1h_tokens, usage.cache_write_tokens)
    return (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * cache_read
        + (usage.cache_write_tokens - an_hour) * cache_write
        + an_hour * cache_write_1h
        + usage.web_searches * (price.web_search or 0) * MILLION
    )


def cost_micros(price: Price, usage: Usage) -> int:
    """The cost in millionths of the currency, rounded half up once.

    >>> opus = Price(model="m", currency="USD", input=5_000_000, output=25_000_000)
    >>> cost_micros(opus, Usage(input_tokens=1000, output_tokens=200))
    10000
    """
    return _half_up(cost_numerator(price, usage), MILLION)


def displayed(micros: int, currency: str, usage: UsageSettings) -> tuple[int, str]:
    """An amount in the currency the user reads; unchanged where no exchange rate links the two."""
    wanted, rate = usage.currency, usage.exchange_rate
    if rate is None or {currency, wanted} != {"USD", "CNY"}:
        return micros, currency
    yuan, dollars = rate.as_integer_ratio()
    if wanted == "CNY":
        return _half_up(micros * yuan, dollars), wanted
    return _half_up(micros * dollars, yuan), wanted


def _half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
