"""``GET /healthz`` and ``/readyz``: the process is alive; it can do its work, or why not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.serve.api.trace_reader import TraceReader
    from agenttrace.serve.context import RunHalf
    from agenttrace.store.store import Store

_PATIENCE = 3.0


class Alive(BaseModel):
    """The process answers."""

    status: str = "alive"


class Readiness(BaseModel):
    """What the server needs, and whether it has it."""

    #: ``ready`` or ``not ready``
    status: str
    database: bool
    #: The tables are those that this version works with.
    migrated: bool
    #: The store of the team answers; null where this is no server of a team.
    store: bool | None
    #: The server is stopping and accepts no new work.
    stopping: bool
    #: Variables without which no application can be called; everything else works.
    missing: list[str]
    #: Why no application can be run; null where they can be.
    reason: str | None


@dataclass(slots=True)
class Life:
    """The state that the server sets for the application."""

    stopping: bool = False


def health_router(run_half: RunHalf, life: Life, reader: TraceReader | None = None) -> APIRouter:
    """The two endpoints; ``reader``: that of a team's store, without which a server cannot do its work."""
    router = APIRouter(tags=["operation"])
    probe = None if reader is None else _StoreProbe(reader)

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
        revision = None if run_half.engine is None else await _revision(run_half.engine)
        migrated = revision is not None and revision == _newest()
        # Where the run half is not used, the console is all of the work.
        store = None if probe is None else await probe.answers()
        is_ready = (migrated or not run_half.used) and store is not False and not life.stopping
        state = Readiness(
            status="ready" if is_ready else "not ready",
            database=revision is not None,
            migrated=migrated,
            store=store,
            stopping=life.stopping,
            missing=list(run_half.missing),
            reason=run_half.problem,
        )
        return JSONResponse(state.model_dump(), 200 if is_ready else 503)

    return router


class _StoreProbe:
    """Asks the store, one question at a time: while it does not answer, no more threads wait for it."""

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self._asked: asyncio.Task[bool] | None = None

    async def answers(self) -> bool:
        """Whether the store answers soon."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait((self._asked,), timeout=_PATIENCE)
        return bool(done) and self._asked.result()

    async def _ask(self) -> bool:
        try:
            return await self._reader.query(_answered, empty=lambda: False)
        except Exception:
            # It does not answer, which is the result.
            return False


def _answered(store: Store) -> bool:
    store.event_mark(0)  # a question that costs little
    return True


def _newest() -> str:
    from agenttrace.run.postgres.pool import HEAD

    return HEAD


async def _revision(engine: Engine) -> str | None:
    """The revision of the tables; empty where there are none, None where the database does not answer."""
    try:
        async with asyncio.timeout(_PATIENCE):
            there = await engine.database.one("SELECT to_regclass('biz.agenttrace_revision') IS NOT NULL")
            if there != (True,):
                return ""
            row = await engine.database.one("SELECT version_num FROM biz.agenttrace_revision")
    except Exception:
        # The database does not answer, which is the result.
        return None
    return "" if row is None else str(row[0])
