"""The simulator fails as ordered: by its methods, over HTTP, and from the command line."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli.errors import UsageError
from agenttrace.cli.simulate_dashscope import simulate_dashscope
from agenttrace.run.simulator import Fault, Simulator, environment, faults
from agenttrace.run.simulator.faults import FaultPlan

from .simulator_user import CHAT, CLUE, INCREMENTAL, Seen, User, with_user

# -- faults -------------------------------------------------------------------------------------------------------

SEPARATORS = "\u2028\u2029\u0085"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (faults.status(503, retry_after=2), 503, "ServiceUnavailable"),
        (faults.status("DataInspectionFailed", 400), 400, "DataInspectionFailed"),
        (faults.error_200("Throttling"), 200, "Throttling"),
    ],
)
def test_error_answers(fault: Fault, status: int, code: str, stream: bool) -> None:
    """An ordered error has its status, its code, no output, and Retry-After exactly where it was ordered."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.script(None, fault)
        seen = await user.call(stream=stream)
        assert (seen.status, seen.json["code"]) == (status, code)
        assert set(seen.json) == {"code", "message", "request_id"}
        assert seen.headers.get("Retry-After") == ("2" if fault.retry_after else None)
        assert simulator.calls[-1].outcome == fault.kind

    with_user(check)


@pytest.mark.parametrize("stream", [False, True])
def test_a_proxy_page_is_html(stream: bool) -> None:
    """html answers with the status and a page that is no JSON."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.script(None, faults.html(502))
        seen = await user.call(stream=stream)
        assert (seen.status, seen.headers["Content-Type"]) == (502, "text/html")
        assert seen.body.startswith(b"<html>")

    with_user(check)


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_streams_break_where_ordered(delay: float) -> None:
    """So many whole frames arrive, then half of one, nothing, an error frame, or a proper end without stop."""

    async def check(simulator: Simulator, user: User) -> None:
        whole = (await user.call(stream=True, parameters=INCREMENTAL)).frames
        ordered = [faults.cut_after(2), faults.half_frame(2), faults.error_frame("InternalError", 500, 2)]
        simulator.script(CHAT, *ordered, faults.no_finish(), faults.cut_after(10_000))
        cut, half, error, endless, late = [await user.call(stream=True, parameters=INCREMENTAL) for _ in range(5)]
        assert not cut.complete
        assert len(cut.frames) == 2
        torn = half.body.split(b"\n\n")
        assert not half.complete
        assert len(torn) == 3
        assert torn[2].startswith(b"id:3\nevent:result")
        assert error.complete
        assert error.body.split(b"\n\n")[2].startswith(b"id:3\nevent:error\n:HTTP_STATUS/500\ndata:")
        assert error.frames[2]["code"] == "InternalError"
        assert endless.complete
        assert len(endless.frames) == len(late.frames) == len(whole) - 1
        assert not late.complete

    with_user(check, chunk_delay=delay)


def test_plain_answers_break_too() -> None:
    """Without a stream: half of the promised body, a finish_reason that is missing, and the error frame's status."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.script(CHAT, faults.half_frame(), faults.cut_after(), faults.no_finish(), faults.error_frame())
        half, cut, endless, error = [await user.call() for _ in range(4)]
        assert not half.complete
        assert not cut.complete
        assert 0 < len(half.body) < int(half.headers["Content-Length"])
        assert endless.json["output"]["finish_reason"] == "null"
        assert (error.status, error.json["code"]) == (429, "Throttling.RateQuota")

    with_user(check)


@pytest.mark.parametrize("stream", [False, True])
def test_a_reset_is_no_answer(stream: bool) -> None:
    """reset ends the connection before any byte of an answer; the next call is served."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.script(None, faults.reset())
        with pytest.raises(aiohttp.ClientOSError):
            await user.call(stream=stream)
        assert (await user.call(stream=stream)).status == 200
        assert [call.outcome for call in simulator.calls] == ["reset", "answered"]

    with_user(check)


@pytest.mark.parametrize("after_chunks", [0, 2])
def test_a_hanging_call_ends_with_its_client_or_the_simulator(after_chunks: int) -> None:
    """hang never ends by itself: a client that hangs up is logged, and stopping the simulator ends the other calls."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.always(None, faults.hang(after_chunks))
        leaving, staying = [asyncio.create_task(user.call(stream=True)) for _ in range(2)]
        while len(simulator.calls) < 2:
            await asyncio.sleep(0)
        leaving.cancel()
        while "hung_up" not in [call.outcome for call in simulator.calls]:
            await asyncio.sleep(0.001)
        assert not staying.done()
        await simulator.stop()
        try:
            seen = await staying
        except aiohttp.ClientConnectionError:
            assert after_chunks == 0
        else:
            assert (len(seen.frames), seen.complete) == (after_chunks, False)
        assert sorted(call.outcome for call in simulator.calls) == ["hang", "hung_up"]

    with_user(check)


def test_clients_that_hang_up_cause_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    """Streams that the client closes at any moment end as hung_up, and nothing is logged as an error."""

    async def check(simulator: Simulator, user: User) -> None:
        async def leave_after(frames: int) -> None:
            url = f"{simulator.base_url}/apps/{CHAT}/completion"
            body = {"input": {"prompt": "你好"}, "parameters": INCREMENTAL}
            async with user.http.post(url, json=body, headers={"X-DashScope-SSE": "enable"}) as response:
                for _ in range(2 * frames):
                    await response.content.readuntil(b"\n\n")
                response.close()

        simulator.answer(CHAT, "好" * 4_000)
        await asyncio.gather(*[leave_after(number % 7) for number in range(60)])
        while any(call.outcome == "running" for call in simulator.calls):
            await asyncio.sleep(0.001)
        assert [call.outcome for call in simulator.calls] == ["hung_up"] * 60

    with_user(check, chunk_delay=0.001)
    assert caplog.messages == []


@pytest.mark.parametrize("stream", [False, True])
def test_strange_answers_are_answers(stream: bool) -> None:
    """bad_json is billed and no JSON, empty_usage is {}, separators arrive raw and inside a string, slow is whole."""

    async def check(simulator: Simulator, user: User) -> None:
        kinds = [faults.bad_json(), faults.empty_usage(), faults.unicode_separators(), faults.slow(0.001)]
        simulator.script(CLUE, *kinds)
        seen = [await user.call(CLUE, stream=stream, parameters=INCREMENTAL) for _ in kinds]
        bad, empty, strange, slow = [_joined(found, stream) for found in seen]
        with pytest.raises(json.JSONDecodeError):
            json.loads(bad[0])
        assert bad[1]["models"][0]["output_tokens"] > 0
        assert empty[1] == {}
        assert all(mark.encode() in seen[2].body for mark in SEPARATORS)
        assert json.loads(strange[0])["member_name"].startswith(SEPARATORS)
        assert slow[0] == empty[0] == strange[0].replace(SEPARATORS, "")

    with_user(check)


def _joined(seen: Seen, stream: bool) -> tuple[str, dict[str, Any]]:
    if not stream:
        return seen.json["output"]["text"], seen.json["usage"]
    return "".join(frame["output"]["text"] for frame in seen.frames), seen.frames[-1]["usage"]


@given(data=st.data())
def test_faults_come_in_the_order_of_their_orders(data: st.DataObject) -> None:
    """Each app gets its own faults first, then those for any app, one a call and in order, then none."""
    apps: list[str | None] = ["a", "b", None]
    made = data.draw(st.lists(st.tuples(st.sampled_from(apps), st.sampled_from([500, 502, 503])), max_size=8))
    asking = data.draw(st.lists(st.sampled_from(["a", "b"]), max_size=12))
    orders, waiting = FaultPlan(), {app: [http for at, http in made if at == app] for app in apps}
    for app, http in made:
        orders.queue(app, (faults.status("InternalError", http),))
    for app in asking:
        queue = waiting[app] or waiting[None]
        expected = queue.pop(0) if queue else None
        taken = orders.take(app, in_session=False)
        assert (taken.http if taken else None) == expected


def test_a_standing_fault_stays_until_it_is_removed() -> None:
    """always applies to one app or all, a rate for a share of the calls, and scripted faults come before it."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.always(CHAT, faults.status(503))
        simulator.script(None, faults.status(429))
        assert [(await user.call()).status for _ in range(4)] == [429, 503, 503, 503]
        assert (await user.call(CLUE)).status == 200
        simulator.always(CHAT, None)
        assert (await user.call()).status == 200
        simulator.always(None, faults.status(500), rate=0.5)
        assert {(await user.call()).status for _ in range(40)} == {200, 500}

    with_user(check)


@given(
    name=st.sampled_from(sorted(faults.BY_NAME)) | st.text(max_size=5),
    options=st.dictionaries(
        st.sampled_from(["http", "code", "chunks", "after_chunks", "seconds", "retry_after", "x"]),
        st.integers(-5, 700) | st.text(max_size=3) | st.none() | st.floats(allow_nan=False),
        max_size=2,
    ),
)
def test_a_named_fault_is_a_fault_or_a_clear_refusal(name: str, options: dict[str, Any]) -> None:
    """For any name and options: a valid fault of that name, or a ValueError."""
    try:
        fault = faults.named(name, options)
    except ValueError:
        return
    assert fault.kind == name
    assert 200 <= fault.http <= 599
    assert isinstance(fault.chunks, int)
    assert fault.chunks >= 0
    assert fault.seconds >= 0


# -- from outside ---------------------------------------------------------------------------------------------------


def test_orders_and_counts_over_http() -> None:
    """/__control orders faults, answers and delays as the methods do; /__calls counts calls and outcomes by app."""

    async def check(simulator: Simulator, user: User) -> None:
        await user.order(script={"app": CLUE, "faults": ["bad_json", {"fault": "status", "code": 503}]})
        await user.order(always={"fault": {"fault": "status", "code": 401}}, answer={"app": CLUE, "value": {"a": 1}})
        statuses = [(await user.call(CLUE)).status for _ in range(3)]
        assert statuses == [200, 503, 401]
        await user.order(clear=["faults"])
        assert (await user.call(CLUE)).json["output"]["text"] == '{"a":1}'
        counted = (await user.send("/__calls", method="GET")).json
        assert counted == {"total": 4, "apps": {CLUE: {"calls": 4, "bad_json": 1, "status": 2, "answered": 1}}}
        told = (await user.send(f"/__calls?last=2&app={CLUE}", method="GET")).json["calls"]
        assert [call["outcome"] for call in told] == ["status", "answered"]
        await user.order(clear=["calls"], latency=0.001, chunk_delay=0.002)
        assert (simulator.latency, simulator.chunk_delay, simulator.calls) == (0.001, 0.002, [])

    with_user(check)


@pytest.mark.parametrize(
    "order",
    [
        {"always": {"fault": "nonsense"}},
        {"script": {"faults": [{"fault": "status", "http": 99}]}},
        {"script": {"faults": [{"fault": "hang", "after_chunks": "x"}]}},
        {"clear": ["everything"]},
        {"latency": -1},
        {"unknown": 1},
    ],
)
def test_a_wrong_order_changes_nothing(order: dict[str, Any]) -> None:
    """An order that is not understood is refused with a reason, and nothing of it is done."""

    async def check(simulator: Simulator, user: User) -> None:
        seen = await user.order(**{"chunk_delay": 5.0, **order})
        assert seen.status == 400
        assert seen.json["error"]
        assert simulator.chunk_delay == 0
        assert (await user.call()).status == 200

    with_user(check)


PROGRAM = "import typer; from agenttrace.cli.simulate_dashscope import simulate_dashscope as s; typer.run(s)"


def test_the_command_serves_until_it_is_interrupted() -> None:
    """With --json: a line that says where it is, the ordered fault on each call, a line of counts, exit code 0."""
    command = [sys.executable, "-c", PROGRAM, "--port", "0", "--json", "--fault", "status:code=503,retry_after=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["environment"] == environment(told["base_url"])

        async def call() -> tuple[int, str]:
            url = f"{told['base_url']}/apps/{CHAT}/completion"
            async with aiohttp.ClientSession() as http, http.post(url, json={"input": {"prompt": "你好"}}) as answer:
                return answer.status, answer.headers["Retry-After"]

        assert asyncio.run(call()) == (503, "2")
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")
    assert json.loads(rest) == {"total": 1, "apps": {CHAT: {"calls": 1, "status": 1}}}


@pytest.mark.parametrize("fault", ["nonsense", "hang:x=1", "status:http=99", "slow:seconds=long"])
def test_the_command_refuses_faults_it_does_not_know(fault: str) -> None:
    """A misspelled fault is refused before the server starts."""
    with pytest.raises(UsageError):
        simulate_dashscope(port=0, fault=fault)
