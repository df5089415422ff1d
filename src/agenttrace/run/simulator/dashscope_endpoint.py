"""A call of an application, answered as DashScope does: JSON bodies, frames of server-sent events, and errors.

The same answer is given many times, so its bytes are built once, with marks where the session, the request id and the
usage go. A mark begins with a NUL byte, which JSON text never holds unescaped.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

from agenttrace.run.simulator.replies import SimulatedReply, tokens

_SESSION, _REQUEST, _USAGE = b"\x00S", b"\x00R", b"\x00U"
#: Stands between templates that are filled together.
BORDER = b"\x00|"

#: Longer texts are built anew each time: the frames of a cumulative stream grow with the square of the length.
_CACHED_CHARS = 2_000

_encode = msgspec.json.Encoder().encode


class Mode(Enum):
    """How a stream carries its text."""

    #: Each frame the next piece.
    DELTA = "delta"
    #: Each frame all of the text so far; what comes without ``incremental_output``.
    WHOLE = "whole"
    #: Pieces in ``workflow_message``, the whole text in the last frame.
    MESSAGES = "message_format"
    #: Nodes in ``thoughts``, the whole text in the last frame.
    FLOW_THOUGHTS = "full_thoughts"

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> Mode:
        """The mode that these request parameters ask for."""
        flow = parameters.get("flow_stream_mode")
        if flow in ("message_format", "message_format_plus"):
            return cls.MESSAGES
        if flow == "full_thoughts":
            return cls.FLOW_THOUGHTS
        return cls.DELTA if parameters.get("incremental_output") is True else cls.WHOLE


def usage(models: list[tuple[str, int, int]]) -> bytes:
    """The usage object: model, input tokens, output tokens of each model that was called; none gives ``{}``."""
    if not models:
        return b"{}"
    return _encode(
        {"models": [{"model_id": name, "input_tokens": read, "output_tokens": said} for name, read, said in models]}
    )


def fill(template: bytes, *, session_id: str, request_id: str, usage: bytes) -> bytes:
    """The template with its marks replaced."""
    filled = template.replace(_SESSION, session_id.encode()).replace(_REQUEST, request_id.encode())
    return filled.replace(_USAGE, usage)


def error_frame(number: int, http: int, data: bytes) -> bytes:
    """The frame that ends a stream with an error."""
    return b"id:%d\nevent:error\n:HTTP_STATUS/%d\ndata:%b\n\n" % (number, http, data)


def body(text: str, *, thoughts: bool, stopped: bool = True) -> bytes:
    """The template of an answer that is not streamed."""
    more = b',"thoughts":' + _encode(_agent_thoughts()) if thoughts else b""
    reason = b"stop" if stopped else b"null"
    return b'{"output":{"text":%b,"finish_reason":"%b","session_id":"%b"%b},"usage":%b,"request_id":"%b"}' % (
        _encode(text),
        reason,
        _SESSION,
        more,
        _USAGE,
        _REQUEST,
    )


def stream(text: str, mode: Mode, *, chunk_chars: int, thoughts: bool) -> tuple[bytes, ...]:
    """The templates of a stream's frames; the last one says ``stop`` and has the usage."""
    build = _cached if len(text) <= _CACHED_CHARS else _frames
    return build(text, mode, chunk_chars, thoughts)


def _frames(text: str, mode: Mode, chunk_chars: int, thoughts: bool) -> tuple[bytes, ...]:
    outputs = list(_OUTPUTS[mode](text, chunk_chars, thoughts))
    last = len(outputs)
    return tuple(_frame(number, output, last=number == last) for number, output in enumerate(outputs, 1))


_cached = lru_cache(maxsize=64)(_frames)


def _frame(number: int, output: bytes, *, last: bool) -> bytes:
    reason, tokens = (b"stop", _USAGE) if last else (b"null", b"{}")
    return (
        b'id:%d\nevent:result\n:HTTP_STATUS/200\ndata:{"output":{"session_id":"%b","finish_reason":"%b",%b},'
        b'"usage":%b,"request_id":"%b"}\n\n' % (number, _SESSION, reason, output, tokens, _REQUEST)
    )


# -- the output of each frame, without session and finish_reason ------------------------------------------------


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _deltas(text: str, size: int, thoughts: bool) -> Iterator[bytes]:
    if thoughts:
        yield _thinking(_agent_thoughts())
    for piece in _pieces(text, size):
        yield b'"text":' + _encode(piece)
    yield b'"text":""'


def _wholes(text: str, size: int, thoughts: bool) -> Iterator[bytes]:
    seen = _agent_thoughts()
    tail = b',"thoughts":' + _encode(seen) if thoughts else b""
    if thoughts:
        yield _thinking(seen)
    for end in range(size, len(text) + size, size):
        yield b'"text":' + _encode(text[:end]) + tail
    yield b'"text":' + _encode(text) + tail


def _messages(text: str, size: int, _thoughts: bool) -> Iterator[bytes]:
    for number, piece in enumerate(_pieces(text, size)):
        yield _workflow_message(number, piece, completed=False)
    yield _workflow_message(len(text), "", completed=True)
    yield b'"text":' + _encode(text)


def _workflow_message(number: int, content: str, *, completed: bool) -> bytes:
    message = {
        "node_id": "End_s1m0",
        "node_name": "结束",
        "node_type": "End",
        "node_status": "success" if completed else "executing",
        "node_is_completed": completed,
        "node_msg_seq_id": number,
        "message": {"role": "assistant", "content": content},
    }
    return b'"workflow_message":' + _encode(message)


def _flow_thoughts(text: str, size: int, thoughts: bool) -> Iterator[bytes]:
    # Without has_thoughts a workflow app is silent until its end.
    for end in range(size, len(text) + size, size) if thoughts else ():
        node = {
            "nodeName": "大模型",
            "nodeType": "LLM",
            "nodeId": "LLM_s1m1",
            "nodeStatus": "executing",
            "nodeResult": text[:end],
        }
        yield _thinking([{"action_type": "", "response": _encode(node).decode()}])
    yield b'"text":' + _encode(text)


def _thinking(thoughts: list[dict[str, Any]]) -> bytes:
    return b'"text":"","thoughts":' + _encode(thoughts)


def _agent_thoughts() -> list[dict[str, Any]]:
    return [
        {
            "thought": "需要先查询门店数据。",
            "action_type": "api",
            "action_name": "门店数据查询",
            "action": "store_query",
            "action_input_stream": '{"scope":"recent"}',
            "action_input": {"scope": "recent"},
            "observation": '{"rows":12}',
        }
    ]


_OUTPUTS = {
    Mode.DELTA: _deltas,
    Mode.WHOLE: _wholes,
    Mode.MESSAGES: _messages,
    Mode.FLOW_THOUGHTS: _flow_thoughts,
}


#: Tokens of the system prompt that an application has from its console.
SYSTEM_TOKENS = 60


@dataclass(kw_only=True)
class AppReply(SimulatedReply):
    """An answer of the Application API."""

    def body(self, *, stopped: bool) -> bytes:
        """The answer in one piece."""
        return self._filled([body(self.text, thoughts=self._thoughts, stopped=stopped)])[0]

    def frames(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All frames; the last one says ``stop`` and has the usage."""
        built = stream(self.text, self._mode, chunk_chars=self.chunk_chars, thoughts=self._thoughts)
        *text, last = self._filled(built)
        return text, [last]

    def unfinished(self) -> Sequence[bytes]:
        """Nothing: such a stream only ends."""
        return ()

    def error(self, http: int, code: str, message: str) -> bytes:
        """The body of an error; the status is that of HTTP."""
        return error(code, message, self.request_id)

    def error_frame(self, number: int, http: int, code: str, message: str) -> bytes:
        """The frame that ends a stream with an error."""
        return error_frame(number, http, self.error(http, code, message))

    def _billed(self) -> bytes:
        if not self.is_billed:
            return b"{}"
        seen = "".join([str(turn.get("content", "")) for turn in self.call.context])
        read, said = SYSTEM_TOKENS + tokens(seen), tokens(self.text)
        models = [("qwen-plus", read, said)]
        if self._mode in (Mode.MESSAGES, Mode.FLOW_THOUGHTS):
            # A workflow asks a small model first where to go.
            models.insert(0, ("qwen-turbo", read, 4))
        return usage(models)

    @property
    def _mode(self) -> Mode:
        return Mode.of(self.asked.parameters)

    @property
    def _thoughts(self) -> bool:
        return self.asked.parameters.get("has_thoughts") is True

    def _filled(self, templates: Sequence[bytes]) -> list[bytes]:
        # All at once and then apart again: three searches instead of three a frame.
        joined = BORDER.join(templates)
        filled = fill(joined, session_id=self.session_id, request_id=self.request_id, usage=self._billed())
        return filled.split(BORDER)


def error(code: str, message: str, request_id: str | None = None) -> bytes:
    """The body of an error, and the data of an error frame."""
    return _encode({"code": code, "message": message, "request_id": request_id or str(uuid.uuid4())})
