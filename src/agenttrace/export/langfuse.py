"""Langfuse, by its OTLP endpoint.

Langfuse keeps a span as often as it is sent and corrects nothing: each is sent once, complete, and with everything that
its trace is known by. What became of a request without an answer is found out by reading its observations.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Sequence, Set

from agenttrace.destinations import DestinationSettings, keys_hidden, shown_address
from agenttrace.export.advice import problem
from agenttrace.export.destination import Delivery
from agenttrace.export.genai import GenAiSpan
from agenttrace.export.langfuse_reading import Reader
from agenttrace.export.langfuse_span import described
from agenttrace.export.otlp import HEADERS, post_spans
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.export.posting import Poster
from agenttrace.export.span import ExportSpan

CLOUD = "https://cloud.langfuse.com"
TRACES_PATH = "/api/public/otel/v1/traces"
#: Without it spans take up to 15 minutes to show up where they are read back.
INGESTION = {"x-langfuse-ingestion-version": "4"}
#: Seconds in which what was taken becomes readable: what is missing sooner may still turn up.
SETTLED_AFTER = 60.0

_ENVIRONMENT = re.compile(r"^(?!langfuse)[a-z0-9_-]{1,40}$")


class LangfuseDestination:
    """Sends to one project, which is that of the keys."""

    ignores_repeats = False
    can_read_back = True
    #: It is on its way through a queue, at least; more cannot be asked of those who send a lot.
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings, *, settled_after: float = SETTLED_AFTER) -> None:
        self._settings = settings
        self._base = base_url(settings.url or CLOUD)
        keys = f"{(settings.public_key or '').strip()}:{(settings.secret_key or '').strip()}"
        headers = {name: value.strip() for name, value in settings.headers.items()}
        headers["Authorization"] = f"Basic {b64encode(keys.encode('utf-8', 'replace')).decode()}"
        self._poster = Poster(headers, settings.timeout_seconds, keys_hidden(settings))
        self._reader = Reader(self._poster, self._base)
        self._settled_after = settled_after
        #: When something may last have left without an answer: from this process, or from one that was killed.
        self._doubt_at = time.monotonic()
        self.max_spans = settings.batch_spans

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request, which is taken or refused as a whole."""
        body = await asyncio.to_thread(request_bytes, spans, self._described, {})
        headers = {**HEADERS, **INGESTION}
        delivery: Delivery | None = None
        try:
            _, delivery = await post_spans(
                self._poster, self._base + TRACES_PATH, body, headers, spans, self._settings.max_body_bytes
            )
        finally:
            # Also where it was cancelled in the middle.
            if delivery is None or delivery.verdict == "unknown":
                self._doubt_at = time.monotonic()
        return delivery

    def _described(self, span: ExportSpan) -> GenAiSpan:
        return described(span, self._settings.user, self._settings.environment)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans can be read there; None also while some cannot and may still turn up."""
        found = await self._reader.observed(spans)
        if found is None or len(found) == len({span.span_id for span in spans}):
            return found
        settled = time.monotonic() - self._doubt_at >= self._settled_after
        return found if settled else None

    async def check(self) -> str:
        """Send a request without spans: keys and address are looked at, and nothing is stored."""
        environment = self._settings.environment
        if environment and not _ENVIRONMENT.match(environment):
            return (
                f"Langfuse takes no environment called {environment!r}. "
                "Use at most 40 small letters, digits, - and _, and do not begin with langfuse."
            )
        answer, delivery = await self._poster.post(self._base + TRACES_PATH, b"", {**HEADERS, **INGESTION})
        if delivery.verdict == "accepted":
            return ""
        address = f"url: it must be the address of a Langfuse, and is {shown_address(self._base)}"
        key = "public_key and secret_key, and that url is of the region they are for"
        return problem(answer, delivery, key=key, address=address)

    async def close(self) -> None:
        """Close all connections."""
        await self._poster.close()


def base_url(url: str) -> str:
    """The address of the server; those who paste that of its OTLP endpoint mean the same."""
    return url.rstrip("/").removesuffix(TRACES_PATH).removesuffix("/api/public/otel").rstrip("/")
