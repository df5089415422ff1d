"""The official SDK as the judge: it and our client send the same requests and read the same answers.

Both stacks of the SDK take part: ``dashscope.Application`` of 1.x, and the asynchronous client of 2.0. Where the SDK is
known to be wrong a test shows it; such a test fails when the SDK is put right, and then goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import dashscope
import pydantic
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.errors import DashScopeApiError
from agenttrace.run.simulator import Fault, Simulator, faults
from agenttrace.run.upstream.client import DashScopeClient

APP = "some-app"
KEY = "sk-0123456789abcdef"
WORKSPACE = "ws-7"
TEXT = "欢迎光临,今天想打多久?\n会员有 8 折。😀"
WORKFLOW = {"flow_stream_mode": "message_format"}
SEPARATORS = dict.fromkeys(map(ord, "\u2028\u2029\u0085"))


class Result(NamedTuple):
    """What a client makes of an answer."""

    status: int
    code: str
    text: str = ""
    #: Whether it is the one that the server gave.
    session_id_right: bool = True
    input_tokens: int = 0
    output_tokens: int = 0


#: (server, input and parameters, stream) -> what came of it.
Ask = Callable[[Simulator, dict[str, Any], bool], Awaitable[Result]]


async def ask_1(server: Simulator, request: dict[str, Any], stream: bool) -> Result:
    """By ``dashscope.Application`` (1.x), which is synchronous."""
    return await asyncio.to_thread(_ask_1, server, request, stream)


def _ask_1(server: Simulator, request: dict[str, Any], stream: bool) -> Result:
    parameters = {**request.get("parameters", {}), **({"stream": True, "incremental_output": True} if stream else {})}
    given = {name: value for name, value in request.items() if name != "parameters"}
    with requests.Session() as session:
        said: Any = dashscope.Application.call(
            APP,
            api_key=KEY,
            workspace=WORKSPACE,
            base_address=server.base_url,
            session=session,
            **given,
            **parameters,
        )
        answers: list[Any] = list(said) if stream else [said]
    last = answers[-1]
    if last.status_code != 200:
        return Result(last.status_code, last.code)
    pieces = [_piece(answer.output) for answer in answers]
    return _result(server, "".join(pieces), last.output.session_id, last.usage)


def _piece(output: Any) -> str:  # noqa: ANN401 - the SDK's own types are loose
    message = output.workflow_message
    return str(output.text or "" if message is None else message["message"]["content"])


async def ask_2(server: Simulator, request: dict[str, Any], stream: bool) -> Result:
    """By ``dashscope.AsyncClient`` (2.0)."""
    client = dashscope.AsyncClient(api_key=KEY, workspace=WORKSPACE, base_url=server.base_url, max_retries=0)
    more: dict[str, Any] = {"stream": True, "incremental_output": True} if stream else {}
    try:
        said: Any = await client.apps.completions.create(app_id=APP, **request, **more)
        answers: list[Any] = [answer async for answer in said] if stream else [said]
    except dashscope.v2.errors.APIStatusError as error:
        return Result(error.status_code or 0, error.code or "")
    finally:
        await client.aclose()
    usage = answers[-1].usage.model_dump()
    return _result(server, "".join(answer.text or "" for answer in answers), answers[-1].session_id, usage)


async def ask_ours(server: Simulator, request: dict[str, Any], stream: bool) -> Result:
    """By our client."""
    given = {"prompt": "", **request}
    async with DashScopeClient(KEY, WORKSPACE, base_url=server.base_url, sleep=_at_once) as client:
        try:
            if stream:
                async with client.stream(APP, **given) as deltas:
                    text = "".join([delta async for delta in deltas])
                answer = deltas.partial()
                assert answer.text == text
            else:
                answer, _ = await client.complete(APP, **given, parse=False)
        except DashScopeApiError as error:
            return Result(error.status_code or 0, error.code)
    assert not answer.usage.estimated
    return Result(
        200,
        "",
        answer.text,
        answer.session_id == server.calls[-1].session_id,
        answer.usage.input_tokens,
        answer.usage.output_tokens,
    )


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


def _result(server: Simulator, text: str, session_id: str, usage: Any) -> Result:  # noqa: ANN401 - loose as well
    models = usage["models"]
    return Result(
        200,
        "",
        text,
        session_id == server.calls[-1].session_id,
        sum(model["input_tokens"] for model in models),
        sum(model["output_tokens"] for model in models),
    )


def compared(sdk: Ask, request: dict[str, Any], stream: bool, fault: Fault | None = None) -> tuple[Result, Result]:
    """What the SDK and our client make of the same answer, after checking that they have asked for the same."""

    async def run() -> tuple[Result, Result]:
        async with Simulator(api_key=KEY) as server:
            server.answer(APP, TEXT)
            server.always(APP, fault)
            theirs = await sdk(server, request, stream)
            sent = server.calls[-1]
            ours = await ask_ours(server, request, stream)
            mine = server.calls[-1]
            assert {**mine.body, "model": ""} == {**sent.body, "model": ""}
            for name in headers_of(sdk):
                assert mine.headers.get(name) == sent.headers.get(name), name
        return theirs, ours

    return asyncio.run(run())


def headers_of(sdk: Ask) -> list[str]:
    """The headers that mean something; 2.0 sends ``Accept: */*``, and its JSON without a charset."""
    common = ["X-DashScope-WorkSpace", "X-DashScope-SSE"]
    return [*common, "Accept", "Content-Type", "X-Accel-Buffering"] if sdk is ask_1 else common


both = pytest.mark.parametrize("sdk", [ask_1, ask_2])
either_way = pytest.mark.parametrize("stream", [False, True])

texts = st.text(min_size=1, max_size=40)
values = st.recursive(st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts, st.lists, max_leaves=4)
turns = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": texts})
prompts = st.fixed_dictionaries(
    {"prompt": texts},
    optional={
        "session_id": st.just("") | texts,
        "biz_params": st.dictionaries(texts, values, max_size=3),
        "messages": st.lists(turns, min_size=1, max_size=4),
        "parameters": st.fixed_dictionaries(
            {},
            optional={
                "temperature": st.floats(0, 1),
                "top_k": st.integers(0, 100),
                "seed": st.integers(0, 2**31),
                "has_thoughts": st.booleans(),
            },
        ),
    },
)
transcripts = st.fixed_dictionaries({"messages": st.lists(turns, min_size=1, max_size=4)})
asked = prompts | transcripts


@both
@either_way
@given(asked)
def test_same_request_same_result(sdk: Ask, stream: bool, request_: dict[str, Any]) -> None:
    """For any prompt, session, parameters and messages: the same path, body and headers, and the same result."""
    theirs, ours = compared(sdk, request_, stream)
    assert ours == theirs
    assert ours.text == TEXT
    assert ours.session_id_right
    assert ours.input_tokens > 0


@both
@either_way
@pytest.mark.parametrize("http", [400, 401, 403, 404, 413, 429, 500, 503, 504])
def test_same_errors(sdk: Ask, stream: bool, http: int) -> None:
    """An error answer has the same status and code for both."""
    theirs, ours = compared(sdk, {"prompt": "你好"}, stream, faults.status(http))
    assert ours == theirs
    assert ours.status == http


@both
@either_way
def test_proxy_page(sdk: Ask, stream: bool) -> None:
    """A proxy's HTML page is an error with its status for both."""
    theirs, ours = compared(sdk, {"prompt": "你好"}, stream, faults.html(502))
    assert ours.status == theirs.status == 502


@either_way
def test_separators_of_1(stream: bool) -> None:
    """Raw U+2028, U+2029 and U+0085 are text for 1.x and for us."""
    theirs, ours = compared(ask_1, {"prompt": "你好"}, stream, faults.unicode_separators())
    assert ours == theirs
    assert ours.text.translate(SEPARATORS) == TEXT != ours.text


def test_workflow_of_1() -> None:
    """The messages of a workflow's nodes give the same text; 1.x leaves it to the caller to drop the repeated end."""
    theirs, ours = compared(ask_1, {"prompt": "你好", "parameters": WORKFLOW}, True)
    assert theirs.text == TEXT + TEXT
    assert ours == theirs._replace(text=TEXT)


def test_separators_that_2_loses() -> None:
    """In streams 2.0 drops the pieces that hold U+2028 or U+0085; we do not."""
    theirs, ours = compared(ask_2, {"prompt": "你好"}, True, faults.unicode_separators())
    assert ours.text.translate(SEPARATORS) == TEXT
    assert len(theirs.text) < len(TEXT)


def test_workflow_that_2_cannot_read() -> None:
    """2.0 takes the documented ``node_is_completed: true`` for invalid and fails; we read the text."""
    request = {"prompt": "你好", "parameters": WORKFLOW}

    async def run() -> None:
        async with Simulator(api_key=KEY) as server:
            server.answer(APP, TEXT)
            with pytest.raises(pydantic.ValidationError, match="node_is_completed"):
                await ask_2(server, request, True)
            assert (await ask_ours(server, request, True)).text == TEXT

    asyncio.run(run())


def test_error_in_http_200_that_1_cannot_read() -> None:
    """1.x stumbles over an error inside HTTP 200; for us, as for 2.0, it is the error that it is."""

    async def run() -> None:
        async with Simulator(api_key=KEY) as server:
            server.always(APP, faults.error_200("DataInspectionFailed"))
            with pytest.raises(TypeError):
                await ask_1(server, {"prompt": "你好"}, False)
            theirs = await ask_2(server, {"prompt": "你好"}, False)
            ours = await ask_ours(server, {"prompt": "你好"}, False)
            assert ours == Result(400, "DataInspectionFailed")
            assert theirs.code == ours.code

    asyncio.run(run())


@pytest.mark.parametrize("after", [0, 2])
def test_error_frames(after: int) -> None:
    """An error in mid-stream is one for all; we give its own status, where 1.x says 400 and 2.0 says 200."""
    fault = faults.error_frame("Throttling.RateQuota", 429, after)
    for sdk, status in ((ask_1, 400), (ask_2, 200)):
        theirs, ours = compared(sdk, {"prompt": "你好"}, True, fault)
        assert theirs == Result(status, "Throttling.RateQuota")
        assert ours == Result(429, "Throttling.RateQuota")


@both
def test_wrong_key(sdk: Ask) -> None:
    """The key is sent where the server looks for it: with another one all are refused alike."""

    async def run() -> None:
        async with Simulator(api_key="another") as server:
            outcomes = [await ask(server, {"prompt": "你好"}, False) for ask in (sdk, ask_ours)]
            assert outcomes == [Result(401, "InvalidApiKey")] * 2

    asyncio.run(run())
