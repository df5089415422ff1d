"""Conversations: which one a message belongs to, what was said in it, and which of the cloud's sessions knows it.

The cloud keeps the context of a conversation for one hour and 50 rounds, under an id of its own. Ours is for ever. So
the cloud's session is used while it is certain to be there, and the history kept here is sent once it is not; from
then on for the rest of the conversation, because nobody says what a session holds that was begun with a history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.types.numeric import Int4, Int8

from agenttrace.run.database import Database
from agenttrace.run.sql_call import SqlCall, tell, values_of
from agenttrace.run.storable import storable_text
from agenttrace.run.wire import Answer

ENTRIES = ("general", "task", "customer", "coach")
#: How long after its last message a conversation is still taken up again.
REUSE_WINDOW = timedelta(days=3)
#: A session of the cloud is left in time: it ends after an hour, or 50 rounds.
CLOUD_IDLE = timedelta(minutes=55)
CLOUD_ROUNDS = 48
#: What is sent of the local history at most.
HISTORY_ROUNDS = 20
HISTORY_CHARS = 12_000

_FOR_EVER = timedelta(days=36_500)
_SESSION_ID = re.compile(r"conv_([1-9]\d*)_\d+", re.ASCII)
_TITLE_CHARS = 50

_RESOLVE = f"SELECT * FROM biz.ai_conversation_resolve({', '.join(['%s'] * 11)})"

_HISTORY = """
SELECT role, content, run_log_id, id FROM biz.ai_messages
WHERE conversation_id = %s AND id < %s ORDER BY id DESC LIMIT %s
"""

# The lock first, in a statement of its own: a message of somebody else that is just being written is then seen.
_WITHDRAW = """
SELECT FROM biz.ai_conversations WHERE id = %(id)s FOR UPDATE;
DELETE FROM biz.ai_messages WHERE id = %(question)s;
DELETE FROM biz.ai_conversations WHERE %(new)s AND id = %(id)s
    AND NOT EXISTS (SELECT FROM biz.ai_messages WHERE conversation_id = %(id)s)
"""


class ConversationNotFoundError(Exception):
    """There is no such conversation, or it is somebody else's; which of the two is not told."""


class StoredMessage(NamedTuple):
    """A message as it is kept."""

    role: str
    content: str
    #: The call that the message belongs to; None for one that was never answered, or is from before there were logs.
    run_log_id: int | None
    id: int


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
    #: What is to be sent where there is no session: earlier rounds, oldest first.
    history: tuple[dict[str, str], ...]


def make_session_id(conversation_id: int, created_timestamp: int) -> str:
    """Our key of a conversation."""
    return f"conv_{conversation_id}_{created_timestamp}"


def parse_session_id(session_id: str) -> int:
    """The id of the conversation that a key belongs to."""
    found = _SESSION_ID.fullmatch(session_id)
    if found is None:
        raise ValueError(f"not the session id of a conversation: {session_id[:100]!r}")
    return int(found[1])


def reuse_window(entry: str) -> timedelta | None:
    """How old a conversation may be that a message from this entry continues; None: it always begins a new one."""
    return {"general": None, "task": _FOR_EVER, "customer": REUSE_WINDOW, "coach": REUSE_WINDOW}[entry]


def should_reuse(entry: str, age: timedelta | None) -> bool:
    """Whether the latest conversation of an entry and target goes on; ``age`` None: there is none."""
    window = reuse_window(entry)
    return window is not None and age is not None and age <= window


def as_history(messages: Iterable[StoredMessage]) -> tuple[dict[str, str], ...]:
    """The last rounds of a conversation for the application, within bounds; what was never answered is left out."""
    # Two turns at the same time mix their messages; the number of the call sorts them again.
    ordered = sorted(messages, key=lambda message: (message.run_log_id or 0, message.id))
    rounds = [
        (asked.content, told.content)
        for asked, told in pairwise(ordered)
        if (asked.role, told.role) == ("user", "assistant")
    ]
    history: list[dict[str, str]] = []
    left = HISTORY_CHARS
    for asked, told in reversed(rounds[-HISTORY_ROUNDS:]):
        if not history:
            # The last round is what the next message most likely is about: rather a part of it than nothing.
            asked, told = asked[: HISTORY_CHARS // 2], told[: HISTORY_CHARS // 2]
        left -= len(asked) + len(told)
        if left < 0:
            break
        history[:0] = ({"role": "user", "content": asked}, {"role": "assistant", "content": told})
    return tuple(history)


def cloud_session_after(sent: str | None, answer: Answer, *, with_history: bool) -> str | None:
    """The session that knows all of the conversation after this answer; None: only the local history does."""
    # What the cloud keeps of an answer that was cut off, nobody says.
    if with_history or not answer.finish_reason or (sent is not None and answer.session_id != sent):
        return None
    return answer.session_id


class ConversationService:
    """The conversations of all users."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def resolve(
        self,
        user_id: str,
        site_id: int,
        entry: str,
        target_id: str | None = None,
        conversation_id: int | None = None,
        message: str | None = None,
    ) -> Conversation:
        """The conversation that a message belongs to, found or made; the message is kept with it. One round trip."""
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
            Int8(2 * HISTORY_ROUNDS),
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
            history=as_history(StoredMessage(*fields) for fields in row[7] or ()),
        )

    async def history(self, conversation: Conversation) -> tuple[dict[str, str], ...]:
        """What was said before the message that the conversation was resolved for."""
        before = conversation.message_id or 2**62
        rows = await self.database.all(_HISTORY, [Int8(conversation.id), Int8(before), 2 * HISTORY_ROUNDS])
        return as_history(StoredMessage(*row) for row in rows)

    async def keep_answer(
        self,
        connection: AsyncConnection[Any],
        conversation: Conversation,
        log_id: int,
        answer: Answer,
        *,
        sent: str | None,
        with_history: bool,
    ) -> int | None:
        """Write the answer, or what there is of it, in the caller's transaction; the id of its message.

        ``sent`` is the cloud's session that was asked for, ``with_history`` whether the local history went along.
        """
        found: list[int | None] = []
        call = self.keeping(conversation, answer, sent=sent, with_history=with_history, told=found.append)
        row = await (await connection.execute(call.statement, values_of(call) | {"settled": Int8(log_id)})).fetchone()
        tell(row or (), [call])
        return found[0]

    def keeping(
        self,
        conversation: Conversation,
        answer: Answer,
        *,
        sent: str | None,
        with_history: bool,
        told: Callable[[int | None], None],
    ) -> SqlCall:
        """The same as a part of the statement that settles the call; ``told`` hears the id of the message."""
        is_answer = bool(answer.text or answer.finish_reason)
        arguments = (
            Int8(conversation.id),
            Int8(conversation.message_id or 0),
            storable_text(answer.text) if is_answer else None,
            Int4(answer.tokens_used),
            cloud_session_after(sent, answer, with_history=with_history) if is_answer else None,
            sent,
        )
        return SqlCall(function="ai_conversation_answer", arguments=arguments, takes_row=True, told=told)

    async def withdraw(self, conversation: Conversation) -> None:
        """Take back a message that was refused, and the conversation where it was made for it."""
        values = {"id": conversation.id, "question": conversation.message_id, "new": conversation.is_new}
        await self._last_row(_WITHDRAW, values)

    async def _last_row(self, statements: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        async with self.database.pool.connection() as connection, AsyncClientCursor(connection) as cursor:
            await cursor.execute(statements.encode(), values)
            while cursor.nextset():
                pass
            return await cursor.fetchone() if cursor.description else None
