"""The HTTP application, put together: its endpoints, what stands around them, and the document that describes them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from agenttrace.config import Settings
from agenttrace.run.engine import Engine
from agenttrace.serve.auth import SECURITY_SCHEMES
from agenttrace.serve.chat import chat_router
from agenttrace.serve.health import Life, health_router
from agenttrace.serve.limits import Limits
from agenttrace.serve.metrics import Metrics, metrics_router
from agenttrace.serve.problems import Problem, add_handlers
from agenttrace.serve.triggers import triggers_router

_DESCRIPTION = """LLM applications behind a circuit breaker, rate limits and a token budget.

Errors are `application/problem+json` with `title`, `status` and `detail`."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The application around an open engine; whoever opened the engine closes it after the application has stopped."""
    # FastAPI's own pages load their scripts from elsewhere.
    pages: dict[str, Any] = {"docs_url": None, "redoc_url": None}
    app = FastAPI(title="AgentTrace", version=version("agenttrace"), description=_DESCRIPTION, **pages)
    life, metrics = Life(), Metrics()
    app.state.life, app.state.chat, app.state.metrics = life, engine.chat, metrics
    app.include_router(triggers_router(engine, metrics))
    app.include_router(
        chat_router(
            engine, life, metrics, secret=settings.jwt.secret, heartbeat=float(settings.serve.heartbeat_seconds)
        )
    )
    app.include_router(health_router(engine, life))
    app.include_router(metrics_router(engine, metrics))
    add_handlers(app)
    app.add_middleware(Limits, max_body_bytes=settings.serve.max_body_bytes, metrics=metrics)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """FastAPI sees only what it checks itself; the rest of the document is added once, when somebody asks for it."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            components = schema.setdefault("components", {})
            components["securitySchemes"] = SECURITY_SCHEMES
            components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
