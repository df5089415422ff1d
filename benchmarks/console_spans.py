"""Recorded sessions as spans for another program: same names, parents, times, tokens and texts.

The attributes are those of the OpenInference conventions, which Phoenix shows best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.contents import span_contents
from agenttrace.store.questions import SpanView
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.spans import joined

#: Every turn is a trace, as in AgentTrace; every session is one too, so that a page shows all of its spans.
BY_TURN, BY_SESSION = "turns", "sessions"
_KINDS = {"turn": "AGENT", "step": "LLM", "tool": "TOOL"}
_INPUTS = {"turn": ("prompt",), "step": ("prompt",), "tool": ("arguments",)}
_OUTPUTS = {"turn": ("text",), "step": ("thinking", "text"), "tool": ("result", "error")}

Json = dict[str, Any]


def exported(store: SqliteStore, whole: Iterable[str]) -> Iterator[Json]:
    """All spans of a store, one trace per turn, and some sessions also as one trace each."""
    also = set(whole)
    for session in sorted(store.sessions(limit=100_000), key=lambda session: session.session_id not in also):
        spans = store.spans(session)
        contents = span_contents(store, session, spans)
        answers = _answers(spans, contents)
        rows = [_row(session, span, contents.get(span.span_id, ()), answers.get(span.span_id)) for span in spans]
        yield from rows
        if session.session_id in also:
            yield from _one_trace(session, rows)


def _answers(spans: Sequence[SpanView], contents: dict[bytes, list[Content]]) -> dict[bytes, str]:
    """The answer of a turn: the last text of a response directly below it."""
    found: dict[bytes, str] = {}
    for span in spans:
        said = joined(contents.get(span.span_id, ()), "text")
        if span.kind == "step" and span.parent_id is not None and said:
            found[span.parent_id] = said
    return found


def _row(session: Session, span: SpanView, contents: Sequence[Content], answer: str | None) -> Json:
    attributes: Json = {
        "openinference.span.kind": _KINDS[span.kind],
        "session.id": session.session_id,
        "input.value": joined(contents, *_INPUTS[span.kind]),
        "output.value": answer if span.kind == "turn" else joined(contents, *_OUTPUTS[span.kind]),
        "llm.model_name": span.model if span.kind == "step" else None,
        "tool.name": span.attributes.get("tool"),
        "llm.token_count.prompt": span.usage and span.usage.input_tokens + span.usage.cache_read_tokens,
        "llm.token_count.completion": span.usage and span.usage.output_tokens,
    }
    return {
        "project": BY_TURN,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": None if span.parent_id is None else span.parent_id.hex(),
        "name": span.name,
        "start": span.start,
        "end": span.end if span.end is not None else span.start,
        "error": span.status == "error",
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }


def _one_trace(session: Session, rows: Sequence[Json]) -> Iterator[Json]:
    """The same spans under one root, with new ids, because an id belongs to one trace."""
    trace, root = f"{session.id:032x}", f"{session.id:016x}"
    attributes = {"openinference.span.kind": "CHAIN", "input.value": session.title or "", "output.value": ""}
    yield rows[0] | {
        "project": BY_SESSION,
        "trace_id": trace,
        "span_id": root,
        "parent_id": None,
        "name": session.session_id,
        "end": max(row["end"] for row in rows),
        "attributes": attributes,
    }
    for row in rows:
        parent = root if row["parent_id"] is None else _other(row["parent_id"])
        kept = {name: value for name, value in row["attributes"].items() if name != "session.id"}
        yield row | {
            "project": BY_SESSION,
            "trace_id": trace,
            "span_id": _other(row["span_id"]),
            "parent_id": parent,
            "attributes": kept,
        }


def _other(span_id: str) -> str:
    return f"{int(span_id, 16) ^ 0xFFFF_FFFF_FFFF_FFFF:016x}"
