"""What is known of an event when a rule is asked: its session, and what that cost."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from agenttrace.config.rules import Where, project_matches
from agenttrace.model import Session
from agenttrace.prices.costing import Bill, Cashier
from agenttrace.store.annotations import NO_MARKS
from agenttrace.store.rule_reasons import Reason, why
from agenttrace.store.rules import RuleEvent
from agenttrace.store.store import Store


class Facts(NamedTuple):
    """An event with what the store has of its session."""

    event: RuleEvent
    #: ``None``: the event is about no session, or the session was removed.
    session: Session | None = None
    bill: Bill | None = None
    #: When the session last said something, seconds since the epoch.
    heard: float = 0.0
    labels: frozenset[str] = frozenset()

    @property
    def models(self) -> set[str]:
        """The models of the session."""
        found = set(self.bill.models) if self.bill is not None else set()
        if self.session is not None and self.session.model:
            found.add(self.session.model)
        return found


def read_facts(store: Store, cashier: Cashier, event: RuleEvent) -> Facts:
    """What the store knows of an event now."""
    found = [] if event.session is None else store.sessions_by_number([event.session])
    if not found:
        return Facts(event)
    session = found[0]
    rows = store.usage_by_session([session.id]).get(session.id, [])
    labels = store.marks([session.id]).get(session.id, NO_MARKS).labels
    return Facts(event, session, cashier.bill(rows), store.heard_of(session) / 1_000_000, frozenset(labels))


def mismatch(where: Where, facts: Facts) -> Reason | None:
    """Why an event is not one that a rule is about; ``None``: it is."""
    return _mismatch_of_names(where, facts) or _mismatch_of_figures(where, facts)


def _mismatch_of_names(where: Where, facts: Facts) -> Reason | None:
    event, session = facts.event, facts.session
    names: list[tuple[str, tuple[str, ...], str | None]] = [
        ("agent", where.agent, session.agent if session else event.facts.get("agent")),
        ("branch", where.branch, session.branch if session else None),
        ("machine", where.machine, session.machine if session else None),
        ("person", where.person, session.person if session else None),
        ("tool", where.tool, event.facts.get("tool")),
        ("budget", where.budget, event.facts.get("budget")),
        ("destination", where.destination, event.facts.get("destination")),
        ("secret", where.secret, event.facts.get("kind")),
    ]
    for name, wanted, value in names:
        if wanted and not any(value is not None and fnmatchcase(value, each) for each in wanted):
            return why("is", name=name, value=value or None)
    if not where.secret and event.facts.get("certain") is False:
        return why("secret_by_name", value=event.facts["kind"])
    project = session.project if session else None
    if where.project and not project_matches(project, where.project):
        return why("is", name="project", value=project or None)
    if where.model and not any(fnmatchcase(model, each) for model in facts.models for each in where.model):
        return why("is", name="model", value=", ".join(sorted(facts.models)) or None)
    if where.label and facts.labels.isdisjoint(where.label):
        return why("labels", value=", ".join(sorted(facts.labels)) or None)
    return None


def _mismatch_of_figures(where: Where, facts: Facts) -> Reason | None:
    session, bill = facts.session, facts.bill
    if where.min_cost is not None:
        cost = bill.cost if bill is not None else None
        if cost is None:
            return why("cost_unknown")
        if cost < where.min_cost:
            return why("cost", value=f"{cost:.2f}")
    if where.min_tokens is not None and (bill is None or bill.all_tokens < where.min_tokens):
        return why("tokens", value=0 if bill is None else bill.all_tokens)
    if where.min_turns is not None and (session is None or session.turns < where.min_turns):
        return why("turns", value=0 if session is None else session.turns)
    if where.min_minutes is not None and (minutes := _minutes(session)) < where.min_minutes:
        return why("minutes", value=f"{minutes:.1f}")
    if where.errors is not None and (session is None or where.errors != (session.errors > 0)):
        return why("errors", value=0 if session is None else session.errors)
    if where.at_least is not None and (share := _crossed(facts.event)) < where.at_least:
        return why("threshold", value=f"{share:.0%}")
    return None


def _crossed(event: RuleEvent) -> float:
    """The threshold, and not how far beyond it is: each is an event of its own."""
    return float(event.facts.get("threshold", event.facts.get("share", 0.0)))


def _minutes(session: Session | None) -> float:
    if session is None or session.started_at is None or session.last_at is None:
        return 0.0
    return (session.last_at - session.started_at) / 60_000_000
