"""Notes, scores, labels and stars beside sessions: what they are, what is refused, and what lists show of them.

A label and a star are on or off: their id is made of the session and the name, so adding one twice changes nothing. A
score that a person or program gives again replaces its own earlier one. A note has an id of its own. With a ``key``,
which a rule's firing or a program's request has, the id is made of the key, and the annotation is written once.
"""

from __future__ import annotations

import hashlib
import math
import operator
import secrets
import unicodedata
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

AnnotationKind = Literal["note", "score", "label", "star"]
AnnotationSource = Literal["person", "program", "rule"]
Comparison = Literal["<", "<=", "=", ">=", ">"]

MAX_TEXT = 10_000
#: Of a label, and of the name of a score.
MAX_NAME = 64
MAX_AUTHOR = 100
MAX_SCORE = 1e12
#: Of a session; and the same with those that were removed, whose ids are kept.
MAX_PER_SESSION = 1_000
MAX_ROWS_PER_SESSION = 10_000

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
#: They change the direction of the text that follows.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REFUSED = frozenset(("Cc", "Cs", "Zl", "Zp"))


class AnnotationError(ValueError):
    """An annotation is refused; the message says why."""


class AnnotationLimitError(AnnotationError):
    """A session has as many annotations as it may have."""


class NewAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written beside a session."""

    #: The number of the session.
    session: int
    kind: AnnotationKind
    source: AnnotationSource
    author: str
    #: The turn or span that it is about, where it is not the session.
    span_id: bytes | None = None
    #: The name of a score, the label itself.
    name: str = ""
    #: Of a score.
    value: float | None = None
    #: The note, or the comment of a score.
    text: str = ""
    #: Names the firing or request that it comes from: it is written once, and not again after it was removed.
    key: str | None = None

    def checked(self) -> NewAnnotation:
        """The same as it is stored; ``AnnotationError`` for what cannot be."""
        _check_kind(self)
        name = checked_name(self.name, self.kind) if self.kind in ("label", "score") else ""
        value = None if self.value is None else checked_score(self.value)
        author = _line(self.author, "author", MAX_AUTHOR) or "unknown"
        text = checked_text(self.text, required=self.kind == "note")
        return msgspec.structs.replace(self, name=name, value=value, author=author, text=text)

    def new_id(self) -> bytes:
        """Sixteen bytes; the same ones for the same label, star, own score or key."""
        place = (str(self.session), self.kind, self.span_id.hex() if self.span_id else "")
        if self.kind in ("label", "star"):
            return annotation_id(*place, self.name)
        if self.key is not None:
            return annotation_id(*place, self.name, "key", self.source, self.author, self.key)
        if self.kind == "score":
            return annotation_id(*place, self.name, self.source, self.author)
        return secrets.token_bytes(16)


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """A note, score, label or star; times are seconds since the epoch."""

    annotation_id: bytes
    session: int
    span_id: bytes | None
    kind: AnnotationKind
    name: str
    value: float | None
    text: str
    source: AnnotationSource
    #: The name of the person or program, or of the rule.
    author: str
    created_at: float
    changed_at: float
    revision: int


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """What lists show of the annotations of a session."""

    starred: bool = False
    labels: tuple[str, ...] = ()
    #: The latest of each name.
    scores: tuple[tuple[str, float], ...] = ()
    notes: int = 0
    #: Differs when an annotation was changed.
    revision: int = 0


#: Of a session without annotations.
NO_MARKS = Marks()


class ScoreTest(msgspec.Struct, frozen=True):
    """Whether the latest score of a name compares to a value; a session without that score does not match."""

    name: str
    comparison: Comparison
    value: float

    def matches(self, marks: Marks) -> bool:
        """Whether a session with these marks matches."""
        found = dict(marks.scores).get(self.name)
        return found is not None and _COMPARED[self.comparison](found, self.value)


def annotation_id(*parts: str) -> bytes:
    """Sixteen bytes for what these parts name."""
    return hashlib.sha256("\x1f".join(("annotation", *parts)).encode("utf-8", "surrogatepass")).digest()[:16]


class MarkRow(NamedTuple):
    """What of an annotation lists need."""

    annotation_id: bytes
    kind: str
    name: str
    value: float | None
    changed_at: float
    revision: int


def marks_of(annotations: Iterable[Annotation | MarkRow]) -> Marks:
    """What lists show of these annotations of one session; those about its spans are included."""
    found = sorted(annotations, key=lambda each: (each.changed_at, each.annotation_id))
    scores = {each.name: each.value for each in found if each.kind == "score"}
    return Marks(
        starred=any(each.kind == "star" for each in found),
        labels=tuple(sorted({each.name for each in found if each.kind == "label"})),
        scores=tuple(sorted((name, value) for name, value in scores.items() if value is not None)),
        notes=sum(each.kind == "note" for each in found),
        revision=max((each.revision for each in found), default=0),
    )


# -- what is refused ----------------------------------------------------------------------------------------------


def checked_name(name: str, kind: str) -> str:
    """The name of a label or score, trimmed."""
    found = _line(name, kind, MAX_NAME)
    if not found:
        raise AnnotationError(f"a {kind} needs a name")
    return found


def checked_score(value: float) -> float:
    """A number that can be stored and compared."""
    number = float(value)
    if not math.isfinite(number) or abs(number) > MAX_SCORE:
        raise AnnotationError(f"a score is a number between -{MAX_SCORE:.0e} and {MAX_SCORE:.0e}")
    return number


def checked_text(text: str, *, required: bool) -> str:
    """A note or comment, trimmed, with plain line ends."""
    found = unicodedata.normalize("NFC", _valid(text.replace("\r\n", "\n"), "text", "\n\t")).strip()
    if required and not found:
        raise AnnotationError("a note needs a text")
    if len(found) > MAX_TEXT:
        raise AnnotationError(f"a text has at most {MAX_TEXT:,} characters; this one has {len(found):,}")
    return found


def _check_kind(new: NewAnnotation) -> None:
    if (new.value is None) == (new.kind == "score"):
        raise AnnotationError("a score needs a value" if new.kind == "score" else f"a {new.kind} has no value")
    if new.name and new.kind not in ("label", "score"):
        raise AnnotationError(f"a {new.kind} has no name")
    if new.text and new.kind in ("label", "star"):
        raise AnnotationError(f"a {new.kind} has no text")


def _line(text: str, what: str, most: int) -> str:
    found = unicodedata.normalize("NFC", _valid(text, what, "")).strip()
    if len(found) > most:
        raise AnnotationError(f"a {what} has at most {most} characters; this one has {len(found)}")
    return found


def _valid(text: str, what: str, allowed: str) -> str:
    for character in text:
        if character in _DIRECTIONS or (unicodedata.category(character) in _REFUSED and character not in allowed):
            raise AnnotationError(f"the {what} contains a character that is not text (U+{ord(character):04X})")
    return text
