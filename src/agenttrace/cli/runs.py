"""``agenttrace runs``: every call to an application, those that were refused as well, and one of them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.times import parse_since
from agenttrace.run.states import OPEN_RUNS, RunStatus
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.run import row_fields

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

EPILOG = """
[bold]Examples[/bold]

  agenttrace runs                          the latest twenty

  agenttrace runs --status failed          what went wrong, and why

  agenttrace runs --job 12                 the calls of one job

  agenttrace runs 345                      prompt and answer of one call

  agenttrace runs --app app3_clue --since 7d --json
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

_LATEST, _ALL = 20, 2**31
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Filter by status.")] = None,
    app_type: Annotated[
        str | None, typer.Option("--app", metavar="NAME", help="Filter by application: app3 or app3_clue.")
    ] = None,
    site: Annotated[int | None, typer.Option(metavar="ID", help="Filter by store.")] = None,
    member: Annotated[int | None, typer.Option(metavar="ID", help="Filter by member.")] = None,
    job: Annotated[int | None, typer.Option(metavar="ID", help="Filter by job.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Started since: 7d, 24h, 2026-11-01, ISO time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The maximum number of rows; 0: all.")] = _LATEST,
    as_json: AsJson = False,
) -> None:
    """List application calls, newest first, including refused calls."""
    moment = None if since is None else parse_since(since, opening.settings().usage.timezone)

    async def action(engine: Engine) -> list[dict[str, Any]]:
        return await engine.run_logs.list(
            status=status,
            app=app_type and _type_of(engine, app_type),
            site=site,
            member=member,
            job=job,
            since=moment,
            limit=limit or _ALL,
        )

    found: list[dict[str, Any]] = asking.look(action, list)
    if as_json:
        output.print_json([row_fields(row) for row in found])
    elif not found:
        output.say("No call fits. Try fewer filters, or cause one: agenttrace trigger EVENT --site ID")
    else:
        _show_list(found)


def _type_of(engine: Engine, name: str) -> str:
    known = engine.catalog.apps.get(name)
    return known.app_type if known else name


_COLUMNS = (
    Column("id", right=True),
    Column("time", right=True),
    Column("application", least=10),
    Column("status"),
    Column("site", right=True, optional=3),
    Column("member", right=True, optional=2),
    Column("job", right=True),
    Column("step", least=6, optional=5),
    Column("tokens", right=True),
    Column("took", right=True, optional=1),
    Column("error", least=16, optional=4),
)


def _show_list(found: list[dict[str, Any]]) -> None:
    print_table(_COLUMNS, [_row(row) for row in found])
    output.note("Next: agenttrace runs ID")


def _row(row: dict[str, Any]) -> list[Any]:
    return [
        output.styled(str(row["id"]), "cyan"),
        asking.clock(row["created_at"]),
        one_line(row["app_type"]),
        output.styled(row["status"], asking.STYLES.get(row["status"], "")),
        str(row["site_id"]),
        _or_dash(row["member_id"]),
        _or_dash(row["trigger_job_id"]),
        one_line(row["step"] or "–"),
        tokens_text(row),
        took_text(row["latency_ms"]),
        one_line(row["error_message"] or "", 200),
    ]


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)


def tokens_text(row: dict[str, Any]) -> str:
    """What a call used; ``~`` before an estimate, and before what an open call has reserved."""
    if row["status"] in OPEN_RUNS:
        return f"~{figures.count(row['tokens_reserved'])}"
    return ("~" if row["tokens_estimated"] else "") + figures.count(row["tokens_used"] or 0)


def took_text(latency_ms: int | None) -> str:
    """How long a call took, all attempts together."""
    return "–" if latency_ms is None else figures.duration(latency_ms * 1000)


@app.command("show")
def show_run(
    run_id: Annotated[int, typer.Argument(metavar="ID", help="A number from the list.")], as_json: AsJson = False
) -> None:
    """Show one call with its prompt and its answer."""

    async def action(engine: Engine) -> dict[str, Any] | None:
        return await engine.run_logs.get(run_id)

    row = asking.look(action, lambda: None)
    if row is None:
        raise CommandError(f"there is no run {run_id}", "See which there are: agenttrace runs")
    if as_json:
        output.print_json(row_fields(row))
        return
    for name, value in row_fields(row).items():
        if name not in ("request_prompt", "response_text") and value is not None:
            output.say(f"{name:<18} {one_line(str(value))}", asking.STYLES.get(str(value), ""))
    _show_text("prompt", row["request_prompt"])
    _show_text("answer", row["response_text"])


def _show_text(title: str, text: str | None) -> None:
    output.say()
    output.say(title, "bold")
    output.say(pretty(text) if text else "(none)")


def pretty(text: str) -> str:
    """JSON indented, anything else as it is."""
    import msgspec

    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text
