"""``/api/v1/overview``: everything that the first page shows, in one answer that all open pages share."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from operator import attrgetter

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.prices.costing import Bill, Cashier
from agenttrace.record.calendar import day_finder
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.caching import Kept
from agenttrace.serve.api.exports import kept_exports
from agenttrace.serve.api.recording import Recording, kept_recording
from agenttrace.serve.api.rows import bill_of
from agenttrace.serve.api.run_state import run_state
from agenttrace.serve.api.session_index import SessionIndex
from agenttrace.serve.api.shapes import DayUsage, Exports, Overview, SessionRow
from agenttrace.serve.api.usage import named_bills
from agenttrace.serve.context import Context
from agenttrace.serve.problems import documented
from agenttrace.store.questions import UsageQuery, UsageRow
from agenttrace.store.session_state import recent_since
from agenttrace.views.times import iso

#: For as long an answer is good. The page asks every few seconds; what is under way it hears at once by other means.
_SECONDS = 1.0
DAYS = 30
#: Of each state; the list of sessions has them all.
_MOST_SESSIONS = 50
_model = attrgetter("model")


def overview_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["overview"])
    recording = kept_recording(context)
    exports = kept_exports(context)
    overview = Kept(lambda: _overview(context, recording, exports), _SECONDS)

    @router.get("/overview", summary="The first page", responses=shaped(Overview) | documented(401))
    async def show_overview(request: Request) -> Response:
        found, tag = await overview.get()
        return answer(request, found, tag=tag)

    return router


async def _overview(context: Context, recording: Kept[Recording], exports: Kept[Exports]) -> tuple[Overview, str]:
    """The answer, and a tag that is another one when anything but the time is."""
    now = time.time_ns() // 1000
    today = day_finder(context.settings.usage.timezone)(now)
    # Side by side: a database that is away takes its time to be given up.
    run, recorded, sent, usage, _ = await asyncio.gather(
        run_state(context), recording.get(), exports.get(), _usage(context, today), context.index.refresh()
    )
    sessions = _Sessions(context.index)
    found = Overview(
        at=iso(now) or "",
        timezone=context.settings.usage.timezone,
        working=sessions.of("working"),
        waiting=sessions.of("waiting", recent=True),
        failed=sessions.of("interrupted", recent=True),
        today=bill_of(usage.today.total),
        today_by_model=named_bills(usage.today.total, usage.today.by_model),
        today_by_agent=named_bills(usage.today.total, usage.today.by_agent),
        month=bill_of(usage.all.total),
        month_by_model=named_bills(usage.all.total, usage.all.by_model),
        month_by_agent=named_bills(usage.all.total, usage.all.by_agent),
        days=usage.days,
        recording=recorded.state,
        run=run,
        exports=sent,
    )
    return found, _tag(found)


def _tag(found: Overview) -> str:
    timeless = msgspec.json.encode(msgspec.structs.replace(found, at=""))
    return hashlib.blake2b(timeless, digest_size=9).hexdigest()


class _Sessions:
    """Sessions by state, the latest first."""

    def __init__(self, index: SessionIndex) -> None:
        self._entries = sorted(index.entries(), key=lambda entry: entry.session.last_at or 0, reverse=True)
        self._recent = recent_since()

    def of(self, state: str, *, recent: bool = False) -> list[SessionRow]:
        """Those in this state, or those of them that said something within a day."""
        found = (
            entry.row
            for entry in self._entries
            if entry.row.state == state and (not recent or (entry.session.last_at or 0) >= self._recent)
        )
        return list(islice(found, _MOST_SESSIONS))


# -- usage --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sums:
    total: Bill
    by_model: dict[str, Bill]
    by_agent: dict[str, Bill]


@dataclass(frozen=True)
class _Usage:
    today: _Sums
    all: _Sums
    days: list[DayUsage]


async def _usage(context: Context, today: str) -> _Usage:
    days = last_days(today)
    query = UsageQuery(by="day", split="agent", since_day=days[0])
    rows: list[UsageRow] = await context.reader.query(lambda store: store.usage(query), empty=list)
    cashier = context.index.prices
    return _Usage(
        today=_sums(cashier, [row for row in rows if row.group == today]),
        # What clocks that go wrong have dated into the future is not of these days.
        all=_sums(cashier, [row for row in rows if row.group <= today]),
        days=[_day(cashier, day, [row for row in rows if row.group == day]) for day in days],
    )


def last_days(today: str) -> list[str]:
    """The last thirty days, oldest first, today included."""
    last = date.fromisoformat(today)
    return [(last - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]


def _sums(cashier: Cashier, rows: list[UsageRow]) -> _Sums:
    return _Sums(cashier.bill(rows), cashier.by_group(rows, _model), cashier.by_group(rows, attrgetter("part")))


def _day(cashier: Cashier, day: str, rows: list[UsageRow]) -> DayUsage:
    total = cashier.bill(rows)
    return DayUsage(day, bill_of(total), named_bills(total, cashier.by_group(rows, _model)))
