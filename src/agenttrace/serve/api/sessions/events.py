"""``/api/v1/events/{event_no}``: a recorded line as it was, and where it stood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

from fastapi import APIRouter, Path, Request, Response

from agenttrace.model import Session
from agenttrace.record.texts.contents import Interpreter
from agenttrace.redaction import redacted_line
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.sessions.downloading import Full, downloading
from agenttrace.serve.api.sessions.finding import ref_of
from agenttrace.serve.api.shapes import EventDetail
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.questions import EventLine
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

#: Of a line this much is shown.
MOST_CHARS = 1_000_000

EventNo = Annotated[int, Path(ge=1, lt=2**63, description="The event's number.")]
_LINE: dict[int | str, dict[str, Any]] = {200: {"description": "The line.", "content": {"text/plain": {}}}}


class _Event(NamedTuple):
    session: Session
    line: EventLine


def events_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["events"])

    @router.get(
        "/events/{event_no}",
        summary="A recorded line",
        responses=shaped(EventDetail) | documented(404, 422),
    )
    async def one(request: Request, event_no: EventNo) -> Response:
        def question(store: SqliteStore) -> Response:
            return answer(request, _detail(store, _event(store, event_no)))

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
            event = await context.reader.query(lambda store: _event(store, event_no), empty=_none)
            line = event.line.raw if mask is None else redacted_line(event.line.raw, mask)
        headers = {
            "Content-Disposition": f'attachment; filename="event-{event_no}.txt"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
        }
        return Response(line, headers=headers, media_type="text/plain")

    return router


def _none() -> NoReturn:
    raise ProblemError(404, "There is no such event, or its text was pruned.")


def _event(store: SqliteStore, event_no: int) -> _Event:
    line = next(store.lines_by_number([event_no]), None)
    sessions = [] if line is None else store.sessions_by_number([line.session])
    return _Event(sessions[0], line) if line is not None and sessions else _none()


def _detail(store: SqliteStore, event: _Event) -> EventDetail:
    line = event.line
    said = Interpreter(store).said(line)
    text = line.raw.decode("utf-8", "replace")
    return EventDetail(
        event_no=line.event_no,
        at=None if said is None else iso(said.event.at),
        session=ref_of(event.session),
        type=line.event_type,
        turn_index=line.turn_index,
        step_n=line.step_n,
        span_id=None if line.span_id is None else line.span_id.hex(),
        span=store.span_name(event.session.id, line.span_id),
        file=store.file_source(line.file_id).path,
        offset=line.offset,
        length=len(line.raw),
        raw=text[:MOST_CHARS],
        cut=len(text) > MOST_CHARS,
    )
