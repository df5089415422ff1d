"""Writing annotations, whichever engine holds the rows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec

from agenttrace.store.annotations import (
    MAX_PER_SESSION,
    MAX_ROWS_PER_SESSION,
    Annotation,
    AnnotationError,
    AnnotationLimitError,
    NewAnnotation,
    checked_score,
    checked_text,
)
from agenttrace.store.rows import AnnotationRow


class AnnotationTable(ABC):
    """Writes annotations; each change is a transaction of its own, where the engine has such."""

    # -- what an engine has -----------------------------------------------------------------------------------

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _next_revision(self) -> int: ...

    @abstractmethod
    def _whole_session(self, session: int) -> int:
        """The session itself, or the one that it became part of."""

    @abstractmethod
    def _row(self, key: bytes) -> AnnotationRow | None: ...

    @abstractmethod
    def _named(self, session: int, kind: str, name: str) -> list[AnnotationRow]: ...

    @abstractmethod
    def _counts(self, session: int) -> tuple[int, int] | None:
        """How many rows a session has, and how many of them are present; ``None`` where there is no such session."""

    @abstractmethod
    def _write(self, rows: Sequence[AnnotationRow]) -> None: ...

    # -- what is written --------------------------------------------------------------------------------------

    def put(self, new: NewAnnotation, *, now: float | None = None) -> tuple[Annotation, bool]:
        """Write an annotation; it as it is stored, and whether that changed something.

        With a ``key``, and for a label or star that is there, nothing changes the second time. What was removed comes
        back only without a key. ``AnnotationError`` where it is refused.
        """
        wanted = new.checked()
        key = wanted.new_id()
        moment = time.time() if now is None else now
        with self._transaction():
            # The id stays what it would have been before the session became part of another one.
            wanted = msgspec.structs.replace(wanted, session=self._whole_session(wanted.session))
            known = self._row(key) or self._present(wanted)
            if known is not None and (wanted.key is not None or _is_same(known, wanted)):
                return _shown(known), False
            if known is None or known.removed_at is not None:
                self._check_room(wanted.session)
            row = AnnotationRow(
                key,
                wanted.session,
                wanted.span_id,
                wanted.kind,
                wanted.name,
                wanted.value,
                wanted.text,
                wanted.source,
                wanted.author,
                moment if known is None or known.removed_at is not None else known.created_at,
                moment,
                None,
                self._next_revision(),
            )
            self._write([row])
        return _shown(row), True

    def change(self, annotation_id: bytes, *, text: str | None = None, value: float | None = None) -> Annotation | None:
        """Change the text of a note or the value and comment of a score; ``None`` where there is no such one."""
        with self._transaction():
            known = self._row(annotation_id)
            if known is None or known.removed_at is not None:
                return None
            if known.kind not in ("note", "score") or (value is not None and known.kind != "score"):
                raise AnnotationError(f"a {known.kind} has no {'text' if value is None else 'value'}")
            row = msgspec.structs.replace(
                known,
                text=known.text if text is None else checked_text(text, required=known.kind == "note"),
                value=known.value if value is None else checked_score(value),
                changed_at=time.time(),
                revision=self._next_revision(),
            )
            self._write([row])
        return _shown(row)

    def remove(self, annotation_id: bytes) -> bool:
        """Remove an annotation; false where there is no such one."""
        with self._transaction():
            known = self._row(annotation_id)
            return known is not None and self._remove([known]) > 0

    def remove_named(self, session: int, kind: str, name: str = "") -> int:
        """Remove a label or the star of a session; how many that were."""
        with self._transaction():
            return self._remove(self._named(session, kind, name))

    def _remove(self, rows: Sequence[AnnotationRow]) -> int:
        revision, now = self._next_revision(), time.time()
        gone = [
            msgspec.structs.replace(row, text="", changed_at=now, removed_at=now, revision=revision)
            for row in rows
            if row.removed_at is None
        ]
        self._write(gone)
        return len(gone)

    def _present(self, wanted: NewAnnotation) -> AnnotationRow | None:
        """The same label or star under another id: of a session that became part of this one."""
        if wanted.kind not in ("label", "star"):
            return None
        found = self._named(wanted.session, wanted.kind, wanted.name)
        return next((row for row in found if row.span_id == wanted.span_id and row.removed_at is None), None)

    def _check_room(self, session: int) -> None:
        counts = self._counts(session)
        if counts is None:
            raise AnnotationError("there is no such session")
        rows, present = counts
        if present >= MAX_PER_SESSION or rows >= MAX_ROWS_PER_SESSION:
            raise AnnotationLimitError(f"a session has at most {MAX_PER_SESSION:,} annotations; remove some first")


def _is_same(known: AnnotationRow, wanted: NewAnnotation) -> bool:
    same = (known.value, known.text) == (wanted.value, wanted.text)
    return known.removed_at is None and same


def _shown(row: AnnotationRow) -> Annotation:
    return Annotation(**{name: getattr(row, name) for name in Annotation.__struct_fields__})
