"""A courier sends the queued spans of one destination, in order, and writes the outcome to the ledger.

A span is marked ``sending`` before it is sent. Without an answer it is in doubt: a destination that ignores repeats
gets it again; one that can be read back is asked whether it has it; otherwise the user decides. Where reading back
fails for long, the spans become ``unknown`` until the destination answers again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from agenttrace.destinations import DestinationSettings, keys_hidden
from agenttrace.export.annotations import AnnotatedDestination, AnnotationSender
from agenttrace.export.assembly import AssembledSpan, Assembly
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.journal import Journal
from agenttrace.export.threads import in_thread, pause
from agenttrace.redaction import redacted
from agenttrace.store.exports import QueuedSpan, State
from agenttrace.store.sqlite.exports import Exports

#: Seconds between two looks at an empty queue.
POLL_SECONDS = 1.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
#: A wrong key is not corrected within a second.
FIRST_BLOCKED_WAIT = 30.0
#: Seconds until sent spans can be read back.
READ_BACK_AFTER = 10.0
#: An accepted span that cannot be read back after this many seconds is lost: some destinations store with a delay.
LOST_AFTER = 120.0
#: A sent span is unknown after this many seconds in which reading back failed.
GIVE_UP_AFTER = 900.0
#: The most spans that may be accepted and not yet confirmed.
MOST_UNCONFIRMED = 2_000
#: After so many server errors in a row portions become smaller: one of the spans may be the cause.
BREAKDOWNS_BEFORE_HALVING = 2
_DOUBT = "it was sent, and nobody answered"
#: Stored in the ledger and searched for: spans with the text of an earlier version must be found.
_NOT_READ = f"{_DOUBT}; for {GIVE_UP_AFTER / 60:.0f} minutes the destination could not be asked for it"


class Courier:
    """Serves one destination; no other courier uses its store."""

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
        #: Server errors in a row.
        self._breakdowns = 0
        self._successes = 0
        #: Spans that caused a server error when sent alone, and the number of successes by then.
        self._suspects: dict[int, int] = {}
        #: Nothing is sent before this moment.
        self._wait_until = 0.0
        #: Nothing is read back before this moment.
        self._read_after = 0.0
        #: Failures in a row to read back.
        self._read_failures = 0
        self._annotations: AnnotationSender | None = None
        if isinstance(destination, AnnotatedDestination):
            self._annotations = AnnotationSender(exports, settings, number, destination, assembly, clock)

    @property
    def waits(self) -> float:
        """Seconds until the next request may be sent."""
        return max(0.0, self._wait_until - self._clock())

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until ``stop`` is set; a running request is finished first."""
        # The destination learns what the server is; the first delivery reports what is wrong with it.
        with suppress(Exception):
            await self._destination.check()
        while not stop.is_set():
            if not await self.deliver():
                await pause(stop, min(max(self.waits, 0.05), POLL_SECONDS) if self.waits else POLL_SECONDS)

    async def deliver(self) -> int:
        """One round: spans in doubt, then one portion of the queue, and annotations once it is empty; how many."""
        if self.waits or await in_thread(self._is_paused):
            return 0
        handled = await self._resolve()
        entries = await in_thread(self._ledger.entries, self._number, "queued", self._destination.max_spans)
        if not entries and not self.waits and self._annotations is not None:
            return handled + await self._annotations.deliver()
        if not entries or self.waits or await self._is_ahead():
            return handled
        chosen = self._portion(entries)
        ready = await self._built(chosen)
        if ready:
            await self._send(ready)
        return handled + len(chosen)

    def annotations_left(self) -> tuple[int, str | None]:
        """How many annotations could be sent, and why they are not; none where it does not take any."""
        if self._annotations is None:
            return 0, None
        return self._exports.annotations.left(self._number), self._annotations.problem

    async def is_unsettled(self) -> bool:
        """Whether there are sent spans whose outcome will be known soon."""
        if self.waits or self._read_failures or await in_thread(self._is_paused):
            return False
        return bool(await in_thread(self._ledger.entries, self._number, "sending", 1))

    async def _is_ahead(self) -> bool:
        """Whether too many accepted spans are not yet confirmed, and could be lost together."""
        if self._destination.accepted_is_stored:
            return False
        waiting = await in_thread(self._ledger.entries, self._number, "sending", MOST_UNCONFIRMED)
        return len(waiting) >= MOST_UNCONFIRMED

    def _portion(self, entries: list[QueuedSpan]) -> list[QueuedSpan]:
        """The spans to send next: all, or fewer while the destination answers with server errors."""
        size = len(entries) >> max(0, self._breakdowns - BREAKDOWNS_BEFORE_HALVING)
        if size > 1:
            return entries[:size]
        # A span that caused an error alone is skipped until another one was accepted: perhaps the server is down.
        untried = [entry for entry in entries if self._suspects.get(entry.queue_no) != self._successes]
        return (untried or entries)[:1]

    def _is_paused(self) -> bool:
        return self._exports.destinations.is_paused(self._number)

    async def _built(self, entries: Sequence[QueuedSpan]) -> list[AssembledSpan]:
        ready, gone = await in_thread(self._assembly.build, entries)
        if gone:
            await self._mark(gone, "dropped", "removed from the store before it was sent")
        return ready

    # -- sending ----------------------------------------------------------------------------------------------

    async def _send(self, ready: Sequence[AssembledSpan]) -> None:
        """Send a portion; where it is too large, or one span in it is refused, its halves."""
        await in_thread(self._mark_sending, ready)
        try:
            delivery = await self._destination.send([each.span for each in ready])
        except asyncio.CancelledError:
            raise  # the spans stay in doubt
        except Exception as error:  # a defect of a destination must not end the courier, and is shown
            delivery = Delivery(verdict="unknown", reason=f"{type(error).__name__}: {error}")
        # The ledger shows answers, so they are masked first.
        delivery = redacted(delivery, self._masked, keep=("verdict",))
        again = await self._enter(ready, delivery)
        if again:
            middle = len(ready) // 2
            for half in (ready[:middle], ready[middle:]):
                if self.waits:
                    await self._mark([each.entry for each in half], "queued", delivery.reason)
                else:
                    await self._send(half)

    def _masked(self, text: str) -> str:
        return self._assembly.mask(self._hide_keys(text))

    def _mark_sending(self, ready: Sequence[AssembledSpan]) -> None:
        self._journal.add("S", [each.entry.place for each in ready])
        self._ledger.send({each.entry.queue_no: each.digest for each in ready})

    async def _enter(self, ready: Sequence[AssembledSpan], delivery: Delivery) -> bool:
        """Write the outcome of a portion to the ledger; True where its halves are to be sent instead."""
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
        await in_thread(
            self._ledger.requested,
            self._number,
            sent_bytes=delivery.sent_bytes,
            rejected=delivery.rejected_count,
            error=(delivery.reason or delivery.verdict) if failed else None,
            retry_at=self._wait_until if self.waits else None,
        )
        return delivery.verdict in ("refused", "too_large") and len(ready) > 1

    async def _accept(self, ready: Sequence[AssembledSpan], delivery: Delivery) -> None:
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

    async def _doubt(self, entries: Sequence[QueuedSpan], delivery: Delivery) -> None:
        """The outcome of these is not known."""
        self._back_off(delivery)
        self._breakdowns += delivery.broke_down
        if self._destination.ignores_repeats:
            is_cause = delivery.broke_down and len(entries) == 1 and self._is_cause(entries[0])
            await self._mark(entries, "unknown" if is_cause else "queued", delivery.reason)
        elif self._destination.can_read_back:
            self._read_after = self._clock() + READ_BACK_AFTER
        else:
            await self._mark(entries, "unknown", f"{delivery.reason}; {_DOUBT}")

    def _is_cause(self, entry: QueuedSpan) -> bool:
        """Whether this span causes server errors, before and after others were accepted."""
        before = self._suspects.get(entry.queue_no)
        self._suspects[entry.queue_no] = self._successes
        return before is not None and before < self._successes

    # -- spans in doubt ---------------------------------------------------------------------------------------

    async def _resolve(self) -> int:
        """Settle spans that were sent and not answered, also by a courier that was killed."""
        if self._clock() < self._read_after:
            return 0
        entries = await in_thread(self._ledger.entries, self._number, "sending", self._destination.max_spans)
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
        """Settle spans that became unknown, once the destination can be read back again."""
        if not self._destination.can_read_back:
            return 0
        entries = await in_thread(self._ledger.answered, self._number, _NOT_READ, self._destination.max_spans)
        return await self._read_back(entries) if entries else 0

    async def _read_back(self, entries: Sequence[QueuedSpan]) -> int:
        """Ask which of these are there; returns how many were settled."""
        ready = await self._built(entries)
        try:
            present = await self._destination.present([each.span for each in ready])
        except Exception:  # any error means that the outcome is not known
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

    async def _give_up(self, entries: Sequence[QueuedSpan]) -> int:
        """Reading back failed: check the destination, retry later, and after a while mark the spans as unknown.

        Queued spans are sent in the meantime: their answer may show what the destination is.
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
        await self._mark(overdue, "unknown", _NOT_READ)
        return len(overdue)

    # -- bookkeeping ------------------------------------------------------------------------------------------

    def _back_off(self, delivery: Delivery) -> None:
        """Wait longer after each failure, and at least as long as the destination asks for."""
        first = FIRST_BLOCKED_WAIT if delivery.verdict == "blocked" else FIRST_WAIT
        wait = min(first * 2**self._failures, LONGEST_WAIT) * (0.75 + random.random() / 2)  # noqa: S311 - spread, no secret
        self._failures += 1
        self._wait_until = self._clock() + max(wait, delivery.retry_after or 0.0)

    async def _mark(self, entries: Sequence[QueuedSpan], state: State, answer: str | None) -> None:
        if not entries:
            return
        if state == "acknowledged":
            if self._annotations is not None:
                self._annotations.look_again(entry.session_id for entry in entries)
            await in_thread(self._journal.add, "A", [entry.place for entry in entries])
        await in_thread(self._ledger.mark, [entry.queue_no for entry in entries], state, answer)
