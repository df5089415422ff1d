"""Langfuse, by its OTLP endpoint, and by its public API to read back.

Langfuse stores a span as often as it is sent and updates nothing: each is sent once, complete, and with all attributes
of its trace. Whether it has the spans of a request without an answer is found out by reading its observations.
"""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from urllib.parse import urlencode

import msgspec

from agenttrace.destinations import DestinationSettings, shown_address
from agenttrace.export.annotations import ExportAnnotation
from agenttrace.export.destination import Delivery
from agenttrace.export.genai import GenAiSpan
from agenttrace.export.langfuse_score import score_id, score_of
from agenttrace.export.langfuse_span import described
from agenttrace.export.moments import iso
from agenttrace.export.otlp import PROTOBUF, OtlpSender
from agenttrace.export.posting import HttpAnswer, Poster, problem
from agenttrace.export.span import ExportSpan, by_trace
from agenttrace.export.wire_text import json_bytes

CLOUD = "https://cloud.langfuse.com"
SCORES_PATH = "/api/public/scores"
_JSON = {"Content-Type": "application/json"}
TRACES_PATH = "/api/public/otel/v1/traces"
#: Without it spans can be read only after up to 15 minutes.
INGESTION = {"x-langfuse-ingestion-version": "4"}
#: Seconds until an accepted span can be read: one that is missing sooner may still appear.
SETTLED_AFTER = 60.0

_ENVIRONMENT = re.compile(r"^(?!langfuse)[a-z0-9_-]{1,40}$")
#: Observations in one answer: the most there can be. They are read without texts, some 250 bytes each.
_PAGE = 1_000
#: The older endpoint has fewer, and always with their texts.
_OLD_PAGE = 50
_PAGES = 1_000
_ANSWER_BYTES = 64 << 20
#: Cloud allows 30 requests a minute on its free plan: one asks for several traces.
_TRACES = 25
#: In microseconds. Langfuse cuts times to milliseconds.
_MARGIN = 1_000_000


class LangfuseDestination(OtlpSender):
    """Sends to one project, which is that of the keys."""

    headers = PROTOBUF | INGESTION
    ignores_repeats = False
    can_read_back = True
    #: An accepted span is at least in a queue of the server; reading back everything would be too many requests.
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings, *, settled_after: float = SETTLED_AFTER) -> None:
        self._base = base_url(settings.url or CLOUD)
        keys = f"{(settings.public_key or '').strip()}:{(settings.secret_key or '').strip()}"
        authorization = f"Basic {b64encode(keys.encode('utf-8', 'replace')).decode()}"
        super().__init__(settings, self._base + TRACES_PATH, {"Authorization": authorization})
        self._reader = LangfuseReader(self._poster, self._base)
        self._settled_after = settled_after

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request, which is accepted or refused as a whole."""
        return (await self._post(spans))[1]

    def _described(self, span: ExportSpan) -> GenAiSpan:
        return described(span, self._settings.user, self._settings.environment)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans can be read there; None also while the others may still appear."""
        found = await self._reader.observed(spans)
        if found is None or len(found) == len({span.span_id for span in spans}):
            return found
        return found if time.monotonic() - self._doubt_at >= self._settled_after else None

    async def send_annotation(self, annotation: ExportAnnotation) -> Delivery:
        """Store a score; one of the same id replaces it."""
        body = json_bytes(score_of(annotation, self._settings.environment))
        return (await self._poster.post(self._base + SCORES_PATH, body, _JSON))[1]

    async def remove_annotation(self, annotation_id: bytes) -> Delivery:
        """Remove a score."""
        url = f"{self._base}{SCORES_PATH}/{score_id(annotation_id)}"
        answer, delivery = await self._poster.post(url, b"", {}, method="DELETE")
        return Delivery(verdict="accepted") if answer is not None and answer.status == 404 else delivery

    async def check(self) -> str:
        """Send a request without spans: the server checks keys and address, and stores nothing."""
        environment = self._settings.environment
        if environment and not _ENVIRONMENT.match(environment):
            return (
                f"Langfuse accepts no environment called {environment!r}. "
                "Use at most 40 small letters, digits, - and _, and do not begin with langfuse."
            )
        answer, delivery = await self._poster.post(self._url, b"", self.headers)
        if delivery.verdict == "accepted":
            return ""
        address = f"url: it must be the address of a Langfuse, and is {shown_address(self._base)}"
        key = "public_key and secret_key, and that url is of the region they are for"
        return problem(answer, delivery, key=key, address=address)


def base_url(url: str) -> str:
    """The address of the server, also where the setting is that of its OTLP endpoint."""
    return url.rstrip("/").removesuffix(TRACES_PATH).removesuffix("/api/public/otel").rstrip("/")


# -- reading back -----------------------------------------------------------------------------------------------


class _Observation(msgspec.Struct, frozen=True):
    id: str


class _Meta(msgspec.Struct, frozen=True):
    cursor: str | None = None
    total_pages: int | None = msgspec.field(default=None, name="totalPages")


class _Observations(msgspec.Struct, frozen=True):
    data: list[_Observation]
    meta: _Meta = _Meta()


class LangfuseReader:
    """Reads the observations of one Langfuse."""

    def __init__(self, poster: Poster, base: str) -> None:
        self._poster = poster
        self._new = f"{base}/api/public/v2/observations"
        self._old = f"{base}/api/public/observations"

    async def observed(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans can be read; None where there is no usable answer."""
        found: set[str] = set()
        for portion in _portions(spans):
            listed = await self._listed(portion)
            if listed is None:
                return None
            found |= listed
        return {span.span_id for span in spans if span.span_id.hex() in found}

    async def _listed(self, spans: Sequence[ExportSpan]) -> Set[str] | None:
        """The ids of all observations in the traces of these spans."""
        status, found = await self._pages({"filter": _filter(spans)})
        if status == 200:
            return found
        one_by_one = {400: self._pages, 404: self._old_pages}.get(status)
        if one_by_one is None:
            return None
        for trace_id in sorted({span.trace_id.hex() for span in spans}):
            # The server does not know the filter, or (404) not even this endpoint.
            status, listed = await one_by_one({"traceId": trace_id})
            if status != 200:
                return None
            found |= listed
        return found

    async def _pages(self, question: Mapping[str, str]) -> tuple[int, set[str]]:
        found: set[str] = set()
        cursor: dict[str, str] = {}
        for _ in range(_PAGES):
            asked = {**question, "fields": "core", "limit": str(_PAGE), **cursor}
            status, page = await self._page(self._new, asked)
            if page is None:
                return status, set()
            found |= {observation.id for observation in page.data}
            if not page.meta.cursor:
                return 200, found
            cursor = {"cursor": page.meta.cursor}
        return 0, set()

    async def _old_pages(self, question: Mapping[str, str]) -> tuple[int, set[str]]:
        found: set[str] = set()
        for number in range(1, _PAGES + 1):
            status, page = await self._page(self._old, {**question, "limit": str(_OLD_PAGE), "page": str(number)})
            if page is None:
                return status, set()
            found |= {observation.id for observation in page.data}
            if number >= (page.meta.total_pages or 0):
                return 200, found
        return 0, set()

    async def _page(self, url: str, asked: Mapping[str, str]) -> tuple[int, _Observations | None]:
        """The status of an answer, 0 where there is none, and its content where it is valid."""
        answer = await self._poster.get(f"{url}?{urlencode(asked)}", most=_ANSWER_BYTES)
        if answer is None:
            return 0, None
        return (200, page) if (page := _decoded(answer)) else (answer.status if answer.status != 200 else 0, None)


def _decoded(answer: HttpAnswer) -> _Observations | None:
    try:
        return msgspec.json.decode(answer.body, type=_Observations) if answer.status == 200 else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def _portions(spans: Sequence[ExportSpan]) -> Iterator[list[ExportSpan]]:
    """The spans of a few traces at a time, in the order in which the traces begin, so that the period is short."""
    groups = list(by_trace(sorted(spans, key=lambda span: span.start)).values())
    for start in range(0, len(groups), _TRACES):
        yield [span for group in groups[start : start + _TRACES] for span in group]


def _filter(spans: Sequence[ExportSpan]) -> str:
    """A condition for all traces of these spans; without times the server would search all its data."""
    starts = [span.start for span in spans]
    traces = sorted({span.trace_id.hex() for span in spans})
    conditions = [
        {"type": "stringOptions", "column": "traceId", "operator": "any of", "value": traces},
        {"type": "datetime", "column": "startTime", "operator": ">=", "value": iso(min(starts) - _MARGIN)},
        {"type": "datetime", "column": "startTime", "operator": "<", "value": iso(max(starts) + _MARGIN)},
    ]
    return json_bytes(conditions).decode()
