"""Any backend that takes OTLP over HTTP: a collector, Jaeger, Tempo, Phoenix and many more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from urllib.parse import urlsplit, urlunsplit

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agenttrace.destinations import DestinationSettings, keys_hidden, shown_address
from agenttrace.export import conventions as c
from agenttrace.export import phoenix
from agenttrace.export.advice import problem
from agenttrace.export.destination import Delivery
from agenttrace.export.genai import GenAiSpan, described
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.export.posting import Answer, Poster, told_of
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import shortened

PATH = "/v1/traces"
HEADERS = {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}


class OtlpDestination:
    """Sends GenAI spans; to Phoenix also what it shows of them.

    A Phoenix shows in its answers. Before the first one any server may be one: spans that an earlier process brought
    there are asked for before anything else is sent, and who cannot answer that is none.
    """

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self._url = traces_url(settings.url or "")
        headers = {name: value.strip() for name, value in settings.headers.items()}
        self._poster = Poster(headers, settings.timeout_seconds, keys_hidden(settings))
        parts = urlsplit(self._url)
        base = urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(PATH), "", ""))
        self._reader = phoenix.Reader(self._poster, base, settings.project)
        #: None as long as nobody knows.
        self._is_phoenix: bool | None = None
        self.ignores_repeats = settings.repeats == "ignored"
        self.can_read_back = True
        self.accepted_is_stored = False
        self.max_spans = settings.batch_spans

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request."""
        body = await asyncio.to_thread(request_bytes, spans, self._described, self._resource())
        answer, delivery = await post_spans(
            self._poster, self._url, body, HEADERS, spans, self._settings.max_body_bytes
        )
        self._learn(answer)
        return delivery

    def _described(self, span: ExportSpan) -> GenAiSpan:
        told = described(span)
        if self._settings.user:
            told.attributes[c.USER_ID] = shortened(self._settings.user)
        # Only Phoenix and its kin have projects.
        if self._is_phoenix or (self._is_phoenix is None and self._settings.project):
            told.attributes.update(phoenix.openinference(span))
        return told

    def _resource(self) -> dict[str, str]:
        told = {phoenix.PROJECT: self._settings.project, c.DEPLOYMENT_ENVIRONMENT: self._settings.environment}
        return {name: shortened(value) for name, value in told.items() if value}

    def _learn(self, answer: Answer | None) -> None:
        """See from an answer what is at the other end, and what that means for what was sent."""
        shown = phoenix.is_phoenix(answer) if answer is not None else None
        if shown is not None:
            self._is_phoenix = shown
            self.ignores_repeats = shown or self._settings.repeats == "ignored"
        self.can_read_back = self._is_phoenix is not False and self._reader.readable
        self.accepted_is_stored = not self.can_read_back

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans a Phoenix has; other backends cannot tell."""
        if not self.can_read_back:
            return None
        found = await self._reader.stored(spans)
        self._learn(None)
        return found

    async def check(self) -> str:
        """Send a request without spans: valid, and nothing is stored."""
        answer, delivery = await self._poster.post(self._url, b"", HEADERS)
        self._learn(answer)
        if delivery.verdict == "accepted":
            return ""
        address = f"url: spans go to {shown_address(self._url)}, and most backends take them at {PATH}"
        return problem(answer, delivery, key="headers, where its key belongs", address=address)

    async def close(self) -> None:
        """Close all connections."""
        await self._poster.close()


def traces_url(url: str) -> str:
    """Where spans are sent: the address as given, or the usual path where it has none."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") else urlunsplit((parts.scheme, parts.netloc, PATH, parts.query, ""))


async def post_spans(
    poster: Poster, url: str, body: bytes, headers: dict[str, str], spans: Sequence[ExportSpan], most: int
) -> tuple[Answer | None, Delivery]:
    """Post a request and read what its answer says of single spans; one that is too large stays here."""
    if len(body) > most and len(spans) > 1:
        return None, Delivery(verdict="too_large", reason=f"{len(body)} bytes are more than max_body_bytes, {most}")
    answer, delivery = await poster.post(url, body, headers)
    if answer is None or delivery.verdict != "accepted":
        return answer, delivery
    rejected, reason = _partial_success(answer)
    if rejected:
        count = min(rejected, len(spans))
        delivery = msgspec.structs.replace(delivery, reason=reason, rejected_count=count)
    return answer, delivery


def _partial_success(answer: Answer) -> tuple[int, str]:
    """How many spans were refused, and why. A 200 whose body cannot be read has accepted all."""
    found = ExportTraceServiceResponse()
    try:
        if "json" in answer.headers.get("Content-Type", ""):
            json_format.Parse(answer.body, found, ignore_unknown_fields=True)
        else:
            found.ParseFromString(answer.body)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError):
        return 0, ""
    refused = found.partial_success
    return max(refused.rejected_spans, 0), told_of(answer, refused.error_message)
