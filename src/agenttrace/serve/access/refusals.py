"""Wrong tokens: answered later and later, and written into the audit log a few lines at a time.

The right token never waits: all users of this machine have one address, so a pause for all would lock the owner out.
Tokens are too long to be guessed; the delay makes guessing not worth it, and the log shows it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agenttrace.serve.access.audit import REFUSED, AuditLog, Beginning
from agenttrace.serve.access.failed_logins import network_of
from agenttrace.serve.access.users import NOBODY
from agenttrace.serve.problems import SlowDownError

logger = logging.getLogger(__name__)

#: So many wrong tokens of an address are answered at once.
FREE = 5
#: Of all addresses together: behind a proxy a client can invent an address.
FREE_IN_ALL = 50
FIRST_SECONDS, LONGEST_SECONDS = 0.1, 2.0
#: Silence after which the count of an address is reset.
FORGET_SECONDS = 600.0
#: Addresses in memory, and answers that are delayed at the same time.
MOST_ADDRESSES, MOST_WAITING, MOST_WAITING_OF_ONE = 10_000, 100, 10
#: Refusals are written to the audit log in portions: this often, and so many lines each time.
PORTION_SECONDS, MOST_LINES = 10.0, 20


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    waiting: int = 0


#: In place of refusals beyond the limit.
_REST = Beginning(user=NOBODY, address="many addresses", action="refused", target="", outcome=REFUSED)


class Refusals:
    """The refusals of one server process."""

    def __init__(
        self,
        audit: AuditLog,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._audit, self._clock, self.sleep = audit, clock, sleep
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._all = _Failures()
        self._pending: Counter[Beginning] = Counter()
        self._noting, self._flushing = threading.Lock(), threading.Lock()
        self._writing: asyncio.Task[None] | None = None

    async def wrong(self, address: str, target: str, *, action: str = "token") -> None:
        """Record a wrong token and delay the answer; raises 429 where too many are delayed already."""
        self.note(NOBODY, address, action, target)
        key = network_of(address)
        failures = self._failures_of(key)
        seconds = max(self._counted(failures, FREE), self._counted(self._all, FREE_IN_ALL))
        if seconds <= 0:
            return
        if self._all.waiting >= MOST_WAITING or failures.waiting >= MOST_WAITING_OF_ONE:
            raise SlowDownError("wrong tokens", seconds, Connection="close")
        failures.waiting += 1
        self._all.waiting += 1
        try:
            await self.sleep(seconds)
        finally:
            failures.waiting -= 1
            self._all.waiting -= 1

    def note(self, user: str, address: str, action: str, target: str) -> None:
        """Write it to the audit log soon, together with others of its kind."""
        refused = Beginning(user=user, address=address, action=action, target=target, outcome=REFUSED)
        with self._noting:
            if refused not in self._pending and len(self._pending) >= MOST_LINES:
                # Invented addresses and paths share one line.
                refused = _REST
            self._pending[refused] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    def close(self) -> None:
        """Write pending refusals."""
        if self._writing is not None and not self._writing.done():
            self._writing.cancel()
        self._flush()

    def _failures_of(self, key: str) -> _Failures:
        found = self._addresses.pop(key, None) or _Failures()
        self._addresses[key] = found
        if len(self._addresses) > MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        return found

    def _counted(self, failures: _Failures, free: int) -> float:
        """How long the answer waits, with this failure counted."""
        now = self._clock()
        if now - failures.last > FORGET_SECONDS:
            failures.count = 0
        failures.count, failures.last = failures.count + 1, now
        above = failures.count - free
        return 0.0 if above <= 0 else min(FIRST_SECONDS * 2 ** min(above - 1, 30), LONGEST_SECONDS)

    async def _write(self) -> None:
        while self._pending:
            # Refusals of the same moment share a portion.
            await asyncio.sleep(0)
            await asyncio.to_thread(self._flush)
            await asyncio.sleep(PORTION_SECONDS)

    def _flush(self) -> None:
        """Write pending refusals; ``close`` waits for another thread that does."""
        with self._flushing:
            with self._noting:
                pending, self._pending = self._pending, Counter()
            if not pending:
                return
            try:
                self._audit.write([_entry(refused, count) for refused, count in pending.items()])
            except sqlite3.Error as error:
                # A full disk does not change the answer.
                logger.warning("%d refusals could not be written into the audit log: %s", pending.total(), error)


def _entry(refused: Beginning, count: int) -> Beginning:
    times = "" if count == 1 else f"{count} times"
    return replace(refused, target=", ".join(filter(None, (refused.target, times))))
