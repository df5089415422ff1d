"""What a machine shares of its sessions: everything, everything with secrets masked, or figures only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from agenttrace.projects import project_matches
from agenttrace.redaction import LineMask, redacted, redacted_line, redacted_session
from agenttrace.store.rows import EventRow, FileOfLines, Row, StoredSession, StoredSpan

Level = Literal["full", "masked", "figures"]
LEVELS: tuple[Level, ...] = get_args(Level)


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """The level of a machine, and other levels of some projects by glob; the first that matches counts."""

    level: Level = "full"
    projects: Mapping[str, Level] = {}

    def of(self, project: str | None) -> Level:
        """The level of a session; while its project is not known, the strictest one of all."""
        if project is None and self.projects:
            return max(self.level, *self.projects.values(), key=LEVELS.index)
        return next((level for glob, level in self.projects.items() if project_matches(project, [glob])), self.level)


def masked_rows(rows: Iterable[Row], mask: LineMask) -> list[Row]:
    """The same rows with secrets masked in every text, raw lines included."""
    return [_masked(row, mask) for row in rows]


def _masked(row: Row, mask: LineMask) -> Row:
    if isinstance(row, EventRow):
        return redacted(msgspec.structs.replace(row, raw=redacted_line(row.raw, mask)), mask.text)
    if isinstance(row, StoredSession):
        return StoredSession(redacted_session(row.session, mask.text), row.revision)
    if isinstance(row, StoredSpan):
        return _with(row, mask.text, attributes=row.attributes and _masked_fields(row.attributes, mask))
    if isinstance(row, FileOfLines):
        return _with(row, mask.text, source=row.source and redacted_line(row.source, mask))
    return redacted(row, mask.text)


def _with(row: Row, hide: Callable[[str], str], **changed: Any) -> Row:  # noqa: ANN401 - fields of a row
    """The row masked, with fields that were masked in a way of their own."""
    return msgspec.structs.replace(redacted(row, hide, keep=tuple(changed)), **changed)


def _masked_fields(text: str, mask: LineMask) -> str | None:
    """Attributes by field; they have beginnings of texts, which may be cut in the middle of a secret."""
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.json.encode(redacted(mask.value(given), mask.text)).decode()
