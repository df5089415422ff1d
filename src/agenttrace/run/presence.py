"""The heartbeat of a process: a row of ``biz.ai_processes`` that is renewed every few seconds.

Calls name their process, so the calls of a process without a heartbeat can be closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid

from agenttrace.run.background import ended
from agenttrace.run.postgres.pool import AWAY, Database

logger = logging.getLogger(__name__)

BEAT_SECONDS = 5.0

#: The row is written anew if another process took this one for dead and removed it.
_BEAT = """
INSERT INTO biz.ai_processes (id, role, host, pid) VALUES (%s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET seen_at = now()
"""


class Presence:
    """This process among those that share the database, while entered."""

    def __init__(self, database: Database, role: str, *, every: float = BEAT_SECONDS) -> None:
        self.database = database
        self.role = role
        self.process_id = uuid.uuid4()
        self._every = every
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Presence:
        await self.beat()
        self._beating = asyncio.create_task(self._beat_on(), name="presence")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._beating is not None
        await ended(self._beating)
        try:
            await self.database.execute("DELETE FROM biz.ai_processes WHERE id = %s", [self.process_id])
        except AWAY as error:
            logger.warning(
                "could not sign off (%s); the row will be removed as that of a dead process", type(error).__name__
            )

    async def beat(self) -> None:
        """Renew the row once."""
        await self.database.execute(_BEAT, [self.process_id, self.role, socket.gethostname()[:200], os.getpid()])

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.beat()
            except AWAY as error:
                logger.warning("no heartbeat: the database is away (%s)", type(error).__name__)


async def forget_gone(database: Database, seconds: float) -> int:
    """Remove processes that were not seen for so long; how many."""
    sql = "DELETE FROM biz.ai_processes WHERE seen_at < now() - make_interval(secs => %s)"
    return await database.execute(sql, [seconds])
