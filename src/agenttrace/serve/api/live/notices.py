"""Notifications of rules in the live stream: what ``notify`` actions answered, by the numbers of their attempts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.ids import session_key
from agenttrace.serve.api.shapes.live import LiveNotice, LiveNotices
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.api.trace_reader import TraceReader
    from agenttrace.store.rule_store import RuleStore
    from agenttrace.store.rules import Answered

#: Between two looks.
POLL_SECONDS = 0.25
#: Of those that a stream has missed, the latest are sent.
_MOST = 20


class FoundNotices(NamedTuple):
    """Notices, each with its number, and the number from which to continue."""

    number: int
    items: list[tuple[int, LiveNotice]]

    def after(self, number: int) -> FoundNotices:
        """Those after a number."""
        return self._replace(items=[each for each in self.items if each[0] > number])

    def message(self, cursor: int) -> LiveNotices:
        """The message."""
        return LiveNotices(cursor, self.number, [notice for _, notice in self.items])


class Notices:
    """Finds new notices in the store."""

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self._looked = 0.0

    def due(self) -> bool:
        """Whether it is time for another look."""
        now = time.monotonic()
        if now - self._looked < POLL_SECONDS:
            return False
        self._looked = now
        return True

    async def since(self, number: int | None) -> FoundNotices:
        """Those after a number; ``None``: none, and the number to continue from."""

        def read(store: RuleStore) -> FoundNotices:
            last = store.rules.last_attempt()
            # A number that is not reached is from a store that was replaced.
            if number is None or number >= last:
                return FoundNotices(last, [])
            return FoundNotices(
                last, [(each.attempt, _notice(each)) for each in store.rules.notices_since(number, _MOST)]
            )

        return await self._reader.query_rules(read, empty=lambda: FoundNotices(0, []))


def _notice(each: Answered) -> LiveNotice:
    event = each.firing.event
    return LiveNotice(
        id=each.idempotency_key,
        firing=each.firing.number,
        rule=each.firing.rule,
        title=str(each.answer.get("title", "")),
        text=str(each.answer.get("text", "")),
        at=iso(event.at),
        session=None if event.session is None else session_key(event.session),
        span_id=None if event.span is None else event.span.hex(),
    )
