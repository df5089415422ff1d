"""A span in the attributes that Langfuse reads first, so that it shows known values and guesses none.

Token counts do not overlap: Langfuse sums up all of them. A model call without usage gets counts of 0, because Langfuse
would otherwise count the tokens of its texts, and copies would be counted twice.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

from agenttrace.export import conventions as c
from agenttrace.export import genai
from agenttrace.export.genai import Attributes, GenAiSpan, joined
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import LIMIT, json_bytes, shortened, shortened_in_json

# Of the trace, on every span.
SESSION_ID: Final = "langfuse.session.id"
TRACE_NAME: Final = "langfuse.trace.name"
TRACE_TAGS: Final = "langfuse.trace.tags"
TRACE_METADATA: Final = "langfuse.trace.metadata"
TRACE_INPUT: Final = "langfuse.trace.input"
TRACE_OUTPUT: Final = "langfuse.trace.output"
ENVIRONMENT: Final = "langfuse.environment"
VERSION: Final = "langfuse.version"

# Of the span.
TYPE: Final = "langfuse.observation.type"
LEVEL: Final = "langfuse.observation.level"
STATUS_MESSAGE: Final = "langfuse.observation.status_message"
INPUT: Final = "langfuse.observation.input"
OUTPUT: Final = "langfuse.observation.output"
MODEL: Final = "langfuse.observation.model.name"
USAGE_DETAILS: Final = "langfuse.observation.usage_details"
COST_DETAILS: Final = "langfuse.observation.cost_details"
METADATA: Final = "langfuse.observation.metadata"

_TYPES = {"turn": "agent", "step": "generation", "tool": "tool", "span": "span"}
_STATUSES = {"cancelled": "cancelled", "unclosed": "the log never said how it ended"}
#: Attributes of the trace, not of each span.
_OF_TRACE = (c.OUR_AGENT, c.OUR_PROJECT, c.OUR_BRANCH, c.OUR_TITLE)
#: Langfuse accepts no longer tags.
_TAG_CHARS = 200


def described(span: ExportSpan, user: str | None, environment: str | None) -> GenAiSpan:
    """A span with the attributes of the conventions and those of Langfuse."""
    facts = {**genai.facts(span), **_cost(span)}
    ours = {key: value for key, value in facts.items() if key.startswith(c.OUR_PREFIX)}
    found: dict[str, Any] = {key: value for key, value in facts.items() if key not in ours}
    found |= {**_of_trace(span, user, environment), **_of_observation(span), **_said(span)}
    # Attributes with other names would not be stored, or could not be searched for.
    found |= {
        f"{METADATA}.{key.removeprefix(c.OUR_PREFIX)}": value for key, value in ours.items() if key not in _OF_TRACE
    }
    return genai.with_attributes(span, {key: value for key, value in found.items() if value not in (None, "", ())})


def _cost(span: ExportSpan) -> Attributes:
    return {key: value for key, value in genai.usage(span).items() if key in (c.OUR_COST, c.OUR_CURRENCY)}


def _of_trace(span: ExportSpan, user: str | None, environment: str | None) -> dict[str, Any]:
    session = span.session
    about = {"agent": session.agent, "project": session.project, "branch": session.branch, "title": session.title}
    return {
        SESSION_ID: shortened(session.session_id),
        c.USER_ID: shortened(user or ""),
        ENVIRONMENT: shortened(environment or ""),
        VERSION: shortened(session.agent_version or ""),
        TRACE_NAME: shortened(session.agent),
        TRACE_TAGS: tuple(tag for tag in _tags(span) if tag and len(tag) <= _TAG_CHARS),
        **{f"{TRACE_METADATA}.{key}": shortened(value or "") for key, value in about.items()},
    }


def _tags(span: ExportSpan) -> tuple[str, ...]:
    project = span.session.project
    # Logs may also have Windows paths.
    name = PurePath(project.replace("\\", "/")).name if project else ""
    return tuple(dict.fromkeys((shortened(span.session.agent), shortened(name))))


def _of_observation(span: ExportSpan) -> dict[str, Any]:
    found: dict[str, Any] = {TYPE: _TYPES[span.kind]}
    if span.status in _STATUSES:
        found |= {LEVEL: "WARNING", STATUS_MESSAGE: _STATUSES[span.status]}
    if span.kind == "step":
        found |= {MODEL: shortened(span.model or ""), USAGE_DETAILS: _usage_details(span), **_cost_details(span)}
    return found


def _usage_details(span: ExportSpan) -> str:
    used = span.usage
    if used is None:
        return json_bytes({"input": 0, "output": 0, "total": 0}).decode()
    parts = {
        "input_cached_tokens": used.cache_read_tokens,
        "input_cache_creation": used.cache_write_tokens - used.cache_write_1h_tokens,
        "input_cache_creation_1h": used.cache_write_1h_tokens,
        "output_reasoning_tokens": used.reasoning_tokens,
    }
    details = {
        "input": used.input_tokens,
        "output": used.output_tokens - used.reasoning_tokens,
        **{key: tokens for key, tokens in parts.items() if tokens},
        "total": used.total,
    }
    return json_bytes(details).decode()


def _cost_details(span: ExportSpan) -> dict[str, str]:
    """The cost in dollars, the only currency of Langfuse; empty for other currencies."""
    if span.usage is None or span.cost is None or span.currency != "USD":
        return {}
    return {COST_DETAILS: json_bytes({"total": float(span.cost)}).decode()}


# -- texts ------------------------------------------------------------------------------------------------------


def _said(span: ExportSpan) -> Attributes:
    asked = joined(span.texts, "arguments" if span.kind == "tool" else "prompt")
    found: Attributes = {INPUT: asked, OUTPUT: _answer(span), f"{METADATA}.note": joined(span.texts, "note")}
    if span.is_root:
        found |= {TRACE_INPUT: found[INPUT], TRACE_OUTPUT: found[OUTPUT]}
    return found


def _answer(span: ExportSpan) -> str:
    if span.kind == "tool":
        return joined(span.texts, "result", "error")
    said, thought = joined(span.texts, "text"), joined(span.texts, "thinking")
    if span.kind != "step" or not (said or thought):
        return said
    message = {"role": "assistant", "content": shortened_in_json(said, LIMIT // 2)}
    if thought:
        message["reasoning_content"] = shortened_in_json(thought, LIMIT // 2 - 100)
    return json_bytes(message).decode()
