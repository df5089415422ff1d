"""One process: HTTP server, worker or both, from the first connection to the last drained call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agenttrace.config import ServeSettings, Settings
from agenttrace.run import availability
from agenttrace.run.catalog.config import check_token
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.gate import needs_login
from agenttrace.serve.access.link import published
from agenttrace.serve.app import create_app
from agenttrace.serve.context import RunHalf
from agenttrace.serve.server import serve
from agenttrace.serve.team.retention import prune_daily
from agenttrace.store.current import StoreSource

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.run.jobs.worker import Worker

_NOT_HERE = "This is the server of a team: applications are run by agenttrace serve."

#: The problem in one sentence, for an error that can be expected; None for a bug.
Explain = Callable[[Exception], str | None]


@dataclass(frozen=True, kw_only=True)
class ServerReady:
    """The state of a process once it runs."""

    #: The URL of the server; None without one.
    url: str | None = None
    worker: bool
    #: Variables without which some application, or all of them, cannot be called.
    missing: tuple[str, ...]
    #: How many applications can be called.
    ready_apps: int = 0
    #: Why no application can be run at all.
    problem: str | None = None
    #: False where no application is configured, and none was run before: no database is started.
    used: bool = True
    #: True where the console needs a login by name, and there is no user yet.
    locked: bool = False
    #: The URL with the token that logs a browser of this machine in; None where no link does.
    link: str | None = field(default=None, repr=False)
    #: True where users and programs of this machine need no login.
    open_to_all: bool = False


async def run_process(
    settings: Settings,
    *,
    role: str,
    server: bool,
    worker: bool,
    stop: asyncio.Event,
    on_ready: Callable[[ServerReady], None],
    environ: Mapping[str, str] = os.environ,
    explain: Explain | None = None,
    team: StoreSource | None = None,
    program: str = "agenttrace",
) -> None:
    """Run until ``stop`` is set, then drain: what was accepted is finished, recorded or left to another worker.

    With ``explain`` the server shows what was recorded even where the database of the run half cannot be used. Without
    an application to call, and without a database from before, none is started. The server of a ``team`` runs none.
    Commands that the page advises begin with ``program``.
    """
    async with AsyncExitStack() as stack:
        if team is None:
            half = await _opened(stack, settings, role, environ, explain)
        else:
            half = RunHalf(problem=_NOT_HERE, used=False)
        engine = half.engine
        async with asyncio.TaskGroup() as tasks:
            # A worker that cannot call anything would only fail the jobs of one that can.
            working = worker and engine is not None and engine.calls is not None
            if working and engine is not None:
                tasks.create_task(_worker(engine, settings).run(stop))
            apps = () if engine is None else engine.catalog.apps.values()
            reach: dict[str, Any] = {}
            if server:
                listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                app = create_app(engine, settings, run_half=half, team=team, program=program)
                serving = serve(
                    app,
                    settings.serve.host,
                    settings.serve.port,
                    stop,
                    drain_seconds=settings.run.drain_seconds,
                    client_seconds=settings.serve.client_timeout_seconds,
                    on_listening=listening.set_result,
                )
                tasks.create_task(serving)
                storing = app.state.context.storing
                if storing is not None:
                    tasks.create_task(prune_daily(storing, app.state.access, settings.team.retention, stop))
                reach = _reach(await listening, app.state.access, settings.serve)
                stack.enter_context(published(settings.home, reach["url"], reach["link"]))
            ready = ServerReady(
                worker=working,
                missing=half.missing,
                ready_apps=sum(not app.missing for app in apps),
                problem=half.problem,
                used=half.used,
                **reach,
            )
            on_ready(ready)
            await stop.wait()


def _reach(url: str, access: AccessStore, settings: ServeSettings) -> dict[str, Any]:
    """How the server can be reached, and who may."""
    by_name = needs_login(settings)
    return {
        "url": url,
        "locked": by_name and not access.users.exist(),
        "link": access.start_token.link(url) if settings.login == "auto" and not by_name else None,
        "open_to_all": settings.login == "none" and not by_name,
    }


async def _opened(
    stack: AsyncExitStack, settings: Settings, role: str, environ: Mapping[str, str], explain: Explain | None
) -> RunHalf:
    try:
        check_token(environ)
        used = availability.is_used(settings, environ)
        if not availability.is_installed():
            return RunHalf(problem=str(availability.NotInstalledError()), used=used)
        if not used:
            return RunHalf(problem=availability.NOT_USED, missing=_missing(settings, environ), used=False)
        from agenttrace.run.engine import open_engine

        engine = await stack.enter_async_context(open_engine(settings, role, environ=environ))
        return RunHalf(engine=engine, missing=engine.missing)
    except Exception as error:
        problem = None if explain is None else explain(error)
        if problem is None:
            raise
        return RunHalf(problem=problem)


def _missing(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    from agenttrace.run.catalog.catalog import load_catalog, missing_variables

    return tuple(missing_variables(load_catalog(settings, environ), environ))


def _worker(engine: Engine, settings: Settings) -> Worker:
    from agenttrace.run.jobs.worker import Worker

    return Worker(
        engine.queue,
        engine.dispatcher,
        concurrency=settings.run.worker_concurrency,
        takeover_seconds=settings.run.takeover_seconds,
        drain_seconds=settings.run.drain_seconds,
    )
