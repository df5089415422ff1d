"""One call on its way to its answer, or to what was ordered instead."""

from __future__ import annotations

import asyncio
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from agenttrace.run.simulator import delivery
from agenttrace.run.simulator.app_request import AppRequest
from agenttrace.run.simulator.call_log import ReceivedCall
from agenttrace.run.simulator.faults import Fault

_PROXY_PAGE = b"<html>\r\n<head><title>%d</title></head>\r\n<body><center><h1>%d</h1></center></body>\r\n</html>\r\n"

#: Cut off in the middle, with words around it: nothing that a JSON parser takes.
_NO_JSON = '好的，以下是分析结果：\n```json\n{"result": [{"title": "近期到店'

#: Where separators go: into the first string of a JSON object, behind the first pause of another text.
_STRING, _PAUSE = re.compile(r'":\s*"'), re.compile("[\uff0c\u3002\u3001]|$")
_SEPARATORS = "\u2028\u2029\u0085"


@dataclass(kw_only=True)
class SimulatedReply(ABC):
    """All that is needed to answer one call; what its bytes are is a matter of the wire format."""

    request: web.BaseRequest
    call: ReceivedCall
    asked: AppRequest
    text: str
    session_id: str
    chunk_chars: int
    chunk_delay: float
    #: Set when the simulator stops: nothing hangs any longer.
    stopped: asyncio.Event
    is_billed: bool = True
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @abstractmethod
    def body(self, *, stopped: bool) -> bytes:
        """The answer in one piece; without ``stopped`` it is not marked as complete."""

    @abstractmethod
    def frames(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The frames of a stream that bring text, and those that complete it."""

    @abstractmethod
    def unfinished(self) -> Sequence[bytes]:
        """The end of a stream that is never marked as complete."""

    @abstractmethod
    def error(self, http: int, code: str, message: str) -> bytes:
        """The body of an error."""

    @abstractmethod
    def error_frame(self, number: int, http: int, code: str, message: str) -> bytes:
        """The frame that ends a stream with an error."""

    async def send(self, fault: Fault | None) -> web.StreamResponse:
        """Answer, or do what was ordered."""
        if fault is not None:
            if fault.kind in ("status", "session_expired") or (fault.kind == "error_frame" and not self.call.stream):
                body = self.error(fault.http, fault.code, fault.message)
                return refusal(fault.http, body, fault.retry_after)
            if fault.kind == "error_200":
                return delivery.whole(self.error(200, fault.code, fault.message))
            if fault.kind == "html":
                page = _PROXY_PAGE % (fault.http, fault.http)
                return delivery.whole(page, http=fault.http, content_type="text/html")
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            self._distort(fault.kind)
        self.call.text = self.text
        self.is_billed = fault is None or fault.kind != "empty_usage"
        return await (self._streamed(fault) if self.call.stream else self._plain(fault))

    def _distort(self, kind: str) -> None:
        if kind == "bad_json":
            self.text = _NO_JSON
        elif kind == "unicode_separators":
            place = _STRING if self.text.startswith("{") else _PAUSE
            self.text = place.sub(lambda found: found.group() + _SEPARATORS, self.text, count=1)

    # -- without a stream ------------------------------------------------------------------------------------

    async def _plain(self, fault: Fault | None) -> web.StreamResponse:
        kind = fault.kind if fault is not None else ""
        if kind in ("hang", "reset"):
            return await self._end_badly(kind, web.Response())
        body = self.body(stopped=kind != "no_finish")
        if kind in ("half_frame", "cut_after"):
            return await self._end_badly(kind, await delivery.half_body(self.request, body))
        return delivery.whole(body)

    # -- streams ---------------------------------------------------------------------------------------------

    async def _streamed(self, fault: Fault | None) -> web.StreamResponse:
        kind = fault.kind if fault is not None else ""
        chunks = fault.chunks if fault is not None else 0
        if kind in ("hang", "reset") and not chunks:
            return await self._end_badly(kind, web.Response())
        text, end = self.frames()
        if kind in ("hang", "reset", "cut_after", "half_frame"):
            return await self._broken_off(kind, [*text, *end], min(chunks, len(text)))
        if kind == "no_finish":
            end = self.unfinished()
        elif kind == "error_frame" and fault is not None:
            text = text[:chunks]
            end = [self.error_frame(len(text) + 1, fault.http, fault.code, fault.message)]
        if not self.chunk_delay:
            return delivery.stream_at_once(b"".join((*text, *end)))
        return await delivery.stream(self.request, [*text, *end], self.chunk_delay)

    async def _broken_off(self, kind: str, frames: Sequence[bytes], chunks: int) -> web.StreamResponse:
        sent = [*frames[:chunks]]
        if kind == "half_frame":
            torn = frames[chunks]
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


def refusal(http: int, body: bytes, retry_after: float | None = None) -> web.Response:
    """An error answer."""
    response = delivery.whole(body, http=http)
    if retry_after is not None:
        response.headers["Retry-After"] = f"{retry_after:g}"
    return response
