"""Rules, what they decided, and what they would have done, as ``--json`` and the API show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from agenttrace.calendar import day_finder
from agenttrace.config.rule_tables import RuleTables
from agenttrace.config.rules import (
    DEFAULT_ONCE,
    DEFAULT_SETTLE,
    EVENT_KINDS,
    ActionSettings,
    ActionType,
    EventKind,
    MessageFormat,
    Once,
    RuleMode,
    RuleSettings,
    Where,
)
from agenttrace.ids import session_key
from agenttrace.rules.decision import in_force
from agenttrace.rules.trial_events import RemarkCode
from agenttrace.rules.trial_tokens import Basis
from agenttrace.store.rule_reasons import Reason
from agenttrace.store.rules import ActionState, Attempt, Firing, FiringAction, FiringCounts, FiringState, RuleState
from agenttrace.views.rule_costs import EstimatedCosts, RuleCost, RuleCosts, added
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso, iso_seconds

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.prices.costing import Cashier
    from agenttrace.rules.trial import Trial, Tried
    from agenttrace.store.rule_store import RuleStore
    from agenttrace.store.sqlite.store import SqliteStore

_SHOWN_TRIED = 200
_TITLE_CHARACTERS = 300


class RuleAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action, without what must not be shown."""

    name: str
    type: ActionType
    #: Of a webhook: the host, because the rest of an address is often its key; or the variable that it is written as.
    address: str | None
    format: MessageFormat | None
    #: Whether its messages are signed; the names of its further headers.
    signed: bool
    headers: list[str]
    allow_private: bool
    #: Of a chain.
    apps: list[str]
    input: str | None
    max_chars: int | None
    keep: list[str]
    #: The program of a command.
    command: str | None
    timeout_seconds: float
    #: Of messages, and of the prompts of a chain.
    language: str
    #: Environment variables that are not set.
    missing: list[str]
    #: ``file``, ``console`` or ``ready``: where it is written.
    origin: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: how it is switched, and how often it fired."""

    name: str
    title: str
    on: EventKind
    #: The filters that are set.
    where: dict[str, Any]
    do: list[RuleAction]
    settle_seconds: float
    sample: float
    once: Once
    cooldown_seconds: float
    max_per_day: int
    tokens_per_day: int | None
    start: str
    mode: RuleMode
    #: ``file``, ``console`` or ``ready``: where it is written.
    origin: str
    #: Earlier events do not fire it; null while it is off.
    since: str | None
    #: Why it is paused.
    paused: str | None
    #: How many firings in a row have failed.
    failures: int
    fired_today: int
    tokens_today: int
    #: What those tokens cost; null where there are none.
    cost_today: RuleCost | None
    last_fired_at: str | None
    #: How many firings are in each state.
    states: dict[str, int]


class RuleFiring(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule decided about an event."""

    id: int
    rule: str
    event: str
    at: str | None
    #: The key of the session.
    session: str | None
    session_id: str | None
    title: str | None
    agent: str | None
    span_id: str | None
    turn: int | None
    facts: dict[str, Any]
    state: FiringState
    #: Why it did not fire, or what an action failed with: in English.
    reason: str | None
    #: The same as a code with its facts, where it is a reason of the rule.
    why: Reason | None
    due_at: str | None
    fired_at: str | None
    ended_at: str | None
    #: The firing whose message has this one too.
    message: int | None
    tokens: int
    #: What those tokens cost; null where there are none.
    cost: RuleCost | None


class RuleAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of an action."""

    at: str | None
    seconds: float
    outcome: str
    detail: str


class RuleFiringAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a firing."""

    name: str
    idempotency_key: str
    state: ActionState
    attempts: list[RuleAttempt]
    due_at: str | None
    started_at: str | None
    ended_at: str | None
    #: JSON.
    answer: str | None
    error: str | None
    tokens: int
    cost: RuleCost | None


class RuleFiringDetail(RuleFiring, frozen=True, kw_only=True):
    """A firing with its actions and their attempts."""

    actions: list[RuleFiringAction]


class TriedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the past, and what the rule would have done."""

    event: str
    at: str | None
    session: str | None
    session_id: str | None
    title: str | None
    agent: str | None
    facts: dict[str, Any]
    fires: bool
    reason: str | None
    why: Reason | None
    fires_at: str | None
    #: What its chains would have used, estimated.
    tokens: int


class TrialReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why events would not have fired."""

    reason: str
    why: Reason
    events: int


class TrialChain(msgspec.Struct, frozen=True, kw_only=True):
    """What an action that calls applications would have used, estimated."""

    action: str
    apps: list[str]
    #: ``firings``: from earlier runs of the same applications; ``input``: from the size of the input alone.
    basis: Basis
    tokens: int
    cost: RuleCost | None


class TrialRemark(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial cannot know, or how it was estimated: in English, and as a code with its facts."""

    code: RemarkCode
    facts: dict[str, str | int | None]
    text: str


class RuleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would have done in a period."""

    rule: str
    since: str | None
    until: str | None
    events: int
    fired: int
    #: Events that a cooldown collects are in one message.
    messages: int
    not_fired: int
    reasons: list[TrialReason]
    #: The latest events.
    examples: list[TriedEvent]
    #: Whether there were more events than a trial looks at.
    cut: bool
    #: What its chains would have used, estimated; ``cost`` is null where there are none.
    tokens: int
    cost: RuleCost | None
    chains: list[TrialChain]
    remarks: list[TrialRemark]


class RuleEventKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of event, and what it means where a rule does not say it."""

    kind: EventKind
    once: Once
    settle_seconds: float


# -- rules ----------------------------------------------------------------------------------------------------------


def event_kinds() -> list[RuleEventKind]:
    """All kinds of events."""
    return [
        RuleEventKind(
            kind=kind,
            once=DEFAULT_ONCE[kind],
            settle_seconds=DEFAULT_SETTLE.get(kind, 0.0),
        )
        for kind in EVENT_KINDS
    ]


def rules_of(store: RuleStore | None, tables: RuleTables, *, day: str, cashier: Cashier | None = None) -> list[Rule]:
    """All rules, those that ship last; without a store, as the settings have them, and without a cashier no cost."""
    listed = sorted(tables.rules.values(), key=lambda rule: rule.origin == "ready")
    if store is None:
        return [rule_of(rule, tables, None, FiringCounts({}, 0, 0, None)) for rule in listed]
    states = store.rules.states()
    found = []
    for rule in listed:
        counts, cost = store.rules.counts(rule.name, day), None
        if counts.tokens_today and cashier is not None:
            cost = RuleCosts(store, cashier, store.rules.used_on(rule.name, day)).of_all()
        found.append(rule_of(rule, tables, states.get(rule.name), counts, cost))
    return found


def rule_of(
    rule: RuleSettings,
    tables: RuleTables,
    state: RuleState | None,
    counts: FiringCounts,
    cost_today: RuleCost | None = None,
) -> Rule:
    """One rule."""
    return Rule(
        name=rule.name,
        title=rule.title,
        on=rule.on,
        where=where_fields(rule.where),
        do=[action_of(tables.actions[name]) for name in rule.do if name in tables.actions],
        settle_seconds=rule.settle,
        sample=rule.sample,
        once=rule.once,
        cooldown_seconds=rule.cooldown,
        max_per_day=rule.max_per_day,
        tokens_per_day=rule.tokens_per_day,
        start=rule.start,
        mode=in_force(rule, state).mode,
        origin=rule.origin,
        since=iso(state.since) if state is not None and state.kinds else None,
        paused=None if state is None else state.paused,
        failures=0 if state is None else state.failures,
        fired_today=counts.today,
        tokens_today=counts.tokens_today,
        cost_today=cost_today,
        last_fired_at=iso_seconds(counts.last_fired_at),
        states={str(name): count for name, count in counts.states.items()},
    )


def where_fields(where: Where) -> dict[str, Any]:
    """The filters that are set."""
    default = Where()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in Where.__struct_fields__
        if (value := getattr(where, name)) != getattr(default, name)
    }


def action_of(action: ActionSettings) -> RuleAction:
    """An action, without what must not be shown."""
    is_chain, is_webhook = action.type == "chain", action.type == "webhook"
    return RuleAction(
        name=action.name,
        type=action.type,
        address=_address(action),
        format=action.format if is_webhook else None,
        signed=action.secret is not None,
        headers=list(action.headers),
        allow_private=action.allow_private,
        apps=list(action.apps),
        input=action.input if is_chain else None,
        max_chars=action.max_chars if is_chain else None,
        keep=list(action.keep) if is_chain else [],
        language=action.language,
        command=action.argv[0] if action.argv else None,
        timeout_seconds=action.timeout_seconds,
        missing=list(action.missing),
        origin=action.origin,
    )


def _address(action: ActionSettings) -> str | None:
    if action.url is None or "url" in action.written:
        return action.written.get("url")
    try:
        parts = urlsplit(action.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…" if parts.netloc else "…"
    except ValueError:
        return "…"


# -- firings --------------------------------------------------------------------------------------------------------


def firings_of(store: RuleStore, firings: Sequence[Firing], cashier: Cashier) -> list[RuleFiring]:
    """What rules decided, with the sessions that they are about, and what that cost."""
    known = sessions_of(store, firings)
    costs = RuleCosts(store, cashier, store.rules.used([each.number for each in firings if each.tokens]))
    return [RuleFiring(**_firing_fields(each, known.get(each.event.session or -1), costs)) for each in firings]


def firing_detail(store: RuleStore, number: int, cashier: Cashier) -> RuleFiringDetail | None:
    """One of them with its actions and their attempts."""
    firing = store.rules.firing(number)
    if firing is None:
        return None
    session = sessions_of(store, [firing]).get(firing.event.session or -1)
    attempts = store.rules.attempts(number)
    costs = RuleCosts(store, cashier, store.rules.used([number]))
    actions = [_action_of(each, attempts, costs) for each in store.rules.actions([number]).get(number, [])]
    return RuleFiringDetail(**_firing_fields(firing, session, costs), actions=actions)


def _firing_fields(firing: Firing, session: Session | None, costs: RuleCosts) -> dict[str, Any]:
    event = firing.event
    return {
        "id": firing.number,
        "rule": firing.rule,
        "event": event.kind,
        "at": iso(event.at),
        **_session_fields(event.session, session),
        "span_id": None if event.span is None else event.span.hex(),
        "turn": event.turn if event.turn >= 0 else None,
        "facts": event.facts,
        "state": firing.state,
        "reason": firing.reason,
        "why": firing.why,
        "due_at": iso_seconds(firing.due_at) if firing.state in ("settling", "held", "queued") else None,
        "fired_at": iso_seconds(firing.fired_at),
        "ended_at": iso_seconds(firing.ended_at),
        "message": firing.message,
        "tokens": firing.tokens,
        "cost": costs.of_firing(firing.number),
    }


def _session_fields(number: int | None, session: Session | None) -> dict[str, Any]:
    return {
        "session": None if number is None else session_key(number),
        "session_id": None if session is None else session.session_id,
        "title": None if session is None else title_of(session)[:_TITLE_CHARACTERS] or None,
        "agent": None if session is None else session.agent,
    }


def _action_of(action: FiringAction, attempts: Sequence[Attempt], costs: RuleCosts) -> RuleFiringAction:
    return RuleFiringAction(
        name=action.action,
        idempotency_key=action.idempotency_key,
        state=action.state,
        attempts=[_attempt(each) for each in attempts if each.place == action.place],
        due_at=iso_seconds(action.due_at) if action.state == "queued" else None,
        started_at=iso_seconds(action.started_at),
        ended_at=iso_seconds(action.ended_at),
        answer=action.answer if action.state == "done" else None,
        error=action.error,
        tokens=action.tokens,
        cost=costs.of_action(action.firing, action.place),
    )


def _attempt(attempt: Attempt) -> RuleAttempt:
    return RuleAttempt(
        at=iso_seconds(attempt.at),
        seconds=round(attempt.seconds, 3),
        outcome=attempt.outcome,
        detail=attempt.detail,
    )


def sessions_of(store: RuleStore, firings: Sequence[Firing]) -> Mapping[int, Session]:
    """The sessions that firings are about, by number."""
    numbers = {firing.event.session for firing in firings if firing.event.session is not None}
    return {session.id: session for session in store.sessions_by_number(sorted(numbers))}


# -- trials ---------------------------------------------------------------------------------------------------------


def trial_of(trial: Trial, store: SqliteStore, settings: Settings) -> RuleTrial:
    """What a rule would have done."""
    from agenttrace.prices.costing import Cashier

    fired, day = trial.fired(), day_finder(settings.usage.timezone)(trial.until)
    pricing = EstimatedCosts(store, Cashier.load(settings), settings.apps, day)
    chains = [
        TrialChain(
            action=each.action, apps=list(each.apps), basis=each.basis, tokens=each.tokens, cost=pricing.of(each)
        )
        for each in trial.estimates
    ]
    return RuleTrial(
        rule=trial.rule,
        since=iso(trial.since),
        until=iso(trial.until),
        events=len(trial.tried),
        fired=len(fired),
        messages=trial.messages,
        not_fired=len(trial.tried) - len(fired),
        reasons=[TrialReason(reason=why.sentence, why=why, events=count) for why, count in trial.reasons()],
        examples=[_tried(each) for each in trial.tried[::-1][:_SHOWN_TRIED]],
        cut=trial.cut,
        tokens=sum(each.tokens for each in chains),
        cost=added([each.cost for each in chains if each.cost is not None]),
        chains=chains,
        remarks=[TrialRemark(code=each.code, facts=dict(each.facts), text=each.sentence) for each in trial.remarks],
    )


def _tried(tried: Tried) -> TriedEvent:
    session = tried.facts.session
    return TriedEvent(
        event=tried.facts.event.kind,
        at=iso(tried.facts.event.at),
        **_session_fields(None if session is None else session.id, session),
        facts=tried.facts.event.facts,
        fires=tried.outcome != "skip",
        reason=None if tried.reason is None else tried.reason.sentence,
        why=tried.reason,
        fires_at=iso_seconds(tried.at) if tried.outcome != "skip" else None,
        tokens=tried.tokens,
    )
