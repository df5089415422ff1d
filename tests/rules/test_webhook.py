"""Webhooks against a real receiver: what it gets, what its answers lead to, and where requests never go."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agenttrace.config.rules import BadRuleError, parse_action
from agenttrace.rules.actions import webhook
from agenttrace.rules.actions.contract import ActionResult
from agenttrace.rules.actions.webhook import Webhook
from rules.rig import Rig
from rules.sending import MASK, SECRET, event, message

NOW = 1_794_700_000.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Got:
    """A request that arrived."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.headers, self.path, self.body = dict(request.headers), request.path_qs, body

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.body)


async def ok(_: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


def answering(status: int, text: str = "", **headers: str) -> Handler:
    """A receiver that always answers so."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def send(handler: Handler = ok, path: str = "/hook", **action: Any) -> tuple[ActionResult, list[Got]]:  # noqa: ANN401
    """Send a message to a receiver on this machine; what came of it, and what arrived."""
    got: list[Got] = []

    async def receive(request: web.Request) -> web.StreamResponse:
        got.append(Got(request, await request.read()))
        return await handler(request)

    async def main() -> ActionResult:
        application = web.Application()
        application.router.add_route("*", "/{any:.*}", receive)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        settings = {"type": "webhook", "url": url, "allow_private": True, **action}
        try:
            return await Webhook(MASK, lambda: NOW).run(message(**settings))
        finally:
            await runner.cleanup()

    return asyncio.run(main()), got


# -- what arrives -------------------------------------------------------------------------------------------------


def verified(secret: str, got: Got) -> dict[str, Any]:
    """The receiver's side of Standard Webhooks, from its specification."""
    key = base64.b64decode(secret.split("_", 1)[1]) if secret.startswith("whsec_") else secret.encode()
    signed = ".".join((got.headers["webhook-id"], got.headers["webhook-timestamp"], got.body.decode()))
    expected = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    versions = [each.split(",", 1) for each in got.headers["webhook-signature"].split(" ")]
    assert ["v1", expected] in versions
    found: dict[str, Any] = json.loads(got.body)
    return found


@pytest.mark.parametrize("secret", ["whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode(), "plain text"])
def test_a_signed_message(secret: str) -> None:
    """The signature is of the bytes that arrive; the idempotency key names the firing."""
    result, (got,) = send(secret=secret)
    assert result.outcome == "done"
    body = verified(secret, got)
    assert got.headers["Idempotency-Key"] == got.headers["webhook-id"] == body["idempotency_key"]
    assert got.headers["Content-Type"].startswith("application/json")
    assert abs(int(got.headers["webhook-timestamp"]) - NOW) <= 1


def test_without_a_secret_nothing_is_signed() -> None:
    _, (got,) = send()
    assert "webhook-signature" not in got.headers
    assert got.json["rule"] == "r"


def test_headers_of_the_action() -> None:
    _, (got,) = send(headers={"Authorization": "Bearer token"})
    assert got.headers["Authorization"] == "Bearer token"


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "Webhook-Signature", "Content-Length"])
def test_headers_that_an_action_cannot_have(name: str) -> None:
    """Another key would make a receiver take all firings for one."""
    table = {"type": "webhook", "url": "https://hooks.example.com/x", "headers": {name: "1"}}
    with pytest.raises(BadRuleError, match="is set by AgentTrace"):
        parse_action("ops", table, {})


def test_dingtalk_signs_the_address() -> None:
    """The rest of the query stays."""
    _, (got,) = send(path="/send?access_token=abc", format="dingtalk", secret="SEC+/")
    assert got.path.startswith("/send?access_token=abc&timestamp=1794700000000&sign=")
    assert got.json["msgtype"] == "text"


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *[(status, "done") for status in (200, 201, 204)],
        *[(status, "retry") for status in (401, 402, 403, 404, 405, 407, 408, 409, 425, 429, 500, 503)],
        *[(status, "failed") for status in (302, 304, 400, 410, 413)],
    ],
)
def test_statuses(status: int, outcome: str) -> None:
    """What may pass is tried again; what cannot is not."""
    result, got = send(answering(status, Location="http://169.254.169.254/"))
    assert result.outcome == outcome
    assert f"HTTP {status}" in result.detail
    assert len(got) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("-3", 0.0),
        ("soon", None),
        ("nan", 0.0),
        ("inf", float("inf")),
        ("9" * 400, float("inf")),
        ("", None),
        ("Sat, 14 Nov 2026 23:47:40 GMT", 60.0),
        ("Sat, 14 Nov 1999 23:47:40 GMT", 0.0),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    """In seconds or as a date; nonsense is ignored."""
    result, _ = send(answering(429, Retry_After=text))
    assert result.retry_after == seconds


@pytest.mark.parametrize(
    ("kind", "text", "outcome"),
    [
        ("dingtalk", '{"errcode":0,"errmsg":"ok"}', "done"),
        ("dingtalk", '{"errcode":310000,"errmsg":"sign not match"}', "retry"),
        ("feishu", '{"code":0,"msg":"success"}', "done"),
        ("feishu", '{"code":11232,"msg":"frequency limited"}', "retry"),
        ("feishu", "not json", "done"),
        ("slack", "ok", "done"),
    ],
)
def test_refusals_with_status_200(kind: str, text: str, outcome: str) -> None:
    result, _ = send(answering(200, text), format=kind)
    assert result.outcome == outcome


def test_a_slow_answer() -> None:
    """A receiver has the time that the action gives it."""

    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    result, _ = send(slow, timeout_seconds=0.2)
    assert result.outcome == "retry"


def test_an_answer_that_drips() -> None:
    """A body that never ends is not waited for."""

    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x")
            await asyncio.sleep(0.05)

    result, _ = send(drip, timeout_seconds=0.5)
    assert result.outcome in ("done", "retry")


def test_a_huge_answer() -> None:
    """Only its beginning is read."""

    async def huge(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(10_000):
            await answer.write(b"x" * 65_536)
        return answer

    result, _ = send(huge, timeout_seconds=5)
    assert result.outcome == "done"
    assert len(result.detail) < 1000


def test_a_closed_connection() -> None:
    """No answer is not a delivery."""

    async def close(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    result, _ = send(close)
    assert result.outcome == "retry"


def test_nothing_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = run(f"http://127.0.0.1:{taken.getsockname()[1]}/", allow_private=True)
    assert result.outcome == "retry"


# -- addresses ----------------------------------------------------------------------------------------------------


def run(url: str, **action: Any) -> ActionResult:  # noqa: ANN401 - any setting
    return asyncio.run(Webhook(MASK).run(message(type="webhook", url=url, timeout_seconds=5, **action)))


PRIVATE = [
    "127.0.0.1",
    "localhost",
    "127.1",
    "2130706433",
    "0177.0.0.1",
    "0x7f000001",
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "172.16.3.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[fec0::1]",
    "192.0.0.8",
    "[2001:0:5ef5:79fd:0:0:80ff:fffe]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fc00::1]",
    "[ff02::1]",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_are_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are written; nothing is connected to."""
    connected = watch_connections(monkeypatch)
    result = run(f"http://{host}:9/")
    assert result.outcome == "failed"
    assert "allow_private" in result.detail or "cannot be used" in result.detail
    assert connected == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.com/", "http://", "http:///x", "//x", "http://[::1"]
)
def test_other_addresses_are_refused(url: str) -> None:
    """Only HTTP, and the reason does not repeat the address."""
    with pytest.raises(BadRuleError) as refused:
        run(url, allow_private=True)
    assert url not in refused.value.problem


def watch_connections(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The addresses that anything connects to from now on; nothing is."""
    connected: list[tuple[Any, ...]] = []

    async def connect(_: object, sock: socket.socket, address: tuple[Any, ...]) -> None:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", connect)
    return connected


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """A resolver with these answers, one after the other; the names that were asked for."""
    asked: list[str] = []

    async def getaddrinfo(_: object, host: str, port: int, **options: object) -> list[tuple[Any, ...]]:
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        kinds = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in found]
        return [(kind, socket.SOCK_STREAM, 6, "", (each, port)) for kind, each in zip(kinds, found, strict=True)]

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", getaddrinfo)
    return asked


def test_a_name_that_leads_to_a_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """One private address among public ones is enough."""
    resolving(monkeypatch, ["1.1.1.1", "127.0.0.1"])
    connected = watch_connections(monkeypatch)
    result = run("http://rebound.example/")
    assert result.outcome == "failed"
    assert "allow_private" in result.detail
    assert connected == []


def test_a_name_that_is_rebound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is connected to: the name is not asked for a second time."""
    asked = resolving(monkeypatch, ["1.1.1.1"], ["127.0.0.1"])
    connected = watch_connections(monkeypatch)
    result = run("http://rebound.example:81/")
    assert result.outcome == "retry"
    assert connected == [("1.1.1.1", 81)]
    assert asked.count("rebound.example") == 1


def test_a_resolver_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check stands before the connection: nothing that was looked up elsewhere gets past it."""

    async def resolve(_: object, host: str, port: int = 0, **options: object) -> list[dict[str, Any]]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    monkeypatch.setattr(webhook._PublicResolver, "resolve", resolve)
    connected = watch_connections(monkeypatch)
    result = run("http://rebound.example/")
    assert result.outcome == "failed"
    assert "allow_private" in result.detail
    assert connected == []


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request goes where its address says."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    result, got = send()
    assert result.outcome == "done"
    assert len(got) == 1


# -- secrets ------------------------------------------------------------------------------------------------------


def echo(request: web.Request) -> Awaitable[web.StreamResponse]:
    """A receiver that repeats everything it knows."""
    said = f"{request.url} {request.path_qs} {dict(request.headers)}"
    return answering(400, said)(request)


def test_a_receiver_that_repeats_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the delivery log nor the log of the program has the address, the secret, or a header."""
    caplog.set_level(logging.DEBUG)
    secrets = {"secret": "whsec_c2VjcmV0LXNlY3JldA==", "headers": {"Authorization": "Bearer t0ken-t0ken"}}
    result, _ = send(echo, path="/services/T000/B000/XXXXabcdefgh?access_token=quite-secret", **secrets)
    assert result.outcome == "failed"
    for hidden in ("XXXXabcdefgh", "quite-secret", "t0ken-t0ken", "c2VjcmV0"):
        assert hidden not in result.detail
        assert hidden not in caplog.text


def test_an_unexpected_error_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors of libraries often have the address in their text."""
    url = "https://hooks.example.com/services/very-secret"

    def fail(*_: object) -> None:
        raise RuntimeError(f"cannot use {url}")

    monkeypatch.setattr(webhook, "_check_url", fail)
    tables = {
        "rules": {"r": {"on": "session.waiting", "do": ["hook"]}},
        "actions": {"hook": {"type": "webhook", "url": url}},
    }
    rig = Rig(tmp_path, tables)
    rig.runner._actions = {"webhook": Webhook(MASK)}
    rig.turn(1)
    rig.look()
    (attempt,) = rig.store.rules.attempts(1)
    assert attempt.outcome == "retry"
    assert "RuntimeError" in attempt.detail
    assert "very-secret" not in attempt.detail + caplog.text
    assert not any(b"very-secret" in path.read_bytes() for path in rig.settings.home.rglob("*") if path.is_file())
    rig.close()


def test_a_wrong_secret_is_said() -> None:
    result, got = send(secret="whsec_!")
    assert result.outcome == "failed"
    assert "secret" in result.detail
    assert got == []


def test_secrets_of_sessions_are_masked() -> None:
    """What a session says is masked before it leaves."""
    body, _ = Webhook(MASK)._request(message(event(f"Use {SECRET}"), type="webhook", url="http://127.0.0.1:9/"), NOW)
    assert b"Use " in body
    assert SECRET.encode() not in body
