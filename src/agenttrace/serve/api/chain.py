"""The chain of a job as a graph: the steps that today's catalog has for its event, and the calls that were made.

The catalog may have changed since the job ran: whatever was called is shown, whether it is still a step or not.
"""

from __future__ import annotations

from dataclasses import asdict

from agenttrace.run.catalog.catalog import AppCatalog, PlannedStep, UnknownEventError
from agenttrace.run.jobs.jobs import JobView, StepView, TriggerJob
from agenttrace.run.states import OPEN_JOBS, StepStatus
from agenttrace.serve.api.filters import app_named
from agenttrace.serve.api.shapes import ChainStep, StepCall
from agenttrace.views.run import row_fields


def chain_steps(view: JobView, catalog: AppCatalog) -> list[ChainStep]:
    """All steps, lane by lane; those that the catalog does not have come last."""
    calls: dict[str, list[StepView]] = {}
    for call in view.steps:
        calls.setdefault(call.step, []).append(call)
    planned = _planned(view.job, catalog)
    unplanned = [_found(name, made[-1], catalog) for name, made in calls.items() if name not in planned]
    return [_step(step, calls.get(step.name, []), view.job, catalog) for step in [*planned.values(), *unplanned]]


def _planned(job: TriggerJob, catalog: AppCatalog) -> dict[str, PlannedStep]:
    try:
        return {step.name: step for step in catalog.chain(job.event_type, job.payload).steps}
    except UnknownEventError:
        return {}


def _found(name: str, call: StepView, catalog: AppCatalog) -> PlannedStep:
    app = app_named(catalog, call.app_type)
    return PlannedStep(name=name, app=app.key if app else call.app_type)


def _step(step: PlannedStep, calls: list[StepView], job: TriggerJob, catalog: AppCatalog) -> ChainStep:
    app = catalog.apps.get(step.app)
    return ChainStep(
        name=step.name,
        app=step.app,
        title=app.title if app else step.app,
        titles=dict(app.titles) if app else {},
        after=list(step.after),
        status=_status(job, calls),
        calls=[_call(call) for call in calls],
    )


def _status(job: TriggerJob, calls: list[StepView]) -> StepStatus:
    if calls:
        return StepStatus(calls[-1].status)
    return StepStatus.WAITING if job.status in OPEN_JOBS else StepStatus.SKIPPED


def _call(call: StepView) -> StepCall:
    fields = row_fields(asdict(call)) | {"run_id": call.log_id}
    return StepCall(**{name: fields[name] for name in StepCall.__struct_fields__})
