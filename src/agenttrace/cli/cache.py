"""``agenttrace cache``: the results that applications have given, and taking some out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import asking, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.run.states import CacheStatus
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.run import row_fields

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

EPILOG = """
[bold]Examples[/bold]

  agenttrace cache list --type app7_customer_analysis --site 1

  agenttrace cache show 34                            one result, whole

  agenttrace cache invalidate 34

  agenttrace cache invalidate --site 1 --target 2     all of one member

A result that is invalidated is given to nobody any more; the next event of its kind makes a new one.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

_LATEST, _ALL = 20, 2**31
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TypeOption = Annotated[str | None, typer.Option("--type", metavar="NAME", help="Filter by type, such as app3_clue.")]
SiteOption = Annotated[int | None, typer.Option(metavar="ID", help="Filter by store.")]
TargetOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Filter by target: a member, member:coach or time dimension.")
]


@app.command("list")
def list_results(
    cache_type: TypeOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    status: Annotated[CacheStatus | None, typer.Option(help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="The maximum number of rows; 0: all.")] = _LATEST,
    as_json: AsJson = False,
) -> None:
    """List cached results, newest first."""

    async def action(engine: Engine) -> list[dict[str, Any]]:
        return await engine.cache.list(
            cache_type=cache_type,
            site_id=site,
            target_id=target,
            status=status,
            limit=limit or _ALL,
        )

    found: list[dict[str, Any]] = asking.look(action, list)
    if as_json:
        output.print_json([row_fields(row) for row in found])
    elif not found:
        output.say("No cached result fits.")
    else:
        print_table(_COLUMNS, [_row(row) for row in found])
        output.note("Next: agenttrace cache show ID, agenttrace cache invalidate ID")


_COLUMNS = (
    Column("id", right=True),
    Column("written", right=True, optional=1),
    Column("type", least=12),
    Column("site", right=True),
    Column("target", least=8),
    Column("status"),
    Column("expires", right=True),
    Column("by", least=8, optional=2),
)


def _row(row: dict[str, Any]) -> list[Any]:
    return [
        output.styled(str(row["id"]), "cyan"),
        asking.clock(row["created_at"]),
        one_line(row["cache_type"]),
        str(row["site_id"]),
        one_line(row["target_id"]),
        output.styled(row["status"], asking.STYLES.get(row["status"], "")),
        asking.clock(row["expires_at"]) if row["expires_at"] else "never",
        one_line(row["triggered_by"] or "–"),
    ]


@app.command("show")
def show_result(
    result_id: Annotated[int, typer.Argument(metavar="ID", help="A number from the list.")], as_json: AsJson = False
) -> None:
    """Show one cached result."""

    async def action(engine: Engine) -> list[dict[str, Any]]:
        return await engine.cache.list(before_id=result_id + 1, limit=1, bodies=True)

    found: list[dict[str, Any]] = asking.look(action, list)
    if not found or found[0]["id"] != result_id:
        raise CommandError(f"there is no cached result {result_id}", "See which there are: agenttrace cache list")
    row = row_fields(found[0])
    if as_json:
        output.print_json(row)
        return
    result = row.pop("result_json")
    for name, value in row.items():
        output.say(f"{name:<13} {'–' if value is None else one_line(str(value))}")
    output.say()
    output.say("(no result)" if result is None else _indented(result))


def _indented(result: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


@app.command("invalidate")
def invalidate_results(
    result_id: Annotated[int | None, typer.Argument(metavar="[ID]", help="A number from the list.")] = None,
    cache_type: TypeOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    as_json: AsJson = False,
) -> None:
    """Invalidate cached results: one by its number, or all that match the filters."""
    if (result_id is None) == (cache_type is None and site is None and target is None):
        fix = "Give the number of one, or --type, --site and --target of those that are meant."
        raise UsageError("which results are meant is not clear", fix)

    async def action(engine: Engine) -> int:
        return await engine.cache.invalidate(result_id, cache_type=cache_type, site_id=site, target_id=target)

    count = asking.look(action, int)
    if result_id is not None and not count:
        raise CommandError(f"there is no valid result {result_id}", "See which there are: agenttrace cache list")
    if as_json:
        output.print_json({"invalidated": count})
    else:
        output.say(f"{figures.counted(count, 'result')} out of use.")
