"""Conversations on a real database: found by rule, made once, and true to what was said."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import AsyncConnection
from psycopg.types.numeric import Int8

from agenttrace.run.chat.conversation import (
    CLOUD_ROUNDS,
    Conversation,
    ConversationNotFoundError,
    ConversationService,
    cloud_session_after,
)
from agenttrace.run.chat.history import Round, StoredMessage, as_messages, rounds_of, split, summarise, tokens_of
from agenttrace.run.postgres.pool import Database
from agenttrace.run.postgres.sql_call import pass_results, values_of
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.upstream.wire import AppAnswer, AppUsage, estimate_tokens

from .world import SUCCESS, call, opened

Body = Callable[[Database, ConversationService], Awaitable[None]]


def history_of(conversation: Conversation) -> tuple[dict[str, str], ...]:
    return as_messages(conversation.summary, conversation.rounds)


def run(url: str, body: Body) -> None:
    async def main() -> None:
        async with Database(url, size=12) as database:
            await body(database, ConversationService(database))

    asyncio.run(main())


def answer(text: str = "好的", session_id: str | None = "cloud-1", finish_reason: str = "stop") -> AppAnswer:
    usage = AppUsage(input_tokens=3, output_tokens=4, models=("qwen-plus",), estimated=False)
    return AppAnswer(
        text=text,
        usage=usage,
        session_id=session_id,
        request_id="r",
        attempts=1,
        burnt_tokens=0,
        finish_reason=finish_reason,
    )


async def keep_answer(
    service: ConversationService,
    connection: AsyncConnection[Any],
    conversation: Conversation,
    log_id: int,
    told: AppAnswer,
    *,
    sent: str | None,
    sent_tokens: int = 0,
) -> int | None:
    """Write an answer as settling does, in a transaction of the test's; the id of its message."""
    found: list[int | None] = []
    call = service.storing(conversation, told, sent=sent, sent_tokens=sent_tokens, on_stored=found.append)
    row = await (await connection.execute(call.statement, values_of(call) | {"settled": Int8(log_id)})).fetchone()
    pass_results(row or (), [call])
    return found[0]


async def say(
    service: ConversationService, message: str, told: AppAnswer, log_id: int, entry: str = "task"
) -> Conversation:
    """A whole round: the message, and its answer."""
    found = await service.resolve("u", 1, entry, "t", message=message)
    async with service.database.transaction() as connection:
        sent_tokens = tokens_of(history_of(found))
        await keep_answer(
            service, connection, found, log_id, told, sent=found.cloud_session_id, sent_tokens=sent_tokens
        )
    return found


def test_first_messages_at_the_same_moment_meet_in_one_conversation(database_url: str) -> None:
    """Twelve first messages about one task at once make one conversation that holds all twelve."""

    async def body(database: Database, service: ConversationService) -> None:
        # All connections are there first, or opening them would put the messages into a row.
        await asyncio.gather(*(database.one("SELECT pg_sleep(0.3)") for _ in range(12)))
        for task in ("a", "b", "c", "d", "e"):
            said = (service.resolve("u", 1, "task", task, message=str(n)) for n in range(12))
            found = await asyncio.gather(*said)
            assert len({conversation.id for conversation in found}) == 1
            assert sum(conversation.is_new for conversation in found) == 1
        assert await database.one("SELECT count(*) FROM biz.ai_messages") == (60,)

    run(database_url, body)


@pytest.mark.parametrize(
    ("user", "site", "entry", "target"),
    [
        ("v", 1, "task", "t"),
        ("u", 2, "task", "t"),
        ("u", 1, "coach", "t"),
        ("u", 1, "task", "x"),
        ("u", 1, "task", None),
    ],
)
def test_other_users_sites_entries_and_targets_have_their_own(
    database_url: str, user: str, site: int, entry: str, target: str | None
) -> None:
    """A conversation is only gone on with by its own user, store, entry and target."""

    async def body(_: Database, service: ConversationService) -> None:
        mine = await service.resolve("u", 1, "task", "t")
        other = await service.resolve(user, site, entry, target)
        assert other.id != mine.id
        assert (await service.resolve(user, site, entry, target)).id == other.id

    run(database_url, body)


@pytest.mark.parametrize(("user", "site"), [("v", 1), ("u", 2)])
def test_the_conversation_of_another_user_is_missing(database_url: str, user: str, site: int) -> None:
    """A conversation named by its id is only found by its own user and store, and nothing is written otherwise."""

    async def body(database: Database, service: ConversationService) -> None:
        mine = await service.resolve("u", 1, "general", message="hello")
        assert (await service.resolve("u", 1, "coach", "z", mine.id)).id == mine.id
        for stranger, number in ((user, mine.id), (user, mine.id + 1000)):
            with pytest.raises(ConversationNotFoundError):
                await service.resolve(stranger, site, "general", conversation_id=number, message="let me in")
        assert await database.one("SELECT count(*) FROM biz.ai_messages") == (1,)

    run(database_url, body)


def test_a_message_with_any_characters_is_stored(database_url: str) -> None:
    """Quotes, percent signs, line ends and U+0000 are data to the statement that keeps a message."""
    message = "100% 'done'; DROP TABLE x; -- \\ %(user)s\n\u2028\0"

    async def body(database: Database, service: ConversationService) -> None:
        await service.resolve("u'%s", 1, "task", "t'--", message=message)
        row = await database.one("SELECT content FROM biz.ai_messages")
        assert row == (message.replace("\0", "\ufffd"),)

    run(database_url, body)


def test_a_round_and_its_cloud_session_are_stored(database_url: str) -> None:
    """After an answer both messages stand there with its log, and the next turn goes on in the cloud's session."""

    async def body(database: Database, service: ConversationService) -> None:
        first = await say(service, "早上好", answer("您好"), 11)
        assert (first.cloud_session_id, history_of(first)) == (None, ())
        rows = await database.all("SELECT role, content, run_log_id, tokens_used FROM biz.ai_messages ORDER BY id")
        assert rows == [("user", "早上好", 11, 0), ("assistant", "您好", 11, 7)]
        second = await service.resolve("u", 1, "task", "t")
        assert (second.cloud_session_id, history_of(second)) == ("cloud-1", ())

    run(database_url, body)


def test_keeping_an_answer_twice_keeps_it_once(database_url: str) -> None:
    """A settlement repeated after a lost acknowledgement adds no message and no round."""

    async def body(database: Database, service: ConversationService) -> None:
        found = await service.resolve("u", 1, "task", "t", message="a")
        ids = []
        for _ in range(2):
            async with database.transaction() as connection:
                ids.append(await keep_answer(service, connection, found, 5, answer(), sent=None))
        assert ids[0] == ids[1]
        assert await database.one("SELECT count(*) FROM biz.ai_messages") == (2,)
        row = await database.one("SELECT cloud_rounds, local_history FROM biz.ai_conversations")
        assert row == (1, False)

    run(database_url, body)


def test_an_answer_settled_again_is_the_same_message(database_url: str) -> None:
    """Settling a turn again, in its own row or in another, gives the same message, and stores it once."""

    async def body(database: Database, service: ConversationService) -> None:
        logs, request = AIRunLogService(database), call()
        found = await service.resolve("u", 1, "task", "t", message="a")
        log_id = await opened(logs, request, process=uuid.uuid4())
        for row in ("own", "another"):
            heard: list[int | None] = []
            writes = [service.storing(found, answer(), sent=None, on_stored=heard.append)]
            for _ in range(3):
                async with database.pool.connection() as connection:
                    holder = await logs.settle(connection, log_id, request, SUCCESS, None, writes=writes)
            assert (holder == log_id) == (row == "own")
            kept = "SELECT id FROM biz.ai_messages WHERE role = 'assistant' AND run_log_id = %s"
            told = await database.all(kept, [holder])
            assert [(number,) for number in heard] == told * 3
            found, request = await service.resolve("u", 1, "task", "t", message="b"), call()

    run(database_url, body)


@pytest.mark.parametrize(
    "loss",
    [
        "UPDATE biz.ai_conversations SET cloud_used_at = now() - interval '56 minutes'",
        f"UPDATE biz.ai_conversations SET cloud_rounds = {CLOUD_ROUNDS}",
        "UPDATE biz.ai_conversations SET cloud_session_id = NULL",
        "UPDATE biz.ai_conversations SET local_history = true",
    ],
)
def test_a_session_that_is_not_certain_is_replaced_once(database_url: str, loss: str) -> None:
    """Idle for 55 minutes, 48 rounds old or lost: the history is sent, and its answer opens a new session."""

    async def body(database: Database, service: ConversationService) -> None:
        await say(service, "一", answer("二"), 1)
        await database.execute(loss)
        second = await say(service, "三", answer("四", session_id="cloud-2"), 2)
        assert second.cloud_session_id is None
        assert [said["content"] for said in history_of(second)] == ["一", "二"]
        third = await service.resolve("u", 1, "task", "t")
        assert (third.cloud_session_id, history_of(third)) == ("cloud-2", ())

    run(database_url, body)


@pytest.mark.parametrize(("input_tokens", "session"), [(2000, "cloud-2"), (60, None)])
def test_a_session_that_lost_its_history_is_not_used_again(
    database_url: str, input_tokens: int, session: str | None
) -> None:
    """The tokens of the first answer in a session that was opened with a history show whether it holds it; if not,
    the history is sent each time from then on."""

    async def body(database: Database, service: ConversationService) -> None:
        await say(service, "一" * 1000, answer("二" * 1000), 1)
        await database.execute("UPDATE biz.ai_conversations SET cloud_rounds = 48")
        await say(service, "三", answer("四", session_id="cloud-2"), 2)
        usage = replace(answer().usage, input_tokens=input_tokens)
        await say(service, "五", replace(answer("六", session_id="cloud-2"), usage=usage), 3)
        told = answer("八", session_id="cloud-2" if session else "cloud-3")
        fourth = await say(service, "七", replace(told, usage=usage), 4)
        assert fourth.cloud_session_id == session
        assert (len(history_of(fourth)) == 6) == (session is None)
        assert (await service.resolve("u", 1, "task", "t")).cloud_session_id == session

    run(database_url, body)


def test_just_inside_the_limits_the_session_is_used(database_url: str) -> None:
    """54 minutes and one round less than the limit: the cloud's session still goes on."""

    async def body(database: Database, service: ConversationService) -> None:
        await say(service, "一", answer("二"), 1)
        await database.execute(
            "UPDATE biz.ai_conversations SET cloud_used_at = now() - interval '54 minutes', cloud_rounds = %s",
            [CLOUD_ROUNDS - 1],
        )
        assert (await say(service, "三", answer(), 2)).cloud_session_id == "cloud-1"
        assert (await service.resolve("u", 1, "task", "t")).cloud_session_id is None

    run(database_url, body)


def test_two_first_turns_at_once_leave_the_cloud(database_url: str) -> None:
    """When two turns have begun a cloud session each, neither knows all, so the history is sent once, to a new one."""

    async def body(database: Database, service: ConversationService) -> None:
        turns = [await service.resolve("u", 1, "task", "t", message=text) for text in ("一", "三")]
        for log_id, (turn, told) in enumerate(zip(turns, ("二", "四"), strict=True), 1):
            async with database.transaction() as connection:
                told_answer = answer(told, session_id=f"cloud-{log_id}")
                await keep_answer(service, connection, turn, log_id, told_answer, sent=None)
        now = await service.resolve("u", 1, "task", "t")
        assert now.cloud_session_id is None
        assert [said["content"] for said in history_of(now)] == ["一", "二", "三", "四"]
        await say(service, "五", answer("六", session_id="cloud-3"), 3)
        assert (await service.resolve("u", 1, "task", "t")).cloud_session_id == "cloud-3"

    run(database_url, body)


def test_an_answer_that_never_began_leaves_the_question_unanswered(database_url: str) -> None:
    """A turn that failed before its first word adds no answer, keeps the cloud's session, and is not in the history."""

    async def body(database: Database, service: ConversationService) -> None:
        await say(service, "一", answer("二"), 1)
        await say(service, "丢失", answer("", session_id=None, finish_reason=""), 2)
        again = await service.resolve("u", 1, "task", "t")
        assert again.cloud_session_id == "cloud-1"
        assert [said["content"] for said in history_of(await service.reloaded(again))] == ["一", "二"]

    run(database_url, body)


def test_withdrawing_leaves_nothing_of_a_refused_first_message(database_url: str) -> None:
    """A refused message is deleted, with the conversation that was created for it, but no other one."""

    async def body(database: Database, service: ConversationService) -> None:
        first = await service.resolve("u", 1, "task", "t", message="refused")
        await service.withdraw(first)
        assert await database.one("SELECT count(*) FROM biz.ai_conversations") == (0,)
        first = await service.resolve("u", 1, "task", "t", message="refused")
        await service.resolve("u", 1, "task", "t", message="kept")
        await service.withdraw(first)
        assert await database.all("SELECT content FROM biz.ai_messages") == [("kept",)]

    run(database_url, body)


messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=6000), st.one_of(st.none(), st.integers(1, 30))),
    max_size=50,
).map(lambda rows: [StoredMessage(*row, number) for number, row in enumerate(rows, 1)])


@given(messages, st.integers(0, 20_000))
def test_history_fits_and_alternates(stored: list[StoredMessage], tokens: int) -> None:
    """Whatever is stored: whole rounds, questions before answers, within the tokens; what does not fit is older."""
    rounds = rounds_of(stored)
    older, recent = split(rounds, tokens)
    sent = as_messages(None, recent)
    assert [said["role"] for said in sent] == ["user", "assistant"] * (len(sent) // 2)
    assert tokens_of(sent) <= tokens
    if len(older) + len(recent) == len(rounds) and list(recent) == list(rounds[len(older) :]):
        # No more of them would fit.
        assert not older or tokens_of(as_messages(None, rounds[len(older) - 1 :])) > tokens
    else:
        assert len(recent) <= 1


@given(st.lists(st.tuples(st.text(max_size=200), st.text(max_size=200)), max_size=30), st.randoms())
def test_history_is_all_rounds_in_their_order(rounds: list[tuple[str, str]], random: Random) -> None:
    """Answered rounds come back in order, from the first to the newest, however their messages were mixed."""
    stored = []
    for log_id, (asked, told) in enumerate(rounds, 1):
        stored += [
            StoredMessage("user", asked, log_id, 2 * log_id),
            StoredMessage("assistant", told, log_id, 2 * log_id + 1),
        ]
    random.shuffle(stored)
    expected = [text for asked, told in rounds for text in (asked, told)]
    assert [said["content"] for said in as_messages(None, rounds_of(stored))] == expected


said_rounds = st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400)), max_size=60)


@given(st.lists(said_rounds, max_size=4), st.integers(50, 2000))
def test_a_summary_is_bounded_and_keeps_the_beginning(parts: list[list[tuple[str, str]]], tokens: int) -> None:
    """Grown part by part it stays within its tokens, and its first line stays the first, as long as it fits at all."""
    summary: str | None = None
    for part in parts:
        before = summary
        rounds = [Round(question=asked, answer=told, first_id=1, last_id=2) for asked, told in part]
        summary = summarise(summary, rounds, tokens)
        assert estimate_tokens(summary) <= tokens + 2
        if before and not before.startswith("- …\n") and before != "- …":
            assert summary.splitlines()[0] == before.splitlines()[0]


@given(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "a", "b"]), st.sampled_from(["stop", ""]))
def test_only_a_whole_answer_in_the_same_session_keeps_the_cloud(
    sent: str | None, returned: str | None, finish_reason: str
) -> None:
    """The cloud is relied on exactly when the answer is complete and stayed in its session."""
    kept = cloud_session_after(sent, answer(session_id=returned, finish_reason=finish_reason))
    is_reliable = finish_reason == "stop" and sent in (None, returned)
    assert kept == (returned if is_reliable else None)
