"""``agenttrace.client``: what is sent, what is sent again and what never is; the server goes wrong on order."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import client as module
from agenttrace.client import (
    AsyncTriggerClient,
    JobTimeoutError,
    TriggerClient,
    TriggerError,
    TriggerRefusedError,
    TriggerResult,
    TriggerUnavailableError,
    TriggerUncertainError,
)

TOKEN = "the-secret-of-this-server"
ACCEPTED = {"trigger_job_id": 7, "status": "pending"}
#: What may pass: error answers, and a connection that ends before the answer.
PASSING = (500, 502, 503, 504, 429, "reset")


@dataclass
class Scripted:
    """A server with scripted answers, which then accepts everything."""

    url: str = ""
    script: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    detail: str = ""

    def order(self, *answers: object, detail: str = "as ordered") -> None:
        """Forget what was, and answer like this from now on."""
        self.script, self.requests, self.detail = list(answers), [], detail


def handler(server: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.requests.append(
                {
                    "method": self.command,
                    "path": self.path,
                    "authorization": self.headers.get("Authorization"),
                    "body": json.loads(body) if body else None,
                }
            )
            answer = server.script.pop(0) if server.script else ACCEPTED
            if answer == "reset":
                self.close_connection = True
                return
            self._send(answer)

        def _send(self, answer: object) -> None:
            headers: dict[str, str] = {}
            if isinstance(answer, tuple):
                answer, headers = answer
            status, content = (answer, {"detail": server.detail}) if isinstance(answer, int) else (200, answer)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve  # noqa: N815 - the names that http.server looks for

    return Handler


@contextmanager
def serving(port: int = 0) -> Iterator[Scripted]:
    scripted = Scripted()
    server = ThreadingHTTPServer(("127.0.0.1", port), handler(scripted))
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with serving() as scripted:
        yield scripted


class Caller:
    """One of the two clients with its pauses written down instead of waited for."""

    def __init__(self, url: str, *, is_async: bool = False, retries: int = 3) -> None:
        self.pauses: list[float] = []
        self._async = is_async
        self._options: dict[str, Any] = {"base_url": url, "token": TOKEN, "retries": retries}

    def now(self) -> float:
        """Time passes by waiting alone."""
        return sum(self.pauses)

    async def _asleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def __call__(self, method: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - what the method gives
        if self._async:
            return asyncio.run(self._in_loop(method, *args, **kwargs))
        with TriggerClient(**self._options, sleep=self.pauses.append, clock=self.now) as client:
            return getattr(client, method)(*args, **kwargs)

    async def _in_loop(self, method: str, *args: object, **kwargs: object) -> object:
        async with AsyncTriggerClient(**self._options, sleep=self._asleep, clock=self.now) as client:
            return await getattr(client, method)(*args, **kwargs)


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both
def test_a_trigger_sends_what_it_was_given(server: Scripted, is_async: bool) -> None:
    """One POST with the token in its header and every argument in its body."""
    server.order()
    caller = Caller(server.url, is_async=is_async)
    result = caller("trigger", "consumption", 1, 2, {"coach_id": 3}, "other", is_forced=True)
    assert result == TriggerResult(trigger_job_id=7, status="pending")
    assert result.working_job_id == 7
    [request] = server.requests
    assert (request["method"], request["path"]) == ("POST", "/api/internal/ai/trigger")
    assert request["authorization"] == f"Internal-Token {TOKEN}"
    assert request["body"] == {
        "event_type": "consumption",
        "connector_type": "other",
        "site_id": 1,
        "member_id": 2,
        "payload": {"coach_id": 3},
        "is_forced": True,
    }


@both
def test_a_duplicate_names_the_job_that_works(server: Scripted, is_async: bool) -> None:
    """The job to wait for is the first one, where the server names it."""
    server.order({"trigger_job_id": 9, "status": "skipped_duplicate", "duplicate_of": 7})
    result = Caller(server.url, is_async=is_async)("trigger", "note_created", 1)
    assert result == TriggerResult(trigger_job_id=9, status="skipped_duplicate", duplicate_of=7)
    assert result.working_job_id == 7


@both
@given(faults=st.lists(st.sampled_from(PASSING), max_size=6), retries=st.integers(0, 4))
def test_what_may_pass_is_tried_again(server: Scripted, is_async: bool, faults: list[int | str], retries: int) -> None:
    """For any run of passing faults: as many attempts as allowed, doubling pauses, success if one is left for it."""
    server.order(*faults)
    caller = Caller(server.url, is_async=is_async, retries=retries)
    if len(faults) <= retries:
        assert caller("trigger", "consumption", 1).trigger_job_id == 7
    else:
        with pytest.raises(TriggerUnavailableError) as caught:
            caller("trigger", "consumption", 1)
        assert caught.value.status == (None if faults[retries] == "reset" else faults[retries])
    sent = min(len(faults), retries) + 1
    assert len(server.requests) == sent
    assert caller.pauses == [0.5 * 2**number for number in range(sent - 1)]
    assert all(request == server.requests[0] for request in server.requests)


@both
@given(fault=st.sampled_from(PASSING))
def test_a_forced_trigger_is_sent_once(server: Scripted, is_async: bool, fault: int | str) -> None:
    """Whatever comes back, a forced trigger that may have arrived is never sent a second time."""
    server.order(fault)
    caller = Caller(server.url, is_async=is_async)
    with pytest.raises(TriggerUnavailableError) as caught:
        caller("trigger", "consumption", 1, is_forced=True)
    assert isinstance(caught.value, TriggerUncertainError) == (fault == "reset")
    assert len(server.requests) == 1
    assert caller.pauses == []


@pytest.mark.parametrize("is_forced", [False, True], ids=["automatic", "forced"])
def test_a_server_that_comes_up_late_gets_the_trigger(is_forced: bool) -> None:
    """While no connection can be made nothing was sent, so even a forced trigger is tried again, and arrives once."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    late: list[Any] = []

    def sleep(_: float) -> None:
        if not late:
            late.append(serving(port))
            late.append(late[0].__enter__())

    try:
        with TriggerClient(f"http://127.0.0.1:{port}", TOKEN, sleep=sleep) as client:
            assert client.trigger("consumption", 1, is_forced=is_forced).trigger_job_id == 7
        assert len(late[1].requests) == 1
    finally:
        if late:
            late[0].__exit__(None, None, None)


@both
def test_no_server_there(is_async: bool) -> None:
    """All attempts are used, and the error names the address, the reason and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    caller = Caller(url, is_async=is_async, retries=2)
    with pytest.raises(TriggerUnavailableError, match="after 3 attempts") as caught:
        caller("trigger", "consumption", 1, is_forced=True)
    assert url in caught.value.problem
    assert "agenttrace up" in caught.value.fix
    assert caller.pauses == [0.5, 1.0]


@both
@given(asked=st.integers(0, 60))
def test_the_server_says_how_long_to_wait(server: Scripted, is_async: bool, asked: int) -> None:
    """A Retry-After that is longer than our own pause is kept."""
    server.order((503, {"Retry-After": str(asked)}))
    caller = Caller(server.url, is_async=is_async)
    caller("trigger", "consumption", 1)
    assert caller.pauses == [max(0.5, asked)]


def test_a_date_to_wait_for(server: Scripted) -> None:
    """Retry-After may be a date; one that has passed, or is none at all, changes nothing."""
    for value in (formatdate(0, usegmt=True), "soon", "nan", "-5"):
        server.order((503, {"Retry-After": value}))
        caller = Caller(server.url)
        caller("trigger", "consumption", 1)
        assert caller.pauses == [0.5]
    assert 3000 < module._retry_after(formatdate(time.time() + 3600, usegmt=True)) <= 3600


def test_a_long_retry_after_is_not_waited_for(server: Scripted) -> None:
    """A Retry-After beyond a minute is an error instead of a wait."""
    server.order((429, {"Retry-After": "3600"}))
    caller = Caller(server.url)
    with pytest.raises(TriggerUnavailableError, match="3600 s") as caught:
        caller("trigger", "consumption", 1)
    assert caught.value.status == 429
    assert (len(server.requests), caller.pauses) == (1, [])


@both
@given(status=st.sampled_from([301, 400, 401, 403, 404, 409, 413, 422]))
def test_a_refusal_stays_one(server: Scripted, is_async: bool, status: int) -> None:
    """A refused request is not sent again, and the error has its detail."""
    server.order(status)
    caller = Caller(server.url, is_async=is_async)
    with pytest.raises(TriggerRefusedError, match="as ordered") as caught:
        caller("trigger", "consumption", 1)
    assert caught.value.status == status
    assert len(server.requests) == 1


@both
@given(content=st.sampled_from([b"<html>", b"", b"[]", b"3", b"{}", b'{"trigger_job_id": "x", "status": 1}']))
def test_another_server_is_recognised(server: Scripted, is_async: bool, content: bytes) -> None:
    """An answer that is not ours is an error about the address, not a KeyError."""
    server.order(content)
    with pytest.raises(TriggerError, match="not as an agenttrace server"):
        Caller(server.url, is_async=is_async)("trigger", "consumption", 1)


@both
@given(looks=st.lists(st.sampled_from(["pending", "running"]), max_size=8), end=st.sampled_from(sorted(module.FINAL)))
def test_waiting_ends_with_the_job(server: Scripted, is_async: bool, looks: list[str], end: str) -> None:
    """It looks until the status is a final one, and the job comes back however it ended."""
    server.order(*({"id": 7, "status": status} for status in [*looks, end]))
    caller = Caller(server.url, is_async=is_async)
    assert caller("wait", 7) == {"id": 7, "status": end}
    assert [(request["method"], request["path"]) for request in server.requests] == [
        ("GET", "/api/internal/ai/jobs/7")
    ] * (len(looks) + 1)
    assert len(caller.pauses) == len(looks)


@both
def test_waiting_ends_with_its_time(server: Scripted, is_async: bool) -> None:
    """After the timeout, and no later, the error has the status of the job."""
    server.order(*({"id": 7, "status": "running"} for _ in range(100)))
    caller = Caller(server.url, is_async=is_async)
    with pytest.raises(JobTimeoutError, match="job 7 is still running after 5 s") as caught:
        caller("wait", 7, timeout=5)
    assert (caught.value.job_id, caught.value.job_status) == (7, "running")
    assert sum(caller.pauses) == pytest.approx(5)


@both
def test_a_fault_while_waiting_passes(server: Scripted, is_async: bool) -> None:
    """Looking is harmless, so a restart of the server in between is not the end of waiting."""
    server.order({"id": 7, "status": "running"}, "reset", 503, {"id": 7, "status": "completed"})
    assert Caller(server.url, is_async=is_async)("wait", 7)["status"] == "completed"


@both
def test_a_job_is_given_as_it_is(server: Scripted, is_async: bool) -> None:
    """The whole of the server's answer, steps and all."""
    job = {"id": 7, "status": "completed", "steps": [{"step": "app3", "status": "success"}]}
    server.order(job)
    assert Caller(server.url, is_async=is_async)("job", 7) == job


@both
@given(fault=st.sampled_from([400, 401, 500, "reset"]))
def test_the_token_is_in_no_message(server: Scripted, is_async: bool, fault: int | str) -> None:
    """It is in no repr and no traceback, not even when the server or the driver repeats it."""
    server.order(fault, detail=f"{TOKEN} is wrong")
    with pytest.raises(TriggerError) as caught:
        Caller(server.url, is_async=is_async, retries=0)("trigger", "consumption", 1)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    client = TriggerClient(server.url, TOKEN)
    client.close()
    assert TOKEN not in repr(client)


def test_address_and_token_come_from_the_environment(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGENTTRACE_URL and INTERNAL_API_TOKEN stand in for arguments; arguments win."""
    server.order()
    monkeypatch.setenv("INTERNAL_API_TOKEN", "of-the-environment")
    monkeypatch.setenv("AGENTTRACE_URL", server.url + "/")
    with TriggerClient() as client:
        assert client.base_url == server.url
        client.trigger("consumption", 1)
    with TriggerClient(token=TOKEN) as client:
        client.trigger("consumption", 1)
    assert [request["authorization"] for request in server.requests] == [
        "Internal-Token of-the-environment",
        f"Internal-Token {TOKEN}",
    ]
    monkeypatch.delenv("AGENTTRACE_URL")
    with TriggerClient() as client:
        assert client.base_url == "http://127.0.0.1:8317"


@pytest.mark.parametrize("kind", [TriggerClient, AsyncTriggerClient])
def test_without_a_token_nothing_is_sent(
    kind: type[TriggerClient | AsyncTriggerClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing token is an error at once, with the variable to set."""
    monkeypatch.delenv("INTERNAL_API_TOKEN", raising=False)
    with pytest.raises(TriggerError, match="Set INTERNAL_API_TOKEN"):
        kind("http://127.0.0.1:1")


@pytest.mark.parametrize("token", ["线索", "two words", "line\nbreak"])
def test_a_token_that_no_header_can_hold(token: str) -> None:
    """It is refused without being repeated."""
    with pytest.raises(TriggerError) as caught:
        TriggerClient("http://127.0.0.1:1", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8317", "ftp://somewhere", "http://", "http://u:pass-word@127.0.0.1"])
def test_an_address_that_is_none(url: str) -> None:
    """It is refused with an example, and a password in it is not repeated."""
    with pytest.raises(TriggerError) as caught:
        TriggerClient(url, TOKEN)
    assert "pass-word" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_used(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token goes to the server only."""
    server.order()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with TriggerClient(server.url, TOKEN, retries=0) as client:
        assert client.trigger("consumption", 1).trigger_job_id == 7
