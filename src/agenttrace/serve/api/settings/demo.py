"""``/api/v1/demo``: demo sessions in the user's own store, loaded and removed again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from agenttrace.config import Settings
from agenttrace.record import demo_data
from agenttrace.record.demo_data import DemoBusyError
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.shapes.settings import DemoData
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.store.errors import STORE_FAILURES

_ERRORS = (401, 409, 503)


def demo_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["settings"])
    settings = context.settings

    def now() -> DemoData:
        return DemoData(demo_data.state(settings.home))

    @router.get("/demo", **endpoint("Whether there is demo data", DemoData, 401))
    async def show_demo(request: Request) -> Response:
        return answer(request, now())

    @router.post("/demo", **endpoint("Load demo data", DemoData, *_ERRORS, for_admins=True))
    async def load_demo(request: Request) -> Response:
        async with audited(request, "demo.load", "demo data"):
            await _change(settings, demo_data.load)
        return answer(request, now())

    @router.delete("/demo", **endpoint("Remove the demo data", DemoData, *_ERRORS, for_admins=True))
    async def remove_demo(request: Request) -> Response:
        async with audited(request, "demo.remove", "demo data"):
            await _change(settings, demo_data.remove)
            context.index.compare_all()
        return answer(request, now())

    return router


async def _change(settings: Settings, change: Callable[[Settings], bool]) -> None:
    try:
        await asyncio.to_thread(change, settings)
    except DemoBusyError as error:
        raise ProblemError(409, str(error)) from None
    except STORE_FAILURES as error:
        raise ProblemError(503, f"The store cannot be written at the moment: {error}.") from error
    except OSError as error:
        raise ProblemError(503, f"The demo data cannot be written: {error.strerror}.") from error
