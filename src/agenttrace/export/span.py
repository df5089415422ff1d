"""A span that is complete and may leave: what every destination is given, whatever it makes of it.

Everything that a destination's switches keep back is gone by then, and secrets are masked.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from agenttrace.model import Usage

TextKind = Literal["prompt", "text", "thinking", "arguments", "result", "error", "note"]


class Text(NamedTuple):
    """Something that was said in a span."""

    kind: TextKind
    text: str
    #: The tool call it belongs to, if any.
    call: str | None = None


class Step(NamedTuple):
    """One span on the way from the root of a trace to a span."""

    span_id: bytes
    #: Microseconds since the epoch.
    start: int


class ExportSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a span, as far as it may be told."""

    #: The agent's own name of the session.
    session_id: str
    #: ``claude-code``, ``codex``, … as in the store.
    agent: str
    #: The name people read: ``Claude Code``; absent for an agent that is not known.
    agent_title: str | None = None
    #: What observability tools call a coding agent: ``openai-codex``; absent for other programs.
    integration: str | None = None
    agent_version: str | None = None
    #: The working directory.
    project: str | None = None
    branch: str | None = None
    #: Absent where prompts are kept back: titles are made of them.
    title: str | None = None


class ExportSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work that can no longer change."""

    #: 8 and 16 bytes; the trace is that of the root turn, also for the spans of subagents.
    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    session: ExportSession
    #: ``turn`` (an agent at work), ``step`` (a model call), ``tool``, or ``span`` (anything else that was received).
    kind: Literal["turn", "step", "tool", "span"]
    #: ``invoke_agent claude-code``, ``chat claude-sonnet-4-5``, ``execute_tool Bash``.
    name: str
    #: Microseconds since the epoch; a span that the log never ended has the last time known of it as its end.
    start: int
    end: int
    #: ``ok``, ``error``, ``cancelled``, or ``unclosed`` (the log never said how it ended).
    status: Literal["ok", "error", "cancelled", "unclosed"]
    #: Short text of what failed; absent where it may not be told.
    error: str | None = None
    #: From the root of the trace to this span, both included: one element for a root.
    path: tuple[Step, ...]
    turn_index: int
    step_n: int
    #: Name of the subagent at work, or of the agent; for turns.
    agent_name: str | None = None
    #: True for a turn of a subagent, and everything below.
    subagent: bool = False
    #: Who serves the model, as the GenAI conventions spell it; of other spans, the model of their session.
    provider: str | None = None
    #: Model calls only.
    model: str | None = None
    #: Tokens, only where this session pays for the response: summed over all spans they are what ``usage`` shows.
    usage: Usage | None = None
    #: The log holds only a placeholder of the usage.
    estimated: bool = False
    #: True for a model call whose response another session had first: it has no usage here.
    copied: bool = False
    #: In ``currency``; None where the price is unknown, which is not 0.
    cost: Decimal | None = None
    currency: str | None = None
    finish_reason: str | None = None
    #: The provider's id of the response, where the log has one.
    response_id: str | None = None
    #: Tools only.
    tool: str | None = None
    call: str | None = None
    #: What was said, in order; each kind only where the destination's switches let it through.
    texts: tuple[Text, ...] = ()
    #: Further facts of the store: ``origin``, ``notes``, ``duration``, …
    attributes: dict[str, object] = {}

    @property
    def is_root(self) -> bool:
        """Whether it is the turn that its trace is made of."""
        return self.parent_id is None
