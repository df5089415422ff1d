"""What a line means: the small vocabulary that every agent's log is translated into before folding.

An agent module turns one decoded line into any number of acts, in order; ``fold.py`` turns acts into spans and
never sees an agent's own format.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agenttrace.model import Usage


class Act(msgspec.Struct, frozen=True, gc=False):
    """The base of all acts."""


class TurnBegin(Act, frozen=True):
    """A prompt: a new turn begins; an open one is closed first."""

    #: The prompt, cut to a few hundred characters (the whole stays in the raw line).
    prompt: str | None = None
    #: ``user``, or what else started it: ``hook``, ``task``, ``subagent``, ``system``.
    origin: str = "user"
    #: The agent's own id of the turn, where it has one. A TurnBegin for the turn that is open already adds to it.
    turn: str | None = None


class TurnEnd(Act, frozen=True):
    """The turn is over; everything still open in it is closed."""

    #: ``ok``, ``error`` or ``cancelled``.
    status: str = "ok"
    error: str | None = None
    #: The agent's own id of the turn that ended. Ignored when another turn is open by now.
    turn: str | None = None


class StepBegin(Act, frozen=True):
    """A model call begins; repeating the id of a known step goes back to it."""

    #: The agent's own id of the call (message id, step uuid); ``None``: each StepBegin is a new call.
    step: str | None = None
    #: The agent's own number of the step inside its turn, for display.
    n: int | None = None
    model: str | None = None
    #: True where the log has no line for the beginning: the call began when the line before was written.
    implied: bool = False
    #: When it began (microseconds), where the log has that apart from the line's own time.
    start: int | None = None


class FinalAnswer(Act, frozen=True):
    """The model answered and called no tool, in a log that never says why it stopped.

    The turn is over unless a call is open or the log goes on with it.
    """


class StepEnd(Act, frozen=True):
    """A model call is over."""

    step: str | None = None
    status: str = "ok"
    error: str | None = None
    finish_reason: str | None = None


class ToolBegin(Act, frozen=True):
    """The model asked for a tool. Belongs to ``step`` or to the step that is open."""

    call: str
    name: str
    step: str | None = None
    #: True where the log says that the call is carried out by a subagent.
    subagent: bool = False
    #: When it began (microseconds), where the log has that apart from the line's own time.
    start: int | None = None


class ToolArguments(Act, frozen=True):
    """More of a call's arguments; ``call=None``: of the latest call in this stream."""

    call: str | None = None


class ToolEnd(Act, frozen=True):
    """A tool answered."""

    call: str
    #: ``ok``, ``error`` or ``cancelled``.
    status: str = "ok"
    error: str | None = None
    #: How long it took in microseconds, where the log knows better than the lines' times.
    duration: int | None = None


class ResponseUsage(Act, frozen=True):
    """What a model response cost. Several for one ``response`` are merged by the largest output, never summed."""

    #: Names the response across files and copies: a provider's id, else a digest that copies share.
    response: str
    usage: Usage
    model: str | None = None
    #: The step it belongs to; ``None``: the step that is open, or else a step of its own.
    step: str | None = None
    #: True where the log is known to have only a placeholder.
    estimated: bool = False
    #: Creates a step of its own even when one is open (calls outside the turn, such as compaction).
    detached: bool = False
    #: How it was served, where prices depend on that, in words of the provider: ``fast``, ``us``.
    terms: str = ""


class SideCall(Act, frozen=True, kw_only=True):
    """A model call that is logged beside the messages: by telemetry.

    It may be in a message line too, of this file or another, under the same ``response``. Where it is not, it is
    shown as a call that is not in the log.
    """

    response: str
    usage: Usage
    model: str | None = None
    #: The helper that made it: ``managed-auto-memory-extractor``.
    name: str | None = None
    #: How long it took, in microseconds.
    duration: int = 0


class ReportedTotals(Act, frozen=True, kw_only=True):
    """What the agent itself reports as used so far: recorded usage is checked against it."""

    #: Names the count: one that begins anew (another process, another turn) has another name. Within a session the
    #: latest of a name counts; all names together are the total.
    segment: str
    #: Cumulative, by model; an empty name where the agent does not count by model.
    usage: dict[str, Usage]
    #: Of a stream of the session; ``None``: of the session with all its subagents.
    stream: str | None = None
    #: When the count began (microseconds). Needed for a session's count.
    since: int | None = None
    #: Of a stream: up to when it counts (microseconds), where that is not the time of the line.
    until: int | None = None
    #: Of a stream: whether it is its usage as long as no model call of the session is known.
    counts_alone: bool = False


class LimitWindow(Act, frozen=True, kw_only=True):
    """How far a limit of the provider is used, as the line says."""

    #: ``primary``, ``secondary``, or what the agent calls it.
    name: str
    used_percent: float
    #: When it is counted from zero again (microseconds).
    resets_at: int
    minutes: int | None = None
    #: The plan of the account: ``pro``.
    plan: str | None = None


class Finished(Act, frozen=True, kw_only=True):
    """A complete span with its own ids, logged at its end. Its parent may be logged later, or never."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    #: ``turn``, ``step``, ``tool`` or ``span``.
    kind: str
    name: str
    start: int
    end: int
    #: ``ok`` or ``error``.
    status: str = "ok"
    model: str | None = None
    #: The prompt, cut to a few hundred characters.
    prompt: str | None = None
    #: True where the trace begins, or the part of it that this program did.
    entry: bool = False
    #: What a model response cost, named as in ``ResponseUsage``.
    response: str | None = None
    usage: Usage | None = None
    #: True where ``usage`` may only repeat that of model calls: it counts if no span of the trace had usage before.
    sum: bool = False
    attributes: dict[str, Any] = {}


class Error(Act, frozen=True):
    """Something failed; marks the open tool, step or turn that ``scope`` names."""

    message: str
    #: ``step`` or ``turn``.
    scope: str = "step"


class Note(Act, frozen=True):
    """Worth showing, no span of its own: compaction, retry, notification. Counted on the open span."""

    kind: str


class Waiting(Act, frozen=True):
    """The agent waits for the user: an approval or a question. The next act of another kind ends the wait."""


class SessionInfo(Act, frozen=True, kw_only=True):
    """Facts about the session; later ones replace earlier ones, ``None`` changes nothing."""

    cwd: str | None = None
    branch: str | None = None
    #: A title the agent or the user gave; without one the first prompt serves.
    title: str | None = None
    version: str | None = None
    model: str | None = None
    #: The session this one was forked from.
    parent: str | None = None
    #: True where it begins with a copy of another one, whose tokens it never owns.
    copied: bool | None = None
    #: True when the agent said goodbye.
    ended: bool | None = None


class Spawned(Act, frozen=True):
    """The tool call ``call`` of this stream is carried out by the agent whose stream is ``stream``."""

    call: str
    stream: str
    name: str | None = None
