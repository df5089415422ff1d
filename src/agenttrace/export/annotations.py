"""Sends notes, scores, labels and stars to a destination that has scores or feedback, each once.

The id at the destination is made of the annotation's own: a repeated request changes nothing there, and a changed
annotation replaces its earlier self. It follows the span that it stands beside.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from agenttrace.destinations import DestinationSettings, keys_hidden
from agenttrace.export.destination import Delivery
from agenttrace.export.span import ExportSpan
from agenttrace.export.threads import in_thread
from agenttrace.redaction import redacted
from agenttrace.store.exports import QueuedSpan

if TYPE_CHECKING:
    from agenttrace.export.assembly import Assembly
    from agenttrace.store.sqlite.export_annotations import AnnotationState, DueAnnotation
    from agenttrace.store.sqlite.exports import Exports

#: In one round, after a portion of spans.
PORTION = 50
#: With more acknowledged sessions than this, all annotations are looked through.
MOST_SESSIONS = 1_000
FIRST_WAIT, LONGEST_WAIT = 2.0, 300.0


class ExportAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation as it leaves, masked; the texts are empty where the switch ``prompts`` is off."""

    annotation_id: bytes
    kind: str
    name: str
    value: float | None
    text: str
    source: str
    author: str
    #: Seconds since the epoch.
    created_at: float
    #: The span that it is about, or a turn of its session.
    span: ExportSpan
    #: Whether it is about the session as a whole.
    of_session: bool
    #: Whether the destination may have an earlier version.
    known: bool


@runtime_checkable
class AnnotatedDestination(Protocol):
    """A destination that also takes annotations; used by one task at a time."""

    async def send_annotation(self, annotation: ExportAnnotation) -> Delivery:
        """Store an annotation, or replace its earlier version; errors of a server never raise."""
        ...

    async def remove_annotation(self, annotation_id: bytes) -> Delivery:
        """Remove an annotation; one that is not there counts as removed."""
        ...


class AnnotationSender:
    """Serves one destination, with the store of its courier."""

    def __init__(
        self,
        exports: Exports,
        settings: DestinationSettings,
        number: int,
        destination: AnnotatedDestination,
        assembly: Assembly,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = exports.annotations
        self._settings = settings
        self._number = number
        self._destination = destination
        self._assembly = assembly
        self._clock = clock
        self._hide_keys = keys_hidden(settings)
        self._failures = 0
        self._wait_until = 0.0
        #: Why the last one could not be sent.
        self.problem: str | None = None
        #: The revision up to which nothing more can be sent, but for these sessions; -1: nothing is known yet.
        self._settled = -1
        self._sessions: set[int] = set()

    def look_again(self, sessions: Iterable[int]) -> None:
        """Spans of these sessions were acknowledged: annotations may have waited for them."""
        self._sessions.update(sessions)

    async def deliver(self) -> int:
        """Send what is due; how many were settled."""
        if self._clock() < self._wait_until:
            return 0
        revision = await in_thread(self._ledger.revision)
        sessions = frozenset(self._sessions)
        if revision == self._settled and not sessions:
            return 0
        since = self._settled if len(sessions) <= MOST_SESSIONS else -1
        due = await in_thread(self._ledger.due, self._number, PORTION, since, sessions)
        for handled, each in enumerate(due):
            if not await self._sent(each):
                return handled
        if len(due) < PORTION:
            self._settled = revision
            self._sessions -= sessions
        return len(due)

    async def _sent(self, due: DueAnnotation) -> bool:
        """Send or remove one; False where the destination cannot take it now."""
        built = None if due.annotation is None else await in_thread(self._built, due)
        if due.annotation is not None and built is None:
            await self._mark(due, "refused", "its text is not exported, or its span is gone")
            return True
        await self._mark(due, "sending")
        try:
            if built is None:
                delivery = await self._destination.remove_annotation(due.annotation_id)
            else:
                delivery = await self._destination.send_annotation(built)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a defect of a destination must not end the courier
            delivery = Delivery(verdict="refused", reason=f"{type(error).__name__}: {error}")
        reason = self._assembly.mask(self._hide_keys(delivery.reason)) or None
        if delivery.verdict in ("retry", "blocked", "unknown"):
            self.problem = reason
            self._back_off(delivery)
            return False
        self._failures, self.problem = 0, None
        await self._mark(due, "acknowledged" if delivery.verdict == "accepted" else "refused", reason)
        return True

    async def _mark(self, due: DueAnnotation, state: AnnotationState, reason: str | None = None) -> None:
        await in_thread(self._ledger.mark, self._number, due, state, reason)

    def _built(self, due: DueAnnotation) -> ExportAnnotation | None:
        """An annotation as it may leave; ``None`` for a note whose text may not, or whose span is gone."""
        found, switch = due.annotation, self._settings.prompts
        if found is None or due.span_id is None or (found.kind == "note" and switch == "off"):
            return None
        ready, _ = self._assembly.build([QueuedSpan(0, due.session, due.span_id, 0, 0.0)])
        if not ready:
            return None
        made = ExportAnnotation(
            annotation_id=found.annotation_id,
            kind=found.kind,
            name=found.name,
            value=found.value,
            text="" if switch == "off" else found.text,
            source=found.source,
            author=found.author,
            created_at=found.created_at,
            span=ready[0].span,
            of_session=found.span_id is None,
            known=due.known,
        )
        return redacted(made, self._assembly.mask, keep=("span", *(("text",) if switch == "full" else ())))

    def _back_off(self, delivery: Delivery) -> None:
        wait = min(FIRST_WAIT * 2**self._failures, LONGEST_WAIT) * (0.75 + random.random() / 2)  # noqa: S311 - spread
        self._failures = min(self._failures + 1, 10)
        self._wait_until = self._clock() + max(wait, delivery.retry_after or 0.0)
