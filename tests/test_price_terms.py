"""What a response costs depends on its day, the length of its prompt and the terms it was served in."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.calendar import day_finder
from agenttrace.config import UsageSettings, load_settings
from agenttrace.ids import response_key
from agenttrace.model import Price, Session, Usage
from agenttrace.prices.costing import Cashier
from agenttrace.prices.parsing import parse_prices
from agenttrace.prices.table import PriceTable, cost_numerator, shape, variant_of
from agenttrace.store.batch import Batch, Claim
from agenttrace.store.questions import UsageQuery, UsageRow
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.usage import usage_rows
from agenttrace.store.sqlite.writing import write_rows

SHIPPED = PriceTable.load(load_settings({}))
CASHIER = Cashier(SHIPPED, UsageSettings())
DAY_OF = day_finder("UTC")

STEPPED = sorted({price.model for price in SHIPPED.shipped if price.above and not price.model.endswith("*")})
PEAKED = sorted({price.model for price in SHIPPED.shipped if price.peak})
FAST = sorted({price.model for price in SHIPPED.shipped if price.fast})
CLAUDE = sorted({price.model for price in SHIPPED.shipped if price.places})
MODELS = ["claude-haiku-5-5", "claude-opus-5-5", "gpt-5.6", "deepseek-v4-flash", "qwen3-coder-plus", "mystery"]

days = st.dates(date(2024, 1, 1), date(2028, 12, 31))
moments = st.datetimes(datetime(2024, 1, 1), datetime(2028, 12, 31), timezones=st.just(UTC))


def micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


def price(model: str, day: str = "2026-11-16", variant: str = "") -> Price:
    found = SHIPPED.price(model, day, variant)
    assert found is not None
    return found


# -- the day -------------------------------------------------------------------------------------------------------


@given(starts=st.lists(days, unique=True, max_size=5), day=days, endless=st.booleans())
def test_the_day_picks_the_period(starts: list[date], day: date, endless: bool) -> None:
    """The last price that had begun by that day holds; before the first one, the first does."""
    begins = ["", *map(str, sorted(starts))] if endless or not starts else list(map(str, sorted(starts)))
    given_prices = [
        {"input": number, "output": number} | ({"since": start} if start else {})
        for number, start in enumerate(begins, start=1)
    ]
    table = PriceTable(parse_prices("m", given_prices, source="", currency="USD"), (), "test")
    found = table.price("m", str(day))
    begun = [number for number, start in enumerate(begins, start=1) if start <= str(day)]
    assert found is not None
    assert found.input == 1_000_000 * max(begun, default=1)


@given(model=st.sampled_from(MODELS[:-1]), day=days, later=st.integers(0, 900))
def test_a_later_price_does_not_change_an_earlier_day(model: str, day: date, later: int) -> None:
    """What a day cost is settled: asking on another day, or about another day first, changes nothing."""
    fresh = PriceTable.load(load_settings({}))
    fresh.price(model, str(day + timedelta(days=later)), ">272000 peak")
    assert fresh.price(model, str(day)) == SHIPPED.price(model, str(day))


# -- the length of the prompt ----------------------------------------------------------------------------------------


@given(model=st.sampled_from(STEPPED), over=st.integers(1, 10**7), day=days)
def test_a_prompt_above_a_step_costs_its_price_and_one_exactly_at_it_does_not(model: str, over: int, day: date) -> None:
    """The border belongs to the price below."""
    usual = price(model, str(day))
    steps = [(0, usual), *usual.above]
    for (_, below), (tokens, rate) in pairwise(steps):
        at_it = price(model, str(day), variant_of(model, tokens, 0, ""))
        above = price(model, str(day), variant_of(model, tokens + 1, 0, ""))
        assert (at_it.input, at_it.output, at_it.cache_read) == (below.input, below.output, below.cache_read)
        assert (above.input, above.output, above.cache_read) == (rate.input, rate.output, rate.cache_read)
        assert above.input > at_it.input
    highest = steps[-1]
    far = price(model, str(day), variant_of(model, highest[0] + over, 0, ""))
    assert far.input == highest[1].input


@given(model=st.sampled_from([name for name in MODELS if name not in STEPPED]), prompt=st.integers(0, 10**9))
def test_a_model_without_steps_costs_the_same_at_every_length(model: str, prompt: int) -> None:
    """No variant splits the sums of a model whose price has no steps."""
    assert ">" not in variant_of(model, prompt, 0, "")


# -- fast mode, places, peak hours, searches ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", FAST)
def test_fast_mode_and_its_place_multiply(model: str) -> None:
    """Fast mode is twice or six times the usual price, inference in the US a tenth more of whatever it is."""
    usual = price(model)
    assert usual.fast is not None
    assert price(model, variant=variant_of(model, 10**6, 0, "fast")).input == usual.fast.input
    assert usual.fast.output % usual.output == 0
    both = price(model, variant=variant_of(model, 10, 0, "fast us"))
    assert (both.input, both.output) == (usual.fast.input * 11 // 10, usual.fast.output * 11 // 10)


@pytest.mark.parametrize("model", CLAUDE)
def test_inference_in_the_us_costs_a_tenth_more(model: str) -> None:
    """Of tokens; a search costs the same everywhere."""
    usual, there = price(model), price(model, variant=variant_of(model, 10, 0, "us"))
    assert 10 * there.input == 11 * usual.input
    assert 10 * there.output == 11 * usual.output
    assert there.web_search == usual.web_search == 10_000


@given(model=st.sampled_from(MODELS), moment=moments, prompt=st.integers(0, 10**6))
def test_peak_hours_are_those_of_weekdays(model: str, moment: datetime, prompt: int) -> None:
    """01-04 and 06-10 UTC, Monday to Friday, and only for models that have a price for them."""
    busy = moment.weekday() < 5 and moment.hour in (1, 2, 3, 6, 7, 8, 9)
    assert ("peak" in variant_of(model, prompt, micros(moment), "").split()) == (busy and model in PEAKED)


@given(hour=st.integers(0, 23), day=st.dates(date(2026, 10, 17), date(2028, 1, 1)))
def test_the_peak_price_is_twice_the_usual_one(hour: int, day: date) -> None:
    """And holds from the day on which DeepSeek began to have one."""
    at = micros(datetime(day.year, day.month, day.day, hour, tzinfo=UTC))
    variant = variant_of("deepseek-v4-flash", 10, at, "")
    found = price("deepseek-v4-flash", str(day), variant)
    assert found.output == (1_200_000 if variant == "peak" else 600_000)
    assert price("deepseek-v4-flash", "2026-08-16", "peak").output == 280_000


@given(searches=st.integers(0, 10**6), tokens=st.integers(0, 10**9))
def test_searches_are_billed_by_the_thousand(searches: int, tokens: int) -> None:
    """Ten dollars for a thousand, beside the tokens and without rounding."""
    usage = Usage(input_tokens=tokens, web_searches=searches)
    usual = price("claude-opus-5-5")
    assert cost_numerator(usual, usage) == tokens * usual.input + searches * 10_000 * 1_000_000
    assert CASHIER.bill().cost is None
    other = price("gpt-5.6")
    assert cost_numerator(other, usage) == tokens * other.input


# -- sums --------------------------------------------------------------------------------------------------------------


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    big = st.integers(0, 300_000)
    return Claim(
        response=response_key(draw(st.sampled_from("abcd"))),
        session=draw(st.integers(1, 3)),
        at=micros(draw(moments)),
        model=draw(st.sampled_from(MODELS)),
        estimated=draw(st.booleans()),
        copies=draw(st.integers(0, 2)),
        usage=Usage(
            input_tokens=draw(big),
            output_tokens=draw(big),
            cache_read_tokens=draw(big),
            cache_write_tokens=draw(big),
            web_searches=draw(st.integers(0, 3)),
        ),
        terms=draw(st.sampled_from(["", "fast", "us", "fast us"])),
    )


_COLUMNS = "day, model, variant, at, terms"
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "web_searches",
)


class Ledger:
    """A store that forgets every example."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)

    @contextmanager
    def holding(self, *batches: list[Claim]) -> Iterator[None]:
        sessions = [Session(id=n, agent="a", session_id=str(n), born=n) for n in (1, 2, 3)]
        self.connection.execute("BEGIN")
        try:
            for claims in batches:
                write_rows(self.connection, Batch(claims=claims, sessions=sessions), day_of=DAY_OF)
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def responses(self) -> list[tuple[Any, ...]]:
        query = f"SELECT {_COLUMNS}, {', '.join(_TOKENS)} FROM responses ORDER BY response"
        return self.connection.execute(query).fetchall()

    def sums(self) -> list[UsageRow]:
        return usage_rows(self.connection, UsageQuery(by="session"))

    def cost(self) -> dict[str, int]:
        """What the responses cost, one by one and exactly."""
        found: dict[str, int] = {}
        for day, model, variant, _, _, *tokens in self.responses():
            known = SHIPPED.price(model, day, variant)
            if known is not None:
                cost = cost_numerator(known, Usage(**dict(zip(_TOKENS, tokens, strict=True))))
                found[known.currency] = found.get(known.currency, 0) + cost
        return {currency: cost for currency, cost in found.items() if cost}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    found = Ledger(tmp_path_factory.mktemp("ledger") / "agenttrace.db")
    yield found
    found.connection.close()


@given(told=st.lists(claims(), min_size=1, max_size=12), seed=st.integers(0, 10**6), cut=st.integers(0, 12))
def test_a_response_has_its_variant_whatever_is_merged_first(
    store: Ledger, told: list[Claim], seed: int, cut: int
) -> None:
    """In any order and any batches: the variant of what is known of it in the end."""
    shuffled = list(told)
    random.Random(seed).shuffle(shuffled)
    with store.holding(told):
        first = store.responses(), store.sums()
    with store.holding(shuffled[:cut], shuffled[cut:]):
        assert (store.responses(), store.sums()) == first
    for _, model, variant, at, terms, *tokens in first[0]:
        assert variant == variant_of(model, tokens[0] + tokens[2] + tokens[3], at, terms)


@given(told=st.lists(claims(), min_size=1, max_size=12))
def test_sums_cost_what_their_responses_cost(store: Ledger, told: list[Claim]) -> None:
    """Nothing is priced by the terms of another response, before and after the sums are made anew."""
    with store.holding(told):
        before = store.sums()
        billed = CASHIER.bill(before)._numerators
        assert {currency: cost for currency, cost in billed.items() if cost} == store.cost()
        ledger.rebuild_rollup(store.connection, day_of=DAY_OF)
        assert store.sums() == before


def test_terms_that_come_late_are_added(store: Ledger) -> None:
    """The first lines of a stream know the place alone, the last one the speed too."""
    told = [
        Claim(response_key("a"), 1, at, "claude-opus-5-5", False, 0, Usage(output_tokens=tokens), terms)
        for at, tokens, terms in ((1, 5, "us"), (2, 9, "fast us"), (3, 9, ""))
    ]
    for order in permutations(told):
        with store.holding(*([claim] for claim in order)):
            assert store.connection.execute("SELECT terms, variant FROM responses").fetchall() == [("fast us",) * 2]


def test_sums_are_made_anew_when_a_model_gets_peak_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the rules covers steps and peak hours, not amounts."""
    from agenttrace.prices import table as prices

    def shape_with(entry: Mapping[str, object]) -> str:
        book = prices._Book(parse_prices("m", {"input": 1, "output": 1, **entry}, source="", currency="USD"))
        monkeypatch.setattr(prices, "_shipped_book", lambda: book)
        return shape()

    step: dict[str, object] = {"above": [{"tokens": 10, "input": 2, "output": 2}]}
    plain, dearer = shape_with({}), shape_with({"input": 2})
    assert plain == dearer
    assert len({plain, shape_with({"peak": 2}), shape_with(step), shape_with(step | {"peak": 2})}) == 4
