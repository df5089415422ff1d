"""One HTTP request to a destination, and what its answer means for the spans in it.

What a status means is the same for all that speak HTTP: 429, 502 and 503 may be tried again, and so may whatever never
reached the server; 413 is too large; a wrong key or address (401, 403, 404, 405, a redirect) is no fault of the spans,
which wait until it is put right; other refusals are final. A request that was sent and not answered is the case in
which nobody knows, and so is one for which a proxy got no answer (504) or that broke the server (500): for destinations
that ignore repeats the difference does not matter, for others it decides whether there are duplicates.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp

from agenttrace.export.destination import Delivery, Verdict

#: Smaller bodies are sent as they are.
_WORTH_COMPRESSING = 1_024
_GZIP_LEVEL = 5
_RETRYABLE = (408, 425, 429, 502, 503)
_BLOCKED = (401, 402, 403, 404, 405, 407)
#: Servers close idle connections after five seconds and more; a request that crosses with that is never answered.
_IDLE_SECONDS = 4.0
#: Of an answer, this much is read and this much is told.
_ANSWER_BYTES = 1 << 20
REASON_CHARS = 500
_LONGEST_WAIT = 3600.0


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: Hides the keys that the server was given, which some repeat; for whatever of this is told.
    hide: Callable[[str], str] = str


class Poster:
    """Posts bodies to one server and keeps its connections."""

    def __init__(self, headers: Mapping[str, str], timeout: float, hide: Callable[[str], str] = str) -> None:
        self._headers = dict(headers)
        self._hide = hide
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 10.0))
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, compress: bool = True
    ) -> tuple[Answer | None, Delivery]:
        """Send a body; the answer, if there was one, and what it means before the body of the answer is looked at."""
        sent = dict(headers)
        if compress and len(body) >= _WORTH_COMPRESSING:
            body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL)
            sent["Content-Encoding"] = "gzip"
        try:
            answer = await self._ask("POST", url, body, sent)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Nothing was sent: there was no connection to send it over.
            return None, Delivery(verdict="retry", reason=f"not reached: {self._told(error)}")
        except ValueError:
            # Also what aiohttp raises for an address that is none. The text might hold a key.
            return None, Delivery(verdict="blocked", reason="the url or a header of the destination cannot be used")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, Delivery(verdict="unknown", reason=f"no answer: {self._told(error)}", sent_bytes=len(body))
        return answer, _meaning(answer, len(body))

    async def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, most: int = _ANSWER_BYTES
    ) -> Answer | None:
        """Ask for something; None where there is no answer, and of a long one its first ``most`` bytes."""
        try:
            return await self._ask("GET", url, None, dict(headers or {}), most)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def _ask(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int = _ANSWER_BYTES
    ) -> Answer:
        session = self._opened()
        # A redirect would send spans and keys to somebody whom nobody has named.
        async with session.request(method, url, data=body, headers=headers, allow_redirects=False) as response:
            body = await _read(response.content, most)
            return Answer(response.status, response.headers.copy(), body, self._hide)

    def _told(self, error: BaseException) -> str:
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
    """The first bytes of an answer; one call of ``read`` may return less than there is."""
    found = bytearray()
    while len(found) < most:
        piece = await stream.read(most - len(found))
        if not piece:
            break
        found += piece
    return bytes(found)


def _meaning(answer: Answer, sent_bytes: int) -> Delivery:
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


def reason_of(answer: Answer) -> str:
    """The status and the beginning of what the server said, in one line."""
    return f"{answer.status} {told_of(answer, answer.body.decode('utf-8', 'replace'))}".strip()


def told_of(answer: Answer, text: str) -> str:
    """The beginning of something that the server said, in one line; its keys are hidden before it is cut."""
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
