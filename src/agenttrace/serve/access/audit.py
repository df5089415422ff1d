"""Changes through the API, each with its entry in the audit log."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Request

from agenttrace.serve.access.audit_log import DONE, AuditLog
from agenttrace.serve.access.store import AccessStore
from agenttrace.serve.access.visitor import visitor
from agenttrace.serve.problems import ProblemError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Change:
    """A change under way; what it is about may be said more exactly before it ends."""

    target: str


@asynccontextmanager
async def audited(request: Request, action: str, target: str) -> AsyncIterator[Change]:
    """Have what happens inside in the audit log: who, when, what, on what, and how it ended.

    The entry is written first: where that fails, nothing is changed either.
    """
    access: AccessStore = request.app.state.access
    who = visitor(request)
    number = await asyncio.to_thread(access.audit.begin, who.name, who.address, action, target)
    change = Change(target)
    try:
        yield change
    except ProblemError as error:
        await asyncio.to_thread(_end, access.audit, number, error.detail, change)
        raise
    except Exception as error:
        await asyncio.to_thread(_end, access.audit, number, type(error).__name__, change)
        raise
    except BaseException as error:
        # Cancelled: waiting for a thread would be cancelled as well.
        _end(access.audit, number, type(error).__name__, change)
        raise
    await asyncio.to_thread(_end, access.audit, number, DONE, change)


def _end(log: AuditLog, number: int, outcome: str, change: Change) -> None:
    """Write the outcome; the change is made or has failed for its own reason, whether this can be written or not."""
    try:
        log.end(number, outcome, change.target)
    except sqlite3.Error as error:
        logger.error("the outcome of entry %d of the audit log could not be written: %s", number, error)
