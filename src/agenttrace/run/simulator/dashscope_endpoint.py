"""A call of an application, answered in DashScope's wire format: JSON bodies, SSE frames and errors."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from agenttrace.run.simulator.calls import AppRequest, RequestRefusedError, messages_of, object_of
from agenttrace.run.simulator.replies import SimulatedReply, tokens

#: Tokens of the system prompt that an application has from its console.
SYSTEM_TOKENS = 60

_AGENT_THOUGHTS = [
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
_encode = msgspec.json.Encoder().encode
Output = dict[str, Any]


class Mode(Enum):
    """How a stream carries its text."""

    #: Each frame has the next piece.
    DELTA = "delta"
    #: Each frame has all of the text so far; the mode without ``incremental_output``.
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


@dataclass(kw_only=True)
class AppReply(SimulatedReply):
    """An answer of the Application API."""

    @staticmethod
    def read(body: dict[str, Any]) -> AppRequest:
        """Read a request's body; a RequestRefusedError says what is missing."""
        given = object_of(body, "input")
        prompt, messages, session_id = given.get("prompt"), given.get("messages"), given.get("session_id")
        turns = messages_of(messages)
        if isinstance(prompt, str) and prompt:
            turns = (*turns, {"role": "user", "content": prompt})
        if not turns:
            message = "Required parameter(prompt) missing or invalid, please check."
            raise RequestRefusedError(400, "InvalidParameter", message)
        return AppRequest(
            turns=turns,
            session_id=session_id if isinstance(session_id, str) and session_id and not messages else None,
            biz_params=object_of(given, "biz_params"),
            parameters=object_of(body, "parameters"),
        )

    @staticmethod
    def error(http: int, code: str, message: str) -> bytes:
        """The body of an error; the status is that of HTTP."""
        return _encode({"code": code, "message": message, "request_id": str(uuid.uuid4())})

    def body(self, *, stopped: bool) -> bytes:
        """The answer in one piece."""
        reason = "stop" if stopped else "null"
        output: Output = {"text": self.text, "finish_reason": reason, "session_id": self.session_id}
        if self._thoughts:
            output["thoughts"] = _AGENT_THOUGHTS
        return _encode({"output": output, "usage": self._usage(), "request_id": self.request_id})

    def frames(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All frames; the last one says ``stop`` and has the usage."""
        outputs = outputs_of(self.text, self._mode, self.chunk_chars, thoughts=self._thoughts)
        *text, last = frames_of(outputs, self.session_id, self.request_id, self._usage())
        return text, [last]

    def unfinished(self) -> Sequence[bytes]:
        """Nothing: such a stream only ends."""
        return ()

    def error_frame(self, number: int, http: int, code: str, message: str) -> bytes:
        """The frame that ends a stream with an error."""
        return b"id:%d\nevent:error\n:HTTP_STATUS/%d\ndata:%b\n\n" % (number, http, self.error(http, code, message))

    def _usage(self) -> Output:
        if not self.is_billed:
            return {}
        seen = "".join([str(turn.get("content", "")) for turn in self.call.context])
        read, said = SYSTEM_TOKENS + tokens(seen), tokens(self.text)
        models = [("qwen-plus", read, said)]
        if self._mode in (Mode.MESSAGES, Mode.FLOW_THOUGHTS):
            # A workflow asks a small model first which way to take.
            models.insert(0, ("qwen-turbo", read, 4))
        return {"models": [{"model_id": name, "input_tokens": get, "output_tokens": put} for name, get, put in models]}

    @property
    def _mode(self) -> Mode:
        return Mode.of(self.wanted.parameters)

    @property
    def _thoughts(self) -> bool:
        return self.wanted.parameters.get("has_thoughts") is True


def frames_of(outputs: Sequence[Output], session_id: str, request_id: str, usage: Mapping[str, Any]) -> list[bytes]:
    """The frames of a stream; the last one says ``stop`` and has the usage."""
    found = []
    for number, output in enumerate(outputs, 1):
        last = number == len(outputs)
        head = {"session_id": session_id, "finish_reason": "stop" if last else "null"}
        data = {"output": head | output, "usage": usage if last else {}, "request_id": request_id}
        found.append(b"id:%d\nevent:result\n:HTTP_STATUS/200\ndata:%b\n\n" % (number, _encode(data)))
    return found


def outputs_of(text: str, mode: Mode, size: int, *, thoughts: bool) -> list[Output]:
    """The output of each frame, without session and finish_reason."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    # Not a list: together these are as long as the square of the text.
    grown = (text[:end] for end in range(size, len(text) + size, size))
    begun: list[Output] = [{"text": "", "thoughts": _AGENT_THOUGHTS}] if thoughts else []
    if mode is Mode.DELTA:
        return [*begun, *({"text": piece} for piece in (*pieces, ""))]
    if mode is Mode.WHOLE:
        more: Output = {"thoughts": _AGENT_THOUGHTS} if thoughts else {}
        return [*begun, *({"text": part} | more for part in grown), {"text": text} | more]
    if mode is Mode.MESSAGES:
        return [*_workflow_messages(pieces), {"text": text}]
    # Without has_thoughts a workflow sends nothing until its end.
    return [*(_node(part) for part in grown if thoughts), {"text": text}]


def _workflow_messages(pieces: Sequence[str]) -> Iterator[Output]:
    for number, piece in enumerate((*pieces, "")):
        completed = number == len(pieces)
        message = {
            "node_id": "End_s1m0",
            "node_name": "结束",
            "node_type": "End",
            "node_status": "success" if completed else "executing",
            "node_is_completed": completed,
            "node_msg_seq_id": number,
            "message": {"role": "assistant", "content": piece},
        }
        yield {"workflow_message": message}


def _node(result: str) -> Output:
    node = {"nodeName": "大模型", "nodeType": "LLM", "nodeId": "LLM_s1m1", "nodeStatus": "executing"}
    response = _encode(node | {"nodeResult": result}).decode()
    return {"text": "", "thoughts": [{"action_type": "", "response": response}]}
