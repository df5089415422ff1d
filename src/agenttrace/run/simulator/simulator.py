"""The simulator: an HTTP server on which applications answer, or fail as ordered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from agenttrace.run.simulator import control, delivery
from agenttrace.run.simulator import openai_endpoint as openai
from agenttrace.run.simulator.builtin_apps import default_answer
from agenttrace.run.simulator.calls import (
    AppRequest,
    CallLog,
    CloudSessions,
    RequestRefusedError,
    SimulatedCall,
    decoded,
    new_session_id,
)
from agenttrace.run.simulator.dashscope_endpoint import AppReply
from agenttrace.run.simulator.faults import Fault, FaultPlan
from agenttrace.run.simulator.openai_endpoint import ChatReply
from agenttrace.run.simulator.replies import SimulatedReply, refusal

_PREFIX, _SUFFIX = "/api/v1/apps/", "/completion"

#: The answer of an application: a text, an object that becomes JSON, or a function of the request's body.
AnswerValue = dict[str, Any] | str | Callable[[dict[str, Any]], "dict[str, Any] | str"]

#: How long a stop waits for running answers.
_STOP_SECONDS = 0.2

#: Faults after which the session has no new round.
_FORGOTTEN = frozenset(("status", "error_200", "html", "hang", "reset", "session_expired"))


class Simulator:
    """A DashScope on this machine::

        async with Simulator() as simulator:
            simulator.script("sim-app3-clue", faults.status(503), faults.hang())
            ...  # call simulator.base_url

    Without an ``api_key`` every key is accepted. ``latency`` is before each answer, ``chunk_delay`` before each frame.
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
        self._faults = FaultPlan(seed)
        self._sessions = CloudSessions(seconds=session_seconds, rounds=session_rounds, clock=clock)
        self._authorization = None if api_key is None else f"Bearer {api_key}"
        self._answers: dict[str, AnswerValue] = {}
        self._stopped = asyncio.Event()
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    # -- start and stop --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen; port 0 lets the system choose one, which ``self.port`` then names."""
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        """The value of ``DASHSCOPE_BASE_URL``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/api/v1"

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for clients that speak OpenAI's protocol."""
        return self.base_url.removesuffix("/api/v1") + openai.PREFIX

    @property
    def calls(self) -> list[SimulatedCall]:
        """The calls received, oldest first."""
        return self.log.calls

    # -- faults and answers ----------------------------------------------------------------------------------

    def script(self, app_id: str | None, *faults: Fault) -> None:
        """The next calls to that app (None: to any) get these faults, one each, in order."""
        self._faults.queue(app_id, faults)

    def always(self, app_id: str | None, fault: Fault | None, *, rate: float = 1.0) -> None:
        """Every call to that app (None: to any), or that share of them, gets this fault; a fault of None ends it."""
        self._faults.always(app_id, fault, rate)

    def answer(self, app_id: str, value: AnswerValue | None) -> None:
        """Set the answer of an app; None: its generated answers again."""
        if value is None:
            self._answers.pop(app_id, None)
        else:
            self._answers[app_id] = value

    def clear(self, what: str) -> None:
        """Remove the ``faults``, ``calls``, ``sessions`` or ``answers``."""
        clear = {
            "faults": self._faults.clear,
            "calls": self.log.clear,
            "sessions": self._sessions.clear,
            "answers": self._answers.clear,
        }
        clear[what]()

    # -- one request -----------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        app_id = path[len(_PREFIX) : -len(_SUFFIX)]
        if not (path.startswith(_PREFIX) and path.endswith(_SUFFIX)) or not app_id or "/" in app_id:
            return await self._elsewhere(request)
        if request.method != "POST":
            return refusal(405, AppReply.error(405, "MethodNotAllowed", "Applications are called with POST."))
        body = decoded(await request.content.read())
        stream = request.headers.get("X-DashScope-SSE", "").lower() == "enable"
        return await self._completion(request, app_id, body, AppReply, stream=stream)

    async def _elsewhere(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == f"{openai.PREFIX}/models" and request.method == "GET":
            return delivery.whole(openai.models())
        if request.path == f"{openai.PREFIX}/chat/completions" and request.method == "POST":
            body = decoded(await request.content.read())
            model, stream = (body or {}).get("model") or "", (body or {}).get("stream") is True
            return await self._completion(request, str(model), body, ChatReply, stream=stream)
        done = await control.handle(self, request)
        return done or refusal(404, AppReply.error(404, "NotFound", "There is nothing at this path."))

    async def _completion(
        self,
        request: web.BaseRequest,
        app_id: str,
        body: dict[str, Any] | None,
        kind: type[SimulatedReply],
        *,
        stream: bool,
    ) -> web.StreamResponse:
        headers = CIMultiDict(request.headers)
        authorization = headers.popall("Authorization", [""])[0]
        call = SimulatedCall(app_id=app_id, body=body or {}, headers=headers, stream=stream)
        self.log.begin(call)
        try:
            self._check(authorization, body)
            return await self._reply(request, call, kind.read(call.body), kind)
        except RequestRefusedError as refused:
            self.log.end(call, "refused")
            return refusal(refused.http, kind.error(refused.http, refused.code, refused.message))
        except asyncio.CancelledError:
            self.log.end(call, "hung_up")
            raise
        except ConnectionError:
            # The client is gone; raised, aiohttp would log it as an error of the server.
            self.log.end(call, "hung_up")
            return web.Response()

    def _check(self, authorization: str, body: dict[str, Any] | None) -> None:
        if self._authorization is not None and authorization != self._authorization:
            raise RequestRefusedError(401, "InvalidApiKey", "Invalid API-key provided.")
        if body is None:
            raise RequestRefusedError(400, "InvalidParameter", "The request body is no JSON object.")

    async def _reply(
        self, request: web.BaseRequest, call: SimulatedCall, wanted: AppRequest, kind: type[SimulatedReply]
    ) -> web.StreamResponse:
        fault = self._faults.take(call.app_id, in_session=wanted.session_id is not None)
        self._enter_session(call, wanted, fault)
        if self.latency:
            await asyncio.sleep(self.latency)
        reply = kind(
            request=request,
            call=call,
            wanted=wanted,
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

    def _enter_session(self, call: SimulatedCall, wanted: AppRequest, fault: Fault | None) -> None:
        history = None
        if wanted.session_id is not None and not (fault is not None and fault.kind == "session_changed"):
            history = self._sessions.history(wanted.session_id)
        call.context = wanted.turns if history is None else (*history, *wanted.turns)
        # An unknown or expired id is answered with a new one, and without the history.
        call.session_id = wanted.session_id if history is not None and wanted.session_id else new_session_id()

    def _text(self, call: SimulatedCall, wanted: AppRequest) -> str:
        value = self._answers.get(call.app_id)
        if value is None:
            return default_answer(call.app_id, wanted, call.context, self.seed)
        said = value(call.body) if callable(value) else value
        return said if isinstance(said, str) else msgspec.json.encode(said).decode()
