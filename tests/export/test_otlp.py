"""The generic OTLP destination, over real HTTP, and its attributes for Phoenix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web
from hypothesis import given
from openinference.semconv.resource import ResourceAttributes
from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agenttrace.destinations import DestinationSettings
from agenttrace.export import phoenix
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.otlp import OtlpDestination, traces_url
from agenttrace.export.span import ExportSpan, Text
from agenttrace.model import Usage
from export.fake_otlp import FakeOtlp, FakePhoenix, parsed, values
from export.faulty_server import Fault
from export.rig import World, target
from export.span_making import START, make_span, span_tree, trees

T = TypeVar("T")
Server = TypeVar("Server", bound=FakeOtlp)


def with_server(server: type[Server], use: Callable[[Server, OtlpDestination], Awaitable[T]], **settings: Any) -> T:  # noqa: ANN401 - any setting
    """Use a destination that leads to a running server."""

    async def run() -> T:
        async with server() as running:
            made = DestinationSettings(name="d", type="otlp", url=running.url, **settings)
            destination = OtlpDestination(made)
            try:
                return await use(running, destination)
            finally:
                await destination.close()

    return asyncio.run(run())


def sent(spans: list[ExportSpan], *faults: Fault, **settings: Any) -> tuple[FakeOtlp, Delivery]:  # noqa: ANN401
    """What becomes of spans that are sent to a server with such faults."""

    async def use(server: FakeOtlp, destination: OtlpDestination) -> tuple[FakeOtlp, Delivery]:
        server.faults.extend(faults)
        return server, await destination.send(spans)

    return with_server(FakeOtlp, use, **settings)


def traits(destination: Destination) -> tuple[bool, bool, bool]:
    return destination.ignores_repeats, destination.can_read_back, destination.accepted_is_stored


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:6006", "http://127.0.0.1:6006/v1/traces"),
        ("http://127.0.0.1:6006/", "http://127.0.0.1:6006/v1/traces"),
        ("https://host/otlp/v1/traces", "https://host/otlp/v1/traces"),
        ("https://host/api/own", "https://host/api/own"),
        ("https://host?key=1", "https://host/v1/traces?key=1"),
    ],
)
def test_the_usual_path_is_added_where_there_is_none(url: str, expected: str) -> None:
    """An address with a path is used as it is."""
    assert traces_url(url) == expected


def test_spans_arrive_as_gzipped_protobuf_with_the_headers() -> None:
    """The path, the type, the key and all spans are there, once."""
    spans = span_tree(3, 2)
    server, delivery = sent(spans, headers={"Authorization": "Bearer key\n"}, user="anna", environment="laptop")
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/v1/traces")
    assert received.headers["content-type"] == "application/x-protobuf"
    assert received.headers["content-encoding"] == "gzip"
    assert received.headers["authorization"] == "Bearer key"
    assert [span.span_id for span in server.spans] == [span.span_id for span in spans]
    assert delivery == Delivery(verdict="accepted", sent_bytes=len(received.raw))
    assert {values(span)["user.id"] for span in server.spans} == {"anna"}
    told = {each.key: each.value.string_value for each in parsed(received).resource_spans[0].resource.attributes}
    assert told["deployment.environment.name"] == "laptop"
    assert phoenix.PROJECT not in told
    assert not [key for span in server.spans for key in values(span) if key.startswith(("llm.", "openinference."))]


@given(trees(max_spans=6))
def test_any_trace_can_be_sent(spans: list[ExportSpan]) -> None:
    """For any recorded spans, the server can decode the request and has every span."""
    server, delivery = sent(spans, project="p")
    assert delivery.verdict == "accepted", delivery.reason
    assert {span.span_id for span in server.spans} == {span.span_id for span in spans}


@pytest.mark.parametrize("as_json", [False, True])
def test_partial_success_is_respected(as_json: bool) -> None:
    """Refused spans of an accepted request are counted, with the reason, in either encoding."""
    answer = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too\nold")
    )
    body = answer.SerializeToString()
    if as_json:
        body = b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too\\nold", "more": [1]}}'
    kind = "application/json" if as_json else "application/x-protobuf"
    _, delivery = sent(span_tree(), Fault(body=body, headers=(("Content-Type", kind),)))
    assert (delivery.verdict, delivery.rejected_count, delivery.reason) == ("accepted", 2, "too old")


@pytest.mark.parametrize("body", [b"", b"<html>all good</html>", b"\xff\xff\xff", b"{"])
@pytest.mark.parametrize("kind", ["application/x-protobuf", "application/json", "text/html"])
def test_an_accepted_request_with_an_unreadable_answer_is_accepted(body: bytes, kind: str) -> None:
    """The status is what counts: sending again would make duplicates."""
    _, delivery = sent(span_tree(), Fault(body=body, headers=(("Content-Type", kind),)))
    assert (delivery.verdict, delivery.rejected_count) == ("accepted", 0)


def test_more_are_never_refused_than_were_sent() -> None:
    """A count that cannot be true does not become one of ours."""
    answer = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=10**9))
    spans = span_tree()
    _, delivery = sent(spans, Fault(body=answer.SerializeToString()))
    assert delivery.rejected_count == len(spans)


def test_a_request_that_is_too_large_is_not_sent() -> None:
    """A body beyond the limit is not sent; a single span is, as it cannot be halved."""
    texts = tuple(Text("text", "x" * 9_000) for _ in range(2))
    spans = [make_span(texts=texts), make_span(texts=texts)]
    server, delivery = sent(spans, max_body_bytes=20_000)
    assert (delivery.verdict, len(server.received)) == ("too_large", 0)
    assert "max_body_bytes" in delivery.reason
    server, delivery = sent([make_span(texts=(Text("text", "x" * 50_000),))], max_body_bytes=20_000)
    assert (delivery.verdict, len(server.received)) == ("accepted", 1)


def test_a_refusal_has_the_answer_of_the_server() -> None:
    """The ledger shows the status and the text."""
    _, delivery = sent(span_tree(), Fault(status=400, body=b"bad span"))
    assert (delivery.verdict, delivery.reason) == ("refused", "400 bad span")


# -- checking ---------------------------------------------------------------------------------------------------


def checked(*faults: Fault, timeout: float = 5.0) -> tuple[FakeOtlp, str]:
    async def use(server: FakeOtlp, destination: OtlpDestination) -> tuple[FakeOtlp, str]:
        server.faults.extend(faults)
        return server, await destination.check()

    return with_server(FakeOtlp, use, timeout_seconds=timeout)


def test_a_check_stores_nothing() -> None:
    """A request without spans is valid: it tests the address and the key, and nothing is stored."""
    server, said = checked()
    assert said == ""
    assert server.spans == []
    assert parsed(server.received[0]) == ExportTraceServiceRequest()


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        (Fault(status=401), "Check headers"),
        (Fault(status=403), "Check headers"),
        (Fault(status=404), "Check url"),
        (Fault(status=405), "Check url"),
        (Fault(status=307, headers=(("Location", "https://elsewhere"),)), "Set url to the final address"),
        (Fault(status=400, body=b"what?"), "Check url"),
        (Fault(status=503), "Try again later"),
        (Fault("hang"), "raise timeout_seconds"),
    ],
)
def test_a_check_that_fails_ends_with_what_to_do(fault: Fault, fix: str) -> None:
    """Each problem comes with its remedy as the last sentence."""
    _, said = checked(fault, timeout=0.5)
    assert fix in said
    assert said.endswith(".")


def test_a_check_without_a_server() -> None:
    """A server that is not there is to be started, or its address is wrong; passwords are not shown."""
    settings = DestinationSettings(name="d", type="otlp", url="http://anna:secret@127.0.0.1:1/")

    async def run() -> str:
        destination = OtlpDestination(settings)
        try:
            return await destination.check()
        finally:
            await destination.close()

    said = asyncio.run(run())
    assert said.startswith("not reached")
    assert "Start it, or check url" in said
    assert "secret" not in said


# -- Phoenix ----------------------------------------------------------------------------------------------------


def test_our_names_are_those_of_openinference() -> None:
    """The attributes for Phoenix have the names of its own package."""
    known = {value for value in vars(SpanAttributes).values() if isinstance(value, str)}
    told = {
        value
        for name, value in vars(phoenix).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert told - known == {ResourceAttributes.PROJECT_NAME} == {phoenix.PROJECT}
    kinds = {each.value for each in OpenInferenceSpanKindValues}
    assert set(phoenix._KINDS.values()) <= kinds


def test_phoenix_gets_the_attributes_of_its_tables() -> None:
    """Kind, input and output of turns and tools, model and tokens of model calls; nothing where nothing was said."""
    spans = span_tree(1)
    server, _ = sent(spans, project="shop")
    turn, step, tool = (values(span) for span in server.spans)
    assert [each["openinference.span.kind"] for each in (turn, step, tool)] == ["AGENT", "LLM", "TOOL"]
    assert (turn["input.value"], turn["output.value"]) == ("The basket forgets its last item.", "It does no longer.")
    assert (tool["input.value"], tool["input.mime_type"]) == ('{"command": "ls 0"}', "application/json")
    assert (tool["output.value"], tool["output.mime_type"]) == ("file0.py", "text/plain")
    assert (step["llm.model_name"], step["output.value"]) == ("claude-sonnet-4-5", "Step 1.")
    used = spans[1].usage
    assert used is not None
    assert step["llm.token_count.total"] == used.total
    assert step["llm.token_count.prompt"] == used.total - used.output_tokens
    assert "llm.token_count.total" not in turn
    assert "input.value" not in step


@given(trees(with_texts=False))
def test_phoenix_gets_no_excluded_texts(spans: list[ExportSpan]) -> None:
    """Without texts there is no input and no output."""
    for span in spans:
        assert not {"input.value", "output.value", "input.mime_type", "output.mime_type"} & set(
            phoenix.openinference(span)
        )


@given(trees())
def test_phoenix_counts_the_tokens_of_this_session(spans: list[ExportSpan]) -> None:
    """Summed over all spans they are those of the usage, cached ones included."""
    told = [phoenix.openinference(span) for span in spans]
    assert sum(int(str(each.get("llm.token_count.total", 0))) for each in told) == sum(
        (span.usage or Usage()).total for span in spans
    )


async def _sent_and_read(server: FakePhoenix, destination: OtlpDestination) -> None:
    server.page = 2
    stored = [span for n in range(5) for span in span_tree(2, start=START + n * 3_600_000_000)]
    lost = span_tree(1, start=START + 1_000)
    assert await destination.present(stored) == set(), "the project is not there before its first span"
    await destination.send(stored)
    assert traits(destination) == (True, True, False)
    assert await destination.present([*stored, *lost]) == {span.span_id for span in stored}
    late = [span for span in stored if span.kind == "tool"]
    assert await destination.present(late) == {span.span_id for span in late}
    assert await destination.present([]) == set()


def test_phoenix_can_be_read_back() -> None:
    """After an answer that only means memory, stored spans are found page by page, and others are missing."""
    with_server(FakePhoenix, _sent_and_read, project="a b/ü?")


def test_phoenix_is_recognised_by_its_answers() -> None:
    """Nothing has to be set: after the first answer it gets its own attributes, in the default project."""

    async def use(server: FakePhoenix, destination: OtlpDestination) -> None:
        first, second = span_tree(), span_tree()
        await destination.send(first)
        assert traits(destination) == (True, True, False)
        await destination.send(second)
        kept = server.projects["default"]
        assert "openinference.span.kind" not in values(kept[first[0].span_id])
        assert values(kept[second[0].span_id])["openinference.span.kind"] == "AGENT"
        assert await destination.present([*first, *second]) == set(kept)

    with_server(FakePhoenix, use)


@pytest.mark.parametrize("repeats", ["ignored", "kept"])
@pytest.mark.parametrize("project", [None, "p"])
def test_other_backends_are_recognised_by_their_answers(repeats: str, project: str | None) -> None:
    """A server whose answer is not that of Phoenix cannot be read back; accepted spans count as stored."""

    async def use(server: FakeOtlp, destination: OtlpDestination) -> object:
        await destination.send(span_tree())
        assert traits(destination) == (repeats == "ignored", False, True)
        return await destination.present(span_tree()), len(server.received)

    assert with_server(FakeOtlp, use, repeats=repeats, project=project) == (None, 1)


@pytest.mark.parametrize("fault", [None, Fault(status=405), Fault(status=403), Fault(body=b"<html>")])
def test_a_backend_that_cannot_answer_is_no_phoenix(fault: Fault | None) -> None:
    """Spans of an earlier process are read back once; after that the server is known to be no Phoenix."""

    async def use(server: FakeOtlp, destination: OtlpDestination) -> tuple[bool, object, bool]:
        server.faults.extend([fault] if fault else [])
        before = destination.can_read_back
        return before, await destination.present(span_tree()), destination.can_read_back

    assert with_server(FakeOtlp, use) == (True, None, False)


def test_an_older_phoenix_is_not_read_back() -> None:
    """One that cannot list its traces is not asked again, and accepted spans count as stored."""

    async def use(server: FakePhoenix, destination: OtlpDestination) -> None:
        server.lists_traces = False
        spans = span_tree()
        await destination.send(spans)
        assert await destination.present(spans) is None
        assert traits(destination) == (True, False, True)
        await destination.send(spans)
        assert traits(destination) == (True, False, True)

    with_server(FakePhoenix, use)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=429),
        Fault(status=401, headers=(("x-phoenix-server-version", "20"),)),
        Fault("cut"),
        Fault("close"),
    ],
)
def test_a_span_that_cannot_be_read_now_is_not_missing(fault: Fault) -> None:
    """An error of a Phoenix, or a wrong key, leaves the outcome open, and it is asked again."""

    async def use(server: FakePhoenix, destination: OtlpDestination) -> None:
        spans = span_tree()
        await destination.send(spans)
        server.faults.extend([fault] * 2)
        assert await destination.present(spans) is None
        server.faults.clear()
        assert await destination.present(spans) == {span.span_id for span in spans}

    with_server(FakePhoenix, use, project="p")


class NoReads(FakeOtlp):
    """A collector that answers every GET with an error, as many do that support only POST."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=501) if request.method == "GET" else await super().handle(request)


def test_a_server_that_dropped_requests_is_identified_when_it_is_back(tmp_path: Path) -> None:
    """The first requests are cut off, so nothing shows what the server is, and it answers no question about spans. As
    soon as it takes an empty request it is known to be no Phoenix: what was dropped is unknown."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)

    async def use() -> None:
        async with NoReads() as server:
            server.faults.extend([Fault("close")] * 2)
            destination = OtlpDestination(target(url=server.url))
            with world.courier(destination) as courier:
                for _ in range(4):
                    await courier.deliver()
                    world.passed += 20.0
            await destination.close()

    asyncio.run(use())
    states = world.states()
    assert (states["sending"], states["unknown"]) == (0, len(world.span_ids()))
