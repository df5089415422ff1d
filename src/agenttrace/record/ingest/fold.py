"""Acts become spans: turns, the model calls in them, the tools these call.

Folding is a pure function of a stream's events in order: where batches begin and end changes nothing, so a
recorder killed at any point ends with the same rows as one that never stopped. What must be remembered between
two batches is a ``StreamState``; it has open work only, no texts, and stays small however long a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from agenttrace import ids
from agenttrace.model import Span, Usage
from agenttrace.record.ingest import acts as a
from agenttrace.store.batch import UNKNOWN_MODEL
from agenttrace.store.sqlite.ledger import joined_terms, named_model, weight
from agenttrace.store.totals import Told

#: How many model calls and unanswered tool calls a stream remembers, so that late lines find them.
REMEMBERED_STEPS = 16
REMEMBERED_CALLS = 512
#: Calls that are over are remembered by their id alone, so that one which is logged again does not open anew.
REMEMBERED_PAST_CALLS = 64
#: Of spans that come whole: how many of their traces.
REMEMBERED_TRACES = 64
#: Later than any event: a repeated line without a time does not say when its response came.
NEVER = 2**62
#: Reports of a window that ends in the same minute are one of it.
_SAME_WINDOW = 60_000_000
PROMPT_PREVIEW = 300
ERROR_PREVIEW = 500
#: The attribute of a turn that failed with one of its model calls: the two are one failure.
_FAILED_STEP = "failed_step"
#: Acts that are part of a turn's work, and those that say nothing about it.
_WORK = frozenset(
    {a.StepBegin, a.StepEnd, a.ToolBegin, a.ToolArguments, a.ToolEnd, a.ResponseUsage, a.Error, a.FinalAnswer}
)
_ASIDE = frozenset({a.SessionInfo, a.Note, a.SideCall, a.ReportedTotals, a.LimitWindow, a.Spawned})
#: Acts that say something and are nothing that happens.
_SAID = frozenset({a.SessionInfo, a.ReportedTotals, a.LimitWindow})


class TraceState(msgspec.Struct):
    """What is remembered of a trace whose spans come whole, one by one."""

    #: Its place among the traces of the session.
    number: int
    #: Whether the span was met with which it begins, which is the last to end.
    entered: bool = False
    #: Whether a span of it had usage.
    metered: bool = False


class StreamState(msgspec.Struct):
    """What one stream of events needs to go on: stored with every batch."""

    turn: Span | None = None
    #: The agent's own name of that turn.
    turn_name: str | None = None
    turns: int = 0
    steps_in_turn: int = 0
    step: str | None = None
    steps: dict[str, Span] = msgspec.field(default_factory=dict)
    calls: dict[str, Span] = msgspec.field(default_factory=dict)
    past_calls: list[bytes] = msgspec.field(default_factory=list)
    last_call: str | None = None
    #: ``working``, ``waiting``, ``ended`` or ``interrupted``: what the log says last.
    state: str = "working"
    last_at: int = 0
    model: str | None = None
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    #: The latest traces of which whole spans were met, by their id, and how many there were.
    traces: dict[str, TraceState] = msgspec.field(default_factory=dict)
    trace_count: int = 0
    span_count: int = 0
    #: True where the turn was closed because the model spoke and asked for nothing: what follows reopens it.
    answered: bool = False
    #: When something last happened in a span: what was left open ended then, whatever lines came after.
    busy_at: int = 0
    #: How often it began to wait for the user.
    waits: int = 0


class UsageFact(msgspec.Struct, gc=False):
    """Tokens of one response as this batch logged them; the ledger decides what counts."""

    usage: Usage
    model: str
    at: int
    estimated: bool
    #: How often it was logged again; -1: only in lines whose events were recorded before.
    copies: int = 0
    terms: str = ""
    #: After how many events of the batch it occurred first.
    order: int = 0


class Folder:
    """Folds the new events of one stream; what changed since the last ``take`` is collected for the writer."""

    def __init__(self, session_id: str, stream: str, agent: str, state: StreamState) -> None:
        self.session_id = session_id
        self.stream = stream
        self.agent = agent
        self.state = state
        self.taken()
        #: How many events the batch has so far.
        self.order = 0
        self.spawned: list[a.Spawned] = []
        self.first_prompt: str | None = None
        self._event_id = b""
        self._unnamed = {"turn": 0, "step": 0}
        self._at = 0
        self._touched: Span | None = None
        self._handlers: dict[type[a.Act], Callable[[Any], None]] = {
            a.TurnBegin: self._turn_begin,
            a.TurnEnd: self._turn_end,
            a.StepBegin: self._step_begin,
            a.StepEnd: self._step_end,
            a.FinalAnswer: self._answered,
            a.ToolBegin: self._tool_begin,
            a.ToolArguments: self._tool_arguments,
            a.ToolEnd: self._tool_end,
            a.ResponseUsage: self._response_usage,
            a.SideCall: self._side_call,
            a.ReportedTotals: self._totals,
            a.LimitWindow: self._limit,
            a.Finished: self._finished,
            a.Error: self._error,
            a.Note: self._note,
            a.Waiting: self._waiting,
            a.SessionInfo: self._session_info,
            a.Spawned: self.spawned.append,
        }

    def feed(self, event_id: bytes, at: int | None, acts: Iterable[a.Act]) -> Span | None:
        """Apply one event; the span it belongs to comes back."""
        state = self.state
        self.fed = True
        self._event_id = event_id
        self._unnamed["turn"] = self._unnamed["step"] = 0
        self._at = at if at is not None else state.last_at
        self._touched = None
        handlers = self._handlers
        if state.answered:
            acts = self._feed_answered(acts)
        if state.state == "waiting":
            self._feed_waiting(acts)
        else:
            for act in acts:
                handlers[type(act)](act)
        if self._at > state.last_at:
            state.last_at = self._at
        touched = self._touched
        if touched is None:
            touched = (state.steps.get(state.step) if state.step else None) or state.turn
        return touched

    def _feed_waiting(self, acts: Iterable[a.Act]) -> None:
        """The first thing that happens ends a wait, unless it is another reason to wait."""
        waits = False
        for act in acts:
            kind = type(act)
            waits = waits or kind is a.Waiting
            self._handlers[kind](act)
            if not waits and kind not in _SAID:
                self._end_wait()

    def _feed_answered(self, acts: Iterable[a.Act]) -> Iterable[a.Act]:
        """Work that goes on after an answer shows that the turn was not over."""
        acts = list(acts)
        turn = self.state.turn
        if turn is not None and any(type(act) in _WORK for act in acts):
            self._reopen_turn(turn)
        if any(type(act) not in _ASIDE for act in acts):
            self.state.answered = False
        return acts

    def taken(self) -> None:
        """The changes are stored; collect new ones."""
        self.changed: dict[bytes, Span] = {}
        self.usage: dict[bytes, UsageFact] = {}
        #: Usage from lines that were recorded before, of responses without other usage in the batch so far.
        self.repeated: dict[bytes, UsageFact] = {}
        #: The usage repeated last, and when: most lines of a response only repeat it.
        self._repeated: tuple[a.ResponseUsage, int] | None = None
        self.told: dict[tuple[str, str, str, int], Told] = {}
        #: When it began to wait for the user: the number of the wait, of the turn, and the time.
        self.waits: list[tuple[int, int, int]] = []
        #: Windows of limits with the time of their latest report, by name and by when they end.
        self.limits: dict[tuple[str, int], tuple[int, a.LimitWindow]] = {}
        self.fed = False
        self.summarised()

    def summarised(self) -> None:
        """The session's row is up to date; count from zero."""
        self.info: list[a.SessionInfo] = []
        #: When the earliest complete span began: its line was written at its end.
        self.earliest: int | None = None
        self.new_turns = self.new_steps = self.new_tools = self.new_errors = 0

    # -- turns ------------------------------------------------------------------------------------------------

    def _turn_begin(self, act: a.TurnBegin) -> None:
        state = self.state
        if state.turn is not None and act.turn is not None and act.turn == state.turn_name:
            self._reopen_turn(state.turn)
        else:
            self._leave_turn("next turn")
            self._open_turn(act.origin, index=state.turns)
            state.turns += 1
            state.turn_name = act.turn
        if act.prompt and state.turn is not None:
            state.turn.attributes.setdefault("prompt", act.prompt[:PROMPT_PREVIEW])
            self.first_prompt = self.first_prompt or act.prompt[:PROMPT_PREVIEW]

    def _open_turn(self, origin: str, index: int) -> Span:
        opener = self._fresh_name("turn")
        turn = Span(
            span_id=ids.span_id(self.session_id, self.stream, "turn", opener),
            trace_id=ids.trace_id(self.session_id, self.stream, opener),
            parent_id=None,
            kind="turn",
            name=f"invoke_agent {self.agent}",
            start=self._at,
            turn_index=index,
        )
        if origin != "user":
            turn.attributes["origin"] = origin
        state = self.state
        state.turn, state.turn_name, state.step, state.steps_in_turn = turn, None, None, 0
        state.state = "working"
        self.new_turns += 1
        self._touch(turn)
        return turn

    def _reopen_turn(self, turn: Span) -> None:
        if turn.status == "error" and not turn.attributes.pop(_FAILED_STEP, False):
            self.new_errors -= 1
        turn.attributes.pop("closed_by", None)
        turn.status, turn.end = "open", None
        self.state.state = "working"
        self._touch(turn)

    def _current_turn(self) -> Span:
        """The open turn; work outside any turn opens one (-1 where the file starts in mid-turn)."""
        state = self.state
        if state.turn is not None and state.turn.status == "open":
            return state.turn
        if state.turns == 0 and state.turn is None:
            return self._open_turn("unknown", index=-1)
        turn = self._open_turn("unknown", index=state.turns)
        state.turns += 1
        return turn

    def _turn_end(self, act: a.TurnEnd) -> None:
        state = self.state
        turn = state.turn
        if turn is None or (act.turn is not None and state.turn_name not in (None, act.turn)):
            return
        spoken = self._touched
        self._close_steps(act.status, self._at)
        self._give_up_calls(state.last_at)
        if act.error:
            turn.attributes["error"] = act.error[:ERROR_PREVIEW]
        if act.status == "error" and turn.status != "error" and self._has_failed_step(turn):
            turn.attributes[_FAILED_STEP] = True
        self._close(turn, act.status, self._at)
        # A line with the last words of a model call is that call's, although it ends the turn as well.
        self._touched = spoken or turn
        if act.status == "cancelled":
            state.state = "interrupted"
        else:
            self._wait()

    def _has_failed_step(self, turn: Span) -> bool:
        return any(step.status == "error" and step.parent_id == turn.span_id for step in self.state.steps.values())

    def _leave_turn(self, why: str) -> None:
        """Close what the log left open: the agent was killed, or does not log ends."""
        end = self.state.busy_at or self.state.last_at  # a state of an older version has no ``busy_at``
        self._close_steps(None, end)
        self._give_up_calls(end)
        turn = self.state.turn
        if turn is not None and turn.status == "open":
            turn.attributes["closed_by"] = why
            self._close(turn, "unclosed", end)

    # -- steps ------------------------------------------------------------------------------------------------

    def _step_begin(self, act: a.StepBegin) -> None:
        state = self.state
        known = state.steps.get(act.step) if act.step is not None else None
        if known is not None:
            assert act.step is not None
            state.steps[act.step] = state.steps.pop(act.step)
            state.step = act.step
            self._touch(known)
            return
        turn = self._current_turn()
        self._close_open_step("ok", max(state.last_at, turn.start))
        step = self._new_step(act.step, act.n, act.model or state.model)
        if act.start is not None:
            step.start = min(max(act.start, turn.start), step.start)
        elif act.implied and turn.start <= state.last_at < step.start:
            step.start = state.last_at

    def _new_step(self, name: str | None, n: int | None, model: str | None) -> Span:
        state = self.state
        name = name or self._fresh_name("step")
        turn = self._current_turn()
        state.steps_in_turn += 1
        step = Span(
            span_id=ids.span_id(self.session_id, self.stream, "step", name),
            trace_id=turn.trace_id,
            parent_id=turn.span_id,
            kind="step",
            name=f"chat {model}" if model else "chat",
            start=self._at,
            model=model,
            turn_index=turn.turn_index,
            step_n=n if n is not None else state.steps_in_turn,
        )
        state.steps[name] = step
        state.step = name
        state.state = "working"
        self.new_steps += 1
        self._forget_oldest(state.steps, REMEMBERED_STEPS)
        self._touch(step)
        return step

    def _step_end(self, act: a.StepEnd) -> None:
        step = self._find_step(act.step)
        if step is None:
            return
        if act.finish_reason:
            step.attributes["finish_reason"] = act.finish_reason
        if act.error:
            step.attributes["error"] = act.error[:ERROR_PREVIEW]
        self._close(step, act.status, self._at)

    def _answered(self, act: a.FinalAnswer) -> None:
        state = self.state
        turn = state.turn
        if turn is None or turn.status != "open" or any(call.status == "open" for call in state.calls.values()):
            return
        self._turn_end(a.TurnEnd())
        state.answered = True

    def _find_step(self, name: str | None) -> Span | None:
        name = name if name is not None else self.state.step
        return self.state.steps.get(name) if name is not None else None

    def _close_open_step(self, status: str | None, end: int) -> None:
        """``None``: the log does not say how it ended; it is complete if its usage is known."""
        step = self._find_step(None)
        if step is not None and step.status == "open":
            self._close(step, status or _ended_as(step), end)
        self.state.step = None

    def _close_steps(self, status: str | None, end: int) -> None:
        """The open step, and earlier ones that were never closed: how the open one ended does not apply to them."""
        self._close_open_step(status, end)
        for step in self.state.steps.values():
            if step.status == "open":
                self._close(step, "ok" if status is not None else _ended_as(step), end)

    # -- tools ------------------------------------------------------------------------------------------------

    def _tool_begin(self, act: a.ToolBegin) -> None:
        state = self.state
        step = self._find_step(act.step)
        if step is None:
            # A call outside any known model call still needs a parent.
            step = self._new_step(act.step, None, state.model)
        span_id = ids.tool_span_id(self.session_id, self.stream, step.span_id, act.call)
        state.last_call = act.call
        known = state.calls.get(act.call)
        if known is not None and known.span_id == span_id:
            self._touch(known)
            return
        if span_id in state.past_calls:
            self._touch(step)
            return
        call = Span(
            span_id=span_id,
            trace_id=step.trace_id,
            parent_id=step.span_id,
            kind="tool",
            name=f"execute_tool {act.name}",
            start=self._at if act.start is None else min(max(act.start, step.start), self._at),
            turn_index=step.turn_index,
            step_n=step.step_n,
            attributes={"call": act.call, "tool": act.name},
        )
        if act.subagent:
            call.attributes["subagent"] = True
        self._replace_call(act.call, call)
        state.state = "working"
        self.new_tools += 1
        self._touch(call)

    def _replace_call(self, name: str, call: Span) -> None:
        """Remember a call; one of the same name, in an earlier step, can no longer be answered."""
        calls = self.state.calls
        before = calls.pop(name, None)
        if before is not None:
            self._remember_past(before)
            if before.status == "open":
                self._give_up(before, "next call of that name", self.state.last_at)
        calls[name] = call
        self._forget_oldest(calls, REMEMBERED_CALLS)

    def _tool_arguments(self, act: a.ToolArguments) -> None:
        call = self.state.calls.get(act.call or self.state.last_call or "")
        if call is not None:
            self._touch(call)

    def _tool_end(self, act: a.ToolEnd) -> None:
        state = self.state
        call = state.calls.pop(act.call, None)
        if call is None:
            # The call itself is not in the log: the file began in mid-turn, or it was answered already.
            self._note(a.Note("orphan result"))
            return
        if act.duration is not None:
            call.attributes["duration"] = act.duration
        if act.error:
            call.attributes["error"] = act.error[:ERROR_PREVIEW]
        self._close(call, act.status, self._at)
        self._remember_past(call)

    def _remember_past(self, call: Span) -> None:
        self.state.past_calls = [*self.state.past_calls[1 - REMEMBERED_PAST_CALLS :], call.span_id]

    def _give_up_calls(self, end: int) -> None:
        """No answer by the end of the turn; a late one still finds the call."""
        for call in self.state.calls.values():
            if call.status == "open":
                self._give_up(call, "end of turn", end)

    def _give_up(self, span: Span, why: str, end: int) -> None:
        span.attributes["closed_by"] = why
        self._close(span, "unclosed", end)

    # -- spans that come whole --------------------------------------------------------------------------------

    def _finished(self, act: a.Finished) -> None:
        state = self.state
        trace = self._trace(act.trace_id.hex())
        state.span_count += 1
        span = Span(
            span_id=act.span_id,
            trace_id=act.trace_id,
            parent_id=act.parent_id,
            kind=act.kind,
            name=act.name,
            start=act.start,
            end=max(act.end, act.start),
            status=act.status,
            model=act.model,
            turn_index=trace.number,
            step_n=state.span_count,
            attributes=act.attributes,
        )
        met = self.changed.get(act.span_id)
        if act.response is not None and act.usage is not None and not (act.sum and trace.metered):
            span.response_name, span.response = act.response, ids.response_key(act.response)
            self._claim(span.response, UsageFact(act.usage, act.model or UNKNOWN_MODEL, self._at, False))
            trace.metered = True
        self._count(act, trace)
        state.state = "ended" if trace.entered else "working"
        self._touch(span)
        if met is not None:
            self.changed[act.span_id] = _in_place_of(met, span)

    def _count(self, act: a.Finished, trace: TraceState) -> None:
        """A trace is one turn, however many programs had a part in it."""
        if act.entry:
            self.new_turns += not trace.entered
            trace.entered = True
        self.new_steps += act.kind == "step"
        self.new_tools += act.kind == "tool"
        self.new_errors += act.status == "error"
        self.earliest = act.start if self.earliest is None else min(self.earliest, act.start)
        self.first_prompt = self.first_prompt or (act.prompt and act.prompt[:PROMPT_PREVIEW])

    def _trace(self, trace: str) -> TraceState:
        """The state of a trace, which is the latest from now on."""
        state = self.state
        known = state.traces.pop(trace, None)
        if known is None:
            known = TraceState(number=state.trace_count)
            state.trace_count += 1
        state.traces[trace] = known
        if len(state.traces) > REMEMBERED_TRACES:
            del state.traces[next(iter(state.traces))]
        return known

    def absorb(self, part: Folder, trace: str) -> int:
        """Add what was folded of a trace before its session was known; returns its number among the traces here."""
        own, other = self.state, part.state
        place = self._trace(trace)
        before = other.traces.get(trace)
        if before is not None:
            place.entered, place.metered = place.entered or before.entered, place.metered or before.metered
        own.memory = own.memory or other.memory
        own.model = own.model or other.model
        own.last_at = max(own.last_at, other.last_at)
        for span in part.changed.values():
            span.turn_index = place.number
        self.changed |= part.changed
        for response, fact in part.usage.items():
            self._claim(response, fact)
        self.first_prompt = self.first_prompt or part.first_prompt
        self.fed = True
        return place.number

    # -- usage, errors, notes ---------------------------------------------------------------------------------

    def _response_usage(self, act: a.ResponseUsage) -> None:
        idle = act.detached and (self.state.turn is None or self.state.turn.status != "open")
        step = None if act.detached and act.step is None else self._find_step(act.step)
        name = act.step
        if step is not None and step.response_name not in (None, act.response):
            # Two responses are two model calls, whatever the log calls them, and have a span each.
            step, name = self._step_of(act.response), None
        if step is None:
            current = self.state.step
            step = self._new_step(name, None, act.model or self.state.model)
            self._close(step, "ok", self._at)
            self.state.step = current
        if act.model and act.model != step.model and act.model != UNKNOWN_MODEL:
            step.model, step.name = act.model, f"chat {act.model}"
        if step.response is None:
            step.response_name, step.response = act.response, ids.response_key(act.response)
        self._touch(step)
        self._claim(
            step.response,
            UsageFact(act.usage, act.model or step.model or UNKNOWN_MODEL, self._at, act.estimated, terms=act.terms),
        )
        if idle:
            self._turn_end(a.TurnEnd("ok"))  # a compaction between turns: the agent waits for the user, as before

    def _step_of(self, response: str) -> Span | None:
        """The remembered model call that had this response."""
        return next((step for step in self.state.steps.values() if step.response_name == response), None)

    def repeat_usage(self, at: int | None, act: a.ResponseUsage) -> None:
        """Usage in a line whose event is recorded already: it may be more than is recorded, and is no new mention."""
        at = NEVER if at is None else at
        if self._repeated is not None and act == self._repeated[0] and at >= self._repeated[1]:
            return  # as on nearly every line of a response but the first
        self._repeated = (act, at)
        model = act.model or UNKNOWN_MODEL
        self._claim(ids.response_key(act.response), UsageFact(act.usage, model, at, act.estimated, -1, act.terms))

    def _side_call(self, act: a.SideCall) -> None:
        model = act.model or UNKNOWN_MODEL
        self._claim(ids.response_key(act.response), UsageFact(act.usage, model, self._at, False))
        since = self._at - max(act.duration, 0)
        self._tell("call", act.name or "", act.response, since, {model: act.usage})

    def _totals(self, act: a.ReportedTotals) -> None:
        scope = "session" if act.stream is None else "meter" if act.counts_alone else "stream"
        self._tell(scope, act.stream or "", act.segment, act.since or 0, act.usage, act.until)

    def _limit(self, act: a.LimitWindow) -> None:
        place = (act.name, act.resets_at // _SAME_WINDOW)
        known = self.limits.get(place)
        if known is None or known[0] <= self._at:
            self.limits[place] = (self._at, act)

    def _tell(
        self, scope: str, whose: str, name: str, since: int, by_model: dict[str, Usage], until: int | None = None
    ) -> None:
        """Collect a reported count with its turn: calls that no line has are shown there."""
        turn = self.state.turn
        trace = turn.trace_id if turn is not None else ids.trace_id(self.session_id, self.stream, scope)
        place = (trace, turn.span_id if turn is not None else None, turn.turn_index if turn is not None else -1)
        at = max(self._at, self.state.last_at) if scope == "session" else self._at if until is None else until
        # Every count of a session says what was used between two moments; of a stream's, the latest says it all.
        self.told[(scope, whose, name, at if scope == "session" else 0)] = Told(
            scope, whose, name, at, since, *place, by_model
        )

    def _claim(self, response: bytes, told: UsageFact) -> None:
        if told.copies >= 0:
            self._repeated = None
        facts = self.usage if told.copies >= 0 or response in self.usage else self.repeated
        fact = facts.get(response)
        if fact is None:
            told.order = self.order
            facts[response] = told
            return
        fact.copies += 1 + told.copies
        fact.at = min(fact.at, told.at)
        fact.terms = joined_terms(fact.terms, told.terms)
        if (told.usage, told.estimated, told.model) == (fact.usage, fact.estimated, fact.model):
            return  # as on nearly every line of a response but the first
        fact.model = named_model(told.model, fact.model)
        if weight(told.usage, told.estimated) > weight(fact.usage, fact.estimated):
            fact.usage, fact.estimated = told.usage, told.estimated

    def _error(self, act: a.Error) -> None:
        span = self._find_step(None) if act.scope == "step" else None
        span = span or self._current_turn()
        span.attributes["error"] = act.message[:ERROR_PREVIEW]
        self._close(span, "error", self._at) if span.kind == "step" else self._touch(span)

    def _note(self, act: a.Note) -> None:
        span = self._find_step(None) or self.state.turn
        if span is not None:
            notes = span.attributes.setdefault("notes", {})
            notes[act.kind] = notes.get(act.kind, 0) + 1
            self._touch(span)

    def _waiting(self, act: a.Waiting) -> None:
        self._wait()

    def _wait(self) -> None:
        """The session waits for the user from here on."""
        state = self.state
        if state.state != "waiting":
            state.state = "waiting"
            state.waits += 1
            self.waits.append((state.waits, state.turns, self._at))

    def _end_wait(self) -> None:
        """Something happened in a turn that waited for the user: the wait is over."""
        state = self.state
        if state.state == "waiting" and state.turn is not None and state.turn.status == "open":
            state.state = "working"

    def _session_info(self, act: a.SessionInfo) -> None:
        self.info.append(act)
        if act.model:
            self.state.model = act.model
        if act.ended:
            self._leave_turn("end of session")
            self.state.state = "ended"

    # -- bookkeeping ------------------------------------------------------------------------------------------

    def _fresh_name(self, kind: str) -> str:
        """The name of a span that the agent did not name: its event, and its number among several in one event."""
        self._unnamed[kind] += 1
        place = self._unnamed[kind]
        return self._event_id.hex() if place == 1 else f"{self._event_id.hex()}.{place}"

    def _forget_oldest(self, spans: dict[str, Span], limit: int) -> None:
        """Keep what is remembered small. Nothing that comes later can close a forgotten span: now it is closed."""
        while len(spans) > limit:
            oldest = next(name for name in spans if spans is not self.state.steps or name != self.state.step)
            span = spans.pop(oldest)
            if span.status == "open":
                self._close(span, _ended_as(span), self.state.last_at)

    def _close(self, span: Span, status: str, end: int) -> None:
        if status == "error" and span.status != "error":
            self.new_errors += not span.attributes.get(_FAILED_STEP)
        elif status != "error" and span.status == "error":
            status = "error"
        if status != "unclosed":
            span.attributes.pop("closed_by", None)
        span.status = status
        span.end = max(end, span.start)
        self._touch(span)

    def _touch(self, span: Span) -> None:
        self.changed[span.span_id] = span
        self._touched = span
        if self._at > self.state.busy_at:
            self.state.busy_at = self._at


def _in_place_of(met: Span, span: Span) -> Span:
    """A program used an id twice: the second span changes the facts of the first, not its place in the trace.

    The store does the same with a span of an earlier batch.
    """
    return msgspec.structs.replace(
        span,
        trace_id=met.trace_id,
        parent_id=met.parent_id,
        kind=met.kind,
        turn_index=met.turn_index,
        step_n=met.step_n,
        start=min(met.start, span.start),
        response=span.response or met.response,
        response_name=span.response_name or met.response_name,
    )


def _ended_as(span: Span) -> str:
    """How a span ended that the log does not end: a model call is complete if its usage is known."""
    return "ok" if span.response is not None else "unclosed"
