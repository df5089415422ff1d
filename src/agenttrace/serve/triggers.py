"""``/api/internal/ai``: report events, read jobs, results and clues; for internal programs only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, Field

from agenttrace.run.catalog.catalog import UnknownEventError
from agenttrace.run.engine import Engine
from agenttrace.run.jobs.dispatch import Accepted, AIDispatcher
from agenttrace.run.jobs.jobs import TriggerEvent, TriggerJob
from agenttrace.run.states import JobStatus
from agenttrace.serve.access.audit import INTERNAL, audited
from agenttrace.serve.access.gate import address_of
from agenttrace.serve.access.visitor import Visitor
from agenttrace.serve.api.lists import BIGGEST, NO_NUL
from agenttrace.serve.auth import INTERNAL_ONLY, slowly, verify_internal_token
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.chat import missing
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, documented

_encoder = msgspec.json.Encoder()


def _internal(*statuses: int) -> dict[str, Any]:
    """What all endpoints have in common in the OpenAPI document."""
    return {"responses": documented(*statuses), "openapi_extra": INTERNAL_ONLY}


class TriggerRequest(StrictModel):
    """An event that is reported."""

    event_type: str = Field(description="`consumption`, `dws_completed`, `note_created`, `task_assigned`, or your own.")
    connector_type: str | None = Field(
        default=None,
        min_length=1,
        max_length=30,
        pattern=NO_NUL,
        description="The system that it comes from; left out, the one that the catalog names.",
    )
    site_id: int = Field(strict=True, ge=1, le=BIGGEST)
    member_id: int | None = Field(default=None, strict=True, ge=0, le=BIGGEST)
    payload: dict[str, Any] | None = Field(default=None, description="Data for the applications.")
    is_forced: bool = Field(
        default=False, strict=True, description="Run it even if the same event of that day has been run."
    )


class TriggerAnswer(BaseModel):
    """The job that the event became."""

    trigger_job_id: int = Field(examples=[42])
    status: Literal["pending", "skipped_duplicate"]
    duplicate_of: int | None = Field(default=None, description="The job that does the same already, if one does.")


class JobAnswer(BaseModel):
    """A job; in lists without its steps."""

    id: int
    site_id: int
    event_type: str
    connector_type: str | None
    member_id: int | None
    payload: dict[str, Any] | None
    status: JobStatus
    is_forced: bool
    app_chain: str | None = Field(examples=["app3→app8→app7"])
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error_message: str | None
    event_date: date
    rerun_of: int | None
    cancel_requested: bool
    schedule: str | None = Field(description="The schedule that it comes from, if it comes from one.")


class StepAnswer(BaseModel):
    """One call of one step."""

    log_id: int
    step: str = Field(examples=["app3", "app2:today"])
    app_type: str
    status: str
    prompt: str | None
    response: str | None
    tokens_used: int
    attempts: int
    latency_ms: int | None
    model: str | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None


class JobWithSteps(JobAnswer):
    """A job with what its steps did."""

    steps: list[StepAnswer]


class JobsAnswer(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobAnswer]
    next_before: int | None = Field(description="The value of `before` for the next page; null on the last page.")


class CancelAnswer(BaseModel):
    """The job that is or will be cancelled."""

    trigger_job_id: int
    status: str


class ResultAnswer(BaseModel):
    """A result that is valid now."""

    id: int
    cache_type: str = Field(examples=["app7_customer_analysis"])
    site_id: int
    target_id: str = Field(description="The member, `member:coach` or time dimension.", examples=["20317", "20317:8"])
    result: dict[str, Any]
    triggered_by: str | None
    created_at: datetime
    expires_at: datetime | None


class ResultsAnswer(BaseModel):
    """A page of valid results, the newest first."""

    results: list[ResultAnswer]
    next_before: int | None = Field(description="The value of `before` for the next page; null on the last page.")


class ResultFilters(StrictModel):
    """Which results are listed."""

    cache_type: str = Field(min_length=1, max_length=30, pattern=NO_NUL)
    site_id: int = Field(ge=0, le=BIGGEST)
    target_id: str | None = Field(default=None, min_length=1, max_length=100, pattern=NO_NUL)
    limit: int = Field(default=50, ge=1, le=500)
    before: int | None = Field(default=None, ge=0, le=BIGGEST, description="Only results with a smaller number.")


class ClueAnswer(BaseModel):
    """What is known about a member on a day."""

    clue_date: date
    summary: str
    clues: list[Any]
    source: str
    trigger_job_id: int | None
    created_at: datetime
    updated_at: datetime


class CluesAnswer(BaseModel):
    """The retention clues of a member, the newest day first."""

    site_id: int
    member_id: int
    clues: list[ClueAnswer]


class ClueFilters(StrictModel):
    """Whose clues are listed."""

    site_id: int = Field(ge=0, le=BIGGEST)
    member_id: int = Field(ge=0, le=BIGGEST)
    limit: int = Field(default=30, ge=1, le=366, description="Days, at most.")


class JobFilters(StrictModel):
    """Which jobs are listed."""

    status: JobStatus | None = None
    event_type: str | None = Field(default=None, max_length=30, pattern=NO_NUL)
    site_id: int | None = Field(default=None, ge=0, le=BIGGEST)
    member_id: int | None = Field(default=None, ge=0, le=BIGGEST)
    since: AwareDatetime | None = Field(default=None, description="Created then or later.")
    until: AwareDatetime | None = Field(default=None, description="Created before.")
    limit: int = Field(default=50, ge=1, le=500)
    before: int | None = Field(default=None, ge=0, le=BIGGEST, description="Only jobs with a smaller number.")


def triggers_router(engine: Engine, metrics: Metrics) -> APIRouter:
    """The endpoints; the caller is checked before anything else of the request is read."""

    async def known_caller(request: Request) -> None:
        if not (token := engine.internal_token):
            raise missing(engine.missing)
        await slowly(request, "internal API", lambda: verify_internal_token(request, token))
        who = Visitor(name=INTERNAL, role="admin", address=address_of(request.scope))
        request.scope.setdefault("state", {})["visitor"] = who

    router = APIRouter(prefix="/api/internal/ai", tags=["internal"], dependencies=[Depends(known_caller)])
    dispatcher = engine.dispatcher

    @router.post(
        "/trigger",
        summary="Report an event",
        description="Answers at once; a worker runs the chain. The same event of the same day runs once.",
        response_model=TriggerAnswer,
        responses=documented(400, 401, 413, 422, 503),
        openapi_extra=INTERNAL_ONLY
        | documented_body(
            TriggerRequest,
            {"event_type": "consumption", "site_id": 1, "member_id": 20317, "payload": {"coach_id": 8}},
            {"event_type": "dws_completed", "site_id": 1},
        ),
    )
    async def trigger_ai_event(request: Request) -> Response:
        body = await read_body(request, TriggerRequest)
        async with audited(request, "event.trigger", _about(body)) as change:
            accepted = await started(engine, body, metrics, is_checked=True)
            change.target += f", job {accepted.job_id}"
        return _accepted(accepted)

    @router.get("/jobs", summary="List jobs", response_model=JobsAnswer, **_internal(401, 422, 503))
    async def jobs(filters: Annotated[JobFilters, Query()]) -> Response:
        wanted = filters.model_dump()
        limit, before = wanted.pop("limit"), wanted.pop("before")
        found = await dispatcher.jobs.list(**wanted, before_id=before, limit=limit + 1)
        following = found[limit - 1].id if len(found) > limit else None
        return _json({"jobs": [_only(JobAnswer, asdict(job)) for job in found[:limit]], "next_before": following})

    @router.get(
        "/jobs/{job_id}",
        summary="A job with its steps and results",
        response_model=JobWithSteps,
        **_internal(401, 404, 422, 503),
    )
    async def job(job_id: int) -> Response:
        view = await dispatcher.jobs.view(job_id) if _is_possible(job_id) else None
        if view is None:
            raise no_job(job_id)
        return _json(_only(JobAnswer, asdict(view.job)) | {"steps": [asdict(step) for step in view.steps]})

    @router.post(
        "/jobs/{job_id}/cancel",
        summary="Cancel a job",
        description="One that waits ends at once, one that runs before its next step.",
        response_model=CancelAnswer,
        **_internal(401, 404, 409, 422, 503),
    )
    async def cancel(request: Request, job_id: int) -> Response:
        async with audited(request, "job.cancel", str(job_id)):
            status = (await cancelled(dispatcher, job_id)).status
        return _json({"trigger_job_id": job_id, "status": status})

    @router.post(
        "/jobs/{job_id}/rerun",
        summary="Run a job again",
        description="A new job with the same event; it runs even if the event has been run that day.",
        response_model=TriggerAnswer,
        **_internal(401, 404, 422, 503),
    )
    async def rerun(request: Request, job_id: int) -> Response:
        async with audited(request, "job.rerun", str(job_id)):
            return _accepted(await repeated(dispatcher, job_id, metrics))

    @router.get(
        "/cache",
        summary="Results that are valid now",
        description="Of one kind and store; with `target_id` that of one member, member and coach, or time dimension.",
        response_model=ResultsAnswer,
        **_internal(401, 422, 503),
    )
    async def results(filters: Annotated[ResultFilters, Query()]) -> Response:
        limit, whose = filters.limit, (filters.cache_type, filters.site_id, filters.target_id)
        found = await engine.cache.valid(*whose, limit=limit + 1, before_id=filters.before)
        shown = [_only(ResultAnswer, {**row, "result": row["result_json"]}) for row in found[:limit]]
        return _json({"results": shown, "next_before": found[limit - 1]["id"] if len(found) > limit else None})

    @router.get(
        "/clues",
        summary="The retention clues of a member",
        response_model=CluesAnswer,
        **_internal(401, 422, 503),
    )
    async def clues(filters: Annotated[ClueFilters, Query()]) -> Response:
        site_id, member_id = filters.site_id, filters.member_id
        rows = await engine.clues.of_member(site_id, member_id, filters.limit)
        found = [_only(ClueAnswer, row) for row in rows]
        return _json({"site_id": site_id, "member_id": member_id, "clues": found})

    return router


def _about(event: TriggerRequest) -> str:
    """An event for the audit log: type, store and member, without the payload."""
    member = "" if event.member_id is None else f", member {event.member_id}"
    return f"{event.event_type[:100]}, site {event.site_id}{member}"


def _only(kind: type[BaseModel], row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in kind.model_fields}


def _accepted(accepted: Accepted) -> Response:
    answer = {"trigger_job_id": accepted.job_id, "status": accepted.status}
    return _json(answer if accepted.duplicate_of is None else answer | {"duplicate_of": accepted.duplicate_of})


def _json(value: object) -> Response:
    return Response(_encoder.encode(value), media_type="application/json")


# -- for the console as well --------------------------------------------------------------------------------------


async def started(engine: Engine, body: TriggerRequest, metrics: Metrics, *, is_checked: bool = False) -> Accepted:
    """Start an event; 422 for one that the catalog does not have. ``is_checked``: 503 where it lacks variables."""
    try:
        if is_checked and (names := engine.catalog.missing_for(body.event_type, body.payload)):
            raise missing(names)
        accepted = await engine.dispatcher.handle_trigger(TriggerEvent(**body.model_dump()))
    except UnknownEventError as error:
        raise ProblemError(422, f"event_type: {error}") from None
    metrics.triggers.labels(body.event_type, accepted.status).inc()
    return accepted


async def cancelled(dispatcher: AIDispatcher, job_id: int) -> TriggerJob:
    """Cancel a job; 404 where there is none, 409 where it is over."""
    is_cancelled = _is_possible(job_id) and await dispatcher.jobs.cancel(job_id)
    job = await _existing(dispatcher, job_id)
    if not is_cancelled:
        raise ProblemError(409, f"Job {job_id} is over: {job.status}.")
    return job


async def repeated(dispatcher: AIDispatcher, job_id: int, metrics: Metrics) -> Accepted:
    """Run a job again; 404 where there is none, 422 where the catalog no longer has its event."""
    job = await _existing(dispatcher, job_id)
    try:
        accepted = await dispatcher.rerun(job_id)
    except UnknownEventError as error:
        raise ProblemError(422, f"Job {job_id} cannot be run again: {error}.") from None
    assert accepted is not None
    metrics.triggers.labels(job.event_type, accepted.status).inc()
    return accepted


async def _existing(dispatcher: AIDispatcher, job_id: int) -> TriggerJob:
    job = await dispatcher.jobs.get(job_id) if _is_possible(job_id) else None
    if job is None:
        raise no_job(job_id)
    return job


def _is_possible(job_id: int) -> bool:
    return 0 < job_id <= BIGGEST


def no_job(job_id: int) -> ProblemError:
    """404."""
    return ProblemError(404, f"There is no job {job_id}.")
