"""OpenTelemetry: spans, log records and data points that programs sent to the server, each a line, in any order.

Children come before their parents, and the session of a trace may be in its last span only. So a line
names its trace (``Event.trace``), and the recorder moves what it has of a trace once the session is known.

A large resource or scope is a line of its own: an event of its trace, named by its digest, without a span. Lines of
spans have what is folded of it, so it is looked up only where a user wants to see all of it.

Log records and data points of metrics are the telemetry of agents: see ``otlp_logs.py``.

``memory`` has ``said``: the facts about the session that were reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agenttrace.model import Event
from agenttrace.record.formats.base import LogFormat, agent_directory, first_lines
from agenttrace.record.formats.context import ContextFact, NoConversation
from agenttrace.record.formats.contract import Content, Find, Memory, Source, Traits, Unusable
from agenttrace.record.formats.otlp_lines import LINES, OtlpLine, all_of
from agenttrace.record.formats.otlp_logs import record_acts, record_contents, record_event
from agenttrace.record.formats.otlp_messages import contents_of, prompt_of
from agenttrace.record.formats.otlp_names import (
    PROVIDERS,
    TITLES,
    agent_of,
    call_of,
    error_of,
    finish_of,
    first_text,
    kind_of,
    model_of,
    name_of,
    response_of,
    status_of,
    tool_in,
    usage_of,
)
from agenttrace.record.ingest import acts as a

PROMPT_LIMIT = 500
#: Of names, titles and errors; the line has the whole.
_NAME_LIMIT, _ERROR_LIMIT = 300, 500

#: The type of events that are no spans: what spans of their trace share.
_SHARED = "shared"


class Otlp(LogFormat[OtlpLine]):
    """The log that the server keeps of what it received over OTLP."""

    name = "otlp"
    title = "OpenTelemetry"
    traits = Traits(mixes_sessions=True)
    decoder = LINES

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """A separate directory under the data directory."""
        return [agent_directory(environ, home, "AGENTTRACE_HOME", default=".agenttrace") / "logs" / "otlp"]

    def is_log(self, path: Path) -> bool:
        """``spans-*.jsonl``."""
        return path.name.startswith("spans-") and path.name.endswith(".jsonl")

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first line that says ``"otlp":1`` and is a span, what spans share, a log record or a data point."""
        for raw in first_lines(head, 8):
            line = LINES(raw) if b'"otlp"' in raw else None
            if line is not None and line.otlp == 1 and (line.is_whole or line.is_shared or line.is_record):
                return self.source(path, line.session or line.trace or path.stem)
        return None

    def event(self, line: OtlpLine, raw: bytes, source: Source) -> Event | Unusable:
        """A span's id makes it unique in its trace, however often it is sent."""
        if line.is_record:
            return record_event(line, raw)
        if line.is_shared:
            return Event(_SHARED, line.digest, None, line, trace=line.trace)
        if not line.is_whole:
            return Unusable("not a span: no trace and span ids in hex", harmless=False)
        if line.attributes.get("logfire.span_type") == "pending_span":
            return Unusable("announces a span that is not over", harmless=True)
        return Event("span", line.span, line.end // 1000, line, session=line.session, trace=line.trace)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """A span is one act, after the facts about the session in it."""
        line: OtlpLine = event.body
        if line.is_record:
            yield from record_acts(event, memory)
            return
        if event.type == _SHARED:
            return
        kind = kind_of(line)
        prompt = _prompt(line, kind, memory)
        yield from _session(line, kind, prompt, memory)
        yield _finished(line, kind, prompt)

    def content(self, event: Event, source: Source) -> list[Content]:
        """What was said in the span."""
        line: OtlpLine = event.body
        if line.is_record:
            return record_contents(event)
        return [] if event.type == _SHARED else contents_of(line, kind_of(line))

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """Spans are logged at their end, in any order: they are no conversation."""
        return (NoConversation(),)

    def attributes(self, raw: bytes, find: Find) -> dict[str, Any]:
        """Everything that was received about a span, as it was received."""
        received = all_of(raw)
        own = received.pop("attributes", {})
        shared, trace = received.pop("shared", None), received.get("trace")
        for name, digest in shared.items() if isinstance(shared, dict) else ():
            whole = all_of(find(str(trace), _SHARED, str(digest)) or b"")
            received[name] = whole.get(name, received.get(name))
        for name in ("otlp", "trace", "span", "parent", "name", "start", "end", "log", "time"):
            received.pop(name, None)
        return (own if isinstance(own, dict) else {}) | {f"otlp.{name}": value for name, value in received.items()}


def _prompt(line: OtlpLine, kind: str, memory: Memory) -> str | None:
    """What the user asked. A model call repeats the whole conversation: it is read for the first prompt only."""
    if kind == "turn" or (kind == "step" and "prompt" not in memory.setdefault("said", {})):
        found = prompt_of(line, kind)
        return found[:PROMPT_LIMIT] if found else None
    return None


def _session(line: OtlpLine, kind: str, prompt: str | None, memory: Memory) -> Iterator[a.Act]:
    """New facts about the session; without a prompt, the name of a root is the title."""
    said: dict[str, str] = memory.setdefault("said", {})
    if prompt and kind in ("turn", "step"):
        said.setdefault("prompt", "")
    title = first_text(line.attributes, TITLES) or (line.name if not line.parent and "prompt" not in said else None)
    # Several programs may take part in a session: it has the name of the one in which its latest trace begins.
    leads = not line.parent or "cwd" not in said
    told = {
        "cwd": line.resource.program if leads else None,
        "version": line.resource.version if leads else None,
        "title": title[:_NAME_LIMIT] if title and "title" not in said else None,
        "model": model_of(line.attributes) if kind == "step" else None,
    }
    fresh: dict[str, Any] = {name: value for name, value in told.items() if value and said.get(name) != value}
    if fresh:
        said.update(fresh)
        yield a.SessionInfo(**fresh)


def _finished(line: OtlpLine, kind: str, prompt: str | None) -> a.Finished:
    attributes = line.attributes
    # A root often repeats the sum of its model calls; where none of them has usage, its sum is the only usage.
    is_sum = kind != "step"
    usage = None if is_sum and line.parent else usage_of(attributes)
    return a.Finished(
        span_id=bytes.fromhex(line.span),
        trace_id=bytes.fromhex(line.trace),
        parent_id=line.parent_id,
        kind=kind,
        name=name_of(line, kind)[:_NAME_LIMIT],
        start=line.start // 1000,
        end=line.end // 1000,
        status=status_of(line),
        model=None if usage is None and is_sum else model_of(attributes),
        prompt=prompt,
        entry=not line.parent or (kind == "turn" and line.is_entry),
        response=None if usage is None else response_of(line),
        usage=usage,
        sum=is_sum,
        attributes=_shown_attributes(line, kind, prompt),
    )


def _shown_attributes(line: OtlpLine, kind: str, prompt: str | None) -> dict[str, Any]:
    """What lists and exports need without reading the line."""
    attributes = line.attributes
    found: dict[str, Any] = {}
    if kind == "tool":
        found |= {"tool": tool_in(name_of(line, kind))[:_NAME_LIMIT], "call": call_of(attributes)}
    elif kind == "step":
        found |= {"finish_reason": finish_of(attributes), "provider": first_text(attributes, PROVIDERS)}
    elif kind == "turn":
        found |= {"prompt": prompt and prompt[:_NAME_LIMIT], "agent": agent_of(line)}
    if status_of(line) == "error":
        found["error"] = (error_of(line) or "")[:_ERROR_LIMIT]
    found["service"] = line.resource.program
    return {name: value for name, value in found.items() if value}
