"""``GET /api/v1/sessions/{session}/export``: a session as a file, written while it is read.

Nothing waits until the whole file is made: it is told in pieces, each from a short look at the store, so that neither
memory nor the store's own housekeeping notices how long the session is or how slow the reader.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from agenttrace.model import Session
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.redaction import redacted, redacted_line, redacted_session
from agenttrace.serve.api.downloading import Full, downloading
from agenttrace.serve.api.finding import SessionName, no_session, session_named
from agenttrace.serve.api.html_page import HtmlPage
from agenttrace.serve.api.markdown_page import MarkdownPage
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.problems import documented
from agenttrace.views.transcript import DocumentWriter, Transcript, TranscriptSpan, facts_of

if TYPE_CHECKING:
    from agenttrace.masking import Mask
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

Format = Literal["html", "md", "jsonl"]
MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
#: A piece is sent when it has become so long.
_PIECE_BYTES = 1 << 18
_LINES_AT_ONCE = 100
_BLOCK_BYTES = 4 << 20

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {name.partition(";")[0]: {} for name in MEDIA_TYPES.values()}}
}

#: Makes the next piece; an empty one is the last.
Pieces = Callable[["SqliteStore"], bytes]


def downloads_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    texts, prices = session_texts(context.reader), Cashier.load(context.settings)

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
        def question(store: SqliteStore) -> tuple[Session, Pieces]:
            found = session_named(store, session)
            # Every line is read once: what others look at stays at hand for them.
            own = SessionTexts(texts.index, _BLOCK_BYTES)
            shown = found if mask is None else redacted_session(found, mask.text)
            if format == "jsonl":
                return shown, Lines(store, found, own, mask).more
            page: DocumentWriter = HtmlPage() if format == "html" else MarkdownPage()
            return shown, Document(store, found, page, own, prices, mask).more

        async with downloading(request, context.settings, f"session {session}, {format}", full=full) as mask:
            found, more = await context.reader.query(question, empty=no_session)

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await context.reader.query(more, empty=bytes):
                yield piece

        headers = {
            "Content-Disposition": f'attachment; filename="{file_name(found, format)}"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
        }
        return StreamingResponse(pieces(), headers=headers, media_type=MEDIA_TYPES[format])

    return router


def file_name(session: Session, ending: str) -> str:
    """A name for the file that means nothing to a shell, a header or a file system."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{session.agent}-{session.session_id}")
    return f"{name[:120].strip('.-') or 'session'}.{ending}"


class Lines:
    """The recorded lines in the order in which they were recorded; without a mask as they were."""

    def __init__(self, store: SqliteStore, session: Session, texts: SessionTexts, mask: Mask | None) -> None:
        self._blocks, self._mask = texts.blocks, mask
        self._numbers = store.session_events(session.id)
        self._written = 0

    def more(self, store: SqliteStore) -> bytes:
        """The next lines."""
        piece = bytearray()
        while self._written < len(self._numbers) and len(piece) < _PIECE_BYTES:
            part = self._numbers[self._written : self._written + _LINES_AT_ONCE]
            last = part[-1]
            for line in store.lines_by_number(part, self._blocks):
                piece += (line.raw if self._mask is None else redacted_line(line.raw, self._mask)) + b"\n"
                if len(piece) >= _PIECE_BYTES:
                    last = line.event_no  # the others wait for the next piece
                    break
            self._written = bisect_right(self._numbers, last)
        return bytes(piece)


class Document:
    """A page about the session, span by span; each is masked whole before it is written."""

    def __init__(
        self,
        store: SqliteStore,
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
        shown = session
        if self._hide is not None:
            shown, bill.models = redacted_session(session, self._hide), redacted(bill.models, self._hide)
        self._begun = page.begin(shown, facts_of(shown, bill))
        self._ended = False

    def more(self, store: SqliteStore) -> bytes:
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
