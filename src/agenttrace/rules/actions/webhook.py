"""Webhooks: a message as a POST request, signed, with the firing's idempotency key.

Requests go to public addresses only, unless the action says ``allow_private``. The address is checked when the socket
for it is made, so whatever a name leads to, and however often it is asked for: what is connected to was checked.
Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agenttrace.config.rules import ActionSettings
from agenttrace.rules.actions.addresses import is_public
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.actions.messages import (
    MaskValue,
    chat_body,
    dingtalk_query,
    message_fields,
    webhook_signature,
)

#: Statuses after which the same request may succeed later. A wrong key or address is corrected by the user.
_RETRYABLE = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 425, 429})
_ANSWER_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 500


class PrivateAddressError(OSError):
    """The name of a webhook leads to this machine or a private network."""


class Webhook:
    """Sends messages to addresses."""

    def __init__(self, mask: MaskValue, clock: Callable[[], float] = time.time) -> None:
        self._mask = mask
        self._clock = clock

    async def run(self, message: Message) -> ActionResult:
        """One request."""
        action, now = message.action, self._clock()
        url = action.url or ""
        if action.format == "dingtalk" and action.secret:
            url += ("&" if "?" in url else "?") + dingtalk_query(action.secret, now)
        timeout = aiohttp.ClientTimeout(total=action.timeout_seconds)
        connector = _connector(action)
        try:
            body, headers = self._request(message, now)
            _check_url(url)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session,
                session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                text = (await answer.content.read(_ANSWER_BYTES)).decode("utf-8", "replace")
                return _result(action, answer.status, answer.headers.get("Retry-After"), text, now)
        except PrivateAddressError as error:
            return ActionResult("failed", f"{error}. Set allow_private = true in [actions.{action.name}] to allow it.")
        except ValueError:
            # The text of the error might contain the address, which is often a secret.
            return ActionResult("failed", "the url, the secret or a header of the action cannot be used")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            if isinstance(cause, PrivateAddressError):
                return ActionResult("failed", f"{cause}. Set allow_private = true in [actions.{action.name}].")
            return ActionResult("retry", f"not delivered: {_safe(action, f'{type(error).__name__}: {error}')}")
        finally:
            await connector.close()

    def _request(self, message: Message, now: float) -> tuple[bytes, dict[str, str]]:
        action, key = message.action, message.idempotency_key
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "AgentTrace",
            "Idempotency-Key": key,
            **action.headers,
        }
        if action.format != "json":
            return _encoded(chat_body(action.format, message, self._mask, action.secret, now)), headers
        body = _encoded(message_fields(message, self._mask))
        headers |= {"webhook-id": key, "webhook-timestamp": str(int(now))}
        if action.secret:
            headers["webhook-signature"] = webhook_signature(action.secret, key, int(now), body)
        return body, headers


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _result(action: ActionSettings, status: int, retry_after: str | None, text: str, now: float) -> ActionResult:
    shown = _safe(action, " ".join(text.split()))[:_SHOWN_CHARACTERS]
    detail = f"HTTP {status}{': ' + shown if shown else ''}"
    if 200 <= status < 300:
        refused = _chat_refusal(action, text)
        # A rate limit of a chat service is not a status.
        return ActionResult("done", detail) if refused is None else ActionResult("retry", f"{detail} ({refused})")
    if status >= 500 or status in _RETRYABLE:
        return ActionResult("retry", detail, retry_after=_seconds(retry_after, now))
    hint = "; redirects are not followed" if 300 <= status < 400 else ""
    return ActionResult("failed", f"{detail}{hint}")


def _chat_refusal(action: ActionSettings, text: str) -> str | None:
    """DingTalk and Feishu refuse a message with status 200."""
    if action.format not in ("dingtalk", "feishu"):
        return None
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    code = answer.get("errcode" if action.format == "dingtalk" else "code", 0) if isinstance(answer, dict) else 0
    return None if code in (0, None) else f"code {code}"


def _seconds(text: str | None, now: float) -> float | None:
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _safe(action: ActionSettings, text: str) -> str:
    """A text without what the action must not show: the address of a webhook is its key."""
    for secret in sorted(_secrets(action), key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, "[masked:key]")
    return text


def _secrets(action: ActionSettings) -> set[str]:
    """The address of an action and its parts, but for the host, and everything else that only the receiver knows."""
    parts = urlsplit(action.url or "")
    found = {action.url or "", parts.path, parts.query, parts.username or "", parts.password or ""}
    found |= {value for values in parse_qs(parts.query).values() for value in values}
    found |= {each for each in parts.path.split("/") if len(each) >= 8}
    for given in (action.secret or "", *action.headers.values()):
        found |= {given, given.removeprefix("whsec_"), *given.split()}
    return found


# -- addresses ----------------------------------------------------------------------------------------------------


def _check_url(url: str) -> None:
    """Refuse what is no address of HTTP, as aiohttp reads it."""
    parsed = URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.raw_host:
        raise ValueError("not an address of HTTP")


def _connector(action: ActionSettings) -> aiohttp.TCPConnector:
    if action.allow_private:
        return aiohttp.TCPConnector(limit=1)
    return aiohttp.TCPConnector(resolver=_PublicResolver(), socket_factory=_public_socket, limit=1)


def _check_public(address: str, name: str) -> None:
    if not is_public(address):
        raise PrivateAddressError(f"{name} is an address of this machine or a private network")


def _public_socket(place: AddrInfoType) -> socket.socket:
    """A socket for a public address; numbers are not resolved, so they are checked only here."""
    kind, type_, protocol, _, address = place
    _check_public(str(address[0]), str(address[0]))
    return socket.socket(kind, type_, protocol)


class _PublicResolver(AbstractResolver):
    """Resolves names to public addresses only: one that leads to others as well is refused."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results = []
        for kind, _, protocol, _, place in found:
            address = str(place[0])
            _check_public(address, host)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    async def close(self) -> None:
        """Nothing is open."""
