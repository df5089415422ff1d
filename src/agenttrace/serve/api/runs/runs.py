"""``/api/v1/runs``: every call to an application, including refused ones, and one of them whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.states import RunStatus
from agenttrace.serve.api.answers import answer, endpoint, shape_of
from agenttrace.serve.api.lists import Cursor, Id, Limit, Name, Number, Since, Until, moment_of, page_of, place_of
from agenttrace.serve.api.runs.run_state import app_named, engine_of
from agenttrace.serve.api.shapes.runs import RunDetail, RunList, RunRow
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.views.run import row_fields, session_key_of


def runs_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["runs"])

    @router.get("/runs", **endpoint("List calls", RunList, 400, 401, 422, 503))
    async def list_runs(
        request: Request,
        status: RunStatus | None = None,
        app: Name = None,
        site: Number = None,
        member: Number = None,
        job: Number = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        engine = engine_of(context)
        found = await engine.run_logs.list(
            status=status,
            app=None if app is None else _type_of(engine.catalog, app),
            site=site,
            member=member,
            job=job,
            since=moment_of(since, context.settings),
            until=moment_of(until, context.settings),
            before_id=place_of(cursor),
            limit=limit + 1,
        )
        page, following = page_of(found, limit, lambda row: int(row["id"]))
        return answer(request, RunList(items=[run_row(row) for row in page], next=following))

    @router.get("/runs/{run_id}", **endpoint("A call with its prompt and its answer", RunDetail, 401, 404, 422, 503))
    async def show_run(request: Request, run_id: Id) -> Response:
        row = await engine_of(context).run_logs.get(run_id)
        if row is None:
            raise ProblemError(404, f"There is no run {run_id}.")
        return answer(request, shape_of(RunDetail, _fields(row)))

    return router


def run_row(row: Mapping[str, Any]) -> RunRow:
    """A call as lists show it."""
    return shape_of(RunRow, _fields(row))


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    # Chats and jobs alike are traced under the session that the run log names; a call without one is in no trace.
    session_id = row["session_id"]
    return row_fields(row) | {"session_key": None if session_id is None else session_key_of(session_id)}


def _type_of(catalog: AppCatalog, name: str) -> str:
    app = app_named(catalog, name)
    return name if app is None else app.app_type
