"""The official ``openai`` client as the judge: it and our client send the same requests and read the same answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import openai
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.run.errors import DashScopeApiError, DashScopeAuthError, DashScopeTimeoutError
from agenttrace.run.simulator import BUILTIN_APP_IDS, Fault, Simulator, faults
from agenttrace.run.simulator.openai_endpoint import SNAPSHOT
from agenttrace.run.upstream import client as client_module
from agenttrace.run.upstream.attempts import counts_as_failure
from agenttrace.run.upstream.client import UpstreamClient
from agenttrace.run.upstream.openai import OpenAIChat
from agenttrace.run.upstream.wire import AppAnswer, Request

MODEL = "some-model"
KEY = "sk-0123456789abcdef"
TEXT = "欢迎光临,今天想打多久?\n会员有 8 折。😀"
SCHEMA = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["good", "bad"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "score": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["mood", "tags", "score"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


class Result(NamedTuple):
    """What a client makes of an answer."""

    text: str
    finish_reason: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int


def run(work: Callable[[Simulator], Awaitable[None]], **options: Any) -> None:  # noqa: ANN401 - those of Simulator
    async def main() -> None:
        async with Simulator(**options) as simulator:
            await work(simulator)

    asyncio.run(main())


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


async def theirs(server: Simulator, messages: list[dict[str, Any]], *, stream: bool, **more: Any) -> Result:  # noqa: ANN401
    """By the official client."""
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key=KEY, max_retries=0, timeout=10) as client:
        create: Any = client.chat.completions.create
        if not stream:
            return _result([await create(model=MODEL, messages=messages, **more)], lambda choice: choice.message)
        chunks = await create(
            model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}, **more
        )
        return _result([chunk async for chunk in chunks], lambda choice: choice.delta)


def _result(parts: list[Any], said: Callable[[Any], Any]) -> Result:
    choices = [choice for part in parts for choice in part.choices]
    usage = next((part.usage for part in reversed(parts) if part.usage), None)
    return Result(
        "".join(said(choice).content or "" for choice in choices),
        next((choice.finish_reason for choice in choices if choice.finish_reason), ""),
        parts[-1].model,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        (usage.prompt_tokens_details.cached_tokens or 0) if usage and usage.prompt_tokens_details else 0,
    )


async def answered(server: Simulator, messages: list[dict[str, Any]], *, stream: bool, **options: Any) -> AppAnswer:  # noqa: ANN401
    """By our client; the last message is the prompt."""
    system = ""
    if messages[0]["role"] == "system" and len(messages) > 1:
        system, messages = messages[0]["content"], messages[1:]
    parameters = options.pop("parameters", {})
    provider = OpenAIChat(server.openai_url, MODEL, api_key=KEY, system=system, **options)
    history = messages[:-1] or None
    async with UpstreamClient(lambda _: provider, sleep=_at_once, read_timeout=10) as client:
        if not stream:
            asked = messages[-1]["content"]
            answer, _ = await client.complete("app", asked, messages=history, parse=False, parameters=parameters)
            return answer
        async with client.stream("app", messages[-1]["content"], messages=history, parameters=parameters) as deltas:
            text = "".join([delta async for delta in deltas])
        answer = deltas.partial()
        assert answer.text == text
        return answer


async def ours(server: Simulator, messages: list[dict[str, Any]], *, stream: bool, **options: Any) -> Result:  # noqa: ANN401
    answer = await answered(server, messages, stream=stream, **options)
    usage = answer.usage
    assert not usage.estimated
    return Result(
        answer.text,
        answer.finish_reason,
        ",".join(usage.models),
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
    )


either_way = pytest.mark.parametrize("stream", [False, True])
texts = st.text(min_size=1, max_size=40)
turns = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})
histories = st.tuples(
    st.lists(st.fixed_dictionaries({"role": st.just("system"), "content": texts}), max_size=1),
    st.lists(turns, max_size=4),
    st.builds(lambda text: [{"role": "user", "content": text}], texts),
).map(lambda parts: [turn for part in parts for turn in part])


@either_way
@settings(max_examples=25)
@given(histories, st.text(min_size=1, max_size=200), st.integers(1, 30))
def test_same_request_same_result(stream: bool, messages: list[dict[str, Any]], reply: str, size: int) -> None:
    """For any messages and any reply: the same body is sent, and text, end, model and tokens are read the same."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, reply)
        expected = await theirs(server, messages, stream=stream)
        found = await ours(server, messages, stream=stream, response_format="none")
        assert found == expected
        assert found.text == reply
        assert found.model == MODEL + SNAPSHOT
        their_call, our_call = server.calls
        assert our_call.body == {**their_call.body, "messages": messages}
        assert server.calls[-1].outcome == "answered"

    run(work, api_key=KEY, chunk_chars=size)


@either_way
def test_cached_tokens_are_part_of_the_input(stream: bool) -> None:
    """Where the provider says how much it had cached, both clients know it."""
    messages = [
        {"role": "user", "content": "一"},
        {"role": "assistant", "content": "二"},
        {"role": "user", "content": "三"},
    ]

    async def work(server: Simulator) -> None:
        found = await ours(server, messages, stream=stream, response_format="none")
        assert found == await theirs(server, messages, stream=stream)
        assert 0 < found.cached_tokens < found.input_tokens

    run(work)


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, 6),
        ({"cached_tokens": 5}, 5),
        ({"prompt_tokens_details": None}, 0),
        ({"cached_tokens": 99}, 10),
        ({"prompt_tokens_details": {"cached_tokens": "many"}}, None),
    ],
)
def test_the_names_of_cached_tokens(usage: dict[str, Any], cached: int | None) -> None:
    """OpenAI's, DeepSeek's and Moonshot's field are read, never as more than the input; nonsense is no usage at all."""
    told = {"prompt_tokens": 10, "completion_tokens": 2, **usage}
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": told}
    reply = OpenAIChat("http://x", MODEL).read_reply(json.dumps(body).encode(), status=200)
    assert (reply.usage and reply.usage.cached_tokens) == cached


STATUSES = [400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504]


@either_way
@pytest.mark.parametrize("http", STATUSES)
def test_same_errors(stream: bool, http: int) -> None:
    """An error answer has the same status and message for both; a refused key, a timeout are of their own kind."""

    async def work(server: Simulator) -> None:
        server.always(None, faults.status(http, retry_after=7))
        said = [{"role": "user", "content": "你好"}]
        with pytest.raises(openai.APIStatusError) as expected:
            await theirs(server, said, stream=stream)
        with pytest.raises(DashScopeApiError) as found:
            await ours(server, said, stream=stream)
        error = found.value
        assert error.status_code == expected.value.status_code == http
        assert str(error) in str(expected.value)
        assert error.retry_after == 7
        assert isinstance(error, DashScopeAuthError) == (http in (401, 403))
        assert isinstance(error, DashScopeTimeoutError) == (http in (408, 504))
        assert counts_as_failure(error) == (http >= 500)
        assert (error.code or None) == (expected.value.code or error.code or None)

    run(work)


@either_way
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (faults.html(502), openai.InternalServerError),
        (faults.reset(), openai.APIConnectionError),
        (faults.half_frame(), Exception),
        (faults.cut_after(2), Exception),
    ],
)
def test_broken_answers_are_failures_for_both(stream: bool, fault: Fault, kind: type[Exception]) -> None:
    """A proxy's page, a reset and half an answer are errors of the application, and were tried again."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, TEXT)
        server.always(MODEL, fault)
        said = [{"role": "user", "content": "你好"}]
        with pytest.raises(kind):
            await theirs(server, said, stream=stream)
        with pytest.raises(DashScopeApiError) as found:
            await ours(server, said, stream=stream)
        assert counts_as_failure(found.value)
        # After the first text nothing is tried again.
        text_came = stream and fault.chunks > 1
        assert found.value.attempts == (1 if text_came else 4)

    run(work, chunk_chars=3)


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_errors_in_a_stream(chunks: int) -> None:
    """An error chunk in a stream of HTTP 200 is an error for both, with the status that its code means for us."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, TEXT)
        server.always(MODEL, faults.error_frame("rate_limit_exceeded", 429, after_chunks=chunks))
        said = [{"role": "user", "content": "你好"}]
        with pytest.raises(openai.APIError, match="in the middle"):
            await theirs(server, said, stream=True)
        with pytest.raises(DashScopeApiError, match="in the middle") as found:
            await ours(server, said, stream=True)
        assert (found.value.status_code, found.value.code) == (429, "rate_limit_exceeded")

    run(work, chunk_chars=3)


def test_a_stream_without_an_end_is_no_answer() -> None:
    """The mark ``[DONE]`` alone does not make an answer complete."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, TEXT)
        server.always(MODEL, faults.no_finish())
        with pytest.raises(DashScopeApiError, match="before the answer was complete"):
            await ours(server, [{"role": "user", "content": "你好"}], stream=True)

    run(work)


@either_way
def test_without_usage_tokens_are_estimated(stream: bool) -> None:
    """A server that says nothing of tokens is billed by our own estimate, marked as such, system prompt included."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, TEXT)
        server.always(MODEL, faults.empty_usage())
        said = [{"role": "system", "content": "s" * 400}, {"role": "user", "content": "你好"}]
        answer = await answered(server, said, stream=stream, response_format="none")
        assert answer.usage.estimated
        assert answer.usage.input_tokens >= 100
        assert (answer.text, answer.usage.output_tokens > 0) == (TEXT, True)

    run(work)


@either_way
def test_separators_are_text(stream: bool) -> None:
    """Raw U+2028, U+2029 and U+0085 are text for both."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, TEXT)
        server.always(MODEL, faults.unicode_separators())
        said = [{"role": "user", "content": "你好"}]
        found = await ours(server, said, stream=stream, response_format="none")
        assert found == await theirs(server, said, stream=stream)
        assert "\u2028" in found.text

    run(work)


def raw_stream(*chunks: bytes, hangs: bool = False) -> tuple[str, AppAnswer]:
    """What our client makes of these bytes, sent as they are; ``hangs``: the connection stays open after them."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if hangs:
            await asyncio.sleep(30)
        return response

    async def main() -> tuple[str, AppAnswer]:
        server = web.Server(answer, handler_cancellation=True)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        provider = OpenAIChat(f"http://127.0.0.1:{port}/v1", MODEL)
        try:
            async with UpstreamClient(lambda _: provider, sleep=_at_once) as client:
                async with client.stream("app", "你好") as deltas:
                    text = "".join([delta async for delta in deltas])
                return text, deltas.partial()
        finally:
            listener.close()
            await server.shutdown(0.1)

    return asyncio.run(main())


PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"model":"m-2","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
DONE = b"data: [DONE]\n\n"


def test_usage_that_never_comes_does_not_hold_the_answer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends the text and then says nothing more has answered; its tokens are estimated."""
    monkeypatch.setattr(client_module, "USAGE_WAIT", 0.05)
    text, answer = raw_stream(PIECE, END, hangs=True)
    assert (text, answer.finish_reason, answer.usage.estimated) == ("hi", "stop", True)


def test_comments_empty_lines_and_a_late_usage() -> None:
    """What servers send to keep a connection alive is no text, and the usage after the end is read."""
    text, answer = raw_stream(b": keep-alive\n\n", PIECE, b"\n\n: wait\n\n", PIECE, END, USAGE, DONE)
    assert (text, answer.usage.total, answer.usage.models) == ("hihi", 4, ("m-2",))


def test_a_chunk_that_is_no_json_breaks_the_stream() -> None:
    """It is an error of the application, and after the first text it is not tried again."""
    with pytest.raises(DashScopeApiError, match="cannot be read") as found:
        raw_stream(PIECE, b'data: {"choices": [oops\n\n')
    assert counts_as_failure(found.value)
    assert found.value.attempts == 1
    assert found.value.tokens_used > 0


def test_formats_of_answers() -> None:
    """A schema, a JSON object without one, and a text are asked for as the official client does; all are answered."""
    named = {"name": "mood", "schema": SCHEMA, "strict": True}
    said = [{"role": "user", "content": "How is the mood, as JSON?"}]

    async def work(server: Simulator) -> None:
        for format_, options in (
            ({"type": "json_schema", "json_schema": named}, {"schema": SCHEMA, "schema_name": "mood"}),
            ({"type": "json_object"}, {}),
        ):
            expected = await theirs(server, said, stream=False, response_format=format_)
            found = await ours(server, said, stream=False, **options)
            assert found == expected
            assert server.calls[-1].body["response_format"] == format_ == server.calls[-2].body["response_format"]
            assert isinstance(json.loads(found.text), dict)
        shaped = await ours(server, said, stream=False, schema=SCHEMA)
        assert set(json.loads(shaped.text)) == {"mood", "tags", "score"}

    run(work)


def test_the_word_json_is_said_where_endpoints_want_it() -> None:
    """``json_object`` without the word in a message is refused by endpoints: it is added to the system text."""

    async def work(server: Simulator) -> None:
        said = [{"role": "user", "content": "你好"}]
        with pytest.raises(openai.BadRequestError, match="json"):
            await theirs(server, said, stream=False, response_format={"type": "json_object"})
        found = await ours(server, said, stream=False)
        assert isinstance(json.loads(found.text), dict)
        assert server.calls[-1].body["messages"][0]["role"] == "system"

    run(work)


def test_the_limit_of_the_output_is_respected() -> None:
    """``max_tokens`` of an application is sent, so its ceiling holds; a parameter of the application wins."""

    async def work(server: Simulator) -> None:
        server.answer(MODEL, "x" * 400)
        said = [{"role": "user", "content": "你好"}]
        cut = await ours(server, said, stream=False, response_format="none", max_tokens=10)
        assert (cut.output_tokens, cut.finish_reason) == (10, "length")
        wide = {"max_completion_tokens": 20}
        cut = await ours(server, said, stream=False, response_format="none", max_tokens=10, parameters=wide)
        assert cut.output_tokens == 20
        assert "max_tokens" not in server.calls[-1].body

    run(work)


def test_models_are_listed() -> None:
    """The official client finds the simulator's models."""

    async def work(server: Simulator) -> None:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key=KEY) as client:
            names = [model.id async for model in client.models.list()]
        assert set(BUILTIN_APP_IDS.values()) < set(names)

    run(work)


def test_a_wrong_key_and_no_key() -> None:
    """With a key the server checks it; a server that needs none, such as Ollama, gets no header at all."""

    async def work(server: Simulator) -> None:
        said = [{"role": "user", "content": "你好"}]
        with pytest.raises(openai.AuthenticationError):
            await theirs(server, said, stream=False)
        with pytest.raises(DashScopeAuthError) as found:
            await ours(server, said, stream=False)
        assert KEY not in str(found.value)

    run(work, api_key="another")
    assert "Authorization" not in OpenAIChat("http://x", MODEL).headers(stream=False)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {"error": {"message": "too many", "code": "context_length_exceeded"}}, "context_length_exceeded"),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}, "context_length_exceeded"),
        (400, {"object": "error", "message": "maximum context length", "code": 400}, "context_length_exceeded"),
        (400, {"error": {"message": "no", "code": "content_filter"}}, "content_filter"),
        (400, {"error": {"message": "no", "code": "data_inspection_failed"}}, "content_filter"),
        (404, {"error": "model 'x' not found, try pulling it first"}, "model_not_found"),
        (404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}, "model_not_found"),
        (422, {"detail": [{"msg": "field required"}]}, ""),
        (503, {"detail": "loading"}, ""),
        (500, None, ""),
    ],
)
def test_errors_of_many_servers(status: int, body: object, code: str) -> None:
    """Context length, content filter and unknown models have one code, whichever server says it in its own way."""
    data = b"<html>nginx</html>" if body is None else json.dumps(body).encode()
    with pytest.raises(DashScopeApiError) as found:
        OpenAIChat("http://x", MODEL).read_reply(data, status=status)
    assert (found.value.status_code, found.value.code) == (status, code)
    assert str(found.value)


NAMES = st.sampled_from(["choices", "error", "message", "delta", "content", "usage", "id", "code", "type"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()), st.sampled_from([200, 400, 500]))
def test_any_body_is_a_reply_or_an_error(body: bytes, status: int) -> None:
    """Whatever a server sends, it is read or refused with a DashScopeApiError, never anything else."""
    with contextlib.suppress(DashScopeApiError):
        OpenAIChat("http://x", MODEL).read_reply(body, status=status)


def test_a_filtered_answer_is_an_error_that_was_billed() -> None:
    """``content_filter`` as the end, or a refusal, is no answer; it is not tried again, and its tokens count."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    for choice in (
        {"message": {"content": ""}, "finish_reason": "content_filter"},
        {"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"},
    ):
        body = json.dumps({"choices": [choice], "usage": usage}).encode()
        with pytest.raises(DashScopeApiError) as found:
            OpenAIChat("http://x", MODEL).read_reply(body, status=200)
        assert (found.value.code, found.value.tokens_used) == ("content_filter", 12)
        assert not counts_as_failure(found.value)


def test_a_short_id_names_no_answer() -> None:
    """Servers that number answers from a small range would make one answer of many: such an id is not used."""
    for name, known in (("chatcmpl-123", False), (f"chatcmpl-{'a' * 29}", True)):
        body = {"id": name, "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
        reply = OpenAIChat("http://x", MODEL).read_reply(json.dumps(body).encode(), status=200)
        assert reply.request_id == (name if known else "")


@given(st.dictionaries(st.sampled_from(["site_id", "user_id", "entry"]), st.text(max_size=5)))
def test_the_system_text_is_filled_in(params: dict[str, str]) -> None:
    """``${site_id}`` and the like become what the call knows; anything else stays as it is."""
    known = OpenAIChat("http://x", MODEL, system="${site_id}|${user_id}|${entry}|$x ${other}", response_format="none")
    request = Request(prompt="x", biz_params={"user_prompt_params": params})
    sent = json.loads(known.encode(request, stream=True))["messages"]
    said = [params.get(name, f"${{{name}}}") for name in ("site_id", "user_id", "entry")]
    assert sent[0]["content"] == "|".join([*said, "$x ${other}"])
