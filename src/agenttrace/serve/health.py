"""``GET /healthz`` and ``/readyz``: the process is alive; it can do its work, or what is in the way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from agenttrace.run.database import HEAD
from agenttrace.run.engine import Engine

_PATIENCE = 3.0


class Alive(BaseModel):
    """The process answers."""

    status: str = "alive"


class Readiness(BaseModel):
    """What is needed, and whether it is there."""

    #: ``ready`` or ``not ready``
    status: str
    database: bool
    #: The tables are those that this version works with.
    migrated: bool
    #: The server has been told to stop and takes no new work.
    stopping: bool
    #: Variables without which no application can be called; everything else works.
    missing: list[str]


@dataclass(slots=True)
class Life:
    """What the application is told by whoever runs it."""

    stopping: bool = False


def health_router(engine: Engine | None, life: Life) -> APIRouter:
    """The two endpoints."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Alive:
        return Alive()

    @router.get(
        "/readyz",
        summary="Can the server do its work?",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "Not now, and why."}},
    )
    async def readyz() -> Response:
        revision = None if engine is None else await _revision(engine)
        is_ready = revision == HEAD and not life.stopping
        state = Readiness(
            status="ready" if is_ready else "not ready",
            database=revision is not None,
            migrated=revision == HEAD,
            stopping=life.stopping,
            missing=[] if engine is None else list(engine.missing),
        )
        return JSONResponse(state.model_dump(), 200 if is_ready else 503)

    return router


async def _revision(engine: Engine) -> str | None:
    """The revision of the tables; empty where there are none, None where the database does not answer."""
    try:
        async with asyncio.timeout(_PATIENCE):
            there = await engine.database.one("SELECT to_regclass('biz.agenttrace_revision') IS NOT NULL")
            if there != (True,):
                return ""
            row = await engine.database.one("SELECT version_num FROM biz.agenttrace_revision")
    except Exception:
        # Whatever it is, it is the database's: an answer is what the question was about.
        return None
    return "" if row is None else str(row[0])
