"""Answers of ``/api/v1``: JSON with an entity tag, pages with a cursor, and all of it in the OpenAPI document."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Query, Request, Response

from agenttrace.serve.api.shapes import Shape
from agenttrace.serve.problems import ProblemError
from agenttrace.views import cursors
from agenttrace.views.cursors import BIGGEST as BIGGEST
from agenttrace.views.cursors import Natural as Natural
from agenttrace.views.cursors import to_cursor as to_cursor

S = TypeVar("S", bound=Shape)
T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]

_encoder = msgspec.json.Encoder()
_SHAPES: dict[str, type[Shape]] = {}
_REFERENCES = "#/components/schemas/{name}"


def answer(request: Request, data: object, *, tag: str | None = None) -> Response:
    """The data as JSON, or 304 where the caller has just this; ``tag`` names its version where that is known."""
    body = _encoder.encode(data)
    return tagged(request, body, tag or hashlib.blake2b(body, digest_size=9).hexdigest(), "application/json")


def tagged(request: Request, body: bytes, tag: str, media_type: str) -> Response:
    """A body with its entity tag, or 304."""
    known = unchanged(request, tag)
    if known is not None:
        return known
    return Response(body, 200, _headers(tag), media_type)


def unchanged(request: Request, tag: str) -> Response | None:
    """304, where the caller has the version of this tag already; checked before the answer is built."""
    given = request.headers.get("if-none-match", "")
    tags = {part.strip().removeprefix("W/") for part in given.split(",")}
    return Response(status_code=304, headers=_headers(tag)) if f'"{tag}"' in tags else None


def _headers(tag: str) -> dict[str, str]:
    # The page asks each time and mostly gets 304; recorded texts must not be in a cache on disk.
    return {"ETag": f'W/"{tag}"', "Cache-Control": "private, no-cache"}


def from_cursor(cursor: str | None, kind: type[T]) -> T | None:
    """The place that a cursor names, as a tuple of this type; 400 for a cursor of another list."""
    if cursor is None:
        return None
    try:
        return cursors.from_cursor(cursor, kind)
    except cursors.NotACursorError:
        raise ProblemError(400, "The cursor is not one of this list; begin without one.") from None


def shape_of(kind: type[S], fields: Mapping[str, Any]) -> S:
    """The shape, made of those fields that it has."""
    return kind(**{name: fields[name] for name in kind.__struct_fields__})


def shaped(shape: type[Shape], description: str = "") -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an endpoint that answers with this shape."""
    _SHAPES[shape.__name__] = shape
    content = {"application/json": {"schema": {"$ref": _REFERENCES.format(name=shape.__name__)}}}
    text = description or (shape.__doc__ or "").splitlines()[0]
    return {200: {"description": text, "content": content}, 304: {"description": "Nothing has changed."}}


def schemas() -> dict[str, Any]:
    """All shapes that endpoints answer with, and those inside them, for the OpenAPI document."""
    _, components = msgspec.json.schema_components(_SHAPES.values(), ref_template=_REFERENCES)
    return dict(components)
