"""Writing the audit log from the server's loop: entries that wait at the same time share one transaction."""

from __future__ import annotations

import asyncio

from agenttrace.serve.access.audit_log import AuditLog, Beginning, Ending


class AuditWriter:
    """Waits for the disk in a thread, once for all entries that came in the meantime."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._waiting: list[tuple[Beginning | Ending, asyncio.Future[int]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, step: Beginning | Ending) -> int:
        """The number of the entry, once it is on the disk; raises what SQLite says."""
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await written

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                numbers = await asyncio.to_thread(self._log.write, [step for step, _ in batch])
            except Exception as error:
                for _, written in batch:
                    if not written.done():
                        written.set_exception(error)
                continue
            for (_, written), number in zip(batch, numbers, strict=True):
                if not written.done():
                    written.set_result(number)
