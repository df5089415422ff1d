"""The Langfuse destination, against a server that does what Langfuse does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Set
from decimal import Decimal
from typing import Any, TypeVar, get_args

import httpx
import pytest
from hypothesis import given
from langfuse._client import constants as official_types
from langfuse._client.attributes import LangfuseOtelSpanAttributes
from langfuse.api import LangfuseAPI

from agenttrace.destinations import DestinationSettings
from agenttrace.export import conventions as c
from agenttrace.export import langfuse_span as names
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.langfuse import LangfuseDestination, base_url
from agenttrace.export.langfuse_span import described
from agenttrace.export.span import ExportSession, ExportSpan, Text
from agenttrace.model import Usage
from export.fake_langfuse import PUBLIC, SECRET, FakeLangfuse
from export.fake_otlp import values
from export.faulty_server import Fault
from export.span_making import START, make_span, span_tree, trees

T = TypeVar("T")


def settings_for(url: str, **changes: Any) -> DestinationSettings:  # noqa: ANN401 - any setting
    kept: dict[str, Any] = {"public_key": PUBLIC, "secret_key": SECRET, "timeout_seconds": 5.0, **changes}
    return DestinationSettings(name="langfuse", type="langfuse", url=url, **kept)


def with_langfuse(
    use: Callable[[FakeLangfuse, LangfuseDestination], Awaitable[T]],
    server: Callable[[], FakeLangfuse] = FakeLangfuse,
    settled_after: float = 0.0,
    **settings: Any,  # noqa: ANN401 - any setting
) -> T:
    """Use a destination that leads to a running server."""

    async def run() -> T:
        async with server() as running:
            destination = LangfuseDestination(settings_for(running.url, **settings), settled_after=settled_after)
            try:
                return await use(running, destination)
            finally:
                await destination.close()

    return asyncio.run(run())


def sent(spans: list[ExportSpan], *faults: Fault, **settings: Any) -> tuple[FakeLangfuse, Delivery]:  # noqa: ANN401
    """What becomes of spans that are sent to a server with such faults."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> tuple[FakeLangfuse, Delivery]:
        server.faults.extend(faults)
        return server, await destination.send(spans)

    return with_langfuse(use, **settings)


def ids(spans: list[ExportSpan]) -> set[bytes]:
    return {span.span_id for span in spans}


def told(span: ExportSpan) -> dict[str, Any]:
    return dict(described(span, "anna", "laptop").attributes)


# -- attributes -------------------------------------------------------------------------------------------------


def test_our_names_are_those_of_the_sdk() -> None:
    """Every name we use is one of Langfuse's own; three are documented for OTLP and no longer set by the SDK."""
    known = {value for value in vars(LangfuseOtelSpanAttributes).values() if isinstance(value, str)}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("langfuse.")}
    assert ours - known == {"langfuse.session.id", "langfuse.trace.input", "langfuse.trace.output"}
    assert {c.SESSION_ID, c.USER_ID} <= known


def test_our_types_are_those_of_the_sdk() -> None:
    """Kinds of spans become types of Langfuse."""
    known = {value for part in get_args(official_types.ObservationTypeLiteralNoEvent) for value in get_args(part)}
    known |= set(get_args(official_types.ObservationTypeLiteralNoEvent))
    assert set(names._TYPES.values()) <= known


@given(trees())
def test_every_span_has_the_attributes_of_its_trace(spans: list[ExportSpan]) -> None:
    """Langfuse reads each span alone: all have session, user, name, tags and environment, and equal ones."""
    keys = (c.SESSION_ID, names.SESSION_ID, c.USER_ID, names.TRACE_NAME, names.TRACE_TAGS, names.ENVIRONMENT)
    found = {tuple(str(told(span)[key]) for key in keys) for span in spans}
    assert len(found) == 1
    about = {
        tuple(sorted((key, str(value)) for key, value in told(span).items() if key.startswith(names.TRACE_METADATA)))
        for span in spans
    }
    assert len(about) == 1


@given(trees())
def test_tokens_are_counted_once(spans: list[ExportSpan]) -> None:
    """Parts do not overlap and add up to the total; the totals of all spans are the usage."""
    total = 0
    for span in spans:
        attributes = told(span)
        assert (names.USAGE_DETAILS in attributes) == (span.kind == "step")
        assert not [key for key in attributes if key.startswith("gen_ai.usage.")]
        if span.kind == "step":
            details = json.loads(attributes[names.USAGE_DETAILS])
            assert sum(count for key, count in details.items() if key != "total") == details["total"]
            assert all(count >= 0 for count in details.values())
            assert all(key == "total" or key.startswith(("input", "output")) for key in details)
            total += details["total"]
    assert total == sum(span.usage.total for span in spans if span.usage)


def test_cached_and_reasoning_tokens_are_separate_parts() -> None:
    """Input excludes cache reads and cache writes; writes for an hour cost more and are separate."""
    used = Usage(
        input_tokens=2,
        output_tokens=714,
        cache_read_tokens=47_105,
        cache_write_tokens=1_100,
        cache_write_1h_tokens=1_076,
        reasoning_tokens=14,
    )
    details = json.loads(told(make_span(make_span(), usage=used))[names.USAGE_DETAILS])
    assert details == {
        "input": 2,
        "input_cached_tokens": 47_105,
        "input_cache_creation": 24,
        "input_cache_creation_1h": 1_076,
        "output": 700,
        "output_reasoning_tokens": 14,
        "total": used.total,
    }


def test_a_copied_call_has_token_counts_of_zero() -> None:
    """Langfuse counts the tokens of the texts of a model call without usage: a copy would be counted twice."""
    copied = told(make_span(make_span(), copied=True, texts=(Text("text", "a long answer"),)))
    assert json.loads(copied[names.USAGE_DETAILS]) == {"input": 0, "output": 0, "total": 0}
    assert names.COST_DETAILS not in copied
    assert copied[f"{names.METADATA}.copied"] is True


@pytest.mark.parametrize(
    ("cost", "currency", "details"),
    [(Decimal("0.5"), "USD", {"total": 0.5}), (Decimal("3.5"), "CNY", None), (None, None, None)],
)
def test_cost_is_sent_in_dollars_only(
    cost: Decimal | None, currency: str | None, details: dict[str, float] | None
) -> None:
    """Langfuse has no other currency; other costs are metadata, and unknown is not 0."""
    step = told(make_span(make_span(), usage=Usage(input_tokens=1), cost=cost, currency=currency))
    assert json.loads(step.get(names.COST_DETAILS, "null")) == details
    assert step.get(f"{names.METADATA}.currency") == currency


def test_type_input_and_output_of_each_kind() -> None:
    """Agents, generations and tools have inputs and outputs; those of the root are also the trace's."""
    turn, step, tool = (told(span) for span in span_tree(1))
    assert [each[names.TYPE] for each in (turn, step, tool)] == ["agent", "generation", "tool"]
    assert turn[names.INPUT] == turn[names.TRACE_INPUT] == "The basket forgets its last item."
    assert turn[names.OUTPUT] == turn[names.TRACE_OUTPUT] == "It does no longer."
    message = {"role": "assistant", "content": "Step 1.", "reasoning_content": "Where is the basket kept?"}
    assert json.loads(step[names.OUTPUT]) == message
    assert (tool[names.INPUT], tool[names.OUTPUT]) == ('{"command": "ls 0"}', "file0.py")
    assert names.TRACE_INPUT not in step
    assert step[names.MODEL] == "claude-sonnet-4-5"
    assert turn[names.VERSION] == "2.1.7"
    assert turn[names.TRACE_TAGS] == ("claude-code", "shop")
    assert turn[f"{names.TRACE_METADATA}.branch"] == "main"


@given(trees(with_texts=False))
def test_without_texts_none_is_sent(spans: list[ExportSpan]) -> None:
    """Where the switches are off there is no input and no output, under any name."""
    content = (names.INPUT, names.OUTPUT, names.TRACE_INPUT, names.TRACE_OUTPUT, c.INPUT_MESSAGES, c.OUTPUT_MESSAGES)
    for span in spans:
        assert not set(content) & set(told(span))


@given(trees())
def test_content_is_sent_once(spans: list[ExportSpan]) -> None:
    """Texts are not sent a second time under the names of the conventions."""
    for span in spans:
        assert not {c.INPUT_MESSAGES, c.OUTPUT_MESSAGES, c.TOOL_ARGUMENTS, c.TOOL_RESULT} & set(told(span))


@pytest.mark.parametrize(("status", "level"), [("cancelled", "WARNING"), ("unclosed", "WARNING"), ("ok", None)])
def test_levels(status: str, level: str | None) -> None:
    """A cancelled or unclosed span is a warning; an error is marked by its status."""
    assert told(make_span(status=status)).get(names.LEVEL) == level
    failed = described(make_span(status="error", error="boom"), None, None)
    assert (failed.status, failed.description) == ("error", "boom")


def test_unset_values_are_not_sent() -> None:
    """No user, no environment, no project: no attribute."""
    span = make_span(session=ExportSession(session_id="s", agent="codex"))
    attributes = described(span, None, None).attributes
    assert not {c.USER_ID, names.ENVIRONMENT, names.VERSION} & set(attributes)
    assert attributes[names.TRACE_TAGS] == ("codex",)


# -- sending ----------------------------------------------------------------------------------------------------


def test_it_is_a_destination() -> None:
    """Repeats are stored, and stored spans can be read."""
    destination: Destination = LangfuseDestination(settings_for("http://127.0.0.1"))
    assert (destination.ignores_repeats, destination.can_read_back, destination.accepted_is_stored) == (
        False,
        True,
        True,
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://us.cloud.langfuse.com",
        "https://us.cloud.langfuse.com/",
        "https://us.cloud.langfuse.com/api/public/otel",
        "https://us.cloud.langfuse.com/api/public/otel/v1/traces",
    ],
)
def test_any_address_of_it_will_do(url: str) -> None:
    """The server's, or that of its endpoint as its own documents give it."""
    assert base_url(url) == "https://us.cloud.langfuse.com"


def test_spans_arrive_with_keys_and_version() -> None:
    """The endpoint, the keys, the version that makes them readable at once, and all spans."""
    spans = span_tree(3, 2)
    server, delivery = sent(spans, user="anna", environment="laptop", public_key=f"{PUBLIC}\n")
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/api/public/otel/v1/traces")
    assert received.headers["x-langfuse-ingestion-version"] == "4"
    assert received.headers["content-encoding"] == "gzip"
    assert delivery == Delivery(verdict="accepted", sent_bytes=len(received.raw))
    assert [span.span_id for span in server.observations] == [span.span_id for span in spans]
    assert {values(span)[names.ENVIRONMENT] for span in server.observations} == {"laptop"}


@given(trees(max_spans=6))
def test_any_trace_can_be_sent(spans: list[ExportSpan]) -> None:
    """No recorded span is refused."""
    server, delivery = sent(spans)
    assert delivery.verdict == "accepted", delivery.reason
    assert {span.span_id for span in server.observations} == ids(spans)


def test_one_bad_span_refuses_all() -> None:
    """The request is refused as a whole, and nothing of it is stored; the courier isolates the span."""
    server, delivery = sent([*span_tree(), make_span(trace_id=b"short")])
    assert delivery.verdict == "refused"
    assert "wrong_length" in delivery.reason
    assert server.observations == []


def test_repeats_are_stored() -> None:
    """A span that is sent twice is stored twice, so it is sent again only if it is known to be missing."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> int:
        spans = span_tree()
        await destination.send(spans)
        await destination.send(spans)
        return len(server.observations) // len(spans)

    assert with_langfuse(use) == 2


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (Fault(status=429, headers=(("Retry-After", "20"),)), "retry"),
        (Fault(status=503), "retry"),
        (Fault(status=500, handled=True), "unknown"),
        (Fault(status=504), "unknown"),
        (Fault("close"), "unknown"),
        (Fault(status=403, body=b"Ingestion suspended: Usage threshold exceeded."), "blocked"),
    ],
)
def test_faults(fault: Fault, verdict: str) -> None:
    """Busy, broken, silent, suspended: each has the same meaning as for all servers."""
    _, delivery = sent(span_tree(), fault)
    assert delivery.verdict == verdict
    assert delivery.retry_after == (20.0 if fault.status == 429 else None)


# -- reading back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "server",
    [
        FakeLangfuse,
        lambda: FakeLangfuse(page=3),
        lambda: FakeLangfuse(knows_lists=False, page=3),
        lambda: FakeLangfuse(version=3, page=3),
    ],
)
def test_stored_spans_are_found(server: Callable[[], FakeLangfuse]) -> None:
    """On every page, in every trace, by whichever question the server understands; and no more than was asked for."""

    async def use(running: FakeLangfuse, destination: LangfuseDestination) -> None:
        there = [span for n in range(30) for span in span_tree(2, start=START + n * 86_400_000_000)]
        missing = span_tree(2, start=START + 500)
        await destination.send(there)
        assert await destination.present([*there, *missing]) == ids(there)
        assert await destination.present(missing) == set()
        assert await destination.present(there[:1]) == ids(there[:1])
        assert await destination.present([]) == set()

    with_langfuse(use, server)


def test_few_requests_are_made() -> None:
    """Cloud allows 30 a minute: the spans of 25 traces are one question, and it names times."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> None:
        spans = [span for n in range(50) for span in span_tree(2, start=START + n * 1_000_000)]
        await destination.send(spans)
        server.received.clear()
        assert await destination.present(spans) == ids(spans)
        assert len(server.received) == 2
        asked = json.loads(server.received[0].query["filter"])
        assert [condition["column"] for condition in asked] == ["traceId", "startTime", "startTime"]
        assert server.received[0].query["fields"] == "core"

    with_langfuse(use)


async def _lost_answer(fault: Fault, server: FakeLangfuse, destination: LangfuseDestination) -> Set[bytes] | None:
    server.faults.append(fault)
    spans = span_tree()
    delivery = await destination.send(spans)
    assert delivery.verdict == "unknown"
    return await destination.present(spans)


@pytest.mark.parametrize("handled", [True, False])
def test_after_a_lost_answer_the_outcome_is_read_back(handled: bool) -> None:
    """Whether the server did its work before it hung up is seen from what can be read."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> tuple[object, int]:
        found = await _lost_answer(Fault("close", handled=handled), server, destination)
        return found, len(server.observations)

    found, there = with_langfuse(use)
    assert isinstance(found, set)
    assert len(found) == there
    assert bool(found) == handled


def test_a_span_that_may_still_appear_is_not_missing() -> None:
    """Right after a lost answer the outcome is unknown; it is known once all can be read, or time has passed."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> None:
        server.settles_at_once = False
        spans = span_tree()
        server.faults.append(Fault("close", handled=True))
        assert (await destination.send(spans)).verdict == "unknown"
        assert await destination.present(spans) is None
        server.settle()
        assert await destination.present(spans) == ids(spans)
        assert await destination.present([*spans, make_span()]) is None

    with_langfuse(use, settled_after=3_600.0)


def test_a_new_process_waits_too() -> None:
    """Spans that an earlier process sent last may not be readable yet."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> object:
        return await destination.present(span_tree())

    assert with_langfuse(use, settled_after=3_600.0) is None
    assert with_langfuse(use, settled_after=0.0) == set()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429),
        Fault(status=500),
        Fault(status=403),
        Fault(body=b"<html>"),
        Fault(body=b"{}"),
        Fault("close"),
        Fault("cut", body=b"{"),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_an_unreadable_span_is_not_missing(fault: Fault, before: int) -> None:
    """An error or nonsense on any page means that the outcome is not known."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> object:
        spans = span_tree()
        await destination.send(spans)
        token = Fault(body=json.dumps({"data": [], "meta": {"cursor": "0"}}).encode())
        server.faults.extend([*[token] * before, *[fault] * 3])
        return await destination.present(spans)

    assert with_langfuse(use) is None


def test_the_official_client_sends_the_same_query() -> None:
    """Its SDK sends the same parameters, and understands the answers of the fake server."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> None:
        spans = span_tree()
        await destination.send(spans)
        await destination.present(spans)
        ours = server.received[-1]

        def ask() -> set[str]:
            with httpx.Client() as http:
                client = LangfuseAPI(base_url=server.url, username=PUBLIC, password=SECRET, httpx_client=http)
                asked: dict[str, Any] = {"fields": "core", "limit": 3, "filter": ours.query["filter"]}
                first = client.observations.get_many(**asked)
                rest = client.observations.get_many(**asked, cursor=first.meta.cursor)
                one = client.observations.get_many(trace_id=spans[0].trace_id.hex())
            found = {each.id for each in one.data}
            assert {each.id for each in first.data + rest.data} == found
            return found

        assert await asyncio.to_thread(ask) == {span.span_id.hex() for span in spans}
        theirs = server.received[-1]
        assert theirs.path == ours.path
        assert "traceId" in theirs.query
        assert theirs.headers["authorization"] == ours.headers["authorization"]

    with_langfuse(use)


# -- checking ---------------------------------------------------------------------------------------------------


def test_a_check_stores_nothing() -> None:
    """The server checks keys and address; nothing is stored."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> tuple[str, int]:
        return await destination.check(), len(server.observations)

    assert with_langfuse(use) == ("", 0)


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ({"secret_key": "sk-lf-wrong"}, "Check public_key and secret_key"),
        ({"environment": "My Laptop"}, "Use at most 40 small letters"),
        ({"environment": "langfuse-own"}, "do not begin with langfuse"),
    ],
)
def test_a_check_that_fails_ends_with_what_to_do(settings: dict[str, Any], fix: str) -> None:
    """A wrong key or environment is named together with its remedy, and no key is shown."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> str:
        return await destination.check()

    said = with_langfuse(use, **settings)
    assert fix in said
    assert said.endswith(".")
    assert "sk-lf" not in said


def test_a_check_of_another_server() -> None:
    """A check reports an address without a Langfuse."""

    async def use(server: FakeLangfuse, destination: LangfuseDestination) -> str:
        server.faults.append(Fault(status=404))
        return await destination.check()

    assert "Check url" in with_langfuse(use)
