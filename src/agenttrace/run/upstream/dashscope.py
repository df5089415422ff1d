"""The wire format of DashScope's Application API: bytes to values and back, without any I/O.

Facts that shaped it: ``usage.models`` is a list and may be missing; ``finish_reason`` is the string ``"null"`` while an
answer is on its way; an error may come with HTTP 200; server-sent events end at newline *bytes* only, because raw
U+2028 and U+0085 are ordinary text in them; an application may ignore ``incremental_output`` and repeat itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from agenttrace.run.errors import DashScopeApiError
from agenttrace.run.upstream.sse import DeltaReader
from agenttrace.run.upstream.wire import AppUsage, Frame, ProviderReply, Request, api_error, encode_body

DEFAULT_BASE_URL = "https://dashscope.aliyuncs.com/api/v1"
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


class DashScope:
    """The applications of one DashScope account."""

    def __init__(self, api_key: str, workspace_id: str | None = None, base_url: str = DEFAULT_BASE_URL) -> None:
        self.key = api_key.strip()
        self._base_url = base_url.rstrip("/")
        common = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "agenttrace",
        }
        if workspace_id:
            common["X-DashScope-WorkSpace"] = workspace_id
        self._plain_headers = {**common, "Accept": "application/json; charset=utf-8"}
        self._stream_headers = {
            **common,
            "Accept": "text/event-stream",
            "X-Accel-Buffering": "no",
            "X-DashScope-SSE": "enable",
        }

    def url(self, app_id: str) -> str:
        """Where the application is called."""
        return f"{self._base_url}/apps/{quote(app_id, safe='')}/completion"

    def headers(self, *, stream: bool) -> Mapping[str, str]:
        """The headers of a request."""
        return self._stream_headers if stream else self._plain_headers

    def encode(self, request: Request, *, stream: bool) -> bytes:
        """The body of a request; streams are asked for deltas unless the parameters say otherwise."""
        given: dict[str, Any] = {"prompt": request.prompt}
        if request.messages is not None:
            # As in the official SDK, a prompt beside messages becomes their last turn.
            given = {"messages": request.turns()}
        if request.session_id:
            given["session_id"] = request.session_id
        if request.biz_params:
            given["biz_params"] = request.biz_params
        parameters = {"incremental_output": True, **request.parameters} if stream else request.parameters
        return encode_body({"input": given, "parameters": parameters})

    def tokens(self, request: Request) -> int:
        """An estimate of the tokens that the request is, without those of the application's own prompt."""
        return request.tokens()

    def read_reply(self, body: bytes, *, status: int = 200, retry_after: float | None = None) -> ProviderReply:
        """The reply in a body; raises its error."""
        envelope = _decode_envelope(body)
        if not 200 <= status < 300:
            raise _api_error(status, envelope or _Envelope(), retry_after)
        if envelope is None:
            raise DashScopeApiError("the answer cannot be read", status)
        output = envelope.output
        if output is None or (envelope.code and not output.text and not output.workflow_message):
            raise _api_error(_status_of(envelope.code or ""), envelope, retry_after)
        finish_reason = "" if output.finish_reason in (None, "null") else output.finish_reason or ""
        return ProviderReply(
            text=output.text or "",
            node_text=_node_text(output.workflow_message),
            finish_reason=finish_reason,
            is_last=bool(finish_reason),
            session_id=output.session_id or None,
            request_id=envelope.request_id or "",
            usage=_sum_usage(envelope.usage),
        )

    def read_frame(self, frame: Frame) -> ProviderReply:
        """The reply in a frame of a stream; raises its error."""
        if frame.event != "error" or frame.status >= 400:
            return self.read_reply(frame.data, status=frame.status)
        envelope = _decode_envelope(frame.data) or _Envelope()
        raise _api_error(_status_of(envelope.code or ""), envelope, None)

    def deltas(self, request: Request) -> DeltaReader:
        """What turns frames into deltas; an application may repeat itself although deltas were asked for."""
        asked_for_deltas = request.parameters.get("incremental_output", True)
        return DeltaReader(cumulative=None if asked_for_deltas else True)


def _decode_envelope(body: bytes) -> _Envelope | None:
    try:
        return _envelopes.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _status_of(code: str) -> int:
    return next((status for word, status in CODE_STATUSES if word in code), 500)


def _api_error(status: int, envelope: _Envelope, retry_after: float | None) -> DashScopeApiError:
    code = envelope.code or ""
    return api_error(
        status,
        envelope.message or "",
        code=code,
        request_id=envelope.request_id or "",
        retry_after=retry_after,
        key_refused="InvalidApiKey" in code,
    )


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
