"""``/api/internal/ai``: events come in, jobs and results can be looked at; for internal programs only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from agenttrace.run.catalog.catalog import UnknownEventError
from agenttrace.run.engine import Engine
from agenttrace.run.jobs.dispatch import Accepted, AIDispatcher
from agenttrace.run.jobs.jobs import JobView, TriggerEvent
from agenttrace.run.states import JobStatus
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.audit_log import INTERNAL
from agenttrace.serve.access.gate import address_of
from agenttrace.serve.access.visitor import Visitor
from agenttrace.serve.auth import INTERNAL_ONLY, slowly, verify_internal_token
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.chat import missing
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, documented

_BIGGEST = 2**63 - 1
_encoder = msgspec.json.Encoder()


class TriggerRequest(BaseModel):
    """Something has happened."""

    model_config = ConfigDict(extra="forbid")

    event_type: str = Field(description="`consumption`, `dws_completed`, `note_created`, `task_assigned`, or your own.")
    connector_type: str | None = Field(
        default=None,
        min_length=1,
        max_length=30,
        pattern=r"^[^\x00]*$",
        description="The system that it comes from; left out, the one that the catalog names.",
    )
    site_id: int = Field(strict=True, ge=1, le=_BIGGEST)
    member_id: int | None = Field(default=None, strict=True, ge=0, le=_BIGGEST)
    payload: dict[str, Any] | None = Field(default=None, description="What the applications are told about it.")
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
    next_before: int | None = Field(description="Give it as `before` to see older ones; null: there are none.")


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
    next_before: int | None = Field(description="Give it as `before` to see older ones; null: there are none.")


class ResultFilters(BaseModel):
    """Which results are listed."""

    model_config = ConfigDict(extra="forbid")

    cache_type: str = Field(min_length=1, max_length=30, pattern=r"^[^\x00]*$")
    site_id: int = Field(ge=0, le=_BIGGEST)
    target_id: str | None = Field(default=None, min_length=1, max_length=100, pattern=r"^[^\x00]*$")
    limit: int = Field(default=50, ge=1, le=500)
    before: int | None = Field(default=None, ge=0, le=_BIGGEST, description="Only results with a smaller number.")


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


class ClueFilters(BaseModel):
    """Whose clues are listed."""

    model_config = ConfigDict(extra="forbid")

    site_id: int = Field(ge=0, le=_BIGGEST)
    member_id: int = Field(ge=0, le=_BIGGEST)
    limit: int = Field(default=30, ge=1, le=366, description="Days, at most.")


class JobFilters(BaseModel):
    """Which jobs are listed."""

    model_config = ConfigDict(extra="forbid")

    status: JobStatus | None = None
    event_type: str | None = Field(default=None, max_length=30, pattern=r"^[^\x00]*$")
    site_id: int | None = Field(default=None, ge=0, le=_BIGGEST)
    member_id: int | None = Field(default=None, ge=0, le=_BIGGEST)
    since: AwareDatetime | None = Field(default=None, description="Created then or later.")
    until: AwareDatetime | None = Field(default=None, description="Created before.")
    limit: int = Field(default=50, ge=1, le=500)
    before: int | None = Field(default=None, ge=0, le=_BIGGEST, description="Only jobs with a smaller number.")


def triggers_router(engine: Engine, metrics: Metrics) -> APIRouter:
    """The endpoints; whoever calls them is checked before anything else of the request is looked at."""

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
            try:
                if names := engine.catalog.missing_for(body.event_type, body.payload):
                    raise missing(names)
                accepted = await dispatcher.handle_trigger(TriggerEvent(**body.model_dump()))
            except UnknownEventError as error:
                raise ProblemError(422, f"event_type: {error}") from None
            change.target += f", job {accepted.job_id}"
        metrics.triggers.labels(body.event_type, accepted.status).inc()
        return _accepted(accepted)

    @router.get(
        "/jobs",
        summary="List jobs",
        response_model=JobsAnswer,
        responses=documented(401, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def jobs(filters: Annotated[JobFilters, Query()]) -> Response:
        wanted = filters.model_dump()
        limit, before = wanted.pop("limit"), wanted.pop("before")
        found = await dispatcher.jobs.list(**wanted, before_id=before, limit=limit + 1)
        page = found[:limit]
        return _json({"jobs": [_shown(asdict(job)) for job in page], "next_before": _next(found, limit)})

    @router.get(
        "/jobs/{job_id}",
        summary="A job with its steps and results",
        response_model=JobWithSteps,
        responses=documented(401, 404, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def job(job_id: int) -> Response:
        return _json(_with_steps(await _existing(dispatcher, job_id)))

    @router.post(
        "/jobs/{job_id}/cancel",
        summary="Cancel a job",
        description="One that waits ends at once, one that runs before its next step.",
        response_model=CancelAnswer,
        responses=documented(401, 404, 409, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def cancel(request: Request, job_id: int) -> Response:
        async with audited(request, "job.cancel", str(job_id)):
            is_cancelled = await dispatcher.jobs.cancel(job_id) if _is_possible(job_id) else False
            status = (await _existing(dispatcher, job_id)).job.status
            if not is_cancelled:
                raise ProblemError(409, f"Job {job_id} is over: {status}.")
        return _json({"trigger_job_id": job_id, "status": status})

    @router.post(
        "/jobs/{job_id}/rerun",
        summary="Run a job again",
        description="A new job with the same event; it runs even if the event has been run that day.",
        response_model=TriggerAnswer,
        responses=documented(401, 404, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def rerun(request: Request, job_id: int) -> Response:
        async with audited(request, "job.rerun", str(job_id)):
            event_type = (await _existing(dispatcher, job_id)).job.event_type
            try:
                accepted = await dispatcher.rerun(job_id)
            except UnknownEventError as error:
                raise ProblemError(422, f"event_type: {error}") from None
        assert accepted is not None
        metrics.triggers.labels(event_type, accepted.status).inc()
        return _accepted(accepted)

    @router.get(
        "/cache",
        summary="Results that are valid now",
        description="Of one kind and store; with `target_id` that of one member, member and coach, or time dimension.",
        response_model=ResultsAnswer,
        responses=documented(401, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def results(filters: Annotated[ResultFilters, Query()]) -> Response:
        limit, whose = filters.limit, (filters.cache_type, filters.site_id, filters.target_id)
        found = await engine.cache.valid(*whose, limit=limit + 1, before_id=filters.before)
        shown = [{**row, "result": row["result_json"]} for row in found[:limit]]
        following = found[limit - 1]["id"] if len(found) > limit else None
        return _json({"results": [_only(ResultAnswer, row) for row in shown], "next_before": following})

    @router.get(
        "/clues",
        summary="The retention clues of a member",
        response_model=CluesAnswer,
        responses=documented(401, 422, 503),
        openapi_extra=INTERNAL_ONLY,
    )
    async def clues(filters: Annotated[ClueFilters, Query()]) -> Response:
        site_id, member_id = filters.site_id, filters.member_id
        rows = await engine.clues.of_member(site_id, member_id, filters.limit)
        found = [_only(ClueAnswer, row) for row in rows]
        return _json({"site_id": site_id, "member_id": member_id, "clues": found})

    return router


def _about(event: TriggerRequest) -> str:
    """An event for the audit log: what of whom, without what it says."""
    member = "" if event.member_id is None else f", member {event.member_id}"
    return f"{event.event_type[:100]}, site {event.site_id}{member}"


def _is_possible(job_id: int) -> bool:
    return 0 < job_id <= _BIGGEST


async def _existing(dispatcher: AIDispatcher, job_id: int) -> JobView:
    view = await dispatcher.jobs.view(job_id) if _is_possible(job_id) else None
    if view is None:
        raise ProblemError(404, f"There is no job {job_id}.")
    return view


def _with_steps(view: JobView) -> dict[str, Any]:
    return _shown(asdict(view.job)) | {"steps": [asdict(step) for step in view.steps]}


def _shown(job: Mapping[str, Any]) -> dict[str, Any]:
    return _only(JobAnswer, job)


def _only(kind: type[BaseModel], row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in kind.model_fields}


def _next(found: list[Any], limit: int) -> int | None:
    return int(found[limit - 1].id) if len(found) > limit else None


def _accepted(accepted: Accepted) -> Response:
    answer = {"trigger_job_id": accepted.job_id, "status": accepted.status}
    return _json(answer if accepted.duplicate_of is None else answer | {"duplicate_of": accepted.duplicate_of})


def _json(value: object) -> Response:
    return Response(_encoder.encode(value), media_type="application/json")
