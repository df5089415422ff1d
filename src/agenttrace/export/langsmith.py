"""LangSmith: runs in a multipart body, each sent once and complete, because what came first of a run stays.

What is known of the server (docs.langchain.com/langsmith/trace-with-api; langsmith-sdk #1529; what was measured in
GoogleCloudPlatform/BigQuery-Agent-Analytics-SDK #414):

- A run that it has is ignored; when a request has nothing but such runs it answers 409. So everything is there.
- It takes 100 runs and 20 MB in a request, and zstd where ``/info`` says so.
- Its cloud takes runs that began within 24 hours of now, and refuses a whole request for one that did not
  (langsmith-data-migration-tool #152). Those runs are then refused here, and the others sent without them.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence, Set

import msgspec
import zstandard

from agenttrace.destinations import DestinationSettings, keys_hidden, shown_address
from agenttrace.export.destination import Delivery
from agenttrace.export.json_values import object_of
from agenttrace.export.langsmith_runs import Run, run_of
from agenttrace.export.posting import Answer, Poster, reason_of
from agenttrace.export.span import ExportSpan

DEFAULT_URL = "https://api.smith.langchain.com"
MOST_RUNS = 100
MOST_BYTES = 20 * 1024 * 1024
_WINDOW_MICROS = 24 * 3600 * 1_000_000
#: How a refusal reads that is about the time of a run. The sentence itself is nowhere written down.
_ABOUT_TIME = re.compile(rb"start_time|time window|too old|in the past|\bhours?\b", re.IGNORECASE)
_WORTH_COMPRESSING = 1_024


class LangSmithDestination:
    """One project in one LangSmith workspace."""

    ignores_repeats = True
    can_read_back = False
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._url = (settings.url or DEFAULT_URL).rstrip("/")
        headers = {name: value.strip() for name, value in settings.headers.items()}
        headers["x-api-key"] = (settings.api_key or "").strip()
        self._poster = Poster(headers, settings.timeout_seconds, keys_hidden(settings))
        self._clock = clock
        self.max_spans = min(settings.batch_spans, MOST_RUNS)
        self._most_bytes = min(settings.max_body_bytes, MOST_BYTES)
        #: Whether the server takes zstd; None: not asked yet.
        self._zstd: bool | None = None
        #: What it said when it refused runs because of when they were.
        self._refusal = ""

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send runs in one request; where some are too old for the server, the others in a second one."""
        if not self._refusal:
            answer, delivery = await self._sent(spans)
            if not (_about_time(answer, delivery) and self._old(spans)):
                return delivery
            self._refusal = f"LangSmith takes only runs that began within 24 hours of being sent: {delivery.reason}"
        old = self._old(spans)
        rest = [span for span in spans if span.span_id not in old]
        delivery = (await self._sent(rest))[1] if rest else Delivery(verdict="accepted")
        if delivery.verdict != "accepted":
            return delivery
        return msgspec.structs.replace(delivery, rejected=dict.fromkeys(old, self._refusal))

    async def _sent(self, spans: Sequence[ExportSpan]) -> tuple[Answer | None, Delivery]:
        boundary = secrets.token_hex(16)
        body = await asyncio.to_thread(self._body, spans, boundary)
        if len(body) > self._most_bytes and len(spans) > 1:
            return None, Delivery(verdict="too_large", reason=f"{len(body)} bytes in one request")
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        if len(body) >= _WORTH_COMPRESSING and await self._takes_zstd():
            headers |= {"Content-Encoding": "zstd", "X-Pre-Compressed-Size": str(len(body))}
            body = await asyncio.to_thread(zstandard.ZstdCompressor(level=3).compress, body)
            headers["X-Post-Compressed-Size"] = str(len(body))
        answer, delivery = await self._poster.post(f"{self._url}/runs/multipart", body, headers, compress=False)
        if answer is not None and answer.status == 409:
            return answer, Delivery(verdict="accepted", reason=reason_of(answer), sent_bytes=delivery.sent_bytes)
        return answer, delivery

    def _body(self, spans: Iterable[ExportSpan], boundary: str) -> bytes:
        return multipart((run_of(span, self._settings) for span in spans), boundary)

    def _old(self, spans: Iterable[ExportSpan]) -> set[bytes]:
        now = int(self._clock() * 1_000_000)
        return {span.span_id for span in spans if abs(now - max(step.start for step in span.path)) > _WINDOW_MICROS}

    async def _takes_zstd(self) -> bool:
        if self._zstd is None:
            answer = await self._poster.get(f"{self._url}/info")
            if answer is None or answer.status >= 500:
                return False  # it is asked again with the next request
            flags = object_of(object_of(answer.body).get("instance_flags"))
            self._zstd = flags.get("zstd_compression_enabled") is True
        return self._zstd

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Never asked for: a run that is sent again is ignored."""
        return None

    async def check(self) -> str:
        """Ask for one project, which needs a key that is right."""
        answer = await self._poster.get(f"{self._url}/sessions?limit=1")
        if answer is None:
            return f"{shown_address(self._url)} does not answer. Check url, and the network."
        if answer.status in (401, 403):
            return (
                f"it refuses the key ({reason_of(answer)}). Check api_key; for a key with several workspaces "
                'set headers = { "x-tenant-id" = "…" }.'
            )
        return "" if answer.status == 200 else f"it is no LangSmith ({reason_of(answer)}). Check url."

    async def close(self) -> None:
        """Close all connections."""
        await self._poster.close()


def multipart(runs: Iterable[Run], boundary: str) -> bytes:
    """Runs as a multipart body: for each a part of its own and parts for what went in, came out and so on."""
    pieces: list[bytes] = []
    for run in runs:
        for name, value in run.parts():
            head = (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n'
                f"Content-Type: application/json\r\nContent-Length: {len(value)}\r\n\r\n"
            )
            pieces += (head.encode(), value, b"\r\n")
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces)


def _about_time(answer: Answer | None, delivery: Delivery) -> bool:
    return delivery.verdict == "refused" and answer is not None and _ABOUT_TIME.search(answer.body) is not None
