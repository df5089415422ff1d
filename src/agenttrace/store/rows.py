"""Rows of a store as they are copied to another one.

Every row has a key that does not depend on the store, and a revision that grows when it changes. ``changes_since``
reads them from a store. ``merge`` writes them into another one: of two rows with one key the larger revision wins, so
rows may come in any order and any number of times. Numbers of spans and events give their order in the first store.

What only concerns one machine is not copied: how far files were read, the state of folding, quarantined lines, the
queues of exports. Rows that retention removed stay in the copy.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.annotations import AnnotationKind, AnnotationSource

RemovedKind = Literal["span", "response", "session"]
#: What rows are of, in cursors and where some kinds are asked for; files come with the events of their lines.
RowKind = Literal["session", "removed", "link", "total", "span", "response", "annotation", "event"]


class StoredSession(msgspec.Struct, frozen=True, tag="session"):
    """A session; its state is the last one in its log."""

    session: Session
    revision: int


class StoredSpan(msgspec.Struct, frozen=True, tag="span"):
    """A span of a session; ``attributes`` is JSON."""

    number: int
    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    session: int
    stream: str
    kind: str
    name: str
    start: int
    end: int | None
    status: str
    model: str | None
    turn_index: int
    step_n: int
    response: bytes | None
    attributes: str | None
    revision: int


class LinkRow(msgspec.Struct, frozen=True, tag="link"):
    """Which tool call the stream of a subagent belongs to; a link never changes."""

    session: int
    stream: str
    parent_stream: str
    call: str


class ResponseRow(msgspec.Struct, frozen=True, tag="response"):
    """The tokens of a model response, and the session that owns it. Days and prices depend on the store."""

    response: bytes
    session: int
    at: int
    model: str
    estimated: bool
    copies: int
    terms: str
    usage: Usage
    revision: int


class TotalRow(msgspec.Struct, frozen=True, tag="total"):
    """What an agent says of its own usage: see ``store.totals``."""

    session: int
    scope: str
    whose: str
    name: str
    moment: int
    model: str
    at: int
    since: int
    trace_id: bytes
    parent_id: bytes | None
    turn_index: int
    usage: Usage
    revision: int


class FileOfLines(msgspec.Struct, frozen=True, tag="file"):
    """The log file that lines came from; ``source`` is what its format remembers of it, as JSON."""

    file_id: int
    path: str
    source: bytes | None
    revision: int


class EventRow(msgspec.Struct, frozen=True, tag="event"):
    """An event with its line; an event never changes."""

    number: int
    session: int
    event_id: bytes
    turn_index: int
    step_n: int
    event_type: str
    span_id: bytes | None
    recorded_at: float
    file_id: int
    generation: int
    offset: int
    raw: bytes


class AnnotationRow(msgspec.Struct, frozen=True, tag="annotation"):
    """A note, score, label or star beside a session; a removed one says when, and has no text any more."""

    annotation_id: bytes
    session: int
    span_id: bytes | None
    kind: AnnotationKind
    name: str
    value: float | None
    text: str
    source: AnnotationSource
    author: str
    created_at: float
    changed_at: float
    removed_at: float | None
    revision: int


class RemovedRow(msgspec.Struct, frozen=True, tag="removed"):
    """A row that is gone: a span, a response, or all spans and events of a session up to a revision and an event."""

    kind: RemovedKind
    session: int
    key: bytes
    revision: int
    last_event: int


Row = (
    StoredSession | StoredSpan | LinkRow | ResponseRow | TotalRow | FileOfLines | EventRow | AnnotationRow | RemovedRow
)


#: Which row of its kind: the parts of its key.
RowPlace = tuple[int | str, ...]


class ChangesCursor(msgspec.Struct, frozen=True, array_like=True):
    """How far changes were read.

    A round of reading covers the revisions and events after ``since`` and up to ``until``. A row that changes while the
    round goes on is read again in the next round.
    """

    since: tuple[int, int] = (-1, 0)
    until: tuple[int, int] = (-1, 0)
    #: Which kind of rows is read, and after which of them; reading between two rounds has no kind.
    kind: str = ""
    place: RowPlace = ()


class Changes(msgspec.Struct, frozen=True):
    """Rows that changed, and where to go on; without rows there is nothing new."""

    rows: list[Row]
    cursor: ChangesCursor
