"""Any backend that accepts OTLP over HTTP: a collector, Jaeger, Tempo, Phoenix and many more."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from urllib.parse import urlsplit, urlunsplit

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agenttrace.destinations import DestinationSettings, shown_address
from agenttrace.export import conventions as c
from agenttrace.export import phoenix
from agenttrace.export.destination import Delivery
from agenttrace.export.genai import GenAiSpan, described
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.export.posting import HttpAnswer, HttpDestination, line_of, problem
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import shortened

PATH = "/v1/traces"
PROTOBUF = {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}


class OtlpSender(HttpDestination, ABC):
    """Sends requests to one OTLP endpoint, and knows when one was last left without an answer."""

    #: Headers of requests with spans.
    headers: Mapping[str, str] = PROTOBUF

    def __init__(self, settings: DestinationSettings, url: str, keys: Mapping[str, str]) -> None:
        super().__init__(settings, keys)
        self._url = url
        #: When a request may last have left without an answer: from this process, or from one that was killed.
        self._doubt_at = time.monotonic()

    @abstractmethod
    def _described(self, span: ExportSpan) -> GenAiSpan:
        """The span as the backend reads it."""

    def _resource(self) -> dict[str, str]:
        """Attributes of all spans, beside those of the agent."""
        return {}

    async def _post(self, spans: Sequence[ExportSpan]) -> tuple[HttpAnswer | None, Delivery]:
        """Send one request, unless it is too large; the answer, and what it means for these spans."""
        body = await asyncio.to_thread(request_bytes, spans, self._described, self._resource())
        most = self._settings.max_body_bytes
        if len(body) > most and len(spans) > 1:
            return None, Delivery(verdict="too_large", reason=f"{len(body)} bytes are more than max_body_bytes, {most}")
        delivery: Delivery | None = None
        try:
            answer, delivery = await self._poster.post(self._url, body, self.headers)
            if answer is not None:
                delivery = self._meaning(answer, delivery, len(spans))
        finally:
            # Also where it was cancelled before the answer.
            if delivery is None or delivery.verdict == "unknown":
                self._doubt_at = time.monotonic()
        return answer, delivery

    def _meaning(self, answer: HttpAnswer, delivery: Delivery, sent: int) -> Delivery:
        """What the body of an answer adds to its status: spans that were refused."""
        if delivery.verdict != "accepted":
            return delivery
        rejected, reason = _partial_success(answer)
        count = min(rejected, sent)
        return msgspec.structs.replace(delivery, reason=reason, rejected_count=count) if count else delivery


class OtlpDestination(OtlpSender):
    """Sends GenAI spans; to Phoenix also the attributes that it shows.

    A Phoenix is recognised by its answers. Before the first answer any server may be one: spans that an earlier process
    sent are read back before anything else is sent, and a server that cannot answer that is none.
    """

    def __init__(self, settings: DestinationSettings) -> None:
        super().__init__(settings, traces_url(settings.url or ""), {})
        parts = urlsplit(self._url)
        base = urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(PATH), "", ""))
        self._reader = phoenix.PhoenixReader(self._poster, base, settings.project)
        #: None until an answer shows it.
        self._is_phoenix: bool | None = None
        self.ignores_repeats = settings.repeats == "ignored"
        self.can_read_back = True
        self.accepted_is_stored = False

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request."""
        answer, delivery = await self._post(spans)
        self._learn(answer)
        return delivery

    def _described(self, span: ExportSpan) -> GenAiSpan:
        found = described(span)
        if self._settings.user:
            found.attributes[c.USER_ID] = shortened(self._settings.user)
        # Only Phoenix and backends like it have projects.
        if self._is_phoenix or (self._is_phoenix is None and self._settings.project):
            found.attributes.update(phoenix.openinference(span))
        return found

    def _resource(self) -> dict[str, str]:
        found = {phoenix.PROJECT: self._settings.project, c.DEPLOYMENT_ENVIRONMENT: self._settings.environment}
        return {name: shortened(value) for name, value in found.items() if value}

    def _learn(self, answer: HttpAnswer | None) -> None:
        """Recognise the server by its answer, and what that means for sent spans."""
        shown = phoenix.is_phoenix(answer) if answer is not None else None
        if shown is not None:
            self._is_phoenix = shown
            self.ignores_repeats = shown or self._settings.repeats == "ignored"
        self.can_read_back = self._is_phoenix is not False and self._reader.readable
        self.accepted_is_stored = not self.can_read_back

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans a Phoenix has; other backends cannot be asked."""
        if not self.can_read_back:
            return None
        found = await self._reader.stored(spans)
        self._learn(None)
        return found

    async def check(self) -> str:
        """Send a request without spans, which is valid and stores nothing."""
        answer, delivery = await self._poster.post(self._url, b"", self.headers)
        self._learn(answer)
        if delivery.verdict == "accepted":
            return ""
        address = f"url: spans are sent to {shown_address(self._url)}, and most backends accept them at {PATH}"
        return problem(answer, delivery, key="headers, where its key belongs", address=address)


def traces_url(url: str) -> str:
    """Where spans are sent: the address as given, or with the usual path where it has none."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") else urlunsplit((parts.scheme, parts.netloc, PATH, parts.query, ""))


def _partial_success(answer: HttpAnswer) -> tuple[int, str]:
    """How many spans were refused, and why. A 200 with a body that cannot be decoded has accepted all."""
    found = ExportTraceServiceResponse()
    try:
        if "json" in answer.headers.get("Content-Type", ""):
            json_format.Parse(answer.body, found, ignore_unknown_fields=True)
        else:
            found.ParseFromString(answer.body)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError):
        return 0, ""
    refused = found.partial_success
    return max(refused.rejected_spans, 0), line_of(answer, refused.error_message)
