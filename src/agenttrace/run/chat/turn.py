"""A turn of a chat: the message is stored and admitted, the answer is streamed, and everything is written.

The upstream is read by its own task. If the listener of the turn is slow, the upstream waits. If the listener hangs up,
the upstream is stopped; the part of the answer that had arrived is stored, and its tokens are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agenttrace.run.catalog.catalog import App, AppCatalog
from agenttrace.run.catalog.texts import Texts
from agenttrace.run.chat.conversation import Conversation, ConversationService
from agenttrace.run.chat.history import SHARE, SUMMARY_TOKENS, Message, as_messages, split, summarise, tokens_of
from agenttrace.run.errors import (
    BudgetExceededError,
    CircuitOpenError,
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeTimeoutError,
    RateLimitExceededError,
)
from agenttrace.run.guards.guarded import HUNG_UP, GuardedClient, GuardedStream
from agenttrace.run.postgres.pool import AWAY, Database
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.states import RunStatus, TriggerType
from agenttrace.run.upstream.calls import CallRequest, RateRule
from agenttrace.run.upstream.wire import AppAnswer, estimate_tokens

logger = logging.getLogger(__name__)

#: Pieces of an answer that wait for a slow listener before the upstream has to wait, too.
OUTBOX_SIZE = 64
#: What arrives within this time is passed on together, after a first piece that never waits: twenty times a second is
#: faster than people read, and each write to the listener costs as much as making the piece.
PACE = 0.05
#: Seconds that a message waits for its turn at a budget that is nearly spent.
CHAT_PATIENCE = 30.0
STOPPING = "the server is stopping"
SESSION_LOST = "the cloud has lost the session; asked again with the history"
#: The code and the text that the user gets for an error; the first that fits.
_ERROR_TEXTS: tuple[tuple[type[Exception], str, str], ...] = (
    (DashScopeAuthError, "auth", "auth"),
    (DashScopeTimeoutError, "timeout", "timeout"),
    (CircuitOpenError, "circuit_open", "circuit_open"),
    (RateLimitExceededError, "rate_limited", "rate_limited"),
    (BudgetExceededError, "budget_exceeded", "budget_exceeded"),
    (DashScopeApiError, "upstream", "failed"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatEvent:
    """An event for the listener: any number of messages, then exactly one ``done`` or ``error``."""

    kind: Literal["message", "done", "error"]
    data: dict[str, Any]

    @property
    def is_last(self) -> bool:
        """Nothing comes after it."""
        return self.kind != "message"


def error_event(error: Exception, texts: Texts) -> ChatEvent:
    """The event of an error: a text in the user's language, never that of the error itself."""
    if isinstance(error, BudgetExceededError) and error.is_busy:
        return _error("budget_busy", texts["budget_busy"])
    for kind, code, text in _ERROR_TEXTS:
        if isinstance(error, kind):
            return _error(code, texts[text])
    return _error("internal", texts["failed"])


def _error(code: str, message: str) -> ChatEvent:
    return ChatEvent(kind="error", data={"code": code, "message": message})


def is_session_refusal(error: Exception) -> bool:
    """Whether the cloud refuses the session, rather than what was said in it."""
    if not isinstance(error, DashScopeApiError) or isinstance(error, DashScopeAuthError):
        return False
    return 400 <= (error.status_code or 0) < 500 and "session" in f"{error.code} {error}".lower()


class _Outbox:
    """Events on their way from the upstream to the listener: not too many of them, and not too many wake-ups."""

    def __init__(self) -> None:
        self._events: list[ChatEvent] = []
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def put(self, event: ChatEvent) -> None:
        await self._room.wait()
        self.put_at_once(event)

    def put_at_once(self, event: ChatEvent) -> None:
        """For the last event, which always has room."""
        self._events.append(event)
        is_full = len(self._events) >= OUTBOX_SIZE
        if is_full:
            self._room.clear()
        if event.is_last or is_full or self._loop.time() >= self._due:
            self._filled.set()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._due, self._filled.set)

    async def take(self) -> list[ChatEvent]:
        await self._filled.wait()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        self._filled.clear()
        self._room.set()
        self._due = self._loop.time() + PACE
        return events


class ChatTurn:
    """One question and its answer on the way: an async iterator of events, for one listener.

    It runs with or without a listener, until its answer is complete, ``hang_up`` or ``stop``.
    """

    def __init__(self, service: ChatService, ask: _Ask, stream: GuardedStream) -> None:
        self.conversation = ask.conversation
        self._service = service
        self._ask = ask
        self._stream = stream
        self._outbox = _Outbox()
        self._heard = self._over = False
        self._stopped_by = ""
        self.finished = asyncio.create_task(self._run(), name=f"chat {ask.conversation.session_id}")

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[ChatEvent]:
        while events := await self.batch():
            for event in events:
                yield event

    async def batch(self) -> list[ChatEvent]:
        """All events that are there, at least one; empty after the last."""
        if self._over:
            return []
        events = await self._outbox.take()
        self._over = events[-1].is_last
        return events

    def hang_up(self) -> None:
        """The listener is gone: the upstream is stopped, and what has arrived is written."""
        self._stop(HUNG_UP)

    def stop(self) -> None:
        """The server stops: the listener gets an error event, and what has arrived is written."""
        self._stop(STOPPING)

    def _stop(self, reason: str) -> None:
        if not self.finished.done() and not self._stopped_by:
            self._stopped_by = reason
            self.finished.cancel(reason)

    async def _run(self) -> None:
        last: ChatEvent | None = None
        try:
            last = await self._answered()
        except asyncio.CancelledError:
            # The last event is made below: the answer may have been complete, only not written, when the end came.
            pass
        except Exception as error:
            last = error_event(error, self._ask.texts)
            if last.data["code"] == "internal":
                logger.exception("a chat turn failed")
        try:
            # Whatever ended it: settled exactly once, also when the end came while the listener was waited for.
            await self._stream.aclose(self._stopped_by or HUNG_UP)
        except Exception as error:
            logger.error("the end of a chat turn was not written: %s", type(error).__name__)
        self._outbox.put_at_once(
            last or (self._done() if self._stream.status == RunStatus.SUCCESS else self._cut_off())
        )

    async def _answered(self) -> ChatEvent:
        while True:
            try:
                async for text in self._stream:
                    if not self._heard and self._is_elsewhere():
                        break
                    self._heard = True
                    await self._outbox.put(ChatEvent(kind="message", data={"content": text}))
                else:
                    return self._done()
            except DashScopeApiError as error:
                if self._heard or self._ask.cloud_session is None or not is_session_refusal(error):
                    raise
            await self._recover()

    def _is_elsewhere(self) -> bool:
        """Whether the cloud answers in another session than it was asked in, and so without knowing what was said."""
        sent, answers_in = self._ask.cloud_session, self._stream.cloud_session
        return sent is not None and answers_in is not None and answers_in != sent

    async def _recover(self) -> None:
        """Ask again with the stored history; nothing was streamed yet."""
        self._ask.is_void = True
        await self._stream.aclose(SESSION_LOST)
        self._stream = await self._service.reopen(self._ask)

    def _cut_off(self) -> ChatEvent:
        return _error("stopping", self._ask.texts["failed"])

    def _done(self) -> ChatEvent:
        answer = self._stream.answer
        assert answer is not None
        data = {
            "conversation_id": self.conversation.id,
            "message_id": self._ask.answer_id,
            "session_id": self.conversation.session_id,
            "tokens_used": answer.tokens_used,
            "estimated": answer.usage.estimated,
        }
        return ChatEvent(kind="done", data=data)


@dataclass(kw_only=True, slots=True)
class _Ask:
    """What a turn asks, and how: within the cloud's session, with the local history, or from scratch."""

    user_id: str
    site_id: int
    message: str
    conversation: Conversation
    rate: RateRule
    cloud_session: str | None
    #: The texts for the user, in the user's language.
    texts: Texts
    #: What is sent of the conversation where there is no session.
    history: Sequence[Message] = ()
    #: The answer that arrives now is not stored.
    is_void: bool = False
    #: The message that the answer became.
    answer_id: int | None = None

    @property
    def biz_params(self) -> dict[str, Any]:
        about = {"site_id": str(self.site_id), "user_id": self.user_id, "entry": self.conversation.entry}
        if self.conversation.target_id is not None:
            about["target_id"] = self.conversation.target_id
        return {"user_prompt_params": about}

    @property
    def member_id(self) -> int | None:
        target = self.conversation.target_id or ""
        is_member = self.conversation.entry == "customer" and target.isascii() and target.isdigit()
        return int(target) if is_member and len(target) <= 18 else None

    def sent_text(self) -> str:
        """Everything that the application reads, as far as we know."""
        return "".join([*(said["content"] for said in self.history), self.message])


class ChatService:
    """Starts turns, and counts those that are not over."""

    def __init__(
        self,
        database: Database,
        calls: GuardedClient,
        conversations: ConversationService,
        catalog: AppCatalog,
        app: App,
    ) -> None:
        self.database = database
        self.texts = catalog.texts
        self._calls = calls
        self._conversations = conversations
        self._app = app
        self._turns: set[ChatTurn] = set()

    @property
    def open_turns(self) -> int:
        """How many turns are not over."""
        return len(self._turns)

    async def start(
        self,
        user_id: str,
        site_id: int,
        message: str,
        entry: str = "general",
        target_id: str | None = None,
        conversation_id: int | None = None,
        *,
        texts: Texts | None = None,
    ) -> ChatTurn:
        """Store the message and admit its call; a refusal is raised here, before any answer.

        ``texts`` are in the user's language; without them, in the catalog's.
        """
        conversation = await self._conversations.resolve(user_id, site_id, entry, target_id, conversation_id, message)
        if not self._app.has_sessions and conversation.cloud_session_id is not None:
            # The conversation began with another provider, whose session means nothing to this one.
            conversation = replace(await self._conversations.reloaded(conversation), cloud_session_id=None)
        ask = _Ask(
            user_id=user_id,
            site_id=site_id,
            message=message,
            conversation=conversation,
            rate=self._app.rate,
            cloud_session=conversation.cloud_session_id,
            texts=texts or self.texts.default,
        )
        try:
            ask.history = await self._fitting(conversation, message)
            stream = await self._open(ask)
        except Exception:
            # What was refused is not part of the conversation: the user will say it again.
            with contextlib.suppress(*AWAY):
                await self._conversations.withdraw(conversation)
            raise
        return self._started(ChatTurn(self, ask, stream))

    async def reopen(self, ask: _Ask) -> GuardedStream:
        """The same question once more, with the local history in place of the cloud's session."""
        ask.history = await self._fitting(await self._conversations.reloaded(ask.conversation), ask.message)
        ask.cloud_session, ask.is_void = None, False
        # It is still the same turn: the place that it has in the user's window is enough.
        ask.rate = replace(ask.rate, limit=ask.rate.limit + 1)
        return await self._open(ask)

    async def drain(self, seconds: float) -> None:
        """Let open turns finish for so long, then stop them; returns when all of them are written."""
        if self._turns:
            await asyncio.wait([turn.finished for turn in self._turns], timeout=seconds)
        for turn in tuple(self._turns):
            turn.stop()
        if self._turns:
            await asyncio.wait([turn.finished for turn in self._turns])

    def _started(self, turn: ChatTurn) -> ChatTurn:
        self._turns.add(turn)
        turn.finished.add_done_callback(lambda _: self._turns.discard(turn))
        return turn

    async def _fitting(self, conversation: Conversation, message: str) -> tuple[Message, ...]:
        """What was said, as far as the model takes it: the last rounds whole, and a summary of all before them."""
        room = int(self._app.context_tokens * SHARE) - estimate_tokens(message)
        summary, rounds = conversation.summary, conversation.rounds
        older, recent = split(rounds, room - estimate_tokens(summary or ""))
        if older:
            # Room for the longest summary, so that what is cut now is not cut again next time.
            older, recent = split(rounds, room - SUMMARY_TOKENS)
            summary = summarise(summary, older)
            until = min([max(spoken.last_id for spoken in older), *(spoken.first_id - 1 for spoken in recent)])
            await self._conversations.store_summary(conversation, summary, until)
        return as_messages(summary, recent, self.texts.default)

    async def _open(self, ask: _Ask) -> GuardedStream:
        app, conversation = self._app, ask.conversation
        request = CallRequest(
            app_id=app.app_id,
            app_type=app.app_type,
            trigger_type=TriggerType.USER,
            site_id=ask.site_id,
            prompt=ask.message,
            rate=ask.rate,
            app_rate=app.rate_limit,
            **app.tokens_of(ask.sent_text()),
            patience=CHAT_PATIENCE,
            member_id=ask.member_id,
            user_id=ask.user_id,
            conversation_id=conversation.id,
            session_id=conversation.session_id,
        )
        sent, sent_tokens = ask.cloud_session, tokens_of(ask.history)

        def stored(answer_id: int | None) -> None:
            ask.answer_id = answer_id

        def writes(answer: AppAnswer, _: object) -> list[SqlCall]:
            if ask.is_void:
                return []
            return [
                self._conversations.storing(conversation, answer, sent=sent, sent_tokens=sent_tokens, on_stored=stored)
            ]

        return await self._calls.open_stream(
            request,
            biz_params=ask.biz_params,
            messages=ask.history or None,
            session_id=sent,
            parameters=app.parameters,
            writes=writes,
        )
