"""``agenttrace insights``: tools, models, and what stands out, over many sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import UsageError
from agenttrace.cli.options import Agent, AsJson, Machine, Person, Project, only
from agenttrace.cli.session_ids import ShortIds
from agenttrace.prices.costing import Cashier
from agenttrace.views import figures
from agenttrace.views.insights import (
    KINDS,
    FindingKind,
    InsightPeriod,
    ModelInsight,
    ModelInsights,
    ModelSort,
    ModelSplit,
    ToolInsight,
    ToolInsights,
    ToolSort,
    ToolSplit,
    model_insights,
    tool_insights,
)
from agenttrace.views.model_names import model_names
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.views.findings import Finding

EPILOG = """
  agenttrace insights                          what stands out in the last 30 days
  agenttrace insights tools --sort failure_rate
  agenttrace insights tools --by project --since all
  agenttrace insights models --since 7d
  agenttrace insights findings --kind retry_loop --json | jq '.items[].text'

Percentiles are exact: p95 is the duration of a call, and 95 % of the calls took no longer. A call whose log has no
two times has no duration. What forks repeat counts once. Whole days count.
"""

_ALWAYS = "all"
View = Literal["findings", "tools", "models"]
Split = Literal["agent", "project", "model", "machine", "person"]
Sort = Literal[
    "calls", "failures", "failure_rate", "errors", "p50", "p95", "max", "total", "speed", "cache", "cost", "turn_cost",
    "sessions", "last", "name",
]  # fmt: skip


def insights(
    view: Annotated[View, typer.Argument(help="What to show.")] = "findings",
    by: Annotated[Split | None, typer.Option(help="Divide the figures of tools or models by.")] = None,
    sort: Annotated[Sort | None, typer.Option(help="The figure that tools or models are ordered by.")] = None,
    kind: Annotated[FindingKind | None, typer.Option(help="Only findings of this kind.")] = None,
    since: Annotated[str, typer.Option(metavar="WHEN", help="Since this day: 7d, today, 2026-11-01, or all.")] = "30d",
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before this day.")] = None,
    agent: Agent = None,
    project: Project = None,
    machine: Machine = None,
    person: Person = None,
    model: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Filter by model; repeatable.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number of rows.", show_default="10 findings of each kind")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how tools and models do over many sessions, and what stands out.

    Findings are computed from what was recorded, without a model: calls that were retried with the same arguments,
    errors that repeat across sessions, lost prompt caches, the most expensive turns, long waits for the user.
    """
    settings = opening.settings()
    name = opening.checked_agent(agent)
    period = InsightPeriod.of(
        None if since == _ALWAYS else since,
        until,
        settings.usage.timezone,
        agents=only(name),
        project_contains=project,
        machines=only(machine),
        persons=only(person),
        models=frozenset(model or ()),
    )
    if view == "findings":
        _refuse(by=by, sort=sort)
        _show_findings(settings, period, KINDS if kind is None else (kind,), limit or 10, as_json=as_json)
    elif kind:
        raise UsageError("--kind is for findings", "Leave it out, or: agenttrace insights findings")
    elif view == "tools":
        _show_tools(settings, period, by, _chosen(sort, get_args(ToolSort)), limit, as_json=as_json)
    else:
        _show_models(settings, period, by, _chosen(sort, get_args(ModelSort)), limit, as_json=as_json)


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(
                f"--{name} is for tools and models", f"Leave it out, or: agenttrace insights tools --{name} …"
            )


def _chosen(sort: str | None, known: tuple[str, ...]) -> str:
    if sort is not None and sort not in known:
        raise UsageError(f"there is no figure {sort!r} to order by", f"One of: {', '.join(known)}")
    return sort or "calls"


# -- tools --------------------------------------------------------------------------------------------------------


def _show_tools(
    settings: Settings, period: InsightPeriod, by: ToolSplit | None, sort: str, limit: int | None, *, as_json: bool
) -> None:
    query = period.query(settings.usage.timezone)
    with opening.shown_store(settings) as store:
        whole = tool_insights(store, query, by=by)
    found: ToolInsights = whole.ordered(msgspec.convert(sort, ToolSort), limit=limit)
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    if not found.items:
        output.say("No tool was called in this time.")
        return
    part = [Column[ToolInsight](by, lambda row: row.part or f"(no {by})", least=12, keep_end=True)] if by else []
    print_table([_TOOL_NAME, *part, *_TOOL_COLUMNS], found.items)
    _note_left_out(found.left_out)


def _ms(value: int | None) -> str | None:
    return None if value is None else figures.duration(value * 1000)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share * 100:.1f}%"


_TOOL_NAME: Column[ToolInsight] = Column("tool", lambda row: one_line(row.tool), least=12)
_TOOL_COLUMNS: tuple[Column[ToolInsight], ...] = (
    Column("calls", lambda row: figures.count(row.calls), right=True),
    Column("failed", lambda row: figures.count(row.failures), right=True),
    Column("rate", lambda row: _percent(row.failure_rate), right=True),
    Column("p50", lambda row: _ms(row.p50_ms), right=True),
    Column("p95", lambda row: _ms(row.p95_ms), right=True),
    Column("longest", lambda row: _ms(row.max_ms), right=True, optional=2),
    Column("in all", lambda row: _ms(row.total_ms), right=True, optional=3),
    Column("sessions", lambda row: figures.count(row.sessions), right=True, optional=1),
)

# -- models -------------------------------------------------------------------------------------------------------


def _show_models(
    settings: Settings, period: InsightPeriod, by: Split | None, sort: str, limit: int | None, *, as_json: bool
) -> None:
    if by == "model":
        raise UsageError("models cannot be divided by model", f"--by is one of: {', '.join(get_args(ModelSplit))}")
    cashier = Cashier.load(settings)
    with opening.shown_store(settings) as store:
        whole = model_insights(store, cashier, period, by=by)
    found: ModelInsights = whole.ordered(msgspec.convert(sort, ModelSort), limit=limit)
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    if not found.items:
        output.say("No model was called in this time.")
        return
    part = [Column[ModelInsight](by, lambda row: row.part or f"(no {by})", least=12, keep_end=True)] if by else []
    names = model_names(row.model for row in found.items)
    name: Column[ModelInsight] = Column("model", lambda row: one_line(names[row.model]) or "(not named)", least=14)
    print_table([name, *part, *_MODEL_COLUMNS], found.items)
    _note_left_out(found.left_out)


def _money(costs: Callable[[ModelInsight], dict[str, float]]) -> Callable[[ModelInsight], str | None]:
    def cell(row: ModelInsight) -> str | None:
        known = " + ".join(figures.money(round(cost * 1e6), currency) for currency, cost in costs(row).items())
        return known or ("?" if row.unpriced_tokens else None)

    return cell


def _speed(row: ModelInsight) -> str | None:
    speed = row.output_tokens_per_second
    return None if speed is None else f"{speed:.0f}"


_MODEL_COLUMNS: tuple[Column[ModelInsight], ...] = (
    Column("calls", lambda row: figures.count(row.calls), right=True),
    Column("errors", lambda row: figures.count(row.errors), right=True, optional=1),
    Column("p50", lambda row: _ms(row.p50_ms), right=True),
    Column("p95", lambda row: _ms(row.p95_ms), right=True),
    Column("tok/s", _speed, right=True),
    Column("cached", lambda row: _percent(row.cache_hit_rate), right=True, optional=2),
    Column("per turn", _money(lambda row: row.cost_per_turn), right=True, optional=3),
    Column("cost", _money(lambda row: row.costs), right=True),
)


def _note_left_out(number: int) -> None:
    if number:
        output.note(f"{figures.count(number)} more; --limit {number + 1} and higher shows them")


# -- findings -----------------------------------------------------------------------------------------------------

_TITLES: dict[FindingKind, str] = {
    "retry_loop": "Retried with the same arguments",
    "repeated_failure": "The same error in several sessions",
    "cache_break": "Lost prompt caches",
    "expensive_turn": "The most expensive turns",
    "long_wait": "Long waits for you",
}


def _show_findings(
    settings: Settings, period: InsightPeriod, kinds: Sequence[FindingKind], limit: int, *, as_json: bool
) -> None:
    from agenttrace.record.texts.session_texts import SessionTexts
    from agenttrace.views.findings import findings

    cashier = Cashier.load(settings)
    with opening.shown_store(settings) as store:
        found = findings(store, cashier, SessionTexts(), period, kinds=kinds, limit=limit)
        short = ShortIds([] if as_json else store.session_ids())
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    if not found.items:
        output.say("Nothing stands out in this time.")
    for kind, title in _TITLES.items():
        items = [each for each in found.items if each.kind == kind]
        if items:
            output.say(title, "bold")
            for each in items:
                _show_finding(each, short)
            output.say()


def _show_finding(finding: Finding, short: ShortIds) -> None:
    output.wrapped(output.styled("  • "), output.styled(one_line(finding.text, 300)))
    costs = [figures.money(round(cost * 1e6), currency) for currency, cost in finding.costs.items()]
    shown = [] if finding.kind == "expensive_turn" else costs
    if finding.kind == "retry_loop" and finding.tokens:
        shown.append(f"{figures.tokens(finding.tokens)} tokens")
    if finding.kind in ("retry_loop", "repeated_failure", "expensive_turn") and finding.duration_ms:
        shown.append(figures.duration(finding.duration_ms * 1000))
    place = finding.spans[0] if finding.spans else None
    where = [] if place is None else [f"agenttrace show {short.of(place.session_id)}"]
    title = [] if place is None or not place.title or finding.sessions > 1 else [one_line(place.title, 50)]
    # The commands that follow in a pipe need it, too.
    output.say(f"    {' · '.join([*shown, *where, *title])}", "dim")
