"""Notes, scores, labels and stars of the demo: people, a program and a failed call to look at."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agenttrace.store.annotations import AnnotationKind, AnnotationSource, NewAnnotation

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.store.annotations import Annotation
    from agenttrace.store.sqlite.store import SqliteStore

_NOTES = (
    "Good first step, but the limit should be a setting.",
    "Read this before the release: the cache key was wrong since March.",
    "Asked again with a smaller context, same answer.",
    "四舍五入的规则要和财务确认。",
)
_SCORED, _LABELLED = 12, 3


def annotate(store: SqliteStore, *, seed: int = 0) -> list[Annotation]:
    """Write them beside the latest sessions; those of the demo's own applications have none."""
    rng = random.Random(f"{seed}/notes")  # noqa: S311 - reproducible on purpose
    found = [each for each in store.sessions() if each.agent != "agenttrace"]
    failed = [each for each in found if each.errors]
    new = [_new(each, "note", "ann", text=text) for each, text in zip(found[1::3], _NOTES, strict=False)]
    new += [_new(each, "score", "ann", name="quality", value=rng.randint(1, 5)) for each in found[:_SCORED]]
    new += [
        _new(each, "score", "ci", name="tests", value=0 if each.errors else 1, source="program")
        for each in found[:_SCORED]
    ]
    new += [_new(each, "star", "ann") for each in found[:1]]
    new += [_new(each, "label", "ben", name="flaky") for each in failed[:_LABELLED]]
    new += _about_failed_calls(store, failed[:1])
    return [store.annotation_table.put(each)[0] for each in new]


def _about_failed_calls(store: SqliteStore, failed: Sequence[Session]) -> list[NewAnnotation]:
    calls = [
        (session, row.span_id)
        for session in failed
        for row in store.span_rows(session)
        if row.kind == "tool" and row.status == "error"
    ]
    text = "This call failed because the server of the test is slow, not because of the change."
    return [_new(session, "note", "ben", text=text, span_id=span_id) for session, span_id in calls[:1]]


def _new(
    session: Session,
    kind: AnnotationKind,
    author: str,
    *,
    source: AnnotationSource = "person",
    name: str = "",
    value: float | None = None,
    text: str = "",
    span_id: bytes | None = None,
) -> NewAnnotation:
    return NewAnnotation(
        session=session.id,
        kind=kind,
        source=source,
        author=author,
        name=name,
        value=value,
        text=text,
        span_id=span_id,
    )
