"""Changes through the API, each with its entry in the audit log."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from fastapi import Request

from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit_log import DONE, Beginning, Ending
from agenttrace.serve.access.audit_writer import AuditWriter
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
    writer, who = access.audit_writer, visitor(request)
    number = await writer.write(Beginning(user=who.name, address=who.address, action=action, target=target))
    change = Change(target)
    try:
        yield change
    except ProblemError as error:
        await _end(writer, number, error.detail, change)
        raise
    except Exception as error:
        await _end(writer, number, type(error).__name__, change)
        raise
    except BaseException as error:
        # Cancelled: waiting for a thread would be cancelled as well.
        with _complaining(number):
            access.audit.end(number, type(error).__name__, change.target)
        raise
    await _end(writer, number, DONE, change)


async def _end(writer: AuditWriter, number: int, outcome: str, change: Change) -> None:
    with _complaining(number):
        await writer.write(Ending(number=number, outcome=outcome, target=change.target))


@contextmanager
def _complaining(number: int) -> Iterator[None]:
    """The change is made or has failed for its own reason, whether its outcome can be written or not."""
    try:
        yield
    except sqlite3.Error as error:
        logger.error("the outcome of entry %d of the audit log could not be written: %s", number, error)
