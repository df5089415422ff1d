"""Which observations a Langfuse has, read by its public API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from urllib.parse import urlencode

import msgspec

from agenttrace.export.moments import iso
from agenttrace.export.posting import Answer, Poster
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import json_bytes

#: Observations in one answer: the most there can be. They are read without texts, some 250 bytes each.
_PAGE = 1_000
#: The older endpoint has fewer, and always with their texts.
_OLD_PAGE = 50
_PAGES = 1_000
_ANSWER_BYTES = 64 << 20
#: Cloud allows 30 questions a minute on its free plan: several traces are asked for at once.
_TRACES = 25
#: In microseconds. Langfuse cuts times to milliseconds.
_MARGIN = 1_000_000


class _Observation(msgspec.Struct, frozen=True):
    id: str


class _Meta(msgspec.Struct, frozen=True):
    cursor: str | None = None
    total_pages: int | None = msgspec.field(default=None, name="totalPages")


class _Observations(msgspec.Struct, frozen=True):
    data: list[_Observation]
    meta: _Meta = _Meta()


class Reader:
    """Asks one Langfuse."""

    def __init__(self, poster: Poster, base: str) -> None:
        self._poster = poster
        self._new = f"{base}/api/public/v2/observations"
        self._old = f"{base}/api/public/observations"

    async def observed(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans can be read; None where it does not say."""
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
            # A server that knows no such filter, or (404) none that keeps the tables this endpoint reads.
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
        """The status of an answer, 0 where there is none, and what it says if it is good."""
        answer = await self._poster.get(f"{url}?{urlencode(asked)}", most=_ANSWER_BYTES)
        if answer is None:
            return 0, None
        return (200, page) if (page := _decoded(answer)) else (answer.status if answer.status != 200 else 0, None)


def _decoded(answer: Answer) -> _Observations | None:
    try:
        return msgspec.json.decode(answer.body, type=_Observations) if answer.status == 200 else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def _portions(spans: Sequence[ExportSpan]) -> Iterator[list[ExportSpan]]:
    """The spans of a few traces at a time, in the order of their traces' beginnings so that times stay short."""
    traces: dict[bytes, list[ExportSpan]] = {}
    for span in sorted(spans, key=lambda span: span.start):
        traces.setdefault(span.trace_id, []).append(span)
    groups = list(traces.values())
    for start in range(0, len(groups), _TRACES):
        yield [span for group in groups[start : start + _TRACES] for span in group]


def _filter(spans: Sequence[ExportSpan]) -> str:
    """A condition for all traces of these spans; without times the server would look through everything it has."""
    starts = [span.start for span in spans]
    traces = sorted({span.trace_id.hex() for span in spans})
    conditions = [
        {"type": "stringOptions", "column": "traceId", "operator": "any of", "value": traces},
        {"type": "datetime", "column": "startTime", "operator": ">=", "value": iso(min(starts) - _MARGIN)},
        {"type": "datetime", "column": "startTime", "operator": "<", "value": iso(max(starts) + _MARGIN)},
    ]
    return json_bytes(conditions).decode()
