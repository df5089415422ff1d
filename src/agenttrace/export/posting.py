"""HTTP requests to a destination, and what their answers mean for the spans.

A status means the same for all destinations. 429, 502 and 503 are retried, and so is a request that never reached the
server. 413 is too large. A wrong key or address (401, 403, 404, 405, a redirect) is no fault of the spans, which wait
until it is corrected. Other 4xx are final. A request that was sent and not answered is unknown, and so is one with an
answer of 500 or 504: the server may have stored the spans. Only destinations that ignore repeats get such spans again.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp

from agenttrace.destinations import DestinationSettings, keys_hidden, shown_address
from agenttrace.export.destination import Delivery, Verdict

#: Smaller bodies are sent as they are.
_WORTH_COMPRESSING = 1_024
_GZIP_LEVEL = 5
_RETRYABLE = (408, 425, 429, 502, 503)
_BLOCKED = (401, 402, 403, 404, 405, 407)
#: Servers close idle connections after five seconds and more; a request that crosses with that is never answered.
_IDLE_SECONDS = 4.0
#: The most bytes of an answer that are read, and the most characters of it that are shown.
_ANSWER_BYTES = 1 << 20
REASON_CHARS = 500
_LONGEST_WAIT = 3600.0


class HttpAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: Masks the keys that were sent, which some servers repeat, in everything that is shown.
    hide: Callable[[str], str] = str


class Poster:
    """Sends requests to one server over its own connections."""

    def __init__(self, headers: Mapping[str, str], timeout: float, hide: Callable[[str], str] = str) -> None:
        self._headers = dict(headers)
        self._hide = hide
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 10.0))
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, compress: bool = True, method: str = "POST"
    ) -> tuple[HttpAnswer | None, Delivery]:
        """Send a body; the answer, if there is one, and what its status means."""
        sent = dict(headers)
        if compress and len(body) >= _WORTH_COMPRESSING:
            body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL)
            sent["Content-Encoding"] = "gzip"
        try:
            answer = await self._ask(method, url, body, sent)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Nothing was sent: there was no connection.
            return None, Delivery(verdict="retry", reason=f"not reached: {self._shown(error)}")
        except ValueError:
            # Also what aiohttp raises for an invalid address. Its text might contain a key.
            return None, Delivery(verdict="blocked", reason="the url or a header of the destination cannot be used")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, Delivery(verdict="unknown", reason=f"no answer: {self._shown(error)}", sent_bytes=len(body))
        return answer, _meaning(answer, len(body))

    async def get(self, url: str, *, most: int = _ANSWER_BYTES) -> HttpAnswer | None:
        """Get a resource: its first ``most`` bytes; None where there is no answer."""
        try:
            return await self._ask("GET", url, None, {}, most)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def _ask(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int = _ANSWER_BYTES
    ) -> HttpAnswer:
        session = self._opened()
        # A redirect would send spans and keys to a server that is not in the settings.
        async with session.request(method, url, data=body, headers=headers, allow_redirects=False) as response:
            body = await _read(response.content, most)
            return HttpAnswer(response.status, response.headers.copy(), body, self._hide)

    def _shown(self, error: BaseException) -> str:
        return self._hide(str(error) or type(error).__name__)[:REASON_CHARS]

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS)
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=self._timeout, connector=connector, trust_env=True
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(stream: aiohttp.StreamReader, most: int) -> bytes:
    """The first bytes of an answer; one call of ``read`` may return fewer than there are."""
    found = bytearray()
    while len(found) < most:
        piece = await stream.read(most - len(found))
        if not piece:
            break
        found += piece
    return bytes(found)


def _meaning(answer: HttpAnswer, sent_bytes: int) -> Delivery:
    verdict = verdict_of(answer.status)
    if verdict == "accepted":
        return Delivery(verdict=verdict, sent_bytes=sent_bytes)
    wait = retry_after(answer.headers.get("Retry-After"), datetime.now(UTC)) if verdict == "retry" else None
    broke_down = verdict == "unknown" and answer.status != 504
    return Delivery(
        verdict=verdict, reason=reason_of(answer), retry_after=wait, sent_bytes=sent_bytes, broke_down=broke_down
    )


def verdict_of(status: int) -> Verdict:
    """What a status means."""
    if 200 <= status < 300:
        return "accepted"
    if status in _RETRYABLE:
        return "retry"
    if status == 413:
        return "too_large"
    if status in _BLOCKED or 300 <= status < 400:
        return "blocked"
    return "unknown" if status >= 500 else "refused"


def reason_of(answer: HttpAnswer) -> str:
    """The status and the beginning of the body, in one line."""
    return f"{answer.status} {line_of(answer, answer.body.decode('utf-8', 'replace'))}".strip()


def line_of(answer: HttpAnswer, text: str) -> str:
    """The beginning of a text of the server, in one line; keys are masked before it is cut."""
    line = " ".join(answer.hide(text)[: 4 * REASON_CHARS].split())
    return "".join(char if char.isprintable() else "?" for char in line)[:REASON_CHARS]


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds from a ``Retry-After``, which is a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_WAIT) if seconds == seconds else None


class HttpDestination:
    """A destination behind HTTP: its settings and its connections."""

    def __init__(self, settings: DestinationSettings, headers: Mapping[str, str]) -> None:
        self._settings = settings
        configured = {name: value.strip() for name, value in settings.headers.items()}
        self._poster = Poster(configured | dict(headers), settings.timeout_seconds, keys_hidden(settings))
        self.max_spans = settings.batch_spans

    async def close(self) -> None:
        """Close all connections."""
        await self._poster.close()


def problem(answer: HttpAnswer | None, delivery: Delivery, *, key: str, address: str) -> str:
    """Why a check failed, and in the last sentence what to do; ``key`` and ``address`` name the settings."""
    if answer is None:
        return f"{delivery.reason}. {_unanswered(delivery, address)}"
    if answer.status in (401, 403):
        return f"it refuses the key ({delivery.reason}). Check {key}."
    if answer.status in (404, 405):
        return f"nothing accepts spans there ({delivery.reason}). Check {address}."
    if 300 <= answer.status < 400:
        place = shown_address(answer.hide(answer.headers.get("Location", "another address")))
        return f"it redirects to {place}, which is not followed. Set url to the final address."
    if delivery.verdict in ("retry", "unknown"):
        return f"it cannot accept anything now ({delivery.reason}). Try again later, or look at its log."
    advice = f"Check {address}, and that it accepts OTLP over HTTP."
    return f"it refuses a request without spans ({delivery.reason}). {advice}"


def _unanswered(delivery: Delivery, address: str) -> str:
    if delivery.verdict == "retry":
        return f"Start it, or check {address}."
    if delivery.verdict == "unknown":
        return "Look at its log, or raise timeout_seconds."
    return f"Check {address} and headers."
