"""A courier brings the queued spans of one destination there, in order, and enters what became of them.

Whatever leaves is entered as ``sending`` first. What nobody answered for is doubtful from then on: a destination that
ignores repeats is sent it again; one that can be read is asked whether it has it; otherwise the user decides. One that
should be asked and cannot be is given up after a while: its spans are ``unknown`` until it answers again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ParamSpec, TypeVar

from agenttrace.destinations import DestinationSettings, keys_hidden
from agenttrace.export.assembly import Assembly, Ready
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.journal import Journal
from agenttrace.redaction import redacted
from agenttrace.store.exports import Entry, State
from agenttrace.store.sqlite.exports import Exports

P = ParamSpec("P")
T = TypeVar("T")

#: How often an idle courier looks for news.
POLL_SECONDS = 1.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
#: A wrong key is not put right within a second.
FIRST_BLOCKED_WAIT = 30.0
#: What was just sent may not be readable yet.
READ_BACK_AFTER = 10.0
#: What was accepted and cannot be read after this long was lost: some need a while to store what they accepted.
LOST_AFTER = 120.0
#: What was sent, and could not be asked for in this long, is unknown.
GIVE_UP_AFTER = 900.0
#: Spans that may be accepted and not yet known to be stored.
MOST_UNCONFIRMED = 2_000
#: After so many breakdowns in a row a destination is sent smaller portions: one of the spans may be the reason.
BREAKDOWNS_BEFORE_HALVING = 2
_DOUBT = "it was sent, and nobody answered"
_NOT_ASKED = f"{_DOUBT}; for {GIVE_UP_AFTER / 60:.0f} minutes the destination could not be asked for it"


class Courier:
    """Serves one destination through a store that no other courier uses."""

    def __init__(
        self,
        exports: Exports,
        settings: DestinationSettings,
        number: int,
        destination: Destination,
        assembly: Assembly,
        journal: Journal,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._number = number
        self._destination = destination
        self._assembly = assembly
        self._journal = journal
        self._exports = exports
        self._ledger = exports.ledger
        self._clock = clock
        self._hide_keys = keys_hidden(settings)
        self._failures = 0
        #: How often in a row the destination broke down.
        self._breakdowns = 0
        self._successes = 0
        #: Spans over which the destination broke down when it got nothing else, and how much it had taken by then.
        self._broke_it: dict[int, int] = {}
        #: Nothing is sent before this moment.
        self._wait_until = 0.0
        #: Nothing is read back before this moment.
        self._read_after = 0.0
        #: How often in a row it could not be read.
        self._read_failures = 0

    @property
    def waits(self) -> float:
        """For how many seconds nothing will be sent."""
        return max(0.0, self._wait_until - self._clock())

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop; a request under way is finished first."""
        # It learns what is at the other end; what is wrong there, the first delivery finds out as well.
        with suppress(Exception):
            await self._destination.check()
        while not stop.is_set():
            busy = await self.deliver()
            if not busy:
                await _sleep(stop, min(max(self.waits, 0.05), POLL_SECONDS) if self.waits else POLL_SECONDS)

    async def deliver(self) -> int:
        """One round: what is doubtful, then one portion of the queue. How many spans were dealt with."""
        if self.waits or await self._call(self._is_paused):
            return 0
        dealt = await self._resolve()
        entries = await self._call(self._ledger.entries, self._number, "queued", self._destination.max_spans)
        if not entries or self.waits or await self._is_ahead():
            return dealt
        chosen = self._portion(entries)
        ready = await self._built(chosen)
        if ready:
            await self._send(ready)
        return dealt + len(chosen)

    async def is_unsettled(self) -> bool:
        """Whether something was sent of which will soon be known whether it is there."""
        if self.waits or self._read_failures or await self._call(self._is_paused):
            return False
        return bool(await self._call(self._ledger.entries, self._number, "sending", 1))

    async def _is_ahead(self) -> bool:
        """Whether so much was accepted and not yet stored that more would only be lost with it."""
        if self._destination.accepted_is_stored:
            return False
        waiting = await self._call(self._ledger.entries, self._number, "sending", MOST_UNCONFIRMED)
        return len(waiting) >= MOST_UNCONFIRMED

    def _portion(self, entries: list[Entry]) -> list[Entry]:
        """What is sent next: all of it, or less while the destination breaks down over something in it."""
        size = len(entries) >> max(0, self._breakdowns - BREAKDOWNS_BEFORE_HALVING)
        if size > 1:
            return entries[:size]
        # One that broke it alone is passed over until another one was taken: perhaps it is down for everybody.
        untried = [entry for entry in entries if self._broke_it.get(entry.queue_no) != self._successes]
        return (untried or entries)[:1]

    def _is_paused(self) -> bool:
        return self._exports.destinations.is_paused(self._number)

    async def _built(self, entries: Sequence[Entry]) -> list[Ready]:
        ready, gone = await self._call(self._assembly.build, entries)
        if gone:
            await self._mark(gone, "dropped", "removed from the store before it was sent")
        return ready

    # -- sending ----------------------------------------------------------------------------------------------

    async def _send(self, ready: Sequence[Ready]) -> None:
        """Send a portion; where it is too much, or one span in it is refused, its halves."""
        await self._call(self._leave, ready)
        try:
            delivery = await self._destination.send([each.span for each in ready])
        except asyncio.CancelledError:
            raise  # they stay doubtful
        except Exception as error:  # a fault of ours must not end the courier, nor hide
            delivery = Delivery(verdict="unknown", reason=f"{type(error).__name__}: {error}")
        # Here answers enter the ledger, which many may read.
        delivery = redacted(delivery, self._hidden, keep=("verdict",))
        again = await self._entered(ready, delivery)
        if again:
            middle = len(ready) // 2
            for half in (ready[:middle], ready[middle:]):
                if self.waits:
                    await self._mark([each.entry for each in half], "queued", delivery.reason)
                else:
                    await self._send(half)

    def _hidden(self, text: str) -> str:
        return self._assembly.mask(self._hide_keys(text))

    def _leave(self, ready: Sequence[Ready]) -> None:
        self._journal.add("S", [each.entry.place for each in ready])
        self._ledger.send({each.entry.queue_no: each.digest for each in ready})

    async def _entered(self, ready: Sequence[Ready], delivery: Delivery) -> bool:
        """Enter what became of a portion; True where its halves are to be sent instead."""
        entries = [each.entry for each in ready]
        match delivery.verdict:
            case "accepted":
                await self._accept(ready, delivery)
            case "retry" | "blocked":
                await self._mark(entries, "queued", delivery.reason)
                self._back_off(delivery)
            case "refused" | "too_large":
                if len(ready) == 1:
                    await self._mark(entries, "refused", delivery.reason)
            case "unknown":
                await self._doubt(entries, delivery)
        failed = delivery.verdict != "accepted"
        await self._call(
            self._ledger.requested,
            self._number,
            sent_bytes=delivery.sent_bytes,
            rejected=delivery.rejected_count,
            error=(delivery.reason or delivery.verdict) if failed else None,
            retry_at=self._wait_until if self.waits else None,
        )
        return delivery.verdict in ("refused", "too_large") and len(ready) > 1

    async def _accept(self, ready: Sequence[Ready], delivery: Delivery) -> None:
        self._failures, self._breakdowns, self._wait_until = 0, 0, 0.0
        self._successes += 1
        refused = [each for each in ready if each.span.span_id in delivery.rejected]
        for each in refused:
            await self._mark([each.entry], "refused", delivery.rejected[each.span.span_id])
        taken = [each.entry for each in ready if each.span.span_id not in delivery.rejected]
        note = f"{delivery.rejected_count} of {len(ready)} spans refused: {delivery.reason}"
        if delivery.rejected_count >= len(ready):
            await self._mark(taken, "refused", delivery.reason)
        elif self._destination.accepted_is_stored:
            await self._mark(taken, "acknowledged", note if delivery.rejected_count else None)

    async def _doubt(self, entries: Sequence[Entry], delivery: Delivery) -> None:
        """Nobody knows what became of these."""
        self._back_off(delivery)
        self._breakdowns += delivery.broke_down
        if self._destination.ignores_repeats:
            is_reason = delivery.broke_down and len(entries) == 1 and self._is_reason(entries[0])
            await self._mark(entries, "unknown" if is_reason else "queued", delivery.reason)
        elif self._destination.can_read_back:
            self._read_after = self._clock() + READ_BACK_AFTER
        else:
            await self._mark(entries, "unknown", f"{delivery.reason}; {_DOUBT}")

    def _is_reason(self, entry: Entry) -> bool:
        """Whether the destination breaks down over this span, before and after it took others."""
        before = self._broke_it.get(entry.queue_no)
        self._broke_it[entry.queue_no] = self._successes
        return before is not None and before < self._successes

    # -- what is doubtful -------------------------------------------------------------------------------------

    async def _resolve(self) -> int:
        """Find out about spans that were sent and not answered for, also by a courier that was killed."""
        if self._clock() < self._read_after:
            return 0
        entries = await self._call(self._ledger.entries, self._number, "sending", self._destination.max_spans)
        if not self._destination.accepted_is_stored:
            entries = [entry for entry in entries if entry.at <= self._clock() - READ_BACK_AFTER]
        if not entries:
            return await self._ask_again()
        if self._destination.can_read_back and not (
            self._destination.ignores_repeats and self._destination.accepted_is_stored
        ):
            return await self._read_back(entries)
        if self._destination.ignores_repeats:
            await self._mark(entries, "queued", None)
        else:
            await self._mark(entries, "unknown", _DOUBT)
        return len(entries)

    async def _ask_again(self) -> int:
        """What was given up is settled after all when the destination can be asked again."""
        if not self._destination.can_read_back:
            return 0
        entries = await self._call(self._ledger.answered, self._number, _NOT_ASKED, self._destination.max_spans)
        return await self._read_back(entries) if entries else 0

    async def _read_back(self, entries: Sequence[Entry]) -> int:
        """Ask which of these are there; how many were settled by the answer."""
        ready = await self._built(entries)
        try:
            present = await self._destination.present([each.span for each in ready])
        except Exception:  # whatever it was, it means that nobody knows
            present = None
        if present is None:
            return await self._give_up(entries)
        self._read_failures = 0
        found = [each.entry for each in ready if each.span.span_id in present]
        lost_before = self._clock() - (0.0 if self._destination.accepted_is_stored else LOST_AFTER)
        lost = [each.entry for each in ready if each.span.span_id not in present and each.entry.at <= lost_before]
        await self._mark(found, "acknowledged", "found there")
        await self._mark(lost, "queued", "accepted, but not there")
        if len(found) + len(lost) < len(ready):
            self._read_after = self._clock() + READ_BACK_AFTER
        return len(found) + len(lost)

    async def _give_up(self, entries: Sequence[Entry]) -> int:
        """It cannot be asked: see what it is, ask again later, and after a while enter that nobody knows.

        Spans that are queued are sent meanwhile: their answer may show what the destination is.
        """
        with suppress(Exception):
            await self._destination.check()
        if not self._destination.can_read_back:
            return 0
        self._read_after = self._clock() + min(READ_BACK_AFTER * 2**self._read_failures, LONGEST_WAIT)
        self._read_failures += 1
        if self._destination.ignores_repeats:
            return 0
        overdue = [entry for entry in entries if entry.at <= self._clock() - GIVE_UP_AFTER]
        await self._mark(overdue, "unknown", _NOT_ASKED)
        return len(overdue)

    # -- bookkeeping ------------------------------------------------------------------------------------------

    def _back_off(self, delivery: Delivery) -> None:
        """Wait longer after each failure, and never less than the destination asks for."""
        first = FIRST_BLOCKED_WAIT if delivery.verdict == "blocked" else FIRST_WAIT
        wait = min(first * 2**self._failures, LONGEST_WAIT) * (0.75 + random.random() / 2)  # noqa: S311 - spread, no secret
        self._failures += 1
        self._wait_until = self._clock() + max(wait, delivery.retry_after or 0.0)

    async def _mark(self, entries: Sequence[Entry], state: State, answer: str | None) -> None:
        if not entries:
            return
        if state == "acknowledged":
            await self._call(self._journal.add, "A", [entry.place for entry in entries])
        await self._call(self._ledger.mark, [entry.queue_no for entry in entries], state, answer)

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The store waits for the disk, and for whoever else writes: not in the loop."""
        return await shielded(asyncio.to_thread(function, *args, **kwargs))


async def shielded(work: Awaitable[T]) -> T:
    """Finish what was begun in a thread before a cancellation is heard: the store is used by one at a time."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
