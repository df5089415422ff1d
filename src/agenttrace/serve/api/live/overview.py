"""``/api/v1/overview``: everything that the first page shows, in one answer that all open pages share."""

from __future__ import annotations

import asyncio
import time
from datetime import date, timedelta
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.calendar import day_finder
from agenttrace.prices.costing import Cashier
from agenttrace.serve.api.answers import Cached, answer, endpoint, tag_of
from agenttrace.serve.api.runs.run_state import run_state
from agenttrace.serve.api.sessions.lookup import bill_of
from agenttrace.serve.api.sessions.session_index import SessionEntry
from agenttrace.serve.api.sessions.usage import named_bills
from agenttrace.serve.api.settings.exports import cached_exports
from agenttrace.serve.api.settings.files import Recording, cached_recording
from agenttrace.serve.api.shapes.exports import Exports
from agenttrace.serve.api.shapes.overview import DayUsage, Overview
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.serve.context import ServerContext
from agenttrace.store.questions import UsageQuery, UsageRow
from agenttrace.store.session_state import recent_since
from agenttrace.views.times import iso

#: An answer is cached for this long. The page asks every few seconds; the live stream brings what is under way at once.
_SECONDS = 1.0
DAYS = 30
#: Of each state; the list of sessions has them all.
_MOST_SESSIONS = 50
_model, _agent = attrgetter("model"), attrgetter("part")


def overview_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["overview"])
    recording, exports = cached_recording(context), cached_exports(context)
    overview = Cached(lambda: _overview(context, recording, exports), _SECONDS)

    @router.get("/overview", **endpoint("The first page", Overview, 401))
    async def show_overview(request: Request) -> Response:
        found, tag = await overview.get()
        return answer(request, found, tag=tag)

    return router


async def _overview(
    context: ServerContext, recording: Cached[Recording], exports: Cached[Exports]
) -> tuple[Overview, str]:
    """The answer, and a tag that changes when anything but the time does."""
    now, timezone = time.time_ns() // 1000, context.settings.usage.timezone
    today = day_finder(timezone)(now)
    days = last_days(today)
    query = UsageQuery(by="day", split="agent", since_day=days[0])
    # In parallel: a database that is away takes until its timeout.
    run, recorded, sent, usage, _ = await asyncio.gather(
        run_state(context),
        recording.get(),
        exports.get(),
        context.reader.query(lambda store: store.usage(query), empty=list[UsageRow]),
        context.index.refresh(),
    )
    prices, recent = context.index.prices, recent_since()
    entries = sorted(context.index.entries(), key=_last_at, reverse=True)
    found = Overview(
        at=iso(now) or "",
        timezone=timezone,
        working=_in_state(entries, "working"),
        waiting=_in_state(entries, "waiting"),
        failed=_in_state(entries, "interrupted", recent),
        **_sums("today", prices, [row for row in usage if row.group == today]),
        # Clocks that are wrong may have dated usage into the future.
        **_sums("month", prices, [row for row in usage if row.group <= today]),
        days=[_day(prices, day, [row for row in usage if row.group == day]) for day in days],
        recording=recorded.state,
        run=run,
        exports=sent,
    )
    timeless = msgspec.json.encode(msgspec.structs.replace(found, at=""))
    return found, tag_of(timeless)


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
