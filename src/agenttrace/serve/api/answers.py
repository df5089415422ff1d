"""Answers of ``/api/v1``: JSON with an entity tag, cached where it is slow, and its part of the OpenAPI document."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import Depends, Request, Response

from agenttrace.serve.access.visitor import admin
from agenttrace.serve.problems import documented
from agenttrace.store.sight import Sight, current_sight

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

#: A slow answer is cached for longer: building it takes at most one part in this many of the time.
_SHARE = 10
#: Members and viewers of a team for whom answers are cached.
_MOST_SIGHTS = 100

_encoder = msgspec.json.Encoder()
_SHAPES: dict[str, type[msgspec.Struct]] = {}
_REFERENCES = "#/components/schemas/{name}"


def answer(request: Request, data: object, *, tag: str | None = None) -> Response:
    """The data as JSON, or 304 where the caller has just this; ``tag`` names its version where that is known."""
    body = _encoder.encode(data)
    return tagged(request, body, tag or tag_of(body), "application/json")


def tag_of(content: bytes) -> str:
    """The entity tag of some content."""
    return hashlib.blake2b(content, digest_size=9).hexdigest()


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


# -- shapes -------------------------------------------------------------------------------------------------------


def shape_of(kind: type[S], fields: Mapping[str, Any]) -> S:
    """The shape, made of those fields that it has."""
    return kind(**{name: fields[name] for name in kind.__struct_fields__})


def shaped(shape: type[msgspec.Struct], description: str = "") -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an endpoint that answers with this shape."""
    _SHAPES[shape.__name__] = shape
    content = {"application/json": {"schema": {"$ref": _REFERENCES.format(name=shape.__name__)}}}
    text = description or (shape.__doc__ or "").splitlines()[0]
    return {200: {"description": text, "content": content}, 304: {"description": "Nothing has changed."}}


def endpoint(summary: str, shape: type[msgspec.Struct], *errors: int, for_admins: bool = False) -> dict[str, Any]:
    """The arguments of an endpoint: its summary, what it answers with, and its errors."""
    refused = (403,) if for_admins else ()
    responses = shaped(shape) | documented(*sorted((*errors, *refused)))
    return {"summary": summary, "responses": responses, "dependencies": [Depends(admin)] if for_admins else []}


def schemas() -> dict[str, Any]:
    """All shapes that endpoints answer with, and those inside them, for the OpenAPI document."""
    _, components = msgspec.json.schema_components(_SHAPES.values(), ref_template=_REFERENCES)
    return dict(components)


# -- caching ------------------------------------------------------------------------------------------------------


class PerSight(Generic[T]):
    """One value for each of the sights that were used last; one machine has one sight."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[Sight | None, T] = {}

    def get(self) -> T:
        """The value for the request that is being answered."""
        sight = current_sight()
        found = self._values.pop(sight, None) or self._make()
        self._values[sight] = found
        if len(self._values) > _MOST_SIGHTS:
            del self._values[next(iter(self._values))]
        return found

    def all(self) -> list[T]:
        """The values of all sights."""
        return list(self._values.values())


class Cached(Generic[T]):
    """A value that is built again when it is asked for and older than so many seconds: once for all pages that ask.

    With the version of what it is built from, an old value is also used as long as that is the same.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[T]],
        seconds: float,
        *,
        version: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._each = PerSight(lambda: _CachedOne(make, seconds, version))

    async def get(self) -> T:
        """The latest value; callers that come while it is built wait for it, and build no second one."""
        return await self._each.get().get()

    async def invalidate(self) -> None:
        """Build it again for the next caller."""
        for each in self._each.all():
            await each.invalidate()


class _CachedOne(Generic[T]):
    """The same for one sight."""

    def __init__(
        self, make: Callable[[], Awaitable[T]], seconds: float, version: Callable[[], Awaitable[object]] | None
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._version = version
        self._made_from: object = None
        self._lock = asyncio.Lock()
        self._made: T | None = None
        self._expires = 0.0

    async def get(self) -> T:
        """The latest value; callers that come while it is built wait for it, and build no second one."""
        async with self._lock:
            began = time.monotonic()
            if self._made is None or began >= self._expires:
                version = None if self._version is None else await self._version()
                if self._made is None or version is None or version != self._made_from:
                    self._made, self._made_from = await self._make(), version
                    ended = time.monotonic()
                    self._expires = ended + max(self._seconds, (ended - began) * _SHARE)
            return self._made

    async def invalidate(self) -> None:
        """Build it again for the next caller."""
        async with self._lock:
            self._expires, self._made_from = 0.0, None
