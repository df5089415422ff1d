"""Answers of chains beside their sessions: notes, scores and labels of a rule, each written once."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

from agenttrace.views.transcript import visible

if TYPE_CHECKING:
    from agenttrace.rules.actions.chain import Keep, Kept
    from agenttrace.store.sqlite.store import SqliteStore

_TEXT_CHARACTERS = 10_000
#: Controls, halves of surrogate pairs, separators of lines and paragraphs.
_NO_TEXT = frozenset(("Cc", "Cs", "Zl", "Zp"))
_ANNOTATIONS = "agenttrace.store.annotations"


def kept_in(store: SqliteStore, hide: Callable[[str], str]) -> Keep:
    """Stores what chains answered, in this store; a ``ValueError`` says why something is refused."""
    table: Any = getattr(store, "annotation_table", None)
    if table is None or find_spec(_ANNOTATIONS) is None:
        return _refuse
    new: Any = import_module(_ANNOTATIONS).NewAnnotation

    def keep(kept: Kept) -> None:
        table.put(
            new(
                session=kept.session,
                span_id=kept.span,
                kind=kept.kind,
                source="rule",
                author=kept.author,
                name=as_text(hide(kept.name)),
                value=kept.value,
                text=as_text(hide(kept.text)),
                key=kept.key,
            )
        )

    return keep


def as_text(answer: str) -> str:
    """As much of an answer as a note may have, with characters that are not text as marks."""
    given = normalize("NFC", visible(answer))
    shown = "".join(_mark(char) if category(char) in _NO_TEXT and char not in "\n\t" else char for char in given)
    return shown if len(shown) <= _TEXT_CHARACTERS else shown[: _TEXT_CHARACTERS - 1] + "…"


def _mark(char: str) -> str:
    return f"⟦U+{ord(char):04X}⟧"


def _refuse(kept: Kept) -> None:
    raise ValueError("this store has no place for annotations")
