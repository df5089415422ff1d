"""The wire format, without a wire: requests, replies, frames, deltas, estimates."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agenttrace.run.errors import (
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeJsonParseError,
    DashScopeTimeoutError,
)
from agenttrace.run.upstream.dashscope import DashScope
from agenttrace.run.upstream.sse import DeltaReader, FrameSplitter
from agenttrace.run.upstream.wire import (
    MAX_BYTES,
    Frame,
    ProviderReply,
    Request,
    estimate_tokens,
    parse_json_object,
    parse_retry_after,
)

WIRE = DashScope("the key")

# Texts with everything that some library takes for a line end, and letters that are several bytes long.
letters = st.sampled_from('ab欢迎😀\u2028\u2029\u0085\x0b\x0c\x1c\r\n" :')
texts = st.text(letters | st.characters(exclude_categories=["Cs"]))


# -- frames ------------------------------------------------------------------------------------------------------


def spelled(text: str, number: int, end: bytes, space: bytes) -> bytes:
    data = json.dumps({"output": {"text": text}}, ensure_ascii=False).encode()
    lines = [b"id:%d" % number, b"event:" + space + b"result", b":HTTP_STATUS/200", b"data:" + space + data, b"", b""]
    return end.join(lines)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:stop] for start, stop in pairwise(borders)]


def split(chunks: list[bytes], limit: int = MAX_BYTES) -> list[Frame]:
    splitter = FrameSplitter(limit)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames + splitter.close()


@given(
    st.lists(texts, max_size=8),
    st.lists(st.integers(0, 5000), max_size=20),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b" "]),
)
def test_frames_do_not_depend_on_the_reads(said: list[str], places: list[int], end: bytes, space: bytes) -> None:
    """However the bytes of a stream are cut into reads, the same frames come out, with their texts whole."""
    data = b"".join(spelled(text, number, end, space) for number, text in enumerate(said))
    frames = split(cut(data, places))
    assert [WIRE.read_frame(frame).text for frame in frames] == said
    assert {(frame.event, frame.status) for frame in frames} <= {("result", 200)}


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_any_bytes_split_the_same_way(data: bytes, places: list[int]) -> None:
    """Also of bytes that are no stream at all, any cutting gives the same frames, and no error."""
    assert split(cut(data, places)) == split([data])


@given(st.lists(texts, min_size=1, max_size=4))
def test_last_frame_without_its_empty_line(said: list[str]) -> None:
    """A server that ends the stream right after the last data line has still sent that frame."""
    data = b"".join(spelled(text, number, b"\n", b"") for number, text in enumerate(said))
    assert [WIRE.read_frame(frame).text for frame in split([data.rstrip(b"\n")])] == said


@given(st.lists(st.integers(0, 400), max_size=10))
def test_frame_above_the_limit_is_an_error(places: list[int]) -> None:
    """A frame that grows above the limit is refused, whether it comes at once or in pieces, in one line or many."""
    for data in (b"data:" + b"x" * 300, b"data:x\n" * 60):
        with pytest.raises(DashScopeApiError):
            split(cut(data, places), limit=200)


def test_many_small_frames_are_no_large_one() -> None:
    """Only a single frame is limited, not the stream."""
    splitter = FrameSplitter(limit=200)
    assert sum(len(splitter.feed(spelled("hi", 1, b"\n", b""))) for _ in range(100)) == 100


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (Frame("error", 429, b'{"code":"Throttling","message":"m","request_id":"r"}'), 429),
        (Frame("error", 200, b'{"code":"Throttling.RateQuota","message":"m","request_id":"r"}'), 429),
        (Frame("error", 200, b'{"code":"InternalError.Algo","message":"m","request_id":"r"}'), 500),
        (Frame("result", 503, b'{"code":"Busy","message":"m","request_id":"r"}'), 503),
        (Frame("error", 200, b"no json"), 500),
        (Frame("error", 200, b""), 500),
        (Frame("result", 200, b'{"output":{"te'), 200),
    ],
)
def test_error_frames(frame: Frame, status: int) -> None:
    """An error frame is an error with the status of its comment line, or else of its code."""
    with pytest.raises(DashScopeApiError) as raised:
        WIRE.read_frame(frame)
    assert raised.value.status_code == status


# -- deltas ------------------------------------------------------------------------------------------------------


def reply(text: str = "", *, node: str = "", finish: str = "") -> ProviderReply:
    return ProviderReply(text=text, node_text=node, finish_reason=finish, session_id=None, request_id="", usage=None)


def read(replies: list[ProviderReply], *, cumulative: bool | None = None) -> str:
    reader = DeltaReader(cumulative=cumulative)
    deltas = [reader.feed(one) for one in replies]
    assert "".join(deltas) == reader.text
    return reader.text


TEXT = "欢迎光临,今天想打多久?"
pieces = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=10)


@given(pieces, st.booleans())
def test_deltas_stay_deltas(said: list[str], empty_last: bool) -> None:
    """The deltas of a stream are its text, unless they begin like ever longer repetitions of one text."""
    assume(len(said) < 2 or not said[1].startswith(said[0]))
    frames = [reply(piece) for piece in said]
    last = reply(finish="stop")
    assert read([*frames, last] if empty_last else [*frames[:-1], reply(said[-1], finish="stop")]) == "".join(said)


@pytest.mark.parametrize(
    "said", [["哈", "哈"], ["哈", "哈", "哈"], ["哈", "哈哈", "!"], ["=", "==", "=", "=="], ["1", "1", "10"]]
)
def test_deltas_that_repeat_themselves(said: list[str]) -> None:
    """A laugh is not mistaken for a repetition of the whole text."""
    assert read([*map(reply, said), reply(finish="stop")]) == "".join(said)


def test_long_laughs_are_not_held_back_for_ever() -> None:
    """A stream of equal pieces is delivered while it runs, not only at its end."""
    reader = DeltaReader()
    for _ in range(100):
        reader.feed(reply("哈"))
    assert reader.text == "哈" * 100


@given(pieces, st.booleans())
def test_repeated_texts_become_deltas(said: list[str], repeat_last: bool) -> None:
    """From an application that repeats the whole text in each frame, every character comes once."""
    whole = ["".join(said[: end + 1]) for end in range(len(said))]
    # One short text, sent twice, could as well be a laugh.
    assume(len(whole) > 1 or not repeat_last or (len(whole[0]) >= 8 and len(set(whole[0])) >= 4))
    frames = [reply(text) for text in whole]
    last = reply(whole[-1], finish="stop")
    assert read([*frames, last] if repeat_last else [*frames[:-1], last]) == "".join(said)


def test_repeated_texts_are_delivered_as_they_come() -> None:
    """Repetition is found out by the third frame at the latest; from then on nothing is held back."""
    reader = DeltaReader()
    deltas = [reader.feed(reply(TEXT[:end])) for end in range(1, len(TEXT) + 1)]
    assert deltas == [TEXT[0], "", TEXT[1:3], *TEXT[3:]]


@given(pieces)
def test_repeated_texts_that_were_asked_for(said: list[str]) -> None:
    """When whole texts were asked for there is nothing to find out, however short they are."""
    whole = ["".join(said[: end + 1]) for end in range(len(said))]
    frames = [reply(text) for text in [*whole, whole[-1]]]
    assert read(frames, cumulative=True) == "".join(said)


@given(pieces, st.integers(0, 9))
def test_workflow_text_is_not_repeated(said: list[str], missing: int) -> None:
    """What a workflow's nodes have streamed is not repeated by the last frame; what they have not is completed."""
    streamed = said[: len(said) - missing] if missing < len(said) else said
    frames = [reply(node=piece) for piece in streamed]
    assert read([*frames, reply("".join(said), finish="stop")]) == "".join(said)


def test_workflow_whose_last_text_is_only_its_end_nodes() -> None:
    """The last frame repeats the end node's text, not that of the nodes before: it is not shown again either."""
    frames = [reply(node="请稍候。"), reply(node="结果"), reply(node="是 7。"), reply("结果是 7。", finish="stop")]
    assert read(frames) == "请稍候。结果是 7。"


def test_workflow_with_a_progress_message() -> None:
    """The text of an end node that streams nothing comes after what other nodes have streamed."""
    assert read([reply(node="请稍候。"), reply("结果是 7。", finish="stop")]) == "请稍候。结果是 7。"


def test_text_before_a_workflow_message_is_not_lost() -> None:
    """Frames that are held back for comparison are not lost when the stream turns out to be a workflow's."""
    assert read([reply("a"), reply("ab"), reply(node="c"), reply(finish="stop")]) == "aabc"


# -- replies -----------------------------------------------------------------------------------------------------


def body(output: object = None, **fields: object) -> bytes:
    return json.dumps({"output": output, **fields}).encode()


model_usages = st.lists(
    st.fixed_dictionaries(
        {"input_tokens": st.integers(1, 10**6), "output_tokens": st.integers(0, 10**6)},
        optional={"model_id": st.sampled_from(["qwen-plus", "qwen-turbo"])},
    ),
    min_size=1,
    max_size=5,
)


@given(model_usages)
def test_usage_is_summed(models: list[dict[str, Any]]) -> None:
    """The usage of an answer is the sum over all models that the application called."""
    usage = WIRE.read_reply(body({"text": "x"}, usage={"models": models})).usage
    assert usage is not None
    assert usage.input_tokens == sum(model["input_tokens"] for model in models)
    assert usage.output_tokens == sum(model["output_tokens"] for model in models)
    assert usage.models == tuple(model["model_id"] for model in models if "model_id" in model)
    assert not usage.estimated


@pytest.mark.parametrize(
    "usage",
    [{}, None, [], "?", {"models": None}, {"models": []}, {"models": [{}]}, {"models": [{"input_tokens": "7"}]}],
)
def test_usage_that_says_nothing(usage: object) -> None:
    """An answer with an empty or odd usage is still an answer; its usage is unknown, not zero."""
    read_ = WIRE.read_reply(body({"text": "x"}, usage=usage))
    assert read_.text == "x"
    assert read_.usage is None


@pytest.mark.parametrize(
    "output",
    [
        {"text": "x", "thoughts": "odd", "doc_references": [{"images": None}]},
        {"text": "x", "thoughts": [{"action_input": "a string"}], "workflow_message": None},
        {"text": "x", "workflow_message": {"node_is_completed": True, "message": None}},
        {"text": "x", "workflow_message": "odd", "something": {"new": [1]}},
    ],
)
def test_fields_that_do_not_matter_may_be_anything(output: object) -> None:
    """Fields that we do not use never spoil an answer that was paid for, and never get into its text."""
    assert WIRE.read_reply(body(output)).text == "x"
    assert WIRE.read_reply(body(output)).node_text == ""


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InvalidApiKey", 401, DashScopeAuthError),
        ("Throttling.AllocationQuota", 429, DashScopeApiError),
        ("DataInspectionFailed", 400, DashScopeApiError),
        ("InvalidParameter.DataInspection", 400, DashScopeApiError),
        ("App.AccessDenied", 403, DashScopeApiError),
        ("InternalError.Timeout", 500, DashScopeApiError),
        ("NobodyKnows", 500, DashScopeApiError),
        ("", 500, DashScopeApiError),
    ],
)
@pytest.mark.parametrize("output", [None, {}])
def test_error_inside_http_200(code: str, status: int, kind: type[DashScopeApiError], output: object) -> None:
    """HTTP 200 without an output is an error whose status follows from its code; an empty code says nothing."""
    if not code and output is not None:
        assert WIRE.read_reply(body(output, code=code)).text == ""
        return
    with pytest.raises(DashScopeApiError) as raised:
        WIRE.read_reply(body(output, code=code, message="why", request_id="r"))
    assert type(raised.value) is kind
    assert (raised.value.status_code, raised.value.code, raised.value.request_id) == (status, code, "r")
    assert str(raised.value) == "why"


@pytest.mark.parametrize("content", [b"", b"<html>", b"{", b"[]", b'"text"', b'{"output":[]}', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize(
    ("status", "kind"), [(200, DashScopeApiError), (401, DashScopeAuthError), (504, DashScopeTimeoutError)]
)
def test_unreadable_bodies(content: bytes, status: int, kind: type[DashScopeApiError]) -> None:
    """A body that cannot be read is an API error with its HTTP status, whatever it holds."""
    with pytest.raises(kind) as raised:
        WIRE.read_reply(content, status=status)
    assert raised.value.status_code == status


@pytest.mark.parametrize("status", [400, 401, 403])
def test_refused_key(status: int) -> None:
    """A refused key is that, whatever HTTP status the server chooses for it."""
    with pytest.raises(DashScopeAuthError) as raised:
        WIRE.read_reply(body(code="InvalidApiKey", message="no"), status=status)
    assert raised.value.status_code == status


def test_running_is_not_finished() -> None:
    """The string "null" means that the answer is on its way."""
    assert WIRE.read_reply(body({"text": "x", "finish_reason": "null"})).finish_reason == ""
    assert WIRE.read_reply(body({"text": "x", "finish_reason": None})).finish_reason == ""
    assert WIRE.read_reply(body({"text": "x", "finish_reason": "stop"})).finish_reason == "stop"


# -- requests, objects, estimates ----------------------------------------------------------------------------------


@given(texts, st.none() | texts, st.none() | st.dictionaries(texts, texts, max_size=3))
def test_request_holds_what_was_given(prompt: str, session_id: str | None, biz_params: dict[str, str] | None) -> None:
    """A request is valid JSON with exactly what was given, in UTF-8; what is empty is left out."""
    request = Request(prompt=prompt, session_id=session_id, biz_params=biz_params)
    sent = json.loads(WIRE.encode(request, stream=False))
    given_input = {"prompt": prompt, "session_id": session_id, "biz_params": biz_params}
    assert sent == {
        "input": {name: value for name, value in given_input.items() if value or name == "prompt"},
        "parameters": {},
    }


def test_half_a_surrogate_pair_is_refused() -> None:
    """A prompt that no JSON can carry is the request's own fault."""
    with pytest.raises(DashScopeApiError) as raised:
        WIRE.encode(Request(prompt="\ud800"), stream=False)
    assert raised.value.status_code == 400


@given(st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
@example('{"a": 1} x')
@example('```json\n{"a": 1}\n```')
@example("{'a': 1}")
@example('{"a": 1,}')
@example('{"a": NaN}')
@example("[" * 100_000)
def test_only_objects_are_objects(text: str) -> None:
    """Whatever the standard library does not read as a JSON object is refused, and the text is not in the message."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and "NaN" not in text:
        assert parse_json_object(text) == value
    else:
        with pytest.raises(DashScopeJsonParseError):
            parse_json_object(text)


@given(st.text(), st.text())
def test_estimate_grows_with_the_text(first: str, second: str) -> None:
    """A longer text is never fewer tokens, a text in two parts never fewer than in one, and no text is none."""
    assert estimate_tokens("") == 0
    assert (estimate_tokens(first) >= 1) == bool(first)
    assert estimate_tokens(first) <= estimate_tokens(first + second) <= estimate_tokens(first) + estimate_tokens(second)


def test_estimate_by_writing() -> None:
    """Chinese is about one token for 1.5 characters, English one for 4."""
    assert estimate_tokens("欢迎光临" * 150) == 400
    assert estimate_tokens("welcome " * 100) == 200


@given(st.integers(0, 10**6))
def test_retry_after_in_seconds_and_as_a_date(seconds: int) -> None:
    """Both spellings of Retry-After give the seconds to wait."""
    assert parse_retry_after(str(seconds)) == seconds
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    waited = parse_retry_after(date)
    assert waited is not None
    assert max(0, seconds - 60) <= waited <= seconds


@pytest.mark.parametrize("value", [None, "", "soon", "-1", "nan", "inf", "1e999", "Mon, 99 Foo"])
def test_retry_after_that_makes_no_sense(value: str | None) -> None:
    """A missing or senseless Retry-After is none."""
    assert parse_retry_after(value) is None
