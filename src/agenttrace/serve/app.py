"""The HTTP application: its endpoints, middleware and OpenAPI document."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi

from agenttrace.config import Settings
from agenttrace.console import PAGE
from agenttrace.serve.access.access_store import open_access
from agenttrace.serve.access.endpoints import access_router
from agenttrace.serve.access.gate import ConsoleGate, SecurityHeaders
from agenttrace.serve.access.oidc import open_provider
from agenttrace.serve.access.oidc_endpoints import oidc_router
from agenttrace.serve.access.persons import persons_router
from agenttrace.serve.access.sights import Sights
from agenttrace.serve.api import answers
from agenttrace.serve.api.live.hub import Hub
from agenttrace.serve.api.routers import api_routers
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.trace_reader import TraceReader
from agenttrace.serve.auth import SECURITY_SCHEMES
from agenttrace.serve.console import console_router, load_page
from agenttrace.serve.context import RunHalf, ServerContext
from agenttrace.serve.health import Life, health_router
from agenttrace.serve.intake.router import intake_router
from agenttrace.serve.intake.span_log import SpanLog, SpanWriter, log_directory
from agenttrace.serve.limits import Limits
from agenttrace.serve.metrics import Metrics, metrics_router
from agenttrace.serve.problems import Problem, ProblemError, add_handlers
from agenttrace.serve.team.router import team_router
from agenttrace.serve.team.storing import Storing
from agenttrace.store.current import StoreSource
from agenttrace.store.session_state import StateLimits
from agenttrace.views.places import store_path

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

_DESCRIPTION = """What AI agents did and what it cost, and LLM applications behind a circuit breaker, rate limits and a
token budget.

`/api/v1` is what the console shows: lists have `items` and `next` (give it back as `cursor`), answers have an `ETag`.
Errors are `application/problem+json` with `title`, `status` and `detail`."""


def create_app(
    engine: Engine | None,
    settings: Settings,
    *,
    problem: str | None = None,
    run_half: RunHalf | None = None,
    team: StoreSource | None = None,
    program: str = "agenttrace",
) -> FastAPI:
    """The application; without an engine it shows what was recorded, and ``problem`` says why nothing can be run.

    ``team``: the store of a team, which is shown in place of this machine's, and takes the rows of other machines. Its
    members and viewers do not see everything. ``program``: what the commands that the page advises begin with.

    The caller closes the engine after the application has stopped. The server calls ``app.state.context.close()`` for
    what the application opened.
    """
    # FastAPI's pages load scripts from other sites.
    pages: dict[str, Any] = {"docs_url": None, "redoc_url": None}
    app = FastAPI(title="AgentTrace", version=version("agenttrace"), description=_DESCRIPTION, **pages)
    if run_half is None:
        run_half = RunHalf(engine=engine, problem=problem, missing=() if engine is None else engine.missing)
    context = _context(run_half, settings, team)
    app.state.context, app.state.life, app.state.access = context, context.life, context.access
    app.state.metrics, app.state.chat = context.metrics, None if engine is None else engine.chat
    for router in _run_routers(context):
        app.include_router(router)
    app.include_router(health_router(run_half, context.life, None if team is None else context.reader))
    app.include_router(metrics_router(engine, context.metrics, context.reader))
    if context.storing is None:
        app.include_router(intake_router(context))
    else:
        app.include_router(team_router(context, context.storing))
        app.include_router(persons_router(context.access, context.storing))
    provider = open_provider(settings.team.oidc)
    sso = None if provider is None else settings.team.oidc.title
    app.include_router(access_router(context.access, settings.serve, sso=sso, program=program))
    if provider is not None:
        app.include_router(oidc_router(context.access, provider, settings.serve.login_hours))
    for router in api_routers(context):
        app.include_router(router)
    app.include_router(console_router(load_page(PAGE)))
    add_handlers(app)
    sights = None if team is None else Sights(context.access, settings.team.figures)
    app.add_middleware(ConsoleGate, access=context.access, settings=settings.serve, bind=context.bind, sights=sights)
    app.add_middleware(Limits, max_body_bytes=settings.serve.max_body_bytes, metrics=context.metrics)
    app.add_middleware(SecurityHeaders)
    _describe(app)
    return app


def _context(run_half: RunHalf, settings: Settings, team: StoreSource | None) -> ServerContext:
    reader = TraceReader(team or StoreSource(store_path(settings), StateLimits.of(settings.record)))
    storing = None
    if team is not None:
        storing = Storing(team, settings.usage.timezone)
        storing.prepare()
    index = SessionIndex(reader, settings)
    return ServerContext(
        settings=settings,
        reader=reader,
        index=index,
        hub=Hub(reader, index),
        run_half=run_half,
        life=Life(),
        metrics=Metrics(),
        access=open_access(settings),
        intake=SpanWriter(SpanLog(log_directory(settings.home))),
        bind=settings.serve.host,
        storing=storing,
    )


def _run_routers(context: ServerContext) -> list[APIRouter]:
    if context.engine is None:
        return [_away_router(context.run_half.problem or "")]
    from agenttrace.serve.chat import chat_router
    from agenttrace.serve.triggers import triggers_router

    return [triggers_router(context.engine, context.metrics), chat_router(context)]


def _away_router(problem: str) -> APIRouter:
    """The endpoints of the run half, without it: 503."""
    router = APIRouter()

    @router.api_route("/api/internal/{path:path}", methods=["GET", "POST"], include_in_schema=False)
    @router.api_route("/api/xcx/{path:path}", methods=["GET", "POST"], include_in_schema=False)
    async def away(path: str) -> Response:
        raise ProblemError(503, f"Applications cannot be run: {problem}")

    return router


def _describe(app: FastAPI) -> None:
    """Add to the OpenAPI document what FastAPI does not know, once, when it is asked for."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            components = schema.setdefault("components", {})
            components["securitySchemes"] = SECURITY_SCHEMES
            components.setdefault("schemas", {}).update(answers.schemas(), Problem=Problem.model_json_schema())
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
