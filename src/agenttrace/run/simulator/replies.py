"""One call on its way to its answer, or to what was ordered instead."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from agenttrace.run.simulator import delivery, frames
from agenttrace.run.simulator.asked import Asked
from agenttrace.run.simulator.calls import Call
from agenttrace.run.simulator.faults import Fault
from agenttrace.run.simulator.frames import Mode

_PROXY_PAGE = b"<html>\r\n<head><title>%d</title></head>\r\n<body><center><h1>%d</h1></center></body>\r\n</html>\r\n"

#: Cut off in the middle, with words around it: nothing that a JSON parser takes.
_NO_JSON = '好的，以下是分析结果：\n```json\n{"result": [{"title": "近期到店'

#: Where separators go: into the first string of a JSON object, behind the first pause of another text.
_STRING, _PAUSE = re.compile(r'":\s*"'), re.compile("[\uff0c\u3002\u3001]|$")
_SEPARATORS = "\u2028\u2029\u0085"

#: Tokens of the system prompt that an application has from its console.
SYSTEM_TOKENS = 60


@dataclass(kw_only=True, slots=True)
class Reply:
    """All that is needed to answer one call."""

    request: web.BaseRequest
    call: Call
    asked: Asked
    text: str
    session_id: str
    chunk_chars: int
    chunk_delay: float
    #: Set when the simulator stops: nothing hangs any longer.
    stopped: asyncio.Event
    usage: bytes = b"{}"
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    async def send(self, fault: Fault | None) -> web.StreamResponse:
        """Answer, or do what was ordered."""
        if fault is not None:
            if fault.kind in ("status", "session_expired") or (fault.kind == "error_frame" and not self.call.stream):
                return refusal(fault.http, fault.code, fault.message, self.request_id, fault.retry_after)
            if fault.kind == "error_200":
                return delivery.whole(frames.error(fault.code, fault.message, self.request_id))
            if fault.kind == "html":
                page = _PROXY_PAGE % (fault.http, fault.http)
                return delivery.whole(page, http=fault.http, content_type="text/html")
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            self._distort(fault.kind)
        self.call.text = self.text
        if fault is None or fault.kind != "empty_usage":
            self.usage = self._billed()
        return await (self._streamed(fault) if self.call.stream else self._plain(fault))

    def _distort(self, kind: str) -> None:
        if kind == "bad_json":
            self.text = _NO_JSON
        elif kind == "unicode_separators":
            place = _STRING if self.text.startswith("{") else _PAUSE
            self.text = place.sub(lambda found: found.group() + _SEPARATORS, self.text, count=1)

    def _billed(self) -> bytes:
        seen = "".join([str(turn.get("content", "")) for turn in self.call.context])
        read, said = SYSTEM_TOKENS + tokens(seen), tokens(self.text)
        models = [("qwen-plus", read, said)]
        if self._mode in (Mode.MESSAGES, Mode.FLOW_THOUGHTS):
            # A workflow asks a small model first where to go.
            models.insert(0, ("qwen-turbo", read, 4))
        return frames.usage(models)

    @property
    def _mode(self) -> Mode:
        return Mode.of(self.asked.parameters)

    @property
    def _thoughts(self) -> bool:
        return self.asked.parameters.get("has_thoughts") is True

    def _fill(self, template: bytes) -> bytes:
        return frames.fill(template, session_id=self.session_id, request_id=self.request_id, usage=self.usage)

    def _filled(self, templates: Sequence[bytes]) -> list[bytes]:
        # All at once and then apart again: three searches instead of three a frame.
        return self._fill(frames.BORDER.join(templates)).split(frames.BORDER)

    # -- without a stream ------------------------------------------------------------------------------------

    async def _plain(self, fault: Fault | None) -> web.StreamResponse:
        kind = fault.kind if fault is not None else ""
        if kind in ("hang", "reset"):
            return await self._end_badly(kind, web.Response())
        body = self._fill(frames.body(self.text, thoughts=self._thoughts, stopped=kind != "no_finish"))
        if kind in ("half_frame", "cut_after"):
            return await self._end_badly(kind, await delivery.half_body(self.request, body))
        return delivery.whole(body)

    # -- streams ---------------------------------------------------------------------------------------------

    async def _streamed(self, fault: Fault | None) -> web.StreamResponse:
        kind = fault.kind if fault is not None else ""
        chunks = fault.chunks if fault is not None else 0
        built = frames.stream(self.text, self._mode, chunk_chars=self.chunk_chars, thoughts=self._thoughts)
        if kind in ("hang", "reset") and not chunks:
            return await self._end_badly(kind, web.Response())
        if kind in ("hang", "reset", "cut_after", "half_frame"):
            return await self._broken_off(kind, self._filled(built), chunks)
        if kind == "no_finish":
            built = built[:-1]
        elif kind == "error_frame" and fault is not None:
            data = frames.error(fault.code, fault.message, self.request_id)
            built = (*built[:-1][:chunks], frames.error_frame(min(chunks, len(built) - 1) + 1, fault.http, data))
        if not self.chunk_delay:
            return delivery.stream_at_once(self._fill(b"".join(built)))
        return await delivery.stream(self.request, self._filled(built), self.chunk_delay)

    async def _broken_off(self, kind: str, filled: Sequence[bytes], chunks: int) -> web.StreamResponse:
        # Never so many that the stream would be complete after all.
        chunks = min(chunks, len(filled) - 1)
        sent = [*filled[:chunks]]
        if kind == "half_frame":
            torn = filled[chunks]
            sent.append(torn[: len(torn) // 2])
        response = await delivery.stream(self.request, sent, self.chunk_delay, ends=False)
        return await self._end_badly(kind, response)

    async def _end_badly(self, kind: str, response: web.StreamResponse) -> web.StreamResponse:
        if kind == "hang":
            await self.stopped.wait()
        if kind == "reset":
            delivery.reset(self.request)
        else:
            delivery.close(self.request)
        return response


def tokens(text: str) -> int:
    """About what a tokenizer would count: Chinese at 1.5 characters and English at 4 are both some 4 bytes."""
    return (len(text.encode(errors="surrogatepass")) + 3) // 4


def refusal(
    http: int, code: str, message: str, request_id: str | None = None, retry_after: float | None = None
) -> web.Response:
    """An error answer."""
    response = delivery.whole(frames.error(code, message, request_id or str(uuid.uuid4())), http=http)
    if retry_after is not None:
        response.headers["Retry-After"] = f"{retry_after:g}"
    return response
