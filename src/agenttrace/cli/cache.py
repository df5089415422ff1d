"""``agenttrace cache``: cached results of applications, and their invalidation."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any

import msgspec
import typer

from agenttrace.cli import asking, output
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson, Limit, Number, Site
from agenttrace.run.states import CacheStatus
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.run import row_fields

EPILOG = """
  agenttrace cache list --type app7_customer_analysis --site 1
  agenttrace cache show 34                            one result in full
  agenttrace cache invalidate 34
  agenttrace cache invalidate --site 1 --target 2     all of one member

An invalidated result is not served any more; the next event of its kind makes a new one.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

TypeOption = Annotated[str | None, typer.Option("--type", metavar="NAME", help="Filter by type, such as app3_clue.")]
TargetOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Filter by target: a member, member:coach or time dimension.")
]


@app.command("list")
def list_results(
    cache_type: TypeOption = None,
    site: Site = None,
    target: TargetOption = None,
    status: Annotated[CacheStatus | None, typer.Option(help="Filter by status.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List cached results, newest first."""
    found: list[dict[str, Any]] = asking.look(
        lambda engine: engine.cache.list(
            cache_type=cache_type, site_id=site, target_id=target, status=status, limit=limit or asking.ALL
        ),
        list,
    )
    print_list(
        found,
        _COLUMNS,
        row_fields,
        as_json=as_json,
        empty="No cached result matches.",
        hint="Next: agenttrace cache show ID, agenttrace cache invalidate ID",
    )


_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("id", itemgetter("id"), right=True, style="cyan"),
    Column("written", lambda row: asking.clock(row["created_at"]), right=True, optional=1),
    Column("type", lambda row: one_line(row["cache_type"]), least=12),
    Column("site", itemgetter("site_id"), right=True),
    Column("target", lambda row: one_line(row["target_id"]), least=8),
    Column("status", itemgetter("status"), style=asking.STYLES),
    Column("expires", lambda row: asking.clock(row["expires_at"]) if row["expires_at"] else "never", right=True),
    Column("by", lambda row: one_line(row["triggered_by"] or "–"), least=8, optional=2),
)


@app.command("show")
def show_result(result_id: Number, as_json: AsJson = False) -> None:
    """Show one cached result."""
    found: list[dict[str, Any]] = asking.look(
        lambda engine: engine.cache.list(before_id=result_id + 1, limit=1, bodies=True), list
    )
    if not found or found[0]["id"] != result_id:
        raise CommandError(f"there is no cached result {result_id}", "See which there are: agenttrace cache list")
    row = row_fields(found[0])
    if as_json:
        output.print_json(row)
        return
    result = row.pop("result_json")
    for name, value in row.items():
        output.fact(name, None if value is None else one_line(str(value)), width=14)
    output.say()
    output.say("(no result)" if result is None else asking.pretty(msgspec.json.encode(result).decode()))


@app.command("invalidate")
def invalidate_results(
    result_id: Annotated[int | None, typer.Argument(metavar="ID", help="A number from the list.")] = None,
    cache_type: TypeOption = None,
    site: Site = None,
    target: TargetOption = None,
    as_json: AsJson = False,
) -> None:
    """Invalidate cached results: one by its number, or all that match the filters."""
    if (result_id is None) == (cache_type is None and site is None and target is None):
        raise UsageError("either an ID or filters are needed", "Give an ID, or --type, --site and --target.")
    count = asking.look(
        lambda engine: engine.cache.invalidate(result_id, cache_type=cache_type, site_id=site, target_id=target), int
    )
    if result_id is not None and not count:
        raise CommandError(f"there is no valid result {result_id}", "See which there are: agenttrace cache list")
    output.answer({"invalidated": count}, f"{figures.counted(count, 'result')} invalidated.", as_json=as_json)
