"""``agenttrace usage``: tokens and cost, each response counted once, also against the agents' own totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table, table_lines
from agenttrace.cli.options import AsJson, Machine, Person, Since, only
from agenttrace.cli.session_ids import ShortIds
from agenttrace.prices.costing import Bill, Cashier
from agenttrace.store.questions import NOTHING, Agreement, SessionFilter, UsageQuery
from agenttrace.views import figures, money
from agenttrace.views.agreement import difference, reason
from agenttrace.views.model_names import model_names
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of
from agenttrace.views.times import parse_since
from agenttrace.views.usage import GroupUsage, UsageReport, first_day, usage_report

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.views.usage_outcomes import OutcomeReport, UsageOutcomes

EPILOG = """
  agenttrace usage                            by day
  agenttrace usage --by model --since 30d     cost of each model
  agenttrace usage --by project               cost of each project
  agenttrace usage --by person                of each person, in a team's store
  agenttrace usage --by project --commits     and of a commit in each
  agenttrace usage --by month --json | jq .total.cost
  agenttrace usage --check                    compare with the totals that agents write

Forked and resumed sessions repeat whole histories; the tokens of a response count once, in the session that had it
first. Prices come from a table that ships with AgentTrace; set your own in agenttrace.toml under \\[prices]. Tokens of
a model without a price are shown as unpriced (?), never as free.
"""


By = Literal["day", "month", "model", "agent", "project", "session", "machine", "person"]


def usage(
    by: Annotated[By, typer.Option(help="Group by.")] = "day",
    since: Since = None,
    machine: Machine = None,
    person: Person = None,
    commits: Annotated[
        bool, typer.Option("--commits", help="Add commits, changed lines and the cost of a commit.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare sessions with the totals of their agents.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --check: exit with 1 if a session differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show tokens and cost by day, month, model, agent, project, session, machine or person."""
    settings = opening.settings()
    moment = parse_since(since, settings.usage.timezone)
    if check:
        sessions = SessionFilter(since=moment, machines=only(machine), persons=only(person))
        differ = _check(settings, sessions, as_json=as_json)
        raise typer.Exit(1 if differ and exit_code else 0)
    since_day = None if since is None else first_day(since, settings.usage.timezone)
    cashier, query = Cashier.load(settings), _query(by, since_day, machine, person)
    outcomes: OutcomeReport | None = None
    with opening.shown_store(settings) as store:
        report = usage_report(store, cashier, query)
        short = ShortIds(store.session_ids() if by == "session" and not as_json else [])
        if commits:
            from agenttrace.views.usage_outcomes import with_outcomes

            outcomes = with_outcomes(store, cashier, query, report, settings.usage.timezone, read=True)
            report = outcomes.usage
    if as_json:
        output.print_json(_fields(report, outcomes))
    elif not report.groups:
        output.say(
            "No usage recorded" + (f" since {since_day}." if since_day else " yet. Try: agenttrace record --once")
        )
    else:
        _show(report, outcomes, short)


def _query(by: By, since_day: str | None, machine: str | None, person: str | None) -> UsageQuery:
    return UsageQuery(by=by, since_day=since_day, machines=only(machine), persons=only(person))


def _fields(report: UsageReport, outcomes: OutcomeReport | None) -> dict[str, Any]:
    total = {} if outcomes is None else msgspec.to_builtins(outcomes.total)
    groups = {} if outcomes is None else msgspec.to_builtins(outcomes.groups)
    rows = [
        {report.by: each.name or None, **each.bill.fields(), **groups.get(each.group, {})} for each in report.groups
    ]
    return {"total": {**report.total.fields(), **total}, "rows": rows}


class _Row(NamedTuple):
    name: str
    bill: Bill
    outcomes: UsageOutcomes | None


def _number(name: str, width: int) -> Callable[[_Row], str]:
    shown = figures.count if width >= 110 else figures.tokens
    return lambda row: shown(row.bill.tokens[name])


def usage_lines(
    report: UsageReport, outcomes: OutcomeReport | None, width: int, short: ShortIds | None = None
) -> Iterator[Text]:
    """The groups as lines of a table, with the total below."""
    columns: tuple[Column[_Row], ...] = (
        Column(report.by, lambda row: row.name, least=14),
        Column("requests", lambda row: figures.count(row.bill.requests), right=True, optional=3),
        Column("input", _number("input_tokens", width), right=True),
        Column("cache read", _number("cache_read_tokens", width), right=True, optional=6 if outcomes else 0),
        Column("cache write", _number("cache_write_tokens", width), right=True, optional=1),
        Column("output", _number("output_tokens", width), right=True),
        Column("reasoning", _number("reasoning_tokens", width), right=True, optional=2),
        Column("cost", lambda row: money.cost_text(row.bill), right=True),
        *(() if outcomes is None else _OUTCOMES),
    )
    groups = {} if outcomes is None else outcomes.groups
    names = model_names(each.name for each in report.groups) if report.by == "model" else {}
    ids = short or ShortIds([])
    rows = [
        _Row(names.get(each.name) or _label(report.by, each, ids), each.bill, groups.get(each.group))
        for each in report.ranked()
    ]
    total = _Row("total", report.total, None if outcomes is None else outcomes.total)
    return table_lines(columns, rows, footer=total if len(rows) > 1 else None, width=width)


def _show(report: UsageReport, outcomes: OutcomeReport | None, short: ShortIds) -> None:
    console = output.stdout()
    for line in usage_lines(report, outcomes, console.width, short):
        console.print(line, soft_wrap=True)
    output.note("reasoning is part of output; input, cache read and cache write do not overlap")
    if outcomes is not None:
        origins = ", ".join(outcomes.total.known_from) or "nothing that was recorded"
        output.note(f"commits and lines are known from: {origins}; the cost of a commit is that of all work of its row")
    for remark in money.remarks(report.total):
        output.note(remark, "yellow")


def _came(text: Callable[[UsageOutcomes], str | int | None]) -> Callable[[_Row], str | int | None]:
    return lambda row: None if row.outcomes is None else text(row.outcomes) or None


_OUTCOMES: tuple[Column[_Row], ...] = (
    Column("added", _came(lambda found: figures.signed("+", found.added or None)), right=True, optional=4),
    Column("removed", _came(lambda found: figures.signed("-", found.removed or None)), right=True, optional=5),
    Column("commits", _came(lambda found: found.commits), right=True),
    Column("per commit", _came(lambda found: money.per_commit_text(found.cost_per_commit)), right=True),
)


def _label(by: str, group: GroupUsage, short: ShortIds) -> str:
    if group.title:
        return f"{short.of(group.name)}  {one_line(group.title, 60)}"
    return one_line(group.name) or f"(no {by})"


# -- against the agents' own totals ---------------------------------------------------------------------------


def _check(settings: Settings, wanted: SessionFilter, *, as_json: bool) -> int:
    """Compare these sessions with the totals of their agents; how many differ."""
    with opening.shown_store(settings) as store:
        totals = store.sessions_with_totals()
        sessions = store.sessions(wanted)
        found = [(session, store.agreement(session.id) if session.id in totals else NOTHING) for session in sessions]
        short = ShortIds([] if as_json else store.session_ids())
    differing = [entry for entry in found if entry[1].status == "differ"]
    counts: Counter[str] = Counter(agreement.status for _, agreement in found)
    if as_json:
        _print_json(counts, found)
    else:
        _show_check(counts, differing, sum(agreement.checked for _, agreement in found), short)
    return len(differing)


def _print_json(counts: Counter[str], found: list[tuple[Session, Agreement]]) -> None:
    listed = [
        {"session_id": session.session_id, "agent": session.agent, **msgspec.to_builtins(agreement)}
        for session, agreement in found
        if agreement.status != "nothing"
    ]
    output.print_json({**{status: counts[status] for status in ("agree", "differ", "nothing")}, "sessions": listed})


def _show_check(
    counts: Counter[str], differing: list[tuple[Session, Agreement]], checked: int, short: ShortIds
) -> None:
    if differing:
        print_table(_check_columns(short), differing)
        output.say()
    named = {"agree": "agree", "differ": "differ", "nothing": "nothing to check by"}
    for status, name in named.items():
        number = figures.counted(counts[status], "session")
        more = f" ({figures.counted(checked, 'request')} checked)" if status == "agree" else ""
        output.say(f"{name:<19}  {number}{more}", "yellow" if status == "differ" and differing else "")


def _check_columns(short: ShortIds) -> tuple[Column[tuple[Session, Agreement]], ...]:
    def label(session: Session) -> str:
        return f"{short.of(session.session_id)}  {one_line(title_of(session), 40)}"

    return (
        Column("session", lambda row: label(row[0]), least=14),
        Column("agent", lambda row: opening.agent_title(row[0].agent), optional=1),
        Column("ours", lambda row: figures.count(sum(row[1].counted.values())), right=True),
        Column("agent's", lambda row: figures.count(sum(row[1].claimed.values())), right=True),
        Column("difference", lambda row: difference(row[1].difference), least=12),
        Column("why", lambda row: "; ".join(map(reason, row[1].reasons)), least=20),
    )
