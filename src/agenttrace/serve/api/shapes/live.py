"""Messages of the live stream."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.serve.api.shapes.spans import TextPiece


class LiveHello(Shape):
    """The first message of a stream."""

    cursor: int
    version: str
    #: The last notice, from which a stream continues.
    notice: int


class LiveSessions(Shape):
    """Sessions that have changed."""

    cursor: int
    rows: list[SessionRow]


class LiveTexts(Shape):
    """The texts of changed spans of the watched session, each cut after ``chars``."""

    cursor: int
    session: str
    chars: int
    spans: dict[str, list[TextPiece]]


class LiveNotice(Shape):
    """A notification of a rule."""

    #: The same in every stream, also of a store that was rebuilt.
    id: str
    firing: int
    rule: str
    title: str
    text: str
    at: str | None
    #: The key of the session that it is about.
    session: str | None
    span_id: str | None


class LiveNotices(Shape):
    """Notifications of rules."""

    cursor: int
    #: The number of the last one, from which a stream continues.
    notice: int
    items: list[LiveNotice]


class LiveReset(Shape):
    """Too much has changed: load everything again."""

    cursor: int
