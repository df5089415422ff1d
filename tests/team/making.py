"""Rows with any text in every field that can have one."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from agenttrace.model import Session, Usage
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)

ANY = st.text(max_size=20)


def rows(
    texts: st.SearchStrategy[str] = ANY, *, states: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Row]:
    """Rows of all kinds; ``states``: of sessions and spans."""
    numbers = st.integers(0, 2**53)
    maybe = st.none() | texts
    state = states if states is not None else st.sampled_from(["working", "waiting", "ended", "ok", "error", "open"])
    span_ids, trace_ids = st.binary(min_size=8, max_size=8), st.binary(min_size=16, max_size=16)
    usage = st.builds(Usage, input_tokens=numbers, output_tokens=numbers)
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
        max_leaves=4,
    )
    names = texts | st.sampled_from(["error", "tool", "call", "prompt", "notes", "origin", "finish_reason", "duration"])
    attributes = st.none() | st.dictionaries(names, values, max_size=4).map(json.dumps)
    sessions = st.builds(
        Session,
        id=numbers,
        agent=texts | st.sampled_from(["codex", "claude-code"]),
        session_id=texts,
        project=maybe,
        branch=maybe,
        title=maybe,
        first_prompt=maybe,
        version=maybe,
        model=maybe,
        parent=maybe,
        state=state,
        started_at=numbers,
        events=numbers,
        machine=maybe,
        person=maybe,
    )
    return st.one_of(
        st.builds(StoredSession, sessions, numbers),
        st.builds(
            StoredSpan,
            number=numbers,
            span_id=span_ids,
            trace_id=trace_ids,
            parent_id=st.none() | span_ids,
            session=numbers,
            stream=texts,
            kind=st.sampled_from(["turn", "step", "tool", "span"]),
            name=texts | st.sampled_from(["Bash", "apply_patch"]),
            start=numbers,
            end=st.none() | numbers,
            status=state,
            model=maybe | st.sampled_from(["qwen-max", "claude-opus-4-1"]),
            turn_index=numbers,
            step_n=numbers,
            response=st.none() | trace_ids,
            attributes=attributes,
            revision=numbers,
        ),
        st.builds(LinkRow, numbers, texts, texts, texts),
        st.builds(ResponseRow, trace_ids, numbers, numbers, texts, st.booleans(), numbers, texts, usage, numbers),
        st.builds(
            TotalRow,
            numbers,
            texts | st.sampled_from(["session", "stream", "call"]),
            texts,
            texts,
            numbers,
            texts,
            numbers,
            numbers,
            trace_ids,
            st.none() | span_ids,
            numbers,
            usage,
            numbers,
        ),
        st.builds(FileOfLines, numbers, texts, st.none() | st.dictionaries(texts, texts).map(_json), numbers),
        st.builds(
            EventRow,
            number=numbers,
            session=numbers,
            event_id=st.binary(min_size=1, max_size=32),
            turn_index=numbers,
            step_n=numbers,
            event_type=texts,
            span_id=st.none() | span_ids,
            recorded_at=st.floats(0, 2e9),
            file_id=numbers,
            generation=numbers,
            offset=numbers,
            raw=texts.map(lambda text: json.dumps({"text": text}).encode()),
        ),
        st.builds(
            AnnotationRow,
            annotation_id=trace_ids,
            session=numbers,
            span_id=st.none() | span_ids,
            kind=st.sampled_from(["note", "score", "label", "star"]),
            name=texts,
            value=st.none() | st.floats(-1, 1),
            text=texts,
            source=st.sampled_from(["person", "program"]),
            author=texts,
            created_at=st.floats(0, 2e9),
            changed_at=st.floats(0, 2e9),
            removed_at=st.none() | st.floats(0, 2e9),
            revision=numbers,
        ),
        st.builds(
            RemovedRow,
            st.sampled_from(["span", "response", "session"]),
            numbers,
            st.binary(max_size=16),
            numbers,
            numbers,
        ),
    )


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
