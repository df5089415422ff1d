"""The rows of ``ai_trigger_jobs``: one for each event, from the moment it is accepted until its chain is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import AsyncConnection

from agenttrace.run.postgres.pool import Database
from agenttrace.run.results.storable import storable_json, storable_text
from agenttrace.run.states import JobStatus, TriggerType
from agenttrace.run.upstream.calls import RULE_SESSION

_COLUMNS = """id, site_id, event_type, connector_type, member_id, payload, status, is_forced, app_chain, started_at,
    finished_at, error_message, created_at, event_date, claim, rerun_of, cancel_requested, schedule, idempotency_key,
    apps"""

#: What the rows of chains that rules order have instead of an event and a store.
RULE_EVENT, NO_SITE = "rule", 0

_NAMES = tuple(name.strip() for name in _COLUMNS.split(","))

#: A row that is skipped as a duplicate is over at once, and its ``error`` says why.
_INSERT = """
INSERT INTO biz.ai_trigger_jobs (site_id, event_type, connector_type, member_id, payload, is_forced, app_chain,
                                 rerun_of, schedule, apps, created_at, event_date, status, finished_at, error_message)
    SELECT %(site_id)s, %(event_type)s, %(connector_type)s, %(member_id)s, %(payload)s, %(is_forced)s, %(app_chain)s,
           %(rerun_of)s, %(schedule)s, %(apps)s::text[], t.now, (t.now AT TIME ZONE %(zone)s)::date, %(status)s::text,
           CASE %(status)s::text WHEN 'skipped_duplicate' THEN t.now END, %(error)s
        FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS now) AS t
    ON CONFLICT (event_type, member_id, site_id, event_date) WHERE NOT is_forced AND status <> 'skipped_duplicate'
        DO NOTHING
    RETURNING id
"""

_ORDER = """
INSERT INTO biz.ai_trigger_jobs (site_id, event_type, connector_type, payload, is_forced, app_chain, idempotency_key,
                                 apps, created_at, event_date)
    SELECT %(site_id)s, %(event_type)s, NULL, %(payload)s, true, %(app_chain)s, %(key)s, %(apps)s::text[], t.now,
           (t.now AT TIME ZONE %(zone)s)::date
        FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS now) AS t
    ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id
"""

# What has succeeded of it is not called again.
_CONTINUE = """
UPDATE biz.ai_trigger_jobs
    SET status = 'pending', finished_at = NULL, error_message = NULL, cancel_requested = false, apps = %(apps)s::text[],
        app_chain = %(app_chain)s
    WHERE id = %(id)s AND status NOT IN ('pending', 'running')
"""

_DUPLICATE = """
SELECT id FROM biz.ai_trigger_jobs
    WHERE event_type = %(event_type)s AND site_id = %(site_id)s AND member_id IS NOT DISTINCT FROM %(member_id)s
        AND event_date = (coalesce(%(now)s, clock_timestamp()) AT TIME ZONE %(zone)s)::date
        AND NOT is_forced AND status <> 'skipped_duplicate'
"""

_CLAIM = f"""
UPDATE biz.ai_trigger_jobs
    SET claim = claim + 1, status = 'running', started_at = coalesce(started_at, clock_timestamp())
    WHERE id = %s AND status IN ('pending', 'running')
    RETURNING {_COLUMNS}
"""

_FINISH = """
UPDATE biz.ai_trigger_jobs SET status = %(status)s, error_message = %(error)s, finished_at = clock_timestamp()
    WHERE id = %(id)s AND claim = %(claim)s AND status = 'running'
"""

# A pending job ends at once; a running one ends before its next step.
_CANCEL = """
UPDATE biz.ai_trigger_jobs
    SET cancel_requested = true,
        finished_at = CASE WHEN status = 'pending' THEN clock_timestamp() END,
        error_message = CASE WHEN status = 'pending' THEN 'cancelled before it began' ELSE error_message END,
        status = CASE WHEN status = 'pending' THEN 'cancelled' ELSE status END
    WHERE id = %s AND status IN ('pending', 'running')
"""

_STEPS = """
SELECT id, step, app_type, status, request_prompt, response_text, tokens_used, tokens_estimated, input_tokens,
       output_tokens, model, request_id, attempts, latency_ms, error_message, created_at, finished_at, call_key
    FROM biz.ai_run_logs WHERE trigger_job_id = %s ORDER BY id
"""

_COUNTS = """
SELECT count(*) FILTER (WHERE status = 'running'), count(*) FILTER (WHERE status = 'pending'),
       count(*) FILTER (WHERE status = 'failed')
    FROM biz.ai_trigger_jobs, (SELECT date_trunc('day', clock_timestamp(), %(zone)s) AS midnight) AS today
    WHERE status IN ('pending', 'running') OR status = 'failed' AND finished_at >= midnight
"""

#: Whether one of the names is in a job's chain or, as chains may change, in its calls.
_HAS_APP = r"""EXISTS (
    SELECT FROM unnest(%s::text[]) AS name WHERE name = ANY(regexp_split_to_array(app_chain, '→|\+|×[0-9]+'))
        OR EXISTS (SELECT FROM biz.ai_run_logs AS l WHERE l.trigger_job_id = ai_trigger_jobs.id AND l.app_type = name))
"""


@dataclass(frozen=True, kw_only=True)
class TriggerEvent:
    """An event that starts a chain of applications."""

    event_type: str
    site_id: int
    member_id: int | None = None
    #: None: the one that the catalog names.
    connector_type: str | None = None
    payload: Mapping[str, Any] | None = None
    #: Run it even if the same has been run today.
    is_forced: bool = False
    #: The job that this one repeats.
    rerun_of: int | None = None
    #: The schedule that it comes from; None: another program reported it.
    schedule: str | None = None
    #: The applications that it calls one after another; None: those that the catalog has for the event.
    apps: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ChainOrder:
    """A chain of applications on a text, ordered by a rule."""

    #: Orders the chain once: the second order with this key gets the job of the first.
    key: str
    apps: tuple[str, ...]
    #: ``text`` and ``language``, and the facts about the text; see ``chain.compose_ordered``.
    payload: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TriggerJob:
    """One row."""

    id: int
    site_id: int
    event_type: str
    connector_type: str | None
    member_id: int | None
    payload: dict[str, Any] | None
    status: str
    is_forced: bool
    app_chain: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error_message: str | None
    created_at: datetime
    event_date: date
    claim: int
    rerun_of: int | None
    cancel_requested: bool
    #: The schedule that it is from.
    schedule: str | None = None
    #: Of a chain that a rule ordered.
    idempotency_key: str | None = None
    #: The applications that it calls one after another; None: those that the catalog has for the event.
    apps: list[str] | None = None

    @property
    def is_over(self) -> bool:
        """Whether no worker has it, or will have it."""
        return self.status not in (JobStatus.PENDING, JobStatus.RUNNING)

    @property
    def trigger_type(self) -> TriggerType:
        """What caused its calls, for the run log."""
        if self.idempotency_key is not None:
            return TriggerType.EVENT
        if self.schedule is not None:
            return TriggerType.SCHEDULED
        return TriggerType.FORCED if self.is_forced else TriggerType.EVENT

    @property
    def session_id(self) -> str:
        """The session of its trace; with the time, because another database counts its jobs from 1, too."""
        # By their beginning rules know the sessions that rules have caused, and do not fire for them.
        return f"{'job_' if self.apps is None else RULE_SESSION}{self.id}_{int(self.created_at.timestamp())}"

    @property
    def coach_id(self) -> object:
        """The coach that the event is about, if it is about one."""
        return (self.payload or {}).get("coach_id")


@dataclass(frozen=True, kw_only=True)
class StepView:
    """One call of a job's step, as the run log has it; a step that was called again has several."""

    log_id: int
    step: str
    app_type: str
    status: str
    prompt: str | None
    response: str | None
    tokens_used: int
    attempts: int
    latency_ms: int | None
    model: str | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job with its steps."""

    job: TriggerJob
    steps: tuple[StepView, ...]


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """How many jobs there are at work, in the queue, and failed since midnight of the business day."""

    running: int
    waiting: int
    failed_today: int


class Jobs:
    """Reads and writes the rows."""

    def __init__(self, database: Database, *, zone: str = "Asia/Shanghai") -> None:
        self.database = database
        #: Whose days an event belongs to.
        self._zone = zone

    async def insert(
        self, connection: AsyncConnection[Any], event: TriggerEvent, chain: str, now: datetime | None
    ) -> int | None:
        """A new job; None if today has the same event already. A trigger of the same instant is waited for."""
        return await _number(connection, _INSERT, self._params(event, chain, now))

    async def insert_duplicate(
        self, connection: AsyncConnection[Any], event: TriggerEvent, chain: str, now: datetime | None
    ) -> tuple[int, int | None]:
        """The row of an event that is not run, and the job that is."""
        params = self._params(event, chain, now)
        first = await _number(connection, _DUPLICATE, params)
        params |= {"status": JobStatus.SKIPPED_DUPLICATE, "error": f"duplicate of job {first}"}
        number = await _number(connection, _INSERT, params)
        assert number is not None
        return number, first

    async def order(
        self, connection: AsyncConnection[Any], order: ChainOrder, chain: str, now: datetime | None
    ) -> int | None:
        """The job of an order; None if there is one with its key already."""
        params = {
            "site_id": NO_SITE,
            "event_type": RULE_EVENT,
            "payload": storable_json(dict(order.payload)),
            "app_chain": chain,
            "key": order.key,
            "apps": list(order.apps),
            "now": now,
            "zone": self._zone,
        }
        return await _number(connection, _ORDER, params)

    async def continue_order(
        self, connection: AsyncConnection[Any], job_id: int, apps: Sequence[str], chain: str
    ) -> bool:
        """Let an ordered job that is over run again; False if another process has done it."""
        params = {"id": job_id, "apps": list(apps), "app_chain": chain}
        return bool((await connection.execute(_CONTINUE.encode(), params)).rowcount)

    async def by_key(self, key: str) -> TriggerJob | None:
        """The job that was ordered with this key."""
        row = await self.database.one(f"SELECT {_COLUMNS} FROM biz.ai_trigger_jobs WHERE idempotency_key = %s", [key])
        return None if row is None else _job(row)

    async def claim(self, connection: AsyncConnection[Any], job_id: int) -> TriggerJob | None:
        """Take the job; an earlier worker of it is refused from now on. None if it is over."""
        cursor = await connection.execute(_CLAIM.encode(), [job_id])
        row = await cursor.fetchone()
        return None if row is None else _job(row)

    async def finish(self, job: TriggerJob, status: str, error: str | None) -> bool:
        """End the job; False if another worker has it now."""
        params = {"id": job.id, "claim": job.claim, "status": status, "error": error and storable_text(error)}
        if await self.database.execute(_FINISH, params):
            return True
        # Perhaps it was ended before, and only the answer was lost with the connection.
        ended = await self.get(job.id)
        return ended is not None and (ended.claim, ended.status) == (job.claim, status)

    async def cancel(self, job_id: int) -> bool:
        """Ask for the end of a job; False if it is over, or never was."""
        return bool(await self.database.execute(_CANCEL, [job_id]))

    async def get(self, job_id: int) -> TriggerJob | None:
        """One job."""
        row = await self.database.one(f"SELECT {_COLUMNS} FROM biz.ai_trigger_jobs WHERE id = %s", [job_id])
        return None if row is None else _job(row)

    async def calls(self, job_id: int) -> list[dict[str, Any]]:
        """The run log's rows of the job, the oldest first."""
        return await self.database.rows(_STEPS, [job_id])

    async def view(self, job_id: int) -> JobView | None:
        """The job with its steps."""
        job = await self.get(job_id)
        return None if job is None else JobView(job=job, steps=tuple(map(_step, await self.calls(job_id))))

    async def counts(self) -> JobCounts:
        """All jobs that are not over, and those that failed today."""
        row = await self.database.one(_COUNTS, {"zone": self._zone})
        assert row is not None
        running, waiting, failed_today = row
        return JobCounts(running=running, waiting=waiting, failed_today=failed_today)

    async def list(
        self,
        *,
        status: str | None = None,
        event_type: str | None = None,
        app: Sequence[str] = (),
        site_id: int | None = None,
        member_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before_id: int | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> list[TriggerJob]:
        """Jobs, the newest first; ``before_id`` is the last id of the page before.

        ``app`` are names of one application: in its chain, or in the run log. Without ``payloads`` they are None.
        """
        where = {
            "status = %s": status,
            "event_type = %s": event_type,
            "site_id = %s": site_id,
            "member_id = %s": member_id,
            "created_at >= %s": since,
            "created_at < %s": until,
            _HAS_APP: list(app) or None,
        }
        columns = _COLUMNS if payloads else _COLUMNS.replace("payload", "NULL AS payload")
        rows = await self.database.newest("ai_trigger_jobs", columns, where, limit=limit, before_id=before_id)
        return [TriggerJob(**row) for row in rows]

    def _params(self, event: TriggerEvent, chain: str, now: datetime | None) -> dict[str, Any]:
        return {
            "site_id": event.site_id,
            "event_type": event.event_type,
            "connector_type": event.connector_type,
            "member_id": event.member_id,
            "payload": None if event.payload is None else storable_json(dict(event.payload)),
            "is_forced": event.is_forced,
            "app_chain": chain,
            "rerun_of": event.rerun_of,
            "schedule": event.schedule,
            "apps": None if event.apps is None else list(event.apps),
            "status": JobStatus.PENDING,
            "error": None,
            "now": now,
            "zone": self._zone,
        }


async def _number(connection: AsyncConnection[Any], sql: str, params: Mapping[str, Any]) -> int | None:
    cursor = await connection.execute(sql.encode(), params)
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


def _job(row: tuple[Any, ...]) -> TriggerJob:
    return TriggerJob(**dict(zip(_NAMES, row, strict=True)))


def _step(row: Mapping[str, Any]) -> StepView:
    return StepView(
        log_id=row["id"],
        step=row["step"] or row["app_type"],
        prompt=row["request_prompt"],
        response=row["response_text"],
        tokens_used=row["tokens_used"] or 0,
        error=row["error_message"],
        **{
            name: row[name]
            for name in ("app_type", "status", "attempts", "latency_ms", "model", "created_at", "finished_at")
        },
    )
