"""``POST /v1/traces``: what is taken, what is refused, and that an answer of 200 means the disk has it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import stat
import threading
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agenttrace.model import Session
from agenttrace.serve.intake import span_log
from agenttrace.serve.intake.body import MOST_BYTES
from agenttrace.serve.intake.span_log import log_directory
from console_login import login_headers
from serve.intake_rig import JSON, NOW, PROTOBUF, SECOND, Intake, as_json, intake, record, request, rows, span

TOKEN = "a token that programs elsewhere know"
ELSEWHERE = {"Host": "trace.example.com"}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Runs the body of a test against a server."""

    def run(body: Callable[[Intake], Awaitable[None]], **changes: Any) -> None:  # noqa: ANN401 - settings
        async def main() -> None:
            async with intake(tmp_path / "home", **changes) as server:
                await body(server)

        asyncio.run(main())

    return run


Run = Callable[..., None]


def test_a_span_in_protobuf(run: Run) -> None:
    """A span in protobuf is answered in protobuf, and the log has all of it: ids, times, values of every kind."""

    async def body(server: Intake) -> None:
        attributes = {"s": "text", "i": 7, "f": 0.5, "b": True, "l": [1, "two"], "m": {"k": "v"}, "x": b"\0\1", "": ""}
        sent = span(
            2,
            trace=0xAB,
            parent=1,
            name="chat",
            attributes=attributes,
            kind=Span.SPAN_KIND_CLIENT,
            status=Status(code=Status.STATUS_CODE_ERROR, message="no"),
            events=[Span.Event(name="exception", time_unix_nano=5)],
            links=[Span.Link(trace_id=b"\x01" * 16, span_id=b"\x02" * 8)],
            trace_state="a=b",
            flags=0x101,
            dropped_events_count=3,
        )
        answer = await server.send(sent, **{"service.version": "1.0"})
        assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, PROTOBUF, b"")
        assert server.lines() == [
            {
                "otlp": 1,
                "trace": f"{0xAB:032x}",
                "span": f"{2:016x}",
                "parent": f"{1:016x}",
                "name": "chat",
                "kind": "client",
                "start": NOW,
                "end": NOW + SECOND,
                "status": "error",
                "message": "no",
                "attributes": {**attributes, "x": "AAE="},
                "events": [{"name": "exception", "time": 5}],
                "links": [{"trace": "01" * 16, "span": "02" * 8}],
                "resource": {"service.name": "shop", "service.version": "1.0"},
                "flags": 0x101,
                "state": "a=b",
                "dropped": {"events": 3},
            }
        ]

    run(body)


def test_json_as_people_write_it(run: Run) -> None:
    """JSON with ids in hex of any case, whole numbers as numbers or texts, names for enumerations, unknown fields."""

    async def body(server: Intake) -> None:
        sent = {
            "traceId": "AB" * 16,
            "spanId": "cd" * 8,
            "parentSpanId": "",
            "name": "chat",
            "kind": "SPAN_KIND_CLIENT",
            "startTimeUnixNano": str(NOW),
            "endTimeUnixNano": NOW + SECOND,
            "status": {"code": "STATUS_CODE_ERROR"},
            "attributes": [
                {"key": "text", "value": {"stringValue": "12"}},
                {"key": "one", "value": {"intValue": "12"}},
                {"key": "two", "value": {"intValue": 12}},
                {"key": "nan", "value": {"doubleValue": "NaN"}},
                {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": False}]}}},
                {"key": "none", "value": {}},
            ],
            "colour": "blue",
        }
        whole = {"resourceSpans": [{"scopeSpans": [{"spans": [sent], "schemaUrl": "x"}]}], "more": None}
        answer = await server.post(json.dumps(whole).encode(), f"{JSON}; charset=utf-8")
        assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, JSON, b"{}")
        (line,) = server.lines()
        assert (line["trace"], line["span"], line["kind"], line["status"]) == ("ab" * 16, "cd" * 8, "client", "error")
        assert (line["start"], line["end"]) == (NOW, NOW + SECOND)
        expected = {"text": "12", "one": 12, "two": 12, "nan": "nan", "list": [False], "none": None}
        assert line["attributes"] == expected

    run(body)


def test_half_a_surrogate_pair(run: Run) -> None:
    """A text that was cut in the middle of an emoji costs that character, not the request."""

    async def body(server: Intake) -> None:
        sent = as_json(request(span(name="NAME")))
        answer = await server.post(json.dumps(sent).replace("NAME", "cut \\ud83d").encode(), JSON)
        assert answer.status == 200
        assert server.lines()[0]["name"].startswith("cut ")

    run(body)


@pytest.mark.parametrize(
    ("how", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes), ("GZIP", gzip.compress)]
)
def test_compressed(run: Run, how: str, pack: Callable[[bytes], bytes]) -> None:
    """Bodies may be compressed in the ways that exporters know."""

    async def body(server: Intake) -> None:
        answer = await server.post(pack(request(span()).SerializeToString()), Content_Encoding=how)
        assert answer.status == 200
        assert len(server.lines()) == 1

    run(body)


def test_members_of_gzip(run: Run) -> None:
    """A gzip stream may have several members."""

    async def body(server: Intake) -> None:
        whole = request(span()).SerializeToString()
        packed = gzip.compress(whole[:20]) + gzip.compress(whole[20:])
        assert (await server.post(packed, Content_Encoding="gzip")).status == 200
        assert len(server.lines()) == 1

    run(body)


def test_too_large(run: Run) -> None:
    """More than the limit is refused, as it comes or unpacked, and never unpacked beyond it; nothing is stored."""

    async def body(server: Intake) -> None:
        bomb = gzip.compress(bytes(MOST_BYTES + 1))
        assert len(bomb) < 100_000
        for answer in (
            await server.post(bomb, Content_Encoding="gzip"),
            await server.post(bytes(MOST_BYTES + 1)),
        ):
            assert answer.status == 413
            assert "16 MiB" in answer.problem[1]
        assert server.lines() == []

    run(body)


def test_larger_than_other_requests(run: Run) -> None:
    """Spans may come in bodies that are larger than those of any other endpoint."""

    async def body(server: Intake) -> None:
        limit = server.settings.serve.max_body_bytes
        assert (await server.send(span(attributes={"long": "x" * (limit + 1)}))).status == 200
        assert len(server.lines()) == 1

    run(body)


@pytest.mark.parametrize(
    ("content_type", "fix"),
    [("text/plain", PROTOBUF), (None, PROTOBUF), ("application/grpc", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")],
)
def test_another_content_type(run: Run, content_type: str | None, fix: str) -> None:
    """A content type that is not understood is refused with what to send instead."""

    async def body(server: Intake) -> None:
        answer = await server.post(b"", content_type)
        assert answer.status == 415
        assert fix in answer.problem[1]

    run(body)


def test_another_encoding(run: Run) -> None:
    """So is a compression that is not."""

    async def body(server: Intake) -> None:
        answer = await server.post(b"", Content_Encoding="br")
        assert (answer.status, answer.headers["Content-Type"]) == (415, PROTOBUF)
        assert "gzip" in answer.problem[1]

    run(body)


@pytest.mark.parametrize(
    ("content_type", "body", "how"),
    [
        (PROTOBUF, b"\xff\xff\xff", ""),
        (PROTOBUF, b"not gzip", "gzip"),
        (PROTOBUF, gzip.compress(b"cut", mtime=0)[:-4], "gzip"),
        (JSON, b"{", ""),
        (JSON, b'{"resourceSpans": 3}', ""),
        (JSON, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": {}}]}]}]}', ""),
        (JSON, b'{"a":' * 5000, ""),
    ],
    ids=range(7),
)
def test_malformed(run: Run, content_type: str, body: bytes, how: str) -> None:
    """What is not what it says it is gets a 400 with the reason, in the encoding of the request."""

    async def check(server: Intake) -> None:
        answer = await server.post(body, content_type, Content_Encoding=how)
        assert (answer.status, answer.headers["Content-Type"]) == (400, content_type)
        code, message = answer.problem
        assert code == 3
        assert message
        assert server.lines() == []

    run(check)


def test_bad_ids(run: Run) -> None:
    """Spans with invalid ids are refused, counted and explained; the others of the request are stored."""
    bad = [
        Span(trace_id=b"\1" * 15, span_id=b"\1" * 8),
        Span(trace_id=bytes(16), span_id=b"\1" * 8),
        Span(trace_id=b"\1" * 16, span_id=b""),
        Span(trace_id=b"\1" * 16, span_id=bytes(8)),
        Span(trace_id=b"\1" * 16, span_id=b"\1" * 8, parent_span_id=b"\1"),
    ]

    async def body(server: Intake) -> None:
        for content_type in (PROTOBUF, JSON):
            sent = request(span(1), *bad, span(2))
            whole = json.dumps(as_json(sent)).encode() if content_type == JSON else sent.SerializeToString()
            answer = await server.post(whole, content_type)
            assert answer.status == 200
            count, reason = answer.partial
            assert count == len(bad)
            assert "trace" in reason
            assert "span" in reason
        assert [line["span"] for line in server.lines()] == [f"{number:016x}" for number in (1, 2)] * 2

    run(body)


def test_ids_in_base64(run: Run) -> None:
    """Ids in base64, as protobuf's own JSON has them, are refused with the reason instead of being taken for others."""

    async def body(server: Intake) -> None:
        sent = as_json(request(span()))
        sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "q6urq6urq6urq6urq6urqw=="
        count, reason = (await server.post(json.dumps(sent).encode(), JSON)).partial
        assert (count, server.lines()) == (1, [])
        assert "base64" in reason

    run(body)


def test_a_span_beyond_all_measure(run: Run) -> None:
    """A span whose line would be too long for the recorder is refused, not written to be set aside later."""

    async def body(server: Intake) -> None:
        count, reason = (await server.send(span(1, attributes={"x": "\1" * (3 << 20)}), span(2))).partial
        assert count == 1
        assert "larger than 16 MiB" in reason
        assert [line["span"] for line in server.lines()] == [f"{2:016x}"]

    run(body)


def test_times_that_cannot_be(run: Run) -> None:
    """A span without times, or that ended before it began, is somewhere in time all the same."""

    async def body(server: Intake) -> None:
        odd = [Span(trace_id=b"\1" * 16, span_id=bytes([each] * 8)) for each in (1, 2, 3)]
        odd[1].end_time_unix_nano = NOW
        odd[2].start_time_unix_nano, odd[2].end_time_unix_nano = NOW, NOW - SECOND
        assert (await server.send(*odd)).status == 200
        first, second, third = server.lines()
        assert first["end"] >= first["start"] > NOW
        assert (second["start"], second["end"]) == (NOW, NOW)
        assert (third["start"], third["end"]) == (NOW, NOW)

    run(body)


def test_nothing_at_all(run: Run) -> None:
    """A request without spans is fine, and leaves no file."""

    async def body(server: Intake) -> None:
        assert (await server.post(b"")).status == 200
        assert not log_directory(server.settings.home).exists()

    run(body)


# -- who may send -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": f"Internal-Token {TOKEN}"},
        {"Authorization": "Basic cGs6YSB0b2tlbiB0aGF0IHByb2dyYW1zIGVsc2V3aGVyZSBrbm93"},
    ],
)
def test_the_token_from_elsewhere(run: Run, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    """From other machines the internal token is accepted, in every kind of header that senders can use."""
    monkeypatch.setenv("INTERNAL_API_TOKEN", TOKEN)

    async def body(server: Intake) -> None:
        answer = await server.post(request(span()).SerializeToString(), **headers, **ELSEWHERE)
        assert answer.status == 200

    run(body)


@pytest.mark.parametrize(
    "headers",
    [
        ELSEWHERE,
        {"X-Forwarded-For": "10.0.0.9"},
        {"Authorization": "Bearer wrong", **ELSEWHERE},
        {"Authorization": f"Digest {TOKEN}", **ELSEWHERE},
        {"Authorization": "Basic %%%", **ELSEWHERE},
        {"Authorization": "Bearer \xff", **ELSEWHERE},
    ],
)
def test_strangers(run: Run, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    """Without the token nothing is stored of a request that is, or may be, from another machine."""
    monkeypatch.setenv("INTERNAL_API_TOKEN", TOKEN)

    async def body(server: Intake) -> None:
        answer = await server.post(request(span()).SerializeToString(), **headers)
        assert (answer.status, answer.problem[0], answer.headers["WWW-Authenticate"]) == (401, 16, "Bearer")
        assert server.lines() == []

    run(body)


def test_guesses_of_senders_are_slowed_down(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong token waits longer each time and is in the audit log; a token too short to be one opens nothing."""
    monkeypatch.setenv("INTERNAL_API_TOKEN", TOKEN)

    async def body(server: Intake) -> None:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        access = server.app.state.access
        access.refusals.sleep = sleep
        for _ in range(8):
            assert (await server.post(b"", Authorization="Bearer wrong", **ELSEWHERE)).status == 401
        assert waited == [0.1, 0.2, 0.4]
        access.refusals.close()
        assert {entry.target.partition(",")[0] for entry in access.audit.page(10)} == {"intake"}
        monkeypatch.setenv("INTERNAL_API_TOKEN", "too short")
        assert (await server.post(b"", Authorization="Bearer too short", **ELSEWHERE)).status == 401

    run(body)


def test_a_server_for_others_always_wants_the_token(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every request needs a login, local programs need the token as well."""
    monkeypatch.setenv("INTERNAL_API_TOKEN", TOKEN)

    async def body(server: Intake) -> None:
        assert (await server.send(span())).status == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert (await server.post(request(span()).SerializeToString(), **token)).status == 200

    run(body, login="always")


def test_no_token_is_no_way_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no token takes nothing from elsewhere, not even an empty one, and says what is missing."""
    monkeypatch.delenv("INTERNAL_API_TOKEN", raising=False)

    async def body(server: Intake) -> None:
        answer = await server.post(b"", Authorization="Bearer ", **ELSEWHERE)
        assert answer.status == 401
        assert "INTERNAL_API_TOKEN" in answer.problem[1]

    run(body)


def test_any_credentials_on_this_machine(run: Run) -> None:
    """A local program with credentials of another backend is not refused for them."""

    async def body(server: Intake) -> None:
        sent = request(span()).SerializeToString()
        assert (await server.post(sent, Authorization="Basic cGs6c2s=")).status == 200
        assert (await server.post(sent, path="/api/public/otel/v1/traces")).status == 200

    run(body)


def test_looking_at_it(run: Run) -> None:
    """A browser that opens the address of an endpoint is told what it is for."""

    async def body(server: Intake) -> None:
        for kind in ("traces", "logs", "metrics"):
            async with server.http.get(f"{server.url}/v1/{kind}", headers={"Accept": "text/html"}) as response:
                assert response.status == 405

    run(body)


# -- the disk -----------------------------------------------------------------------------------------------------


def test_only_the_owner_reads_it(run: Run) -> None:
    """The log and its directory are the owner's alone."""

    async def body(server: Intake) -> None:
        await server.send(span())
        directory = log_directory(server.settings.home)
        (path,) = directory.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700

    run(body)


class HeldSync:
    """Syncs that wait until a test lets them go, and are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.count = 0
        monkeypatch.setattr(span_log, "_sync", self)

    def __call__(self, descriptor: int) -> None:
        self.count += 1
        self.begun.set()
        assert self.go.wait(30)
        os.fsync(descriptor)


def test_the_answer_comes_after_the_sync(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sender gets a 200 before the disk has confirmed the lines."""
    sync = HeldSync(monkeypatch)

    async def body(server: Intake) -> None:
        sending = asyncio.create_task(server.send(span()))
        assert await asyncio.to_thread(sync.begun.wait, 30)
        assert len(server.lines()) == 1
        assert not sending.done()
        sync.go.set()
        assert (await sending).status == 200

    run(body)


def test_requests_share_a_sync(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever arrives during a sync is written and synced together after it."""
    sync = HeldSync(monkeypatch)

    async def body(server: Intake) -> None:
        first = asyncio.create_task(server.send(span(1)))
        assert await asyncio.to_thread(sync.begun.wait, 30)
        others = [asyncio.create_task(server.send(span(number))) for number in range(2, 22)]
        while server.writer._jobs.qsize() < len(others):
            await asyncio.sleep(0.005)
        sync.go.set()
        assert {(await each).status for each in (first, *others)} == {200}
        assert sync.count == 2
        assert sorted(line["span"] for line in server.lines()) == [f"{number:016x}" for number in range(1, 22)]

    run(body)


def test_a_full_disk(run: Run) -> None:
    """A failed write is answered with 503 and Retry-After; when there is room again, the request is stored once."""

    async def body(server: Intake) -> None:
        await server.send(span(1))
        (path,) = log_directory(server.settings.home).iterdir()
        path.rename(path.with_suffix(".aside"))
        path.symlink_to("/dev/full")
        server.writer.log.close()
        answer = await server.send(span(2))
        assert (answer.status, answer.problem[0]) == (503, 14)
        assert int(answer.headers["Retry-After"]) > 0
        path.unlink()
        path.with_suffix(".aside").rename(path)
        assert (await server.send(span(2))).status == 200
        assert [line["span"] for line in server.lines()] == [f"{number:016x}" for number in (1, 2)]

    run(body)


def test_a_stopping_server(run: Run) -> None:
    """A server that is stopping accepts nothing new and says so; senders retry."""

    async def body(server: Intake) -> None:
        server.app.state.life.stopping = True
        answer = await server.send(span())
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert server.lines() == []

    run(body)


def test_what_was_sent_is_counted(run: Run) -> None:
    """The metrics count accepted and refused spans."""

    async def body(server: Intake) -> None:
        await server.send(span(1), span(2), Span())
        async with server.http.get(server.url + "/metrics") as response:
            told = await response.text()
        assert 'agenttrace_intake_spans_total{outcome="kept"} 2.0' in told
        assert 'agenttrace_intake_spans_total{outcome="refused"} 1.0' in told

    run(body)


def test_sent_again(run: Run) -> None:
    """Spans that are sent again, alone, with others or twice in one request, change no row of the store."""

    async def body(server: Intake) -> None:
        spans = [span(number, parent=None if number == 1 else 1) for number in range(1, 6)]
        await server.send(*spans)
        record(server.settings)
        # Without the revision, which says when a row was written.
        sessions = ", ".join(field.name for field in msgspec.structs.fields(Session))
        queries = ("SELECT * FROM spans ORDER BY span_id", f"SELECT {sessions}, revision FROM sessions ORDER BY id")
        before = [[row[:-1] for row in rows(server.settings, query)] for query in queries]
        await server.send(*spans, *spans)
        await server.send(spans[3])
        record(server.settings)
        assert [[row[:-1] for row in rows(server.settings, query)] for query in queries] == before
        assert len(before[0]) == 5

    run(body)


def test_a_long_resource_is_shown_whole(run: Run) -> None:
    """Sent twice, and by a trace that names its session only later: stored once, and every span shows all of it."""

    async def body(server: Intake) -> None:
        for _ in range(2):
            assert (await server.send(span(2, parent=1), span(3, parent=1), host="h" * 3000)).status == 200
        record(server.settings)
        await server.send(span(1, attributes={"session.id": "s"}), host="h" * 3000)
        record(server.settings)
        stored = rows(server.settings, "SELECT count(*) FROM processed_events WHERE event_type = 'shared'")
        assert stored == [(1,)]
        for number in (1, 2, 3):
            url = f"{server.url}/api/v1/sessions/s/spans/{number:016x}"
            async with server.http.get(url, headers=login_headers(server.settings.home)) as response:
                shown = (await response.json())["attributes"]
            assert shown["otlp.resource"]["service.name"] == "shop"
            assert shown["otlp.resource"]["host"].startswith("h" * 2000)
            assert "otlp.shared" not in shown

    run(body)
