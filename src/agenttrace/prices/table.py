"""The price of a model: from the user's settings, a newer file or the shipped table, and its arithmetic.

A model without a price has no cost, which is not a cost of nothing: ``PriceTable.price`` answers ``None`` and
its tokens are counted as unpriced.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.model import Price, Usage
from agenttrace.prices.parsing import MILLION, PriceFile, PriceProblem, half_up, parse_table, plain, read_table, times

if TYPE_CHECKING:
    from agenttrace.config import Settings, UsageSettings

#: The hours (UTC) of weekdays at which ``peak`` prices hold: DeepSeek's, the only one that has them.
_PEAK_HOURS = frozenset({1, 2, 3, 6, 7, 8, 9})
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
#: 1970-01-05 was a Monday.
_FIRST_MONDAY = 4 * _DAY
#: The terms of a response that a price may depend on, as its log has them.
FAST, PEAK = "fast", "peak"

#: The file in the data directory that ``agenttrace prices update`` writes.
FILE_NAME = "prices.toml"

#: No model has a longer name; a longer one is from a damaged log and is not searched.
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


def variant_of(model: str, prompt: int, at: int, terms: str) -> str:
    """What the price of a response depends on beside model and day: ``>200000``, ``peak``, and its terms.

    ``prompt``: how many tokens the model was given, cached ones included.
    """
    steps, has_peak = _dimensions(model)
    parts = terms.split() if terms else []
    if has_peak and (at // _HOUR) % 24 in _PEAK_HOURS and ((at - _FIRST_MONDAY) // _DAY) % 7 < 5:
        parts.append(PEAK)
    for tokens in steps:
        if prompt > tokens:
            return " ".join([f">{tokens}", *sorted(parts)])
    return " ".join(sorted(parts))


@functools.lru_cache(maxsize=_REMEMBERED_NAMES)
def _dimensions(model: str) -> tuple[tuple[int, ...], bool]:
    """At which lengths of a prompt a shipped price of the model changes, longest first; whether it has peak hours."""
    if len(model) > _LONGEST_NAME:
        return (), False
    return _rules(_shipped_book().find(list(_names(model))))


def _rules(prices: Iterable[Price]) -> tuple[tuple[int, ...], bool]:
    """The steps of prices, the highest first, and whether one has peak hours."""
    listed = list(prices)
    steps = {tokens for price in listed for tokens, _ in price.above}
    return tuple(sorted(steps, reverse=True)), any(price.peak for price in listed)


def shape() -> str:
    """Names the rules that ``variant_of`` follows: when it changes, stored sums are rebuilt."""
    rules = sorted((name, *_rules(prices)) for name, prices in _shipped_book().entries() if any(_rules(prices)))
    return hashlib.sha256(repr((rules, sorted(_PEAK_HOURS))).encode()).hexdigest()[:12]


def without_effect(prices: Iterable[Price]) -> dict[str, list[str]]:
    """What prices tell apart that no stored sum does, by model: steps and peak hours the shipped table has not.

    Sums are stored by the rules of the shipped table alone, so that they are the same in every process.
    """
    models: dict[str, list[Price]] = {}
    for price in prices:
        models.setdefault(price.model, []).append(price)
    return {model: parts for model, mine in models.items() if (parts := _unknown_rules(model, mine))}


def _unknown_rules(model: str, prices: list[Price]) -> list[str]:
    shipped = [_rules(each) for each in _shipped_book().like(model)]
    known = {tokens for steps, _ in shipped for tokens in steps}
    steps, has_peak = _rules(prices)
    found = [f"above {tokens:,} tokens" for tokens in reversed(steps) if tokens not in known]
    return found + ([PEAK] if has_peak and not any(peak for _, peak in shipped) else [])


class FoundPrice(NamedTuple):
    """Under which name a model was found, and where."""

    #: ``settings``, ``file`` or ``shipped``.
    origin: str
    #: The prices, each from its day on.
    periods: tuple[Price, ...]


ORIGINS = ("settings", "file", "shipped")


class PriceTable:
    """Finds the price of a model: the user's own prices first, then those of a newer file, then the shipped table."""

    def __init__(
        self,
        overrides: Iterable[Price],
        shipped: Iterable[Price],
        version: str,
        newer: Iterable[Price] = (),
        *,
        file: PriceFile | None = None,
    ) -> None:
        self.shipped_version = version
        self.overrides = tuple(overrides)
        self.newer = tuple(newer)
        self.shipped = tuple(shipped)
        #: What ``agenttrace prices update`` wrote, used or damaged.
        self.file = file
        self.version = version if file is None or file.problems else max(version, file.version)
        self._books = (_Book(self.overrides), _Book(self.newer), _Book(self.shipped))
        self._found: dict[str, FoundPrice] = {}
        self._rates: dict[tuple[str, str, str], Price] = {}

    @classmethod
    def load(cls, settings: Settings) -> PriceTable:
        """The shipped table under the file of ``agenttrace prices update`` and the user's settings.

        A file that cannot be used counts as none: the shipped prices hold, and ``agenttrace doctor`` says so.
        """
        return cls.of(settings, _installed(settings.home / FILE_NAME))

    @classmethod
    def of(cls, settings: Settings, file: PriceFile | None) -> PriceTable:
        """The table with this file, or without one."""
        shipped = _shipped()
        used = file if file is not None and not file.problems else None
        return cls(settings.prices, shipped.prices, shipped.version, () if used is None else used.prices, file=file)

    def price(self, model: str, day: str = "", variant: str = "") -> Price | None:
        """The price of a model, under any name that logs use, on a day; ``None`` if it is unknown."""
        periods = self.find(model).periods
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

    def find(self, model: str) -> FoundPrice:
        """The prices of a model and their origin; no periods: it has no price."""
        try:
            return self._found[model]
        except KeyError:
            pass
        if len(model) > _LONGEST_NAME:
            return _NOWHERE
        names = list(_names(model))
        books = zip(ORIGINS, self._books, strict=True)
        found = next((FoundPrice(origin, prices) for origin, book in books if (prices := book.find(names))), _NOWHERE)
        if len(self._found) >= _REMEMBERED_NAMES:
            self._found.clear()
        self._found[model] = found
        return found


_NOWHERE = FoundPrice("", ())


def install(home: Path, content: bytes) -> Path:
    """Write the file that is read before the shipped table; atomically."""
    target = home / FILE_NAME
    number, fresh = tempfile.mkstemp(dir=home, prefix=f".{FILE_NAME}.")
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, target)
    except BaseException:
        os.unlink(fresh)
        raise
    return target


def _installed(path: Path) -> PriceFile | None:
    try:
        return read_table(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = PriceProblem(path.name, f"cannot be read: {error.strerror}", "Make it readable, or write it again.")
        return PriceFile("", (), (problem,))


def applied(price: Price, variant: str) -> tuple[int | None, list[str]]:
    """Which parts of a variant a price knows: the step of its prompt, and ``fast`` or ``peak`` and the place.

    Fast mode and peak hours have one price for prompts of every length.
    """
    terms = variant.split()
    used = [term for term in terms if term in price.places]
    for term, rate in ((FAST, price.fast), (PEAK, price.peak)):
        if term in terms and rate is not None:
            return None, [term, *used]
    reached = next((int(term[1:]) for term in terms if re.fullmatch(r">\d{1,12}", term)), 0)
    return max((tokens for tokens, _ in price.above if tokens <= reached), default=None), used


def _rate(price: Price, variant: str) -> Price:
    """The price for a variant; parts of it that the price does not know change nothing."""
    above, terms = applied(price, variant)
    mode = terms[0] if terms else ""
    other = price.fast if mode == FAST else price.peak if mode == PEAK else None
    rate = other or dict(price.above).get(above or 0, price)
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
            name = plain(price.model)
            if name.endswith("*"):
                families[name[:-1]] = (*families.get(name[:-1], ()), price)
            else:
                self._exact[name] = (*self._exact.get(name, ()), price)
        self._families = sorted(families.items(), key=lambda family: -len(family[0]))

    def entries(self) -> Iterator[tuple[str, tuple[Price, ...]]]:
        """All names, those that end in ``*`` included, with their prices."""
        yield from self._exact.items()
        yield from ((f"{beginning}*", prices) for beginning, prices in self._families)

    def like(self, model: str) -> list[tuple[Price, ...]]:
        """The entries of a name: one, or all with that beginning."""
        if not model.endswith("*"):
            return [self.find(list(_names(model)))]
        return [prices for name, prices in self.entries() if name.startswith(plain(model)[:-1])]

    def find(self, names: list[str]) -> tuple[Price, ...]:
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for beginning, prices in self._families:
            if any(name.startswith(beginning) for name in names):
                return prices
        return ()


def _names(model: str) -> Iterator[str]:
    """The names a model may be listed under, the most exact first.

    Only what never changes the price is taken away: the provider in front, and dates and deployment marks
    behind. An unknown variant (``gpt-5-ultra``) or version (``claude-opus-4-9``) is another model.
    """
    name = plain(model)
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
def _shipped() -> PriceFile:
    text = resources.files("agenttrace.prices").joinpath("prices.toml").read_text(encoding="utf-8")
    return parse_table(text, "prices.toml")


@functools.cache
def _shipped_book() -> _Book:
    return _Book(_shipped().prices)


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
    return half_up(cost_numerator(price, usage), MILLION)


def displayed(micros: int, currency: str, usage: UsageSettings) -> tuple[int, str]:
    """An amount in the currency the user reads; unchanged where no rate links the two."""
    ratio = exchange_ratio(currency, usage)
    if ratio is None:
        return micros, currency
    return half_up(micros * ratio[0], ratio[1]), usage.currency


def exchange_ratio(currency: str, usage: UsageSettings) -> tuple[int, int] | None:
    """What one unit of a currency is in the currency the user reads; ``None``: it is not converted."""
    wanted = usage.currency
    if wanted in ("native", currency):
        return None
    rate = usage.rates.get(currency)
    if rate is not None:
        return rate.as_integer_ratio()
    if usage.exchange_rate is None or {currency, wanted} != {"USD", "CNY"}:
        return None
    yuan, dollars = usage.exchange_rate.as_integer_ratio()
    return (yuan, dollars) if wanted == "CNY" else (dollars, yuan)
