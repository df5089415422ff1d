"""``agenttrace usage``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import CLAUDE, CLAUDE_FORK, Program

CONTRACT = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "requests",
    "cost",
    "currency",
]
TOKENS = CONTRACT[:5]

#: (input, output, cache read, cache write, reasoning, requests), from the golden numbers of the fixtures.
GOLDEN = {
    "claude-code": (49, 442, 13_293, 4_429, 0, 7),
    "codex": (16_481 - 8_240, 240, 8_240, 0, 90, 3),
    "kimi-cli": (13_091 + 12_780 + 3 * 3_298, 155 + 174 + 3 * 148, 19_631 + 19_163 + 3 * 4_944, 0, 0, 20),
    "kimi-code": (15_035 + 3 * 2_680, 212 + 3 * 148, 22_544 + 2 * 4_020 + 4_019, 0, 0, 15),
}


def numbers(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in (*TOKENS, "requests"))


def test_golden_sums_by_agent(recorded: Program) -> None:
    """Deduplicated sums of every fixture, exactly; forks and copied events add nothing."""
    rows = recorded.json("usage", "--by", "agent")["rows"]
    assert {row["agent"]: numbers(row) for row in rows} == GOLDEN


@pytest.mark.parametrize("by", ["day", "month", "model", "agent", "project", "session"])
def test_every_grouping_has_the_same_total(recorded: Program, by: str) -> None:
    """Rows have the contract's fields under their group's name, and add up to the one total."""
    found = recorded.json("usage", "--by", by)
    assert list(found) == ["total", "rows"]
    assert list(found["total"])[: len(CONTRACT)] == CONTRACT
    assert "unpriced_tokens" in found["total"]
    assert numbers(found["total"]) == tuple(map(sum, zip(*GOLDEN.values(), strict=True)))
    assert found["total"]["cost"] == 0.046597
    assert found["total"]["currency"] == "USD"
    for name in (*TOKENS, "requests", "unpriced_tokens"):
        assert sum(row[name] for row in found["rows"]) == found["total"][name]
    for row in found["rows"]:
        assert next(iter(row)) == by
    assert sum(row["cost"] or 0 for row in found["rows"]) == pytest.approx(0.046597, abs=1e-5)


def test_groups_are_named_as_the_contract_says(recorded: Program) -> None:
    """A day is ``2026-11-15``, a month ``2026-11``, a session its id."""
    assert [row["day"] for row in recorded.json("usage", "--by", "day")["rows"]] == ["2026-11-15"]
    assert [row["month"] for row in recorded.json("usage", "--by", "month")["rows"]] == ["2026-11"]
    assert {CLAUDE, CLAUDE_FORK} <= {row["session"] for row in recorded.json("usage", "--by", "session")["rows"]}
    assert [row["project"] for row in recorded.json("usage", "--by", "project")["rows"]] == ["/home/dev/work"]


def test_cost_is_exact(recorded: Program) -> None:
    """Claude Sonnet 4.5 at 3 / 15 / 0.30 / 3.75 dollars a million, rounded once to millionths."""
    row = next(row for row in recorded.json("usage", "--by", "model")["rows"] if row["model"] == "claude-sonnet-4-5")
    assert row["cost"] == round((49 * 300 + 442 * 1500 + 13_293 * 30 + 4_429 * 375) / 1e8, 6) == 0.027374


def test_what_has_no_price_is_shown_as_such(recorded: Program) -> None:
    """Tokens of unknown models: never a cost of 0, always a count and a way to give them a price."""
    row = next(row for row in recorded.json("usage", "--by", "model")["rows"] if row["model"] == "kimi-mock")
    assert row["cost"] is None
    assert row["currency"] is None
    assert row["costs"] == {}
    assert row["unpriced_tokens"] == 23_075 + 656 + 34_603
    done = recorded.run("usage", "--by", "model")
    assert "?" in done.stdout
    assert "have no known price (kimi-mock, unknown)" in done.stderr
    assert "$0.00 " not in done.stdout


def test_copies_and_placeholders_are_reported(recorded: Program) -> None:
    """How often the logs repeated themselves, and which numbers they never finished."""
    total = recorded.json("usage")["total"]
    assert total["folded_copies"] > 0
    assert total["estimated_requests"] == 1
    assert "has only a placeholder" in recorded.run("usage").stderr


def test_since(recorded: Program) -> None:
    """From that day on, the day included."""
    assert recorded.json("usage", "--since", "2026-11-15")["total"]["requests"] == 45
    later = recorded.json("usage", "--since", "2026-11-16")
    assert later["rows"] == []
    assert later["total"]["requests"] == 0
    assert later["total"]["cost"] is None


PRICES = """
[prices."kimi-mock"]
currency = "CNY"
input = 4
output = 16
cache_read = 1
"""


def test_currencies_stay_apart_unless_a_rate_links_them(machine: Program) -> None:
    """Dollars and yuan are not added up; with an exchange rate they are one amount."""
    machine.home.mkdir(mode=0o700)
    (machine.home / "agenttrace.toml").write_text(PRICES)
    machine.run("record", "--once")
    total = machine.json("usage")["total"]
    yuan = (23_075 * 4 + 656 * 16 + 34_603 * 1) / 1e6
    assert total["cost"] is None
    assert total["currency"] == "mixed"
    assert total["costs"] == {"CNY": pytest.approx(yuan), "USD": 0.046597}
    rate = {"AGENTTRACE_USAGE_CURRENCY": "CNY", "AGENTTRACE_USAGE_EXCHANGE_RATE": "7"}
    total = machine.json("usage", env=rate)["total"]
    assert total["currency"] == "CNY"
    assert total["cost"] == pytest.approx(yuan + 7 * 0.046597, abs=1e-5)
    assert total["costs"] == {"CNY": total["cost"]}


def test_people_get_a_table_with_a_total(recorded: Program) -> None:
    """Rows, a total, and how the columns relate."""
    done = recorded.run("usage", "--by", "agent")
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "agent"
    assert lines[-1].split()[0] == "total"
    assert "67,130" in lines[-1]
    assert "reasoning is part of output" in done.stderr


def test_nothing_used_yet(program: Program) -> None:
    """A store without usage says so."""
    program.run("record", "--once")
    assert "No usage recorded yet" in program.run("usage").stdout
    assert program.json("usage")["rows"] == []


def test_check_compares_with_the_agents_own_totals(recorded: Program) -> None:
    """Codex and Kimi Code tell totals, which agree; the others tell none."""
    found = recorded.json("usage", "--check")
    assert (found["agree"], found["differ"], found["nothing"]) == (2, 0, 5)
    assert {session["agent"]: session["status"] for session in found["sessions"]} == {
        "codex": "agree",
        "kimi-code": "agree",
    }
    for session in found["sessions"]:
        assert session["claimed"] == session["counted"]
    text = recorded.run("usage", "--check", "--exit-code").stdout
    assert [line.split("  ")[0] for line in text.splitlines()] == ["agree", "differ", "nothing to check by"]


def test_check_shows_what_differs(program: Program) -> None:
    """A session that does not agree is listed with its amounts; the exit code says so only where it was asked."""
    log = program.user / ".claude" / "projects" / "-srv" / f"{CLAUDE}.jsonl"
    log.parent.mkdir(parents=True)
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": "msg_1", "model": "m", "content": [], "stop_reason": "end_turn", "usage": usage}
    told = {"inputTokens": 7, "outputTokens": 5}
    lines: list[dict[str, Any]] = [
        {
            "type": "assistant",
            "isSidechain": False,
            "uuid": "a",
            "timestamp": "2026-11-16T00:00:01Z",
            "message": message,
        },
        {"type": "cost-state", "startTime": 1_700_000_000_000, "modelUsage": {"m": told}},
    ]
    log.write_text("".join(json.dumps({"sessionId": CLAUDE, **line}) + "\n" for line in lines))
    program.run("record", "--once")
    assert program.run("usage", "--check", "--exit-code", code=1).stdout.count("-3 input") == 1
    assert program.json("usage", "--check")["sessions"][0]["difference"]["input_tokens"] == -3
    assert "differs from the agent's own total by -3 input" in program.run("show", CLAUDE).stdout
    assert program.json("show", CLAUDE)["session"]["check"]["status"] == "differ"
