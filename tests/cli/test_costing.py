"""Bills: exact sums, currencies apart, the unpriced never as nothing."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import UsageSettings
from agenttrace.model import Price, Usage
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import PriceTable, cost_micros
from agenttrace.store.questions import UsageRow

PRICES = (
    Price(model="dollar", currency="USD", input=3_000_001, output=15_000_000, cache_read=300_000),
    Price(model="cheap", currency="USD", input=1, output=3),
    Price(model="yuan", currency="CNY", input=4_000_000, output=16_000_000),
)
TABLE = PriceTable(PRICES, (), "test")
CASHIER = Cashier(TABLE, UsageSettings())

counts = st.integers(0, 10**9)
usages = st.builds(
    Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=counts, cache_write_tokens=counts
)
rows = st.builds(
    UsageRow,
    group=st.sampled_from(["a", "b", "c"]),
    model=st.sampled_from(["dollar", "cheap", "yuan", "mystery", "riddle"]),
    requests=st.integers(1, 100),
    estimated=st.integers(0, 3),
    copies=st.integers(0, 9),
    usage=usages,
)


@given(st.lists(rows, max_size=30), st.randoms())
def test_a_total_does_not_depend_on_grouping_or_order(found: list[UsageRow], random: object) -> None:
    """Split and shuffled as you like, the same bill comes out."""
    whole = CASHIER.bill(found).fields()
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a Random
    assert CASHIER.bill(shuffled).fields() == whole
    split = [
        row._replace(usage=Usage(**{name: value}))
        for row in found
        for name, value in (
            ("input_tokens", row.usage.input_tokens),
            ("output_tokens", row.usage.output_tokens),
            ("cache_read_tokens", row.usage.cache_read_tokens),
            ("cache_write_tokens", row.usage.cache_write_tokens),
        )
    ]
    assert CASHIER.bill(split).costs == CASHIER.bill(found).costs


@given(st.lists(rows, max_size=30))
def test_every_token_is_priced_or_counted_as_unpriced(found: list[UsageRow]) -> None:
    """What has no price adds to ``unpriced_tokens``, all of it, and to no cost."""
    bill = CASHIER.bill(found)
    unknown = [row for row in found if row.model in ("mystery", "riddle")]
    assert bill.unpriced_tokens == sum(row.usage.total for row in unknown)
    assert bill.unpriced_models == {row.model for row in unknown if row.usage.total}
    known = CASHIER.bill([row for row in found if row not in unknown])
    assert bill.costs == known.costs


@given(usages)
def test_one_model_costs_what_its_price_says(usage: Usage) -> None:
    """A bill over one row agrees with ``cost_micros``."""
    row = UsageRow("", "dollar", 1, 0, 0, usage)
    bill = CASHIER.bill([row])
    assert bill.costs == ({"USD": cost_micros(PRICES[0], usage)} if usage.total else {})


@given(st.lists(rows, max_size=20))
def test_groups_make_up_the_whole(found: list[UsageRow]) -> None:
    """Tokens and requests of the groups add up to those of the bill over all rows."""
    whole, groups = CASHIER.bill(found), CASHIER.by_group(found)
    assert sum(bill.requests for bill in groups.values()) == whole.requests
    assert sum(bill.unpriced_tokens for bill in groups.values()) == whole.unpriced_tokens
    for name, count in whole.tokens.items():
        assert sum(bill.tokens[name] for bill in groups.values()) == count


def test_two_currencies_are_not_one_amount() -> None:
    """Mixed: no single cost, both amounts."""
    bill = CASHIER.bill([UsageRow("", model, 1, 0, 0, Usage(output_tokens=1_000_000)) for model in ("dollar", "yuan")])
    assert bill.cost is None
    assert bill.cost_fields() == {
        "cost": None,
        "currency": "mixed",
        "costs": {"CNY": 16.0, "USD": 15.0},
        "unpriced_tokens": 0,
    }


def test_an_exchange_rate_makes_them_one() -> None:
    """With a rate and a wanted currency there is one amount."""
    settings = UsageSettings(currency="USD", exchange_rate=Decimal(8))
    bill = Cashier(TABLE, settings).bill(
        [UsageRow("", model, 1, 0, 0, Usage(output_tokens=1_000_000)) for model in ("dollar", "yuan")]
    )
    assert (bill.cost, bill.currency) == (17.0, "USD")


def test_nothing_priced_has_no_cost() -> None:
    """Neither an empty bill nor one of unknown models costs 0."""
    assert CASHIER.bill().cost is None
    bill = CASHIER.bill([UsageRow("", "mystery", 1, 0, 0, Usage(input_tokens=5))])
    assert (bill.cost, bill.currency, bill.unpriced_tokens) == (None, None, 5)
