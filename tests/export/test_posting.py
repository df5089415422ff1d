"""The meaning of an answer, or of none, for the spans of a request."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.export.destination import Delivery, Verdict
from agenttrace.export.posting import HttpAnswer, Poster, reason_of, retry_after, verdict_of
from export.faulty_server import Fault, FaultyServer

BODY = b"span " * 1_000
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def posted(
    *faults: Fault, body: bytes = BODY, timeout: float = 30.0, headers: Mapping[str, str] | None = None
) -> tuple[FaultyServer, HttpAnswer | None, Delivery]:
    """The outcome of a body that is sent to a server with these faults."""

    async def run() -> tuple[FaultyServer, HttpAnswer | None, Delivery]:
        async with FaultyServer() as server:
            server.faults.extend(faults)
            poster = Poster(headers or {}, timeout)
            try:
                answer, delivery = await poster.post(server.url + "/v1/traces", body, {"X-Own": "1"})
            finally:
                await poster.close()
            return server, answer, delivery

    return asyncio.run(run())


def post_to(url: str, headers: Mapping[str, str] | None = None) -> Delivery:
    async def run() -> Delivery:
        poster = Poster(headers or {}, 5.0)
        try:
            return (await poster.post(url, BODY, {}))[1]
        finally:
            await poster.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "accepted"),
        (202, "accepted"),
        (204, "accepted"),
        (400, "refused"),
        (409, "refused"),
        (415, "refused"),
        (422, "refused"),
        (401, "blocked"),
        (403, "blocked"),
        (404, "blocked"),
        (405, "blocked"),
        (301, "blocked"),
        (307, "blocked"),
        (408, "retry"),
        (429, "retry"),
        (502, "retry"),
        (503, "retry"),
        (413, "too_large"),
        (500, "unknown"),
        (504, "unknown"),
    ],
)
def test_a_status_decides_the_verdict(status: int, verdict: Verdict) -> None:
    """Only an answer that nothing was accepted is retried; only an answer about the spans is final."""
    assert verdict_of(status) == verdict
    _, answer, delivery = posted(Fault(status=status, body=b"" if status == 204 else b"said so"))
    assert (delivery.verdict, answer and answer.status) == (verdict, status)


def test_a_server_that_is_not_there_is_retried() -> None:
    """Connection refused: try again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    delivery = post_to(f"http://127.0.0.1:{port}/v1/traces")
    assert delivery.verdict == "retry"
    assert delivery.sent_bytes == 0
    assert delivery.reason.startswith("not reached")


def test_an_unknown_host_name_is_retried() -> None:
    """A name that cannot be resolved: try again."""
    assert post_to("http://nobody.invalid/v1/traces").verdict == "retry"


@pytest.mark.parametrize("fault", [Fault("hang"), Fault("close"), Fault("cut", body=b"half an answer")])
def test_a_request_without_an_answer_is_unknown(fault: Fault) -> None:
    """After a timeout, or a connection that ends before the whole answer, the outcome is unknown."""
    server, answer, delivery = posted(fault, timeout=0.5)
    assert len(server.received) == 1, "it did arrive"
    assert answer is None
    assert delivery.verdict == "unknown"
    assert delivery.sent_bytes > 0


def test_a_server_error_differs_from_silence() -> None:
    """A server that answers 500 may have broken down over a span; one whose proxy gave up has not."""
    assert posted(Fault(status=500))[2].broke_down
    assert not posted(Fault(status=504))[2].broke_down
    assert not posted(Fault("close"))[2].broke_down


def test_a_redirect_is_not_followed() -> None:
    """Spans and keys are sent only to the server of the settings."""

    async def run() -> tuple[Delivery, int]:
        async with FaultyServer() as named, FaultyServer() as stranger:
            named.faults.append(Fault(status=307, headers=(("Location", f"{stranger.url}/v1/traces"),)))
            poster = Poster({"Authorization": "Bearer key"}, 5.0)
            _, delivery = await poster.post(named.url, BODY, {})
            await poster.close()
            return delivery, len(stranger.received)

    delivery, arrived = asyncio.run(run())
    assert delivery.verdict == "blocked"
    assert arrived == 0


def test_bodies_are_really_compressed() -> None:
    """A body declared as gzip is gzip, smaller, and the same after decompression."""
    server, _, delivery = posted(headers={"Authorization": "Bearer key"})
    (received,) = server.received
    assert received.headers["content-encoding"] == "gzip"
    assert received.headers["authorization"] == "Bearer key"
    assert received.headers["x-own"] == "1"
    assert gzip.decompress(received.raw) == BODY
    assert len(received.raw) < len(BODY) / 10
    assert delivery.sent_bytes == len(received.raw)


def test_small_bodies_are_sent_as_they_are() -> None:
    """A few bytes are not compressed, nor declared to be."""
    server, _, _ = posted(body=b"tiny")
    assert server.received[0].raw == b"tiny"
    assert "content-encoding" not in server.received[0].headers


def test_an_answer_is_read_to_its_end() -> None:
    """An answer that comes in many pieces is all there."""
    said = bytes(range(256)) * 2_000
    _, answer, _ = posted(Fault("pieces", body=said))
    assert answer is not None
    assert answer.body == said


def test_of_a_huge_answer_only_the_beginning_is_read() -> None:
    """Twenty megabytes of complaint become a megabyte in memory and one line in the ledger."""
    _, answer, delivery = posted(Fault("pieces", status=400, body=b"no! " * 5_000_000))
    assert answer is not None
    assert len(answer.body) == 1 << 20
    assert len(delivery.reason) < 600
    assert delivery.verdict == "refused"


def test_a_server_may_ask_for_time() -> None:
    """``Retry-After`` is heard, in seconds and as a date."""
    _, _, delivery = posted(Fault(status=429, headers=(("Retry-After", "17"),)))
    assert (delivery.verdict, delivery.retry_after) == ("retry", 17.0)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=1_000), usegmt=True)
    _, _, delivery = posted(Fault(status=503, headers=(("Retry-After", soon),)))
    assert delivery.retry_after is not None
    assert 900 < delivery.retry_after <= 1_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("2.5", 2.5),
        ("-5", 0.0),
        ("1e9", 3600.0),
        ("inf", 3600.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(days=3), usegmt=True), 0.0),
        ("Sun, 15 Nov 2026 12:01:00 -0000", 60.0),
    ],
)
def test_how_long_to_wait(value: str | None, seconds: float | None) -> None:
    """Never less than nothing and never more than an hour; nonsense is as good as nothing."""
    assert retry_after(value, NOW) == seconds


@given(st.text())
def test_any_wait_is_bounded(value: str) -> None:
    """Any value of the header gives at most an hour and does not raise."""
    found = retry_after(value, NOW)
    assert found is None or 0 <= found <= 3600


@given(st.integers(100, 599), st.binary(max_size=3_000))
def test_any_answer_becomes_one_line(status: int, body: bytes) -> None:
    """Any answer is shown in one line of bounded length."""
    line = reason_of(HttpAnswer(status, {}, body))
    assert line.isprintable()
    assert len(line) <= 510


@pytest.mark.parametrize("url", ["http://", "nowhere", "http://[::1", "http://127.0.0.1:99999/"])
def test_an_address_that_is_none_blocks(url: str) -> None:
    """The spans wait until it is corrected; nothing raises."""
    assert post_to(url).verdict in ("blocked", "retry")


def test_a_key_with_a_line_break_blocks_and_is_not_shown() -> None:
    """A header that cannot be sent is a matter of the settings; its value is a secret."""
    server, _, delivery = posted(headers={"Authorization": "Bearer secret\r\nX: 1"})
    assert delivery.verdict == "blocked"
    assert "secret" not in delivery.reason
    assert server.received == []


@pytest.mark.parametrize("fault", [Fault("close"), Fault("cut", body=b"x"), Fault("hang")])
def test_a_get_without_an_answer_is_none(fault: Fault) -> None:
    """A GET without a complete answer returns None and does not raise."""

    async def run() -> HttpAnswer | None:
        async with FaultyServer() as server:
            # aiohttp retries a GET where the connection was lost.
            server.faults.extend([fault] * 5)
            poster = Poster({}, 0.5)
            answer = await poster.get(server.url)
            await poster.close()
            return answer

    assert asyncio.run(run()) is None


def test_the_limit_of_an_answer_can_be_raised() -> None:
    """The caller sets the limit for a long answer."""

    async def run() -> list[int]:
        async with FaultyServer() as server:
            poster = Poster({}, 5.0)
            server.faults.extend([Fault(body=b"x" * 3_000_000)] * 2)
            answers = [await poster.get(server.url), await poster.get(server.url, most=10_000_000)]
            await poster.close()
            return [len(answer.body) for answer in answers if answer]

    assert asyncio.run(run()) == [1 << 20, 3_000_000]
