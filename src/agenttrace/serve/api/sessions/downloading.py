"""What holds for every download: masked unless an admin asks for all of it, and in the audit log either way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request

from agenttrace.config import Settings
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import NotAdminError, visitor

if TYPE_CHECKING:
    from agenttrace.masking import Mask

Full = Annotated[bool, Query(description="As it was recorded, secrets included. Only admins may ask for it.")]


@asynccontextmanager
async def downloading(request: Request, settings: Settings, what: str, *, full: bool) -> AsyncIterator[Mask | None]:
    """What the download is to be masked with; ``None`` for an admin who asks for everything."""
    # Its patterns take a moment to be made, which no start of the server should wait for.
    from agenttrace.masking import Mask

    mask = Mask(settings.export.mask)
    async with audited(request, "download.full" if full else "download", mask.text(what)):
        who = visitor(request)
        if full and who.role != "admin":
            raise NotAdminError(who.name)
        yield None if full else mask
