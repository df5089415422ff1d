"""A span as a flat record, the same in all files: one name for each fact, null where it is not known.

- ``span_id`` (16 hex digits), ``trace_id`` (32), ``parent_id`` (null for the turn that a trace is made of), ``path``
  (the ids from that turn to this span, both included)
- ``session_id`` (the agent's own name of the session), ``agent``, ``agent_version``, ``project``, ``branch``, ``title``
- ``kind`` (``turn``, ``step``: a model call, ``tool``, ``span``: received from elsewhere), ``name``
- ``start``, ``end`` (UTC, to the microsecond), ``duration_ms``
- ``status`` (``ok``, ``error``, ``cancelled``, ``unclosed``), ``error`` (what failed)
- ``turn_index`` (from 0), ``step_n`` (from 1), ``agent_name``, ``subagent`` (a subagent's turn, and all below it)
- ``model``, ``finish_reason``, ``response_id`` of a model call
- ``input_tokens`` (neither read from nor written to a cache), ``output_tokens``, ``cache_read_tokens``,
  ``cache_write_tokens``: every token once; ``reasoning_tokens`` is part of the output, ``cache_write_1h_tokens`` of
  what was written; null where another session pays for the response (``copied``); ``estimated`` where the log holds
  only a placeholder
- ``cost`` in ``currency``; null where the price is not known, which is not 0
- ``tool``, ``call`` (its id) of a tool call
- ``texts``, what was said, in order: ``kind`` (``prompt``, ``text``, ``thinking``, ``arguments``, ``result``,
  ``error``, ``note``), ``text``, and the ``call`` it belongs to
- ``attributes``, further facts; ``user`` and ``environment`` of the settings
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agenttrace.destinations import DestinationSettings
from agenttrace.export.span import ExportSpan

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last microsecond of the year 9999.
_LATEST = 253_402_300_799_999_999
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)


def record_of(span: ExportSpan, settings: DestinationSettings) -> dict[str, Any]:
    """The facts of a span; texts are as the log had them."""
    session = span.session
    return {
        "span_id": span.span_id.hex(),
        "trace_id": span.trace_id.hex(),
        "parent_id": span.parent_id.hex() if span.parent_id else None,
        "path": [step.span_id.hex() for step in span.path],
        "session_id": session.session_id,
        "agent": session.agent,
        "agent_version": session.agent_version,
        "project": session.project,
        "branch": session.branch,
        "title": session.title,
        "kind": span.kind,
        "name": span.name,
        "start": moment(span.start),
        "end": moment(span.end),
        "duration_ms": (span.end - span.start) / 1_000,
        "status": span.status,
        "error": span.error,
        "turn_index": span.turn_index,
        "step_n": span.step_n,
        "agent_name": span.agent_name,
        "subagent": span.subagent,
        "model": span.model,
        **{name: getattr(span.usage, name) if span.usage is not None else None for name in _TOKENS},
        "cost": span.cost,
        "currency": span.currency,
        "estimated": span.estimated,
        "copied": span.copied,
        "finish_reason": span.finish_reason,
        "response_id": span.response_id,
        "tool": span.tool,
        "call": span.call,
        "texts": [{"kind": text.kind, "text": text.text, "call": text.call} for text in span.texts],
        "attributes": span.attributes,
        "user": settings.user,
        "environment": settings.environment,
    }


def moment(micros: int) -> datetime:
    """A time in UTC; one that no calendar has becomes the nearest that it has."""
    return _EPOCH + timedelta(microseconds=min(max(micros, 0), _LATEST))
