"""Answers of chains beside their sessions: notes, scores and labels of a rule, each written once."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agenttrace.views.transcript import visible

if TYPE_CHECKING:
    from agenttrace.rules.actions.chain import Keep, Kept
    from agenttrace.store.sqlite.store import SqliteStore

_TEXT_CHARACTERS = 10_000
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
                name=visible(hide(kept.name)),
                value=kept.value,
                text=shortened(visible(hide(kept.text))),
                key=kept.key,
            )
        )

    return keep


def shortened(text: str) -> str:
    """As much of a text as a note may have."""
    return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…"


def _refuse(kept: Kept) -> None:
    raise ValueError("this store has no place for annotations")
