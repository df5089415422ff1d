"""Fake models behind the programs under test: DashScope for AgentTrace, OpenAI for LiteLLM, with equal cost.

Both send the same texts in the same pieces at the same rate, from prepared bytes.
``python -m benchmarks.run_fakes dashscope|openai`` runs one of them as a separate process.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop
from aiohttp import web

from agenttrace.run.simulator import Simulator, delivery
from benchmarks.run_processes import Process

FRAMES = 20
_PIECE = 4
#: Streamed: twenty pieces of four characters.
CHAT_TEXT = ("本周营业额环比增长一成二,主要来自周末晚间时段;" * 4)[: FRAMES * _PIECE]
#: Not streamed: the answer of an application of a chain.
CLUES = {
    "summary": "近一个月到店六次,偏好周末晚间,消费稳定上升,对斯诺克课程有兴趣。",
    "clues": [
        {"category": "消费习惯", "summary": "周五与周六晚间到店,平均停留两小时四十分钟", "emoji": "🎱", "score": 8},
        {"category": "客户基础", "summary": "办理储值会员两年,余额约一千二百元", "emoji": "💳", "score": 7},
        {"category": "促销偏好", "summary": "对赠送时长的活动有反应,对饮品券没有反应", "emoji": "🎁", "score": 5},
    ],
}
CLUES_TEXT = msgspec.json.encode(CLUES).decode()
PLAIN_APP, CHAT_APP = "sim-app3-clue", "sim-app1-chat"

_USAGE = {"prompt_tokens": 74, "completion_tokens": 36, "total_tokens": 110}
_HEAD = {"id": "chatcmpl-1", "created": 1794732814, "model": "fake"}


def start(kind: str, environ: Mapping[str, str], *, frame_delay: float = 0.0) -> Process:
    """Run a fake as a separate process; its first line has its address."""
    command = [sys.executable, "-m", "benchmarks.run_fakes", kind, "--frame-delay", str(frame_delay)]
    return Process(command, environ=environ, cwd=Path(__file__).parents[1])


class OpenAI:
    """Chat completions, whole and streamed."""

    def __init__(self, frame_delay: float) -> None:
        self._delay = frame_delay
        self._whole = _completion(CLUES_TEXT)
        self._frames = _chunks(CHAT_TEXT)
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; the base URL."""
        handler = web.Server(self._handle, access_log=None)
        self._server = await asyncio.get_running_loop().create_server(handler, "127.0.0.1", 0, backlog=1024)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read())
        if not asked.get("stream"):
            return delivery.whole(self._whole)
        if not self._delay:
            return delivery.stream_at_once(b"".join(self._frames))
        return await delivery.stream(request, self._frames, self._delay)


def _completion(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return msgspec.json.encode({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})


def _chunks(text: str) -> Sequence[bytes]:
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    frames = [_chunk({"role": "assistant", "content": piece}, None) for piece in pieces]
    return [*frames, _chunk({}, "stop", _USAGE) + b"data: [DONE]\n\n"]


def _chunk(delta: dict[str, str], reason: str | None, usage: dict[str, int] | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {**_HEAD, "object": "chat.completion.chunk", "choices": [choice]} | ({"usage": usage} if usage else {})
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


async def _dashscope(frame_delay: float) -> str:
    simulator = Simulator(chunk_delay=frame_delay, chunk_chars=_PIECE)
    simulator.answer(CHAT_APP, CHAT_TEXT)
    simulator.answer(PLAIN_APP, CLUES_TEXT)
    await simulator.start()
    return simulator.base_url


async def _main(kind: str, frame_delay: float) -> None:
    url = await (_dashscope(frame_delay) if kind == "dashscope" else OpenAI(frame_delay).start())
    sys.stdout.buffer.write(msgspec.json.encode({"url": url}) + b"\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["dashscope", "openai"])
    parser.add_argument("--frame-delay", type=float, default=0.0)
    given = parser.parse_args()
    uvloop.run(_main(given.kind, given.frame_delay))
