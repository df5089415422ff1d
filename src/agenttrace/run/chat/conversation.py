"""Conversations: which one a message belongs to, its messages, and the session that it has in the cloud.

The cloud stores the context of a conversation for one hour and 50 rounds, under its own id; we store it for ever. The
session of the cloud is used while it is certain to exist; after that the stored history is sent, and the answer opens a
new session. The vendor does not document that such a session contains the history it was opened with; where the tokens
of the next answer show that it does not, the history is sent each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from psycopg import AsyncClientCursor
from psycopg.types.numeric import Int4, Int8

from agenttrace.run.chat.history import Round, StoredMessage, rounds_of
from agenttrace.run.postgres.pool import Database
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.results.storable import storable_text
from agenttrace.run.states import ConversationEntry
from agenttrace.run.upstream.wire import AppAnswer

logger = logging.getLogger(__name__)

#: How long after its last message a conversation is still taken up again.
REUSE_WINDOW = timedelta(days=3)
#: A session of the cloud is left in time: it ends after an hour, or 50 rounds.
CLOUD_IDLE = timedelta(minutes=55)
CLOUD_ROUNDS = 48
#: Messages that are read of a conversation at most, beside its summary.
MESSAGES_LIMIT = 2_000
#: A session that was opened with less history than this is not judged by its tokens.
_JUDGED_TOKENS = 300

_FOR_EVER = timedelta(days=36_500)
_TITLE_CHARS = 50

_RESOLVE = f"SELECT * FROM biz.ai_conversation_resolve({', '.join(['%s'] * 11)})"

_HISTORY = """
SELECT c.summary, m.role, m.content, m.run_log_id, m.id
FROM biz.ai_conversations AS c LEFT JOIN biz.ai_messages AS m
    ON m.conversation_id = c.id AND m.id > c.summary_until AND m.id < %s
WHERE c.id = %s ORDER BY m.id DESC LIMIT %s
"""

#: Of two turns that summarise at the same time, the one that has seen more counts.
_SUMMARISE = """
UPDATE biz.ai_conversations SET summary = %s, summary_until = %s WHERE id = %s AND summary_until < %s
"""

# The lock comes first, in its own statement: then a message that another turn is writing is seen.
_WITHDRAW = b"""
SELECT FROM biz.ai_conversations WHERE id = %(id)s FOR UPDATE;
DELETE FROM biz.ai_messages WHERE id = %(question)s;
DELETE FROM biz.ai_conversations WHERE %(new)s AND id = %(id)s
    AND NOT EXISTS (SELECT FROM biz.ai_messages WHERE conversation_id = %(id)s)
"""


class ConversationNotFoundError(Exception):
    """There is no such conversation, or another user has it; the error does not say which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """The conversation of one message, as it was when the message came in."""

    id: int
    #: Our own stable key, ``conv_…``.
    session_id: str
    entry: str
    target_id: str | None
    #: Made for this message.
    is_new: bool
    #: The message, where one was given.
    message_id: int | None
    #: The session to go on with; None: there is none, or it is not to be relied on.
    cloud_session_id: str | None
    #: The session that the conversation had, whether it is to be relied on or not.
    known_session_id: str | None = None
    #: About how many tokens of history the session to go on with was opened with.
    cloud_tokens: int = 0
    #: Where there is no session: what was said, oldest first, and a summary of what was said before.
    rounds: tuple[Round, ...] = ()
    summary: str | None = None


def reuse_window(entry: str) -> timedelta | None:
    """How old a conversation may be that a message from this entry continues; None: it always begins a new one."""
    return {
        ConversationEntry.GENERAL: None,
        ConversationEntry.TASK: _FOR_EVER,
        ConversationEntry.CUSTOMER: REUSE_WINDOW,
        ConversationEntry.COACH: REUSE_WINDOW,
    }[ConversationEntry(entry)]


def cloud_session_after(sent: str | None, answer: AppAnswer) -> str | None:
    """The session that knows all of the conversation after this answer; None: only the local history does."""
    # It is not documented what the cloud stores of an answer that was cut off.
    if not answer.finish_reason or (sent is not None and answer.session_id != sent):
        return None
    return answer.session_id


class ConversationService:
    """The conversations of all users."""

    def __init__(self, database: Database) -> None:
        self.database = database
        #: Until an answer shows otherwise, a session holds the history that it was opened with.
        self._sessions_hold_history = True

    async def resolve(
        self,
        user_id: str,
        site_id: int,
        entry: str,
        target_id: str | None = None,
        conversation_id: int | None = None,
        message: str | None = None,
    ) -> Conversation:
        """The conversation that a message belongs to, found or created; the message is stored in it. One round trip."""
        said = None if message is None else storable_text(message)
        values = (
            user_id,
            Int8(site_id),
            entry,
            target_id,
            None if conversation_id is None else Int8(conversation_id),
            reuse_window(entry),
            None if said is None else said[:_TITLE_CHARS],
            said,
            CLOUD_IDLE,
            Int4(CLOUD_ROUNDS),
            Int8(MESSAGES_LIMIT),
        )
        row = await self.database.one(_RESOLVE, values)
        if row is None or row[0] is None:
            raise ConversationNotFoundError(f"there is no conversation {conversation_id}")
        return Conversation(
            id=row[0],
            session_id=row[1],
            is_new=row[2],
            cloud_session_id=row[3],
            message_id=row[4],
            entry=row[5],
            target_id=row[6],
            rounds=rounds_of(StoredMessage(*fields) for fields in row[7] or ()),
            summary=row[8],
            known_session_id=row[9],
            cloud_tokens=row[10] or 0,
        )

    async def reloaded(self, conversation: Conversation) -> Conversation:
        """The same with what was said before its message, for one whose session turned out to be lost."""
        before = conversation.message_id or 2**62
        rows = await self.database.all(_HISTORY, [Int8(before), Int8(conversation.id), MESSAGES_LIMIT])
        rounds = rounds_of(StoredMessage(*row[1:]) for row in rows if row[4] is not None)
        return replace(conversation, rounds=rounds, summary=rows[0][0] if rows else None)

    async def store_summary(self, conversation: Conversation, summary: str, until: int) -> None:
        """Store a summary of all messages up to one."""
        values = [storable_text(summary), Int8(until), Int8(conversation.id), Int8(until)]
        await self.database.execute(_SUMMARISE, values)

    def storing(
        self,
        conversation: Conversation,
        answer: AppAnswer,
        *,
        sent: str | None,
        sent_tokens: int = 0,
        on_stored: Callable[[int | None], None],
    ) -> SqlCall:
        """Storing the answer, for the statement that settles the call; ``on_stored`` gets the id of the message."""
        is_answer = bool(answer.text or answer.finish_reason)
        arguments = (
            Int8(conversation.id),
            Int8(conversation.message_id or 0),
            storable_text(answer.text) if is_answer else None,
            Int4(answer.tokens_used),
            self._session_after(conversation, answer, sent, sent_tokens) if is_answer else None,
            conversation.known_session_id,
            sent is None,
            Int4(sent_tokens),
        )
        return SqlCall(function="ai_conversation_answer", arguments=arguments, takes_row=True, on_result=on_stored)

    def _session_after(
        self, conversation: Conversation, answer: AppAnswer, sent: str | None, sent_tokens: int
    ) -> str | None:
        if sent is None:
            holds = self._sessions_hold_history or not sent_tokens
            return cloud_session_after(sent, answer) if holds else None
        opened_with, usage = conversation.cloud_tokens, answer.usage
        if opened_with >= _JUDGED_TOKENS and not usage.estimated and usage.input_tokens < opened_with / 2:
            logger.warning("the cloud does not store the history that a session was opened with; it is sent each time")
            self._sessions_hold_history = False
            return None
        return cloud_session_after(sent, answer)

    async def withdraw(self, conversation: Conversation) -> None:
        """Delete a message that was refused, and its conversation if that was created for it."""
        values = {"id": conversation.id, "question": conversation.message_id, "new": conversation.is_new}
        async with self.database.pool.connection() as connection, AsyncClientCursor(connection) as cursor:
            await cursor.execute(_WITHDRAW, values)
