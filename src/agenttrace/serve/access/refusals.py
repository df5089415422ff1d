"""Wrong tokens: answered later and later, and written into the audit log a few lines at a time.

The right token is never kept waiting: everybody on this machine has one address, so a pause for all would be a way to
lock the owner out. Tokens are too long to be guessed; the delay makes trying not worth it, and the log shows it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agenttrace.serve.access.attempts import network_of
from agenttrace.serve.access.audit_log import REFUSED, AuditLog, Beginning
from agenttrace.serve.access.users import NOBODY
from agenttrace.serve.problems import ProblemError

logger = logging.getLogger(__name__)

#: So many wrong tokens of an address are answered at once.
FREE = 5
#: Of all addresses together: an address can be made up behind a proxy.
FREE_IN_ALL = 50
FIRST_SECONDS, LONGEST_SECONDS = 0.1, 2.0
#: Silence after which an address begins anew.
FORGET_SECONDS = 600.0
#: Addresses that are remembered, and answers that are held back at the same time.
MOST_ADDRESSES, MOST_WAITING, MOST_WAITING_OF_ONE = 10_000, 100, 10
#: The audit log gets what was refused in portions: this often, and so many lines each time.
PORTION_SECONDS, MOST_LINES = 10.0, 20


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Refused:
    user: str
    address: str
    action: str
    target: str


_REST = _Refused(NOBODY, "many addresses", "refused", "")


class Refusals:
    """What was refused, by whom, of one server process."""

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
        self._pending: Counter[_Refused] = Counter()
        self._noting, self._flushing = threading.Lock(), threading.Lock()
        self._writing: asyncio.Task[None] | None = None

    async def wrong(self, address: str, target: str, *, action: str = "token") -> None:
        """A wrong token was brought: note it and hold the answer back; raises 429 where too many are held already."""
        self.note(NOBODY, address, action, target)
        key = network_of(address)
        failures = self._failures_of(key)
        seconds = max(self._counted(failures, FREE), self._counted(self._all, FREE_IN_ALL))
        if seconds <= 0:
            return
        if self._all.waiting >= MOST_WAITING or failures.waiting >= MOST_WAITING_OF_ONE:
            raise _slow_down(seconds)
        failures.waiting += 1
        self._all.waiting += 1
        try:
            await self.sleep(seconds)
        finally:
            failures.waiting -= 1
            self._all.waiting -= 1

    def note(self, user: str, address: str, action: str, target: str) -> None:
        """Have it in the audit log soon, together with others of its kind."""
        refused = _Refused(user, address, action, target)
        with self._noting:
            if refused not in self._pending and len(self._pending) >= MOST_LINES:
                # Made-up addresses and paths fill one line, not the disk.
                refused = _REST
            self._pending[refused] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    def close(self) -> None:
        """Write what is left."""
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
            # Those of the same moment go together.
            await asyncio.sleep(0)
            await asyncio.to_thread(self._flush)
            await asyncio.sleep(PORTION_SECONDS)

    def _flush(self) -> None:
        """Write what is there; who closes the file waits for another thread that is at it."""
        with self._flushing:
            with self._noting:
                pending, self._pending = self._pending, Counter()
            if not pending:
                return
            try:
                self._audit.write([_entry(refused, count) for refused, count in pending.items()])
            except sqlite3.Error as error:
                # A full disk is no reason to answer otherwise.
                logger.warning("%d refusals could not be written into the audit log: %s", pending.total(), error)


def _entry(refused: _Refused, count: int) -> Beginning:
    times = "" if count == 1 else f"{count} times"
    target = ", ".join(filter(None, (refused.target, times)))
    return Beginning(user=refused.user, address=refused.address, action=refused.action, target=target, outcome=REFUSED)


def _slow_down(seconds: float) -> ProblemError:
    wait = max(1, math.ceil(seconds))
    headers = {"Retry-After": str(wait), "Connection": "close"}
    return ProblemError(429, f"Too many wrong tokens; try again in {wait} seconds.", headers=headers, retry_after=wait)
