"""Notifies subscribers of what changes in the store, soon after it was committed.

While there is a subscriber, one task looks for commits. Each message is made once for all subscribers, and the spans of
a session are read only where a subscriber watches it and it did change. The texts of those spans are sent with them:
fifty pages that show a working agent would each ask for them ten times a second. A slow subscriber delays no other one:
what it has not taken is dropped beyond a limit, and it is told to load everything again.

A message moves a subscriber's cursor only when everything up to there was sent, so that a connection may break between
any two: spans are sent first, and keep the cursor; the rows of the sessions follow, and move it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from agenttrace.config import Settings
from agenttrace.model import Session
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.sessions.texts import Cutter
from agenttrace.serve.api.sessions.timeline import changed_timeline
from agenttrace.serve.api.shapes import LiveHello, LiveReset, LiveSessions, LiveTexts, SessionRow, Timeline
from agenttrace.serve.api.trace_reader import TraceReader

if TYPE_CHECKING:
    from agenttrace.store.sqlite.store import SqliteStore

logger = logging.getLogger(__name__)

#: Between two looks for commits: with what the recorder itself takes, far below what a user notices.
POLL_SECONDS = 0.04
#: After a look that failed.
_RETRY_SECONDS = 1.0
#: What may wait for a reader that takes nothing.
MOST_WAITING = 2 * 1024 * 1024
#: When more sessions than this have changed, loading the list again is less work.
MOST_ROWS = 500
#: Changed spans whose texts go with them, and characters of each text and of all: a page asks for what it misses.
MOST_SPANS_WITH_TEXTS = 40
TEXT_CHARS = 2_000
MOST_TEXT_CHARS = 64_000
#: How long a browser waits before it connects again.
_RETRY = b"retry: 1000\n"
News = LiveHello | LiveSessions | Timeline | LiveTexts | LiveReset
_NAMES = {
    LiveHello: b"hello",
    LiveSessions: b"sessions",
    Timeline: b"timeline",
    LiveTexts: b"texts",
    LiveReset: b"reset",
}
_encoder = msgspec.json.Encoder()


class Mark(msgspec.Struct, frozen=True):
    """Up to where a subscriber knows everything: an event, and the epoch of the index where that is known."""

    cursor: int
    epoch: str = ""

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """The mark that an id of an event, or the cursor of a list, is; None where it is neither."""
        number, _, epoch = text.strip().partition("-")
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            return None
        return cls(int(number), epoch)


def message(news: News) -> bytes:
    """A message without its id; JSON has no raw line ends, so it is always one line of data."""
    return b"event: %b\ndata: %b\n\n" % (_NAMES[type(news)], _encoder.encode(news))


class Subscriber:
    """One stream: the messages that wait for it, never more than a limit."""

    def __init__(self, session: str | None, mark: Mark, told: int, revision: int) -> None:
        #: The key of the session whose spans are wanted.
        self.session = session
        #: Up to which event, and which revision of the index, the spans of that session were told.
        self.told, self.revision = told, revision
        self._mark = mark
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ready = asyncio.Event()
        self._ended = False

    def tell(self, text: bytes, mark: Mark | None = None) -> bool:
        """Add a message that moves the mark, or one that leaves it; False where too much waits already."""
        if self._waiting and self._size + len(text) > MOST_WAITING:
            return False
        if mark is not None and (mark.epoch != self._mark.epoch or mark.cursor > self._mark.cursor):
            self._mark = mark
        self._waiting.append(b"id: %d-%b\n%b" % (self._mark.cursor, self._mark.epoch.encode(), text))
        self._size += len(text)
        self._ready.set()
        return True

    def forget(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        self._size = 0

    def end(self) -> None:
        """There will be no more."""
        self._ended = True
        self._ready.set()

    async def take(self) -> bytes:
        """Everything that waits, as soon as there is something; nothing at the end."""
        await self._ready.wait()
        if not self._ended:
            self._ready.clear()
        taken = b"".join(self._waiting)
        self.forget()
        return taken


class Hub:
    """All subscribers, and the task that notifies them."""

    def __init__(self, reader: TraceReader, index: SessionIndex, settings: Settings) -> None:
        self._reader, self._index = reader, index
        self._texts = session_texts(reader)
        self._subscribers: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._epoch, self._revision = "", 0
        self._version = version("agenttrace")

    # -- subscribers ------------------------------------------------------------------------------------------

    async def join(self, session: str | None = None, after: str | None = None) -> Subscriber:
        """Subscribe from now on, or from after a mark: first what changed since, or that too much did."""
        await self._index.refresh()
        told, revision = self._index.cursor, self._index.revision
        since = None if after is None else Mark.parse(after)
        spans: list[bytes] | None = []
        if session is not None and since is not None and self._index.is_changed(session, since.cursor):
            spans = await self._spans(session, since.cursor, since.cursor)
        # From here on nothing is waited for: whatever changes now is the task's to tell.
        now = Mark(self._index.cursor, self._index.epoch)
        rows = [] if after is None else self._rows_since(since, session)
        missed = rows is None or spans is None
        # Where something is still to be told, hello must not move the reader beyond it.
        start = now if since is None or missed else Mark(since.cursor, now.epoch)
        subscriber = Subscriber(session, start, told, revision)
        subscriber.tell(_RETRY + message(LiveHello(start.cursor, self._version)))
        if missed:
            subscriber.tell(message(LiveReset(now.cursor)))
        else:
            for text in spans or ():
                subscriber.tell(text)
            if rows:
                subscriber.tell(message(LiveSessions(now.cursor, rows)), now)
        self._add(subscriber)
        return subscriber

    def _rows_since(self, since: Mark | None, session: str | None) -> list[SessionRow] | None:
        """What changed since a mark; None where that cannot be told."""
        if since is None or since.epoch not in ("", self._index.epoch):
            return None
        if session is not None and self._index.is_rebilled(session, since.cursor):
            return None
        rows = self._index.changed_since(since.cursor)
        return None if rows is None or len(rows) > MOST_ROWS else rows

    def _add(self, subscriber: Subscriber) -> None:
        if self._closed:
            subscriber.end()
            return
        self._subscribers.add(subscriber)
        if self._task is None or self._task.done():
            self._epoch, self._revision = self._index.epoch, self._index.revision
            self._task = asyncio.create_task(self._follow(), name="live")

    def leave(self, subscriber: Subscriber) -> None:
        """Unsubscribe."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End all streams; there are no new ones after that."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        for subscriber in self._subscribers:
            subscriber.end()
        self._subscribers.clear()

    # -- what is told -----------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        failing = False
        while self._subscribers:
            try:
                await self._round()
                failing = False
            except Exception as error:
                # What was to be told is not known any more; the next round tells all subscribers to load anew.
                self._epoch = ""
                if not failing:
                    logger.warning("live updates wait for the store (%s)", type(error).__name__, exc_info=error)
                failing = True
            await asyncio.sleep(_RETRY_SECONDS if failing else POLL_SECONDS)

    async def _round(self) -> None:
        """Notify all subscribers of what has changed by now."""
        index = self._index
        await index.refresh()
        subscribers, now = list(self._subscribers), Mark(index.cursor, index.epoch)
        rows = index.revised_since(self._revision)
        is_new, self._epoch, self._revision = self._epoch != index.epoch, index.epoch, index.revision
        if is_new or len(rows) > MOST_ROWS:
            self._reset(subscribers, now)
            return
        news = message(LiveSessions(now.cursor, rows)) if rows else None
        watching: dict[str, list[Subscriber]] = {}
        for subscriber in subscribers:
            if subscriber.session is not None and index.revision_of(subscriber.session) > subscriber.revision:
                watching.setdefault(subscriber.session, []).append(subscriber)
            elif news is not None:
                self._tell(subscriber, news, now)
        for session, group in watching.items():
            await self._tell_spans(session, group, news, now)

    async def _tell_spans(self, session: str, group: Sequence[Subscriber], news: bytes | None, now: Mark) -> None:
        """The spans of a session to those who watch it, then the rows, which move their mark."""
        after = min(subscriber.told for subscriber in group)
        for subscriber in group:
            subscriber.told, subscriber.revision = now.cursor, self._revision
        spans = await self._spans(session, after, after)
        if spans is None or self._index.is_rebilled(session, after):
            self._reset(group, now)
            return
        for subscriber in group:
            for text in spans:
                self._tell(subscriber, text)
            if news is not None:
                self._tell(subscriber, news, now)

    def _tell(self, subscriber: Subscriber, text: bytes, mark: Mark | None = None) -> None:
        if not subscriber.tell(text, mark):
            self._reset([subscriber], Mark(self._index.cursor, self._index.epoch))

    def _reset(self, subscribers: Iterable[Subscriber], now: Mark) -> None:
        text = message(LiveReset(now.cursor))
        for subscriber in subscribers:
            subscriber.forget()
            subscriber.told = now.cursor
            subscriber.tell(text, now)

    async def _spans(self, session: str, after: int, cursor: int) -> list[bytes] | None:
        """What changed in a session after an event, as messages; None where that is too much to be told."""
        number = int(session, 16)

        def question(store: SqliteStore) -> list[bytes] | None:
            found = store.sessions_by_number([number])
            if not found:
                return []
            timeline = changed_timeline(store, found[0], after, self._index.prices)
            if timeline.complete or timeline.next is not None:
                return None
            if not timeline.span_id:
                return []
            timeline.cursor = cursor
            # Made into JSON here, in a reader's thread: it can be long.
            spans = message(timeline)
            return [spans, *self._said(store, found[0], timeline)] if len(spans) < MOST_WAITING // 2 else None

        return await self._reader.query(question, empty=list)

    def _said(self, store: SqliteStore, session: Session, timeline: Timeline) -> list[bytes]:
        """What is said in the spans of a timeline, where they are few: a page shows only some of many."""
        if len(timeline.span_id) > MOST_SPANS_WITH_TEXTS:
            return []
        contents = self._texts.contents(store, session, [bytes.fromhex(each) for each in timeline.span_id])
        cutter = Cutter(TEXT_CHARS)
        spans = {span_id.hex(): cutter.pieces(said) for span_id, said in contents.items()}
        if sum(len(piece.text) for pieces in spans.values() for piece in pieces) > MOST_TEXT_CHARS:
            return []
        return [message(LiveTexts(timeline.cursor, timeline.session, TEXT_CHARS, spans))]
