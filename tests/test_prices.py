"""Prices are found under every name a log may use, and costs are exact."""

from __future__ import annotations

import tomllib
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import Settings, UsageSettings, load_settings
from agenttrace.model import Price, Usage
from agenttrace.prices.parsing import AMOUNTS, BadPriceError, parse_prices
from agenttrace.prices.table import PriceTable, cost_micros, cost_numerator, displayed

SHIPPED = PriceTable.load(load_settings({}))

tokens = st.integers(min_value=0, max_value=10**12)
amounts = st.integers(min_value=0, max_value=10**12)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    written = draw(tokens)
    return Usage(
        input_tokens=draw(tokens),
        output_tokens=draw(tokens),
        cache_read_tokens=draw(tokens),
        cache_write_tokens=written,
        cache_write_1h_tokens=draw(st.integers(min_value=0, max_value=written)),
    )


prices = st.builds(
    Price,
    model=st.just("m"),
    currency=st.sampled_from(["USD", "CNY"]),
    input=amounts,
    output=amounts,
    cache_read=st.none() | amounts,
    cache_write=st.none() | amounts,
    cache_write_1h=st.none() | amounts,
)


def together(one: Usage, other: Usage) -> Usage:
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__})


@given(price=prices, one=usages(), other=usages())
def test_the_exact_cost_of_a_sum_is_the_sum_of_the_exact_costs(price: Price, one: Usage, other: Usage) -> None:
    """Nothing is rounded inside the numerator, so parts add up to the whole."""
    parts = cost_numerator(price, one) + cost_numerator(price, other)
    assert cost_numerator(price, together(one, other)) == parts


@given(price=prices, usage=usages())
def test_rounding_happens_once_and_half_goes_up(price: Price, usage: Usage) -> None:
    """The cost is the integer nearest to the exact one, the larger of two equally near."""
    error = cost_micros(price, usage) - Fraction(cost_numerator(price, usage), 1_000_000)
    assert Fraction(-1, 2) < error <= Fraction(1, 2)


@pytest.mark.parametrize(("tokens_used", "cost"), [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_half_a_millionth_goes_up(tokens_used: int, cost: int) -> None:
    """The border itself, which random figures never hit."""
    price = Price(model="m", currency="USD", input=500_000, output=0)
    assert cost_micros(price, Usage(input_tokens=tokens_used)) == cost


@given(
    price=prices,
    usage=usages(),
    more=tokens,
    field=st.sampled_from(["input", "output", "cache_read", "cache_write"]),
)
def test_more_tokens_never_cost_less(price: Price, usage: Usage, more: int, field: str) -> None:
    """The cost grows with each kind of token."""
    name = f"{field}_tokens"
    counts = {key: getattr(usage, key) for key in Usage.__struct_fields__}
    assert cost_micros(price, Usage(**counts | {name: counts[name] + more})) >= cost_micros(price, usage)


@given(price=prices)
def test_no_tokens_cost_nothing(price: Price) -> None:
    """Zero usage costs zero at every price."""
    assert cost_micros(price, Usage()) == 0


def test_each_kind_of_token_has_its_own_price() -> None:
    """A worked example: Opus 4.5 with every kind of token, each counted once."""
    price = SHIPPED.price("claude-opus-4-5")
    assert price is not None
    usage = Usage(
        input_tokens=1_000,
        output_tokens=2_000,
        cache_read_tokens=30_000,
        cache_write_tokens=5_000,
        cache_write_1h_tokens=4_000,
        reasoning_tokens=1_500,
    )
    # 1000 * 5 + 2000 * 25 + 30000 * 0.50 + 1000 * 6.25 + 4000 * 10 dollars for a million tokens
    assert cost_micros(price, usage) == 5_000 + 50_000 + 15_000 + 6_250 + 40_000


def test_missing_cache_prices_fall_back_to_input() -> None:
    """Without a price of its own, cached input costs what input costs, never nothing."""
    price = Price(model="m", currency="USD", input=3_000_000, output=0)
    usage = Usage(cache_read_tokens=10, cache_write_tokens=20, cache_write_1h_tokens=5)
    assert cost_micros(price, usage) == 3 * 30


def test_an_hour_of_cache_without_a_price_costs_what_writing_costs() -> None:
    """The one-hour part falls back to the price of writing, not to that of input."""
    price = Price(model="m", currency="USD", input=1_000_000, output=0, cache_write=2_000_000)
    assert cost_micros(price, Usage(cache_write_tokens=10, cache_write_1h_tokens=10)) == 20


def test_a_log_that_contradicts_itself_is_not_charged_twice() -> None:
    """A one-hour part larger than the whole is cut to the whole."""
    price = Price(model="m", currency="USD", input=0, output=0, cache_write=1_000_000, cache_write_1h=2_000_000)
    assert cost_micros(price, Usage(cache_write_tokens=10, cache_write_1h_tokens=99)) == 20


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0:200k", "claude-3-5-sonnet"),
        (
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0",
            "claude-haiku-4-5",
        ),
        ("claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-3-sonnet-20240229", "claude-3-sonnet"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("Claude-Opus-4.8", "claude-opus-4-8"),
        ("kimi-k2-0905-preview", "kimi-k2-0905-preview"),
        ("kimi-k2-0905", "kimi-k2"),
        ("kimi-k2-250905", "kimi-k2"),
        ("moonshotai/Kimi-K2.5", "kimi-k2.5"),
        ("gpt-5.1-codex-max", "gpt-5.1-codex-max"),
        ("gpt-5.2-codex", "gpt-5.2-codex"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("qwen3-coder-plus", "qwen3-coder-plus"),
        ("qwen3-coder-plus-2025-09-23", "qwen3-coder-plus"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro-preview*"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("zai-org/GLM-4.6", "glm-4.6"),
    ],
)
def test_a_model_is_found_under_the_names_logs_use(name: str, listed: str) -> None:
    """Provider, region, date and deployment marks do not hide a model."""
    price = SHIPPED.price(name)
    assert price is not None
    assert price.model == listed


@pytest.mark.parametrize(
    "name",
    [
        "",
        "<synthetic>",
        "mock",
        "gpt-5-ultra",
        "gpt-5.9",
        "claude-opus-4-9",
        "claude-opus-4-10",
        "kimi-k3.1-pro",
        "kimi-for-coding",
        "deepseek/deepseek-chat:free",
        "deepseek/deepseek-chat-v3-0324",
        "qwen3-coder-plus-finetuned",
        "claude-sonnet-4-5" + "-latest" * 1000,
        "x" * 1000 + "/gpt-5",
    ],
)
def test_an_unknown_model_has_no_price(name: str) -> None:
    """A version or variant that is not listed is unpriced: not free, and not charged like its relatives."""
    assert SHIPPED.price(name) is None


@given(name=st.text(max_size=300) | st.from_regex(r"[a-z0-9/.:@\[\]*-]{0,60}"))
def test_looking_up_never_fails(name: str) -> None:
    """Whatever stands in a log as the model, the answer is a price or None, and stays the same."""
    first = SHIPPED.price(name)
    assert first is None or isinstance(first, Price)
    assert SHIPPED.price(name) is first


def test_the_memory_of_looked_up_names_is_bounded() -> None:
    """A log full of invented names does not fill the memory, and the answers stay right."""
    table = PriceTable.load(load_settings({}))
    for number in range(10_000):
        table.price(f"invented-{number}")
    assert len(table._found) < 5_000
    assert table.price("gpt-5") is not None


def shipped_file() -> dict[str, Any]:
    text = resources.files("agenttrace.prices").joinpath("prices.toml").read_text(encoding="utf-8")
    return tomllib.loads(text, parse_float=Decimal)


@pytest.mark.parametrize("price", SHIPPED.shipped, ids=lambda price: price.model)
def test_every_shipped_price_is_plausible(price: Price) -> None:
    """Positive, within what models have ever cost, output dearest and a cached read cheapest."""
    assert price.currency in {"USD", "CNY"}
    given_amounts = [getattr(price, name) for name in AMOUNTS if getattr(price, name) is not None]
    assert all(0 < amount <= 1_000_000_000 for amount in given_amounts)
    assert price.output >= price.input
    assert price.cache_read is None or price.cache_read < price.input
    assert price.cache_write is None or price.cache_write > price.input
    assert price.cache_write_1h is None or (price.cache_write or 0) < price.cache_write_1h
    assert SHIPPED.version in price.source


def test_every_vendor_names_its_source_and_every_model_stands_once() -> None:
    """The table says where its figures come from, and no name has two prices."""
    table = shipped_file()
    assert table.pop("version") == SHIPPED.version
    assert all(block["source"] and block["currency"] and block["checked"] for block in table.values())
    entries = [(price.model, price.since) for price in SHIPPED.shipped]
    assert len(entries) == len(set(entries))
    assert len({model for model, _ in entries}) == sum(len(block["models"]) for block in table.values())
    assert all(price.checked for price in SHIPPED.shipped)


@pytest.mark.parametrize("price", SHIPPED.shipped, ids=lambda price: price.model)
def test_every_shipped_price_is_found_by_its_own_name(price: Price) -> None:
    """No entry hides another, and a provider in front changes nothing."""
    day = price.since or "2020-01-01"
    assert SHIPPED.price(price.model.rstrip("*"), day) is price
    assert SHIPPED.price(f"provider/{price.model.rstrip('*')}", day) is price


def with_overrides(*overrides: Price) -> PriceTable:
    return PriceTable.load(Settings(home=load_settings({}).home, prices=overrides))


def override(model: str, amount: int = 7) -> Price:
    return Price(model=model, currency="USD", input=amount, output=amount, source="file test")


@given(price=st.sampled_from(SHIPPED.shipped))
def test_an_override_wins_over_every_shipped_price(price: Price) -> None:
    """The user's price counts, by the exact name and by a beginning, however exact the shipped name is."""
    name = price.model.rstrip("*")
    assert with_overrides(mine := override(name)).price(name) is mine
    assert with_overrides(mine := override(name[:3] + "*")).price(name) is mine
    assert with_overrides(mine := override("*")).price(name) is mine


def test_the_most_exact_override_wins() -> None:
    """Exact before beginning, and of beginnings the longest, in whatever order they are written."""
    table = with_overrides(override("kimi*", 1), override("kimi-k2*", 2), override("kimi-k2.5", 3), override("*", 4))
    found = {name: table.price(name) for name in ("kimi-k2.5", "kimi-k2.6", "kimi-k3", "gpt-5")}
    assert [price.input if price else None for price in found.values()] == [3, 2, 1, 4]


def test_an_override_may_be_for_one_provider_only() -> None:
    """A price under the full name leaves the same model from elsewhere alone."""
    table = with_overrides(mine := override("openrouter/anthropic/claude-sonnet-4.5"))
    assert table.price("openrouter/anthropic/claude-sonnet-4.5") is mine
    assert table.price("claude-sonnet-4-5") is SHIPPED.price("claude-sonnet-4-5")


def test_a_price_of_zero_is_a_price() -> None:
    """Who writes 0 means free, and it shows as free, not as unpriced."""
    table = with_overrides(override("my-own-model", 0))
    price = table.price("my-own-model")
    assert price is not None
    assert cost_micros(price, Usage(input_tokens=10**9)) == 0


@given(micros=st.integers(min_value=0, max_value=10**12))
def test_a_price_survives_being_written_and_read(micros: int) -> None:
    """Six decimals are exact: no float comes between the file and the integer."""
    text = f"input = {Decimal(micros) / 1_000_000:f}\noutput = 0"
    table = tomllib.loads(text, parse_float=Decimal)
    assert parse_prices("m", table, source="", currency="USD")[0].input == micros


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"output": 1, "currency": "USD"}, "input"),
        ({"input": 1, "currency": "USD"}, "output"),
        ({"input": 1, "output": 1}, "currency"),
        ({"input": 1, "output": 1, "currency": "dollars"}, "currency"),
        ({"input": 1, "output": 1, "currency": 5}, "currency"),
        ({"input": -1, "output": 1, "currency": "USD"}, "input"),
        ({"input": True, "output": 1, "currency": "USD"}, "input"),
        ({"input": "1", "output": 1, "currency": "USD"}, "input"),
        ({"input": float("nan"), "output": 1, "currency": "USD"}, "input"),
        ({"input": float("inf"), "output": 1, "currency": "USD"}, "input"),
        ({"input": 0.1234567, "output": 1, "currency": "USD"}, "input"),
        ({"input": 1, "output": 1e9, "currency": "USD"}, "output"),
        ({"input": 1, "output": 1, "currency": "USD", "cache_reads": 1}, "cache_reads"),
    ],
)
def test_a_price_that_cannot_be_meant_is_refused(entry: dict[str, Any], key: str) -> None:
    """The error names the part that is wrong."""
    with pytest.raises(BadPriceError) as caught:
        parse_prices("m", entry, source="")
    assert caught.value.key == key


def test_currencies_stay_apart_without_a_rate() -> None:
    """An amount is never relabelled: without a rate it keeps its currency."""
    assert displayed(5, "CNY", UsageSettings(currency="USD")) == (5, "CNY")
    assert displayed(5, "CNY", UsageSettings(exchange_rate=Decimal(7))) == (5, "CNY")
    assert displayed(5, "EUR", UsageSettings(currency="USD", exchange_rate=Decimal(7))) == (5, "EUR")


@given(
    st.integers(0, 10**15),
    st.decimals("0.000001", 1_000_000, places=6),
    st.sampled_from(("USD", "CNY", "EUR", "JPY")),
    st.sampled_from(("USD", "CNY", "EUR", "native")),
)
def test_rates_convert_any_currency_to_that_of_the_user(micros: int, rate: Decimal, currency: str, wanted: str) -> None:
    """Exactly, rounded once; what has no rate, or is in that currency already, stays as it is."""
    usage = UsageSettings(currency=wanted, rates={currency: rate})
    if wanted in ("native", currency):
        assert displayed(micros, currency, usage) == (micros, currency)
    else:
        amount = (Decimal(micros) * rate).quantize(Decimal(1), ROUND_HALF_UP)
        assert displayed(micros, currency, usage) == (int(amount), wanted)
    assert displayed(micros, "GBP", usage) == (micros, "GBP")


def test_the_table_of_rates_comes_before_the_one_rate() -> None:
    """``exchange_rate`` is that of dollars and yuan where the table has none."""
    usage = UsageSettings(currency="CNY", exchange_rate=Decimal(7), rates={"USD": Decimal(8)})
    assert displayed(1, "USD", usage) == (8, "CNY")
    usage = UsageSettings(currency="CNY", exchange_rate=Decimal(7), rates={"EUR": Decimal(8)})
    assert (displayed(1, "USD", usage), displayed(1, "EUR", usage)) == ((7, "CNY"), (8, "CNY"))


def test_a_rate_converts_both_ways() -> None:
    """The rate is yuan for one dollar."""
    assert displayed(1_000_000, "USD", UsageSettings(currency="CNY", exchange_rate=Decimal("7.1"))) == (
        7_100_000,
        "CNY",
    )
    assert displayed(7_100_000, "CNY", UsageSettings(currency="USD", exchange_rate=Decimal("7.1"))) == (
        1_000_000,
        "USD",
    )
    assert displayed(7, "USD", UsageSettings(currency="USD", exchange_rate=Decimal("7.1"))) == (7, "USD")
