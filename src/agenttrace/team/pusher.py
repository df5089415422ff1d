"""Sends the changes of this machine's store to the server of a team, page after page.

Nothing is queued: pages are read from the store when they are sent, so a machine can be offline for weeks. The end of a
page is stored before it leaves; when its answer is lost, the position that the server names tells whether it arrived.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from agenttrace.export.posting import HttpAnswer, Poster
from agenttrace.export.threads import in_thread, pause
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team_pushes import PushState
from agenttrace.store.team import Position
from agenttrace.team import wire
from agenttrace.team.pages import PAGE_ROWS, NextPage, PageReader

#: Seconds between two looks for a commit.
POLL_SECONDS = 0.2
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
#: A machine that was revoked is not invited again within a second.
FIRST_BLOCKED_WAIT = 30.0
#: The server has enough of this machine for now; after so many of these answers in a row it does not get better.
_ENOUGH, _MOST_ENOUGH = 429, 10
_BLOCKED = (401, 403, 404, 426)
#: A page that is too large, or has a row that the server cannot read.
_UNREADABLE = (400, 413, 422)
#: A line, and the file that it came from.
_FEWEST_ROWS = 2
_refusals = msgspec.json.Decoder(wire.Refusal)


class _Sending(NamedTuple):
    """A page on its way, and what it continues."""

    page: NextPage
    state: PushState
    body: bytes
    #: Why it cannot be sent in one piece.
    problem: str = ""


class Pusher:
    """Pushes to one server; no other one uses its store."""

    def __init__(
        self,
        store: SqliteStore,
        number: int,
        reader: PageReader,
        *,
        url: str,
        token: str,
        timeout: float = 60.0,
        since: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._number, self._reader, self._clock = store, number, reader, clock
        self._pushes = store.exports.teams
        self._url = url.rstrip("/")
        hide: Callable[[str], str] = lambda text: text.replace(token, "[masked:key]")  # noqa: E731 - one short line
        self._poster = Poster({"Authorization": f"Bearer {token}"}, timeout, hide)
        self._since = since
        self._protocol = wire.PROTOCOL
        self._limit = PAGE_ROWS
        #: A page without an answer; it is sent again as it was.
        self._doubtful: _Sending | None = None
        #: Whether the page that an earlier process sent last may have arrived.
        self._unsettled = True
        #: What the last look found nothing new at: commits of others, and what is acknowledged.
        self._seen: tuple[int, ChangesCursor] | None = None
        self._failures, self._restarts, self._slowed = 0, 0, 0
        self._wait_until = 0.0
        self.problem: str | None = None

    @property
    def waits(self) -> float:
        """Seconds until the next request may be sent."""
        return max(0.0, self._wait_until - self._clock())

    @property
    def is_slowed(self) -> bool:
        """Whether the server has said when to go on, and that is not yet."""
        return self._slowed > 0 and self.waits > 0

    async def run(self, stop: asyncio.Event) -> None:
        """Push until ``stop`` is set; a running request is finished first."""
        while not stop.is_set():
            if not await self.deliver():
                await pause(stop, POLL_SECONDS)

    async def deliver(self) -> bool:
        """Send one page; whether there is more to do now."""
        if self.waits:
            return False
        if self._unsettled and not await self._settle():
            return False
        sending = await in_thread(self._prepared)
        return sending is not None and await self._send(sending)

    async def close(self) -> None:
        """Close all connections."""
        await self._poster.close()

    def left(self) -> str | None:
        """Why something is left; ``None`` where everything is acknowledged."""
        paused = self._store.exports.destinations.is_paused(self._number)
        if self._doubtful is None and self.problem is None and not self._next().rows:
            return None
        left = self._pushes.backlog(self._number)
        return f"{left.rows} rows or more wait ({'paused' if paused else self.problem or 'not sent'})"

    # -- reading ----------------------------------------------------------------------------------------------

    def _prepared(self) -> _Sending | None:
        if self._store.exports.destinations.is_paused(self._number):
            return None
        if self._doubtful is not None:
            return self._doubtful
        commits = self._store.commits()
        if self._seen == (commits, self._begun().acknowledged):
            return None
        page = self._next()
        state = self._begun()
        if not page.rows:
            self._seen = (commits, state.acknowledged)
            return None
        sent = wire.SentPage(
            protocol=self._protocol,
            store=state.store,
            after=state.acknowledged,
            until=page.until,
            previous=state.sending,
            rows=page.rows,
        )
        try:
            body = wire.packed(sent)
        except wire.TooLargeError as error:
            return _Sending(page, state, b"", str(error))
        self._pushes.send(self._number, page.until)
        return _Sending(page, state, body)

    def _begun(self) -> PushState:
        known = self._pushes.state(self._number)
        if known is not None:
            return known
        self._pushes.hold_quiet(self._number, self._since)
        return self._pushes.begin(self._number)

    def _next(self) -> NextPage:
        """The next page; rows before it that are not sent are read once."""
        state = self._begun()
        page = self._reader.next(state.passed or state.acknowledged, self._limit)
        if not page.rows and page.until != (state.passed or state.acknowledged):
            self._pushes.pass_by(self._number, page.until)
        return page

    # -- sending ----------------------------------------------------------------------------------------------

    async def _settle(self) -> bool:
        """Ask where the server is, where an earlier process was ended while it sent; False: there was no answer."""
        state = await in_thread(self._begun)
        if state.sending is not None:
            answer = await self._poster.get(self._url + wire.POSITION)
            if answer is None:
                await self._fail(f"not reached: {self._url}", 0)
                return False
            if answer.status != 200:
                await self._fail(_told(answer, None), 0, blocked=answer.status in _BLOCKED)
                return False
            await in_thread(self._acknowledge_if, state, _position(answer))
        self._unsettled = False
        return True

    def _acknowledge_if(self, state: PushState, stored: Position | None) -> bool:
        """Acknowledge the page that was sent last, where the server is at its end."""
        if stored is None or stored.store != state.store or stored.cursor != state.sending:
            return False
        self._pushes.acknowledge(self._number, stored.cursor, rows=0, sent_bytes=0)
        return True

    async def _send(self, sending: _Sending) -> bool:
        if sending.problem:
            await in_thread(self._smaller, sending, sending.problem)
            return True
        self._doubtful = sending
        headers = {"Content-Type": "application/msgpack", "Content-Encoding": "zstd"}
        answer, delivery = await self._poster.post(self._url + wire.ROWS, sending.body, headers, compress=False)
        size = len(sending.body)
        if answer is None:
            await self._fail(delivery.reason or "no answer", size)
            return False
        if answer.status == 200:
            await in_thread(self._arrived, sending, size)
            return True
        if answer.status == 409:
            await in_thread(self._resumed, sending, _refusal(answer).position)
            return True
        if answer.status in _UNREADABLE:
            await in_thread(self._smaller, sending, _told(answer, delivery.reason))
            return True
        if answer.status == 426 and self._speaks(_refusal(answer).protocols):
            self._doubtful = None
            return True
        if answer.status == _ENOUGH and delivery.retry_after is not None and self._slowed < _MOST_ENOUGH:
            await self._slow_down(_told(answer, delivery.reason), size, delivery.retry_after)
            return False
        await self._fail(_told(answer, delivery.reason), size, delivery.retry_after, answer.status in _BLOCKED)
        return False

    def _arrived(self, sending: _Sending, size: int) -> None:
        self._pushes.acknowledge(self._number, sending.page.until, rows=len(sending.page.rows), sent_bytes=size)
        if sending.page.finished is not None:
            self._reader.finish(sending.page.finished)
        self._doubtful, self._failures, self._slowed, self._wait_until, self.problem = None, 0, 0, 0.0, None
        self._limit = min(PAGE_ROWS, self._limit * 2)
        if not sending.page.until.kind:
            self._restarts = 0

    def _resumed(self, sending: _Sending, stored: Position | None) -> None:
        """The server is elsewhere: an answer was lost, or it does not have what it had."""
        self._doubtful = None
        page, state = sending.page, sending.state
        if stored == Position(store=state.store, cursor=page.until):
            self._arrived(sending, len(sending.body))
        elif not self._acknowledge_if(state, stored):
            self._pushes.restart(self._number, renamed=True)
            if self._restarts:
                # Two machines with one token would begin anew in turns.
                self._back_off(FIRST_WAIT * 2**self._restarts)
                self.problem = "the server has other rows of this machine; everything is sent anew"
            self._restarts += 1

    def _smaller(self, sending: _Sending, reason: str) -> None:
        """A page that is refused is sent in halves, until one row is left; that one is counted and skipped."""
        self._doubtful = None
        if len(sending.page.rows) > _FEWEST_ROWS and self._limit > 1:
            self._limit = max(1, min(self._limit, len(sending.page.rows)) // 2)
            return
        self._pushes.refuse(self._number)
        self._pushes.failed(self._number, reason, self._clock(), len(sending.body))
        self._pushes.pass_by(self._number, sending.page.until)
        if sending.page.finished is not None:
            self._reader.finish(sending.page.finished)

    def _speaks(self, served: tuple[int, int] | None) -> bool:
        """Use a version of the protocol that both know."""
        common = min(served[1], wire.PROTOCOL) if served is not None else 0
        if served is None or common < max(served[0], wire.OLDEST) or common == self._protocol:
            return False
        self._protocol = common
        return True

    async def _fail(self, reason: str, size: int, retry_after: float | None = None, blocked: bool = False) -> None:
        first = FIRST_BLOCKED_WAIT if blocked else FIRST_WAIT
        self._back_off(min(first * 2**self._failures, LONGEST_WAIT), retry_after)
        self._failures += 1
        self.problem = reason
        await in_thread(self._pushes.failed, self._number, reason, self._wait_until, size)

    async def _slow_down(self, reason: str, size: int, seconds: float) -> None:
        """Wait as long as the server says, and a little longer, so that machines do not come back at one moment."""
        self._slowed += 1
        self._wait_until = self._clock() + seconds * (1 + random.random() / 4)  # noqa: S311 - spread, no secret
        self.problem = reason
        await in_thread(self._pushes.failed, self._number, reason, self._wait_until, size)

    def _back_off(self, seconds: float, at_least: float | None = None) -> None:
        wait = min(seconds, LONGEST_WAIT) * (0.75 + random.random() / 2)  # noqa: S311 - spread, no secret
        self._wait_until, self._slowed = self._clock() + max(wait, at_least or 0.0), 0


def _refusal(answer: HttpAnswer) -> wire.Refusal:
    try:
        return _refusals.decode(answer.body)
    except msgspec.DecodeError:
        return wire.Refusal()


def _position(answer: HttpAnswer) -> Position | None:
    try:
        return msgspec.json.decode(answer.body, type=wire.PositionReply).position
    except msgspec.DecodeError:
        return None


def _told(answer: HttpAnswer, reason: str | None) -> str:
    detail = _refusal(answer).detail
    if answer.status == 401:
        return (
            "the server does not know this machine any more, or revoked it. With a new code of the team's admin: "
            "agenttrace team join URL --code CODE"
        )
    return f"{answer.status} {detail}" if detail else reason or str(answer.status)
