"""``POST /api/v1/chat``: the chat as its users have it, for admins who try it; an answer costs the same."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin, visitor
from agenttrace.serve.api.answers import BIGGEST
from agenttrace.serve.api.runs.run_state import engine_of
from agenttrace.serve.auth import ChatUser
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.chat import STREAM_DOCS, ChatRequest, TurnResponse, available_chat, say
from agenttrace.serve.context import Context
from agenttrace.serve.problems import documented

#: What the columns for users hold.
_USER_CHARS = 100


class ChatTrialRequest(ChatRequest):
    """A message of an admin in place of a user, and the store."""

    site_id: int = Field(strict=True, ge=1, le=BIGGEST)


def chat_router(context: Context) -> APIRouter:
    """The endpoint."""
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
            chat = available_chat(engine_of(context), context.life)
            heartbeat = float(context.settings.serve.heartbeat_seconds)
            begun = await say(chat, user, body, context.metrics, heartbeat, request.headers.get("Accept-Language"))
            if isinstance(begun, TurnResponse):
                # The number of the conversation only: its texts are private.
                change.target = _place(body.site_id, begun.conversation_id)
            return begun

    return router


def _place(site_id: int, conversation_id: int | None) -> str:
    return f"site {site_id}" + ("" if conversation_id is None else f", conversation {conversation_id}")
