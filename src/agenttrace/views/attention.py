"""What needs the user now, beside sessions: recording, exports, rules that fail, budgets and limits that are reached.

The worst first. Each is one entry with its kind and figures; texts and links are those of who shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from agenttrace.config import SettingsError, current_rules
from agenttrace.config.rule_tables import merged, ready_tables
from agenttrace.record.health import problem
from agenttrace.record.lock import owner
from agenttrace.rules.decision import in_force
from agenttrace.views import figures
from agenttrace.views.limits import limits_fields

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.prices.costing import Cashier
    from agenttrace.store.rule_store import RuleStore
    from agenttrace.store.rules import RuleState
    from agenttrace.store.store import Store

AttentionKind = Literal[
    "recorder_failing",
    "recorder_stopped",
    "lines_quarantined",
    "export_failing",
    "export_refused",
    "rule_paused",
    "rule_failing",
    "budget",
    "limit",
    "calls_refused",
    "breaker_open",
    "jobs_failed",
]
#: From this share on a window of a provider is worth a look; budgets have thresholds of their own.
_NEARLY = 0.8
#: States of a destination in which nothing is sent although it should be.
_NOT_SENDING = ("waiting", "unused", "stopped")


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs the user."""

    kind: AttentionKind
    #: ``failed``: something does not work; ``waiting``: it still does.
    level: Literal["failed", "waiting"]
    #: The destination, rule, budget, application, or agent of a limit.
    name: str | None = None
    #: Of a budget: its period; of a limit: the name of its window.
    period: str | None = None
    count: int | None = None
    #: 1 is all of it.
    share: float | None = None
    #: The reason.
    detail: str | None = None
    #: When a limit resets.
    until: str | None = None
    #: Of a budget of a session.
    session_key: str | None = None


def in_order(found: Iterable[Attention]) -> list[Attention]:
    """What does not work first, else as it was found."""
    return sorted(found, key=lambda each: each.level != "failed")


def of_recorder(running: bool, problem: str | None, quarantined: int) -> Iterator[Attention]:
    """Whether agents are recorded, and what could not be read."""
    if problem is not None:
        yield Attention(kind="recorder_failing", level="failed", detail=problem)
    elif not running:
        yield Attention(kind="recorder_stopped", level="failed")
    if quarantined:
        yield Attention(kind="lines_quarantined", level="waiting", count=quarantined)


def of_exports(destinations: Iterable[Mapping[str, Any]]) -> Iterator[Attention]:
    """Destinations, as ``views/exports.py`` has them, that get nothing or refuse something."""
    for each in destinations:
        if each["state"] in _NOT_SENDING:
            yield Attention(kind="export_failing", level="failed", name=each["name"], detail=each["reason"])
        refused = each["refused"] + each["rejected"] + each["refused_annotations"]
        if refused:
            yield Attention(kind="export_refused", level="waiting", name=each["name"], count=refused)


def active_rules(store: RuleStore, settings: Settings) -> list[str]:
    """The rules that are switched on, as their files have them now."""
    try:
        tables = merged(current_rules(settings), ready_tables())
    except SettingsError:
        return []  # the page of rules says why they cannot be read
    states = store.rules.states()
    return [name for name, rule in tables.rules.items() if in_force(rule, states.get(name)).mode != "off"]


def of_rules(states: Mapping[str, RuleState], active: Iterable[str]) -> Iterator[Attention]:
    """Rules that are switched on and paused, or whose last firings have failed."""
    for state in (states[name] for name in active if name in states):
        if state.paused is not None:
            yield Attention(kind="rule_paused", level="failed", name=state.rule, detail=state.paused)
        elif state.failures:
            yield Attention(kind="rule_failing", level="waiting", name=state.rule, count=state.failures)


def of_limits(limits: Mapping[str, Any]) -> Iterator[Attention]:
    """Budgets with a threshold that is crossed and windows that are nearly used, as ``views/limits.py`` has them."""
    for budget in limits["budgets"]:
        if budget["crossed"]:
            yield Attention(
                kind="budget",
                level="failed" if budget["share"] >= 1 else "waiting",
                name=budget["name"],
                period=budget["period"],
                share=budget["share"],
                until=budget["end"],
                session_key=budget["session_key"],
            )
    for window in limits["windows"]:
        if not window["expired"] and (window["share"] or 0) >= _NEARLY:
            yield Attention(
                kind="limit",
                level="failed" if window["share"] >= 1 else "waiting",
                name=window["agent"],
                period=window["name"],
                share=window["share"],
                until=window["resets_at"],
            )


def attention_of(
    store: Store, settings: Settings, cashier: Cashier, destinations: Iterable[Mapping[str, Any]] = ()
) -> list[Attention]:
    """All of it as far as this machine's store and files tell; applications are asked by the server.

    Destinations are those of ``views/exports.py``, where the caller may see them: agents may not.
    """
    # Not with the others: commands that only format do not wait for an engine.
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.store.sqlite.team import SqliteTeamStore

    found: list[Attention] = []
    if isinstance(store, SqliteStore):
        if not isinstance(store, SqliteTeamStore):  # a team's machines record and export for themselves
            process, trouble = owner(settings.home), problem(settings.home)
            reason = None if trouble is None else trouble.reason
            found += [*of_recorder(process is not None, reason, store.quarantine.waiting()), *of_exports(destinations)]
        found += of_rules(store.rules.states(), active_rules(store, settings))
    found += of_limits(limits_fields(store, settings, cashier))
    return in_order(found)


def said(each: Attention) -> str:
    """An entry as commands say it."""
    name, number = each.name or "", each.count or 0
    share = f"{(each.share or 0):.0%} used"
    texts: dict[AttentionKind, str] = {
        "recorder_failing": "recording fails",
        "recorder_stopped": "the recorder is not running; start it with: agenttrace up",
        "lines_quarantined": f"{figures.counted(number, 'line')} could not be parsed; see: agenttrace quarantine",
        "export_failing": f"export to {name} does not work",
        "export_refused": f"{name} refused {figures.counted(number, 'span')}; see: agenttrace export",
        "rule_paused": f"rule {name} is paused",
        "rule_failing": f"rule {name} failed {figures.counted(number, 'time')} in a row",
        "budget": f"budget {name}: {share}",
        "limit": f"limit of {name}, {each.period}: {share}",
        "calls_refused": "calls of applications are refused",
        "breaker_open": f"the breaker of {name} is open",
        "jobs_failed": f"{figures.counted(number, 'job')} failed today",
    }
    return f"{texts[each.kind]}: {each.detail}" if each.detail else texts[each.kind]
