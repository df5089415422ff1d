"""Rules, what they decided, and what they would have done, as ``--json`` and the API show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agenttrace.config.rule_tables import RuleTables, all_rules
from agenttrace.config.rules import ActionSettings, RuleSettings, Where
from agenttrace.destinations import shown_address
from agenttrace.ids import session_key
from agenttrace.rules.engine import in_force
from agenttrace.store.rules import Attempt, Firing, FiringAction, FiringCounts, RuleState
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso, iso_seconds

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.rules.trial import Trial, Tried
    from agenttrace.store.sqlite.store import SqliteStore

_SHOWN_TRIED = 200


def rules_fields(store: SqliteStore, settings: Settings, *, day: str) -> list[dict[str, Any]]:
    """All rules: how they are switched, and how often they fired."""
    tables, states = all_rules(settings), store.rules.states()
    return [
        rule_fields(rule, tables, states.get(rule.name), store.rules.counts(rule.name, day))
        for rule in tables.rules.values()
    ]


def rule_fields(
    rule: RuleSettings, tables: RuleTables, state: RuleState | None, counts: FiringCounts
) -> dict[str, Any]:
    """One rule."""
    active = in_force(rule, state)
    return {
        "name": rule.name,
        "title": rule.title,
        "on": rule.on,
        "where": where_fields(rule.where),
        "do": [action_fields(tables.actions[name]) for name in rule.do if name in tables.actions],
        "settle_seconds": rule.settle,
        "sample": rule.sample,
        "once": rule.once,
        "cooldown_seconds": rule.cooldown,
        "max_per_day": rule.max_per_day,
        "tokens_per_day": rule.tokens_per_day,
        "start": rule.start,
        "mode": active.mode,
        "origin": rule.origin,
        "since": iso(state.since) if state is not None and state.kinds else None,
        "paused": None if state is None else state.paused,
        "failures": 0 if state is None else state.failures,
        "fired_today": counts.today,
        "tokens_today": counts.tokens_today,
        "last_fired_at": iso_seconds(counts.last_fired_at),
        "states": counts.states,
    }


def where_fields(where: Where) -> dict[str, Any]:
    """The filters that are set."""
    default = Where()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in Where.__struct_fields__
        if (value := getattr(where, name)) != getattr(default, name)
    }


def action_fields(action: ActionSettings) -> dict[str, Any]:
    """An action, without what must not be shown."""
    return {
        "name": action.name,
        "type": action.type,
        "address": None if action.url is None else shown_address(action.url),
        "format": action.format if action.type == "webhook" else None,
        "apps": list(action.apps),
        "command": action.argv[0] if action.argv else None,
        "missing": list(action.missing),
        "origin": action.origin,
    }


def firing_fields(firing: Firing, session: Session | None) -> dict[str, Any]:
    """What a rule decided about an event."""
    event = firing.event
    return {
        "id": firing.number,
        "rule": firing.rule,
        "event": event.kind,
        "at": iso(event.at),
        "session": None if event.session is None else session_key(event.session),
        "session_id": None if session is None else session.session_id,
        "title": None if session is None else title_of(session),
        "agent": None if session is None else session.agent,
        "span_id": None if event.span is None else event.span.hex(),
        "turn": event.turn if event.turn >= 0 else None,
        "facts": event.facts,
        "state": firing.state,
        "reason": firing.reason,
        "due_at": iso_seconds(firing.due_at) if firing.state in ("settling", "held", "queued") else None,
        "fired_at": iso_seconds(firing.fired_at),
        "ended_at": iso_seconds(firing.ended_at),
        "message": firing.message,
        "tokens": firing.tokens,
    }


def firing_details(
    firing: Firing, session: Session | None, actions: Sequence[FiringAction], attempts: Sequence[Attempt]
) -> dict[str, Any]:
    """The same with its actions and their attempts."""
    return {
        **firing_fields(firing, session),
        "actions": [
            {
                "name": each.action,
                "idempotency_key": each.idempotency_key,
                "state": each.state,
                "attempts": [_attempt(attempt) for attempt in attempts if attempt.place == each.place],
                "due_at": iso_seconds(each.due_at) if each.state == "queued" else None,
                "started_at": iso_seconds(each.started_at),
                "ended_at": iso_seconds(each.ended_at),
                "answer": each.answer,
                "error": each.error,
                "tokens": each.tokens,
            }
            for each in actions
        ],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": iso_seconds(attempt.at),
        "seconds": round(attempt.seconds, 3),
        "outcome": attempt.outcome,
        "detail": attempt.detail,
    }


def trial_fields(trial: Trial) -> dict[str, Any]:
    """What a rule would have done."""
    fired = trial.fired()
    return {
        "rule": trial.rule,
        "since": iso(trial.since),
        "until": iso(trial.until),
        "events": len(trial.tried),
        "fired": len(fired),
        "messages": trial.messages,
        "not_fired": len(trial.tried) - len(fired),
        "reasons": [{"reason": reason, "events": count} for reason, count in trial.reasons().most_common()],
        "examples": [_tried(each) for each in trial.tried[::-1][:_SHOWN_TRIED]],
        "cut": trial.cut,
    }


def _tried(tried: Tried) -> dict[str, Any]:
    session = tried.facts.session
    return {
        "event": tried.facts.event.kind,
        "at": iso(tried.facts.event.at),
        "session": None if session is None else session_key(session.id),
        "session_id": None if session is None else session.session_id,
        "title": None if session is None else title_of(session),
        "agent": None if session is None else session.agent,
        "facts": tried.facts.event.facts,
        "fires": tried.outcome != "skip",
        "reason": tried.reason,
        "fires_at": iso_seconds(tried.at) if tried.outcome != "skip" else None,
    }


def sessions_of(store: SqliteStore, firings: Sequence[Firing]) -> Mapping[int, Session]:
    """The sessions that firings are about, by number."""
    numbers = {firing.event.session for firing in firings if firing.event.session is not None}
    return {session.id: session for session in store.sessions_by_number(sorted(numbers))}
