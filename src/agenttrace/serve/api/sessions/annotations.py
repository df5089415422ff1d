"""``/api/v1/sessions/{session}/annotations``: notes, scores, labels and the star of a session."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeVar

import msgspec
from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import Field

from agenttrace.model import Session
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import visit, visitor
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.lookup import SessionName, query_session, session_named, span_of
from agenttrace.serve.api.shapes.sessions import Annotation, AnnotationList
from agenttrace.serve.api.trace_reader import change_beside
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.problems import ProblemError
from agenttrace.store.annotations import Annotation as StoredAnnotation
from agenttrace.store.annotations import AnnotationError, AnnotationLimitError, AnnotationSource, NewAnnotation
from agenttrace.views.annotations import annotation_fields

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store
    from agenttrace.store.writable import WritableStore

T = TypeVar("T")

_ERRORS = (400, 401, 404, 409, 422, 503)
_ID = re.compile(r"[0-9a-f]{32}")

AnnotationName = Annotated[str, Path(max_length=64, description="Its id: 32 hexadecimal digits.")]
#: As in the IETF draft; longer ones are refused.
IdempotencyKey = Annotated[
    str | None,
    Header(max_length=255, description="Names the request: a repeated one writes nothing, and is answered alike."),
]


class AnnotationBody(StrictModel):
    """A note, score, label or star."""

    kind: Literal["note", "score", "label", "star"]
    name: Annotated[str, Field(description="The label, or what is scored.")] = ""
    value: Annotated[float | None, Field(description="Of a score.")] = None
    text: Annotated[str, Field(description="The note, or the comment of a score.")] = ""
    span_id: Annotated[str | None, Field(description="The turn or span that it is about.")] = None


class AnnotationChange(StrictModel):
    """Another text of a note, another value or comment of a score."""

    text: str | None = None
    value: float | None = None


def annotations_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    path = "/sessions/{session}/annotations"

    @router.get(path, **endpoint("Notes, scores, labels and the star of a session", AnnotationList, 404, 409, 422))
    async def show(request: Request, session: SessionName) -> Response:
        return answer(request, await query_session(context.reader, session, _listed))

    @router.post(
        path,
        **endpoint("Add a note, score, label or star", Annotation, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(
            AnnotationBody, {"kind": "note", "text": "look at this"}, {"kind": "score", "name": "quality", "value": 4}
        ),
    )
    async def add(request: Request, session: SessionName, idempotency_key: IdempotencyKey = None) -> Response:
        body = await read_body(request, AnnotationBody)
        source, author = _writer(request)

        def write(store: WritableStore, found: Session) -> StoredAnnotation:
            new = NewAnnotation(
                session=found.id,
                kind=body.kind,
                source=source,
                author=author,
                span_id=_span(store, found, body.span_id),
                name=body.name,
                value=body.value,
                text=body.text,
                key=idempotency_key or None,
            )
            return store.annotation_table.put(new)[0]

        async with audited(request, f"{body.kind}.add", session):
            return answer(request, _shaped(await _change(context, session, write)))

    @router.patch(
        f"{path}/{{annotation}}",
        **endpoint("Change a note or score", Annotation, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(AnnotationChange, {"text": "look at this again"}, {"value": 3}),
    )
    async def change(request: Request, session: SessionName, annotation: AnnotationName) -> Response:
        body = await read_body(request, AnnotationChange)

        def write(store: WritableStore, found: Session) -> StoredAnnotation:
            key = _named(store, found, annotation)
            return store.annotation_table.change(key, text=body.text, value=body.value) or _missing()

        async with audited(request, "annotation.change", f"{session} {annotation}"):
            return answer(request, _shaped(await _change(context, session, write)))

    @router.delete(
        f"{path}/{{annotation}}",
        **endpoint("Remove a note, score, label or star", AnnotationList, *_ERRORS, for_admins=True),
    )
    async def remove(request: Request, session: SessionName, annotation: AnnotationName) -> Response:
        def write(store: WritableStore, found: Session) -> AnnotationList:
            store.annotation_table.remove(_named(store, found, annotation))
            return _listed(store, found)

        async with audited(request, "annotation.remove", f"{session} {annotation}"):
            return answer(request, await _change(context, session, write))

    return router


async def _change(context: ServerContext, name: str, write: Callable[[WritableStore, Session], T]) -> T:
    """Change the annotations of a session; 422 for what is refused, 409 where a session has too many."""

    def change(store: WritableStore) -> T:
        try:
            return write(store, session_named(store, name))
        except AnnotationLimitError as error:
            raise ProblemError(409, f"{_sentence(error)}.") from None
        except AnnotationError as error:
            raise ProblemError(422, f"{_sentence(error)}.") from None

    return await change_beside(context.reader.source, change, empty=_no_session)


def _writer(request: Request) -> tuple[AnnotationSource, str]:
    """Who writes: a program has an API token, a person logged in."""
    name, login = visitor(request).name, visit(request).login
    if login is not None and login.kind == "token":
        return "program", name.removeprefix("token:")
    return "person", name


def _span(store: Store, found: Session, name: str | None) -> bytes | None:
    if name is None:
        return None
    wanted = span_of(name)
    if not store.span_places(found.id, [wanted]):
        raise ProblemError(404, "The session has no such span.")
    return wanted


def _named(store: Store, found: Session, name: str) -> bytes:
    """The id of an annotation of this session; 404 where it has none of that id."""
    known = store.annotation(bytes.fromhex(name)) if _ID.fullmatch(name) else None
    return _missing() if known is None or known.session != found.id else known.annotation_id


def _listed(store: Store, found: Session) -> AnnotationList:
    return AnnotationList([_shaped(each) for each in store.annotations([found.id]).get(found.id, [])])


def _shaped(annotation: StoredAnnotation) -> Annotation:
    return msgspec.convert(annotation_fields(annotation), Annotation)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def _missing() -> NoReturn:
    raise ProblemError(404, "The session has no such annotation.")


def _no_session() -> NoReturn:
    raise ProblemError(404, "There is no such session.")
