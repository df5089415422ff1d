"""What recorded sessions cost: as their agents count it themselves, and alike wherever it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import Settings, UsageSettings, ensure_home
from agenttrace.model import Usage
from agenttrace.prices.costing import Cashier, price_of
from agenttrace.prices.table import PriceTable, cost_micros, cost_numerator
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite import database
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.schema import MIGRATIONS
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.span_rows import session_rows
from agenttrace.store.sqlite.usage import usage_rows

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "claude-code-2.1.325"
#: Names of ``cost-state`` by ours.
COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadInputTokens",
    "cache_write_tokens": "cacheCreationInputTokens",
    "cache_write_1h_tokens": "cacheCreationEphemeral1hInputTokens",
    "web_searches": "webSearchRequests",
}


@contextmanager
def recorder(settings: Settings, *paths: Path) -> Iterator[Recorder]:
    ensure_home(settings)
    found = Recorder(settings, paths=[str(path) for path in paths], environ={})
    try:
        yield found
    finally:
        found.close()


def settings_in(home: Path) -> Settings:
    return Settings(home=home, usage=UsageSettings(timezone="UTC"))


def states() -> list[dict[str, Any]]:
    """What Claude Code 2.1.325 says of its own cost, in the order in which it wrote it."""
    lines = (line for path in sorted(SAMPLES.rglob("*.jsonl")) for line in path.read_text().splitlines())
    return [json.loads(line, parse_float=Decimal) for line in lines if '"cost-state"' in line]


def test_the_price_of_each_model_is_the_agents_own() -> None:
    """The counts of ``cost-state`` at our price are its ``costUSD``, to the millionth."""
    table = PriceTable.load(settings_in(Path("/nowhere")))
    told = [(model, counts) for state in states() for model, counts in state["modelUsage"].items()]
    assert len(told) > 10
    for model, counts in told:
        price = table.price(model, "2026-11-15")
        assert price is not None
        usage = Usage(**{ours: counts[theirs] for ours, theirs in COUNTS.items()})
        assert abs(cost_micros(price, usage) - counts["costUSD"] * 1_000_000) <= Decimal("0.5001")


def test_the_cost_of_each_session_is_the_agents_own(tmp_path: Path) -> None:
    """Recorded, with subagents, copies and calls that no line has: each session costs what its agent says."""
    settings = settings_in(tmp_path)
    said: dict[str, dict[int, Decimal]] = {}
    for state in states():
        said.setdefault(state["sessionId"], {})[state["startTime"]] = Decimal(state["totalCostUSD"])
    with recorder(settings, SAMPLES) as found:
        found.run_once()
        table = PriceTable.load(settings)
        checked = 0
        for session in list_sessions(found.connection):
            segments = said.get(session.session_id)
            if segments is None:
                continue
            checked += 1
            cost = 0
            for row in session_rows(found.connection, session, attributes=False):
                price = price_of(row, table)
                # What a fork copied from before its process began is not in the count of that process.
                if price is not None and row.usage is not None and row.start >= min(segments) * 1000:
                    cost += cost_numerator(price, row.usage)
            told = sum(segments.values(), Decimal())
            assert abs(cost - told * 10**12) < 1_000, session.session_id
    assert checked == len(said)
    assert checked > 10


def test_a_store_of_the_schema_before_gets_right_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums know neither steps nor hours; the next start of the recorder makes them anew, once."""
    settings = settings_in(tmp_path)
    ensure_home(settings)
    place = next(place for place, script in enumerate(MIGRATIONS) if "ADD COLUMN variant" in script)
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:place])
    old = connect(tmp_path / "agenttrace.db")
    old.execute("INSERT INTO sessions (id, agent, session_id) VALUES (1, 'a', 's')")
    monday = 1_794_794_400_000_000  # 2026-11-16, 02:00 UTC
    told = [
        ("claude-haiku-5-5", 60_000, 1_000, 50_000, "2026-11-16", monday),
        ("claude-haiku-5-5", 100_000, 10, 0, "2026-11-16", monday),
        ("deepseek-v4-flash", 1_000, 1_000, 0, "2026-11-16", monday),
        ("deepseek-v4-flash", 1_000, 1_000, 0, "2026-11-16", monday + 3 * 3_600_000_000),
        ("gpt-5.6", 1_000, 1_000, 0, "2026-08-20", 1_787_227_200_000_000),
        ("gpt-5.6", 1_000, 1_000, 0, "2026-08-21", 1_787_313_600_000_000),
    ]
    for number, (model, given, made, read, day, at) in enumerate(told):
        old.execute(
            "INSERT INTO responses VALUES (?, 1, ?, ?, ?, 0, 0, ?, ?, ?, 0, 0, 0, 0)",
            (bytes([number]), at, day, model, given, made, read),
        )
    old.execute(
        "INSERT INTO usage_rollup SELECT day, session_id, model, count(*), 0, 0, sum(input_tokens), "
        "sum(output_tokens), sum(cache_read_tokens), 0, 0, 0, 0 FROM responses GROUP BY 1, 2, 3"
    )
    old.execute("INSERT INTO meta VALUES ('usage_zone', 'UTC')")
    old.close()
    monkeypatch.undo()
    haiku = (60_000 * 500 + 50_000 * 50 + 1_000 * 2_500 + 100_000 * 100 + 10 * 500) / 1000
    deepseek = 300 + 1_200 + 150 + 600
    expected = {"claude-haiku-5-5": haiku, "deepseek-v4-flash": deepseek, "gpt-5.6": 35_000 + 24_000}
    for _ in range(2):
        with recorder(settings) as found:
            bills = Cashier.load(settings).by_group(usage_rows(found.connection, UsageQuery(by="model")))
            assert {model: bill.costs["USD"] for model, bill in bills.items()} == expected
            variants = found.connection.execute("SELECT DISTINCT variant FROM responses ORDER BY 1").fetchall()
            assert variants == [("",), (">100000",), ("peak",)]
