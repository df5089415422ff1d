"""``GET /api/v1/live``: notifies subscribers of changes in the store, as server-sent events.

While there is a subscriber, one task polls for commits: it looks at the files of the store, and asks the store where
they changed. Each message is encoded once for all subscribers, and the spans of a session are read only where a
subscriber watches it and it did change. The texts of those spans are sent with them: fifty pages that show a working
agent would each ask for them ten times a second. A slow subscriber delays no other one: beyond a limit its messages are
dropped, and a reset tells it to load everything again.

A message moves a subscriber's cursor only when everything up to there was sent, so that a connection may break between
any two: spans are sent first, and keep the cursor; the rows of the sessions follow, and move it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextvars import Context
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.model import Session
from agenttrace.serve.api.lists import BIGGEST
from agenttrace.serve.api.live.notices import Notices
from agenttrace.serve.api.sessions.lookup import number_of
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.sessions.spans import Cutter
from agenttrace.serve.api.sessions.timeline import changed_timeline
from agenttrace.serve.api.shapes.live import LiveHello, LiveNotices, LiveReset, LiveSessions, LiveTexts
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.serve.api.shapes.spans import Timeline
from agenttrace.serve.api.trace_reader import TraceReader
from agenttrace.serve.event_stream import MEDIA_TYPE, EventStream
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.sight import Sight, current_sight, seeing, sight_renewal

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

logger = logging.getLogger(__name__)

#: Between two polls for commits; a user does not notice it.
POLL_SECONDS = 0.04
#: After a poll that failed.
_RETRY_SECONDS = 1.0
#: Bytes that may wait for a subscriber that reads nothing.
MOST_PENDING = 2 * 1024 * 1024
#: When more sessions than this have changed, loading the list again is less work.
MOST_ROWS = 500
#: Changed spans whose texts are sent with them, and characters of each text and of all: a page asks for the others.
MOST_SPANS_WITH_TEXTS = 40
TEXT_CHARS = 2_000
MOST_TEXT_CHARS = 64_000
#: How long a browser waits before it connects again.
_RETRY = b"retry: 1000\n"
News = LiveHello | LiveSessions | Timeline | LiveTexts | LiveNotices | LiveReset
_encoder = msgspec.json.Encoder()


class LiveMark(msgspec.Struct, frozen=True):
    """The event up to which a subscriber has everything, and the epoch of the index where that is known."""

    cursor: int
    epoch: str = ""

    @classmethod
    def parse(cls, text: str) -> LiveMark | None:
        """The id of a message, or the cursor of a list, as a mark; None where it is neither."""
        number, _, epoch = text.strip().partition("-")
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            return None
        return cls(int(number), epoch)


def message(news: News) -> bytes:
    """A message without its id; JSON has no raw line ends, so it is always one line of data."""
    # The shape names the event: hello, sessions, timeline, texts, notices or reset.
    name = type(news).__name__.removeprefix("Live").lower()
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encoder.encode(news))


class Subscriber:
    """One stream: its pending messages, never more than a limit."""

    def __init__(self, session: str | None, mark: LiveMark, sent: int, revision: int, notice: int = 0) -> None:
        #: The key of the session whose spans are wanted.
        self.session = session
        #: What is shown to the subscriber.
        self.sight, self._renewal = current_sight(), sight_renewal()
        #: The event and the revision of the index up to which the spans of that session were sent.
        self.sent, self.revision = sent, revision
        #: The last notice that was sent.
        self.notice = notice
        self._mark = mark
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._ready = asyncio.Event()
        self._ended = False

    def send(self, text: bytes, mark: LiveMark | None = None) -> bool:
        """Queue a message, which moves the mark where one is given; False where too much is pending already."""
        if self._pending and self._size + len(text) > MOST_PENDING:
            return False
        if mark is not None and (mark.epoch != self._mark.epoch or mark.cursor > self._mark.cursor):
            self._mark = mark
        self._pending.append(b"id: %d-%b\n%b" % (self._mark.cursor, self._mark.epoch.encode(), text))
        self._size += len(text)
        self._ready.set()
        return True

    def look_again(self) -> bool:
        """Find out what is shown now; whether that is something else than before."""
        before, self.sight = self.sight, self._renewal()
        return self.sight != before

    def clear(self) -> None:
        """Drop pending messages."""
        self._pending.clear()
        self._size = 0

    def end(self) -> None:
        """End the stream."""
        self._ended = True
        self._ready.set()

    async def take(self) -> bytes:
        """All pending messages, as soon as there are some; nothing at the end."""
        await self._ready.wait()
        if not self._ended:
            self._ready.clear()
        taken = b"".join(self._pending)
        self.clear()
        return taken


class Hub:
    """All subscribers, and the task that notifies them."""

    def __init__(self, reader: TraceReader, index: SessionIndex) -> None:
        self._reader, self._index = reader, index
        self._subscribers: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._epoch, self._revision = "", 0
        self._notices = Notices(reader)
        self._version = version("agenttrace")

    # -- subscribers ------------------------------------------------------------------------------------------

    async def join(
        self, session: str | None = None, after: str | None = None, notices: int | None = None
    ) -> Subscriber:
        """Subscribe from now on, or after a mark: first what changed since then, or a reset."""
        await self._index.refresh()
        missed_notices = await self._notices.since(notices)
        sent, revision = self._index.cursor, self._index.revision
        since = None if after is None else LiveMark.parse(after)
        spans: list[bytes] | None = []
        if session is not None and since is not None and self._index.is_changed(session, since.cursor):
            spans = await self._spans(session, since.cursor)
        # No await from here on: the task sends what changes now.
        now = LiveMark(self._index.cursor, self._index.epoch)
        rows = [] if after is None else self._rows_since(since, session)
        missed = rows is None or spans is None
        # Where changes follow, hello must not move the mark beyond them.
        start = now if since is None or missed else LiveMark(since.cursor, now.epoch)
        subscriber = Subscriber(session, start, sent, revision, missed_notices.number)
        subscriber.send(_RETRY + message(LiveHello(start.cursor, self._version, missed_notices.number)))
        if missed:
            subscriber.send(message(LiveReset(now.cursor)))
        else:
            for text in spans or ():
                subscriber.send(text)
            if rows:
                subscriber.send(message(LiveSessions(now.cursor, rows)), now)
        if missed_notices.items:
            subscriber.send(message(missed_notices.message(start.cursor)))
        self._add(subscriber)
        return subscriber

    def _rows_since(self, since: LiveMark | None, session: str | None) -> list[SessionRow] | None:
        """The sessions that changed since a mark; None where that is unknown."""
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
            # Not in the context of this request, whose sight is that of one subscriber.
            self._task = asyncio.create_task(self._follow(), name="live", context=Context())

    def leave(self, subscriber: Subscriber) -> None:
        """Unsubscribe."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End all streams, and accept no new ones."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        for subscriber in self._subscribers:
            subscriber.end()
        self._subscribers.clear()

    # -- notifying --------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        failing, watch = False, self._reader.source.watch()
        while self._subscribers:
            if not failing and not watch.due():
                await asyncio.sleep(POLL_SECONDS)
                continue
            try:
                await self._round()
                await self._send_notices()
                failing = False
            except Exception as error:
                # The changes are lost; the next round resets all subscribers.
                self._epoch = ""
                if not failing:
                    logger.warning("live updates wait for the store (%s)", type(error).__name__, exc_info=error)
                failing = True
            await asyncio.sleep(_RETRY_SECONDS if failing else POLL_SECONDS)

    async def _round(self) -> None:
        """Notify all subscribers of what has changed by now."""
        index = self._index
        await index.refresh()
        subscribers, now = list(self._subscribers), LiveMark(index.cursor, index.epoch)
        before, is_new = self._revision, self._epoch != index.epoch
        self._epoch, self._revision = index.epoch, index.revision
        if is_new or len(index.revised_since(before)) > MOST_ROWS:
            self._reset(subscribers, now)
            return
        alike: dict[Sight | None, list[Subscriber]] = {}
        self._reset([subscriber for subscriber in subscribers if subscriber.look_again()], now)
        for subscriber in subscribers:
            alike.setdefault(subscriber.sight, []).append(subscriber)
        for sight, group in alike.items():
            with seeing(sight):
                await self._send_news(group, before, now)

    async def _send_news(self, subscribers: Sequence[Subscriber], before: int, now: LiveMark) -> None:
        """Notify subscribers of one sight of what has changed since a revision of the index."""
        index = self._index
        rows = index.revised_since(before)
        news = message(LiveSessions(now.cursor, rows)) if rows else None
        watching: dict[str, list[Subscriber]] = {}
        for subscriber in subscribers:
            if subscriber.session is not None and index.revision_of(subscriber.session) > subscriber.revision:
                watching.setdefault(subscriber.session, []).append(subscriber)
            elif news is not None:
                self._send(subscriber, news, now)
        for session, group in watching.items():
            await self._send_spans(session, group, news, now)

    async def _send_notices(self) -> None:
        """Send what rules notify about; it moves no mark, as notices have numbers of their own."""
        subscribers = list(self._subscribers)
        if not subscribers or not self._notices.due():
            return
        found = await self._notices.since(min(subscriber.notice for subscriber in subscribers))
        for subscriber in subscribers:
            shown = found
            if found.items and subscriber.sight is not None:
                with seeing(subscriber.sight):
                    shown = await self._notices.since(subscriber.notice)
            news, subscriber.notice = shown.after(subscriber.notice), found.number
            if news.items:
                self._send(subscriber, message(news.message(self._index.cursor)))

    async def _send_spans(self, session: str, group: Sequence[Subscriber], news: bytes | None, now: LiveMark) -> None:
        """Send the spans of a session to its subscribers, then the rows, which move their mark."""
        after = min(subscriber.sent for subscriber in group)
        for subscriber in group:
            subscriber.sent, subscriber.revision = now.cursor, self._revision
        spans = await self._spans(session, after)
        if spans is None or self._index.is_rebilled(session, after):
            self._reset(group, now)
            return
        for subscriber in group:
            for text in spans:
                self._send(subscriber, text)
            if news is not None:
                self._send(subscriber, news, now)

    def _send(self, subscriber: Subscriber, text: bytes, mark: LiveMark | None = None) -> None:
        if not subscriber.send(text, mark):
            self._reset([subscriber], LiveMark(self._index.cursor, self._index.epoch))

    def _reset(self, subscribers: Iterable[Subscriber], now: LiveMark) -> None:
        text = message(LiveReset(now.cursor))
        for subscriber in subscribers:
            subscriber.clear()
            subscriber.sent = now.cursor
            subscriber.send(text, now)

    async def _spans(self, session: str, after: int) -> list[bytes] | None:
        """The changes of a session after an event, as messages; None where they are too many."""
        number = int(session, 16)

        def question(store: Store) -> list[bytes] | None:
            found = store.sessions_by_number([number])
            if not found:
                return []
            timeline = changed_timeline(store, found[0], after, self._index.prices)
            if timeline.complete or timeline.next is not None:
                return None
            if not timeline.span_id:
                return []
            timeline.cursor = after
            # Encoded here, in a reader's thread: it can be long.
            spans = message(timeline)
            return [spans, *self._texts(store, found[0], timeline)] if len(spans) < MOST_PENDING // 2 else None

        return await self._reader.query(question, empty=list)

    def _texts(self, store: Store, session: Session, timeline: Timeline) -> list[bytes]:
        """The texts of the spans of a timeline, where they are few: a page shows only some of many."""
        if len(timeline.span_id) > MOST_SPANS_WITH_TEXTS:
            return []
        contents = self._reader.texts.contents(store, session, [bytes.fromhex(each) for each in timeline.span_id])
        cutter = Cutter(TEXT_CHARS)
        spans = {span_id.hex(): cutter.pieces(said) for span_id, said in contents.items()}
        if sum(len(piece.text) for pieces in spans.values() for piece in pieces) > MOST_TEXT_CHARS:
            return []
        return [message(LiveTexts(timeline.cursor, timeline.session, TEXT_CHARS, spans))]


# -- the endpoint -------------------------------------------------------------------------------------------------

_EXAMPLE_STREAM = """id: 4711-5f3a9c02
event: hello
data: {"cursor":4711,"version":"0.1.0","notice":12}

id: 4713-5f3a9c02
event: sessions
data: {"cursor":4713,"rows":[…]}
"""
_DOCS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`hello` (LiveHello), then `sessions` (LiveSessions) with the sessions that have changed, "
        "`timeline` (Timeline, `complete` false) with changed spans of the session that was asked for, `texts` "
        "(LiveTexts) with what is said in them where they are few, `notices` (LiveNotices) with notifications of "
        "rules, and `reset` (LiveReset) where too much has changed. An `id` is where to resume after a break, by the "
        "header Last-Event-ID or by `after`.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE_STREAM}},
    }
}


class LiveResponse(EventStream):
    """The stream of one subscriber."""

    def __init__(self, hub: Hub, session: str | None, after: str | None, notices: int | None, heartbeat: float) -> None:
        super().__init__(heartbeat)
        self._hub, self._session, self._after, self._notices = hub, session, after, notices
        self._subscriber: Subscriber | None = None

    async def begin(self) -> None:
        """Subscribe."""
        self._subscriber = await self._hub.join(self._session, self._after, self._notices)

    async def take(self) -> bytes:
        """Pending messages."""
        assert self._subscriber is not None
        return await self._subscriber.take()

    def over(self) -> None:
        """Unsubscribe."""
        if self._subscriber is not None:
            self._hub.leave(self._subscriber)


def live_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["live"])
    heartbeat = float(context.settings.serve.heartbeat_seconds)

    @router.get(
        "/live",
        summary="Changes as server-sent events",
        response_class=Response,
        responses=_DOCS | documented(400, 503),
    )
    async def live(
        request: Request,
        session: Annotated[str | None, Query(description="Also the changed spans of the session of this key.")] = None,
        after: Annotated[
            str | None,
            Query(description="The `id` of the last message, or the `cursor` of a list, to continue from."),
        ] = None,
        notices: Annotated[
            int | None, Query(ge=0, le=BIGGEST, description="The last `notice` that is known, to continue from.")
        ] = None,
    ) -> Response:
        if session is not None:
            number_of(session)
        if context.life.stopping:
            raise ProblemError(503, "The server is stopping.", headers={"Retry-After": "1"})
        # A browser that reconnects repeats the first address, and has its mark in the header.
        return LiveResponse(context.hub, session, request.headers.get("last-event-id") or after, notices, heartbeat)

    return router
