"""What rules cost: the calls of their chains, which are recorded as sessions and priced like all usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.ids import session_number
from agenttrace.model import Usage
from agenttrace.prices.costing import MIXED
from agenttrace.prices.parsing import MILLION
from agenttrace.store.questions import UsageRow
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.prices.costing import Cashier
    from agenttrace.rules.trial_tokens import ChainEstimate
    from agenttrace.store.rule_store import RuleStore
    from agenttrace.store.rules import ChainUse
    from agenttrace.store.sqlite.store import SqliteStore

#: Whose sessions the traces of chains are.
_AGENT = "agenttrace"


class RuleCost(msgspec.Struct, frozen=True, kw_only=True):
    """What calls of applications cost; unknown is never 0."""

    #: The amount where there is one currency; null: unknown, or in several.
    cost: float | None
    currency: str | None
    #: Amounts by currency.
    costs: dict[str, float]
    #: Tokens whose cost is unknown: of models without a price, and those that are not recorded.
    unpriced_tokens: int
    unpriced_models: list[str]
    #: Tokens that were used, and that no recorded call has: the trace was not read yet, or is lost.
    unrecorded_tokens: int


class RuleCosts:
    """Costs of actions, from one question to the store."""

    def __init__(self, store: RuleStore, cashier: Cashier, uses: Iterable[ChainUse]) -> None:
        self._cashier = cashier
        self._uses = list(uses)
        numbers = sorted({_number(session) for use in self._uses for session in use.sessions})
        self._usage = store.usage_by_session(numbers)

    def of_firing(self, number: int) -> RuleCost | None:
        """The cost of a firing; ``None``: it called no application."""
        return self._cost([use for use in self._uses if use.firing == number])

    def of_action(self, number: int, place: int) -> RuleCost | None:
        """The cost of one of its actions."""
        return self._cost([use for use in self._uses if (use.firing, use.place) == (number, place)])

    def of_all(self) -> RuleCost | None:
        """The cost of all."""
        return self._cost(self._uses)

    def _cost(self, uses: Sequence[ChainUse]) -> RuleCost | None:
        if not uses:
            return None
        numbers = {_number(session) for use in uses for session in use.sessions}
        bill = self._cashier.bill(row for number in sorted(numbers) for row in self._usage.get(number, ()))
        missing = max(0, sum(use.tokens for use in uses) - bill.all_tokens)
        return RuleCost(
            cost=bill.cost,
            currency=bill.currency,
            costs=bill.amounts,
            unpriced_tokens=bill.unpriced_tokens + missing,
            unpriced_models=sorted(bill.unpriced_models),
            unrecorded_tokens=missing,
        )


class EstimatedCosts:
    """Costs of what a trial estimates: as earlier runs cost, else the input at the price of the application's model."""

    def __init__(self, store: SqliteStore, cashier: Cashier, apps: Mapping[str, Any], day: str) -> None:
        self._store, self._cashier, self._apps, self._day = store, cashier, apps, day

    def of(self, estimate: ChainEstimate) -> RuleCost | None:
        """The cost of one chain; ``None``: it would not have run."""
        if not estimate.tokens:
            return None
        if estimate.basis == "input":
            return self._of_input(estimate)
        known = RuleCosts(self._store, self._cashier, estimate.uses).of_all()
        return None if known is None else _scaled(known, estimate.tokens / sum(use.tokens for use in estimate.uses))

    def _of_input(self, estimate: ChainEstimate) -> RuleCost:
        bill = self._cashier.bill()
        for app in estimate.apps:
            table = self._apps.get(app)
            model = str(table.get("model", "")) if isinstance(table, Mapping) else ""
            usage = Usage(input_tokens=estimate.tokens // len(estimate.apps))
            bill.add(UsageRow("", model, 1, 0, 0, usage, "", self._day))
        return RuleCost(
            cost=bill.cost,
            currency=bill.currency,
            costs=bill.amounts,
            unpriced_tokens=bill.unpriced_tokens,
            unpriced_models=sorted(bill.unpriced_models),
            unrecorded_tokens=0,
        )


def _scaled(cost: RuleCost, share: float) -> RuleCost:
    return RuleCost(
        cost=None if cost.cost is None else cost.cost * share,
        currency=cost.currency,
        costs={currency: amount * share for currency, amount in cost.costs.items()},
        unpriced_tokens=round(cost.unpriced_tokens * share),
        unpriced_models=cost.unpriced_models,
        unrecorded_tokens=round(cost.unrecorded_tokens * share),
    )


def added(costs: Sequence[RuleCost]) -> RuleCost | None:
    """The sum of costs; ``None``: there are none."""
    if not costs:
        return None
    sums: dict[str, float] = {}
    for each in costs:
        for currency, amount in each.costs.items():
            sums[currency] = sums.get(currency, 0.0) + amount
    return RuleCost(
        cost=next(iter(sums.values())) if len(sums) == 1 else None,
        currency=None if not sums else next(iter(sums)) if len(sums) == 1 else MIXED,
        costs=sums,
        unpriced_tokens=sum(each.unpriced_tokens for each in costs),
        unpriced_models=sorted({model for each in costs for model in each.unpriced_models}),
        unrecorded_tokens=sum(each.unrecorded_tokens for each in costs),
    )


def _number(session: str) -> int:
    return session_number(_AGENT, session)


def cost_text(cost: RuleCost | None) -> str | None:
    """``$1.23``; with a ``+?`` where a part is unknown, ``?`` where all of it is."""
    if cost is None:
        return None
    amounts = " + ".join(figures.money(round(each * MILLION), currency) for currency, each in cost.costs.items())
    if not amounts:
        return "?" if cost.unpriced_tokens else None
    return f"{amounts} +?" if cost.unpriced_tokens else amounts


def cost_remarks(cost: RuleCost | None) -> list[str]:
    """Why a cost is not known, or not all of it."""
    if cost is None:
        return []
    found = []
    if cost.unpriced_models:
        count = figures.tokens(cost.unpriced_tokens - cost.unrecorded_tokens)
        models = ", ".join(name or "unknown" for name in cost.unpriced_models)
        found.append(f"{count} tokens have no known price ({models}); set one in agenttrace.toml under [prices].")
    if cost.unrecorded_tokens:
        found.append(f"{figures.tokens(cost.unrecorded_tokens)} tokens are of calls that are not recorded (yet).")
    return found
