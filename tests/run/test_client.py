"""The client against a server that behaves, misbehaves, hangs and breaks off."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.errors import (
    CircuitOpenError,
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeError,
    DashScopeJsonParseError,
    DashScopeTimeoutError,
)
from agenttrace.run.simulator import Fault, Simulator, faults
from agenttrace.run.simulator.simulator import AnswerValue
from agenttrace.run.upstream import client as client_module
from agenttrace.run.upstream.client import AppStream, AttemptGate, DashScopeClient, counts_as_failure
from agenttrace.run.upstream.dashscope import DashScope
from agenttrace.run.upstream.wire import MAX_BYTES

APP = "some-app"
TEXT = "欢迎光临,今天想打多久?可以先看看会员活动。"
KEY = "sk-0123456789abcdef"


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


class RecordingGate:
    """Writes down what it is asked and told."""

    def __init__(self, *, admits: int = 99) -> None:
        self.heard: list[str] = []
        self._admits = admits

    async def before_retry(self, app_id: str, billed: int = 0) -> None:
        assert app_id == APP
        if self._admits <= 0:
            raise CircuitOpenError("open", retry_after=60)
        self._admits -= 1
        self.heard.append("asked")

    async def succeeded(self, app_id: str) -> None:
        await self._hear(app_id, "succeeded")

    async def failed(self, app_id: str, error: DashScopeError) -> None:
        assert counts_as_failure(error)
        assert error.attempts >= 1
        assert error.__context__ is None
        assert KEY not in str(error)
        await self._hear(app_id, "failed")

    async def abandoned(self, app_id: str) -> None:
        await self._hear(app_id, "abandoned")

    async def _hear(self, app_id: str, word: str) -> None:
        assert app_id == APP
        # As a database would, so that a cancellation may fall in between.
        await asyncio.sleep(0)
        self.heard.append(word)


@asynccontextmanager
async def simulated(
    *order: Fault,
    answer: AnswerValue = TEXT,
    stream_deadline: float = 300.0,
    read_timeout: float = 60.0,
    latency: float = 0.0,
    chunk_delay: float = 0.0,
    chunk_chars: int = 4,
) -> AsyncIterator[tuple[DashScopeClient, Simulator]]:
    """A client and the simulator that it calls, on which these faults are queued."""
    async with Simulator(latency=latency, chunk_delay=chunk_delay, chunk_chars=chunk_chars) as simulator:
        simulator.answer(APP, answer)
        simulator.script(APP, *order)
        client = DashScopeClient(
            KEY, base_url=simulator.base_url, sleep=at_once, stream_deadline=stream_deadline, read_timeout=read_timeout
        )
        async with client:
            yield client, simulator


@asynccontextmanager
async def serving(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[DashScopeClient]:
    """A client of a server that answers with this function."""
    application = web.Application()
    application.router.add_post("/apps/{app_id}/completion", handle)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with DashScopeClient(KEY, base_url=site.name, sleep=at_once) as client:
            yield client
    finally:
        await runner.cleanup()


async def ask(client: DashScopeClient, prompt: str, *, stream: bool, gate: AttemptGate | None = None) -> str:
    """The text of an answer, either way."""
    if not stream:
        return (await client.complete(APP, prompt, session_id="s", parse=False, gate=gate))[0].text
    async with client.stream(APP, prompt, session_id="s", gate=gate) as deltas:
        return "".join([delta async for delta in deltas])


async def drain(stream: AppStream, into: list[str]) -> None:
    """Read a stream to its end, keeping what came also when it breaks."""
    async with stream:
        async for delta in stream:
            into.append(delta)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so; the test's own time limit ends it otherwise."""
    while not condition():
        await asyncio.sleep(0.001)


# -- answers -----------------------------------------------------------------------------------------------------


def test_everything_about_an_answer() -> None:
    """An answer carries text, summed usage, session id, request id and the number of attempts."""

    async def run() -> None:
        async with simulated(faults.status(503)) as (client, simulator):
            answer, value = await client.complete(APP, "你好", parse=False)
            assert value is None
            assert (answer.text, answer.attempts, answer.finish_reason) == (TEXT, 2, "stop")
            assert answer.session_id == simulator.calls[-1].session_id
            assert answer.request_id
            assert not answer.usage.estimated
            assert answer.usage.total > 0
            assert answer.tokens_used == answer.usage.total

    asyncio.run(run())


def test_burnt_tokens_are_counted() -> None:
    """What answers that were no JSON have cost is part of the call's tokens, beside the usage of the last answer."""

    async def run() -> None:
        async with simulated(answer='{"a":1}') as (client, simulator):
            clean, _ = await client.complete(APP, "你好")
            simulator.script(APP, faults.bad_json(), faults.bad_json())
            answer, value = await client.complete(APP, "你好")
            assert value == {"a": 1}
            assert answer.attempts == 3
            assert answer.usage == clean.usage
            assert answer.burnt_tokens > 0
            assert answer.tokens_used == answer.usage.total + answer.burnt_tokens
            simulator.script(APP, *[faults.bad_json()] * 4)
            with pytest.raises(DashScopeJsonParseError) as raised:
                await client.complete(APP, "你好")
            assert raised.value.tokens_used == 2 * answer.burnt_tokens
            assert raised.value.attempts == 4

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_empty_usage_is_estimated(stream: bool) -> None:
    """Without a usage the tokens of request and answer are estimated, and marked so."""

    async def run() -> None:
        async with simulated(faults.empty_usage()) as (client, _):
            if stream:
                async with client.stream(APP, "你好") as deltas:
                    assert "".join([delta async for delta in deltas]) == TEXT
                answer = deltas.partial()
                assert answer is deltas.answer
            else:
                answer, _value = await client.complete(APP, "你好", parse=False)
            assert answer.usage.estimated
            assert answer.usage.input_tokens > 0
            assert answer.usage.output_tokens > 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"incremental_output": False},
        {"flow_stream_mode": "message_format"},
        {"flow_stream_mode": "full_thoughts", "has_thoughts": True},
        {"has_thoughts": True},
        {"has_thoughts": True, "incremental_output": False},
    ],
)
@pytest.mark.parametrize("chunk_chars", [1, 3, 1000])
@pytest.mark.parametrize("chunk_delay", [0.0, 0.0001])
def test_every_way_of_streaming_gives_the_text_once(
    parameters: dict[str, Any], chunk_chars: int, chunk_delay: float
) -> None:
    """Deltas, repeated texts and workflow messages give the same text; thoughts are never part of it."""

    async def run() -> None:
        order = [faults.unicode_separators()]
        async with simulated(*order, chunk_chars=chunk_chars, chunk_delay=chunk_delay) as (client, _):
            async with client.stream(APP, "你好", parameters=parameters) as deltas:
                received = [delta async for delta in deltas]
            assert all(received)
            assert "".join(received) == deltas.text
            assert deltas.text.translate(dict.fromkeys((0x2028, 0x2029, 0x85))) == TEXT
            assert {"\u2028", "\u2029", "\u0085"} <= set(deltas.text)
            assert deltas.answer is not None
            assert deltas.answer.text == deltas.text
            assert not deltas.answer.usage.estimated

    asyncio.run(run())


def test_application_that_ignores_incremental_output() -> None:
    """Frames that repeat the whole text although deltas were asked for come out as deltas."""

    async def run() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert (await request.json())["parameters"] == {"incremental_output": True}
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for end in range(1, len(TEXT) + 1):
                reason = "stop" if end == len(TEXT) else "null"
                frame = 'data:{"output":{"text":"%s","finish_reason":"%s"}}\n\n' % (TEXT[:end], reason)  # noqa: UP031
                await response.write(frame.encode())
            return response

        async with serving(handle) as client, aclosing(client.call_app_stream("x", "y")) as deltas:
            assert "".join([delta async for delta in deltas]) == TEXT

    asyncio.run(run())


def test_call_app_and_its_session() -> None:
    """A session id that is given is sent, and the one that comes back is returned."""

    async def run() -> None:
        async with simulated(answer={"a": 1}) as (client, simulator):
            value, tokens, session = await client.call_app(APP, "one", biz_params={"shop": "七号"})
            again = await client.call_app(APP, "two", session)
            assert (value, tokens > 0) == ({"a": 1}, True)
            assert session is not None
            assert again[2] == session
            first, second = (call.body["input"] for call in simulator.calls)
            assert first == {"prompt": "one", "biz_params": {"shop": "七号"}}
            assert second == {"prompt": "two", "session_id": session}

    asyncio.run(run())


def test_app_id_stays_one_part_of_the_path() -> None:
    """An app id cannot lead the call to another path."""

    async def run() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            return web.json_response({"output": {"text": request.match_info["app_id"]}})

        async with serving(handle) as client:
            for app_id in ("a/b", "a?b#c", "a b", "应用"):
                answer, _ = await client.complete(app_id, "x", parse=False)
                assert answer.text == app_id

    asyncio.run(run())


def test_calls_share_connections() -> None:
    """Calls one after the other, plain and streamed, go over one connection."""

    async def run() -> None:
        ports = set()

        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            ports.add(request.transport.get_extra_info("peername")[1])
            if "X-DashScope-SSE" not in request.headers:
                return web.json_response({"output": {"text": "{}"}})
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b'data:{"output":{"text":"a","finish_reason":"stop"}}\n\n')
            return response

        async with serving(handle) as client:
            for _ in range(5):
                await client.call_app("x", "y")
                async with aclosing(client.call_app_stream("x", "y")) as deltas:
                    assert [delta async for delta in deltas] == ["a"]
        assert len(ports) == 1

    asyncio.run(run())


# -- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind", "status", "attempts"),
    [
        (faults.status(401), DashScopeAuthError, 401, 1),
        (faults.status(400), DashScopeApiError, 400, 1),
        (faults.status(429, retry_after=7), DashScopeApiError, 429, 1),
        (faults.status(408), DashScopeTimeoutError, 408, 1),
        (faults.session_expired(), DashScopeApiError, 400, 1),
        (faults.error_200("InvalidApiKey"), DashScopeAuthError, 401, 1),
        (faults.error_200("Throttling.RateQuota"), DashScopeApiError, 429, 1),
        (faults.error_frame("Throttling.RateQuota", 429, 0), DashScopeApiError, 429, 1),
        (faults.status(500), DashScopeApiError, 500, 4),
        (faults.status(504), DashScopeTimeoutError, 504, 4),
        (faults.html(502), DashScopeApiError, 502, 4),
        (faults.error_200("SomethingNew"), DashScopeApiError, 500, 4),
        (faults.error_frame("InternalError", 500, 0), DashScopeApiError, 500, 4),
        (faults.reset(), DashScopeApiError, None, 4),
        (faults.half_frame(0), DashScopeApiError, None, 4),
        (faults.hang(), DashScopeTimeoutError, None, 4),
    ],
)
def test_errors(fault: Fault, kind: type[DashScopeApiError], status: int | None, attempts: int, stream: bool) -> None:
    """Every way of failing is the error of its class, with its status, code, request id, tokens and attempts."""

    async def run() -> None:
        async with simulated(*[fault] * 5, read_timeout=0.3 if fault.kind == "hang" else 60) as (client, simulator):
            with pytest.raises(DashScopeApiError) as raised:
                await ask(client, "你好", stream=stream)
            error = raised.value
            assert type(error) is kind
            assert (error.status_code, error.attempts, len(simulator.calls)) == (status, attempts, attempts)
            assert (error.code, error.retry_after) == (fault.code, fault.retry_after)
            assert error.tokens_used == 0
            assert bool(error.request_id) == bool(fault.code)
            assert error.status == ("timeout" if kind is DashScopeTimeoutError else "failed")

    asyncio.run(run())


def test_no_server_listens() -> None:
    """A server that cannot be reached is an API error without a status, after all retries."""

    async def run() -> None:
        simulator = Simulator()
        await simulator.start()
        await simulator.stop()
        async with DashScopeClient(KEY, base_url=simulator.base_url, sleep=at_once) as client:
            with pytest.raises(DashScopeApiError) as raised:
                await client.call_app(APP, "x")
        assert (raised.value.status_code, raised.value.attempts) == (None, 4)

    asyncio.run(run())


@pytest.mark.parametrize(
    "fault",
    [faults.half_frame(2), faults.cut_after(2), faults.reset(2), faults.error_frame("InternalError", 500, 2)],
)
def test_stream_that_breaks_in_the_middle(fault: Fault) -> None:
    """What had arrived was delivered, the error reaches the caller with estimated tokens, and no call is repeated."""

    async def run() -> None:
        async with simulated(fault, chunk_delay=0.001) as (client, simulator):
            received: list[str] = []
            stream = client.stream(APP, "你好")
            with pytest.raises(DashScopeApiError) as raised:
                await drain(stream, received)
            assert "".join(received) == stream.text
            assert TEXT.startswith(stream.text)
            # A reset may overtake what was sent before it.
            assert stream.text or fault.kind == "reset"
            assert stream.answer is None
            if stream.text:
                assert len(simulator.calls) == 1
                assert stream.partial().usage.estimated
                assert stream.partial().tokens_used == raised.value.tokens_used > 0

    asyncio.run(run())


def test_stream_without_its_last_frame_is_cut() -> None:
    """A stream that ends in order, but before its answer is complete, is an error."""

    async def run() -> None:
        async with simulated(faults.no_finish()) as (client, simulator):
            stream = client.stream(APP, "你好")
            with pytest.raises(DashScopeApiError, match="before the answer was complete"):
                await drain(stream, [])
            assert stream.text == TEXT
            assert len(simulator.calls) == 1

    asyncio.run(run())


def test_server_that_does_not_hang_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete answer is not held up, nor spoilt, by a connection that stays open behind it."""
    monkeypatch.setattr(client_module, "LINGER", 0.01)

    async def run() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b'data:{"output":{"text":"all","finish_reason":"stop"}}\n\n')
            await asyncio.Event().wait()
            return response

        gate = RecordingGate()
        async with serving(handle) as client, client.stream(APP, "y", gate=gate) as stream:
            assert [delta async for delta in stream] == ["all"]
            assert stream.answer is not None
        assert gate.heard == ["succeeded"]

    asyncio.run(run())


def test_usage_before_the_last_frame() -> None:
    """A usage that comes in any frame is kept; the last frame of some workflows has an empty one."""

    async def run() -> None:
        async def handle(_request: web.Request) -> web.StreamResponse:
            usage = b'{"models":[{"model_id":"m","input_tokens":3,"output_tokens":4}]}'
            frames = b'data:{"output":{"text":"a"},"usage":%s}\n\n' % usage
            frames += b'data:{"output":{"text":"b","finish_reason":"stop"},"usage":{}}\n\n'
            return web.Response(body=frames, content_type="text/event-stream")

        async with serving(handle) as client, client.stream(APP, "y") as stream:
            assert [delta async for delta in stream] == ["a", "b"]
            assert (stream.partial().usage.total, stream.partial().usage.estimated) == (7, False)

    asyncio.run(run())


def test_whole_answer_to_a_stream() -> None:
    """An application that cannot stream and answers in one body has still answered."""

    async def run() -> None:
        async def handle(_request: web.Request) -> web.StreamResponse:
            return web.json_response({"output": {"text": TEXT}, "request_id": "r"})

        async with serving(handle) as client, client.stream(APP, "y") as stream:
            assert [delta async for delta in stream] == [TEXT]
            assert stream.partial().request_id == "r"

    asyncio.run(run())


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_answers_beyond_the_limit_are_errors(content_type: str) -> None:
    """A body or frame above 8 MB is not taken into memory: the call fails."""

    async def run() -> None:
        sent: list[int] = []

        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": content_type})
            await response.prepare(request)
            sent.append(0)
            await response.write(b'data:{"output":{"text":"')
            while sent[-1] < 4 * MAX_BYTES:
                await response.write(b"x" * 65536)
                sent[-1] += 65536
            return response

        async with serving(handle) as client:
            with pytest.raises(DashScopeApiError, match="larger than"):
                await drain(client.stream(APP, "y"), [])
        assert len(sent) == 4
        assert max(sent) < 4 * MAX_BYTES

    asyncio.run(run())


def test_stream_deadline() -> None:
    """A stream that never ends is ended by its deadline, also when it has begun."""

    async def run() -> None:
        async with simulated(faults.hang(2), stream_deadline=2.0) as (client, simulator):
            stream = client.stream(APP, "你好")
            with pytest.raises(DashScopeTimeoutError):
                await drain(stream, [])
            assert stream.text == TEXT[:8]
            await until(lambda: simulator.calls[0].outcome == "hung_up")

    asyncio.run(run())


def secrets_shown(error: BaseException) -> str:
    """Everything that a log could show of an error."""
    hidden = error.__cause__ or error.__context__
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error)) + repr(error.args)
    return shown + (secrets_shown(hidden) if hidden is not None else "")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 400, 500, "garbage", "reset"])
def test_errors_keep_secrets(status: int | str, stream: bool) -> None:
    """Neither key nor prompt is in an error, its context or the client's repr, even when the server repeats them."""
    prompt = "我的会员号是 12345678"

    async def run() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            if not isinstance(status, int):
                request.transport.write(b"HTTP/1.1 2xx what\r\n\r\n" if status == "garbage" else b"")
                request.transport.close()
                return web.Response()
            said = f"{request.headers['Authorization']} may not say {(await request.json())['input']['prompt']}"
            return web.json_response({"code": "InternalError", "message": said}, status=status)

        async with serving(handle) as client:
            with pytest.raises(DashScopeApiError) as raised:
                await ask(client, prompt, stream=stream, gate=RecordingGate())
            for shown in (secrets_shown(raised.value), repr(client)):
                assert KEY not in shown
                assert prompt not in shown

    asyncio.run(run())


# -- cancellation and back-pressure --------------------------------------------------------------------------------


def test_cancelled_call_hangs_up() -> None:
    """Cancelling a call closes its connection, so the application stops, and the gate hears of it."""

    async def run() -> None:
        gate = RecordingGate()
        async with simulated(faults.hang()) as (client, simulator):
            task = asyncio.create_task(client.complete(APP, "x", gate=gate))
            await until(lambda: bool(simulator.calls))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: simulator.calls[0].outcome == "hung_up")
        assert gate.heard == ["abandoned"]

    asyncio.run(run())


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_cancelled_stream_hangs_up(frames: int) -> None:
    """Cancelling the reader of a stream closes its connection; what came before is there, its tokens estimated."""

    async def run() -> None:
        gate = RecordingGate()
        async with simulated(faults.hang(frames)) as (client, simulator):
            stream = client.stream(APP, "x", gate=gate)
            task = asyncio.create_task(drain(stream, []))
            await until(lambda: bool(simulator.calls) and stream.text == TEXT[: 4 * frames])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: simulator.calls[0].outcome == "hung_up")
            assert stream.partial().text == TEXT[: 4 * frames]
            assert stream.partial().usage.estimated
            assert stream.partial().tokens_used > 0
        assert gate.heard == ["abandoned"]

    asyncio.run(run())


def test_leaving_a_stream_hangs_up() -> None:
    """A reader that has enough closes the connection by leaving; call_app_stream does the same when it is closed."""

    async def run() -> None:
        gate = RecordingGate()
        async with simulated(faults.hang(2), faults.hang(2)) as (client, simulator):
            async with client.stream(APP, "x", gate=gate) as stream:
                assert await anext(stream) == TEXT[:4]
            async with aclosing(client.call_app_stream(APP, "x")) as deltas:
                assert await anext(deltas) == TEXT[:4]
            await until(lambda: [call.outcome for call in simulator.calls] == ["hung_up"] * 2)
        assert gate.heard == ["abandoned"]

    asyncio.run(run())


def test_stream_that_is_never_read() -> None:
    """A stream that is left before it is read makes no call, and gives its admission back."""

    async def run() -> None:
        gate = RecordingGate()
        async with simulated() as (client, simulator):
            async with client.stream(APP, "x", gate=gate) as stream:
                pass
            assert simulator.calls == []
            assert stream.partial().tokens_used == 0
        assert gate.heard == ["abandoned"]

    asyncio.run(run())


def test_slow_reader_slows_the_sender() -> None:
    """Who does not read is not sent to: the server's writes block long before the end of a large stream."""
    total = 64 * 1024 * 1024
    frame = b'data:{"output":{"text":"%s"}}\n\n' % (b"x" * 65536)

    async def run() -> None:
        sent = 0
        blocked = asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal sent
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            while sent < total:
                writing = asyncio.ensure_future(response.write(frame))
                done, _ = await asyncio.wait({writing}, timeout=0.2)
                if not done:
                    blocked.set()
                await writing
                sent += len(frame)
            blocked.set()
            return response

        async with serving(handle) as client, client.stream(APP, "y") as stream:
            assert len(await anext(stream)) == 65536
            await blocked.wait()
            assert sent < total / 2

    asyncio.run(run())


# -- the gate ----------------------------------------------------------------------------------------------------

failed = [faults.status(503), faults.reset(), faults.bad_json(), faults.html(502), faults.cut_after(0)]
abandoned = [faults.status(400), faults.status(429), faults.status(401)]


@given(st.lists(st.sampled_from([*failed, *abandoned]), max_size=5))
def test_gate_hears_of_each_attempt_once(order: list[Fault]) -> None:
    """The gate is asked before each attempt but the first, and told of each exactly once how it ended."""
    expected: list[str] = []
    for fault in [*order, None][:4]:
        word = "succeeded" if fault is None else "failed" if fault in failed else "abandoned"
        expected += [*(["asked"] if expected else []), word]
        if word != "failed":
            break

    async def run() -> None:
        gate = RecordingGate()
        async with simulated(*order, answer={"a": 1}) as (client, _):
            try:
                await client.complete(APP, "x", gate=gate)
            except DashScopeError:
                assert expected[-1] != "succeeded"
            assert gate.heard == expected

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_open_circuit_ends_the_retries(stream: bool) -> None:
    """A gate that refuses the next attempt ends the call with the application's own error, and a note."""

    async def run() -> None:
        gate = RecordingGate(admits=1)
        async with simulated(*[faults.status(503)] * 4) as (client, simulator):
            with pytest.raises(DashScopeApiError) as raised:
                await ask(client, "x", stream=stream, gate=gate)
            assert raised.value.status_code == 503
            assert raised.value.__notes__ == ["not tried again: open"]
            assert raised.value.attempts == len(simulator.calls) == 2
        assert gate.heard == ["failed", "asked", "failed"]

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_gate_that_cannot_be_asked(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """When the gate itself breaks there is no further attempt, and the application's error is what is raised."""

    class BrokenGate(RecordingGate):
        async def before_retry(self, app_id: str, billed: int = 0) -> None:
            raise ConnectionError("the database is away")

    async def run() -> None:
        async with simulated(*[faults.status(503)] * 4) as (client, simulator):
            with pytest.raises(DashScopeApiError) as raised:
                await ask(client, "x", stream=stream, gate=BrokenGate())
            assert (raised.value.status_code, len(simulator.calls)) == (503, 1)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "could not be asked" in caplog.text


@pytest.mark.parametrize("fault", [faults.status(429), faults.error_frame("DataInspectionFailed", 400, 0)])
def test_refused_stream_costs_nothing(fault: Fault) -> None:
    """A stream that was refused before its first text has no tokens."""

    async def run() -> None:
        async with simulated(fault) as (client, _):
            stream = client.stream(APP, "x")
            with pytest.raises(DashScopeApiError) as raised:
                await drain(stream, [])
            assert stream.partial().tokens_used == raised.value.tokens_used == 0

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_cancelled_at_any_point(stream: bool) -> None:
    """Wherever in a call with a retry the cancellation falls, every attempt was told of exactly once."""

    async def run() -> None:
        async with simulated(answer={"a": 1}) as (client, simulator):
            endings = set()
            for steps in range(1, 5000):
                simulator.clear("faults")
                simulator.script(APP, faults.status(503))
                gate = RecordingGate()
                task = asyncio.create_task(ask(client, "x", stream=stream, gate=gate))
                for _ in range(steps):
                    await asyncio.sleep(0)
                done = task.done()
                task.cancel()
                await asyncio.wait({task})
                await client._notifier.drain()
                told = [word for word in gate.heard if word != "asked"]
                assert len(told) == 1 + gate.heard.count("asked")
                endings.add(tuple(gate.heard))
                if done:
                    break
            assert {("abandoned",), ("failed", "asked", "succeeded")} <= endings

    asyncio.run(run())


def test_gate_that_breaks_does_not_cost_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A gate that cannot be told is logged; the answer, which is paid for, is returned."""

    class BrokenGate(RecordingGate):
        async def succeeded(self, app_id: str) -> None:
            raise ConnectionError("the database is away")

    async def run() -> None:
        async with simulated(answer={"a": 1}) as (client, _):
            assert (await client.complete(APP, "x", gate=BrokenGate()))[1] == {"a": 1}

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "could not be notified" in caplog.text


def test_request_that_cannot_be_sent() -> None:
    """A prompt that is no valid text is refused without a call, and is not the application's fault."""

    async def run() -> None:
        gate = RecordingGate()
        async with simulated() as (client, simulator):
            with pytest.raises(DashScopeApiError) as raised:
                await client.complete(APP, "\ud800", gate=gate)
            assert (raised.value.status_code, raised.value.attempts, simulator.calls) == (400, 0, [])
        assert gate.heard == ["abandoned"]

    asyncio.run(run())


def test_many_calls_at_once() -> None:
    """Calls at the same time do not disturb each other: each gets its own answer."""

    async def run() -> None:
        async with simulated(answer=lambda body: body["input"]["prompt"], latency=0.01) as (client, _):

            async def one(number: int) -> None:
                if number % 2:
                    async with client.stream(APP, f"number {number}") as deltas:
                        assert "".join([delta async for delta in deltas]) == f"number {number}"
                else:
                    answer, _ = await client.complete(APP, f"number {number}", parse=False)
                    assert answer.text == f"number {number}"

            await asyncio.gather(*map(one, range(300)))

    asyncio.run(run())


def test_client_outlives_its_session() -> None:
    """A client is made outside of any loop, and may be used again after it was closed."""
    client = DashScopeClient(KEY, base_url="http://127.0.0.1:1")

    async def run() -> None:
        async with Simulator() as simulator:
            client.provider_of = lambda _: DashScope(KEY, base_url=simulator.base_url)
            simulator.answer(APP, {"a": 1})
            async with client:
                assert (await client.call_app(APP, "x"))[0] == {"a": 1}

    asyncio.run(run())
    asyncio.run(run())


def test_a_process_that_stands_still_while_it_connects_has_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped for longer than a connection may take, it gives the attempt up and says that there was no connection."""
    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT", 0.03)

    async def run() -> None:
        async with simulated() as (client, simulator):
            loop = asyncio.get_running_loop()
            connect = loop.sock_connect

            async def standing_still(*where: Any) -> None:  # noqa: ANN401 - a socket and an address
                time.sleep(0.1)
                await connect(*where)

            monkeypatch.setattr(loop, "sock_connect", standing_still)
            with pytest.raises(DashScopeTimeoutError, match="no connection in time") as failure:
                await client.complete(APP, "?")
            assert (failure.value.attempts, len(simulator.calls)) == (4, 0)

    asyncio.run(run())
