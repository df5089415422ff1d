"""Budgets and limits that were crossed, in sentences: English or Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from agenttrace.rules.budgets import money_text
from agenttrace.store.rules import RuleEvent

Language = Literal["en", "zh"]

_PERIODS: dict[Language, dict[str, str]] = {
    "en": {"day": "today", "week": "this week", "month": "this month", "session": "in this session"},
    "zh": {"day": "今天", "week": "本周", "month": "本月", "session": "本次会话"},
}
#: Windows of providers by name, or by their minutes where the name says nothing.
_WINDOWS: dict[Language, dict[str | int, str]] = {
    "en": {
        "five_hour": "five-hour",
        "seven_day": "weekly",
        "seven_day_opus": "weekly Opus",
        "seven_day_sonnet": "weekly Sonnet",
        300: "five-hour",
        10_080: "weekly",
    },
    "zh": {
        "five_hour": "5 小时",
        "seven_day": "每周",
        "seven_day_opus": "每周 Opus",
        "seven_day_sonnet": "每周 Sonnet",
        300: "5 小时",
        10_080: "每周",
    },
}


def crossing_title(event: RuleEvent, language: Language) -> str | None:
    """What reached which threshold; ``None`` for other events."""
    facts = event.facts
    if event.kind == "budget.crossed" and "threshold" in facts:
        name, reached = facts["budget"], f"{facts['threshold']:.0%}"
        return f"预算 {name} 已达 {reached}" if language == "zh" else f"Budget {name} has reached {reached}"
    if event.kind == "limit.crossed" and "threshold" in facts:
        agent, window, reached = facts["agent"], _window(facts, language), f"{facts['threshold']:.0%}"
        if language == "zh":
            return f"{agent}：{window}限额已达 {reached}"
        return f"{agent}: the {window} limit has reached {reached}"
    return None


def crossing_sentence(event: RuleEvent, language: Language) -> str | None:
    """What is used of how much, until when, and what that comes to; ``None`` for other events."""
    if event.kind == "budget.crossed" and "spent" in event.facts:
        return _budget_in_chinese(event.facts) if language == "zh" else _budget_in_english(event.facts)
    if event.kind == "limit.crossed" and "share" in event.facts:
        return _limit_in_chinese(event.facts) if language == "zh" else _limit_in_english(event.facts)
    return None


def _budget_in_english(facts: Mapping[str, Any]) -> str:
    period = facts["period"]
    spent, limit = (_amount(facts, facts[name]) for name in ("spent", "limit"))
    unit, verb = (" tokens", "are used") if facts["currency"] == "tokens" else ("", "is spent")
    when = _PERIODS["en"].get(period, "")
    text = f"Budget {facts['budget']}: {spent} of {limit}{unit} {verb} {when}, {facts['share']:.0%}."
    if "ends_at" not in facts:
        return text
    end = _clock(facts["ends_at"])
    if "forecast" not in facts:
        return f"{text} The {period} ended at {end}."
    forecast = f"{_amount(facts, facts['forecast'])}{unit}"
    return f"{text} The {period} ends at {end}. At this rate it comes to {forecast} by then."


def _budget_in_chinese(facts: Mapping[str, Any]) -> str:
    period = _PERIODS["zh"].get(facts["period"], "")
    spent, limit = (_amount(facts, facts[name]) for name in ("spent", "limit"))
    unit = " token" if facts["currency"] == "tokens" else ""
    text = f"预算 {facts['budget']}：{period}已用 {spent} / {limit}{unit}，{facts['share']:.0%}。"
    if "ends_at" not in facts:
        return text
    end = _clock(facts["ends_at"])
    if "forecast" not in facts:
        return f"{text}该周期已于 {end} 结束。"
    return f"{text}周期于 {end} 结束，按目前速度届时将达 {_amount(facts, facts['forecast'])}{unit}。"


def _limit_in_english(facts: Mapping[str, Any]) -> str:
    resets = _clock(facts["resets_at"])
    text = f"{facts['agent']}: {facts['share']:.0%} of the {_window(facts, 'en')} limit is used. It resets at {resets}."
    if "exhausted_at" not in facts:
        return text
    return f"{text} At this rate nothing is left at {_clock(facts['exhausted_at'])}."


def _limit_in_chinese(facts: Mapping[str, Any]) -> str:
    window, resets = _window(facts, "zh"), _clock(facts["resets_at"])
    text = f"{facts['agent']}：{window}限额已用 {facts['share']:.0%}，将于 {resets} 重置。"
    return f"{text}按目前速度将于 {_clock(facts['exhausted_at'])} 用尽。" if "exhausted_at" in facts else text


def _amount(facts: Mapping[str, Any], amount: float) -> str:
    return f"{amount:,.0f}" if facts["currency"] == "tokens" else money_text(amount, facts["currency"])


def _window(facts: Mapping[str, Any], language: Language) -> str:
    known = _WINDOWS[language]
    return known.get(facts["window"]) or known.get(facts.get("minutes", 0)) or str(facts["window"])


def _clock(text: str) -> str:
    """A time as it is written, in its own time zone."""
    then = datetime.fromisoformat(text)
    return then.strftime("%Y-%m-%d %H:%M UTC" if then.utcoffset() == timedelta(0) else "%Y-%m-%d %H:%M")
