"""The wire format of OpenAI's chat completions, which most providers and local servers speak, without any I/O.

Facts that shaped it: the usage of a stream comes in a chunk of its own after the end of the text, and only if asked
for; ``[DONE]`` ends a stream; an error may come with HTTP 200 in the middle of a stream; error bodies differ between
servers (an object, a text, ``detail``, none at all); cached tokens have three names; some local servers number their
answers from a small range, so a short id names no single answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agenttrace.run.errors import DashScopeApiError
from agenttrace.run.upstream.sse import DeltaReader
from agenttrace.run.upstream.wire import (
    AppUsage,
    Frame,
    ProviderReply,
    Request,
    api_error,
    encode_body,
    estimate_tokens,
)

ResponseFormat = Literal["json_schema", "json_object", "none"]

#: The fewest characters of an id that names one answer among all.
LEAST_ID = 20
CONTEXT_LENGTH, CONTENT_FILTER, MODEL_NOT_FOUND = "context_length_exceeded", "content_filter", "model_not_found"
_DONE = b"[DONE]"
_PLACE = re.compile(r"\$\{(\w+)\}")
#: Endpoints refuse ``json_object`` where no message has the word.
_JSON_ORDER = "Answer with one JSON object."
#: The status that an error means which comes with HTTP 200, by words in its type or code; the first match counts.
_STATUSES = (
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("rate_limit", 429),
    ("insufficient_quota", 429),
    (CONTEXT_LENGTH, 400),
    (CONTENT_FILTER, 400),
    ("invalid_request", 400),
)
#: How servers name the same two troubles.
_TOO_LONG = re.compile(r"context[ _](length|window)|maximum context|range of input length|prompt is too long", re.I)
_FILTERED = re.compile(r"content_filter|content_policy|data_?inspection_?failed", re.I)


class _Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    message: _Delta | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    # Read apart and with tolerance: an answer that was paid for must not be lost over odd numbers.
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    #: DeepSeek's name of the cached tokens, and Moonshot's.
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def cached(self) -> int:
        details = self.prompt_tokens_details
        found = (details.cached_tokens if details else None) or self.prompt_cache_hit_tokens or self.cached_tokens or 0
        return min(max(found, 0), self.prompt_tokens or 0)


_completions = msgspec.json.Decoder(_Completion)
_usages = msgspec.json.Decoder(_Usage)
_anything = msgspec.json.Decoder()


class OpenAIChat:
    """One model at one OpenAI-compatible endpoint, with the fixed parts of its requests."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "answer",
        response_format: ResponseFormat | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.key = api_key.strip()
        self.model = model
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._system = system
        self._schema, self._schema_name = schema, schema_name
        self._format = response_format or ("json_object" if schema is None else "json_schema")
        self._max_tokens = max_tokens
        self._headers = {"Content-Type": "application/json", "User-Agent": "agenttrace"}
        if self.key:
            self._headers["Authorization"] = f"Bearer {self.key}"

    def url(self, app_id: str) -> str:
        """Where the model is called."""
        return self._url

    def headers(self, *, stream: bool) -> Mapping[str, str]:
        """The headers of a request."""
        return {**self._headers, "Accept": "text/event-stream" if stream else "application/json"}

    def encode(self, request: Request, *, stream: bool) -> bytes:
        """The body of a request; the application's own parameters come last, so they win."""
        body: dict[str, Any] = {"model": self.model, "messages": self._messages(request, stream=stream)}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._max_tokens is not None and "max_completion_tokens" not in request.parameters:
            body["max_tokens"] = self._max_tokens
        if (response_format := self._response_format(stream=stream)) is not None:
            body["response_format"] = response_format
        return encode_body(body | dict(request.parameters))

    def tokens(self, request: Request) -> int:
        """An estimate of the tokens that the request is."""
        return request.tokens() + estimate_tokens(self._system)

    def read_reply(self, body: bytes, *, status: int, retry_after: float | None = None) -> ProviderReply:
        """The reply in a body; raises its error."""
        if not 200 <= status < 300:
            raise _error(status, _decoded(body), retry_after)
        reply = self._read(body, status, retry_after)
        if not reply.finish_reason and not reply.text:
            raise DashScopeApiError("the answer holds no choices", status, request_id=reply.request_id)
        return reply

    def read_frame(self, frame: Frame) -> ProviderReply:
        """The reply in a chunk of a stream; raises its error."""
        if frame.data.strip() == _DONE:
            return ProviderReply(is_last=True)
        if frame.event == "error" or frame.status >= 400:
            found = _decoded(frame.data)
            raise _error(frame.status if frame.status >= 400 else _status_of(found), found, None)
        return self._read(frame.data, frame.status, None)

    def deltas(self, request: Request) -> DeltaReader:
        """What turns chunks into the pieces of the text."""
        return DeltaReader(cumulative=False)

    # -- what is sent ------------------------------------------------------------------------------------------------

    def _messages(self, request: Request, *, stream: bool) -> list[Mapping[str, Any]]:
        turns = request.turns()
        system = _filled(self._system, request.biz_params or {})
        if self._format == "json_object" and not stream:
            said = system + "".join(str(turn.get("content", "")) for turn in turns)
            if "json" not in said.lower():
                system = f"{system}\n{_JSON_ORDER}".strip()
        return [{"role": "system", "content": system}, *turns] if system else turns

    def _response_format(self, *, stream: bool) -> dict[str, Any] | None:
        if self._format == "json_schema":
            schema = {"name": self._schema_name, "schema": self._schema or {}, "strict": True}
            return {"type": "json_schema", "json_schema": schema}
        # What is streamed is read by people.
        return {"type": "json_object"} if self._format == "json_object" and not stream else None

    # -- what is read ------------------------------------------------------------------------------------------------

    def _read(self, body: bytes, status: int, retry_after: float | None) -> ProviderReply:
        try:
            found = _completions.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            value = _decoded(body)
            if isinstance(value, dict) and value.get("error"):
                raise _error(_status_of(value), value, retry_after) from None
            raise DashScopeApiError("the answer cannot be read", status) from None
        if bytes(found.error) not in (b"", b"null"):
            value = _decoded(body)
            raise _error(_status_of(value), value, retry_after)
        return self._reply(found)

    def _reply(self, found: _Completion) -> ProviderReply:
        first = next((choice for choice in found.choices or () if not choice.index), _Choice())
        said = first.delta or first.message or _Delta()
        usage = self._usage(found)
        request_id = found.id if found.id is not None and len(found.id) >= LEAST_ID else ""
        if first.finish_reason == CONTENT_FILTER or said.refusal:
            error = api_error(400, _refusal(said), code=CONTENT_FILTER, request_id=request_id)
            error.tokens_used = usage.total if usage else 0
            raise error
        return ProviderReply(
            text=_text(said.content),
            finish_reason=first.finish_reason or "",
            request_id=request_id,
            usage=usage,
        )

    def _usage(self, found: _Completion) -> AppUsage | None:
        if bytes(found.usage) in (b"", b"null"):
            return None
        try:
            usage = _usages.decode(found.usage)
        except msgspec.DecodeError:
            return None
        counted = AppUsage(
            input_tokens=max(usage.prompt_tokens or 0, 0),
            output_tokens=max(usage.completion_tokens or 0, 0),
            models=(found.model or self.model,),
            estimated=False,
            cached_tokens=usage.cached,
        )
        return counted if counted.total > 0 else None


def _filled(text: str, params: Mapping[str, Any]) -> str:
    """The text with ``${site_id}`` and the like replaced; what is not known stays as it is."""
    nested = params.get("user_prompt_params")
    known = {**params, **nested} if isinstance(nested, Mapping) else params
    return _PLACE.sub(lambda found: str(known.get(found[1], found[0])), text)


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return content or ""


def _refusal(said: _Delta) -> str:
    return "the model refused to answer" if said.refusal else "the provider's content filter stopped the answer"


# -- errors ------------------------------------------------------------------------------------------------------------


def _decoded(body: bytes) -> object:
    try:
        return _anything.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _said(value: object) -> tuple[str, str, str]:
    """The message, the code and the type of an error body, whichever way the server puts them."""
    found = value if isinstance(value, dict) else {}
    inner = found.get("error")
    if isinstance(inner, dict):
        found = inner
    elif isinstance(inner, str):
        found = {**found, "message": inner}
    message = found.get("message") or found.get("detail") or ""
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode()
    return message, str(found.get("code") or ""), str(found.get("type") or "")


def _status_of(value: object) -> int:
    message, code, kind = _said(value)
    for number in (code, kind):
        if number.isdecimal() and 400 <= int(number) < 600:
            return int(number)
    words = f"{_known_code(400, message, code, kind)} {code} {kind}".lower()
    return next((status for word, status in _STATUSES if word in words), 500)


def _known_code(status: int, message: str, code: str, kind: str) -> str:
    if 400 <= status < 500:
        if _TOO_LONG.search(f"{code} {message}"):
            return CONTEXT_LENGTH
        if _FILTERED.search(f"{code} {kind}"):
            return CONTENT_FILTER
    if status == 404 and "model" in f"{code} {message}".lower():
        return MODEL_NOT_FOUND
    return code if code and not code.isdecimal() else kind


def _error(status: int, value: object, retry_after: float | None) -> DashScopeApiError:
    message, code, kind = _said(value)
    return api_error(
        status,
        message,
        code=_known_code(status, message, code, kind),
        retry_after=retry_after,
        # A key without the right to a model is a matter of the configuration, too.
        key_refused=status == 403,
    )
