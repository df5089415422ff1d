"""LangSmith: runs in a multipart body, each sent once and complete, because the first version of a run stays.

How the server behaves (docs.langchain.com/langsmith/trace-with-api; langsmith-sdk #1529; measurements in
GoogleCloudPlatform/BigQuery-Agent-Analytics-SDK #414):

- It ignores a run that it has; the answer to a request of only such runs is 409, which counts as accepted.
- It accepts 100 runs and 20 MB in a request, and zstd where ``/info`` says so.
- Its cloud accepts runs that began within 24 hours of now, and refuses a whole request for one that did not
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

from agenttrace.destinations import DestinationSettings, shown_address
from agenttrace.export.annotations import ExportAnnotation
from agenttrace.export.destination import Delivery
from agenttrace.export.langsmith_feedback import feedback_id, feedback_of
from agenttrace.export.langsmith_runs import Run, run_of
from agenttrace.export.posting import HttpAnswer, HttpDestination, reason_of
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import REPLACEMENT, encoded, object_of

DEFAULT_URL = "https://api.smith.langchain.com"
MOST_RUNS = 100
MOST_BYTES = 20 * 1024 * 1024
_WINDOW_MICROS = 24 * 3600 * 1_000_000
#: Matches a refusal because of the time of a run. The exact sentence is not documented.
_ABOUT_TIME = re.compile(rb"start_time|time window|too old|in the past|\bhours?\b", re.IGNORECASE)
_WORTH_COMPRESSING = 1_024


class LangSmithDestination(HttpDestination):
    """One project in one LangSmith workspace."""

    ignores_repeats = True
    can_read_back = False
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(settings, {"x-api-key": (settings.api_key or "").strip()})
        self._url = (settings.url or DEFAULT_URL).rstrip("/")
        self._clock = clock
        self.max_spans = min(settings.batch_spans, MOST_RUNS)
        self._most_bytes = min(settings.max_body_bytes, MOST_BYTES)
        #: Whether the server accepts zstd; None: not known yet.
        self._zstd: bool | None = None
        #: The reason of the first refusal because of the time of a run.
        self._refusal = ""

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send runs in one request; where some are too old for the server, the others in a second one."""
        if not self._refusal:
            answer, delivery = await self._sent(spans)
            if not (_about_time(answer, delivery) and self._old(spans)):
                return delivery
            self._refusal = f"LangSmith accepts only runs that began within 24 hours of being sent: {delivery.reason}"
        old = self._old(spans)
        rest = [span for span in spans if span.span_id not in old]
        delivery = (await self._sent(rest))[1] if rest else Delivery(verdict="accepted")
        if delivery.verdict != "accepted":
            return delivery
        return msgspec.structs.replace(delivery, rejected=dict.fromkeys(old, self._refusal))

    async def _sent(self, spans: Sequence[ExportSpan]) -> tuple[HttpAnswer | None, Delivery]:
        boundary = secrets.token_hex(16)
        runs = (run_of(span, self._settings) for span in spans)
        body = await asyncio.to_thread(multipart, runs, boundary)
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

    def _old(self, spans: Iterable[ExportSpan]) -> set[bytes]:
        now = int(self._clock() * 1_000_000)
        return {span.span_id for span in spans if abs(now - max(step.start for step in span.path)) > _WINDOW_MICROS}

    async def _takes_zstd(self) -> bool:
        if self._zstd is None:
            answer = await self._poster.get(f"{self._url}/info")
            if answer is None or answer.status >= 500:
                return False  # asked again with the next request
            flags = object_of(object_of(answer.body).get("instance_flags"))
            self._zstd = flags.get("zstd_compression_enabled") is True
        return self._zstd

    async def send_annotation(self, annotation: ExportAnnotation) -> Delivery:
        """Store feedback; a changed one is updated, as the server keeps the first version of an id."""
        feedback = feedback_of(annotation, self._settings)
        if annotation.known:
            changed = {name: feedback[name] for name in ("score", "value", "comment")}
            answer, delivery = await self._feedback("PATCH", f"/{feedback['id']}", changed)
            if answer is None or answer.status != 404:
                return delivery
        answer, delivery = await self._feedback("POST", "", feedback)
        if annotation.known and answer is not None and answer.status == 409:
            # It is there after all: the update is tried again.
            return Delivery(verdict="retry", reason="not updated: the server did not find what it has")
        return _known(answer, delivery, 409)

    async def remove_annotation(self, annotation_id: bytes) -> Delivery:
        """Remove feedback."""
        answer, delivery = await self._feedback("DELETE", f"/{feedback_id(annotation_id, self._settings)}", None)
        return _known(answer, delivery, 404)

    async def _feedback(self, method: str, path: str, body: object) -> tuple[HttpAnswer | None, Delivery]:
        data = b"" if body is None else encoded(body, REPLACEMENT)
        headers = {"Content-Type": "application/json"}
        return await self._poster.post(f"{self._url}/feedback{path}", data, headers, compress=False, method=method)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Not used: a run that is sent again is ignored."""
        return None

    async def check(self) -> str:
        """Get one project, which needs a valid key."""
        answer = await self._poster.get(f"{self._url}/sessions?limit=1")
        if answer is None:
            return f"{shown_address(self._url)} does not answer. Check url, and the network."
        if answer.status in (401, 403):
            return (
                f"it refuses the key ({reason_of(answer)}). Check api_key; for a key with several workspaces "
                'set headers = { "x-tenant-id" = "…" }.'
            )
        return "" if answer.status == 200 else f"it is no LangSmith ({reason_of(answer)}). Check url."


def multipart(runs: Iterable[Run], boundary: str) -> bytes:
    """Runs as a multipart body: for each one part, and parts for its inputs, outputs and so on."""
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


def _about_time(answer: HttpAnswer | None, delivery: Delivery) -> bool:
    return delivery.verdict == "refused" and answer is not None and _ABOUT_TIME.search(answer.body) is not None


def _known(answer: HttpAnswer | None, delivery: Delivery, status: int) -> Delivery:
    """What a request came to, whose answer with this status says that nothing is left to do."""
    return Delivery(verdict="accepted") if answer is not None and answer.status == status else delivery
