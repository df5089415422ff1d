"""The words the whole product shares: what was read, what it became, what it cost.

Times are integer microseconds since the epoch (UTC), because the finest agent logs carry microseconds
and integers compare, add and store exactly.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens of one model response, each token in exactly one of the first four fields."""

    #: Prompt tokens that were neither read from nor written to a cache.
    input_tokens: int = 0
    #: Everything the model wrote, reasoning included.
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    #: The part of ``cache_write_tokens`` kept for an hour (Anthropic prices it apart).
    cache_write_1h_tokens: int = 0
    #: The part of ``output_tokens`` that was reasoning.
    reasoning_tokens: int = 0
    #: Searches of the web that the provider ran for it, which are billed apart.
    web_searches: int = 0

    @property
    def total(self) -> int:
        """All tokens, none twice."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


#: The counts of a response, in the order of their columns.
USAGE_FIELDS = Usage.__struct_fields__


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an agent beside its log format."""

    #: The name people read: ``Claude Code``.
    title: str
    #: Who serves the models that it was made for, as the GenAI conventions spell it; ``None``: anybody.
    provider: str | None = None
    #: What observability tools call it, for a coding agent: ``openai-codex``.
    integration: str | None = None


class Event(msgspec.Struct, frozen=True):
    """One line of a log, decoded as far as recording needs it."""

    #: The agent's own name for this kind of line, such as ``assistant`` or ``response_item/message``.
    type: str
    #: What makes the line itself unique inside its session: a uuid, a call id, an exact timestamp.
    #: ``None``: the format has nothing of the kind, and a digest of the line with its ordinal stands in.
    key: str | None
    #: When the agent wrote it, microseconds; ``None`` where the line does not say.
    at: int | None
    #: The decoded line, in the agent module's own type.
    body: Any
    #: A stream other than the file's own, for lines that carry another agent's events.
    stream: str | None = None
    #: A session other than the file's own, for files that hold several.
    session: str | None = None
    #: The trace it is part of (32 hex digits), for lines that are spans: those of a trace belong to one session, which
    #: any of them may name. The key is unique inside the trace then.
    trace: str | None = None
    #: The agent whose session it is, where that is not the one whose format the line has: telemetry.
    agent: str | None = None


class Span(msgspec.Struct, kw_only=True):
    """One piece of work: a turn, a model call, a tool call, or any other. Grows until it is closed."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    #: ``turn``, ``step``, ``tool``, or ``span``: other work, of programs that tell all they do.
    kind: str
    name: str
    start: int
    end: int | None = None
    #: ``open``, ``ok``, ``error``, ``cancelled`` or ``unclosed`` (the log never said how it ended).
    status: str = "open"
    model: str | None = None
    turn_index: int = -1
    step_n: int = 0
    #: Names the model response whose usage belongs here, the same in every copy of the log; the tokens are in the
    #: usage ledger under this key.
    response: bytes | None = None
    response_name: str | None = None
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs, in millionths of the currency for a million tokens."""

    model: str
    currency: str
    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    #: For one search that the provider ran.
    web_search: int | None = None
    #: The first day on which it holds; empty: always.
    since: str = ""
    #: Other prices of the same model: for prompts of more tokens than the number, for ``fast`` mode, at ``peak`` hours.
    above: tuple[tuple[int, Price], ...] = ()
    fast: Price | None = None
    peak: Price | None = None
    #: What a place of inference multiplies the price of tokens by, in thousandths: ``us``.
    places: dict[str, int] = {}
    #: Where the figures come from: the shipped table with its version, a file, or the user's settings.
    source: str = ""
    #: The day on which the source was looked at.
    checked: str = ""


class Session(msgspec.Struct, kw_only=True):
    """One conversation with one agent, and the counts its row in a list shows."""

    #: The number under which the store knows it: ``ids.session_number(agent, session_id)``.
    id: int
    agent: str
    session_id: str
    #: The working directory.
    project: str | None = None
    branch: str | None = None
    #: What the agent or the user called it; lists fall back to ``first_prompt``.
    title: str | None = None
    first_prompt: str | None = None
    version: str | None = None
    model: str | None = None
    #: The session this one was forked from, where the log says so.
    parent: str | None = None
    #: True for a copy that is known to have come after its original.
    copied: bool = False
    #: When its main log was begun: decides, with ``last_at``, which of two sessions owns a response that both hold.
    born: int | None = None
    state: str = "working"
    started_at: int | None = None
    last_at: int | None = None
    turns: int = 0
    steps: int = 0
    tools: int = 0
    errors: int = 0
    events: int = 0
    #: In a team's store: the machine that recorded it, and the person it belongs to.
    machine: str | None = None
    person: str | None = None
