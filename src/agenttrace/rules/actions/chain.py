"""Chains: applications of the catalog on the text of a session, and what is kept of their answers beside it.

Each event has a job of its own, which is ordered once for its key: an attempt that is repeated after a crash finds the
job that exists, and its applications that have answered are not called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from agenttrace.config.rules import ActionSettings
from agenttrace.ids import session_key
from agenttrace.rules.actions.answers import MOST_SCORE, answered_labels, answered_score, answered_text
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.actions.inputs import InputText
from agenttrace.rules.actions.messages import MaskValue
from agenttrace.rules.facts import Facts
from agenttrace.store.questions import title_of

_TITLE_CHARACTERS = 200
#: Seconds until a chain is tried again that a budget has stopped: each hour, until the next day.
LATER = 3600.0


class Order(NamedTuple):
    """A chain that is to be run once for its key."""

    key: str
    apps: tuple[str, ...]
    #: What the applications get beside the text, masked; the name of the rule is ``rule``.
    facts: Mapping[str, Any]
    #: Made only where the chain is new.
    text: Callable[[], str]
    #: Whether only the result of a chain that is over is wanted: what is to be done about it is decided then.
    only_result: bool = False


class StepAnswer(NamedTuple):
    """What an application answered."""

    app: str
    text: str


Outcome = Literal["done", "retry", "failed"]


class ChainResult(NamedTuple):
    """How a chain ended, or why it cannot be run now."""

    outcome: Outcome
    #: Why it is not done.
    reason: str = ""
    answers: tuple[StepAnswer, ...] = ()
    #: All tokens that it has used so far, and what they cost where that is known.
    tokens: int = 0
    cost: float | None = None
    currency: str | None = None
    #: The number of its job, and the session of its trace.
    job: int | None = None
    session: str | None = None
    retry_after: float | None = None


class ChainStarter(Protocol):
    """Runs chains."""

    async def run(self, order: Order) -> ChainResult:
        """Run the chain, or wait for the end of the one that was started for the key."""
        ...


class Kept(NamedTuple):
    """Something that is stored beside a session, once for its key."""

    key: str
    session: int
    span: bytes | None
    kind: Literal["note", "score", "label"]
    #: The rule.
    author: str
    name: str = ""
    value: float | None = None
    text: str = ""


#: Stores it; what cannot be stored is a ``ValueError`` that says why.
Keep = Callable[[Kept], None]


class Chain:
    """Runs the applications of an action, for one event after another."""

    def __init__(self, starter: ChainStarter, texts: InputText, mask: MaskValue, keep: Keep) -> None:
        self._starter = starter
        self._texts = texts
        self._mask = mask
        self._keep = keep

    async def run(self, message: Message) -> ActionResult:
        """All events of a message; one whose chain fails does not hold up the others."""
        results: list[tuple[Facts, ChainResult]] = []
        remarks: list[str] = []
        for facts in message.events:
            if facts.event.session is not None and facts.session is None:
                remarks.append("a session was removed")
                continue
            result = _without_tokens(message, results) or await self._starter.run(self._order(message, facts))
            results.append((facts, result))
            if result.outcome == "done":
                remarks += self._kept(message, facts, result)
            elif result.job is None or result.retry_after is not None:
                # No database, no budget: the others would fare no better.
                break
        return _result(message, results, remarks)

    def _order(self, message: Message, facts: Facts) -> Order:
        action = message.action
        return Order(
            key=_key(message, facts),
            apps=action.apps,
            facts=self._mask(_facts(message, facts)),
            text=lambda: self._texts(action, facts),
            only_result=message.is_interrupted,
        )

    def _kept(self, message: Message, facts: Facts, result: ChainResult) -> list[str]:
        """Store the answers beside the session; what could not be stored."""
        if facts.session is None:
            return []
        refused = []
        for kept in kept_of(message, facts, result):
            try:
                self._keep(kept)
            except ValueError as error:
                refused.append(f"{kept.kind} not stored: {error}")
        return refused


def kept_of(message: Message, facts: Facts, result: ChainResult) -> Iterator[Kept]:
    """What is stored of the answers of a chain: notes, scores and labels, as its action says."""
    assert facts.session is not None
    action = message.action
    key, session, rule = _key(message, facts), facts.session.id, message.rule.name
    span = facts.event.span if action.input == "span" else None
    scored = False
    for app, text in result.answers:
        score = answered_score(text) if "score" in action.keep else None
        if score is not None:
            scored = True
            yield Kept(f"{key}:{app}:score", session, span, "score", rule, app, score.value, score.reason)
        elif "note" in action.keep and (note := answered_text(text)):
            yield Kept(f"{key}:{app}:note", session, span, "note", rule, text=note)
        if "label" in action.keep:
            for label in answered_labels(text):
                yield Kept(f"{key}:{app}:label:{label}", session, span, "label", rule, label)
    if "score" in action.keep and not scored:
        why = f"No score: no answer of {', '.join(action.apps)} has one number from 0 to {MOST_SCORE}."
        yield Kept(f"{key}:no-score", session, span, "note", rule, text=why)


def _key(message: Message, facts: Facts) -> str:
    return f"{message.idempotency_key}:{facts.event.key.hex()}"


def _facts(message: Message, facts: Facts) -> dict[str, Any]:
    action, event, session, bill = message.action, facts.event, facts.session, facts.bill
    found: dict[str, Any] = {
        "rule": message.rule.name,
        "event": event.kind,
        "facts": dict(event.facts),
        "language": action.language,
        "input": action.input,
    }
    if message.answers:
        found["earlier_answers"] = dict(message.answers)
    if session is not None:
        found["session"] = {
            "key": session_key(session.id),
            "agent": session.agent,
            "project": session.project,
            "title": title_of(session)[:_TITLE_CHARACTERS],
            "turns": session.turns,
            "tools": session.tools,
            "errors": session.errors,
            "models": sorted(facts.models),
            "tokens": 0 if bill is None else bill.all_tokens,
            "cost": None if bill is None else bill.cost,
            "currency": None if bill is None else bill.currency,
        }
    return found


def _without_tokens(message: Message, results: list[tuple[Facts, ChainResult]]) -> ChainResult | None:
    """The refusal of the next chain, where those before it have used up the tokens of the day."""
    used = sum(result.tokens for _, result in results) - message.tokens
    if message.tokens_left is None or used < message.tokens_left:
        return None
    reason = f"tokens_per_day is {message.rule.tokens_per_day}, and used up for today"
    return ChainResult("retry", reason, retry_after=LATER)


def _result(message: Message, results: list[tuple[Facts, ChainResult]], remarks: list[str]) -> ActionResult:
    tokens = sum(result.tokens for _, result in results)
    undone = [result for _, result in results if result.outcome != "done"]
    outcome: Outcome = "failed" if undone else "done"
    if any(each.outcome == "retry" for each in undone):
        outcome = "retry"
    return ActionResult(
        outcome,
        "; ".join([each.reason for each in undone] or remarks) or _detail(results),
        answer=_answer(results) if not undone or any(result.job is not None for _, result in results) else None,
        # Those of earlier attempts were counted with them.
        tokens=max(0, tokens - message.tokens),
        retry_after=max((each.retry_after for each in undone if each.retry_after is not None), default=None),
    )


def _answer(results: list[tuple[Facts, ChainResult]]) -> dict[str, Any]:
    """For the actions after it: everything as one text, and each event with its answers."""
    texts = [answered_text(step.text) or step.text for _, result in results for step in result.answers]
    costs = {result.currency: 0.0 for _, result in results if result.currency is not None}
    for _, result in results:
        if result.cost is not None and result.currency is not None:
            costs[result.currency] += result.cost
    return {
        "text": "\n".join(texts),
        "tokens": sum(result.tokens for _, result in results),
        "costs": costs,
        "events": [
            {
                "event": facts.event.key.hex(),
                "session": None if facts.session is None else session_key(facts.session.id),
                "job": result.job,
                "run_session": result.session,
                "tokens": result.tokens,
                "cost": result.cost,
                "currency": result.currency,
                "answers": {step.app: step.text for step in result.answers},
            }
            for facts, result in results
        ],
    }


def _detail(results: list[tuple[Facts, ChainResult]]) -> str:
    jobs = ", ".join(str(result.job) for _, result in results)
    return f"job {jobs}" if results else "nothing to do"


def is_slow(action: ActionSettings) -> bool:
    """Whether an action may take minutes, so that others must not wait for it."""
    return action.type == "chain"
