"""The exporter: seals recorded traces and runs a courier for each destination; one runs for a data directory."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from agenttrace.config import Settings
from agenttrace.export.assembly import Assembly, Texts
from agenttrace.export.courier import Courier
from agenttrace.export.destination import Destination
from agenttrace.export.journal import Journal
from agenttrace.export.kinds import UnusableDestinationError, destination_of
from agenttrace.export.sealing import Sealer, Target, targets, team_targets
from agenttrace.export.threads import in_thread, pause
from agenttrace.model import AgentFacts
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import PriceTable
from agenttrace.redaction import LineMask
from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.team.figures import Figures
from agenttrace.team.levels import Sharing
from agenttrace.team.membership import Membership, NotJoinedError, membership_of
from agenttrace.team.pages import PageReader
from agenttrace.team.pusher import Pusher

logger = logging.getLogger(__name__)

#: Seconds between two passes of sealing.
SEAL_SECONDS = 2.0
#: Errors that are retried: the store may be locked, full or being replaced.
_WAIT_FOR: tuple[type[Exception], ...] = (*STORE_FAILURES, OSError)
#: How long to wait for destinations that confirm later what they have stored.
SETTLE_SECONDS = 90.0
#: How often it is looked whether to stop, while the server of a team has enough for now.
_SLOWED_SECONDS = 0.5


class _Served(NamedTuple):
    """A destination of spans with its open files and connections."""

    courier: Courier
    destination: Destination
    store: SqliteStore
    journal: Journal


class _Team(NamedTuple):
    """The server of a team, with its open store."""

    name: str
    pusher: Pusher
    store: SqliteStore


class _Open(NamedTuple):
    """Everything that is served."""

    spans: list[_Served]
    teams: list[_Team]


class Exporter:
    """Exports the traces of a data directory."""

    def __init__(self, settings: Settings, *, texts: Texts, mask: LineMask, agents: Mapping[str, AgentFacts]) -> None:
        self.settings = settings
        self._texts = texts
        self._mask = mask
        self._agents = agents
        self._prices = PriceTable.load(settings)
        self._cashier = Cashier(self._prices, settings.usage)
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
            await asyncio.gather(
                *(self._empty(each, stop, on_round) for each in served.spans),
                *(self._push_all(each.pusher, stop, on_round) for each in served.teams),
            )
            return self.unusable | await asyncio.to_thread(self._left_over, served)
        finally:
            await self._close(served)

    def _open(self) -> _Open:
        with self._opened() as store:
            store.exports.destinations.keep(self.settings.destinations)
            wanted, teams = targets(store, self.settings), team_targets(store, self.settings)
        served = _Open([], [])
        for target in wanted:
            try:
                destination = destination_of(target.settings)
            except UnusableDestinationError as error:
                self.unusable[target.settings.name] = str(error)
                logger.warning("destination %s is not used: %s", target.settings.name, error)
                continue
            served.spans.append(self._served(target, destination))
        for target in teams:
            try:
                membership = membership_of(self.settings.home, target.settings.url)
            except NotJoinedError as error:
                self.unusable[target.settings.name] = str(error)
                logger.warning("the team of %s gets nothing: %s", target.settings.name, error)
                continue
            served.teams.append(self._team(target, membership))
        with self._opened() as store:
            store.exports.destinations.keep_unusable(self.unusable)
        return served

    def _served(self, target: Target, destination: Destination) -> _Served:
        store, number = self._opened(), target.row.destination_id
        assembly = Assembly(
            store, target.settings, texts=self._texts, mask=self._mask.text, cashier=self._cashier, agents=self._agents
        )
        journal = Journal(self.settings.home, target.settings.name)
        journal.fill(store.exports.ledger, number)
        courier = Courier(store.exports, target.settings, number, destination, assembly, journal)
        return _Served(courier, destination, store, journal)

    def _team(self, target: Target, membership: Membership) -> _Team:
        store, wanted = self._opened(), target.settings
        reader = PageReader(
            store,
            target.row.destination_id,
            sharing=Sharing(level=wanted.level, projects=wanted.project_levels),
            mask=self._mask,
            figures=lambda names: Figures(
                bytes.fromhex(membership.key), names, agents=self._agents, prices=self._prices
            ),
        )
        pusher = Pusher(
            store,
            target.row.destination_id,
            reader,
            url=membership.url,
            token=membership.token,
            timeout=wanted.timeout_seconds,
            since=target.row.since,
        )
        return _Team(wanted.name, pusher, store)

    def _opened(self) -> SqliteStore:
        store = open_store(self.settings, read_only=False)
        # After a loss of power a span without its ``sending`` state would be sent again.
        store.sync_every_commit()
        return store

    async def _serve(self, served: _Open, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_sealing(stop))
            for each in served.spans:
                group.create_task(self._keep_delivering(each.courier.settings.name, each.courier, stop))
            for team in served.teams:
                group.create_task(self._keep_delivering(team.name, team.pusher, stop))

    async def _keep_sealing(self, stop: asyncio.Event) -> None:
        with await asyncio.to_thread(self._opened) as store:
            sealer = Sealer(store, self.settings)
            while not stop.is_set():
                await self._surviving("sealing", stop, lambda: in_thread(sealer.run, stop.is_set))
                await pause(stop, SEAL_SECONDS)

    async def _keep_delivering(self, destination: str, courier: Courier | Pusher, stop: asyncio.Event) -> None:
        name = f"delivery to {destination}"
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

    async def _push_all(self, pusher: Pusher, stop: Callable[[], bool], on_round: Callable[[], None]) -> None:
        """Push until everything is acknowledged, or the server has to be waited for."""
        while not stop():
            if await pusher.deliver():
                on_round()
            elif pusher.is_slowed:
                await asyncio.sleep(min(pusher.waits, _SLOWED_SECONDS))
            else:
                return

    def _left_over(self, served: _Open) -> dict[str, str]:
        with open_store(self.settings) as store:
            found = store.exports.ledger.counts()
            rows = {target.settings.name: target.row for target in targets(store, self.settings)}
        left = {team.name: why for team in served.teams if (why := team.pusher.left())}
        for each in served.spans:
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

    async def _close(self, served: _Open) -> None:
        for team in served.teams:
            await team.pusher.close()
            team.store.close()
        for each in served.spans:
            with suppress(Exception):
                await each.destination.close()
            each.journal.close()
            each.store.close()
