"""The providers' own limits: windows that end at a moment, and how far each is used.

Codex writes its windows into its log; Claude Code gives them to its status line. Without that, the five-hour windows of
Claude are estimated as ccusage does it: a block begins with the first response, at the full hour before it, and lasts
five hours; the next response begins another one. What a block may hold is not known, so its share is not, either; and
nothing is estimated of the weekly window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from agenttrace.config.settings import Settings
from agenttrace.ids import crossing_key
from agenttrace.prices.costing import Cashier
from agenttrace.rules import state_files
from agenttrace.rules.budgets import HOUR
from agenttrace.store.questions import ProviderWindow, RecentQuery, TimedUsage, TimeQuery
from agenttrace.store.store import Store

if TYPE_CHECKING:
    from agenttrace.store.sqlite.store import SqliteStore

CLAUDE = "claude-code"
#: The shares at which a window counts as crossed.
THRESHOLDS = (0.5, 0.8, 1.0)
#: How long the windows of Claude Code last, by their names.
_MINUTES = {"five_hour": 300, "seven_day": 10_080, "seven_day_opus": 10_080, "seven_day_sonnet": 10_080}
_SECOND = 1_000_000
_BLOCK = 5 * HOUR
#: How far back a pause of five hours is looked for, with which blocks begin anew.
_LOOK_BACK = (24 * HOUR, 7 * 24 * HOUR)


class LimitState(msgspec.Struct, frozen=True, kw_only=True):
    """A window of a limit at a moment; times are microseconds since the epoch."""

    agent: str
    name: str
    window_minutes: int | None
    #: When it began, where its length is known.
    start: int | None
    resets_at: int
    expired: bool
    #: Where it comes from; ``estimated``: from what was recorded.
    source: Literal["log", "statusline", "estimated"]
    #: When it was so.
    at: int
    plan: str | None = None
    #: 1.0 is all of it; ``None`` where only the provider knows.
    share: float | None = None
    #: A share an hour, since the window began until it was told.
    rate: float | None = None
    #: When nothing will be left at that rate; ``None`` where that is not before it resets, or nothing is left already.
    exhausted_at: int | None = None
    #: Of an estimated one: what was used in it.
    requests: int | None = None
    tokens: int | None = None
    costs: dict[str, float] | None = None


class LimitCrossing(NamedTuple):
    """A share of a window that was reached."""

    key: bytes
    threshold: float
    state: LimitState


def limit_states(store: Store | None, settings: Settings, now: int, cashier: Cashier | None = None) -> list[LimitState]:
    """All windows that are known, expired ones too, in the order of agents and lengths."""
    windows = [] if store is None else store.provider_windows()
    windows += claude_windows(settings)
    states = [_state(window, now) for window in windows]
    told = any(each.agent == CLAUDE and each.name == "five_hour" and not each.expired for each in states)
    block = None if store is None or told else estimated_block(store, settings, now, cashier)
    if block is not None:
        states = [each for each in states if (each.agent, each.name) != (CLAUDE, "five_hour")]
        states.append(block)
    return sorted(states, key=lambda state: (state.agent, state.window_minutes or 0, state.name))


def limit_crossings(states: Iterable[LimitState]) -> list[LimitCrossing]:
    """The shares that are reached in windows that have not expired, each with a key that is unique in its window."""
    return [
        LimitCrossing(crossing_key("limit", state.agent, state.name, str(state.resets_at), repr(each)), each, state)
        for state in states
        if not state.expired and state.share is not None
        for each in THRESHOLDS
        if state.share >= each
    ]


def limit_crossings_since(store: SqliteStore, settings: Settings, since: int) -> list[LimitCrossing]:
    """The shares that were reached in windows told of since a moment, by the last report of each, expired or not.

    When a share was reached is not stored; a window whose reports were not recorded is missing.
    """
    windows = (*store.rules.past.windows(since), *claude_windows(settings))
    states = (_state(window, window.at) for window in windows if window.at >= since)
    return limit_crossings(states)


def claude_windows(settings: Settings) -> list[ProviderWindow]:
    """What Claude Code told its status line."""
    home = str(settings.home)
    known = state_files.valid_windows(state_files.read_json(state_files.claude_path(home)))
    return [
        ProviderWindow(
            agent=CLAUDE,
            name=name,
            resets_at=round(window["resets_at"]) * _SECOND,
            window_minutes=_MINUTES.get(name),
            used_percent=window["used_percent"],
            at=round(window["at"] * _SECOND),
            source="statusline",
        )
        for name, window in known.items()
    ]


def _state(window: ProviderWindow, now: int) -> LimitState:
    length = None if window.window_minutes is None else window.window_minutes * 60 * _SECOND
    start = None if length is None else window.resets_at - length
    share, expired = window.used_percent / 100, window.resets_at <= now
    rate = exhausted = None
    if start is not None and not expired and window.at > start:
        rate = share / max((window.at - start) / HOUR, 1 / 6)
        if 0 < share < 1:
            left = window.at + round((1 - share) / rate * HOUR)
            exhausted = max(left, now) if left < window.resets_at else None
    return LimitState(
        agent=window.agent,
        name=window.name,
        window_minutes=window.window_minutes,
        start=start,
        resets_at=window.resets_at,
        expired=expired,
        source="statusline" if window.source == "statusline" else "log",
        at=window.at,
        plan=window.plan,
        share=share,
        rate=rate,
        exhausted_at=exhausted,
    )


# -- blocks of five hours -----------------------------------------------------------------------------------------


def estimated_block(store: Store, settings: Settings, now: int, cashier: Cashier | None = None) -> LimitState | None:
    """The block that is open now, if Claude Code was used in it."""
    for back in _LOOK_BACK:
        hours = _hours_used(store, now - back, now)
        begun = after_pause(hours, now - back)
        if begun is not None:
            break
    start = block_start(hours[begun or 0 :])
    if start is None or start + _BLOCK <= now:
        return None
    query = RecentQuery(since=start, agents=frozenset({CLAUDE}), real=True)
    used = [each for each in store.recent_usage(query) if each.at <= now]
    return _block(start, used, now, cashier or Cashier.load(settings))


def _hours_used(store: Store, since: int, now: int) -> list[int]:
    """The hours with responses: blocks begin at full hours, so that the responses themselves need not be read."""
    query = TimeQuery(since=since, before=now + 1, step=HOUR, agents=frozenset({CLAUDE}), real=True)
    return [each.at for each in store.responses_over_time(query)]


def after_pause(hours: Sequence[int], since: int) -> int | None:
    """The place of the last hour that begins a block whatever was before: no response in the hours of a block's length
    up to it; ``None`` where there is none.
    """
    for place in range(len(hours) - 1, -1, -1):
        before = hours[place - 1] if place else since - since % HOUR
        if hours[place] - before >= _BLOCK:
            return place
    return None if hours else 0


def block_start(times: Iterable[int]) -> int | None:
    """When the block of the last of these responses began; the first of them begins one."""
    start = None
    for at in times:
        if start is None or at - start >= _BLOCK:
            start = at - at % HOUR
    return start


def _block(start: int, used: Sequence[TimedUsage], now: int, cashier: Cashier) -> LimitState:
    bill = cashier.bill(each.row for each in used)
    return LimitState(
        agent=CLAUDE,
        name="five_hour",
        window_minutes=300,
        start=start,
        resets_at=start + _BLOCK,
        expired=False,
        source="estimated",
        at=used[-1].at if used else now,
        requests=bill.requests,
        tokens=bill.all_tokens,
        costs=bill.amounts,
    )
