"""Schedules: events that come by the clock, each time of each schedule exactly once, in whichever process.

A row of ``ai_schedules`` remembers the last time that was acted upon. It is moved on in the transaction that writes the
jobs, so that of several processes one does it, and none is lost. A schedule that is new begins with its next time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args
from zoneinfo import ZoneInfo

from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.postgres.pool import Database

if TYPE_CHECKING:
    from agenttrace.run.jobs.dispatch import AIDispatcher

logger = logging.getLogger(__name__)

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
#: A time at which no process was running is made up for within this time.
GRACE = timedelta(hours=1)

# A new schedule is only remembered; its times from now on count.
_REMEMBER = """
INSERT INTO biz.ai_schedules (name, last_due) SELECT unnest(%s::text[]), %s ON CONFLICT (name) DO NOTHING
"""
_TAKE = b"UPDATE biz.ai_schedules SET last_due = %s WHERE name = %s AND last_due < %s"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """An event for some stores at some times of the business day."""

    name: str
    event_type: str
    #: When, by the clock of the business time zone.
    times: tuple[time, ...]
    sites: tuple[int, ...]
    #: 0 is Monday.
    weekdays: frozenset[int] = frozenset(range(7))
    member_id: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    #: Run it even if the same event of the day has been run.
    is_forced: bool = False

    def last_due(self, now: datetime, zone: str) -> datetime | None:
        """The latest of its times up to now; None: there was none in the last week."""
        return max((due for due in self._around(now, zone) if due <= now), default=None)

    def next_due(self, now: datetime, zone: str) -> datetime | None:
        """The first of its times after now."""
        return min((due for due in self._around(now, zone) if due > now), default=None)

    def _around(self, now: datetime, zone: str) -> Iterator[datetime]:
        place = ZoneInfo(zone)
        today = now.astimezone(place).date()
        for days in range(-7, 8):
            day = today + timedelta(days=days)
            if day.weekday() in self.weekdays:
                yield from (datetime.combine(day, at, place).astimezone(UTC) for at in self.times)

    def events(self) -> Iterator[TriggerEvent]:
        """What one of its times brings, store by store."""
        for site_id in self.sites:
            yield TriggerEvent(
                event_type=self.event_type,
                site_id=site_id,
                member_id=self.member_id,
                payload=dict(self.payload) or None,
                is_forced=self.is_forced,
                schedule=self.name,
            )


class Scheduler:
    """Starts what is due."""

    def __init__(
        self,
        database: Database,
        schedules: Iterable[Schedule],
        dispatcher: AIDispatcher,
        *,
        zone: str = "Asia/Shanghai",
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._database = database
        self._schedules: Sequence[Schedule] = tuple(schedules)
        self._dispatcher = dispatcher
        self._zone = zone
        #: None: the database's own clock, the one that all processes share.
        self._clock = clock
        self._remembered = False

    async def fire_due(self) -> int:
        """Write the jobs of all times that are due and not yet acted upon; how many times that were."""
        if not self._schedules:
            return 0
        now = await self._now()
        if not self._remembered:
            await self._database.execute(_REMEMBER, [[schedule.name for schedule in self._schedules], now])
            self._remembered = True
        fired = 0
        for schedule in self._schedules:
            due = schedule.last_due(now, self._zone)
            if due is not None and now - due < GRACE:
                fired += await self._fire(schedule, due)
        return fired

    async def _fire(self, schedule: Schedule, due: datetime) -> bool:
        async with self._database.transaction() as connection:
            if not (await connection.execute(_TAKE, [due, schedule.name, due])).rowcount:
                return False
            for event in schedule.events():
                await self._dispatcher.accept_in(connection, event)
        logger.info("schedule %s: %s for %d stores", schedule.name, schedule.event_type, len(schedule.sites))
        return True

    async def _now(self) -> datetime:
        if self._clock is not None:
            return self._clock()
        row = await self._database.one("SELECT clock_timestamp()")
        assert row is not None
        now: datetime = row[0]
        return now
