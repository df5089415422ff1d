"""Notes, scores, labels and stars as JSON, and the conditions on scores that users write: ``quality<3``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from agenttrace.ids import session_key
from agenttrace.store.annotations import AnnotationError, ScoreTest, checked_name, checked_score
from agenttrace.views.times import MICROS, iso
from agenttrace.views.trouble import TroubleError

if TYPE_CHECKING:
    from agenttrace.store.annotations import Annotation, Comparison, Marks

_TEST = re.compile(r"\s*(.+?)\s*(<=|>=|==|=|<|>)\s*([^<>=]+)")
_TEST_FIX = "Give a name, a comparison and a number: quality<3, quality>=0.8, quality=1."


class NotAScoreTestError(TroubleError, ValueError):
    """A text that is no condition on a score."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no condition on a score", _TEST_FIX, misused=True)

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}"


def parse_score_test(text: str) -> ScoreTest:
    """``quality<3`` as a condition."""
    match = _TEST.fullmatch(text)
    try:
        if match is None:
            raise NotAScoreTestError(text)
        comparison = cast("Comparison", "=" if match[2] == "==" else match[2])
        return ScoreTest(checked_name(match[1], "score"), comparison, checked_score(float(match[3])))
    except (AnnotationError, ValueError):
        raise NotAScoreTestError(text) from None


def score_tests(texts: Iterable[str]) -> tuple[ScoreTest, ...]:
    """Several of them."""
    return tuple(map(parse_score_test, texts))


def annotation_fields(annotation: Annotation) -> dict[str, Any]:
    """An annotation for JSON."""
    return {
        "id": annotation.annotation_id.hex(),
        "session": session_key(annotation.session),
        "span_id": None if annotation.span_id is None else annotation.span_id.hex(),
        "kind": annotation.kind,
        "name": annotation.name or None,
        "value": annotation.value,
        "text": annotation.text or None,
        "source": annotation.source,
        "author": annotation.author,
        "created_at": iso(int(annotation.created_at * MICROS)),
        "changed_at": iso(int(annotation.changed_at * MICROS)),
    }


def marks_fields(marks: Marks) -> dict[str, Any]:
    """What lists say of the annotations of a session, for JSON."""
    return {
        "starred": marks.starred,
        "labels": list(marks.labels),
        "scores": dict(marks.scores),
        "notes": marks.notes,
    }


def marks_text(marks: Marks) -> str:
    """The same in a line: ``★ bug quality=3 2 notes``."""
    parts = ["★"] if marks.starred else []
    parts += marks.labels
    parts += [f"{name}={value:g}" for name, value in marks.scores]
    if marks.notes:
        parts.append(f"{marks.notes} note{'s' if marks.notes > 1 else ''}")
    return " ".join(parts)


def annotation_text(annotation: Annotation) -> str:
    """What an annotation says, in words."""
    said = {
        "star": "★",
        "label": annotation.name,
        "score": f"{annotation.name} = {annotation.value:g}" if annotation.value is not None else annotation.name,
        "note": annotation.text,
    }[annotation.kind]
    return f"{said}: {annotation.text}" if annotation.kind == "score" and annotation.text else said


def written_by(annotation: Annotation) -> str:
    """``ann``, ``rule review``, ``program ci``."""
    return annotation.author if annotation.source == "person" else f"{annotation.source} {annotation.author}"
