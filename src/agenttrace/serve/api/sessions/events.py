"""Recorded lines as they were written: one with its file and offset, the pictures in it, and all of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from fastapi import APIRouter, Path, Query, Request, Response

from agenttrace.model import Session
from agenttrace.record.formats.media import MOST_BYTES, Media, Problem, picture_of
from agenttrace.record.texts.contents import Interpreter
from agenttrace.redaction import redacted_line
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.lists import BIGGEST, Cursor, Limit, Natural, from_cursor, to_cursor
from agenttrace.serve.api.sessions.downloads import Full, attachment, downloading
from agenttrace.serve.api.sessions.lookup import SessionName, query_session, ref_of
from agenttrace.serve.api.shapes.spans import EventDetail, SessionLine, SessionLines
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.questions import EventLine
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

#: Characters of a line that are shown.
_MOST_CHARS = 1_000_000

EventNo = Annotated[int, Path(ge=1, lt=2**63, description="The event's number.")]
_REFUSED: dict[Problem, tuple[int, str]] = {
    "elsewhere": (404, "The line only names the picture; its content is not in the log."),
    "too_large": (413, f"The picture is larger than {MOST_BYTES >> 20} MiB."),
    "unsafe": (415, "Pictures of this format can hold programs and are not shown."),
    "unknown_type": (415, "The content is of a kind that is not known."),
    "damaged": (415, "The content is not a picture, or is damaged."),
    "no_picture": (415, "Only pictures are shown."),
}
_PICTURE: dict[int | str, dict[str, Any]] = {200: {"description": "The picture.", "content": {"image/*": {}}}}
_LINE: dict[int | str, dict[str, Any]] = {200: {"description": "The line.", "content": {"text/plain": {}}}}


def events_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["events"])

    @router.get(
        "/sessions/{session}/lines",
        **endpoint("The recorded lines of a session as they were written", SessionLines, 400, 404, 409, 422),
    )
    async def lines(
        request: Request,
        session: SessionName,
        start: Annotated[int, Query(ge=1, le=BIGGEST, description="From this line on, counted from 1.")] = 1,
        chars: Annotated[int, Query(ge=0, le=20_000, description="How much of each line, in characters.")] = 2_000,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, tuple[Natural])
        first = start - 1 if place is None else place[0]

        def question(store: Store, found: Session) -> Response:
            return answer(request, _lines(store, found, first, limit, chars))

        return await query_session(context.reader, session, question)

    @router.get("/events/{event_no}", **endpoint("A recorded line", EventDetail, 404, 422))
    async def one(request: Request, event_no: EventNo) -> Response:
        def question(store: Store) -> Response:
            return answer(request, _detail(store, *_event(store, event_no)))

        return await context.reader.query(question, empty=_none)

    @router.get(
        "/events/{event_no}/raw",
        summary="A recorded line as a file",
        description="Byte for byte, but for secrets, which are masked. The audit log says who took it.",
        response_class=Response,
        responses=_LINE | documented(403, 404, 422),
    )
    async def raw(request: Request, event_no: EventNo, full: Full = False) -> Response:
        async with downloading(request, context.settings, f"line {event_no}", full=full) as mask:
            _, line = await context.reader.query(lambda store: _event(store, event_no), empty=_none)
            body = line.raw if mask is None else redacted_line(line.raw, mask)
        return Response(body, headers=attachment(f"event-{event_no}.txt"), media_type="text/plain")

    @router.get(
        "/events/{event_no}/media/{number}",
        summary="A picture of a recorded line",
        description="Its type is known from its bytes. Formats that can hold programs, such as SVG, are refused.",
        response_class=Response,
        responses=_PICTURE | documented(404, 413, 415, 422),
    )
    async def media(event_no: EventNo, number: Annotated[int, Path(ge=0, lt=1_000)]) -> Response:
        def question(store: Store) -> Response:
            _, line = _event(store, event_no)
            read = Interpreter(store).read(line, lambda decoded: decoded.agent.media(decoded.event, line.raw))
            found = [] if read is None else read[1]
            if number >= len(found):
                raise ProblemError(404, "The line has no such picture.")
            return _picture(found[number], f"picture-{event_no}-{number}")

        return await context.reader.query(question, empty=_none)

    return router


def _lines(store: Store, session: Session, first: int, limit: int, chars: int) -> SessionLines:
    numbers = store.session_events(session.id)
    page = numbers[first : first + limit]
    places = {event_no: number for number, event_no in enumerate(page, first + 1)}
    interpreter = Interpreter(store)
    items = [
        _session_line(store, interpreter, line, places[line.event_no], chars) for line in store.lines_by_number(page)
    ]
    more = to_cursor(first + limit) if first + limit < len(numbers) else None
    return SessionLines(len(numbers), items, more)


def _session_line(store: Store, interpreter: Interpreter, line: EventLine, number: int, chars: int) -> SessionLine:
    said = interpreter.said(line)
    # A character has at most four bytes: no more of a long line is decoded.
    text = line.raw[: 4 * chars + 4].decode("utf-8", "replace")
    return SessionLine(
        number=number,
        event_no=line.event_no,
        type=line.event_type,
        at=None if said is None else iso(said.event.at),
        span_id=None if line.span_id is None else line.span_id.hex(),
        file=store.file_source(line.file_id).path,
        offset=line.offset,
        length=len(line.raw),
        raw=text[:chars],
        cut=len(text) > chars,
    )


def _picture(media: Media, name: str) -> Response:
    found = picture_of(media)
    if isinstance(found, str):
        raise ProblemError(*_REFUSED[found])
    media_type, body = found
    ending = media_type.removeprefix("image/")
    # Opened by itself it is in a document: nothing in that may run, or ask for anything.
    headers = {
        "Content-Disposition": f'inline; filename="{name}.{ending}"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return Response(body, headers=headers, media_type=media_type)


def _none() -> NoReturn:
    raise ProblemError(404, "There is no such event, or its text was pruned.")


def _event(store: Store, event_no: int) -> tuple[Session, EventLine]:
    line = next(store.lines_by_number([event_no]), None)
    sessions = [] if line is None else store.sessions_by_number([line.session])
    return (sessions[0], line) if line is not None and sessions else _none()


def _detail(store: Store, session: Session, line: EventLine) -> EventDetail:
    said = Interpreter(store).said(line)
    text = line.raw.decode("utf-8", "replace")
    return EventDetail(
        event_no=line.event_no,
        at=None if said is None else iso(said.event.at),
        session=ref_of(session),
        type=line.event_type,
        turn_index=line.turn_index,
        step_n=line.step_n,
        span_id=None if line.span_id is None else line.span_id.hex(),
        span=store.span_name(session.id, line.span_id),
        file=store.file_source(line.file_id).path,
        offset=line.offset,
        length=len(line.raw),
        raw=text[:_MOST_CHARS],
        cut=len(text) > _MOST_CHARS,
    )
