"""``POST /api/xcx/chat/stream``: a chat turn as server-sent events.

A refusal that HTTP has a status for is answered before the stream begins; the others are a stream of one error event,
because the page of the user shows them there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from agenttrace.run.chat.conversation import ConversationNotFoundError
from agenttrace.run.chat.turn import ChatEvent, ChatService, ChatTurn, error_event
from agenttrace.run.engine import Engine
from agenttrace.run.errors import DashScopeError, RateLimitExceededError
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin, visitor
from agenttrace.serve.api.lists import BIGGEST, NO_NUL
from agenttrace.serve.api.runs.run_state import engine_of
from agenttrace.serve.auth import CHAT_USERS_ONLY, ChatUser, chat_user, slowly
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.event_stream import HEADERS, MEDIA_TYPE, EventStream
from agenttrace.serve.health import Life
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, documented

MESSAGE_CHARS = 8000
#: Of a user's name in the database.
_USER_CHARS = 100
_HEADS = {kind: f"event: {kind}\ndata: ".encode() for kind in ("message", "done", "error")}
_encoder = msgspec.json.Encoder()

_EXAMPLE_STREAM = """event: message
data: {"content":"您好"}

event: done
data: {"conversation_id":7,"message_id":22,"session_id":"conv_7_1794732814","tokens_used":110,"estimated":false}
"""

#: A stream of events in the OpenAPI document.
STREAM_DOCS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Any number of `message` events, then exactly one `done` or `error`.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE_STREAM}},
    }
}


def _not_blank(message: str) -> str:
    if not message.strip():
        raise PydanticCustomError("blank", "is blank")
    return message


class ChatRequest(StrictModel):
    """A message of a user, and the conversation."""

    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS), AfterValidator(_not_blank)]
    entry: Literal["general", "task", "customer", "coach"] = Field(
        default="general",
        description="`task` continues its conversation, `customer` and `coach` for 3 days; `general` begins one.",
    )
    target_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        pattern=NO_NUL,
        coerce_numbers_to_str=True,
        description="The task, customer or coach that it is about.",
    )
    conversation_id: int | None = Field(
        default=None, strict=True, ge=1, lt=2**63, description="Continues this conversation, whatever the entry is."
    )


def _frame(event: ChatEvent) -> bytes:
    """An event on the wire; JSON has no raw line ends, so it is always one line of data."""
    return b"%b%b\n\n" % (_HEADS[event.kind], _encoder.encode(event.data))


class TurnResponse(EventStream):
    """A turn as a stream; when it ends before the turn does, the turn is hung up."""

    def __init__(self, turn: ChatTurn, metrics: Metrics, heartbeat: float) -> None:
        super().__init__(heartbeat)
        self._turn, self._metrics = turn, metrics
        self.conversation_id = turn.conversation.id
        self._outcome = "hung_up"
        self._under_way: ChatEvent | None = None

    async def take(self) -> bytes:
        """The next events of the turn; those before have reached the user, which counts for the outcome."""
        if self._under_way is not None:
            self._outcome = _outcome_of(self._under_way)
        events = await self._turn.batch()
        self._under_way = events[-1] if events else None
        return b"".join(map(_frame, events))

    def over(self) -> None:
        """Hang up."""
        self._turn.hang_up()
        self._metrics.turns.labels(self._outcome).inc()


def _outcome_of(event: ChatEvent) -> str:
    """How a turn ended, for the metrics; a message is not an end."""
    return {"message": "hung_up", "done": "done"}.get(event.kind) or str(event.data["code"])


async def _begin(context: ServerContext, request: Request, user: ChatUser, body: ChatRequest) -> Response:
    """Begin a turn: its stream, or one of a single event where it is refused; raises what HTTP has a status for."""
    chat, metrics = _available(engine_of(context), context.life), context.metrics
    texts = chat.texts.preferred(request.headers.get("Accept-Language"))
    where = (body.entry, body.target_id, body.conversation_id)
    try:
        turn = await chat.start(user.id, user.site_id, body.message, *where, texts=texts)
    except ConversationNotFoundError:
        raise ProblemError(404, "There is no such conversation.") from None
    except RateLimitExceededError as error:
        metrics.turns.labels("rate_limited").inc()
        raise ProblemError(429, texts["rate_limited"], headers=_retry_after(error.retry_after)) from None
    except DashScopeError as error:
        refusal = error_event(error, texts)
        metrics.turns.labels(_outcome_of(refusal)).inc()
        return Response(_frame(refusal), 200, HEADERS, MEDIA_TYPE)
    return TurnResponse(turn, metrics, float(context.settings.serve.heartbeat_seconds))


def chat_router(context: ServerContext) -> APIRouter:
    """The endpoint for users."""
    router = APIRouter(prefix="/api/xcx/chat", tags=["chat"])
    secret = context.settings.jwt.secret

    @router.post(
        "/stream",
        summary="Send a message, and stream the answer",
        response_class=Response,
        responses=STREAM_DOCS | documented(400, 401, 404, 413, 422, 429, 503),
        openapi_extra=CHAT_USERS_ONLY
        | documented_body(
            ChatRequest,
            {"message": "今天的营业额怎么样？", "entry": "general"},
            {"message": "这位客户最近怎么样？", "entry": "customer", "target_id": "20317"},
        ),
    )
    async def stream_chat(request: Request) -> Response:
        if secret is None:
            raise missing(["AGENTTRACE_JWT_SECRET"])
        user = await slowly(request, "chat", lambda: chat_user(request, secret))
        _available(engine_of(context), context.life)
        return await _begin(context, request, user, await read_body(request, ChatRequest))

    return router


def _retry_after(seconds: float) -> dict[str, str]:
    """The header, rounded up."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


def _available(engine: Engine, life: Life) -> ChatService:
    """The chat; 503 while it cannot be used."""
    if engine.chat is None:
        app = engine.catalog.chat
        if app is None:
            raise ProblemError(503, "No application of the catalog chats: set stream = true for one.", missing=[])
        raise missing(app.missing)
    if life.stopping:
        raise ProblemError(503, "The server is stopping.", headers=_retry_after(1))
    return engine.chat


def missing(variables: Iterable[str]) -> ProblemError:
    """503 with the variables that have to be set."""
    names = list(variables)
    return ProblemError(503, f"Not configured: set {', '.join(names)} and start the server again.", missing=names)


# -- in the console -----------------------------------------------------------------------------------------------


class ChatTrialRequest(ChatRequest):
    """A message of an admin in place of a user, and the store."""

    site_id: int = Field(strict=True, ge=1, le=BIGGEST)


def chat_trial_router(context: ServerContext) -> APIRouter:
    """``POST /api/v1/chat``: the chat as its users have it, for admins who try it; an answer costs the same."""
    router = APIRouter(prefix="/api/v1", tags=["chat"])

    @router.post(
        "/chat",
        summary="Try the chat",
        description="The same events and errors as those of `/api/xcx/chat/stream`.",
        response_class=Response,
        responses=STREAM_DOCS | documented(400, 401, 403, 404, 413, 422, 429, 503),
        dependencies=[Depends(admin)],
        openapi_extra=documented_body(ChatTrialRequest, {"message": "今天的营业额怎么样？", "site_id": 1}),
    )
    async def try_chat(request: Request) -> Response:
        body = await read_body(request, ChatTrialRequest)
        user = ChatUser(f"console:{visitor(request).name}"[:_USER_CHARS], body.site_id)
        async with audited(request, "chat", _place(body.site_id, body.conversation_id)) as change:
            begun = await _begin(context, request, user, body)
            if isinstance(begun, TurnResponse):
                # The number of the conversation only: its texts are private.
                change.target = _place(body.site_id, begun.conversation_id)
            return begun

    return router


def _place(site_id: int, conversation_id: int | None) -> str:
    return f"site {site_id}" + ("" if conversation_id is None else f", conversation {conversation_id}")
