"""A span as a LangSmith run: its ids, its position in the tree, its inputs and outputs, and its cost.

LangSmith's rules for a tree (docs.langchain.com/langsmith/trace-with-api; refusals in langsmith-sdk #751 and #2236):
``dotted_order`` has a segment of time and id for every run from the root on, ``trace_id`` is the root's id, and no run
begins before its parent. A UUIDv7 whose time is not the start of its run makes the run invisible
(langsmith-claude-code-plugins #40). Ids are unique in a workspace, and a known one is ignored even in another project
(BigQuery-Agent-Analytics-SDK #423): so ids are made of the project, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from agenttrace.destinations import DestinationSettings
from agenttrace.export.moments import moment
from agenttrace.export.span import ExportSpan, TextKind
from agenttrace.export.wire_text import REPLACEMENT, encoded, parsed
from agenttrace.model import Usage

DEFAULT_PROJECT = "agenttrace"
_RUN_TYPES = {"turn": "chain", "step": "llm", "tool": "tool", "span": "chain"}
#: Providers that LangSmith's price list spells differently from the conventions.
_PROVIDERS = {
    "aws.bedrock": "amazon_bedrock",
    "gcp.vertex_ai": "google_vertexai",
    "gcp.gen_ai": "google_genai",
    "mistral_ai": "mistral",
    "x_ai": "xai",
}
_MAX_MILLIS = 2**48 - 1


class Run(NamedTuple):
    """A run as it is sent; a field that is None has no part in the body."""

    fields: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    extra: dict[str, Any]
    events: list[dict[str, Any]] | None
    error: str | None

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """The name and the JSON of each part of a multipart body."""
        name = f"post.{self.fields['id']}"
        yield name, encoded(self.fields, REPLACEMENT)
        for part in ("inputs", "outputs", "events", "extra", "error"):
            value = getattr(self, part)
            if value is not None:
                yield f"{name}.{part}", encoded(value, REPLACEMENT)


def run_of(span: ExportSpan, settings: DestinationSettings) -> Run:
    """The run of a span."""
    project = settings.project or DEFAULT_PROJECT
    about = {
        "name": (span.tool if span.kind == "tool" else None) or span.name or span.kind,
        "run_type": _RUN_TYPES[span.kind],
        "session_name": project,
        "tags": [span.session.agent],
    }
    return Run(
        fields=_position(span, project) | about,
        inputs=_inputs(span),
        outputs=_outputs(span),
        extra={"metadata": _metadata(span, settings), "runtime": _runtime()},
        events=_events(span) or None,
        error=_error(span),
    )


def _position(span: ExportSpan, project: str) -> dict[str, Any]:
    """Ids and times of a span's run, made of its path: the same whichever spans are sent with it."""
    # No run begins before its parent.
    starts = list(accumulate((step.start for step in span.path), max))
    run_ids = [
        span_uuid(project, span.trace_id, step.span_id, start) for step, start in zip(span.path, starts, strict=True)
    ]
    segments = [f"{moment(start):%Y%m%dT%H%M%S%fZ}{run_id}" for start, run_id in zip(starts, run_ids, strict=True)]
    fields = {
        "id": str(run_ids[-1]),
        "trace_id": str(run_ids[0]),
        "dotted_order": ".".join(segments),
        "start_time": moment(starts[-1]).isoformat(timespec="microseconds"),
        "end_time": moment(max(span.end, starts[-1])).isoformat(timespec="microseconds"),
    }
    return fields | {"parent_run_id": str(run_ids[-2])} if len(run_ids) > 1 else fields


def span_uuid(scope: str, trace_id: bytes, span_id: bytes, start: int) -> UUID:
    """The UUIDv7 of a span that began at ``start`` (microseconds), always the same; another one in another scope.

    After RFC 9562, method 3: 48 bits of milliseconds, 12 bits of the part below a millisecond, 62 bits of a hash.
    """
    named = f"{scope}\x1f".encode("utf-8", "surrogatepass") + trace_id + span_id
    digest = hashlib.sha256(named).digest()
    millis, micros = divmod(max(start, 0), 1_000)
    value = min(millis, _MAX_MILLIS) << 80 | 7 << 76 | (micros * 4096 // 1_000) << 64
    return UUID(int=value | 0b10 << 62 | int.from_bytes(digest[:8], "big") & (1 << 62) - 1)


@cache
def _runtime() -> dict[str, str]:
    return {"library": "agenttrace", "library_version": version("agenttrace")}


# -- inputs and outputs ---------------------------------------------------------------------------------------------


def _inputs(span: ExportSpan) -> dict[str, Any]:
    if span.kind in ("turn", "step"):
        said = [{"role": "user", "content": text.text} for text in span.texts if text.kind == "prompt"]
        said += [
            {"role": "tool", "tool_call_id": text.call or "", "content": text.text}
            for text in span.texts
            if text.kind == "result"
        ]
        return {"messages": said} if said else {}
    given = _joined(span, "prompt", "arguments")
    return {} if given is None else {"input": parsed(given)}


def _outputs(span: ExportSpan) -> dict[str, Any]:
    if span.kind in ("turn", "step"):
        blocks = list(_blocks(span))
        return {"messages": [{"role": "assistant", "content": blocks}]} if blocks else {}
    got = _joined(span, "text", "thinking", "result", "error")
    return {} if got is None else {"output": got}


def _blocks(span: ExportSpan) -> Iterator[dict[str, Any]]:
    """The model's output in the blocks that LangSmith shows."""
    for text in span.texts:
        if text.kind == "text":
            yield {"type": "text", "text": text.text}
        elif text.kind == "thinking":
            yield {"type": "thinking", "thinking": text.text}
        elif text.kind == "arguments":
            yield {"type": "tool_call", "id": text.call or "", "name": span.tool or "tool", "args": parsed(text.text)}


def _joined(span: ExportSpan, *kinds: TextKind) -> str | None:
    texts = [text.text for text in span.texts if text.kind in kinds]
    return "\n".join(texts) if texts else None


def _events(span: ExportSpan) -> list[dict[str, Any]]:
    time = moment(max(span.end, span.start)).isoformat(timespec="microseconds")
    return [
        {"name": text.kind, "time": time, "kwargs": {"text": text.text}}
        for text in span.texts
        if text.kind in ("note", "error")
    ]


def _error(span: ExportSpan) -> str | None:
    """LangSmith has success and error only; its own plugins report a cancelled turn as an error."""
    if span.status == "error":
        return span.error or _joined(span, "error") or "error"
    return (span.error or "Cancelled") if span.status == "cancelled" else None


# -- metadata -------------------------------------------------------------------------------------------------------


def _metadata(span: ExportSpan, settings: DestinationSettings) -> dict[str, Any]:
    found = {**_coding_agent(span), **_model(span), **_tool(span)}
    found |= {
        "session_id": span.session.session_id,
        "title": span.session.title,
        "status": span.status,
        "step_number": span.step_n or None,
        "user_id": settings.user,
        "environment": settings.environment,
        "attributes": span.attributes or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _coding_agent(span: ExportSpan) -> dict[str, Any]:
    """The keys of LangSmith's contract ``coding-agent-v1``, on every run, where they are known.

    As its plugins for Claude Code, Codex and OpenCode have them (langchain-ai/langsmith-claude-code-plugins,
    src/metadata.ts; langsmith-codex-plugins, plugins/tracing/src/metadata.ts; the README of langsmith-opencode), and as
    its dashboard of coding agents reads them.
    """
    session = span.session
    found: dict[str, Any] = {
        "thread_id": session.session_id,
        "ls_integration": session.agent,
        "ls_agent_runtime": session.agent,
        "ls_agent_runtime_version": session.agent_version,
        "ls_agent_type": "subagent" if span.subagent else "root",
        "turn_id": span.path[0].span_id.hex(),
        "turn_number": span.turn_index + 1 if span.turn_index >= 0 else None,
        "cwd": session.project,
        "git_branch": session.branch,
    }
    if session.integration is not None:
        found["ls_agent_purpose"] = "coding"
        found["ls_trace_schema_version"] = "coding-agent-v1"
        found["ls_integration"], found["ls_agent_runtime"] = session.integration, session.agent_title or session.agent
    if span.subagent and span.kind == "turn":
        found["ls_subagent_id"] = span.span_id.hex()
        found["ls_subagent_type"] = span.agent_name
    return found


def _model(span: ExportSpan) -> dict[str, Any]:
    if span.kind != "step":
        return {}
    return {
        "ls_model_type": "chat",
        "ls_model_name": span.model,
        "ls_provider": span.provider and _PROVIDERS.get(span.provider, span.provider),
        "ls_invocation_params": {"model": span.model} if span.model else None,
        "stop_reason": span.finish_reason,
        "response_id": span.response_id,
        "usage_metadata": _usage(span, span.usage) if span.usage is not None else None,
        "usage_estimated": span.estimated or None,
        "usage_counted_elsewhere": span.copied or None,
        "cost": span.cost,
        "cost_currency": span.currency,
    }


def _usage(span: ExportSpan, usage: Usage) -> dict[str, Any]:
    given = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    found: dict[str, Any] = {
        "input_tokens": given,
        "output_tokens": usage.output_tokens,
        "total_tokens": given + usage.output_tokens,
        "input_token_details": {"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens},
        "output_token_details": {"reasoning": usage.reasoning_tokens},
    }
    # LangSmith counts in dollars; without an amount it uses its own prices.
    if span.cost is not None and span.currency == "USD":
        found["total_cost"] = span.cost
    return found


def _tool(span: ExportSpan) -> dict[str, Any]:
    return {"tool_name": span.tool, "tool_call_id": span.call} if span.kind == "tool" else {}
