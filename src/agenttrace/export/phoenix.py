"""Phoenix: its OpenInference attributes, and how to read back which spans it has.

Since version 15.10 Phoenix converts GenAI attributes to OpenInference, but it finds no input of turns and tools there,
uses id and model as the output of a model call, and leaves the kind of other spans unknown. So it gets OpenInference
attributes as well, which older versions need anyway.
Its 200 means that spans are in memory: reading back shows which were lost when it was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from agenttrace.export.genai import Attributes, joined
from agenttrace.export.moments import iso
from agenttrace.export.posting import HttpAnswer, Poster, verdict_of
from agenttrace.export.span import ExportSpan, by_trace
from agenttrace.export.wire_text import shortened

#: The resource attribute for the project.
PROJECT: Final = "openinference.project.name"

SPAN_KIND: Final = "openinference.span.kind"
INPUT: Final = "input.value"
INPUT_TYPE: Final = "input.mime_type"
OUTPUT: Final = "output.value"
OUTPUT_TYPE: Final = "output.mime_type"
MODEL: Final = "llm.model_name"
PROMPT_TOKENS: Final = "llm.token_count.prompt"
COMPLETION_TOKENS: Final = "llm.token_count.completion"
TOTAL_TOKENS: Final = "llm.token_count.total"
CACHE_READ_TOKENS: Final = "llm.token_count.prompt_details.cache_read"
CACHE_WRITE_TOKENS: Final = "llm.token_count.prompt_details.cache_write"
REASONING_TOKENS: Final = "llm.token_count.completion_details.reasoning"

#: The project of spans without one.
_DEFAULT_PROJECT = "default"
#: In every answer of a Phoenix.
_VERSION_HEADER = "x-phoenix-server-version"
_KINDS = {"turn": "AGENT", "step": "LLM", "tool": "TOOL", "span": "CHAIN"}
_JSON, _TEXT = "application/json", "text/plain"

#: Traces in one answer, and how many answers are read.
_TRACES = 100
_PAGES = 1_000
#: A trace of ten thousand spans is a few megabytes here.
_ANSWER_BYTES = 64 << 20
#: In microseconds. Phoenix keeps times as fractions of seconds, which are off by a little.
_MARGIN = 1_000_000
#: Traces that began within ten minutes are one query.
_GAP = 600_000_000


def openinference(span: ExportSpan) -> Attributes:
    """The attributes of a span that Phoenix shows."""
    found: Attributes = {SPAN_KIND: _KINDS[span.kind], **_tokens(span)}
    if span.model:
        found[MODEL] = shortened(span.model)
    if span.kind == "tool":
        said, answered = joined(span.texts, "arguments"), joined(span.texts, "result", "error")
    else:
        said, answered = joined(span.texts, "prompt"), joined(span.texts, "text")
    return found | _shown(said, INPUT, INPUT_TYPE) | _shown(answered, OUTPUT, OUTPUT_TYPE)


def _shown(text: str, key: str, type_key: str) -> Attributes:
    # Without a type it would show any text as JSON.
    return {key: text, type_key: _JSON if _is_json(text) else _TEXT} if text else {}


def _tokens(span: ExportSpan) -> Attributes:
    used = span.usage
    if span.kind != "step" or used is None:
        return {}
    return {
        PROMPT_TOKENS: used.total - used.output_tokens,
        COMPLETION_TOKENS: used.output_tokens,
        TOTAL_TOKENS: used.total,
        CACHE_READ_TOKENS: used.cache_read_tokens,
        CACHE_WRITE_TOKENS: used.cache_write_tokens,
        REASONING_TOKENS: used.reasoning_tokens,
    }


def _is_json(text: str) -> bool:
    """Whether it is an object or a list; a number or a word in quotes reads better as text."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# -- reading back -----------------------------------------------------------------------------------------------


class _StoredSpan(msgspec.Struct):
    span_id: str


class _StoredTrace(msgspec.Struct):
    spans: list[_StoredSpan] | None = None


class _Page(msgspec.Struct):
    data: list[_StoredTrace]
    next_cursor: str | None = None


class PhoenixReader:
    """Reads which spans one Phoenix has in a project."""

    def __init__(self, poster: Poster, base: str, project: str | None) -> None:
        self._poster = poster
        self._url = f"{base}/v1/projects/{quote(project or _DEFAULT_PROJECT, safe='')}/traces"
        #: False once an answer shows that nothing can be read: an older version, or no Phoenix.
        self.readable = True

    async def stored(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans are there; None where there is no usable answer.

        Traces are listed with the ids of their spans: a list of spans would contain all their texts.
        """
        found: set[str] = set()
        for window in _windows(spans):
            listed = await self._listed(window)
            if listed is None:
                return None
            found |= listed
        return {span.span_id for span in spans if span.span_id.hex() in found}

    async def _listed(self, window: Mapping[str, str]) -> Set[str] | None:
        """The ids of all spans in traces that began in a window of time."""
        found: set[str] = set()
        cursor: dict[str, str] = {}
        for _ in range(_PAGES):
            asked = {**window, "include_spans": "true", "limit": str(_TRACES), **cursor}
            answer = await self._poster.get(f"{self._url}?{urlencode(asked)}", most=_ANSWER_BYTES)
            page = self._page(answer)
            if page is None:
                return None
            found |= {span.span_id for trace in page.data for span in trace.spans or ()}
            if not page.next_cursor:
                return found
            cursor = {"cursor": page.next_cursor}
        return None

    def _page(self, answer: HttpAnswer | None) -> _Page | None:
        if answer is None or _may_change(answer):
            return None
        if answer.status == 404 and b"Project" in answer.body:
            # A project is created when its first span is stored.
            return _Page(data=[])
        page = _decoded(answer.body) if answer.status == 200 else None
        self.readable = page is not None
        return page


def _may_change(answer: HttpAnswer) -> bool:
    """Whether a later answer may differ: the server is busy or broken, or a Phoenix needs another key."""
    return verdict_of(answer.status) in ("retry", "unknown") or (
        answer.status in (401, 403) and is_phoenix(answer) is True
    )


def is_phoenix(answer: HttpAnswer) -> bool | None:
    """Whether an answer is that of a Phoenix; None where that is unknown."""
    return True if _VERSION_HEADER in answer.headers else False if answer.status == 200 else None


def _decoded(body: bytes) -> _Page | None:
    try:
        return msgspec.json.decode(body, type=_Page)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _windows(spans: Sequence[ExportSpan]) -> Iterator[dict[str, str]]:
    """Periods in which the traces of these spans began, as few as possible without long gaps in them.

    A trace begins with the first of its spans that is stored, which may be any of them.
    """
    starts = [[trace[0].path[0].start, *(span.start for span in trace)] for trace in by_trace(spans).values()]
    windows: list[list[int]] = []
    for first, last in sorted((min(trace), max(trace)) for trace in starts):
        if windows and first <= windows[-1][1] + _GAP:
            windows[-1][1] = max(windows[-1][1], last)
        else:
            windows.append([first, last])
    for first, last in windows:
        yield {"start_time": iso(first - _MARGIN), "end_time": iso(last + _MARGIN)}
