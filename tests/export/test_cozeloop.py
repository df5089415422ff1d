"""CozeLoop: its fields are filled as its own SDK fills them, its errors are found behind a 200, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenttrace.destinations import DestinationSettings
from agenttrace.export.cozeloop import CozeLoopDestination, base_url
from agenttrace.export.cozeloop_spans import described
from agenttrace.export.destination import Delivery
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.export.span import ExportSpan, Text
from export.fake_cozeloop import TOKEN, WORKSPACE, FakeCozeLoop, loop_span
from export.fake_otlp import spans_in
from export.faulty_server import Fault
from export.official_cozeloop import ModelChoice, ModelInput, ModelMessage, ModelOutput, ModelToolCall, cozeloop
from export.span_making import START, make_span, span_tree, trees

DAY = 24 * 3600 * 1_000_000
MEGABYTE = 1024 * 1024


def settings(url: str = "http://127.0.0.1:1", **changes: Any) -> DestinationSettings:  # noqa: ANN401 - any setting
    fields: dict[str, Any] = {"name": "cl", "type": "cozeloop", "url": url, "api_key": TOKEN, "project": WORKSPACE}
    return DestinationSettings(**(fields | changes))


def now() -> int:
    return int(time.time() * 1_000_000)


def shown(spans: Sequence[ExportSpan], user: str | None = None) -> list[dict[str, Any]]:
    """Spans as CozeLoop shows them."""
    body = request_bytes(spans, lambda span: described(span, user), {})
    sent = ExportTraceServiceRequest.FromString(body)
    assert len(sent.resource_spans) <= 1
    return [loop_span(span) for span in spans_in(sent)]


# -- attributes of a span -------------------------------------------------------------------------------------------


@given(tree=trees())
def test_every_span_keeps_its_ids_times_and_type(tree: list[ExportSpan]) -> None:
    """With any texts, CozeLoop has each span below its parent, with a known type."""
    types = {"turn": "agent", "step": "model", "tool": "tool", "span": "custom"}
    for span, found in zip(tree, shown(tree), strict=True):
        assert found["trace_id"] == span.trace_id.hex()
        assert found["span_id"] == span.span_id.hex()
        assert found["parent_id"] == (span.parent_id.hex() if span.parent_id else "")
        assert (found["started_at_micros"], found["duration_micros"]) == (span.start, span.end - span.start)
        assert found["span_type"] == found["span_type_as_documented"] == types[span.kind]
        assert found["tags"]["thread_id"]
        assert (found["status_code"] == -1) == (span.status == "error")


@given(tree=trees())
def test_no_tag_is_longer_than_the_limit(tree: list[ExportSpan]) -> None:
    """At most 50 tags of at most a kilobyte each: the server would cut them, in the middle of a character at times."""
    for found in shown(tree):
        assert len(found["tags"]) <= 50
        assert all(len(name.encode()) <= 100 for name in found["tags"])
        assert all(len(value.encode()) <= 1_024 for value in found["tags"].values() if isinstance(value, str))


def test_many_attributes_do_not_displace_the_main_tags() -> None:
    """Of a span with hundreds of attributes the thread, the model and the tokens stay."""
    many = {f"a{number}": "x" for number in range(300)}
    step = span_tree()[1]
    (found,) = shown([make_span(make_span(), usage=step.usage, attributes=many)], "somebody")
    assert 40 < len(found["tags"]) <= 50
    assert {"thread_id", "user_id", "model_name", "model_provider", "tokens", "input_cached_tokens"} <= set(
        found["tags"]
    )


@given(tree=trees())
def test_tokens_are_on_model_calls_only_and_add_up(tree: list[ExportSpan]) -> None:
    """The sum over all spans is the usage; cached tokens are part of the input."""
    found = shown(tree)
    used = [span.usage for span in tree]
    assert sum(each["tags"].get("tokens", 0) for each in found) == sum(usage.total for usage in used if usage)
    for each, usage in zip(found, used, strict=True):
        assert ("tokens" in each["tags"]) == (usage is not None)
        if usage is not None:
            assert each["tags"]["input_cached_tokens"] == usage.cache_read_tokens
            assert each["tags"]["reasoning_tokens"] == usage.reasoning_tokens


@given(tree=trees(with_texts=False))
def test_excluded_texts_are_not_sent(tree: list[ExportSpan]) -> None:
    """Spans without texts have no input and no output."""
    assert all((each["input"], each["output"]) == ("", "") for each in shown(tree))


@given(tree=trees())
def test_the_sdk_reads_the_messages_of_a_model_call(tree: list[ExportSpan]) -> None:
    """Inputs and outputs of model calls are messages and choices for the SDK's own types."""
    for span, found in zip(tree, shown(tree), strict=True):
        if span.kind == "step":
            asked = [text.text for text in span.texts if text.kind in ("prompt", "result") and text.text]
            assert (found["input"] == "") == (not any(asked) and not any(t.kind == "result" for t in span.texts))
            if found["input"]:
                assert ModelInput.model_validate_json(found["input"]).messages
            if found["output"]:
                assert ModelOutput.model_validate_json(found["output"]).choices[0].message is not None


def test_long_texts_are_cut_and_say_so() -> None:
    """An input or an output has a megabyte at most, and remains readable."""
    root = make_span(texts=(Text("prompt", "é" * 2_000_000),))
    step = make_span(root, texts=(Text("thinking", '"' * 2_000_000), Text("text", "\u4e2d" * 2_000_000)))
    for found in shown([root, step]):
        for side in ("input", "output"):
            assert len(found[side].encode()) <= MEGABYTE
    answer = ModelOutput.model_validate_json(shown([step])[0]["output"])
    assert answer.choices[0].message is not None
    assert "more characters]" in (answer.choices[0].message.content or "")


def test_the_official_sdk_fills_the_same_fields() -> None:
    """The same turn, model call and tool through the SDK and through us: CozeLoop has the same of them."""
    turn, step, tool = span_tree(steps=1, tools=1, start=START)
    failed = make_span(turn, kind="tool", status="error", error="exit 1", start=turn.start + 50_000)
    spans = [turn, step, tool, failed]

    async def through_the_sdk() -> list[dict[str, Any]]:
        fake = FakeCozeLoop()
        async with fake:
            await asyncio.to_thread(_told_by_sdk, fake.url, spans)
        return fake.native

    theirs = {each["span_id"]: each for each in asyncio.run(through_the_sdk())}
    ours = shown(spans, "somebody")
    assert len(theirs) == len(ours)
    for found in ours:
        expected = next(each for each in theirs.values() if each["tags_string"]["ours"] == found["span_id"])
        for name in ("span_name", "span_type", "started_at_micros", "status_code"):
            assert found[name] == expected[name]
        # The SDK computes with floats.
        assert abs(found["duration_micros"] - expected["duration_micros"]) <= 1
        assert _plain(found["input"]) == _plain(expected["input"])
        assert _plain(found["output"]) == _plain(expected["output"])
        tags = expected["tags_string"] | expected["tags_long"]
        for name in set(tags) - {"ours", "error"}:
            assert found["tags"][name] == tags[name]
        assert ("error" in found["tags"]) == ("error" in tags)
        assert tags.get("error", "") in found["tags"].get("error", "")


def _plain(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Messages without empty fields, which the SDK writes as null or empty."""

    def without_nothing(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, dict):
            return {name: without_nothing(each) for name, each in value.items() if each not in (None, [])}
        return [without_nothing(each) for each in value] if isinstance(value, list) else value

    return without_nothing(json.loads(text)) if text.startswith('{"choices"') else text


def _told_by_sdk(url: str, spans: Sequence[ExportSpan]) -> None:
    """The same spans, sent by the SDK."""
    client = cozeloop.new_client(api_base_url=url, workspace_id=WORKSPACE, api_token=TOKEN)
    types = {"turn": "agent", "step": "model", "tool": "tool"}
    for span in spans:
        made = client.start_span(span.name, types[span.kind], start_time=_moment(span.start), start_new_trace=True)
        texts = {text.kind: text.text for text in span.texts}
        made.set_tags({"ours": span.span_id.hex()})
        made.set_thread_id(span.session.session_id)
        made.set_user_id("somebody")
        if span.kind == "step":
            assert span.usage is not None
            made.set_model_provider("anthropic")
            made.set_model_name(span.model or "")
            made.set_input_tokens(span.usage.total - span.usage.output_tokens)
            made.set_output_tokens(span.usage.output_tokens)
            made.set_tags({"input_cached_tokens": span.usage.cache_read_tokens, "reasoning_tokens": 0})
            message = ModelMessage(
                role="assistant", content=texts["text"], reasoning_content=texts["thinking"], parts=[]
            )
            choice = ModelChoice(finish_reason=span.finish_reason or "", index=0, message=message)
            made.set_output(ModelOutput(choices=[choice]))
        elif span.texts:
            made.set_input(texts.get("prompt") or texts.get("arguments"))
            made.set_output(texts.get("text") or texts.get("result"))
        if span.status == "error":
            made.set_error(RuntimeError(span.error))
            made.set_status_code(-1)
        made.set_finish_time(_moment(span.end))
        made.finish()
    client.flush()
    client.close()


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def test_calls_of_tools_without_a_span_are_in_the_answer() -> None:
    """Arguments in a model call are its tool calls."""
    step = make_span(make_span(), texts=(Text("arguments", '{"a": 1}', "call_1"),))
    message = ModelOutput.model_validate_json(shown([step])[0]["output"]).choices[0].message
    assert message is not None
    assert message.tool_calls == [
        ModelToolCall.model_validate({"id": "call_1", "type": "function", "function": {"arguments": '{"a": 1}'}})
    ]


# -- the server's answers -------------------------------------------------------------------------------------------


def used(
    fake: FakeCozeLoop,
    work: Callable[[CozeLoopDestination], Awaitable[Any]],
    **changes: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 - the result of the work
    """What comes of working with a destination that leads to the fake."""

    async def run() -> Any:  # noqa: ANN401 - the result of the work
        async with fake:
            options = {name: changes.pop(name) for name in ("settled_after", "clock") if name in changes}
            destination = CozeLoopDestination(settings(fake.url, **changes), **options)
            try:
                return await work(destination)
            finally:
                await destination.close()

    return asyncio.run(run())


def delivered(fake: FakeCozeLoop, spans: Sequence[ExportSpan], **changes: Any) -> Delivery:  # noqa: ANN401
    found = used(fake, lambda destination: destination.send(spans), **changes)
    assert isinstance(found, Delivery)
    return found


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_tree_arrives_whole_and_compressed(wrapped: bool) -> None:
    """Every span once, in one request, with the key and the workspace in its headers."""
    fake = FakeCozeLoop(wrapped=wrapped)
    spans = span_tree(steps=3, tools=2, start=now())
    delivery = delivered(fake, spans)
    assert (delivery.verdict, delivery.rejected_count) == ("accepted", 0)
    assert [each["span_id"] for each in fake.queue] == [span.span_id.hex() for span in spans]
    (sent,) = fake.received
    assert sent.headers["content-encoding"] == "gzip"
    assert sent.headers["cozeloop-workspace-id"] == WORKSPACE


def test_spans_that_the_server_would_drop_are_refused_here() -> None:
    """Older than a day or in the future: the server answers 200 and drops them, so they are refused here."""
    fake = FakeCozeLoop()
    fresh, old, early = span_tree(start=now()), span_tree(start=now() - DAY), span_tree(start=now() + DAY)
    delivery = delivered(fake, [*fresh, *old, *early])
    assert delivery.verdict == "accepted"
    assert set(delivery.rejected) == {span.span_id for span in (*old, *early)}
    assert "24 hours" in delivery.rejected[old[0].span_id]
    assert "clock" in delivery.rejected[early[0].span_id]
    assert (len(fake.queue), fake.dropped) == (len(fresh), 0)
    unasked = FakeCozeLoop()
    only_old = delivered(unasked, old)
    assert (only_old.verdict, len(only_old.rejected)) == ("accepted", len(old))
    assert unasked.received == []


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (Fault(body=b'{"code":600900205,"msg":"qps limit exceeded"}'), "retry"),
        (Fault(body=b'{"code":600900101,"msg":"no permission"}'), "blocked"),
        (Fault(body=b'{"code":600903230,"msg":"no capacity"}'), "blocked"),
        (Fault(body=b'{"code":600904002,"msg":"invalid param"}'), "refused"),
        (Fault(body=b'{"code":600904004,"msg":"internal"}'), "unknown"),
        (Fault(body=b'{"code":600900702,"msg":"internal"}'), "unknown"),
        (Fault(status=401, body=b'{"code":4100,"msg":"authentication is invalid"}'), "blocked"),
        (Fault(status=429), "retry"),
        (Fault(status=503), "retry"),
        (Fault(status=500), "unknown"),
        (Fault(status=413), "too_large"),
        (Fault("close"), "unknown"),
        (Fault(body=b"not an answer to OTLP"), "accepted"),
    ],
)
def test_an_error_behind_a_200_is_an_error(fault: Fault, verdict: str) -> None:
    """Errors have a code in the body, with any status; the key is in none of the reasons."""
    fake = FakeCozeLoop()
    fake.faults.append(fault)
    delivery = delivered(fake, span_tree(start=now()))
    assert delivery.verdict == verdict
    assert TOKEN not in repr(delivery)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("rejects", "because", "verdict", "count"),
    [
        (2, "bad attribute", "accepted", 2),
        (5, "TraceNoCapacityAvailable", "blocked", 0),
        (5, "SendTraceInner err: mq down", "retry", 0),
    ],
)
def test_partial_success_is_understood(wrapped: bool, rejects: int, because: str, verdict: str, count: int) -> None:
    """Some refused: the rest is there. All refused because the server cannot take any: they wait."""
    fake = FakeCozeLoop(wrapped=wrapped)
    fake.rejects, fake.because = rejects, because
    delivery = delivered(fake, span_tree(steps=2, tools=1, start=now()))
    assert (delivery.verdict, delivery.rejected_count) == (verdict, count)
    assert because in delivery.reason


def test_a_workspace_that_is_no_number_blocks_before_anything_is_sent() -> None:
    """Its name is not its id; nothing leaves for a place that cannot be."""
    fake = FakeCozeLoop()
    delivery = delivered(fake, span_tree(start=now()), project="my workspace")
    assert delivery.verdict == "blocked"
    assert "number" in delivery.reason
    assert fake.received == []


def test_too_much_for_one_request_is_not_sent() -> None:
    """A body above the limit is to be sent in portions; a single span is sent with any size."""
    root = make_span(start=now())
    large = [make_span(root, texts=(Text("text", "x" * 30_000),)) for _ in range(2)]
    assert delivered(FakeCozeLoop(), large, max_body_bytes=40_000).verdict == "too_large"
    assert delivered(FakeCozeLoop(), large[:1], max_body_bytes=10_000).verdict == "accepted"


# -- reading back ---------------------------------------------------------------------------------------------------


def test_spans_of_an_unanswered_request_are_found() -> None:
    """After a request that was accepted but not answered, all its spans are found, and nothing else."""
    fake = FakeCozeLoop()
    fake.faults.append(Fault("close", handled=True))
    sent, other = span_tree(start=now()), span_tree(start=now())

    async def work(destination: CozeLoopDestination) -> Any:  # noqa: ANN401
        delivery = await destination.send(sent)
        fake.settle()
        return delivery, await destination.present([*sent, *other])

    delivery, found = used(fake, work, settled_after=0.0)
    assert delivery.verdict == "unknown"
    assert found == {span.span_id for span in sent}


def test_a_span_that_may_be_in_the_queue_is_not_missing() -> None:
    """Right after a doubt a missing span may still appear; the answer is known only when all are there."""
    fake = FakeCozeLoop()
    spans = span_tree(start=now())

    async def work(destination: CozeLoopDestination) -> Any:  # noqa: ANN401
        await destination.send(spans)
        waiting = await destination.present(spans)
        fake.settle()
        return waiting, await destination.present(spans)

    waiting, settled = used(fake, work, settled_after=3600.0)
    assert waiting is None
    assert settled == {span.span_id for span in spans}


def test_a_key_that_may_not_read_leaves_the_decision_to_the_user() -> None:
    """Where the key may not read, the destination cannot be read back from then on."""
    fake = FakeCozeLoop(may_read=False)

    async def work(destination: CozeLoopDestination) -> Any:  # noqa: ANN401
        before = destination.can_read_back
        return before, await destination.present(span_tree(start=now())), destination.can_read_back

    assert used(fake, work) == (True, None, False)


@pytest.mark.parametrize("fault", [Fault(status=503), Fault("close"), Fault(body=b"{"), Fault(status=429)])
def test_a_server_that_does_not_answer_now_may_answer_later(fault: Fault) -> None:
    """Nobody can tell, and nothing is decided."""
    fake = FakeCozeLoop()
    fake.faults.append(fault)

    async def work(destination: CozeLoopDestination) -> Any:  # noqa: ANN401
        return await destination.present(span_tree(start=now())), destination.can_read_back

    assert used(fake, work, settled_after=0.0) == (None, True)


# -- whether it can be used -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [({}, ""), ({"api_key": "pat_wrong"}, "api_key"), ({"project": "shop"}, "number"), ({"project": "12"}, "api_key")],
)
def test_a_check_finds_the_problem_and_stores_nothing(changes: dict[str, str], told: str) -> None:
    """An empty text, or the problem and its fix."""
    fake = FakeCozeLoop()
    found = used(fake, lambda destination: destination.check(), **changes)
    assert (found == "") == (told == "")
    assert told in found
    assert "pat_wrong" not in found
    assert (fake.queue, fake.table) == ([], [])


def test_the_address_may_be_that_of_the_endpoint() -> None:
    """The address of the OTLP endpoint in the documents means the same server."""
    for url in ("https://api.coze.cn", "https://api.coze.cn/", "https://api.coze.cn/v1/loop/opentelemetry/v1/traces"):
        assert base_url(url) == "https://api.coze.cn"
