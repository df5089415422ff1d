"""``/api/v1/jobs``: what events have started, each job with its chain, and stopping or repeating it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from agenttrace.run.catalog.catalog import AppCatalog, UnknownEventError
from agenttrace.run.jobs.dispatch import Accepted, AIDispatcher
from agenttrace.run.jobs.jobs import JobView, TriggerEvent, TriggerJob
from agenttrace.run.states import JobStatus
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.answers import Cursor, Limit, answer, shaped
from agenttrace.serve.api.chain import chain_steps
from agenttrace.serve.api.filters import Id, Name, Number, Since, Until, app_named, moment_of, page_of, place_of
from agenttrace.serve.api.running import engine_of
from agenttrace.serve.api.shapes import JobAccepted, JobDetail, JobList, JobRow
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import Context
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.serve.triggers import TriggerRequest
from agenttrace.views.run import job_fields, session_key_of


def jobs_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["runs"])

    @router.get("/jobs", summary="List jobs", responses=shaped(JobList) | documented(400, 401, 422, 503))
    async def list_jobs(
        request: Request,
        status: JobStatus | None = None,
        event: Name = None,
        app: Name = None,
        site: Number = None,
        member: Number = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        engine = engine_of(context)
        found = await engine.dispatcher.jobs.list(
            status=status,
            event_type=event,
            app=() if app is None else _names(engine.catalog, app),
            site_id=site,
            member_id=member,
            since=moment_of(since, context.settings),
            until=moment_of(until, context.settings),
            before_id=place_of(cursor),
            limit=limit + 1,
            payloads=False,
        )
        page, following = page_of(found, limit, lambda job: job.id)
        return answer(request, JobList(items=[job_row(job) for job in page], next=following))

    @router.post(
        "/jobs",
        summary="Start an event",
        description="As a program would report it; the same event of the same day runs once unless it is forced.",
        responses=shaped(JobAccepted) | documented(400, 401, 403, 413, 422, 503),
        dependencies=[Depends(admin)],
        openapi_extra=documented_body(TriggerRequest, {"event_type": "consumption", "site_id": 1, "member_id": 20317}),
    )
    async def start_event(request: Request) -> Response:
        body = await read_body(request, TriggerRequest)
        async with audited(request, "job.start", f"{body.event_type} of store {body.site_id}") as change:
            accepted = await _started(engine_of(context).dispatcher, body, context.metrics)
            change.target += f": job {accepted.job_id}"
            return answer(request, _accepted(accepted))

    @router.get(
        "/jobs/{job_id}",
        summary="A job with its chain, prompts and answers",
        responses=shaped(JobDetail) | documented(401, 404, 422, 503),
    )
    async def show_job(request: Request, job_id: Id) -> Response:
        engine = engine_of(context)
        view = await engine.dispatcher.jobs.view(job_id)
        if view is None:
            raise _no_job(job_id)
        return answer(request, job_detail(view, engine.catalog))

    @router.post(
        "/jobs/{job_id}/cancel",
        summary="Cancel a job",
        description="One that waits ends at once, one that runs before its next step.",
        responses=shaped(JobRow) | documented(401, 403, 404, 409, 422, 503),
        dependencies=[Depends(admin)],
    )
    async def cancel_job(request: Request, job_id: Id) -> Response:
        async with audited(request, "job.cancel", str(job_id)):
            return answer(request, job_row(await _cancelled(engine_of(context).dispatcher, job_id)))

    @router.post(
        "/jobs/{job_id}/rerun",
        summary="Run a job again",
        description="A new job with the same event; it runs even if the event has been run that day.",
        responses=shaped(JobAccepted) | documented(401, 403, 404, 422, 503),
        dependencies=[Depends(admin)],
    )
    async def rerun_job(request: Request, job_id: Id) -> Response:
        async with audited(request, "job.rerun", str(job_id)):
            accepted = await _repeated(engine_of(context).dispatcher, job_id, context.metrics)
            return answer(request, _accepted(accepted))

    return router


def _accepted(accepted: Accepted) -> JobAccepted:
    return JobAccepted(job_id=accepted.job_id, status=accepted.status, duplicate_of=accepted.duplicate_of)


def job_row(job: TriggerJob) -> JobRow:
    """A job as lists show it."""
    fields = _fields(job)
    return JobRow(**{name: fields[name] for name in JobRow.__struct_fields__})


def job_detail(view: JobView, catalog: AppCatalog) -> JobDetail:
    """A job with its chain."""
    fields = _fields(view.job) | {"steps": chain_steps(view, catalog)}
    return JobDetail(**{name: fields[name] for name in JobDetail.__struct_fields__})


def _fields(job: TriggerJob) -> dict[str, Any]:
    more = {"event_date": job.event_date.isoformat(), "session_key": session_key_of(job.session_id)}
    return job_fields(job) | more


def _names(catalog: AppCatalog, name: str) -> tuple[str, ...]:
    app = app_named(catalog, name)
    return (name,) if app is None else (app.key, app.app_type)


async def _cancelled(dispatcher: AIDispatcher, job_id: int) -> TriggerJob:
    is_cancelled = await dispatcher.jobs.cancel(job_id)
    job = await dispatcher.jobs.get(job_id)
    if job is None:
        raise _no_job(job_id)
    if not is_cancelled:
        raise ProblemError(409, f"Job {job_id} is over: {job.status}.")
    return job


async def _started(dispatcher: AIDispatcher, body: TriggerRequest, metrics: Metrics) -> Accepted:
    try:
        accepted = await dispatcher.handle_trigger(TriggerEvent(**body.model_dump()))
    except UnknownEventError as error:
        raise ProblemError(422, f"event_type: {error}") from None
    metrics.triggers.labels(body.event_type, accepted.status).inc()
    return accepted


async def _repeated(dispatcher: AIDispatcher, job_id: int, metrics: Metrics) -> Accepted:
    job = await dispatcher.jobs.get(job_id)
    if job is None:
        raise _no_job(job_id)
    try:
        accepted = await dispatcher.rerun(job_id)
    except UnknownEventError as error:
        raise ProblemError(422, f"Job {job_id} cannot be run again: {error}.") from None
    assert accepted is not None
    metrics.triggers.labels(job.event_type, accepted.status).inc()
    return accepted


def _no_job(job_id: int) -> ProblemError:
    return ProblemError(404, f"There is no job {job_id}.")
