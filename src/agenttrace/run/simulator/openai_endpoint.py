"""A call of a model, answered as OpenAI's chat completions are."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agenttrace.run.simulator.app_ids import BUILTIN_APP_IDS
from agenttrace.run.simulator.app_request import AppRequest, BadRequestError, messages_of, object_of
from agenttrace.run.simulator.replies import SimulatedReply, tokens

PREFIX = "/v1"
#: A model that only chats; any other name that is none of the eight does so, too.
CHAT_MODEL = "sim-chat"
#: As of a real provider, the model that answers has a longer name than the one that was asked for.
SNAPSHOT = "-2026-11-01"
#: What a message takes beside its text.
_FRAME_TOKENS = 4
_DONE = b"data: [DONE]\n\n"
#: Type and code of the errors that a provider sends with these statuses.
_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}

_encode = msgspec.json.Encoder().encode


def error(http: int, code: str, message: str) -> bytes:
    """The body of an error; a code of DashScope's becomes the usual one of the status."""
    kind, usual = _ERRORS.get(http, ("server_error", None))
    given = code if code and code == code.lower() else usual
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": given}})


def models() -> bytes:
    """The answer to ``GET /v1/models``."""
    names = [CHAT_MODEL, *BUILTIN_APP_IDS.values()]
    listed = [{"id": name, "object": "model", "created": 1_793_491_200, "owned_by": "agenttrace"} for name in names]
    return _encode({"object": "list", "data": listed})


def asked(body: dict[str, Any]) -> AppRequest:
    """Read a request's body; a BadRequestError says what is missing."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadRequestError(400, "missing_required_parameter", "you must provide a model parameter")
    turns = messages_of(body.get("messages"))
    if not turns:
        raise BadRequestError(400, "missing_required_parameter", "Missing required parameter: 'messages'.")
    wants_json = object_of(body, "response_format").get("type") == "json_object"
    if wants_json and not any("json" in str(turn.get("content", "")).lower() for turn in turns):
        message = (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        )
        raise BadRequestError(400, "invalid_request_error", message)
    return AppRequest(
        prompt=str(turns[-1].get("content", "")), turns=turns, session_id=None, biz_params={}, parameters=body
    )


@dataclass(kw_only=True)
class ChatReply(SimulatedReply):
    """An answer of a model."""

    created: int = field(default_factory=lambda: int(time.time()))
    request_id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")

    def body(self, *, stopped: bool) -> bytes:
        """The answer in one piece."""
        text, reason = self._cut()
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason if stopped else None}
        found = self._head("chat.completion", [choice])
        return _encode(found | {"usage": self._usage(text)} if self.is_billed else found)

    def frames(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The role, the pieces, and then the reason of the end, the usage where it is asked for, and the mark."""
        text, reason = self._cut()
        end = [self._chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}])]
        if self.is_billed and object_of(self.asked.parameters, "stream_options").get("include_usage") is True:
            end.append(self._chunk([], usage=self._usage(text)))
        return list(self._pieces(text)), [*end, _DONE]

    def unfinished(self) -> Sequence[bytes]:
        """The mark without a reason."""
        return [_DONE]

    def error(self, http: int, code: str, message: str) -> bytes:
        """The body of an error."""
        return error(http, code, message)

    def error_frame(self, number: int, http: int, code: str, message: str) -> bytes:
        """The chunk that ends a stream with an error: HTTP has said 200 already."""
        return b"data: %b\n\n" % self.error(http, code, message)

    def _pieces(self, text: str) -> Iterator[bytes]:
        yield self._piece({"role": "assistant", "content": ""})
        for start in range(0, len(text), self.chunk_chars):
            yield self._piece({"content": text[start : start + self.chunk_chars]})

    def _piece(self, delta: dict[str, str]) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:  # noqa: ANN401 - more fields
        return b"data: %b\n\n" % _encode(self._head("chat.completion.chunk", choices) | more)

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        model = self.call.app_id + SNAPSHOT
        return {"id": self.request_id, "object": kind, "created": self.created, "model": model, "choices": choices}

    def _cut(self) -> tuple[str, str]:
        """The text up to ``max_tokens``, and why it ends."""
        limits = (self.asked.parameters.get(name) for name in ("max_completion_tokens", "max_tokens"))
        limit = next((limit for limit in limits if isinstance(limit, int)), None)
        if limit is None or tokens(self.text) <= limit:
            return self.text, "stop"
        return self.text.encode(errors="replace")[: limit * 4].decode(errors="ignore"), "length"

    def _usage(self, text: str) -> dict[str, Any]:
        read, said = [_seen(turn) for turn in self.call.context], tokens(text)
        return {
            "prompt_tokens": sum(read),
            "completion_tokens": said,
            "total_tokens": sum(read) + said,
            # A provider has seen all but the last turn before, if there was a round before.
            "prompt_tokens_details": {"cached_tokens": sum(read[:-1]) if self._has_history else 0},
        }

    @property
    def _has_history(self) -> bool:
        return any(turn.get("role") == "assistant" for turn in self.call.context)


def _seen(turn: dict[str, Any]) -> int:
    return _FRAME_TOKENS + tokens(str(turn.get("content", "")))
