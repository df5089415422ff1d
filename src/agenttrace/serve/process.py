"""One process of the run half: HTTP server, worker or both, from the first connection to the last drained call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agenttrace.config import Settings
from agenttrace.run.engine import open_engine
from agenttrace.run.worker import Worker
from agenttrace.serve.app import create_app
from agenttrace.serve.server import serve


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What can be said once everything stands."""

    #: Where the server listens; None without one.
    url: str | None
    worker: bool
    #: Variables without which no application can be called.
    missing: tuple[str, ...]


async def run_process(
    settings: Settings,
    *,
    role: str,
    server: bool,
    worker: bool,
    stop: asyncio.Event,
    on_ready: Callable[[Ready], None],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run until ``stop`` is set, then drain: what was accepted is finished, recorded or left to another worker."""
    async with open_engine(settings, role, environ=environ) as engine, asyncio.TaskGroup() as tasks:
        # A worker that cannot call anything would only fail the jobs that wait for one that can.
        working = worker and engine.calls is not None
        listening: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        if working:
            crew = Worker(
                engine.queue,
                engine.dispatcher,
                concurrency=settings.run.worker_concurrency,
                takeover_seconds=settings.run.takeover_seconds,
                drain_seconds=settings.run.drain_seconds,
            )
            tasks.create_task(crew.run(stop))
        if server:
            app = create_app(engine, settings)
            at = (settings.serve.host, settings.serve.port)
            drain = settings.run.drain_seconds
            tasks.create_task(serve(app, *at, stop, drain_seconds=drain, on_listening=listening.set_result))
        else:
            listening.set_result(None)
        on_ready(Ready(url=await listening, worker=working, missing=engine.missing))
        await stop.wait()
