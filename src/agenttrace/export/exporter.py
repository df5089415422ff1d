"""The exporter: seals recorded traces and runs a courier for each destination; one runs for a data directory."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from agenttrace.config import Settings
from agenttrace.export.assembly import Assembly, Texts
from agenttrace.export.courier import Courier, pause
from agenttrace.export.destination import Destination
from agenttrace.export.journal import Journal
from agenttrace.export.kinds import UnusableDestinationError, destination_of
from agenttrace.export.sealing import Sealer, Target, targets
from agenttrace.export.threads import in_thread
from agenttrace.model import AgentFacts
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import PriceTable
from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.sqlite.store import SqliteStore

logger = logging.getLogger(__name__)

#: Seconds between two passes of sealing.
SEAL_SECONDS = 2.0
#: Errors that are retried: the store may be locked, full or being replaced.
_WAIT_FOR: tuple[type[Exception], ...] = (*STORE_FAILURES, OSError)
#: How long to wait for destinations that confirm later what they have stored.
SETTLE_SECONDS = 90.0


class _Served(NamedTuple):
    """A destination with its open files and connections."""

    courier: Courier
    destination: Destination
    store: SqliteStore
    journal: Journal


class Exporter:
    """Exports the traces of a data directory."""

    def __init__(
        self, settings: Settings, *, texts: Texts, mask: Callable[[str], str], agents: Mapping[str, AgentFacts]
    ) -> None:
        self.settings = settings
        self._texts = texts
        self._mask = mask
        self._agents = agents
        self._cashier = Cashier(PriceTable.load(settings), settings.usage)
        #: Destinations that cannot be used, with the reason.
        self.unusable: dict[str, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Seal and deliver until ``stop`` is set."""
        served = await asyncio.to_thread(self._open)
        try:
            await self._serve(served, stop)
        finally:
            await self._close(served)

    async def run_once(
        self,
        *,
        quiet_seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_round: Callable[[], None] = lambda: None,
    ) -> dict[str, str]:
        """Send everything that can be sealed now; returns, by destination, why spans are left.

        ``quiet_seconds``: instead of the setting, such as 0 where no recorder runs. ``stop``: whether to end after the
        running requests.
        """
        served = await asyncio.to_thread(self._open)
        try:
            await asyncio.to_thread(self._seal, quiet_seconds, stop)
            await asyncio.gather(*(self._empty(each, stop, on_round) for each in served))
            return self.unusable | await asyncio.to_thread(self._left_over, served)
        finally:
            await self._close(served)

    def _open(self) -> list[_Served]:
        with self._opened() as store:
            store.exports.destinations.keep(self.settings.destinations)
            wanted = targets(store, self.settings)
        served = []
        for target in wanted:
            try:
                destination = destination_of(target.settings)
            except UnusableDestinationError as error:
                self.unusable[target.settings.name] = str(error)
                logger.warning("destination %s is not used: %s", target.settings.name, error)
                continue
            served.append(self._served(target, destination))
        with self._opened() as store:
            store.exports.destinations.keep_unusable(self.unusable)
        return served

    def _served(self, target: Target, destination: Destination) -> _Served:
        store, number = self._opened(), target.row.destination_id
        assembly = Assembly(
            store, target.settings, texts=self._texts, mask=self._mask, cashier=self._cashier, agents=self._agents
        )
        journal = Journal(self.settings.home, target.settings.name)
        journal.fill(store.exports.ledger, number)
        courier = Courier(store.exports, target.settings, number, destination, assembly, journal)
        return _Served(courier, destination, store, journal)

    def _opened(self) -> SqliteStore:
        store = open_store(self.settings, read_only=False)
        # After a loss of power a span without its ``sending`` state would be sent again.
        store.sync_every_commit()
        return store

    async def _serve(self, served: Sequence[_Served], stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_sealing(stop))
            for each in served:
                group.create_task(self._keep_delivering(each.courier, stop))

    async def _keep_sealing(self, stop: asyncio.Event) -> None:
        with await asyncio.to_thread(self._opened) as store:
            sealer = Sealer(store, self.settings)
            while not stop.is_set():
                await self._surviving("sealing", stop, lambda: in_thread(sealer.run, stop.is_set))
                await pause(stop, SEAL_SECONDS)

    async def _keep_delivering(self, courier: Courier, stop: asyncio.Event) -> None:
        name = f"delivery to {courier.settings.name}"
        while not stop.is_set():
            await self._surviving(name, stop, lambda: courier.run(stop))

    async def _surviving(self, what: str, stop: asyncio.Event, work: Callable[[], Awaitable[object]]) -> None:
        """Log an error of the store, and let the caller retry after a pause."""
        try:
            await work()
        except _WAIT_FOR as error:
            logger.warning("%s waits for the store: %s", what, error)
            await pause(stop, 5.0)

    def _seal(self, quiet_seconds: float | None, stop: Callable[[], bool]) -> None:
        with self._opened() as store:
            Sealer(store, self.settings).run(stop, quiet_seconds)

    async def _empty(self, served: _Served, stop: Callable[[], bool], on_round: Callable[[], None]) -> None:
        give_up = time.monotonic() + SETTLE_SECONDS
        while not stop():
            if await served.courier.deliver():
                give_up = time.monotonic() + SETTLE_SECONDS
            elif time.monotonic() > give_up or not await served.courier.is_unsettled():
                return
            else:
                await asyncio.sleep(0.5)
            on_round()

    def _left_over(self, served: Sequence[_Served]) -> dict[str, str]:
        with open_store(self.settings) as store:
            found = store.exports.ledger.counts()
            rows = {target.settings.name: target.row for target in targets(store, self.settings)}
        left = {}
        for each in served:
            row = rows[each.courier.settings.name]
            states = found.get(row.destination_id, {})
            queued, sent = states.get("queued", 0), states.get("sending", 0)
            if queued:
                why = "paused" if row.paused else row.last_error or "not sent"
                left[row.name] = f"{queued + sent} spans wait ({why})"
            elif sent:
                left[row.name] = f"{sent} spans were sent and are not confirmed yet"
            else:
                annotations, problem = each.courier.annotations_left()
                if annotations:
                    why = "paused" if row.paused else problem or "not sent"
                    left[row.name] = f"{annotations} notes, scores or labels wait ({why})"
        return left

    async def _close(self, served: Sequence[_Served]) -> None:
        for each in served:
            with suppress(Exception):
                await each.destination.close()
            each.journal.close()
            each.store.close()
