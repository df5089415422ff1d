"""``/api/v1/usage``: tokens and cost by day, month, model, agent, project or session, as JSON and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from agenttrace.ids import session_key
from agenttrace.prices import costing
from agenttrace.redaction import redacted
from agenttrace.serve.api.answers import answer, shaped, tagged
from agenttrace.serve.api.downloading import Full, downloading
from agenttrace.serve.api.rows import TITLE_CHARS, bill_of, cut
from agenttrace.serve.api.shapes import NamedBill, UsageAnswer, UsageGroup
from agenttrace.serve.api.usage_table import usage_table
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.questions import UsageQuery
from agenttrace.views.usage import UsageReport, day_after, empty_report, first_day, ranked, usage_report

By = Literal["day", "month", "model", "agent", "project", "session"]
Split = Literal["model", "agent", "project"]

_PERIOD = "`7d`, `24h`, `2026-11-01` or an ISO time; whole days count."
_ERRORS = documented(400, 401, 422)
_TABLE: dict[int | str, dict[str, Any]] = {200: {"description": "The table.", "content": {"text/csv": {}}}}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked for."""

    by: By
    split: Split | None
    since: str | None
    until: str | None
    agents: list[str]
    projects: list[str]
    models: list[str]

    def query(self, timezone: str) -> UsageQuery:
        """The question as the store is asked it; 400 for a time that is none."""
        try:
            return UsageQuery(
                by=self.by,
                split=self.split or "total",
                since_day=None if self.since is None else first_day(self.since, timezone),
                before_day=None if self.until is None else day_after(self.until, timezone),
                agents=frozenset(self.agents),
                projects=frozenset(self.projects),
                models=frozenset(self.models),
            )
        except ValueError as error:
            raise ProblemError(400, str(error)) from None


def _names(description: str) -> Any:  # noqa: ANN401 - FastAPI says so
    return Query(max_length=500, description=description)


def asked(
    by: Annotated[By, Query(description="How to group.")] = "day",
    split: Annotated[Split | None, Query(description="What the groups are divided by.")] = None,
    since: Annotated[str | None, Query(max_length=100, description=f"From that day on: {_PERIOD}")] = None,
    until: Annotated[str | None, Query(max_length=100, description=f"Before that: {_PERIOD}")] = None,
    agent: Annotated[list[str], _names("Only of these agents.")] = [],  # noqa: B006 - never changed
    project: Annotated[list[str], _names("Only in these directories; empty: in none.")] = [],  # noqa: B006
    model: Annotated[list[str], _names("Only of these models.")] = [],  # noqa: B006
) -> Question:
    """The question that a query is."""
    return Question(by=by, split=split, since=since, until=until, agents=agent, projects=project, models=model)


Asked = Annotated[Question, Depends(asked)]


def usage_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["usage"])

    async def found(question: Question) -> UsageAnswer:
        timezone, prices = context.settings.usage.timezone, context.index.prices
        query = question.query(timezone)
        report = await context.reader.query(
            lambda store: usage_report(store, prices, query), empty=lambda: empty_report(prices, query)
        )
        return _answer(question, timezone, report)

    @router.get(
        "/usage",
        summary="Tokens and cost by group",
        description="Days and months in their order, all else with the most expensive first.",
        responses=shaped(UsageAnswer) | _ERRORS,
    )
    async def show_usage(request: Request, question: Asked) -> Response:
        return answer(request, await found(question))

    @router.get(
        "/usage.csv",
        summary="The same as a table",
        description="A row for each group, or for each part of one where groups are split. Secrets are masked.",
        response_class=Response,
        responses=_TABLE | _ERRORS | documented(403),
    )
    async def download_usage(request: Request, question: Asked, full: Full = False) -> Response:
        async with downloading(request, context.settings, f"usage by {question.by}", full=full) as mask:
            usage = await found(question)
        body, tag = usage_table(usage if mask is None else redacted(usage, mask.text))
        response = tagged(request, body, tag, "text/csv; charset=utf-8; header=present")
        response.headers["Content-Disposition"] = f'attachment; filename="agenttrace-usage-by-{question.by}.csv"'
        return response

    return router


def _answer(question: Question, timezone: str, report: UsageReport) -> UsageAnswer:
    return UsageAnswer(
        by=question.by,
        split=question.split,
        timezone=timezone,
        total=bill_of(report.total),
        rows=[
            UsageGroup(
                group=each.name or None,
                title=cut(each.title, TITLE_CHARS) or None,
                key=session_key(int(each.group)) if question.by == "session" else None,
                bill=bill_of(each.bill),
                parts=named_bills(report.total, each.parts),
            )
            for each in report.ranked()
        ],
    )


def named_bills(total: costing.Bill, bills: dict[str, costing.Bill]) -> list[NamedBill]:
    """Bills by name, the most expensive first."""
    return [NamedBill(name, bill_of(bill)) for name, bill in ranked(total, bills.items(), lambda entry: entry[1])]
