"""The wire format of DashScope's Application API: bytes to values and back, without any I/O.

Facts that shaped it: ``usage.models`` is a list and may be missing; ``finish_reason`` is the string ``"null"`` while an
answer is on its way; an error may come with HTTP 200; server-sent events end at newline *bytes* only, because raw
U+2028 and U+0085 are ordinary text in them; an application may ignore ``incremental_output`` and repeat itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from agenttrace.run.errors import (
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeJsonParseError,
    DashScopeTimeoutError,
)

#: The largest body, frame or streamed text that is taken in.
MAX_BYTES = 8 * 1024 * 1024

#: The HTTP status that DashScope's own codes stand for, used when they come with HTTP 200; the first match counts.
CODE_STATUSES = (
    ("InvalidApiKey", 401),
    ("Throttling", 429),
    ("DataInspectionFailed", 400),
    ("InvalidParameter", 400),
    ("BadRequest", 400),
    ("Arrearage", 400),
    ("AccessDenied", 403),
    ("InternalError", 500),
)

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
    #: True when the application did not say and the numbers are ours.
    estimated: bool

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a call has brought, and what it has cost."""

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
class Reply:
    """What one body, or one frame of a stream, says."""

    text: str
    #: The text of a workflow's node, always a delta.
    node_text: str
    #: Empty while the answer is on its way.
    finish_reason: str
    session_id: str | None
    request_id: str
    #: None when nothing, or nothing credible, is said.
    usage: AppUsage | None


class Frame(NamedTuple):
    """One server-sent event."""

    event: str
    #: From the comment ``:HTTP_STATUS/…``; 200 when there is none.
    status: int
    data: bytes


class _Output(msgspec.Struct):
    text: str | None = None
    finish_reason: str | None = None
    session_id: str | None = None
    workflow_message: msgspec.Raw = msgspec.Raw()


class _Envelope(msgspec.Struct):
    output: _Output | None = None
    # Read apart and with tolerance: an answer that was paid for must not be lost over odd numbers.
    usage: msgspec.Raw = msgspec.Raw()
    request_id: str | None = None
    code: str | None = None
    message: str | None = None


class _ModelUsage(msgspec.Struct):
    model_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Usage(msgspec.Struct):
    models: list[_ModelUsage] | None = None


class _NodeMessage(msgspec.Struct):
    content: str | None = None


class _WorkflowMessage(msgspec.Struct):
    message: _NodeMessage | None = None


_envelopes = msgspec.json.Decoder(_Envelope)
_usages = msgspec.json.Decoder(_Usage)
_workflow_messages = msgspec.json.Decoder(_WorkflowMessage)
_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode_request(
    prompt: str,
    *,
    session_id: str | None = None,
    biz_params: Mapping[str, Any] | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """The body of a request; a prompt beside messages becomes their last user turn, as in the official SDK."""
    given: dict[str, Any] = {}
    if messages is None:
        given["prompt"] = prompt
    else:
        given["messages"] = [*messages, {"role": "user", "content": prompt}] if prompt else list(messages)
    if session_id:
        given["session_id"] = session_id
    if biz_params:
        given["biz_params"] = biz_params
    try:
        return _encoder.encode({"input": given, "parameters": parameters or {}})
    except UnicodeEncodeError:
        pass
    raise DashScopeApiError("the request holds half a surrogate pair", 400, code="InvalidParameter")


def parse_json_object(text: str) -> dict[str, Any]:
    """The object that the text is; anything else is refused, and nothing is repaired (a code fence is no JSON)."""
    try:
        value = _anything.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    raise DashScopeJsonParseError(f"the answer of {len(text)} characters is not a JSON object")


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


def read_reply(body: bytes, *, status: int = 200, retry_after: float | None = None) -> Reply:
    """What a body says; raises the error that it is."""
    envelope = _decode_envelope(body)
    if not 200 <= status < 300:
        raise _api_error(status, envelope or _Envelope(), retry_after)
    if envelope is None:
        raise DashScopeApiError("the answer cannot be read", status)
    output = envelope.output
    if output is None or (envelope.code and not output.text and not output.workflow_message):
        raise _api_error(_status_of(envelope.code or ""), envelope, retry_after)
    return Reply(
        text=output.text or "",
        node_text=_node_text(output.workflow_message),
        finish_reason="" if output.finish_reason in (None, "null") else output.finish_reason or "",
        session_id=output.session_id or None,
        request_id=envelope.request_id or "",
        usage=_sum_usage(envelope.usage),
    )


def read_frame(frame: Frame) -> Reply:
    """What a frame says; raises the error that it is."""
    if frame.event != "error" or frame.status >= 400:
        return read_reply(frame.data, status=frame.status)
    envelope = _decode_envelope(frame.data) or _Envelope()
    raise _api_error(_status_of(envelope.code or ""), envelope, None)


def _decode_envelope(body: bytes) -> _Envelope | None:
    try:
        return _envelopes.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _status_of(code: str) -> int:
    return next((status for word, status in CODE_STATUSES if word in code), 500)


def _api_error(status: int, envelope: _Envelope, retry_after: float | None) -> DashScopeApiError:
    code = envelope.code or ""
    kind = DashScopeApiError
    if status == 401 or "InvalidApiKey" in code:
        kind = DashScopeAuthError
    elif status in (408, 504):
        kind = DashScopeTimeoutError
    message = (envelope.message or code or f"HTTP {status}")[:500]
    return kind(message, status, code=code, request_id=envelope.request_id or "", retry_after=retry_after)


def _sum_usage(raw: msgspec.Raw) -> AppUsage | None:
    if bytes(raw) in (b"", b"{}"):
        # Every frame of a stream but the last.
        return None
    try:
        models = _usages.decode(raw).models or []
    except msgspec.DecodeError:
        return None
    usage = AppUsage(
        input_tokens=sum(model.input_tokens or 0 for model in models),
        output_tokens=sum(model.output_tokens or 0 for model in models),
        models=tuple(model.model_id for model in models if model.model_id),
        estimated=False,
    )
    return usage if usage.total > 0 else None


def _node_text(raw: msgspec.Raw) -> str:
    if not raw:
        return ""
    try:
        message = _workflow_messages.decode(raw).message
    except msgspec.DecodeError:
        return ""
    return (message and message.content) or ""
