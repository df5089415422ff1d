"""Stores in which agents have spent something, for tests of budgets and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttrace.calendar import day_finder
from agenttrace.config import Settings, UsageSettings, ensure_home
from agenttrace.config.rules import parse_budget
from agenttrace.ids import response_key, session_number
from agenttrace.model import Session, Usage
from agenttrace.store.batch import Batch, Claim
from agenttrace.store.sqlite.store import SqliteStore

#: Noon of a Wednesday, 11 November 2026, UTC.
NOON = 1_794_398_400_000_000
HOUR = 3_600_000_000
DAY = 24 * HOUR
#: A price of one dollar, and one yuan, for a million tokens that go in.
DOLLAR, YUAN, FREE = "gpt-one-dollar", "qwen-one-yuan", "nobody-knows"
PRICES = {
    DOLLAR: {"currency": "USD", "input": 1, "output": 1},
    YUAN: {"currency": "CNY", "input": 1, "output": 1},
}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """One response."""

    name: str
    at: int = NOON
    tokens: int = 1_000_000
    model: str = DOLLAR
    agent: str = "codex"
    session: str = "s"
    project: str | None = "/home/dev/shop"


def settings_with(home: Path, budgets: Mapping[str, Mapping[str, Any]], **usage: Any) -> Settings:  # noqa: ANN401
    """Settings with these budgets, and with prices of the models above."""
    from agenttrace.prices.parsing import parse_prices

    prices = tuple(price for name, table in PRICES.items() for price in parse_prices(name, table, source="test"))
    parsed = {name: parse_budget(name, table) for name, table in budgets.items()}
    usage = {"timezone": "UTC", **usage}
    settings = Settings(home=home, budgets=parsed, prices=prices, usage=UsageSettings(**usage))
    ensure_home(settings)
    return settings


def opened(settings: Settings) -> SqliteStore:
    """The store of the settings, to write."""
    from agenttrace.store import open_store

    return open_store(settings, read_only=False)


def spend(store: SqliteStore, *spent: Spent, timezone: str = "UTC") -> None:
    """Record these responses in one batch."""
    sessions: dict[int, Session] = {}
    for each in spent:
        number = session_number(each.agent, each.session)
        known = sessions.get(number) or store.stored_session(number)
        session = known or Session(id=number, agent=each.agent, session_id=each.session, born=each.at)
        session.project, session.events = each.project, session.events + 1
        session.started_at = min(session.started_at or each.at, each.at)
        session.last_at = max(session.last_at or each.at, each.at)
        sessions[number] = session
    store.commit(Batch(sessions=list(sessions.values()), claims=list(map(_claim, spent))), day_of=day_finder(timezone))


def _claim(each: Spent) -> Claim:
    number = session_number(each.agent, each.session)
    usage = Usage(input_tokens=each.tokens)
    return Claim(response_key(each.name), number, each.at, each.model, False, 0, usage)


def names(items: Iterable[Any]) -> list[str]:
    """The names of states."""
    return [each.name for each in items]
