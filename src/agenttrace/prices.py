"""What tokens cost: the shipped price table, the user's own prices, and exact integer arithmetic.

A model without a price has no cost, which is not a cost of nothing: ``PriceTable.price`` answers ``None`` and
its tokens are counted as unpriced.
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from importlib import resources
from typing import TYPE_CHECKING, Any

from agenttrace.model import Price, Usage

if TYPE_CHECKING:
    from agenttrace.config import Settings, UsageSettings

#: Prices are per million tokens, and amounts are counted in millionths: the same number, twice.
MILLION = 1_000_000

AMOUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")

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


def parse_price(model: str, table: Mapping[str, Any], *, source: str, currency: str | None = None) -> Price:
    """Read one price as people write it, in currency units for a million tokens."""
    fields = dict(table)
    code = fields.pop("currency", currency)
    if code is None:
        raise BadPriceError("currency", "is missing", 'Name the currency, such as currency = "USD".')
    if not isinstance(code, str) or not re.fullmatch(r"[A-Z]{3}", code):
        raise BadPriceError("currency", f"is {code!r}", 'Give three capital letters, such as "USD" or "CNY".')
    if "*" in model[:-1]:
        raise BadPriceError("", "has a * inside", "A * may only stand at the end, as in kimi-k2*.")
    _check_keys(fields)
    amounts = {key: _micros(key, value) for key, value in fields.items()}
    return Price(model=model, currency=code, source=source, **amounts)


def _check_keys(fields: Mapping[str, Any]) -> None:
    for key in fields:
        if key not in AMOUNTS:
            near = difflib.get_close_matches(key, [*AMOUNTS, "currency"], n=1)
            fix = f"Did you mean {near[0]}?" if near else f"The parts of a price: currency, {', '.join(AMOUNTS)}."
            raise BadPriceError(key, "is not part of a price", fix)
    for key in ("input", "output"):
        if key not in fields:
            raise BadPriceError(key, "is missing", f"Give the price of a million tokens, such as {key} = 2.5.")


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


class PriceTable:
    """Finds the price of a model: the user's own prices first, then the shipped table."""

    def __init__(self, overrides: Iterable[Price], shipped: Iterable[Price], version: str) -> None:
        self.version = version
        self.overrides = tuple(overrides)
        self.shipped = tuple(shipped)
        self._books = (_Book(self.overrides), _Book(self.shipped))
        self._found: dict[str, Price | None] = {}

    @classmethod
    def load(cls, settings: Settings) -> PriceTable:
        """The shipped table under the user's settings."""
        version, shipped = _shipped()
        return cls(settings.prices, shipped, version)

    def price(self, model: str) -> Price | None:
        """The price of a model under whatever name a log gives it; ``None`` if nobody knows it."""
        try:
            return self._found[model]
        except KeyError:
            pass
        if len(model) > _LONGEST_NAME:
            return None
        names = list(_names(model))
        found = next((price for book in self._books if (price := book.find(names))), None)
        if len(self._found) >= _REMEMBERED_NAMES:
            self._found.clear()
        self._found[model] = found
        return found


class _Book:
    """Prices from one place, by exact name and by beginning."""

    def __init__(self, prices: Iterable[Price]) -> None:
        self._exact: dict[str, Price] = {}
        families: dict[str, Price] = {}
        for price in prices:
            name = _plain(price.model)
            if name.endswith("*"):
                families[name[:-1]] = price
            else:
                self._exact[name] = price
        self._families = sorted(families.items(), key=lambda family: -len(family[0]))

    def find(self, names: list[str]) -> Price | None:
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for beginning, price in self._families:
            if any(name.startswith(beginning) for name in names):
                return price
        return None


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
    table = tomllib.loads(text, parse_float=Decimal)
    version = table.pop("version")
    prices = tuple(
        parse_price(model, amounts, source=f"prices.toml {version}, {vendor}", currency=block["currency"])
        for vendor, block in table.items()
        for model, amounts in block["models"].items()
    )
    return version, prices


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
