"""``/api/v1/views``: saved views of the lists, each user's own and those that are shared with all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.saved_views import (
    LONGEST_SEARCH,
    SavedView,
    SavedViewError,
    TooManyViewsError,
    ViewPage,
)
from agenttrace.serve.access.visitor import visitor
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.shapes import settings as shapes
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError

T = TypeVar("T")

_ERRORS = (400, 401, 403, 404, 409, 422)
#: Longer ones are no name; which is refused with a better sentence.
_Name = Annotated[str, Field(max_length=500)]
_Search = Annotated[str, Field(max_length=2 * LONGEST_SEARCH)]
ViewId = Annotated[str, Path(max_length=64, description="The id of a view.")]


class NewView(StrictModel):
    """A view to be saved; one of the same name on the page is replaced."""

    page: ViewPage
    name: _Name
    #: The part of the page's address after the `?`.
    search: _Search
    shared: bool = False


class ViewChange(StrictModel):
    """What is to be changed of a view."""

    name: _Name | None = None
    search: _Search | None = None
    shared: bool | None = None


def saved_views_router(context: ServerContext) -> APIRouter:
    """The endpoints; every user, viewers too, may save views."""
    router = APIRouter(prefix="/api/v1", tags=["settings"])
    views = context.access.views

    def shown(request: Request, view: SavedView) -> shapes.SavedView:
        owner = visitor(request).name
        return shapes.SavedView(
            view.id, view.page, view.name, view.search, view.shared, view.owner, view.owner == owner
        )

    def listed(request: Request) -> shapes.SavedViewList:
        return shapes.SavedViewList([shown(request, each) for each in views.visible_to(visitor(request).name)])

    def own(request: Request, number: str, *, admins: bool = False) -> SavedView:
        """A view that the visitor may change; 404 for those of others that are not shared."""
        who, found = visitor(request), views.get(number)
        if found is None or (found.owner != who.name and not found.shared):
            raise ProblemError(404, "There is no such view.")
        if found.owner != who.name and not (admins and who.role == "admin"):
            raise ProblemError(403, f"The view belongs to {found.owner}. Save it under a name of your own.")
        return found

    @router.get("/views", **endpoint("Saved views", shapes.SavedViewList, 401))
    async def list_views(request: Request) -> Response:
        return answer(request, listed(request))

    @router.post(
        "/views",
        **endpoint("Save a view", shapes.SavedView, *_ERRORS),
        openapi_extra=documented_body(
            NewView,
            {"page": "sessions", "name": "Failed yesterday", "search": "errors=true&since=yesterday&until=today"},
        ),
    )
    async def save(request: Request) -> Response:
        body = await read_body(request, NewView)
        owner = visitor(request).name
        async with audited(request, "view.save", f"{body.page}: {body.name}"):
            saved = await _done(lambda: views.put(owner, body.page, body.name, body.search, body.shared))
        return answer(request, shown(request, saved))

    @router.patch(
        "/views/{view}",
        **endpoint("Rename, change or share a view", shapes.SavedView, *_ERRORS),
        openapi_extra=documented_body(ViewChange, {"shared": True}, {"name": "Failed today"}),
    )
    async def change(request: Request, view: ViewId) -> Response:
        body = await read_body(request, ViewChange)
        found = own(request, view)
        async with audited(request, "view.change", f"{found.page}: {found.name}"):
            changed = await _done(lambda: views.change(found, name=body.name, search=body.search, shared=body.shared))
        return answer(request, shown(request, changed))

    @router.delete("/views/{view}", **endpoint("Remove a view", shapes.SavedViewList, *_ERRORS))
    async def remove(request: Request, view: ViewId) -> Response:
        found = own(request, view, admins=True)
        async with audited(request, "view.remove", f"{found.page}: {found.name}"):
            await _done(lambda: views.remove(found.id))
        return answer(request, listed(request))

    return router


async def _done(change: Callable[[], T]) -> T:
    """The result of a change; 422 for what is refused, 409 where there are too many."""
    try:
        return await asyncio.to_thread(change)
    except TooManyViewsError as error:
        raise ProblemError(409, str(error)) from None
    except SavedViewError as error:
        raise ProblemError(422, str(error)) from None
