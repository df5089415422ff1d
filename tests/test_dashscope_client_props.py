"""Properties 1 and 20 of the specification: when a call is made again, and what becomes of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agenttrace.run.errors import DashScopeApiError, DashScopeError, DashScopeJsonParseError, DashScopeTimeoutError
from agenttrace.run.simulator import Fault, Simulator, faults
from agenttrace.run.simulator.simulator import AnswerValue
from agenttrace.run.upstream.client import DashScopeClient

APP = "some-app"
OBJECT = {"结论": "好", "score": 7}


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


class Outcome:
    """What a call came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.waits: list[float] = []
        self.value: Any = None
        self.error: DashScopeError | None = None


async def call(
    order: Sequence[Fault],
    *,
    stream: bool = False,
    answer: AnswerValue = OBJECT,
    deadline: float = 120.0,
    read_timeout: float = 60.0,
) -> Outcome:
    """Call an application on which these faults are queued."""
    time, outcome = Time(), Outcome()
    async with Simulator() as simulator:
        simulator.answer(APP, answer)
        simulator.script(APP, *order)
        client = DashScopeClient(
            "a-key",
            base_url=simulator.base_url,
            deadline=deadline,
            stream_deadline=deadline,
            read_timeout=read_timeout,
            sleep=time.sleep,
            clock=time.clock,
        )
        async with client:
            try:
                if stream:
                    outcome.value = json.loads("".join([delta async for delta in client.call_app_stream(APP, "?")]))
                else:
                    outcome.value, _, _ = await client.call_app(APP, "?")
            except DashScopeError as error:
                outcome.error = error
        outcome.calls = len(simulator.calls)
    outcome.waits = time.waits
    return outcome


def expected(order: Sequence[Fault], deadline: float = 120.0) -> tuple[int, list[float], bool]:
    """The rule: calls made, waits between them, and whether there is an answer in the end."""
    waits: list[float] = []
    for number, fault in enumerate(order[:4]):
        wait = max(2.0**number, fault.retry_after or 0)
        if not retried(fault) or number == 3 or sum(waits) + wait >= deadline:
            return number + 1, waits, False
        waits.append(wait)
    return len(order[:4]) + 1, waits, True


def retried(fault: Fault) -> bool:
    if fault.kind == "error_200":
        return fault.code in SERVER_CODES
    return fault.kind not in ("status", "html") or fault.http >= 500


SERVER_CODES = ("InternalError", "InternalError.Algo", "SomethingNew")
CLIENT_CODES = ("InvalidApiKey", "Throttling.RateQuota", "DataInspectionFailed", "InvalidParameter")
retry_after = st.none() | st.integers(0, 60)
refusals = st.builds(faults.status, st.sampled_from([400, 401, 403, 404, 408, 413, 422, 429]), retry_after=retry_after)
breakdowns = st.builds(faults.status, st.sampled_from([500, 502, 503, 504]), retry_after=retry_after)
broken = st.one_of(
    breakdowns,
    st.builds(faults.html, st.sampled_from([500, 502, 503])),
    st.just(faults.reset()),
    st.builds(faults.error_200, st.sampled_from(SERVER_CODES)),
)
refused = st.one_of(refusals, st.builds(faults.error_200, st.sampled_from(CLIENT_CODES)))
not_json = st.just(faults.bad_json())
cut = st.sampled_from([faults.half_frame(0), faults.cut_after(0)])


# Feature: P14-ai-dashscope-migration, Property 1: 重试策略正确性
@given(st.lists(st.one_of(broken, broken, cut, not_json, refused), max_size=6))
@example([faults.status(503)] * 4)
@example([faults.bad_json()] * 4)
def test_retry_policy(order: list[Fault]) -> None:
    """4xx is raised at once; 5xx, connection errors and answers that are no JSON are tried up to 3 times more, after
    1, 2 and 4 s or what Retry-After says.
    """
    calls, waits, answered = expected(order)
    outcome = asyncio.run(call(order))
    assert (outcome.calls, outcome.waits) == (calls, waits)
    if answered:
        assert outcome.value == OBJECT
    else:
        assert outcome.error is not None
        assert outcome.error.attempts == calls
        assert isinstance(outcome.error, DashScopeJsonParseError) == (order[calls - 1].kind == "bad_json")


# Feature: P14-ai-dashscope-migration, Property 1: 重试策略正确性
@given(st.lists(st.one_of(broken, broken, cut, refused), max_size=6))
def test_retry_policy_of_streams(order: list[Fault]) -> None:
    """A stream that fails before its first text is tried again by the same rule."""
    calls, waits, answered = expected(order)
    outcome = asyncio.run(call(order, stream=True))
    assert (outcome.calls, outcome.waits) == (calls, waits)
    assert outcome.value == (OBJECT if answered else None)
    assert (outcome.error is None) == answered


# Feature: P14-ai-dashscope-migration, Property 1: 重试策略正确性
@given(
    st.sampled_from([faults.half_frame, faults.cut_after, faults.reset]),
    st.integers(1, 4),
    st.lists(broken, max_size=2),
)
def test_no_retry_after_the_first_text(fault: Callable[[int], Fault], frames: int, before: list[Fault]) -> None:
    """A stream that breaks after its first text is not called again, and the error reaches the caller."""
    # Pauses that a server asks for count against the time limit of the call.
    assume(sum(each.retry_after or 0 for each in before) < 100)
    outcome = asyncio.run(call([*before, fault(frames)], stream=True))
    assert outcome.calls == len(before) + 1
    assert isinstance(outcome.error, DashScopeApiError)


# Feature: P14-ai-dashscope-migration, Property 1: 重试策略正确性
@given(st.lists(breakdowns, min_size=1, max_size=5), st.integers(1, 90), st.booleans())
def test_deadline_covers_all_attempts(order: list[Fault], deadline: int, stream: bool) -> None:
    """A wait that would not end before the deadline is not begun: the error is raised at once."""
    calls, waits, _ = expected(order, deadline)
    outcome = asyncio.run(call(order, stream=stream, deadline=float(deadline)))
    assert (outcome.calls, outcome.waits) == (calls, waits)
    assert sum(outcome.waits) < deadline


# Feature: P14-ai-dashscope-migration, Property 1: 重试策略正确性
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("position", range(4))
def test_timeouts_are_retried(position: int, stream: bool) -> None:
    """An application that does not answer in time is called again, wherever in the sequence that happens."""
    order = [faults.status(500)] * position + [faults.hang()] + [faults.status(503)] * (3 - position)
    outcome = asyncio.run(call(order, stream=stream, read_timeout=1.0))
    assert (outcome.calls, outcome.waits) == (4, [1, 2, 4])
    assert isinstance(outcome.error, DashScopeTimeoutError) == (position == 3)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=6)


# Feature: P14-ai-dashscope-migration, Property 20: Application API 响应解析
@given(objects, st.booleans(), st.sampled_from([None, 2]))
def test_answer_is_the_object_it_spells(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Any JSON object that an application writes comes back as the equal dict."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    outcome = asyncio.run(call([], answer=text))
    assert outcome.value == value
    assert outcome.calls == 1


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


spoilt = st.tuples(objects.map(json.dumps), st.integers(0, 200)).map(lambda pair: pair[0][: pair[1] % len(pair[0])])
fenced = objects.map(lambda value: f"```json\n{json.dumps(value)}\n```")
no_objects = st.one_of(st.text(), spoilt, fenced, values.map(json.dumps)).filter(lambda text: not is_object(text))


# Feature: P14-ai-dashscope-migration, Property 20: Application API 响应解析
@given(no_objects)
def test_no_json_is_asked_again_and_never_repaired(text: str) -> None:
    """A text that is not exactly a JSON object is asked for four times in all, and what they cost is on the error."""
    outcome = asyncio.run(call([], answer=text))
    assert outcome.calls == 4
    assert isinstance(outcome.error, DashScopeJsonParseError)
    assert outcome.error.tokens_used > 0
    assert text.strip() == "" or len(text) < 8 or text not in str(outcome.error)


# Feature: P14-ai-dashscope-migration, Property 20: Application API 响应解析
@given(st.lists(no_objects, min_size=1, max_size=3), objects)
def test_object_after_no_json(texts: list[str], value: dict[str, Any]) -> None:
    """As soon as one of the attempts gives an object, that is the answer."""
    said = iter([*texts, json.dumps(value)])
    outcome = asyncio.run(call([], answer=lambda _body: next(said)))
    assert outcome.value == value
    assert outcome.calls == len(texts) + 1
