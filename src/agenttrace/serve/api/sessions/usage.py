"""``/api/v1/usage``: tokens and cost by day, model, project, person and more, as JSON and as a table.

The table is CSV (RFC 4180) for spreadsheets, in which no text can become a formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.ids import session_key
from agenttrace.prices import costing
from agenttrace.redaction import redacted
from agenttrace.serve.api.answers import answer, shaped, tag_of, tagged
from agenttrace.serve.api.sessions.downloads import Full, downloading
from agenttrace.serve.api.sessions.lookup import TITLE_CHARS, bill_of, cut
from agenttrace.serve.api.shapes.figures import Bill, NamedBill
from agenttrace.serve.api.shapes.usage import UsageAnswer, UsageGroup
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.questions import UsageQuery
from agenttrace.views.usage import day_after, empty_report, first_day, ranked, usage_report
from agenttrace.views.usage_outcomes import OutcomeReport, UsageOutcomes, with_outcomes, without_outcomes

_PERIOD = "`7d`, `24h`, `2026-11-01` or an ISO time; whole days count."
_ERRORS = documented(400, 401, 422)
_TABLE: dict[int | str, dict[str, Any]] = {200: {"description": "The table.", "content": {"text/csv": {}}}}
#: A spreadsheet takes a text that begins with one of these for a formula; it ignores tab and return before them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: The whole numbers of a bill, each a column.
_NUMBERS = tuple(field.name for field in msgspec.structs.fields(Bill) if field.type is int)


class UsageFilters(BaseModel):
    """What is asked for."""

    by: Literal["day", "month", "model", "agent", "project", "session", "machine", "person"] = Field(
        "day", description="How to group."
    )
    split: Literal["model", "agent", "project", "machine", "person"] | None = Field(
        None, description="What the groups are divided by."
    )
    since: str | None = Field(None, max_length=100, description=f"From that day on: {_PERIOD}")
    until: str | None = Field(None, max_length=100, description=f"Before that: {_PERIOD}")
    agent: list[str] = Field([], max_length=500, description="Only of these agents.")
    project: list[str] = Field([], max_length=500, description="Only in these directories; empty: in none.")
    model: list[str] = Field([], max_length=500, description="Only of these models.")
    machine: list[str] = Field([], max_length=500, description="Only recorded on these machines; empty: on none.")
    person: list[str] = Field([], max_length=500, description="Only of these persons; empty: of none.")

    def query(self, timezone: str) -> UsageQuery:
        """The question for the store; 400 for a time that is none."""
        try:
            return UsageQuery(
                by=self.by,
                split=self.split or "total",
                since_day=None if self.since is None else first_day(self.since, timezone),
                before_day=None if self.until is None else day_after(self.until, timezone),
                agents=frozenset(self.agent),
                projects=frozenset(self.project),
                models=frozenset(self.model),
                machines=frozenset(self.machine),
                persons=frozenset(self.person),
            )
        except ValueError as error:
            raise ProblemError(400, str(error)) from None


class UsageDownload(UsageFilters):
    """The same as a file."""

    full: Full = False


def usage_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["usage"])

    async def found(filters: UsageFilters) -> UsageAnswer:
        timezone, prices = context.settings.usage.timezone, context.index.prices
        query = filters.query(timezone)
        report = await context.reader.query(
            lambda store: with_outcomes(store, prices, query, usage_report(store, prices, query), timezone),
            empty=lambda: without_outcomes(empty_report(prices, query)),
        )
        return _answer(filters, timezone, report)

    @router.get(
        "/usage",
        summary="Tokens and cost by group",
        description="Days and months in their order, all else with the most expensive first.",
        responses=shaped(UsageAnswer) | _ERRORS,
    )
    async def show_usage(request: Request, filters: Annotated[UsageFilters, Query()]) -> Response:
        return answer(request, await found(filters))

    @router.get(
        "/usage.csv",
        summary="The same as a table",
        description="A row for each group, or for each part of one where groups are split. Secrets are masked.",
        response_class=Response,
        responses=_TABLE | _ERRORS | documented(403),
    )
    async def download_usage(request: Request, filters: Annotated[UsageDownload, Query()]) -> Response:
        async with downloading(request, context.settings, f"usage by {filters.by}", full=filters.full) as mask:
            usage = await found(filters)
        body, tag = usage_table(usage if mask is None else redacted(usage, mask.text))
        response = tagged(request, body, tag, "text/csv; charset=utf-8; header=present")
        response.headers["Content-Disposition"] = f'attachment; filename="agenttrace-usage-by-{filters.by}.csv"'
        return response

    return router


def _answer(filters: UsageFilters, timezone: str, found: OutcomeReport) -> UsageAnswer:
    report = found.usage
    return UsageAnswer(
        by=filters.by,
        split=filters.split,
        timezone=timezone,
        total=bill_of(report.total),
        total_outcomes=found.total,
        not_examined=found.not_examined,
        rows=[
            UsageGroup(
                group=each.name or None,
                title=cut(each.title, TITLE_CHARS) or None,
                key=session_key(int(each.group)) if filters.by == "session" else None,
                bill=bill_of(each.bill),
                parts=named_bills(report.total, each.parts),
                outcomes=found.groups[each.group],
            )
            for each in report.ranked()
        ],
    )


def named_bills(total: costing.Bill, bills: dict[str, costing.Bill]) -> list[NamedBill]:
    """Bills by name, the most expensive first."""
    return [NamedBill(name, bill_of(bill)) for name, bill in ranked(total, bills.items(), lambda entry: entry[1])]


# -- the table ----------------------------------------------------------------------------------------------------


def usage_table(usage: UsageAnswer) -> tuple[bytes, str]:
    """The table, and its entity tag."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    # A column for each currency: amounts in different currencies cannot be added.
    currencies = sorted(usage.total.costs)
    costs = [f"cost_{currency.lower()}" for currency in currencies]
    writer.writerow([*_names(usage), *_NUMBERS, *costs, "unpriced_models", *_outcome_names(usage, currencies)])
    for labels, bill, outcomes in _rows(usage):
        writer.writerow([*map(_defused, labels), *_cells(bill, currencies), *_outcome_cells(outcomes, currencies)])
    body = stream.getvalue().encode()
    return body, tag_of(body)


def _defused(text: str) -> str:
    """The text, with a mark before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _names(usage: UsageAnswer) -> list[str]:
    title = ["title"] if usage.by == "session" else []
    # Where groups are split by what they are grouped by, two columns need two names.
    split = [] if usage.split is None else [usage.split if usage.split != usage.by else f"{usage.split}_part"]
    return [usage.by, *title, *split]


def _outcome_names(usage: UsageAnswer, currencies: list[str]) -> list[str]:
    """What came of groups; it is not known of their parts."""
    costs = [f"per_commit_{currency.lower()}" for currency in currencies]
    return ["commits", "lines_added", "lines_removed", *costs] if usage.split is None else []


def _rows(usage: UsageAnswer) -> Iterator[tuple[list[str], Bill, UsageOutcomes | None]]:
    for row in usage.rows:
        labels = [row.group or "", *([row.title or ""] if usage.by == "session" else [])]
        if usage.split is None:
            yield labels, row.bill, row.outcomes
        else:
            yield from (([*labels, part.name], part.bill, None) for part in row.parts)


def _cells(bill: Bill, currencies: list[str]) -> list[object]:
    amounts = _amounts(bill.costs, currencies)
    return [*(getattr(bill, name) for name in _NUMBERS), *amounts, _defused(" ".join(bill.unpriced_models))]


def _outcome_cells(outcomes: UsageOutcomes | None, currencies: list[str]) -> list[object]:
    if outcomes is None:
        return []
    lines = ["" if number is None else number for number in (outcomes.added, outcomes.removed)]
    return [outcomes.commits, *lines, *_amounts(outcomes.cost_per_commit, currencies)]


def _amounts(costs: dict[str, float], currencies: list[str]) -> list[str]:
    """Without a price the cell is empty; never an exponent, which not every program that reads tables knows."""
    return ["" if (cost := costs.get(currency)) is None else f"{cost:.6f}" for currency in currencies]
