"""An annotation as feedback of LangSmith: on the run of its span, or on that of the latest turn of its session."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from agenttrace.destinations import DestinationSettings
from agenttrace.export.annotations import ExportAnnotation
from agenttrace.export.langsmith_runs import DEFAULT_PROJECT, run_of


def feedback_id(annotation_id: bytes, settings: DestinationSettings) -> str:
    """The id of an annotation's feedback; ids are unique in a workspace, so another project has another one."""
    project = settings.project or DEFAULT_PROJECT
    named = f"{project}\x1f".encode("utf-8", "surrogatepass") + annotation_id
    return str(UUID(bytes=hashlib.sha256(named).digest()[:16], version=4))


def feedback_of(annotation: ExportAnnotation, settings: DestinationSettings) -> dict[str, Any]:
    """The body of a request."""
    key, score, value = {
        "score": (annotation.name, annotation.value, None),
        "label": ("label", None, annotation.name),
        "star": ("star", 1, None),
        "note": ("note", None, None),
    }[annotation.kind]
    run = run_of(annotation.span, settings).fields
    return {
        "id": feedback_id(annotation.annotation_id, settings),
        "run_id": run["id"],
        "trace_id": run["trace_id"],
        "key": key,
        "score": score,
        "value": value,
        "comment": annotation.text or None,
        "feedback_source": {
            "type": "model" if annotation.source == "rule" else "api",
            "metadata": {"author": annotation.author, "source": annotation.source},
        },
        # Otherwise a note would move the trace to the longer, more expensive retention.
        "extend_trace_retention": False,
    }
