"""``agenttrace jobs``: what triggers have started, one job with its steps, and stopping or repeating it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.times import parse_since
from agenttrace.run.states import JobStatus
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line
from agenttrace.views.run import job_fields, row_fields

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.run.jobs.dispatch import Accepted
    from agenttrace.run.jobs.jobs import JobView, StepView, TriggerJob

EPILOG = """
[bold]Examples[/bold]

  agenttrace jobs                           the latest twenty

  agenttrace jobs --status failed --since 24h

  agenttrace jobs 12                        one job with its steps

  agenttrace jobs cancel 12                 cancel after the running steps

  agenttrace jobs rerun 12                  re-run the same event
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

_LATEST, _ALL = 20, 2**31
JobArgument = Annotated[int, typer.Argument(metavar="ID", help="A number from the list.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_jobs(
    status: Annotated[JobStatus | None, typer.Option(help="Filter by status.")] = None,
    event: Annotated[str | None, typer.Option(metavar="NAME", help="Filter by event type.")] = None,
    site: Annotated[int | None, typer.Option(metavar="ID", help="Filter by store.")] = None,
    member: Annotated[int | None, typer.Option(metavar="ID", help="Filter by member.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Created since: 7d, 24h, 2026-11-01, ISO time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The maximum number of rows; 0: all.")] = _LATEST,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    moment = None if since is None else parse_since(since, opening.settings().usage.timezone)

    async def action(engine: Engine) -> list[TriggerJob]:
        return await engine.dispatcher.jobs.list(
            status=status,
            event_type=event,
            site_id=site,
            member_id=member,
            since=moment,
            limit=limit or _ALL,
        )

    found: list[TriggerJob] = asking.look(action, list)
    if as_json:
        output.print_json([job_fields(job) for job in found])
    elif not found:
        output.say("No job fits. Try fewer filters, or start one: agenttrace trigger EVENT --site ID")
    else:
        print_table(_COLUMNS, [_row(job) for job in found])
        output.note("Next: agenttrace jobs ID")


@app.command("show")
def show_job(job_id: JobArgument, as_json: AsJson = False) -> None:
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
def cancel_job(job_id: JobArgument, as_json: AsJson = False) -> None:
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
    if as_json:
        output.print_json(job_fields(job))
    elif job.status == JobStatus.CANCELLED:
        output.say(f"Job {job_id} is cancelled; nothing of it was run.")
    else:
        output.say(f"Job {job_id} ends after the calls that are under way.")


@app.command("rerun")
def rerun_job(job_id: JobArgument, as_json: AsJson = False) -> None:
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
        output.say(f"Job {accepted.job_id} is {accepted.status}: the event of job {job_id} once more.")
        output.note(f"A worker runs it. Next: agenttrace jobs {accepted.job_id}")


def _missing(job_id: int) -> NoReturn:
    raise _no_job(job_id)


def _no_job(job_id: int) -> CommandError:
    return CommandError(f"there is no job {job_id}", "See which there are: agenttrace jobs")


_COLUMNS = (
    Column("id", right=True),
    Column("time", right=True),
    Column("event", least=10),
    Column("status"),
    Column("site", right=True, optional=2),
    Column("member", right=True, optional=1),
    Column("chain", least=10, optional=4),
    Column("took", right=True, optional=3),
    Column("error", least=16, optional=5),
)


def _row(job: TriggerJob) -> list[Any]:
    return [
        output.styled(str(job.id), "cyan"),
        asking.clock(job.created_at),
        one_line(job.event_type) + (" (forced)" if job.is_forced else ""),
        output.styled(job.status, asking.STYLES.get(job.status, "")),
        str(job.site_id),
        "–" if job.member_id is None else str(job.member_id),
        one_line(job.app_chain or "–"),
        _took(job),
        one_line(job.error_message or "", 200),
    ]


def _took(job: TriggerJob) -> str:
    if job.started_at is None or job.finished_at is None:
        return "–"
    return figures.duration(round((job.finished_at - job.started_at).total_seconds() * times.MICROS))


def _show(view: JobView) -> None:
    for name, value in job_fields(view.job).items():
        if value is not None:
            output.say(f"{name:<17} {one_line(str(value))}", asking.STYLES.get(str(value), ""))
    output.say()
    if not view.steps:
        output.say("No step was called yet.")
        return
    print_table(_STEP_COLUMNS, [_step_row(step) for step in view.steps])
    output.note("Next: agenttrace runs RUN shows the prompt and the answer of a step.")


_STEP_COLUMNS = (
    Column("run", right=True),
    Column("step", least=6),
    Column("status"),
    Column("calls", right=True, optional=3),
    Column("tokens", right=True),
    Column("took", right=True, optional=1),
    Column("model", least=8, optional=2),
    Column("error or answer", least=20),
)


def _step_row(step: StepView) -> list[Any]:
    return [
        output.styled(str(step.log_id), "cyan"),
        one_line(step.step),
        output.styled(step.status, asking.STYLES.get(step.status, "")),
        str(step.attempts),
        figures.count(step.tokens_used),
        "–" if step.latency_ms is None else figures.duration(step.latency_ms * 1000),
        one_line(step.model or "–"),
        one_line(step.error or step.response or "", 200),
    ]
