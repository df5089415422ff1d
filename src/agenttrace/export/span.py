"""A span as destinations get it: complete, without what the destination's switches exclude, secrets masked."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from agenttrace.model import Usage

TextKind = Literal["prompt", "text", "thinking", "arguments", "result", "error", "note"]


class Text(NamedTuple):
    """A text of a span: a prompt, an answer, a result."""

    kind: TextKind
    text: str
    #: The tool call it belongs to, if any.
    call: str | None = None


class PathStep(NamedTuple):
    """One span on the path from the root of a trace to a span."""

    span_id: bytes
    #: Microseconds since the epoch.
    start: int


class ExportSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a span, without what the switches exclude."""

    #: The agent's id of the session.
    session_id: str
    #: ``claude-code``, ``codex``, … as in the store.
    agent: str
    #: The display name: ``Claude Code``; None for an unknown agent.
    agent_title: str | None = None
    #: The name of a coding agent in observability tools: ``openai-codex``; None for other programs.
    integration: str | None = None
    agent_version: str | None = None
    #: The working directory.
    project: str | None = None
    branch: str | None = None
    #: None where prompts are excluded: titles are made of them.
    title: str | None = None


class ExportSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One span that can no longer change."""

    #: 8 and 16 bytes; the trace is that of the root turn, also for the spans of subagents.
    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    session: ExportSession
    #: ``turn`` (an agent's turn), ``step`` (a model call), ``tool``, or ``span`` (any other span that was received).
    kind: Literal["turn", "step", "tool", "span"]
    #: ``invoke_agent claude-code``, ``chat claude-sonnet-4-5``, ``execute_tool Bash``.
    name: str
    #: Microseconds since the epoch; the end of a span that the log never ended is the last known time in it.
    start: int
    end: int
    #: ``unclosed``: the log has no end of it.
    status: Literal["ok", "error", "cancelled", "unclosed"]
    #: A short error message; None where a switch excludes it.
    error: str | None = None
    #: From the root of the trace to this span, both included: one element for a root.
    path: tuple[PathStep, ...]
    turn_index: int
    step_n: int
    #: The name of the subagent, or of the agent; for turns.
    agent_name: str | None = None
    #: True for a turn of a subagent, and everything below.
    subagent: bool = False
    #: The provider of the model, as the GenAI conventions spell it; for other spans, of the session's model.
    provider: str | None = None
    #: Model calls only.
    model: str | None = None
    #: Tokens, only where the response is counted in this session: the sum over all spans is what ``usage`` shows.
    usage: Usage | None = None
    #: The log has only a placeholder of the usage.
    estimated: bool = False
    #: True for a model call whose response is counted in another session: it has no usage here.
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
    #: Texts in order; each kind only where the destination's switches include it.
    texts: tuple[Text, ...] = ()
    #: Further attributes of the store: ``origin``, ``notes``, ``duration``, …
    attributes: dict[str, object] = {}

    @property
    def is_root(self) -> bool:
        """Whether it is the root turn of its trace."""
        return self.parent_id is None


def by_trace(spans: Iterable[ExportSpan]) -> dict[bytes, list[ExportSpan]]:
    """These spans by their trace."""
    traces: dict[bytes, list[ExportSpan]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return traces
