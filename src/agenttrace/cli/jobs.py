"""``agenttrace jobs``: jobs with their steps, and cancelling or re-running them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from agenttrace.cli import asking, output
from agenttrace.cli.columns import Column, print_list, print_table
from agenttrace.cli.errors import CommandError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson, Limit, Member, Number, Since, Site
from agenttrace.run.states import JobStatus
from agenttrace.views import figures, times
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import one_line
from agenttrace.views.run import job_fields, row_fields

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.run.jobs.dispatch import Accepted
    from agenttrace.run.jobs.jobs import JobView, StepView, TriggerJob

EPILOG = """
  agenttrace jobs                           the latest twenty
  agenttrace jobs --status failed --since 24h
  agenttrace jobs 12                        one job with its steps
  agenttrace jobs cancel 12                 cancel after the running steps
  agenttrace jobs rerun 12                  re-run the same event
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")


@app.command("list")
def list_jobs(
    status: Annotated[JobStatus | None, typer.Option(help="Filter by status.")] = None,
    event: Annotated[str | None, typer.Option(metavar="NAME", help="Filter by event type.")] = None,
    site: Site = None,
    member: Member = None,
    since: Since = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    moment = asking.moment_of(since)
    found: list[TriggerJob] = asking.look(
        lambda engine: engine.dispatcher.jobs.list(
            status=status,
            event_type=event,
            site_id=site,
            member_id=member,
            since=moment,
            limit=limit or asking.ALL,
        ),
        list,
    )
    print_list(
        found,
        _COLUMNS,
        job_fields,
        as_json=as_json,
        empty="No job matches. Try fewer filters, or start one: agenttrace trigger EVENT --site ID",
        hint="Next: agenttrace jobs ID",
    )


@app.command("show")
def show_job(job_id: Number, as_json: AsJson = False) -> None:
    """Show one job with its steps."""

    async def action(engine: Engine) -> JobView:
        view = await engine.dispatcher.jobs.view(job_id)
        if view is None:
            raise _no_job(job_id)
        return view

    view = asking.look(action, lambda: _missing(job_id))
    if as_json:
        steps = [row_fields(asdict(step)) for step in view.steps]
        output.print_json({**job_fields(view.job), "steps": steps})
    else:
        _show(view)


@app.command("cancel")
def cancel_job(job_id: Number, as_json: AsJson = False) -> None:
    """Cancel a job: a pending job ends at once, a running job starts no further step."""

    async def action(engine: Engine) -> TriggerJob:
        done = await engine.dispatcher.jobs.cancel(job_id)
        view = await engine.dispatcher.jobs.view(job_id)
        if view is None:
            raise _no_job(job_id)
        if not done:
            raise CommandError(f"job {job_id} is {view.job.status} already", "There is nothing to cancel.")
        return view.job

    job = asking.look(action, lambda: _missing(job_id))
    cancelled = job.status == JobStatus.CANCELLED
    outcome = "is cancelled; none of its steps ran" if cancelled else "ends after its running steps"
    output.answer(job_fields(job), f"Job {job_id} {outcome}.", as_json=as_json)


@app.command("rerun")
def rerun_job(job_id: Number, as_json: AsJson = False) -> None:
    """Re-run a job as a new job with the same event."""

    async def action(engine: Engine) -> Accepted:
        from agenttrace.run.catalog.catalog import UnknownEventError

        try:
            accepted = await engine.dispatcher.rerun(job_id)
        except UnknownEventError as error:
            raise CommandError(f"job {job_id} cannot be run again: {error}", "See: agenttrace apps") from error
        if accepted is None:
            raise _no_job(job_id)
        return accepted

    accepted = asking.look(action, lambda: _missing(job_id))
    if as_json:
        output.print_json({"trigger_job_id": accepted.job_id, "status": accepted.status, "rerun_of": job_id})
    else:
        output.say(f"Job {accepted.job_id} is {accepted.status}; it re-runs the event of job {job_id}.")
        output.note(f"Next: agenttrace jobs {accepted.job_id}")


def _missing(job_id: int) -> NoReturn:
    raise _no_job(job_id)


def _no_job(job_id: int) -> CommandError:
    return CommandError(f"there is no job {job_id}", "See which there are: agenttrace jobs")


_COLUMNS: tuple[Column[TriggerJob], ...] = (
    Column("id", lambda job: job.id, right=True, style="cyan"),
    Column("time", lambda job: asking.clock(job.created_at), right=True),
    Column(
        "event",
        lambda job: one_line(job.event_type) + (" (forced)" if job.is_forced and job.idempotency_key is None else ""),
        least=10,
    ),
    Column("status", lambda job: job.status, style=asking.STYLES),
    Column("site", lambda job: job.site_id, right=True, optional=2),
    Column("member", lambda job: job.member_id, right=True, optional=1),
    Column("chain", lambda job: one_line(job.app_chain or "–"), least=10, optional=4),
    Column("took", lambda job: _took(job), right=True, optional=3),
    Column("error", lambda job: one_line(job.error_message or "", 200), least=16, optional=5),
)


def _took(job: TriggerJob) -> str | None:
    if job.started_at is None or job.finished_at is None:
        return None
    return figures.duration(round((job.finished_at - job.started_at).total_seconds() * times.MICROS))


def _show(view: JobView) -> None:
    for name, value in job_fields(view.job).items():
        if value is not None:
            output.fact(name, one_line(str(value)), asking.STYLES.get(str(value), ""), width=18)
    output.say()
    if not view.steps:
        output.say("No step has run yet.")
        return
    print_table(_STEP_COLUMNS, view.steps)
    output.note("Next: agenttrace runs RUN shows the prompt and the answer of a step.")


_STEP_COLUMNS: tuple[Column[StepView], ...] = (
    Column("run", lambda step: step.log_id, right=True, style="cyan"),
    Column("step", lambda step: one_line(step.step), least=6),
    Column("status", lambda step: step.status, style=asking.STYLES),
    Column("calls", lambda step: step.attempts, right=True, optional=3),
    Column("tokens", lambda step: figures.count(step.tokens_used), right=True),
    Column("took", lambda step: asking.took(step.latency_ms), right=True, optional=1),
    Column("model", lambda step: one_line(model_name(step.model or "") or "–"), least=8, optional=2),
    Column("error or answer", lambda step: one_line(step.error or step.response or "", 200), least=20),
)
