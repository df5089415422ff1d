"""``/api/v1/jobs``: the jobs that events have started, each with its chain; starting, cancelling and repeating them.

The chain is a graph: the steps that the catalog has now for the event, and the calls that were made. The catalog may
have changed since the job ran: every call is shown, whether it is still a step or not.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from agenttrace.run.catalog.catalog import AppCatalog, PlannedStep, UnknownEventError
from agenttrace.run.jobs.dispatch import Accepted
from agenttrace.run.jobs.jobs import JobView, StepView, TriggerJob
from agenttrace.run.states import OPEN_JOBS, JobStatus, StepStatus
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import answer, endpoint, shape_of
from agenttrace.serve.api.lists import Cursor, Id, Limit, Name, Number, Since, Until, moment_of, page_of, place_of
from agenttrace.serve.api.runs.run_state import app_named, engine_of
from agenttrace.serve.api.shapes.runs import ChainStep, JobAccepted, JobDetail, JobList, JobRow, StepCall
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.triggers import TriggerRequest, cancelled, no_job, repeated, started
from agenttrace.views.run import job_fields, row_fields, session_key_of


def jobs_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["runs"])

    @router.get("/jobs", **endpoint("List jobs", JobList, 400, 401, 422, 503))
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
        return answer(request, JobList(items=[_job_row(job) for job in page], next=following))

    @router.post(
        "/jobs",
        **endpoint("Start an event", JobAccepted, 400, 401, 413, 422, 503, for_admins=True),
        description="As a program would report it; the same event of the same day runs once unless it is forced.",
        openapi_extra=documented_body(TriggerRequest, {"event_type": "consumption", "site_id": 1, "member_id": 20317}),
    )
    async def start_event(request: Request) -> Response:
        body = await read_body(request, TriggerRequest)
        async with audited(request, "job.start", f"{body.event_type} of store {body.site_id}") as change:
            accepted = await started(engine_of(context), body, context.metrics)
            change.target += f": job {accepted.job_id}"
            return answer(request, _accepted(accepted))

    @router.get(
        "/jobs/{job_id}", **endpoint("A job with its chain, prompts and answers", JobDetail, 401, 404, 422, 503)
    )
    async def show_job(request: Request, job_id: Id) -> Response:
        engine = engine_of(context)
        view = await engine.dispatcher.jobs.view(job_id)
        if view is None:
            raise no_job(job_id)
        fields = _fields(view.job) | {"steps": _chain_steps(view, engine.catalog)}
        return answer(request, shape_of(JobDetail, fields))

    @router.post(
        "/jobs/{job_id}/cancel",
        **endpoint("Cancel a job", JobRow, 401, 404, 409, 422, 503, for_admins=True),
        description="One that waits ends at once, one that runs before its next step.",
    )
    async def cancel_job(request: Request, job_id: Id) -> Response:
        async with audited(request, "job.cancel", str(job_id)):
            return answer(request, _job_row(await cancelled(engine_of(context).dispatcher, job_id)))

    @router.post(
        "/jobs/{job_id}/rerun",
        **endpoint("Run a job again", JobAccepted, 401, 404, 422, 503, for_admins=True),
        description="A new job with the same event; it runs even if the event has been run that day.",
    )
    async def rerun_job(request: Request, job_id: Id) -> Response:
        async with audited(request, "job.rerun", str(job_id)):
            return answer(request, _accepted(await repeated(engine_of(context).dispatcher, job_id, context.metrics)))

    return router


def _accepted(accepted: Accepted) -> JobAccepted:
    return JobAccepted(job_id=accepted.job_id, status=accepted.status, duplicate_of=accepted.duplicate_of)


def _job_row(job: TriggerJob) -> JobRow:
    return shape_of(JobRow, _fields(job))


def _fields(job: TriggerJob) -> dict[str, Any]:
    more = {"event_date": job.event_date.isoformat(), "session_key": session_key_of(job.session_id)}
    return job_fields(job) | more


def _names(catalog: AppCatalog, name: str) -> tuple[str, ...]:
    app = app_named(catalog, name)
    return (name,) if app is None else (app.key, app.app_type)


# -- the chain ----------------------------------------------------------------------------------------------------


def _chain_steps(view: JobView, catalog: AppCatalog) -> list[ChainStep]:
    """All steps, lane by lane; those that the catalog does not have come last."""
    calls: dict[str, list[StepView]] = {}
    for call in view.steps:
        calls.setdefault(call.step, []).append(call)
    planned = _planned(view.job, catalog)
    unplanned = [_unplanned(name, made[-1], catalog) for name, made in calls.items() if name not in planned]
    return [_chain_step(step, calls.get(step.name, []), view.job, catalog) for step in [*planned.values(), *unplanned]]


def _planned(job: TriggerJob, catalog: AppCatalog) -> dict[str, PlannedStep]:
    try:
        return {step.name: step for step in catalog.chain(job.event_type, job.payload, job.apps).steps}
    except UnknownEventError:
        return {}


def _unplanned(name: str, call: StepView, catalog: AppCatalog) -> PlannedStep:
    app = app_named(catalog, call.app_type)
    return PlannedStep(name=name, app=app.key if app else call.app_type)


def _chain_step(step: PlannedStep, calls: list[StepView], job: TriggerJob, catalog: AppCatalog) -> ChainStep:
    app = catalog.apps.get(step.app)
    not_called = StepStatus.WAITING if job.status in OPEN_JOBS else StepStatus.SKIPPED
    return ChainStep(
        name=step.name,
        app=step.app,
        title=app.title if app else step.app,
        titles=dict(app.titles) if app else {},
        after=list(step.after),
        status=StepStatus(calls[-1].status) if calls else not_called,
        calls=[shape_of(StepCall, row_fields(asdict(call)) | {"run_id": call.log_id}) for call in calls],
    )
