"""``GET /api/v1/sessions/{session}/export`` and ``/share``: a session as a file, and what is masked in it.

The file is sent in pieces, each from a short transaction, so that neither memory nor the store's maintenance depends on
the length of the session or the speed of the client.

Every download is masked unless an admin asks for all of it, and the audit log has it either way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from agenttrace.config import Settings
from agenttrace.model import Session
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import NotAdminError, visitor
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.problems import documented
from agenttrace.share.options import MOST_PLACES, ShareFormat, ShareOptions, SharePreview

if TYPE_CHECKING:
    from agenttrace.masking import Mask
    from agenttrace.serve.context import ServerContext
    from agenttrace.share.document import ShareJob
    from agenttrace.store.store import Store

Full = Annotated[bool, Query(description="As it was recorded, secrets included. Only admins may ask for it.")]
HidePaths = Annotated[bool, Query(description="Mask the names of users in paths, such as `/home/NAME`.")]
WithTools = Annotated[bool, Query(description="With tool calls; without them prompts and answers only.")]
_MEDIA_TYPES: dict[ShareFormat, str] = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {name.partition(";")[0]: {} for name in _MEDIA_TYPES.values()}}
}


@asynccontextmanager
async def downloading(request: Request, settings: Settings, what: str, *, full: bool) -> AsyncIterator[Mask | None]:
    """The mask for a download; ``None`` for an admin who asks for everything."""
    mask = new_mask(settings)
    async with audited(request, "download.full" if full else "download", mask.text(what)):
        who = visitor(request)
        if full and who.role != "admin":
            raise NotAdminError(who)
        yield None if full else mask


def new_mask(settings: Settings) -> Mask:
    """The mask of these settings."""
    # Compiling its patterns takes a moment, which the start of the server should not wait for.
    from agenttrace.masking import Mask

    return Mask(settings.export.mask)


def attachment(name: str) -> dict[str, str]:
    """The headers of a file that a browser saves."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }


def downloads_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])

    @router.get(
        "/sessions/{session}/export",
        summary="A session as a file",
        description="Secrets are masked. The audit log says who took it.",
        response_class=StreamingResponse,
        responses=_ANSWER | documented(403, 404, 409, 422),
    )
    async def export(
        request: Request,
        session: SessionName,
        format: ShareFormat = "html",  # noqa: A002 - its name
        full: Full = False,
        hide_paths: HidePaths = False,
        tools: WithTools = True,
    ) -> StreamingResponse:
        options = ShareOptions(format=format, secrets=full, hide_paths=hide_paths, tools=tools)
        async with downloading(request, context.settings, f"session {session}, {format}", full=full) as mask:
            job = await query_session(context.reader, session, started(options, mask))

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await context.reader.query(job.more, empty=bytes):
                yield piece

        return StreamingResponse(pieces(), headers=attachment(job.name), media_type=_MEDIA_TYPES[format])

    @router.get(
        "/sessions/{session}/share",
        **endpoint("What is masked in the file of a session", SharePreview, 404, 409, 422),
        description="The names of what is masked, how often, and where. Nothing that is masked is in the answer.",
    )
    async def preview(
        request: Request,
        session: SessionName,
        format: ShareFormat = "html",  # noqa: A002 - its name
        hide_paths: HidePaths = False,
        tools: WithTools = True,
    ) -> Response:
        options = ShareOptions(format=format, hide_paths=hide_paths, tools=tools)
        job = await query_session(context.reader, session, started(options, new_mask(context.settings), MOST_PLACES))
        size = 0
        while piece := await context.reader.query(job.more, empty=bytes):
            size += len(piece)
        return answer(request, job.preview(size))

    def started(options: ShareOptions, mask: Mask | None, places: int = 0) -> Callable[[Store, Session], ShareJob]:
        # As the mask: not at the start of the server.
        from agenttrace.share.document import ShareJob

        texts, prices = context.reader.texts, context.index.prices
        return lambda store, found: ShareJob(
            store, found, options, mask=mask, prices=prices, texts=texts, places=places
        )

    return router
