"""``POST /api/xcx/chat/stream``: who may talk, what they hear when something is in the way, and what is written."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.run.simulator import faults
from serve.harness import CHAT, CHAT_APP, SECRET, Heard, Running, Stack, bearer, run_with
from serve.servers import eventually

FRIENDLY = "AI 服务出了点问题，请稍后再试"
numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url, run={"failure_threshold": 10**6, "daily_tokens": 10**9})
    yield server
    server.close()


def somebody() -> str:
    """A user whose window is empty."""
    return f"somebody {next(numbers)}"


def is_problem(heard: Heard, status: int) -> dict[str, Any]:
    assert heard.status == status, heard.body
    assert heard.headers["Content-Type"] == "application/problem+json"
    told: dict[str, Any] = heard.json()
    assert told["status"] == status
    return told


# ── who may talk ──


def tokens() -> Iterator[tuple[str, dict[str, str]]]:
    claims = {"sub": "u", "site_id": 1, "exp": int(time.time()) + 3600}
    yield "none", {}
    yield "empty", {"Authorization": "Bearer "}
    yield "another scheme", {"Authorization": "Internal-Token sim-internal-token"}
    yield "no token", {"Authorization": "Bearer abc"}
    yield "another secret", bearer(secret=SECRET + "!")
    yield "expired", bearer(exp=int(time.time()) - 5)
    yield "no end", {"Authorization": "Bearer " + jwt.encode({"sub": "u", "site_id": 1}, SECRET, algorithm="HS256")}
    yield "end is text", bearer(exp="tomorrow")
    yield "end is nothing", bearer(exp=None)
    yield "not yet", bearer(nbf=int(time.time()) + 86_400)
    yield "no site", {"Authorization": "Bearer " + jwt.encode({"sub": "u"}, SECRET, algorithm="HS256")}
    yield "no subject", {"Authorization": "Bearer " + jwt.encode({"site_id": 1}, SECRET, algorithm="HS256")}
    yield "site is text", bearer(site="1")
    yield "site is a truth", bearer(site=True)
    yield "site is none", bearer(site=0)
    yield "site is too large", bearer(site=2**63)
    yield "empty subject", bearer(user="")
    yield "long subject", bearer(user="u" * 101)
    yield "subject with a line end", bearer(user="u\nv")
    yield "unsigned", {"Authorization": "Bearer " + jwt.encode(claims, "", algorithm="none")}
    yield "another algorithm", {"Authorization": "Bearer " + jwt.encode(claims, SECRET * 2, algorithm="HS512")}
    yield (
        "the same secret, another algorithm",
        {"Authorization": "Bearer " + jwt.encode(claims, SECRET.ljust(64, "x"), algorithm="HS384")},
    )


@pytest.mark.parametrize("sent", [pytest.param(headers, id=name) for name, headers in tokens()])
def test_a_bad_token_is_401(server: Running, sent: dict[str, str]) -> None:
    """Missing, forged, expired or incomplete tokens are 401, before the body is looked at, and nothing is written."""
    before = server.run(server.stack.rows("SELECT count(*) FROM biz.ai_conversations"))
    heard = server.run(server.stack.request("POST", CHAT, data=b"no json", headers=sent))
    told = is_problem(heard, 401)
    assert heard.headers["WWW-Authenticate"] == "Bearer"
    assert SECRET not in str(told)
    assert server.run(server.stack.rows("SELECT count(*) FROM biz.ai_conversations")) == before


def test_a_token_is_good_until_its_end(server: Running) -> None:
    """A token counts until its end; one that has no end is refused, and the answer says what is missing."""
    headers = bearer(somebody(), exp=int(time.time()) + 60)
    heard = server.run(server.stack.request("POST", CHAT, json={"message": "你好"}, headers=headers))
    assert heard.last.kind == "done"
    endless = jwt.encode({"sub": somebody(), "site_id": 1}, SECRET, algorithm="HS256")
    told = server.run(server.stack.request("POST", CHAT, headers={"Authorization": f"Bearer {endless}"}))
    assert is_problem(told, 401)["detail"] == "The token has no claim exp."


def test_forged_tokens_are_slowed_down_and_expired_ones_are_not(home: Path, database_url: str) -> None:
    """A wrong signature waits longer each time and is in the audit log; users whose token has ended do not wait."""

    async def body(stack: Stack) -> None:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        access = stack.app.state.access
        access.refusals.sleep = sleep
        for _ in range(10):
            is_problem(await stack.request("POST", CHAT, headers=bearer(exp=int(time.time()) - 5)), 401)
        assert waited == []
        for _ in range(10):
            is_problem(await stack.request("POST", CHAT, headers=bearer(secret=SECRET + "!")), 401)
        assert waited == [0.1, 0.2, 0.4, 0.8, 1.6]
        access.refusals.close()
        entries = access.audit.page(10)
        assert {(entry.user, entry.action, entry.outcome) for entry in entries} == {("nobody", "token", "refused")}
        assert all(entry.target.startswith("chat") for entry in entries)

    run_with(home, database_url, body)


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"", 400, "JSON"),
        (b'{"message": "a"', 400, "JSON"),
        (b"{}", 422, "message"),
        (b'{"message": ""}', 422, "message"),
        (b'{"message": " \\n "}', 422, "message: is blank"),
        (b'{"message": 5}', 422, "message"),
        (b'{"message": "' + b"x" * 8001 + b'"}', 422, "message"),
        (b'{"message": "a", "entry": "other"}', 422, "entry"),
        (b'{"message": "a", "target_id": ""}', 422, "target_id"),
        (b'{"message": "a", "target_id": "' + b"t" * 101 + b'"}', 422, "target_id"),
        (b'{"message": "a", "target_id": "a\\u0000"}', 422, "target_id"),
        (b'{"message": "a", "conversation_id": "1"}', 422, "conversation_id"),
        (b'{"message": "a", "conversation_id": 0}', 422, "conversation_id"),
        (b'{"message": "a", "session": "x"}', 422, "session"),
        (b'{"message": "a", "conversation_id": 999999999}', 404, "conversation"),
    ],
)
def test_a_wrong_body_is_told_what_is_wrong(server: Running, body: bytes, status: int, named: str) -> None:
    """A body that cannot be used is a problem that names the field, never a stream."""
    heard = server.run(server.stack.request("POST", CHAT, data=body, headers=bearer(somebody())))
    assert named in is_problem(heard, status)["detail"]


def test_the_longest_message_is_taken_whole(server: Running) -> None:
    """8,000 characters of any kind reach the application as they are."""
    message = "长" * 7990 + "\n\u2028\0'\"\\%s"
    heard = server.run(server.stack.chat(message, user=somebody()))
    assert heard.last.kind == "done"
    assert server.stack.sim.calls[-1].body["input"]["prompt"] == message


# ── what is heard ──


def test_a_turn_is_streamed_and_written(server: Running) -> None:
    """The answer arrives whole, and conversation, messages, log and tokens say the same as the last event."""
    user = somebody()
    server.stack.sim.answer(CHAT_APP, "营业额 3,200 元，\n比昨天好。")
    heard = server.run(server.stack.chat("今天怎么样？", user=user, site=12, entry="customer", target_id=77))
    server.stack.sim.answer(CHAT_APP, None)
    assert heard.headers["Content-Type"].startswith("text/event-stream")
    assert heard.headers["Cache-Control"] == "no-store"
    assert heard.text == "营业额 3,200 元，\n比昨天好。"
    done = heard.last.data
    rows = server.run(
        server.stack.rows(
            "SELECT c.id, c.session_id, c.user_id, c.site_id, c.entry, c.target_id, m.role, m.content, l.status, "
            "l.tokens_used, l.member_id, l.trigger_type, l.session_id FROM biz.ai_conversations AS c "
            "JOIN biz.ai_messages AS m ON m.conversation_id = c.id JOIN biz.ai_run_logs AS l ON l.id = m.run_log_id "
            "WHERE c.user_id = %s ORDER BY m.id",
            user,
        )
    )
    about = (done["conversation_id"], done["session_id"], user, 12, "customer", "77")
    call = ("success", done["tokens_used"], 77, "user", done["session_id"])
    assert rows == [(*about, "user", "今天怎么样？", *call), (*about, "assistant", heard.text, *call)]
    assert done["estimated"] is False
    biz_params = server.stack.sim.calls[-1].body["input"]["biz_params"]["user_prompt_params"]
    assert biz_params == {"site_id": "12", "user_id": user, "entry": "customer", "target_id": "77"}


def test_an_answer_without_usage_is_estimated_and_says_so(server: Running) -> None:
    """When the application does not tell what it used, the tokens are ours and marked as estimated."""
    server.stack.sim.script(CHAT_APP, faults.empty_usage())
    done = server.run(server.stack.chat(user=somebody())).last.data
    assert done["estimated"] is True
    assert done["tokens_used"] > 0


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (faults.status(401), "auth", "AI 服务配置异常"),
        (faults.status(400), "upstream", FRIENDLY),
        (faults.status("DataInspectionFailed", 400), "upstream", FRIENDLY),
        (faults.status(408), "timeout", "AI 响应超时"),
        (faults.error_frame("InternalError", 500), "upstream", FRIENDLY),
        (faults.error_frame("InvalidApiKey", 401), "auth", "AI 服务配置异常"),
        (faults.cut_after(2), "upstream", FRIENDLY),
        (faults.half_frame(2), "upstream", FRIENDLY),
        (faults.reset(2), "upstream", FRIENDLY),
    ],
)
def test_what_goes_wrong_upstream_ends_in_one_error_event(
    server: Running, fault: faults.Fault, code: str, message: str
) -> None:
    """Each error is told in the words of the error table, never in its own, and the call is logged as failed."""
    server.stack.sim.script(CHAT_APP, fault)
    user = somebody()
    heard = server.run(server.stack.chat(user=user))
    assert heard.status == 200
    assert (heard.last.kind, heard.last.data) == ("error", {"code": code, "message": message})
    assert [event.kind for event in heard.events].count("error") == 1
    rows = server.run(server.stack.rows("SELECT status FROM biz.ai_run_logs WHERE user_id = %s", user))
    assert rows in ([("failed",)], [("timeout",)])


def test_an_upstream_that_falls_silent_is_a_timeout(home: Path, database_url: str) -> None:
    """A stream that hangs is ended at its deadline with the text of the table, and logged as timeout."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(2))
        heard = await stack.chat()
        assert heard.last.data == {"code": "timeout", "message": "AI 响应超时"}
        assert heard.text
        assert await stack.rows("SELECT status FROM biz.ai_run_logs") == [("timeout",)]

    run_with(home, database_url, body, run={"stream_deadline_seconds": 1.0})


def test_an_open_circuit_is_a_stream_of_one_error(home: Path, database_url: str) -> None:
    """While the breaker is open nobody calls the application, and the user hears so in one event."""

    async def body(stack: Stack) -> None:
        await stack.engine.breaker.hold_open(CHAT_APP)
        heard = await stack.chat()
        assert heard.status == 200
        assert heard.headers["Content-Type"].startswith("text/event-stream")
        (event,) = heard.events
        assert (event.kind, event.data) == ("error", {"code": "circuit_open", "message": "AI 服务暂时不可用"})
        assert stack.sim.calls == []
        assert await stack.rows("SELECT status FROM biz.ai_run_logs") == [("circuit_open",)]
        assert await stack.rows("SELECT FROM biz.ai_conversations") == []

    run_with(home, database_url, body)


def test_a_spent_budget_is_a_stream_of_one_error(home: Path, database_url: str) -> None:
    """Without tokens nobody calls the application, and the user hears so in one event."""

    async def body(stack: Stack) -> None:
        heard = await stack.chat()
        (event,) = heard.events
        assert (event.kind, event.data) == ("error", {"code": "budget_exceeded", "message": "AI 额度已用完"})
        assert stack.sim.calls == []
        assert await stack.rows("SELECT status FROM biz.ai_run_logs") == [("budget_exceeded",)]

    run_with(home, database_url, body, run={"daily_tokens": 10})


def test_too_many_turns_are_429_before_any_stream(home: Path, database_url: str) -> None:
    """Over the limit the answer is HTTP 429 with Retry-After; other users go on, and nothing of it is kept."""

    async def body(stack: Stack) -> None:
        heard = await asyncio.gather(*(stack.chat(entry="task", target_id="t") for _ in range(8)))
        refused = [each for each in heard if each.status == 429]
        assert len(refused) == 5
        for each in refused:
            told = is_problem(each, 429)
            assert "请求过于频繁" in told["detail"]
            assert 1 <= int(each.headers["Retry-After"]) <= 60
        assert (await stack.chat(user="u2")).last.kind == "done"
        rows = await stack.rows("SELECT status, count(*) FROM biz.ai_run_logs GROUP BY status ORDER BY status")
        assert rows == [("rate_limited", 5), ("success", 4)]
        assert await stack.rows("SELECT count(*) FROM biz.ai_messages WHERE role = 'user'") == [(4,)]

    run_with(home, database_url, body, run={"user_calls_per_minute": 3})


def test_a_silent_stream_says_that_it_is_alive(home: Path, database_url: str) -> None:
    """While the application thinks, comments arrive, which no client takes for events."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.slow(0.5))
        heard = await stack.chat()
        assert heard.body.startswith(b": ping\n\n")
        assert heard.last.kind == "done"

    run_with(home, database_url, body, serve={"heartbeat_seconds": 0.05})


# ── hanging up ──


async def first_message(response: aiohttp.ClientResponse) -> bytes:
    """Read until the first message is there."""
    heard = b""
    while b"event: message" not in heard:
        heard += await response.content.readany()
    return heard


def test_hanging_up_stops_the_application_and_keeps_what_was_said(home: Path, database_url: str) -> None:
    """The upstream is cut at once; log, estimated tokens and the part of the answer are written."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(3))
        async with stack.chatting() as response:
            await first_message(response)
        await eventually(lambda: _has(stack, "SELECT FROM biz.ai_run_logs WHERE status = 'failed'"))
        rows = await stack.rows("SELECT error_message, tokens_used > 0, tokens_estimated FROM biz.ai_run_logs")
        assert rows == [("client hung up", True, True)]
        kept = await stack.rows("SELECT content FROM biz.ai_messages WHERE role = 'assistant'")
        assert len(kept) == 1
        assert kept[0][0]
        assert await stack.rows("SELECT sum(reserved)::int FROM biz.ai_budget_days") == [(0,)]

        async def cut() -> bool:
            return stack.sim.calls[0].outcome == "hung_up"

        await eventually(cut)
        assert stack.engine.chat is not None
        assert stack.engine.chat.open_turns == 0

    run_with(home, database_url, body)


def test_a_reader_that_takes_nothing_is_taken_to_be_gone(
    home: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stays and never reads does not hold the application for ever: it is cut off and settled."""
    monkeypatch.setattr("agenttrace.serve.event_stream.SEND_SECONDS", 0.2)

    async def body(stack: Stack) -> None:
        stack.sim.answer(CHAT_APP, "长" * 2_000_000)
        asked = b'{"message": "x"}'
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(asked)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in bearer().items())
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", int(stack.url.rpartition(":")[2])))
            deaf.sendall(head.encode() + b"\r\n" + asked)

            async def is_settled() -> bool:
                return await stack.rows("SELECT error_message FROM biz.ai_run_logs") == [("client hung up",)]

            await eventually(is_settled)

    run_with(home, database_url, body)


def test_hanging_up_before_the_first_word_is_settled_too(home: Path, database_url: str) -> None:
    """Nothing was heard yet: the call is closed all the same, its reservation is free, and no answer is kept."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang())
        async with stack.chatting() as response:
            assert response.status == 200
        await eventually(lambda: _has(stack, "SELECT FROM biz.ai_run_logs WHERE status = 'failed'"))
        assert await stack.rows("SELECT role FROM biz.ai_messages") == [("user",)]
        assert await stack.rows("SELECT sum(reserved)::int FROM biz.ai_budget_days") == [(0,)]

    # A client that is gone is noticed when the next heartbeat is sent.
    run_with(home, database_url, body, serve={"heartbeat_seconds": 0.2})


async def _has(stack: Stack, sql: str) -> bool:
    return bool(await stack.rows(sql))


# ── sizes and configuration ──


LIMIT = 10_000


@pytest.fixture(scope="module")
def narrow_server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("narrow")
    server = Running(home, module_database_url, serve={"max_body_bytes": LIMIT})
    yield server
    server.close()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(size=st.one_of(st.integers(0, 2 * LIMIT), st.integers(LIMIT - 2, LIMIT + 2)), chunked=st.booleans())
def test_bodies_have_a_limit_however_they_are_sent(narrow_server: Running, size: int, chunked: bool) -> None:
    """A body over the limit is 413, whether its length is announced or not; one up to the limit is read."""
    data = b"x" * size

    async def pieces() -> AsyncIterator[bytes]:
        yield data[: size // 2]
        yield data[size // 2 :]

    sent: Any = pieces() if chunked else data
    heard = narrow_server.run(narrow_server.stack.request("POST", CHAT, data=sent, headers=bearer(somebody())))
    is_problem(heard, 413 if size > LIMIT else 400)


def test_without_dashscope_the_chat_says_what_is_missing(home: Path, database_url: str) -> None:
    """A good token gets 503 with the names of the missing variables; a bad one still gets 401."""

    async def body(stack: Stack) -> None:
        told = is_problem(await stack.chat(), 503)
        assert "DASHSCOPE_API_KEY" in told["missing"]
        is_problem(await stack.request("POST", CHAT, headers=bearer(secret=SECRET + "!")), 401)

    run_with(home, database_url, body, configured=False)


def test_without_a_secret_nobody_can_chat(home: Path, database_url: str) -> None:
    """No secret is 503 and names the variable: no token could be told from a forged one."""

    async def body(stack: Stack) -> None:
        for sent in (bearer(), {}, {"Authorization": "Bearer " + jwt.encode({"sub": "u"}, "", algorithm="none")}):
            told = is_problem(await stack.request("POST", CHAT, json={"message": "a"}, headers=sent), 503)
            assert told["missing"] == ["AGENTTRACE_JWT_SECRET"]

    run_with(home, database_url, body, jwt={})
