"""When the cloud has forgotten a conversation, the user does not notice (erratum 19)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttrace.run.simulator import faults
from agenttrace.run.upstream.wire import estimate_tokens
from serve.harness import CHAT_APP, Heard, Stack, run_with

Loss = Callable[[Stack], Awaitable[None]]


async def grown_old(stack: Stack) -> None:
    await stack.engine.database.execute("UPDATE biz.ai_conversations SET cloud_used_at = now() - interval '56 minutes'")


async def used_up(stack: Stack) -> None:
    await stack.engine.database.execute("UPDATE biz.ai_conversations SET cloud_rounds = 48")


async def refused(stack: Stack) -> None:
    stack.sim.script(CHAT_APP, faults.session_expired())


async def refused_as_missing(stack: Stack) -> None:
    stack.sim.script(CHAT_APP, faults.session_expired(404))


async def changed(stack: Stack) -> None:
    stack.sim.script(CHAT_APP, faults.session_changed())


async def forgotten(stack: Stack) -> None:
    stack.sim.clear("sessions")


LOSSES = [grown_old, used_up, refused, refused_as_missing, changed, forgotten]


async def say(stack: Stack, message: str) -> Heard:
    heard = await stack.chat(message, entry="task", target_id="t")
    assert heard.status == 200
    assert heard.last.kind == "done", heard.body
    return heard


def seen(stack: Stack) -> list[str]:
    """All that the application saw in its last call, from whichever side it came."""
    return [str(turn["content"]) for turn in stack.sim.calls[-1].context]


def last_input(stack: Stack) -> dict[str, Any]:
    given: dict[str, Any] = stack.sim.calls[-1].body["input"]
    return given


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_session_is_replaced_by_the_history(home: Path, database_url: str, loss: Loss) -> None:
    """However the session was lost, the answer is made with all that was said before, and opens a new session."""

    async def body(stack: Stack) -> None:
        first = await say(stack, "我叫小王")
        second = await say(stack, "我在二号店")
        before = ["我叫小王", first.text, "我在二号店", second.text]
        assert last_input(stack)["session_id"]
        await loss(stack)
        third = await say(stack, "我叫什么？")
        assert seen(stack) == [*before, "我叫什么？"]
        assert "session_id" not in last_input(stack)
        assert third.last.data["session_id"] == first.last.data["session_id"]
        fourth = await say(stack, "还有呢？")
        assert last_input(stack).keys() == {"prompt", "session_id", "biz_params"}
        assert seen(stack) == [*before, "我叫什么？", third.text, "还有呢？"]
        stored = await stack.rows("SELECT content FROM biz.ai_messages ORDER BY id")
        assert [row[0] for row in stored] == [*before, "我叫什么？", third.text, "还有呢？", fourth.text]

    run_with(home, database_url, body)


@pytest.mark.parametrize("loss", LOSSES)
def test_recovery_takes_one_place_in_the_window(home: Path, database_url: str, loss: Loss) -> None:
    """A turn that has to ask twice is not refused for it when it is the last that the window allows."""

    async def body(stack: Stack) -> None:
        await say(stack, "一")
        await loss(stack)
        await say(stack, "二")
        assert (await stack.chat("三")).status == 429

    run_with(home, database_url, body, run={"user_calls_per_minute": 2})


def test_without_a_loss_the_cloud_remembers(home: Path, database_url: str) -> None:
    """As long as the session lives, only the new message is sent, and the application still sees everything."""

    async def body(stack: Stack) -> None:
        first = await say(stack, "一")
        second = await say(stack, "二")
        await say(stack, "三")
        assert last_input(stack).keys() == {"prompt", "session_id", "biz_params"}
        assert seen(stack) == ["一", first.text, "二", second.text, "三"]
        assert len(stack.sim.calls) == 3

    run_with(home, database_url, body)


def test_what_the_first_try_cost_is_counted(home: Path, database_url: str) -> None:
    """An answer that is thrown away because its session had changed is a failed call with its tokens, not a message."""

    async def body(stack: Stack) -> None:
        await say(stack, "一")
        stack.sim.script(CHAT_APP, faults.session_changed())
        await say(stack, "二")
        rows = await stack.rows("SELECT status, tokens_used > 0 FROM biz.ai_run_logs ORDER BY id")
        assert rows == [("success", True), ("failed", True), ("success", True)]
        assert await stack.rows("SELECT count(*) FROM biz.ai_messages") == [(4,)]

    run_with(home, database_url, body)


@pytest.mark.parametrize("fault", [faults.status(400), faults.status(403), faults.error_frame("InvalidParameter", 400)])
def test_other_refusals_are_not_taken_for_a_lost_session(home: Path, database_url: str, fault: faults.Fault) -> None:
    """An error that is not about the session is told, not asked again, and the session goes on."""

    async def body(stack: Stack) -> None:
        await say(stack, "一")
        stack.sim.script(CHAT_APP, fault)
        heard = await stack.chat("二", entry="task", target_id="t")
        assert heard.last.kind == "error"
        assert len(stack.sim.calls) == 2

    run_with(home, database_url, body)


def test_after_a_cut_answer_the_history_is_sent(home: Path, database_url: str) -> None:
    """What the cloud keeps of an answer that was cut off nobody knows, so the next turn brings what the user saw."""

    async def body(stack: Stack) -> None:
        first = await say(stack, "一")
        stack.sim.script(CHAT_APP, faults.cut_after(3))
        cut = await stack.chat("二", entry="task", target_id="t")
        assert cut.last.kind == "error"
        assert cut.text
        await say(stack, "三")
        assert seen(stack) == ["一", first.text, "二", cut.text, "三"]

    run_with(home, database_url, body)


def test_the_whole_history_is_sent_while_it_fits(home: Path, database_url: str) -> None:
    """After sixty rounds, and several sessions, the application still sees what the user said first."""

    async def body(stack: Stack) -> None:
        said = [f"第 {number} 句，" + "闲聊" * 60 for number in range(59)]
        for message in ("我叫小王", *said):
            await say(stack, message)
        await forgotten(stack)
        await say(stack, "我叫什么？")
        assert [text for text in seen(stack) if text in ("我叫小王", *said)] == ["我叫小王", *said]

    limits = {"user_calls_per_minute": 1000, "daily_tokens": 10**9, "monthly_tokens": 10**9}
    run_with(home, database_url, body, run=limits)


def test_what_does_not_fit_is_sent_as_a_summary(home: Path, database_url: str) -> None:
    """With a small model the older rounds become a summary, which is kept and grows; the last rounds come whole."""

    async def body(stack: Stack) -> None:
        for message in ("我叫小王", *(f"第 {number} 句，" + "闲聊" * 200 for number in range(12))):
            await say(stack, message)
        for _ in range(2):
            await forgotten(stack)
            await say(stack, "我叫什么？")
            summary, *_, last, _ = seen(stack)[:-1]
            assert "我叫小王" in summary
            assert last.startswith(("第 11 句", "我叫什么？"))
            assert sum(map(estimate_tokens, seen(stack))) <= 4000
        await say(stack, "还有呢？")
        assert "session_id" in last_input(stack)
        ((kept, until),) = await stack.rows("SELECT summary, summary_until FROM biz.ai_conversations")
        assert "我叫小王" in kept
        assert until > 0

    apps = {"app1": {"type": "app1_chat", "stream": True, "rate": "user", "context_tokens": 4000}}
    limits = {"user_calls_per_minute": 1000, "daily_tokens": 10**9, "monthly_tokens": 10**9}
    run_with(home, database_url, body, run=limits, apps=apps)
