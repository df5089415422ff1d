"""What all providers have in common: a request, a reply, an answer and its tokens in plain values, without any I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from agenttrace.run.errors import (
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeJsonParseError,
    DashScopeTimeoutError,
)

#: The largest body, frame or streamed text that is taken in.
MAX_BYTES = 8 * 1024 * 1024

_CJK_RUNS = re.compile("[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")


def estimate_tokens(text: str) -> int:
    """How many tokens a text is likely to be: 1.5 CJK characters each, 4 of any other writing; at least 1 if any."""
    wide = 0 if text.isascii() else sum(map(len, _CJK_RUNS.findall(text)))
    return math.ceil(wide / 1.5 + (len(text) - wide) / 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class AppUsage:
    """The tokens of one answer, summed over the models that the application called."""

    input_tokens: int
    output_tokens: int
    models: tuple[str, ...]
    #: True when the provider gave no numbers and these are estimates.
    estimated: bool
    #: The part of the input that the provider read from its cache.
    cached_tokens: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class AppAnswer:
    """The answer of a call, and its cost."""

    text: str
    usage: AppUsage
    session_id: str | None
    request_id: str
    attempts: int
    #: Billed by earlier attempts of the same call, such as answers that were no JSON; not part of ``usage``.
    burnt_tokens: int
    finish_reason: str

    @property
    def tokens_used(self) -> int:
        """Everything that was billed for the call."""
        return self.usage.total + self.burnt_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderReply:
    """The content of one body, or of one frame of a stream."""

    text: str = ""
    #: The text of a workflow's node, always a delta.
    node_text: str = ""
    #: Empty while the answer is on its way.
    finish_reason: str = ""
    session_id: str | None = None
    request_id: str = ""
    #: None where no usage is given, or none that makes sense.
    usage: AppUsage | None = None
    #: Nothing that matters comes after it.
    is_last: bool = False


class RequestOptions(TypedDict, total=False):
    """What a request may have beside its prompt."""

    session_id: str | None
    biz_params: Mapping[str, Any] | None
    messages: Sequence[Mapping[str, Any]] | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What an application is asked."""

    prompt: str
    session_id: str | None = None
    biz_params: Mapping[str, Any] | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def tokens(self) -> int:
        """An estimate of the tokens that it is."""
        turns = (str(message.get("content", "")) for message in self.messages or ())
        return estimate_tokens(self.prompt) + sum(map(estimate_tokens, turns))

    def turns(self) -> list[Mapping[str, Any]]:
        """What was said, with the prompt as the last turn of the user."""
        return [*(self.messages or ()), *([{"role": "user", "content": self.prompt}] if self.prompt else ())]


class Frame(NamedTuple):
    """One server-sent event."""

    event: str
    #: From the comment ``:HTTP_STATUS/…``; 200 when there is none.
    status: int
    data: bytes


_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode_body(value: object) -> bytes:
    """The body of a request as JSON."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        pass
    raise DashScopeApiError("the request holds half a surrogate pair", 400, code="InvalidParameter")


def api_error(
    status: int,
    message: str,
    *,
    code: str = "",
    request_id: str = "",
    retry_after: float | None = None,
    key_refused: bool = False,
) -> DashScopeApiError:
    """The error that an answer with this status is."""
    kind = DashScopeApiError
    if status == 401 or key_refused:
        kind = DashScopeAuthError
    elif status in (408, 504):
        kind = DashScopeTimeoutError
    text = (message or code or f"HTTP {status}")[:500]
    return kind(text, status, code=code, request_id=request_id, retry_after=retry_after)


def parse_json_object(text: str) -> dict[str, Any]:
    """The object that the text is; anything else is refused, and nothing is repaired (a code fence is no JSON)."""
    try:
        value = _anything.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    raise DashScopeJsonParseError(f"the answer of {len(text)} characters is not a JSON object")


def object_or_text(text: str) -> dict[str, Any]:
    """The object that the text is; of any other text an object that holds it."""
    try:
        return parse_json_object(text)
    except DashScopeJsonParseError:
        return {"text": text}


def parse_retry_after(value: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, which may also be a date; None when it is missing or makes no sense."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    return seconds if 0 <= seconds < math.inf else None


def _seconds_until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
