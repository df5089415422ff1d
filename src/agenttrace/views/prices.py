"""Prices for people and JSON: their parts by name, the tables in use, and what another table would change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttrace.prices.parsing import AMOUNTS, MILLION, SEARCHES, plain
from agenttrace.prices.table import FILE_NAME, PriceTable, without_effect
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.model import Price

#: Where a price may come from, in words.
ORIGINS = {"settings": "your settings", "file": FILE_NAME, "shipped": "shipped table"}


class PriceChange(NamedTuple):
    """What another table would change about a model."""

    model: str
    #: ``new``, ``changed`` or ``gone``.
    change: str
    #: Part, before and after; ``None``: it is not there.
    parts: list[tuple[str, str | None, str | None]]


def units(micros: int | None) -> float | None:
    """An amount in units of its currency, for JSON."""
    return None if micros is None else micros / MILLION


def amount(micros: int | None) -> str:
    """``2.5``; ``–`` where there is none."""
    if micros is None:
        return "–"
    text = f"{Decimal(micros) / MILLION:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def factor(thousandths: int) -> str:
    """``×1.1``."""
    return f"×{amount(thousandths * 1_000)}"


# -- one price ---------------------------------------------------------------------------------------------------------


def rates(price: Price) -> Iterator[tuple[str, Price]]:
    """The usual price of tokens and the others beside it, each under its name."""
    yield "", price
    for tokens, step in price.above:
        yield f"above {tokens:,} tokens", step
    if price.fast is not None:
        yield "fast", price.fast
    if price.peak is not None:
        yield "peak", price.peak


def _amounts(price: Price) -> dict[str, float | None]:
    return {name: units(getattr(price, name)) for name in AMOUNTS}


def price_fields(price: Price) -> dict[str, Any]:
    """Everything about one price, for JSON: per million tokens, and per thousand searches."""
    return {
        "since": price.since or None,
        "currency": price.currency,
        **_amounts(price),
        "above": [{"tokens": tokens, **_amounts(step)} for tokens, step in price.above],
        "fast": None if price.fast is None else _amounts(price.fast),
        "peak": None if price.peak is None else _amounts(price.peak),
        "places": {name: thousandths / 1_000 for name, thousandths in price.places.items()},
        "web_search": None if price.web_search is None else units(price.web_search * SEARCHES),
        "source": price.source,
        "checked": price.checked or None,
    }


def model_fields(table: PriceTable, model: str, recorded: bool) -> dict[str, Any]:
    """A model with all its prices, for JSON."""
    found = table.find(model)
    return {
        "model": model,
        "recorded": recorded,
        "listed_as": found.periods[0].model if found.periods else None,
        "origin": found.origin or None,
        "periods": [price_fields(price) for price in found.periods],
        "without_effect": [] if found.origin == "shipped" else idle_parts(found.periods),
    }


def idle_parts(periods: Iterable[Price]) -> list[str]:
    """What of a model's prices is never applied."""
    return [part for parts in without_effect(periods).values() for part in parts]


def extras(price: Price) -> str:
    """What else a price depends on, short: ``>200k, fast, us ×1.1``."""
    parts = [f">{tokens // 1000}k" if tokens % 1000 == 0 else f">{tokens:,}" for tokens, _ in price.above]
    parts += [name for name, rate in (("fast", price.fast), ("peak", price.peak)) if rate is not None]
    parts += [f"{place} {factor(thousandths)}" for place, thousandths in price.places.items()]
    return ", ".join(parts)


# -- the tables --------------------------------------------------------------------------------------------------------


def tables_used(table: PriceTable) -> str:
    """``shipped table of 2026-11, below prices.toml of 2026-12 (3 models)``."""
    said = f"shipped table of {table.shipped_version}"
    if table.file is not None and not table.file.problems:
        models = len({price.model for price in table.newer})
        said += f", below {FILE_NAME} of {table.file.version} ({figures.counted(models, 'model')})"
    if table.overrides:
        models = len({price.model for price in table.overrides})
        said += f", below {figures.counted(models, 'model')} in your settings"
    return said


def file_trouble(table: PriceTable) -> tuple[str, str] | None:
    """The problem of the file in the data directory and its fix; ``None``: there is none."""
    if table.file is None:
        return None
    if table.file.problems:
        first, more = table.file.problems[0], len(table.file.problems) - 1
        problem = f"{FILE_NAME} in the data directory is not used: {first.place} {first.problem}"
        problem += f" (and {figures.counted(more, 'further problem')})" if more else ""
        return problem, "Write it again: agenttrace prices update FILE. Or remove it: agenttrace prices reset"
    if table.file.version < table.shipped_version:
        problem = f"{FILE_NAME} of {table.file.version} is older than the shipped table of {table.shipped_version}"
        return problem, "Use the shipped prices: agenttrace prices reset. Or write a newer one."
    return None


def file_fields(table: PriceTable) -> dict[str, Any] | None:
    """The file in the data directory, for JSON."""
    if table.file is None:
        return None
    trouble = file_trouble(table)
    return {
        "name": FILE_NAME,
        "version": table.file.version or None,
        "used": not table.file.problems,
        "problem": None if trouble is None else trouble[0],
    }


def listed_models(table: PriceTable) -> list[str]:
    """Every model of the tables once, in their order."""
    names = {plain(price.model): price.model for price in (*table.shipped, *table.newer, *table.overrides)}
    return list(names.values())


# -- another table -----------------------------------------------------------------------------------------------------


def changes(before: PriceTable, after: PriceTable, recorded: Iterable[str] = ()) -> list[PriceChange]:
    """What would be priced otherwise by another table, model by model."""
    names = {plain(name): name for name in (*listed_models(before), *listed_models(after), *recorded)}
    found = []
    for name in names.values():
        old, new = _parts(before.find(name).periods), _parts(after.find(name).periods)
        if old != new:
            kind = "new" if not old else "gone" if not new else "changed"
            parts = [(key, old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)]
            found.append(PriceChange(name, kind, parts))
    return found


def _parts(periods: Iterable[Price]) -> dict[str, str]:
    """Every amount of a model's prices under a unique name."""
    found: dict[str, str] = {}
    for price in periods:
        start = f"since {price.since}: " if price.since else ""
        found[f"{start}currency"] = price.currency
        for name, rate in rates(price):
            amounts = ((part, getattr(rate, part)) for part in AMOUNTS)
            place = f"{start}{name}: " if name else start
            found |= {f"{place}{part}": amount(micros) for part, micros in amounts if micros is not None}
        found |= {f"{start}{place}": factor(thousandths) for place, thousandths in price.places.items()}
        if price.web_search is not None:
            found[f"{start}web_search"] = amount(price.web_search * SEARCHES)
    return found


def change_fields(change: PriceChange) -> dict[str, Any]:
    """A change, for JSON."""
    parts = [{"part": part, "before": old, "after": new} for part, old, new in change.parts]
    return {"model": change.model, "change": change.change, "parts": parts}
