"""``GET /api/v1/sessions/{session}/export``: a session as a file, written while it is read.

The file is sent in pieces, each from a short transaction, so that neither memory nor the store's maintenance depends on
the length of the session or the speed of the client.

Every download is masked unless an admin asks for all of it, and the audit log has it either way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from agenttrace.config import Settings
from agenttrace.model import Session
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.redaction import redacted, redacted_line, redacted_session
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import NotAdminError, visitor
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.api.sessions.session_pages import HtmlPage, MarkdownPage
from agenttrace.serve.problems import documented
from agenttrace.views.transcript import DocumentWriter, Transcript, TranscriptSpan, facts_of

if TYPE_CHECKING:
    from agenttrace.masking import Mask
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

Format = Literal["html", "md", "jsonl"]
Full = Annotated[bool, Query(description="As it was recorded, secrets included. Only admins may ask for it.")]
_MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
#: A piece is sent when it has reached this size.
_PIECE_BYTES = 1 << 18
_LINES_AT_ONCE = 100
_BLOCK_BYTES = 4 << 20

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {name.partition(";")[0]: {} for name in _MEDIA_TYPES.values()}}
}

#: Makes the next piece; an empty one is the last.
Pieces = Callable[["Store"], bytes]


@asynccontextmanager
async def downloading(request: Request, settings: Settings, what: str, *, full: bool) -> AsyncIterator[Mask | None]:
    """The mask for a download; ``None`` for an admin who asks for everything."""
    # Compiling its patterns takes a moment, which the start of the server should not wait for.
    from agenttrace.masking import Mask

    mask = Mask(settings.export.mask)
    async with audited(request, "download.full" if full else "download", mask.text(what)):
        who = visitor(request)
        if full and who.role != "admin":
            raise NotAdminError(who.name)
        yield None if full else mask


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
        format: Format = "html",  # noqa: A002 - its name
        full: Full = False,
    ) -> StreamingResponse:
        def question(store: Store, found: Session) -> tuple[str, Pieces]:
            # Every line is read once: a separate cache leaves the shared one to the pages.
            texts = SessionTexts(context.reader.texts.index, _BLOCK_BYTES)
            name = file_name(found if mask is None else redacted_session(found, mask.text), format)
            if format == "jsonl":
                return name, LineDownload(store, found, texts, mask).more
            page: DocumentWriter = HtmlPage() if format == "html" else MarkdownPage()
            return name, DocumentDownload(store, found, page, texts, context.index.prices, mask).more

        async with downloading(request, context.settings, f"session {session}, {format}", full=full) as mask:
            name, more = await query_session(context.reader, session, question)

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await context.reader.query(more, empty=bytes):
                yield piece

        return StreamingResponse(pieces(), headers=attachment(name), media_type=_MEDIA_TYPES[format])

    return router


def file_name(session: Session, ending: str) -> str:
    """A name for the file that is safe in a shell, a header and a file system."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{session.agent}-{session.session_id}")
    return f"{name[:120].strip('.-') or 'session'}.{ending}"


class LineDownload:
    """The recorded lines in the order in which they were recorded; without a mask as they were."""

    def __init__(self, store: Store, session: Session, texts: SessionTexts, mask: Mask | None) -> None:
        self._blocks, self._mask = texts.blocks, mask
        self._numbers = store.session_events(session.id)
        self._written = 0

    def more(self, store: Store) -> bytes:
        """The next lines."""
        piece = bytearray()
        while self._written < len(self._numbers) and len(piece) < _PIECE_BYTES:
            part = self._numbers[self._written : self._written + _LINES_AT_ONCE]
            last = part[-1]
            for line in store.lines_by_number(part, self._blocks):
                piece += (line.raw if self._mask is None else redacted_line(line.raw, self._mask)) + b"\n"
                if len(piece) >= _PIECE_BYTES:
                    last = line.event_no  # the others are in the next piece
                    break
            self._written = bisect_right(self._numbers, last)
        return bytes(piece)


class DocumentDownload:
    """A page about the session, span by span; each is masked whole before it is written."""

    def __init__(
        self,
        store: Store,
        session: Session,
        page: DocumentWriter,
        texts: SessionTexts,
        prices: Cashier,
        mask: Mask | None,
    ) -> None:
        self._page = page
        self._transcript = Transcript(store, session, texts, prices)
        self._hide = None if mask is None else mask.text
        bill = prices.bill(store.usage_by_session([session.id]).get(session.id, ()))
        if self._hide is not None:
            session, bill.models = redacted_session(session, self._hide), redacted(bill.models, self._hide)
        self._begun = page.begin(session, facts_of(session, bill))
        self._ended = False

    def more(self, store: Store) -> bytes:
        """The next spans."""
        parts, self._begun = [self._begun], ""
        length = 0
        while length < _PIECE_BYTES and not self._ended:
            told = self._transcript.more(store)
            parts += map(self._written, told)
            length = sum(map(len, parts))
            if not told:
                parts.append(self._page.end())
                self._ended = True
        return "".join(parts).encode("utf-8", "replace")

    def _written(self, told: TranscriptSpan) -> str:
        return self._page.span(told if self._hide is None else redacted(told, self._hide))
