"""Bills: the cost of usage, summed exactly for each currency; unpriced tokens are counted, never free.

Amounts are added as integers in millionths of a millionth (tokens times price) and rounded once, when they are
shown; so a total does not depend on how its rows are grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from agenttrace.model import Price, Usage
from agenttrace.prices.parsing import MILLION, half_up
from agenttrace.prices.table import PriceTable, applied, cost_micros, cost_numerator, displayed

if TYPE_CHECKING:
    from agenttrace.config import Settings, UsageSettings
    from agenttrace.store.questions import SpanRow, UsageRow

#: The token counts of a contract's ``usage`` object; the hour-long part of cache writes only shows in the cost.
TOKEN_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
MIXED = "mixed"


class Bill:
    """Tokens, requests and cost of one group, added up model by model."""

    def __init__(self, prices: PriceTable, settings: UsageSettings) -> None:
        self._prices = prices
        self._settings = settings
        self.tokens = dict.fromkeys(TOKEN_FIELDS, 0)
        self.requests = 0
        #: Responses whose log has only a placeholder of their usage.
        self.estimated = 0
        #: Further mentions of responses that were counted once: forks, resumed histories, streamed lines.
        self.copies = 0
        self.unpriced_tokens = 0
        self.unpriced_models: set[str] = set()
        self.models: set[str] = set()
        self._numerators: dict[str, int] = {}

    def add(self, row: UsageRow) -> None:
        """Add one model's usage."""
        for name in TOKEN_FIELDS:
            self.tokens[name] += getattr(row.usage, name)
        self.requests += row.requests
        self.estimated += row.estimated
        self.copies += row.copies
        self._price(row.model, row.usage, row.day, row.variant)

    def _price(self, model: str, usage: Usage, day: str, variant: str) -> None:
        if usage.total == 0 and usage.web_searches == 0:
            return
        self.models.add(model)
        price = self._prices.price(model, day, variant)
        if price is None:
            self.unpriced_tokens += usage.total
            self.unpriced_models.add(model)
        else:
            known = self._numerators.get(price.currency, 0)
            self._numerators[price.currency] = known + cost_numerator(price, usage)

    def include(self, other: Bill) -> None:
        """Add everything of another bill, as if its rows had been added here."""
        for name, tokens in other.tokens.items():
            self.tokens[name] += tokens
        self.requests += other.requests
        self.estimated += other.estimated
        self.copies += other.copies
        self.unpriced_tokens += other.unpriced_tokens
        self.unpriced_models |= other.unpriced_models
        self.models |= other.models
        for currency, numerator in other._numerators.items():
            self._numerators[currency] = self._numerators.get(currency, 0) + numerator

    @property
    def costs(self) -> dict[str, int]:
        """Millionths by currency, converted where the settings know a rate."""
        found: dict[str, int] = {}
        for currency, numerator in sorted(self._numerators.items()):
            micros, shown = displayed(half_up(numerator, MILLION), currency, self._settings)
            found[shown] = found.get(shown, 0) + micros
        return found

    @property
    def originals(self) -> dict[str, float]:
        """Currency units by the currency of the prices, nothing converted."""
        return {currency: half_up(amount, MILLION) / MILLION for currency, amount in sorted(self._numerators.items())}

    @property
    def amounts(self) -> dict[str, float]:
        """Currency units by currency."""
        return {currency: micros / MILLION for currency, micros in self.costs.items()}

    @property
    def currency(self) -> str | None:
        """The one currency, ``mixed``, or ``None`` where nothing has a price."""
        costs = self.costs
        return None if not costs else next(iter(costs)) if len(costs) == 1 else MIXED

    @property
    def cost(self) -> float | None:
        """The amount in currency units; ``None`` where there is no single one."""
        amounts = self.amounts
        return next(iter(amounts.values())) if len(amounts) == 1 else None

    @property
    def all_input(self) -> int:
        """Everything that went in, cached or not."""
        return self.tokens["input_tokens"] + self.tokens["cache_read_tokens"] + self.tokens["cache_write_tokens"]

    @property
    def all_tokens(self) -> int:
        """Everything that went in and came out; reasoning is a part of that."""
        return self.all_input + self.tokens["output_tokens"]

    def usage_fields(self) -> dict[str, Any]:
        """The token counts and how many requests they are of."""
        return {**self.tokens, "requests": self.requests}

    def cost_fields(self) -> dict[str, Any]:
        """The money, for JSON."""
        return {
            "cost": self.cost,
            "currency": self.currency,
            "costs": self.amounts,
            "unpriced_tokens": self.unpriced_tokens,
        }

    def fields(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            **self.usage_fields(),
            **self.cost_fields(),
            "unpriced_models": sorted(self.unpriced_models),
            "estimated_requests": self.estimated,
            "folded_copies": self.copies,
        }


class Cashier:
    """Makes bills with one price table and one set of settings."""

    def __init__(self, prices: PriceTable, settings: UsageSettings) -> None:
        self.prices = prices
        self.settings = settings

    @classmethod
    def load(cls, settings: Settings) -> Cashier:
        """The prices of this machine, ready to be applied."""
        return cls(PriceTable.load(settings), settings.usage)

    def bill(self, rows: Iterable[UsageRow] = ()) -> Bill:
        """A bill over these rows."""
        bill = Bill(self.prices, self.settings)
        for row in rows:
            bill.add(row)
        return bill

    def by_group(
        self, rows: Iterable[UsageRow], group: Callable[[UsageRow], str] = attrgetter("group")
    ) -> dict[str, Bill]:
        """A bill for each group, in the order of the rows."""
        bills: dict[str, Bill] = {}
        for row in rows:
            name = group(row)
            bill = bills.get(name)
            if bill is None:
                bill = bills[name] = self.bill()
            bill.add(row)
        return bills


#: Amount and currency where there is no cost, or no known one.
NO_COST: tuple[float | None, str | None] = (None, None)


def price_of(row: SpanRow, prices: PriceTable) -> Price | None:
    """What the tokens of a model call cost, on its day and in its terms."""
    return prices.price(row.billed_model or "", row.day or "", row.variant or "")


def terms_of(row: SpanRow, prices: PriceTable) -> tuple[int | None, list[str]]:
    """What made the price of a model call differ from the usual one: the step of its prompt, and its terms."""
    usual = prices.price(row.billed_model or "", row.day or "")
    return (None, []) if usual is None else applied(usual, row.variant or "")


def cost_of(row: SpanRow, cashier: Cashier) -> tuple[float | None, str | None]:
    """The cost of a model call; ``NO_COST`` if another session owns the response, or its model has no price."""
    usage = row.usage if row.counted else None
    price = price_of(row, cashier.prices)
    if price is None or usage is None or not (usage.total or usage.web_searches):
        return NO_COST
    micros, currency = displayed(cost_micros(price, usage), price.currency, cashier.settings)
    return micros / MILLION, currency
