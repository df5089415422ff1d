"""``/api/v1/usage``: tokens and cost by day, month, model, agent, project or session, as JSON and as a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from agenttrace import costing
from agenttrace.redaction import redacted
from agenttrace.serve.api.answers import answer, shaped, tagged
from agenttrace.serve.api.downloading import Full, downloading
from agenttrace.serve.api.rows import TITLE_CHARS, bill_of, cut, session_key
from agenttrace.serve.api.shapes import NamedBill, UsageAnswer, UsageGroup
from agenttrace.serve.api.usage_table import usage_table
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.sqlite.reading import UsageRow, usage_rows
from agenttrace.views.usage import day_after, first_day, ordered

By = Literal["day", "month", "model", "agent", "project", "session"]
Split = Literal["model", "agent", "project"]

_PERIOD = "`7d`, `24h`, `2026-11-01` or an ISO time; whole days count."
_ERRORS = documented(400, 401, 422)
_TABLE: dict[int | str, dict[str, Any]] = {200: {"description": "The table.", "content": {"text/csv": {}}}}

#: Id and title of sessions by their number.
Names = Mapping[str, tuple[str, str | None]]


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

    def days(self, timezone: str) -> tuple[str | None, str | None]:
        """The first day, and the one after the last; 400 for a time that is none."""
        try:
            first = None if self.since is None else first_day(self.since, timezone)
            return first, None if self.until is None else day_after(self.until, timezone)
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
        timezone = context.settings.usage.timezone
        days = question.days(timezone)
        rows, names = await context.reader.ask(
            lambda connection: _read(connection, question, days), empty=lambda: ([], {})
        )
        return _answer(question, timezone, context.index.prices, rows, names)

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


def _read(
    connection: sqlite3.Connection, question: Question, days: tuple[str | None, str | None]
) -> tuple[list[UsageRow], Names]:
    rows = usage_rows(
        connection,
        # Two agents may have a session of one id.
        by="number" if question.by == "session" else question.by,
        split=question.split or "total",
        since_day=days[0],
        before_day=days[1],
        agents=question.agents,
        projects=question.projects,
        models=question.models,
    )
    return rows, _sessions(connection) if question.by == "session" else {}


def _sessions(connection: sqlite3.Connection) -> Names:
    """Id and title of every session by its number; those that were pruned have cost still."""
    query = "SELECT CAST(id AS TEXT), session_id, substr(coalesce(nullif(title, ''), first_prompt), 1, ?) FROM sessions"
    return {
        number: (session_id, cut(title, TITLE_CHARS) if title else None)
        for number, session_id, title in connection.execute(query, (TITLE_CHARS + 1,))
    }


def _answer(
    question: Question, timezone: str, cashier: costing.Cashier, rows: list[UsageRow], names: Names
) -> UsageAnswer:
    total = cashier.bill(rows)
    parts = _parts(cashier, rows) if question.split is not None else {}
    return UsageAnswer(
        by=question.by,
        split=question.split,
        timezone=timezone,
        total=bill_of(total),
        rows=[
            UsageGroup(
                **_named(question.by, group, names),
                bill=bill_of(bill),
                parts=named_bills(total, parts.get(group, {})),
            )
            for group, bill in ordered(question.by, total, cashier.by_group(rows)).items()
        ],
    )


def _named(by: By, group: str, names: Names) -> dict[str, Any]:
    if by != "session":
        return {"group": group or None, "title": None, "key": None}
    session_id, title = names[group]
    return {"group": session_id, "title": title, "key": session_key(int(group))}


def _parts(cashier: costing.Cashier, rows: Iterable[UsageRow]) -> dict[str, dict[str, costing.Bill]]:
    found: dict[str, list[UsageRow]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row._replace(group=row.part))
    return {group: cashier.by_group(own) for group, own in found.items()}


def named_bills(total: costing.Bill, bills: dict[str, costing.Bill]) -> list[NamedBill]:
    """Bills by name, the most expensive first."""
    return [NamedBill(name, bill_of(bill)) for name, bill in ordered("name", total, bills).items()]
