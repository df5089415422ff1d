"""``/api/v1/overview``: everything that the first page shows, in one answer that all open pages share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.calendar import day_finder
from agenttrace.prices.costing import Cashier
from agenttrace.serve.api.answers import Cached, PerSight, answer, endpoint, tag_of
from agenttrace.serve.api.runs.run_state import run_state
from agenttrace.serve.api.sessions.lookup import bill_of
from agenttrace.serve.api.sessions.session_index import SessionEntry
from agenttrace.serve.api.sessions.usage import named_bills
from agenttrace.serve.api.settings.exports import cached_exports
from agenttrace.serve.api.settings.files import recorder_state
from agenttrace.serve.api.shapes.exports import Exports
from agenttrace.serve.api.shapes.overview import DayUsage, Overview, OverviewFigures
from agenttrace.serve.api.shapes.recording import RecorderState
from agenttrace.serve.api.shapes.runs import RunState
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.serve.context import ServerContext
from agenttrace.store.questions import UsageQuery, UsageRow
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.session_state import recent_since
from agenttrace.store.store import Store
from agenttrace.views.attention import Attention, active_rules, in_order, of_exports, of_limits, of_recorder, of_rules
from agenttrace.views.limits import limits_fields
from agenttrace.views.overview import overview_fields
from agenttrace.views.overview_days import DayBook
from agenttrace.views.times import iso

#: An answer is cached for this long. The page asks every few seconds; the live stream brings what is under way at once.
_SECONDS = 1.0
#: Rules, budgets and limits are looked at less often: they need several questions.
_TROUBLE_SECONDS = 5.0
#: How long the first answer waits for them, in seconds.
_PATIENCE = 0.5
#: While nothing is recorded, forecasts that a page has are at most this old.
_FORECAST_SECONDS = 300
DAYS = 30
#: Of each state; the list of sessions has them all.
_MOST_SESSIONS = 50
_model, _agent = attrgetter("model"), attrgetter("part")


def overview_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["overview"])
    sources = PerSight(lambda: _Sources(context))
    overview = Cached(lambda: _overview(context, sources.get()), _SECONDS)

    @router.get("/overview", **endpoint("The first page", Overview, 401))
    async def show_overview(request: Request) -> Response:
        found, tag = await overview.get()
        return answer(request, found, tag=tag)

    return router


class _Sources:
    """What the answer is made of, kept from one answer to the next."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.exports = cached_exports(context)
        self._trouble = Cached(self._look, _TROUBLE_SECONDS)
        self._looking: asyncio.Task[list[Attention]] | None = None
        self._found: list[Attention] | None = None
        self._book: DayBook | None = None
        self._stamp = 0
        self._sums: tuple[list[UsageRow], dict[str, Any]] | None = None

    async def usage(self, days: list[str]) -> tuple[OverviewFigures, dict[str, Any]]:
        """The figures, and the sums of the last days by model and agent."""
        prices = self._context.index.prices
        if self._book is None or self._book.cashier is not prices:
            self._book, self._sums = DayBook(prices), None
        book, query = self._book, UsageQuery(by="day", split="agent", since_day=days[0])
        fields, rows = await self._context.reader.query(
            lambda store: (overview_fields(store, book), store.usage(query)),
            empty=lambda: (overview_fields(None, book), list[UsageRow]()),
        )
        return msgspec.convert(fields, OverviewFigures), self._summed(days, rows)

    async def recording(self) -> RecorderState:
        """Whether agents are recorded."""
        settings = self._context.settings
        return await self._context.reader.query_machine(
            lambda store: recorder_state(store, settings), empty=lambda: recorder_state(None, settings)
        )

    def tag(self, found: Overview, now: int) -> str:
        """Changes when anything but the time does; forecasts and comparisons also change with time, now and then."""
        if now - self._stamp > _FORECAST_SECONDS * 1_000_000:
            self._stamp = now
        steady = [[each.bill, each.parts, each.whole_before] for each in found.figures.periods]
        figures = msgspec.structs.replace(found.figures, at="", periods=[])
        timeless = msgspec.structs.replace(found, at="", figures=figures)
        return tag_of(msgspec.json.encode([timeless, steady, self._stamp]))

    async def trouble(self) -> list[Attention]:
        """Rules, budgets and limits that need the user; a look that takes long is for the next answer."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._trouble.get())
        await asyncio.wait([self._looking], timeout=_PATIENCE if self._found is None else 0)
        if self._looking.done():
            task, self._looking = self._looking, None
            self._found = task.result()
        return self._found or []

    async def _look(self) -> list[Attention]:
        settings, prices = self._context.settings, self._context.index.prices

        def rules(store: RuleStore) -> list[Attention]:
            return list(of_rules(store.rules.states(), active_rules(store, settings)))

        def limits(store: Store) -> list[Attention]:
            return list(of_limits(limits_fields(store, settings, prices)))

        reader = self._context.reader
        found: list[Attention] = await reader.query_rules(rules, empty=list)
        # Stores without a place for rules have budgets, too.
        more: list[Attention] = await reader.query(limits, empty=list)
        return found + more

    def _summed(self, days: list[str], usage: list[UsageRow]) -> dict[str, Any]:
        """Today, the last days and each of them by model and agent; the same usage is not added up again."""
        if self._sums is None or self._sums[0] != usage or self._sums[1]["days"][-1].day != days[-1]:
            prices, today = self._context.index.prices, days[-1]
            by_day: dict[str, list[UsageRow]] = {}
            for row in usage:
                by_day.setdefault(row.group, []).append(row)
            found = {
                **_sums("today", prices, by_day.get(today, [])),
                # Clocks that are wrong may have dated usage into the future.
                **_sums("month", prices, [row for row in usage if row.group <= today]),
                "days": [_day(prices, day, by_day.get(day, [])) for day in days],
            }
            self._sums = usage, found
        return self._sums[1]


async def _overview(context: ServerContext, sources: _Sources) -> tuple[Overview, str]:
    """The answer, and a tag that changes when anything but the time does."""
    now, timezone = time.time_ns() // 1000, context.settings.usage.timezone
    days = last_days(day_finder(timezone)(now))
    # In parallel: a database that is away takes until its timeout.
    run, recorded, sent, (figures, sums), trouble, _ = await asyncio.gather(
        run_state(context),
        sources.recording(),
        sources.exports.get(),
        sources.usage(days),
        sources.trouble(),
        context.index.refresh(),
    )
    recent = recent_since()
    entries = sorted(context.index.entries(), key=_last_at, reverse=True)
    found = Overview(
        at=iso(now) or "",
        timezone=timezone,
        working=_in_state(entries, "working"),
        waiting=_in_state(entries, "waiting"),
        failed=_in_state(entries, "interrupted", recent),
        **sums,
        figures=figures,
        attention=in_order([*_of_recording(recorded), *_of_exports(sent), *trouble, *_of_runs(run)]),
        recording=recorded,
        run=run,
        exports=sent,
    )
    return found, sources.tag(found, now)


# -- what needs the user ------------------------------------------------------------------------------------------


def _of_recording(state: RecorderState) -> Iterator[Attention]:
    # Before anything was recorded the page says how to begin.
    if state.lines.lines or state.running or state.problem:
        yield from of_recorder(state.running, state.problem, state.quarantine_open)


def _of_exports(exports: Exports) -> Iterator[Attention]:
    return of_exports(msgspec.to_builtins(exports.destinations))


def _of_runs(run: RunState) -> Iterator[Attention]:
    """Calls that are refused, open breakers, failed jobs."""
    if run.budget is not None and not run.budget.allowed:
        yield Attention(kind="calls_refused", level="failed", detail=run.budget.reason)
    for each in run.breakers:
        if each.state == "open":
            yield Attention(kind="breaker_open", level="failed", name=each.app, until=each.changed_at)
    if run.failed_jobs_today:
        yield Attention(kind="jobs_failed", level="waiting", count=run.failed_jobs_today)


# -- sessions and sums --------------------------------------------------------------------------------------------


def _last_at(entry: SessionEntry) -> int:
    return entry.session.last_at or 0


def _in_state(entries: list[SessionEntry], state: str, since: int = 0) -> list[SessionRow]:
    """Sessions in this state with an event since a moment, the latest first."""
    found = (entry.row for entry in entries if entry.row.state == state and _last_at(entry) >= since)
    return list(islice(found, _MOST_SESSIONS))


def last_days(today: str) -> list[str]:
    """The last thirty days, oldest first, today included."""
    last = date.fromisoformat(today)
    return [(last - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]


def _sums(period: str, prices: Cashier, rows: list[UsageRow]) -> dict[str, Any]:
    total = prices.bill(rows)
    return {
        period: bill_of(total),
        f"{period}_by_model": named_bills(total, prices.by_group(rows, _model)),
        f"{period}_by_agent": named_bills(total, prices.by_group(rows, _agent)),
    }


def _day(prices: Cashier, day: str, rows: list[UsageRow]) -> DayUsage:
    total = prices.bill(rows)
    return DayUsage(day, bill_of(total), named_bills(total, prices.by_group(rows, _model)))
