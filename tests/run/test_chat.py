"""Chat turns without HTTP: back-pressure, ends of every kind, and what each of them leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.chat.turn import (
    OUTBOX_SIZE,
    ChatEvent,
    ChatService,
    ChatTurn,
    _Outbox,
    error_event,
    is_session_refusal,
)
from agenttrace.run.errors import (
    BudgetExceededError,
    CircuitOpenError,
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeTimeoutError,
    RateLimitExceededError,
)
from agenttrace.run.simulator import faults
from serve.harness import CHAT_APP, Stack, run_with
from serve.servers import eventually


def chat_of(stack: Stack) -> ChatService:
    assert stack.engine.chat is not None
    return stack.engine.chat


async def heard(turn: ChatTurn) -> list[ChatEvent]:
    return [event async for event in turn]


def test_a_slow_listener_makes_the_application_wait(home: Path, database_url: str) -> None:
    """Without a listener the upstream is not read to its end; with one, everything arrives in order."""

    async def body(stack: Stack) -> None:
        text = "".join(f"{number:07d}," for number in range(400_000))
        stack.sim.answer(CHAT_APP, text)
        stack.sim.chunk_chars = 2000
        turn = await chat_of(stack).start("u", 1, "说一长串")

        async def has_filled() -> bool:
            return len(turn._outbox._events) == OUTBOX_SIZE

        await eventually(has_filled)
        received = len(turn._stream.text)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(turn._stream.text) == received < len(text)
        assert len(turn._outbox._events) == OUTBOX_SIZE
        events = await heard(turn)
        assert "".join(event.data["content"] for event in events[:-1]) == text
        assert events[-1].kind == "done"

    run_with(home, database_url, body)


def test_hanging_up_while_the_outbox_is_full_is_settled(home: Path, database_url: str) -> None:
    """A listener that vanished without reading leaves no task, no reservation, and a log that says why."""

    async def body(stack: Stack) -> None:
        stack.sim.answer(CHAT_APP, "字" * 100_000)
        turn = await chat_of(stack).start("u", 1, "说")

        async def has_filled() -> bool:
            return len(turn._outbox._events) == OUTBOX_SIZE

        await eventually(has_filled)
        turn.hang_up()
        turn.hang_up()
        await turn.finished
        rows = await stack.rows("SELECT status, error_message, tokens_used > 0 FROM biz.ai_run_logs")
        assert rows == [("failed", "client hung up", True)]
        assert chat_of(stack).open_turns == 0
        kept = await stack.rows("SELECT content FROM biz.ai_messages WHERE role = 'assistant'")
        assert kept == [(turn._stream.text,)]

    run_with(home, database_url, body)


def test_draining_lets_turns_finish(home: Path, database_url: str) -> None:
    """Turns that end in time end as if nothing was; draining returns when they are written."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, *(faults.slow(0.3) for _ in range(3)))
        turns = [await chat_of(stack).start(f"u{n}", 1, "你好") for n in range(3)]
        listening = [asyncio.create_task(heard(turn)) for turn in turns]
        await chat_of(stack).drain(30)
        assert await stack.rows("SELECT DISTINCT status FROM biz.ai_run_logs") == [("success",)]
        for events in await asyncio.gather(*listening):
            assert events[-1].kind == "done"

    run_with(home, database_url, body)


def test_draining_ends_what_does_not_finish(home: Path, database_url: str) -> None:
    """Turns that hang are ended with one error event and logged with the reason, listener or not."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(2), faults.hang())
        turns = [await chat_of(stack).start(f"u{n}", 1, "你好") for n in range(2)]
        listening = asyncio.create_task(heard(turns[0]))
        await chat_of(stack).drain(0.2)
        rows = await stack.rows("SELECT status, error_message FROM biz.ai_run_logs")
        assert rows == 2 * [("failed", "the server is stopping")]
        events = await listening
        assert [event.kind for event in events].count("error") == 1
        assert events[-1].data["code"] == "stopping"
        assert [event.kind for event in await heard(turns[1])] == ["error"]
        assert chat_of(stack).open_turns == 0

    run_with(home, database_url, body)


def test_an_end_while_the_answer_is_being_written_is_still_done(home: Path, database_url: str) -> None:
    """A stop that arrives after the last word finds the answer settled: the listener hears ``done``."""

    async def body(stack: Stack) -> None:
        turn = await chat_of(stack).start("u", 1, "你好")
        while turn._stream.answer is None:
            await asyncio.sleep(0)
        turn.stop()
        events = await heard(turn)
        assert events[-1].kind == "done"
        assert events[-1].data["message_id"] is not None
        assert await stack.rows("SELECT status FROM biz.ai_run_logs") == [("success",)]

    run_with(home, database_url, body)


def test_a_conversation_that_vanishes_is_an_error_but_the_call_is_paid(home: Path, database_url: str) -> None:
    """When the answer cannot be kept, the call is still logged as a success, and the listener hears an error."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.slow(0.3))
        turn = await chat_of(stack).start("u", 1, "你好")
        await stack.engine.database.execute("DELETE FROM biz.ai_conversations")
        events = await heard(turn)
        assert (events[-1].kind, events[-1].data["code"]) == ("error", "internal")
        assert await stack.rows("SELECT status FROM biz.ai_run_logs") == [("success",)]

    run_with(home, database_url, body)


def test_every_refusal_is_raised_before_a_turn_begins(home: Path, database_url: str) -> None:
    """Breaker, window and budget refuse in ``start``, in that order, and leave no conversation behind."""

    async def body(stack: Stack) -> None:
        chat = chat_of(stack)
        with pytest.raises(BudgetExceededError):
            await chat.start("u", 1, "你好")
        with pytest.raises(RateLimitExceededError):
            await chat.start("u", 1, "你好")
        await stack.engine.breaker.hold_open(CHAT_APP)
        with pytest.raises(CircuitOpenError):
            await chat.start("u", 1, "你好")
        assert await stack.rows("SELECT FROM biz.ai_conversations") == []
        assert chat.open_turns == 0

    run_with(home, database_url, body, run={"daily_tokens": 10, "user_calls_per_minute": 1})


def test_pieces_that_arrive_together_are_passed_on_together() -> None:
    """The first piece goes at once, what follows within the pace goes in one batch, and the end waits for nothing."""

    async def body() -> None:
        outbox = _Outbox()
        pieces = [ChatEvent(kind="message", data={"content": str(n)}) for n in range(3)]
        end = ChatEvent(kind="done", data={})
        await outbox.put(pieces[0])
        assert await outbox.take() == pieces[:1]
        await outbox.put(pieces[1])
        assert not outbox._filled.is_set()
        await outbox.put(pieces[2])
        outbox.put_at_once(end)
        assert await outbox.take() == [*pieces[1:], end]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (DashScopeApiError("secret detail", 503), "upstream", "AI 服务出了点问题，请稍后再试"),
        (DashScopeAuthError("secret detail", 401), "auth", "AI 服务配置异常"),
        (DashScopeTimeoutError("secret detail"), "timeout", "AI 响应超时"),
        (CircuitOpenError("secret detail"), "circuit_open", "AI 服务暂时不可用"),
        (RateLimitExceededError("secret detail"), "rate_limited", "请求过于频繁"),
        (BudgetExceededError("secret detail"), "budget_exceeded", "AI 额度已用完"),
        (RuntimeError("secret detail"), "internal", "AI 服务出了点问题，请稍后再试"),
    ],
)
def test_errors_have_the_texts_of_the_table(error: Exception, code: str, text: str) -> None:
    """Each kind of error has its text, and none of them shows its own."""
    assert error_event(error, AppCatalog.load().texts.default).data == {"code": code, "message": text}


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (DashScopeApiError("The session_id does not exist", 400), True),
        (DashScopeApiError("gone", 404, code="SessionNotFound"), True),
        (DashScopeApiError("session store is down", 500), False),
        (DashScopeApiError("Session expired"), False),
        (DashScopeAuthError("session token refused", 401), False),
        (DashScopeApiError("bad prompt", 400), False),
        (CircuitOpenError("session"), False),
    ],
)
def test_only_a_4xx_about_the_session_is_a_lost_session(error: Exception, is_refusal: bool) -> None:
    """A refused session is a 4xx that names it; errors of the server or of the key are not."""
    assert is_session_refusal(error) == is_refusal
