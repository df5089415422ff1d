"""An annotation as a score of Langfuse.

A score has a name and a value: those of a score are its own, a label is a category, a star is true, and a note is the
comment of a category (langfuse.com/docs/evaluation/evaluation-methods/scores-via-sdk). A score with a known id and the
same timestamp replaces the one that is there.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agenttrace.export.annotations import ExportAnnotation
from agenttrace.export.moments import iso
from agenttrace.export.wire_text import shortened


def score_id(annotation_id: bytes) -> str:
    """The id of an annotation's score."""
    return str(UUID(bytes=annotation_id))


def score_of(annotation: ExportAnnotation, environment: str | None) -> dict[str, Any]:
    """The body of a request."""
    name, value, data_type = {
        "score": (annotation.name, annotation.value, "NUMERIC"),
        "label": ("label", annotation.name, "CATEGORICAL"),
        "star": ("star", 1, "BOOLEAN"),
        "note": ("note", "note", "CATEGORICAL"),
    }[annotation.kind]
    span = annotation.span
    place = (
        {"sessionId": shortened(span.session.session_id)}
        if annotation.of_session
        else {"traceId": span.trace_id.hex(), "observationId": span.span_id.hex()}
    )
    about = {"author": annotation.author, "source": annotation.source}
    body = {"id": score_id(annotation.annotation_id), "name": name, "value": value, "dataType": data_type, **place}
    body |= {"timestamp": iso(int(annotation.created_at * 1_000_000))}
    body |= {"comment": annotation.text} if annotation.text else {}
    body |= {"environment": environment} if environment else {}
    return body | {"metadata": about}
