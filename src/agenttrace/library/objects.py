"""What the store answers with: small frozen objects with times in UTC and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttrace.library.rows import Rows
    from agenttrace.library.store import Store


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and cost of a group: a day, a model, a session, or everything."""

    #: The day, model, agent, directory, session id, machine or person; empty for the total.
    group: str = ""
    #: Model responses, each counted once.
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    #: Part of ``output_tokens``.
    reasoning_tokens: int = 0
    #: The amount, where there is exactly one currency; ``None`` is unknown, not free.
    cost: float | None = None
    #: ``USD``, ``CNY``, ``mixed``, or ``None`` where nothing has a known price.
    currency: str | None = None
    #: The amounts by currency; amounts in different currencies are never added.
    costs: Mapping[str, float] = field(default_factory=dict)
    #: Tokens of models without a known price: ``cost`` does not include them.
    unpriced_tokens: int = 0
    #: Responses for which the log has only a placeholder of the tokens.
    estimated_requests: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens, none twice."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, kw_only=True)
class Session:
    """One conversation with one agent."""

    id: str
    agent: str
    #: ``working``, ``waiting``, ``ended`` or ``interrupted``.
    state: str
    #: The title, or else the first prompt.
    title: str | None
    #: The working directory.
    project: str | None
    branch: str | None
    #: In a team's store: the machine that recorded it, and the person it belongs to.
    machine: str | None
    person: str | None
    model: str | None
    #: The version of the agent.
    version: str | None
    #: The id of the session that this one is a fork of.
    parent: str | None
    started: datetime | None
    last_active: datetime | None
    turns: int
    model_calls: int
    tool_calls: int
    errors: int
    _number: int = field(repr=False)
    _store: Store = field(repr=False, compare=False)

    @property
    def spans(self) -> Rows[Span]:
        """All spans in order of start."""
        return self._store._spans(self)

    def conversation(self) -> Rows[Message]:
        """Everything that was said, in reading order."""
        return self._store._conversation(self)

    @property
    def usage(self) -> Usage:
        """Tokens and cost of the session."""
        return self._store._session_usage(self)

    @property
    def annotations(self) -> Rows[Annotation]:
        """Notes, scores, labels and the star beside the session, the oldest first."""
        return self._store._annotations(self)


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What a person, a program or a rule wrote beside a session."""

    id: str
    #: ``note``, ``score``, ``label`` or ``star``.
    kind: str
    #: The label, or what is scored.
    name: str | None
    value: float | None
    #: The note, or the comment of a score.
    text: str | None
    #: ``person``, ``program`` or ``rule``, and its name.
    source: str
    author: str
    created: datetime
    changed: datetime
    #: The span that it is about, where it is not the session.
    span_id: str | None


@dataclass(frozen=True, kw_only=True)
class Span:
    """A turn, a model call (``step``), a tool call, or other work (``span``)."""

    id: str
    trace_id: str
    parent_id: str | None
    kind: str
    name: str
    start: datetime
    end: datetime | None
    #: ``open``, ``ok``, ``error``, ``cancelled`` or ``unclosed``.
    status: str
    model: str | None
    #: The name of the tool.
    tool: str | None
    #: ``main``, or the name of a subagent.
    stream: str
    turn: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: float | None
    currency: str | None
    attributes: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def seconds(self) -> float | None:
        """The duration; ``None`` while the span is open."""
        return None if self.end is None else (self.end - self.start).total_seconds()


@dataclass(frozen=True, kw_only=True)
class Message:
    """A text of a conversation."""

    #: ``user``, ``assistant``, ``tool`` or ``system``.
    role: str
    #: ``prompt``, ``text``, ``thinking``, ``arguments``, ``result``, ``error`` or ``note``.
    kind: str
    text: str
    #: When the span began that the text belongs to.
    at: datetime
    span_id: str
    #: The tool, for arguments and results.
    tool: str | None
    #: How many spans it is nested in: above 1 for subagents.
    depth: int


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A recorded text that matches a search."""

    session: Session
    kind: str
    #: The part of the text around the match.
    snippet: str
    at: datetime | None
    span_id: str | None
    #: The name of the span, such as ``execute_tool Bash``.
    span: str | None
