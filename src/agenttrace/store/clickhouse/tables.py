"""Rows of other stores as rows of these tables: how each kind is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import USAGE_FIELDS, Session, Usage
from agenttrace.prices.table import variant_of
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.words import words_of
from agenttrace.store.questions import folded, title_of
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    StoredSession,
    StoredSpan,
    TotalRow,
)

SESSION_FIELDS = tuple(field.name for field in msgspec.structs.fields(Session))
SPAN_FIELDS = StoredSpan.__struct_fields__[:-1]
ANNOTATION_FIELDS = AnnotationRow.__struct_fields__[:-1]
_REVISED = ("ver", "deleted", "revision")

#: Edits on a server between two revisions of a machine's annotation: see ``annotation_version``.
EDIT_BITS = 12


class Table(NamedTuple):
    """A table, and the columns that are written."""

    name: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, name: str, *columns: str) -> Table:
        """A table with these columns and those that every table has."""
        return cls(name, (*columns, *_REVISED))


SESSIONS = Table.of("sessions", "origin", *SESSION_FIELDS, "folded_project", "folded_title", "folded_words")
SPANS = Table.of("spans", "origin", *SPAN_FIELDS, "changed")
LINKS = Table.of("links", "origin", *LinkRow.__struct_fields__)
RESPONSES = Table.of(
    "responses",
    *("origin", "response", "session", "at", "day", "model", "estimated", "copies", "terms", "variant"),
    *USAGE_FIELDS,
)
TOTALS = Table.of("totals", "origin", *TotalRow.__struct_fields__[:-2], *USAGE_FIELDS)
FILES = Table.of("files", "origin", "file_id", "path", "source")
EVENTS = Table.of("events", "origin", *EventRow.__struct_fields__, "arrived")
ANNOTATIONS = Table.of("annotations", "origin", *ANNOTATION_FIELDS, "words")
REMOVED = Table.of("removed", "origin", "kind", "session", "key", "last_event")
COPIES = Table.of("copies", "session", "origin", "events")
#: Of a removed row only the key counts.
REMOVED_SESSIONS = Table.of("sessions", "origin", "id")
REMOVED_SPANS = Table.of("spans", "origin", "session", "span_id")

Values = tuple[Any, ...]


class Stamp(NamedTuple):
    """Whose rows are written, and when."""

    origin: str
    #: The revision of what came now; ``None``: rows keep the one that they have.
    revision: int | None
    #: The last event when a span was written.
    changed: int

    def of(self, revision: int, *, deleted: bool = False) -> tuple[int, int, int]:
        """The columns that every table has."""
        return 2 * revision + deleted, int(deleted), revision if self.revision is None else self.revision


def session_values(row: StoredSession, stamp: Stamp) -> Values:
    """A session with the folded texts that filters compare."""
    session = row.session
    names = (session.session_id, session.project, session.branch, session.model)
    return (
        stamp.origin,
        *msgspec.structs.astuple(session),
        folded(session.project),
        folded(title_of(session), session.session_id, session.project),
        folded(session.title, session.first_prompt, *names),
        *stamp.of(row.revision),
    )


def span_values(row: StoredSpan, stamp: Stamp) -> Values:
    """A span."""
    return stamp.origin, *msgspec.structs.astuple(row)[:-1], stamp.changed, *stamp.of(row.revision)


def link_values(row: LinkRow, stamp: Stamp) -> Values:
    """A link, which never changes."""
    return stamp.origin, *msgspec.structs.astuple(row), *stamp.of(0)


def response_values(row: ResponseRow, stamp: Stamp, day_of: Callable[[int], str]) -> Values:
    """A response with its day and what its price depends on."""
    prompt = row.usage.total - row.usage.output_tokens
    place = (row.response, row.session, row.at, day_of(row.at), row.model, int(row.estimated), row.copies, row.terms)
    variant = variant_of(row.model, prompt, row.at, row.terms)
    return stamp.origin, *place, variant, *_tokens(row.usage), *stamp.of(row.revision)


def total_values(row: TotalRow, stamp: Stamp) -> Values:
    """A total of an agent."""
    return stamp.origin, *msgspec.structs.astuple(row)[:-2], *_tokens(row.usage), *stamp.of(row.revision)


def file_values(row: FileOfLines, stamp: Stamp) -> Values:
    """A file of lines."""
    return stamp.origin, row.file_id, row.path, row.source, *stamp.of(row.revision)


def event_values(row: EventRow, stamp: Stamp, arrived: int) -> Values:
    """An event; of two numbers of one event the larger is it."""
    return stamp.origin, *msgspec.structs.astuple(row), arrived, *stamp.of(row.number)


def annotation_version(revision: int, edits: int = 0) -> int:
    """Edits on this server are newer than what the machine had sent by then, and older than what it sends later."""
    return (revision << EDIT_BITS) + min(edits, (1 << EDIT_BITS) - 1)


def annotation_values(row: AnnotationRow, stamp: Stamp, version: int | None = None) -> Values:
    """An annotation with the words by which it is found."""
    words = words_of("\n".join(filter(None, (row.name, row.text)))) if row.removed_at is None else ""
    ver = annotation_version(row.revision) if version is None else version
    revision = stamp.of(row.revision)[2]
    return stamp.origin, *msgspec.structs.astuple(row)[:-1], words, ver, 0, revision


def removed_values(row: RemovedRow, stamp: Stamp) -> Values:
    """A removal, which stays."""
    return stamp.origin, row.kind, row.session, row.key, row.last_event, *stamp.of(row.revision)


def _tokens(usage: Usage) -> Sequence[int]:
    return msgspec.structs.astuple(usage)


def put(database: Database, table: Table, values: Sequence[Values], *, token: str | None = None) -> None:
    """Store rows of a table."""
    database.insert(table.name, table.columns, values, token=token)
