"""Answers of chains beside their sessions: notes, scores and labels of a rule, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from agenttrace.store.annotations import NewAnnotation
from agenttrace.views.transcript import visible

if TYPE_CHECKING:
    from agenttrace.rules.actions.chain import Keep, Kept
    from agenttrace.store.rule_store import RuleStore

_TEXT_CHARACTERS = 10_000
#: Controls, halves of surrogate pairs, separators of lines and paragraphs.
_NO_TEXT = frozenset(("Cc", "Cs", "Zl", "Zp"))


def kept_in(store: RuleStore, hide: Callable[[str], str]) -> Keep:
    """Stores what chains answered, in this store; a ``ValueError`` says why something is refused."""

    def keep(kept: Kept) -> None:
        store.annotation_table.put(
            NewAnnotation(
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
