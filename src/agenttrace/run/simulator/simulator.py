"""The simulator itself: an HTTP server on which applications answer and fail as they are ordered to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from agenttrace.run.simulator import control, delivery
from agenttrace.run.simulator import dashscope_endpoint as dashscope
from agenttrace.run.simulator import openai_endpoint as openai
from agenttrace.run.simulator.app_request import AppRequest, BadRequestError, asked, decoded
from agenttrace.run.simulator.call_log import CallLog, ReceivedCall
from agenttrace.run.simulator.cloud_sessions import Sessions, new_session_id
from agenttrace.run.simulator.dashscope_endpoint import AppReply
from agenttrace.run.simulator.faults import Fault, Orders
from agenttrace.run.simulator.generated_answers import default_answer
from agenttrace.run.simulator.openai_endpoint import ChatReply
from agenttrace.run.simulator.replies import refusal

_PREFIX, _SUFFIX = "/api/v1/apps/", "/completion"

#: The answer of an application: a text, an object that becomes JSON, or a function of the request's body.
AnswerValue = dict[str, Any] | str | Callable[[dict[str, Any]], "dict[str, Any] | str"]

#: How long a stop waits for answers that are under way.
_STOP_SECONDS = 0.2

#: With these the answer is not the one that the session remembers.
_FORGOTTEN = frozenset(("status", "error_200", "html", "hang", "reset", "session_expired"))


class Simulator:
    """A DashScope on this machine::

        async with Simulator() as simulator:
            simulator.script("sim-app3-clue", faults.status(503), faults.hang())
            ...  # call simulator.base_url

    Without an ``api_key`` every key is good. ``latency`` comes before each answer, ``chunk_delay`` before each frame.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        latency: float = 0.0,
        chunk_delay: float = 0.0,
        chunk_chars: int = 4,
        seed: int = 0,
        session_seconds: float = 3600,
        session_rounds: int = 50,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host, self.port = host, port
        self.latency, self.chunk_delay, self.chunk_chars, self.seed = latency, chunk_delay, chunk_chars, seed
        self.log = CallLog()
        self._orders = Orders(seed)
        self._sessions = Sessions(seconds=session_seconds, rounds=session_rounds, clock=clock)
        self._authorization = None if api_key is None else f"Bearer {api_key}"
        self._answers: dict[str, AnswerValue] = {}
        self._stopped = asyncio.Event()
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    # -- start and stop --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen; with port 0 the system chooses one, which is then ``self.port``."""
        self._stopped.clear()
        self._web = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(
            self._web, self.host, self.port, backlog=1024, reuse_address=True
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections, also those of calls that hang."""
        if self._listener is None or self._web is None:
            return
        self._stopped.set()
        self._listener.close()
        await self._web.shutdown(_STOP_SECONDS)
        await self._listener.wait_closed()
        self._listener = self._web = None

    async def __aenter__(self) -> Simulator:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        """What ``DASHSCOPE_BASE_URL`` is to be."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/api/v1"

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for clients that speak OpenAI's protocol."""
        return self.base_url.removesuffix("/api/v1") + openai.PREFIX

    @property
    def calls(self) -> list[ReceivedCall]:
        """The calls received, oldest first."""
        return self.log.calls

    # -- orders ---------------------------------------------------------------------------------------------

    def script(self, app_id: str | None, *faults: Fault) -> None:
        """The next calls to that app (None: to any) go wrong like this, one each, in order; then all is well."""
        self._orders.queue(app_id, faults)

    def always(self, app_id: str | None, fault: Fault | None, *, rate: float = 1.0) -> None:
        """Every call to that app (None: to any), or that share of them, gets this fault until it is None."""
        self._orders.stand(app_id, fault, rate)

    def answer(self, app_id: str, value: AnswerValue | None) -> None:
        """The answer of the app from now on; None: its default answer."""
        if value is None:
            self._answers.pop(app_id, None)
        else:
            self._answers[app_id] = value

    def clear(self, what: str) -> None:
        """Forget the ``faults``, ``calls``, ``sessions`` or ``answers``."""
        forget = {
            "faults": self._orders.clear,
            "calls": self.log.clear,
            "sessions": self._sessions.clear,
            "answers": self._answers.clear,
        }
        forget[what]()

    # -- one request -----------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        app_id = path[len(_PREFIX) : -len(_SUFFIX)]
        if not (path.startswith(_PREFIX) and path.endswith(_SUFFIX)) or not app_id or "/" in app_id:
            return await self._elsewhere(request)
        if request.method != "POST":
            return refusal(405, dashscope.error("MethodNotAllowed", "Applications are called with POST."))
        body = decoded(await request.content.read())
        stream = request.headers.get("X-DashScope-SSE", "").lower() == "enable"
        call = ReceivedCall(app_id=app_id, body=body or {}, headers=_shown(request), stream=stream)
        return await self._completion(request, call, body, AppReply, asked)

    async def _elsewhere(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == f"{openai.PREFIX}/models" and request.method == "GET":
            return delivery.whole(openai.models())
        if request.path == f"{openai.PREFIX}/chat/completions" and request.method == "POST":
            body = decoded(await request.content.read())
            given = body or {}
            model, stream = str(given.get("model") or ""), given.get("stream") is True
            call = ReceivedCall(app_id=model, body=given, headers=_shown(request), stream=stream)
            return await self._completion(request, call, body, ChatReply, openai.asked)
        done = await control.handle(self, request)
        return done or refusal(404, dashscope.error("NotFound", "There is nothing at this path."))

    async def _completion(
        self,
        request: web.BaseRequest,
        call: ReceivedCall,
        body: dict[str, Any] | None,
        kind: type[AppReply] | type[ChatReply],
        read: Callable[[dict[str, Any]], AppRequest],
    ) -> web.StreamResponse:
        self.log.begin(call)
        try:
            self._check(request.headers.get("Authorization", ""), body)
            return await self._reply(request, call, read(call.body), kind)
        except BadRequestError as refused:
            self.log.end(call, "refused")
            error = refused.code, refused.message
            return refusal(
                refused.http, openai.error(refused.http, *error) if kind is ChatReply else dashscope.error(*error)
            )
        except asyncio.CancelledError:
            self.log.end(call, "hung_up")
            raise
        except ConnectionError:
            # The client is gone; raised, this would be logged as an error of the server.
            self.log.end(call, "hung_up")
            return web.Response()

    def _check(self, authorization: str, body: dict[str, Any] | None) -> None:
        if self._authorization is not None and authorization != self._authorization:
            raise BadRequestError(401, "InvalidApiKey", "Invalid API-key provided.")
        if body is None:
            raise BadRequestError(400, "InvalidParameter", "The request body is no JSON object.")

    async def _reply(
        self, request: web.BaseRequest, call: ReceivedCall, wanted: AppRequest, kind: type[AppReply] | type[ChatReply]
    ) -> web.StreamResponse:
        fault = self._orders.take(call.app_id, in_session=wanted.session_id is not None)
        self._enter_session(call, wanted, fault)
        if self.latency:
            await asyncio.sleep(self.latency)
        reply = kind(
            request=request,
            call=call,
            asked=wanted,
            text=self._text(call, wanted),
            session_id=call.session_id,
            chunk_chars=self.chunk_chars,
            chunk_delay=self.chunk_delay,
            stopped=self._stopped,
        )
        response = await reply.send(fault)
        self.log.end(call, "answered" if fault is None else fault.kind)
        if fault is None or fault.kind not in _FORGOTTEN:
            self._sessions.add_round(call.session_id, call.context, call.text)
        return response

    def _enter_session(self, call: ReceivedCall, wanted: AppRequest, fault: Fault | None) -> None:
        history = None
        if wanted.session_id is not None and not (fault is not None and fault.kind == "session_changed"):
            history = self._sessions.history(wanted.session_id)
        call.context = wanted.turns if history is None else (*history, *wanted.turns)
        # An id that is unknown or has expired is answered with a new one, and without what was said before.
        call.session_id = wanted.session_id if history is not None and wanted.session_id else new_session_id()

    def _text(self, call: ReceivedCall, wanted: AppRequest) -> str:
        value = self._answers.get(call.app_id)
        if value is None:
            return default_answer(call.app_id, wanted, call.context, self.seed)
        said = value(call.body) if callable(value) else value
        return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _shown(request: web.BaseRequest) -> CIMultiDict[str]:
    """The headers without the key."""
    headers = CIMultiDict(request.headers)
    headers.popall("Authorization", None)
    return headers
