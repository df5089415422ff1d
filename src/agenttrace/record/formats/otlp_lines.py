"""Lines of the intake's log (``serve/intake/lines.py``), read leniently, and what of them names the session."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from agenttrace.record.formats.base import LineDecoder
from agenttrace.record.formats.lenient import value_of

#: The name of a span without one.
NAMELESS = "span"
#: In ``flags``: whether the parent is in another process, and that the sender knows.
_REMOTE = 0x300
_LONGEST_SESSION = 200

_HEX_TRACE, _HEX_SPAN = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")

Attributes = dict[str, Any]
#: A time in nanoseconds, as OTLP has them.
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

#: The attributes that name the session, the most telling first. ``thread.id`` is a thread of the operating system.
SESSION_NAMES = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "langfuse.trace.session_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.chat_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.conversationId",
    "ai.telemetry.metadata.threadId",
    "ai.telemetry.metadata.chatId",
    "langsmith.trace.session_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "gcp.vertex.agent.session_id",
)


class SpanEvent(Struct):
    """Something that happened inside a span."""

    name: str = ""
    time: int = 0
    attributes: Attributes = {}


class Resource(Struct):
    """The program that sent a span, as far as it matters here."""

    service: str | None = msgspec.field(name="service.name", default=None)
    version: str | None = msgspec.field(name="service.version", default=None)
    #: Agents that run one session in a process name it here, too.
    session: str | None = msgspec.field(name="session.id", default=None)

    @property
    def program(self) -> str | None:
        """Its name; ``None`` where an SDK made it up."""
        return None if self.service is None or self.service.startswith("unknown_service") else self.service


class OtlpLine(Struct, kw_only=True):
    """A span; or, with a digest and without an id, what spans of a trace share; or a log record; or a data point."""

    otlp: Any = None
    trace: str = ""
    span: str = ""
    parent: str = ""
    name: str = ""
    kind: str = ""
    start: Nanoseconds = 0
    end: Nanoseconds = 0
    status: str = ""
    message: str = ""
    attributes: Attributes = {}
    events: list[SpanEvent] = []
    resource: Resource = msgspec.field(default_factory=Resource)
    flags: int = 0
    digest: str = ""
    #: The name of the event that a log record is, which may be empty; ``None``: no log record.
    log: str | None = None
    body: Any = None
    #: The name of the metric that a data point is of.
    metric: str | None = None
    value: Any = None
    temporality: str = ""
    #: Of a log record or a data point.
    time: Nanoseconds = 0

    @property
    def is_record(self) -> bool:
        """Whether it is a log record or a data point."""
        return self.log is not None or self.metric is not None

    @property
    def is_whole(self) -> bool:
        """Whether it has the ids that a span needs."""
        return _HEX_TRACE.fullmatch(self.trace) is not None and _HEX_SPAN.fullmatch(self.span) is not None

    @property
    def is_shared(self) -> bool:
        """Whether it is a resource or a scope that spans name by its digest."""
        return not self.span and bool(self.digest) and _HEX_TRACE.fullmatch(self.trace) is not None

    @property
    def parent_id(self) -> bytes | None:
        """The parent, if it names one."""
        return bytes.fromhex(self.parent) if _HEX_SPAN.fullmatch(self.parent) else None

    @property
    def is_entry(self) -> bool:
        """Whether a trace, or a program's part of it, begins here."""
        return not self.parent or self.flags & _REMOTE == _REMOTE

    @property
    def session(self) -> str | None:
        """The session that the span names."""
        attributes = self.attributes
        for name in SESSION_NAMES:
            found = attributes.get(name)
            if found and isinstance(found, str | int) and not isinstance(found, bool):
                return str(found)[:_LONGEST_SESSION]
        return None


LINES = LineDecoder(
    OtlpLine,
    openings=r'\{"otlp":',
    is_line=lambda value: (
        ("trace" in value and ("span" in value or "digest" in value)) or "log" in value or "metric" in value
    ),
)


def all_of(raw: bytes) -> dict[str, Any]:
    """The whole line as it was written; empty where it cannot be read."""
    value = value_of(msgspec.Raw(raw))
    return value if isinstance(value, dict) else {}
