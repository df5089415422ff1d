"""``agenttrace runs``: every call to an application, including refused calls."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, output
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import CommandError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson, Limit, Member, Number, Since, Site
from agenttrace.run.states import OPEN_RUNS, RunStatus
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.run import row_fields

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

EPILOG = """
  agenttrace runs                          the latest twenty
  agenttrace runs --status failed          what went wrong, and why
  agenttrace runs --job 12                 the calls of one job
  agenttrace runs 345                      prompt and answer of one call
  agenttrace runs --app app3_clue --since 7d --json
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")


@app.command("list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Filter by status.")] = None,
    app_type: Annotated[
        str | None, typer.Option("--app", metavar="NAME", help="Filter by application: app3 or app3_clue.")
    ] = None,
    site: Site = None,
    member: Member = None,
    job: Annotated[int | None, typer.Option(metavar="ID", help="Filter by job.")] = None,
    since: Since = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List application calls, newest first, including refused calls."""
    moment = asking.moment_of(since)
    found: list[dict[str, Any]] = asking.look(
        lambda engine: engine.run_logs.list(
            status=status,
            app=app_type and _type_of(engine, app_type),
            site=site,
            member=member,
            job=job,
            since=moment,
            limit=limit or asking.ALL,
        ),
        list,
    )
    print_list(
        found,
        _COLUMNS,
        row_fields,
        as_json=as_json,
        empty="No call matches. Try fewer filters, or trigger one: agenttrace trigger EVENT --site ID",
        hint="Next: agenttrace runs ID",
    )


def _type_of(engine: Engine, name: str) -> str:
    known = engine.catalog.apps.get(name)
    return known.app_type if known else name


_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("id", itemgetter("id"), right=True, style="cyan"),
    Column("time", lambda row: asking.clock(row["created_at"]), right=True),
    Column("application", lambda row: one_line(row["app_type"]), least=10),
    Column("status", itemgetter("status"), style=asking.STYLES),
    Column("site", itemgetter("site_id"), right=True, optional=3),
    Column("member", itemgetter("member_id"), right=True, optional=2),
    Column("job", itemgetter("trigger_job_id"), right=True),
    Column("step", lambda row: one_line(row["step"] or "–"), least=6, optional=5),
    Column("tokens", lambda row: tokens_text(row), right=True),
    Column("took", lambda row: asking.took(row["latency_ms"]), right=True, optional=1),
    Column("error", lambda row: one_line(row["error_message"] or "", 200), least=16, optional=4),
)


def tokens_text(row: dict[str, Any]) -> str:
    """The tokens of a call; ``~`` marks an estimate, and the reservation of an open call."""
    if row["status"] in OPEN_RUNS:
        return f"~{figures.count(row['tokens_reserved'])}"
    return ("~" if row["tokens_estimated"] else "") + figures.count(row["tokens_used"] or 0)


@app.command("show")
def show_run(run_id: Number, as_json: AsJson = False) -> None:
    """Show one call with its prompt and its answer."""
    row = asking.look(lambda engine: engine.run_logs.get(run_id), lambda: None)
    if row is None:
        raise CommandError(f"there is no run {run_id}", "See which there are: agenttrace runs")
    if as_json:
        output.print_json(row_fields(row))
        return
    for name, value in row_fields(row).items():
        if name not in ("request_prompt", "response_text") and value is not None:
            output.fact(name, one_line(str(value)), asking.STYLES.get(str(value), ""), width=19)
    _show_text("prompt", row["request_prompt"])
    _show_text("answer", row["response_text"])


def _show_text(title: str, text: str | None) -> None:
    output.say()
    output.say(title, "bold")
    output.say(asking.pretty(text) if text else "(none)")
