"""Runs the actions of firings: in order, each with retries of its own, each attempt in the delivery log."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.config.rules import ActionSettings, ActionType, RuleSettings
from agenttrace.prices.costing import Cashier
from agenttrace.rules.actions.chain import is_slow
from agenttrace.rules.actions.contract import Action, ActionResult, Message
from agenttrace.rules.engine import LONGEST_PAUSE, MOST_FAILURES, RuleEngine
from agenttrace.rules.facts import Facts, read_facts
from agenttrace.rules.journal import RuleJournal
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.rules import Attempt, Firing, FiringAction, RuleEvent

logger = logging.getLogger(__name__)

#: Firings whose actions run at the same time; those with chains, which take minutes, are counted apart.
_CONCURRENCY = 8
#: Attempts of an action, with pauses that double from the first one: about a day in all.
MOST_ATTEMPTS = 30
_FIRST_PAUSE = 1.0
#: An attempt that is due later than this is from before the clock was set back.
_LONGEST_WAIT = LONGEST_PAUSE + 60.0
#: Actions whose answers later ones of the firing see.
_ANSWERING: frozenset[ActionType] = frozenset(("chain", "command"))
#: Firings among which those that can be started are looked for.
_MOST_DUE = 500
_DETAIL_CHARACTERS = 2_000
#: Events in one message; further ones are counted.
MOST_EVENTS = 1_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ActionRunner:
    """Runs what the engine of a store has fired."""

    def __init__(
        self,
        store: RuleStore,
        engine: RuleEngine,
        *,
        home: Path,
        cashier: Cashier,
        actions: Mapping[ActionType, Action],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._rules = store, store.rules
        self._engine = engine
        self._home = home
        self._cashier = cashier
        self._actions = actions
        self._clock = clock
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended = asyncio.Event()
        #: Those of the running firings that have chains.
        self._slow: set[int] = set()

    def use(self, *, cashier: Cashier, actions: Mapping[ActionType, Action]) -> None:
        """Use these prices, and carry out what starts from now on with these; what runs is finished as it began."""
        self._cashier, self._actions = cashier, actions

    async def step(self) -> None:
        """Start what is due; returns at once."""
        self._running = {number: task for number, task in self._running.items() if not task.done()}
        self._slow.intersection_update(self._running)
        free = {True: _CONCURRENCY - len(self._slow), False: _CONCURRENCY - len(self._running) + len(self._slow)}
        if max(free.values()) <= 0:
            return
        for firing in self._engine.due(_MOST_DUE):
            slow = self._is_slow(firing)
            if firing.number not in self._running and free[slow] > 0:
                free[slow] -= 1
                task = asyncio.create_task(self._run(firing))
                task.add_done_callback(lambda _: self._ended.set())
                self._running[firing.number] = task
                if slow:
                    self._slow.add(firing.number)

    def _is_slow(self, firing: Firing) -> bool:
        rule, actions = self._engine.tables.rules.get(firing.rule), self._engine.tables.actions
        return rule is not None and any(name in actions and is_slow(actions[name]) for name in rule.do)

    async def drain(self) -> None:
        """Wait for the actions that run."""
        if self._running:
            await asyncio.wait(self._running.values())

    async def cancel(self) -> None:
        """Stop the actions that run; the next runner repeats them with the same idempotency keys."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def rest(self, seconds: float) -> None:
        """Wait, but not longer than until an action ends: the next one can start."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        self._ended.clear()

    @property
    def busy(self) -> bool:
        """Whether actions run."""
        return any(not task.done() for task in self._running.values())

    async def _run(self, firing: Firing) -> None:
        """The actions of a firing that can be run now; one that fails does not keep the others from running."""
        try:
            while True:
                planned = self._rules.actions([firing.number]).get(firing.number, [])
                now = self._clock()
                current = self._next(planned, now)
                if current is None:
                    return self._settle(firing, planned, now)
                await self._attempt(firing, current, planned)
        except Exception:
            # A store that is locked, full or replaced: the firing is due again.
            logger.exception("firing %d of rule %s", firing.number, firing.rule)
            await asyncio.sleep(1.0)

    def _next(self, planned: Sequence[FiringAction], now: float) -> FiringAction | None:
        """The first action that is to be run now; what is tried again later holds up those that see its answer."""
        known = self._engine.tables.actions
        for each in planned:
            if each.state == "running" or (each.state == "queued" and not now < each.due_at <= now + _LONGEST_WAIT):
                return each
            if each.state == "queued" and each.action in known and known[each.action].type in _ANSWERING:
                return None
        return None

    def _settle(self, firing: Firing, planned: Sequence[FiringAction], now: float) -> None:
        """Nothing can be run now: the firing waits for the next attempt, or is over."""
        waits = [each.due_at for each in planned if each.state == "queued" and each.due_at > now]
        if waits:
            return self._rules.postpone(firing.number, min(waits))
        errors = [f"{each.action}: {each.error}" for each in planned if each.state == "failed"]
        return self._finish(firing, "; ".join(errors) or None)

    async def _attempt(self, firing: Firing, current: FiringAction, planned: list[FiringAction]) -> None:
        """One attempt of an action."""
        rule = self._engine.tables.rules.get(firing.rule)
        action = self._engine.tables.actions.get(current.action)
        began = time.monotonic()
        self._rules.begin(firing.number, current.place)
        if rule is None or action is None:
            result = ActionResult("failed", "it is not in the settings any more")
        else:
            result = await self._result(firing, current, planned, rule, action)
        retry = result.outcome == "retry" and current.attempts + 1 < MOST_ATTEMPTS
        pause = min(max(result.retry_after or 0.0, _FIRST_PAUSE * 2.0**current.attempts), LONGEST_PAUSE)
        detail = result.detail[:_DETAIL_CHARACTERS]
        self._rules.end(
            Attempt(firing.number, current.place, self._clock(), time.monotonic() - began, result.outcome, detail),
            "queued" if retry else "done" if result.outcome == "done" else "failed",
            due_at=self._clock() + pause if retry else self._clock(),
            answer=None if result.answer is None else _encode(result.answer).decode(),
            error=None if result.outcome == "done" else detail,
            tokens=result.tokens,
        )

    async def _result(
        self,
        firing: Firing,
        current: FiringAction,
        planned: list[FiringAction],
        rule: RuleSettings,
        action: ActionSettings,
    ) -> ActionResult:
        if action.missing:
            return ActionResult("retry", f"environment variable {action.missing[0]} is not set")
        handler = self._actions.get(action.type)
        if handler is None:
            return ActionResult("retry", f"actions of type {action.type} cannot be run here")
        collected, slow = self._rules.collected(firing.number), is_slow(action)
        message = Message(
            firing=firing.number,
            rule=rule,
            action=action,
            idempotency_key=current.idempotency_key,
            # A message names some of many events; a chain is run for each.
            events=self._facts([each.event for each in (collected if slow else collected[:MOST_EVENTS])]),
            answers=_answers(planned),
            attempt=current.attempts + 1,
            more=0 if slow else len(collected[MOST_EVENTS:]),
            is_interrupted=current.state == "running",
            tokens=current.tokens,
            tokens_left=self._engine.tokens_left(rule),
        )
        try:
            return await handler.run(message)
        except Exception as error:
            # Without its text, which may have an address or a key in it.
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = type(error).__name__
            logger.warning(
                "action %s of rule %s: %s in %s", action.name, rule.name, kind, f"{place.name}:{place.lineno}"
            )
            return ActionResult("retry", f"it failed with {kind}")

    def _facts(self, events: Sequence[RuleEvent]) -> list[Facts]:
        """What is known of each event; most events that a cooldown collects are of few sessions."""
        known: dict[int | None, Facts] = {}
        for event in events:
            if event.session not in known:
                known[event.session] = read_facts(self._store, self._cashier, event)
        return [known[event.session]._replace(event=event) for event in events]

    def _finish(self, firing: Firing, error: str | None) -> None:
        collected = self._rules.collected(firing.number)
        RuleJournal(self._home, firing.rule).add(each.once_key for each in collected)
        failures = self._rules.finish(firing, "done" if error is None else "failed", error)
        if failures >= MOST_FAILURES:
            reason = f"{failures} firings in a row have failed, the last one: {error}"
            self._rules.pause(firing.rule, reason)
            logger.warning("rule %s is paused: %s", firing.rule, reason)


def _answers(planned: list[FiringAction]) -> dict[str, Any]:
    return {each.action: _decode(each.answer) for each in planned if each.state == "done" and each.answer is not None}
