"""The run log: one row a call, from the moment it is admitted to how it ended.

``pending → running → success | failed | timeout``; a call that is refused gets its row in the state of the refusal. A
row is settled once. A row whose process has died is closed as failed; should that process wake up again with a result,
the result gets its own row, and the tokens count once.

Settling is part of every call, so in the usual case it is one UPDATE, which also notifies the breaker.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.numeric import Int4, Int8

from agenttrace.run.postgres.pool import DatabaseService, patient
from agenttrace.run.postgres.sql_call import SqlCall, joined, pass_results, values_of
from agenttrace.run.results.storable import storable_text
from agenttrace.run.states import RunStatus
from agenttrace.run.upstream.calls import PROMPT_LIMIT, CallOutcome, CallRequest
from agenttrace.run.upstream.wire import object_or_text

#: All but the texts of a call.
_COLUMNS = """id, site_id, app_type, trigger_type, member_id, tokens_used, latency_ms, status, error_message,
    session_id, created_at, finished_at, call_key, process_id, user_id, conversation_id, trigger_job_id, step,
    tokens_reserved, tokens_estimated, input_tokens, output_tokens, model, request_id, attempts, tokens_prompt,
    tokens_ceiling"""
#: Word for word the condition of the index that holds just these rows.
_OPEN = "status IN ('pending', 'running')"
_STEP_DONE = "idx_ai_run_logs_step_done"
_NAME_LIMIT = 100
#: How the reason of a row begins whose process died before it could settle it.
LOST = "lost: "
#: Seconds after which an open row that names no process is taken for lost.
_UNOWNED_SECONDS = 3600.0

Row = dict[str, Any]
Rows = list[Row]


class RunLogTransitionError(Exception):
    """A row of the run log cannot go from the state it is in to the one asked for."""

    def __init__(self, log_id: int | None, found: str | None, wanted: str) -> None:
        super().__init__(f"run log {log_id}: {found or 'no such row'} cannot become {wanted}")
        self.log_id, self.found, self.wanted = log_id, found, wanted


class StepDoneError(Exception):
    """This step of the job has succeeded already: another worker was faster."""

    def __init__(self, job_id: int | None, step: str | None) -> None:
        super().__init__(f"step {step} of job {job_id} has succeeded already")
        self.job_id, self.step = job_id, step


_SETTLE = b"""
UPDATE biz.ai_run_logs
SET status = %(status)s, response_text = %(response_text)s, error_message = %(error_message)s,
    tokens_used = %(tokens_used)s, tokens_estimated = %(tokens_estimated)s, input_tokens = %(input_tokens)s,
    output_tokens = %(output_tokens)s, model = %(model)s, request_id = %(request_id)s, attempts = %(attempts)s,
    latency_ms = %(latency_ms)s, finished_at = clock_timestamp()
WHERE id = %(id)s AND call_key = %(call_key)s AND status IN ('pending', 'running')
RETURNING id, CASE WHEN %(heals)s THEN biz.ai_breaker_heal(%(app_id)s, %(probe_key)s, %(now)s) END
"""

_SETTLE_ANEW = b"""
INSERT INTO biz.ai_run_logs (
    site_id, app_type, trigger_type, member_id, request_prompt, response_text, tokens_used, latency_ms, status,
    error_message, session_id, created_at, finished_at, call_key, process_id, user_id, conversation_id, trigger_job_id,
    step, tokens_estimated, input_tokens, output_tokens, model, request_id, attempts, tokens_prompt)
VALUES (
    %(site_id)s, %(app_type)s, %(trigger_type)s, %(member_id)s, %(request_prompt)s, %(response_text)s, %(tokens_used)s,
    %(latency_ms)s, %(status)s, %(error_message)s, %(session_id)s,
    coalesce(%(created_at)s, clock_timestamp() - make_interval(secs => %(latency_ms)s / 1000.0)), clock_timestamp(),
    %(call_key)s, %(process_id)s, %(user_id)s, %(conversation_id)s, %(trigger_job_id)s, %(step)s,
    %(tokens_estimated)s, %(input_tokens)s, %(output_tokens)s, %(model)s, %(request_id)s, %(attempts)s,
    %(tokens_prompt)s)
ON CONFLICT (call_key) DO NOTHING
RETURNING id, CASE WHEN %(heals)s THEN biz.ai_breaker_heal(%(app_id)s, %(probe_key)s, %(now)s) END
"""

#: The start of the server counts as a sign of life of all processes: while it was away they could give none.
_FIND_LOST = b"""
SELECT l.id, biz.ai_business_day(l.created_at) FROM biz.ai_run_logs AS l
WHERE l.status IN ('pending', 'running')
    AND l.created_at < now() - make_interval(secs => CASE WHEN l.process_id IS NULL THEN greatest(%(lost)s, %(unowned)s)
                                                          ELSE %(lost)s END)
    AND pg_postmaster_start_time() < now() - make_interval(secs => %(lost)s)
    AND NOT EXISTS (SELECT FROM biz.ai_processes AS p
                    WHERE p.id = l.process_id AND p.seen_at >= now() - make_interval(secs => %(lost)s))
ORDER BY l.id LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
"""

_FIND_OPEN_OF_JOB = b"""
SELECT id, biz.ai_business_day(created_at) FROM biz.ai_run_logs
WHERE trigger_job_id = %(job)s AND status IN ('pending', 'running')
ORDER BY id FOR UPDATE SKIP LOCKED
"""

#: What the provider has billed is unknown; what was reserved is the best guess, and keeps the budget safe.
_CLOSE = b"""
UPDATE biz.ai_run_logs
SET status = 'failed', error_message = %s, tokens_used = tokens_reserved, tokens_estimated = true,
    latency_ms = least(extract(epoch FROM clock_timestamp() - created_at) * 1000, 2147483647)::integer,
    finished_at = clock_timestamp()
WHERE id = ANY(%s)
RETURNING *
"""

#: Never of the current month: the budget is their sum.
_FIND_OLD = b"""
SELECT l.id, biz.ai_business_day(l.created_at) FROM biz.ai_run_logs AS l, biz.ai_business_zone AS z
WHERE l.created_at < least(now() - make_interval(days => %(days)s),
                           date_trunc('month', now() AT TIME ZONE z.zone) AT TIME ZONE z.zone)
    AND l.status NOT IN ('pending', 'running')
ORDER BY l.created_at LIMIT 5000 FOR UPDATE OF l SKIP LOCKED
"""


class AIRunLogService(DatabaseService):
    """Writes and reads ``biz.ai_run_logs``."""

    # ── settling ──

    async def settle(
        self,
        connection: AsyncConnection[Any],
        log_id: int,
        request: CallRequest,
        outcome: CallOutcome,
        process_id: uuid.UUID | None,
        *,
        heals: bool = False,
        now: datetime | None = None,
        writes: Sequence[SqlCall] = (),
    ) -> int:
        """Write how an admitted call ended, in the caller's transaction if there is one; doing it twice is harmless.

        Returns the row that holds it: another than ``log_id`` where that one was closed as lost, or was lost with a
        crash of the server. Raises ``StepDoneError`` (and the transaction is void) for a second success of a step.
        ``heals``: the application has answered, and its breaker is notified in the same statement, with ``now`` as the
        time if it is not the database's. ``writes`` are made in that statement, too, by whichever settling is the one
        that counts.
        """
        values = _settled_values(outcome) | {"id": Int8(log_id), "call_key": request.key}
        values |= {"heals": heals, "app_id": request.app_id, "probe_key": request.key, "now": now}
        values |= values_of(*writes)
        try:
            cursor = await connection.execute(joined(_SETTLE, writes), values)
            row = await cursor.fetchone()
            if row is not None:
                pass_results(row, writes)
                return log_id
            async with connection.transaction():
                values["process_id"] = process_id
                return await self._settle_anew(connection, request, outcome, values, writes)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != _STEP_DONE:
                raise
            raise StepDoneError(request.job_id, request.step) from None

    async def _settle_anew(
        self,
        connection: AsyncConnection[Any],
        request: CallRequest,
        outcome: CallOutcome,
        values: Row,
        writes: Sequence[SqlCall],
    ) -> int:
        sql = b"SELECT id, status, error_message, created_at FROM biz.ai_run_logs WHERE call_key = %s"
        found = await (await connection.execute(sql, [request.key])).fetchone()
        key, created_at = request.key, None
        if found is not None:
            found_id, status, message, created_at = found
            if (status, message) == (outcome.status, values["error_message"]):
                # It was settled, only the acknowledgement was lost.
                await _repeat(connection, found_id, writes)
                return int(found_id)
            if status != RunStatus.FAILED or not message.startswith(LOST):
                raise RunLogTransitionError(found_id, status, outcome.status)
            await connection.execute(b"UPDATE biz.ai_run_logs SET tokens_used = 0 WHERE id = %s", [found_id])
            key = request.late_key
        values = _requested_values(request) | values | {"call_key": key, "created_at": created_at}
        row = await (await connection.execute(joined(_SETTLE_ANEW, writes), values)).fetchone()
        if row is not None:
            pass_results(row, writes)
            return int(row[0])
        row = await (await connection.execute(sql, [key])).fetchone()
        assert row is not None
        await _repeat(connection, row[0], writes)
        return int(row[0])

    # ── lost and old calls ──
    # No deadlock: rows that another transaction settles are skipped, and the others are written day by day, oldest
    # first, because the trigger of the budget locks the sums of the days in the order in which their rows are written.

    async def close_lost(self, *, lost_after: float) -> Rows:
        """Close as failed the open calls of processes that were not seen for that many seconds; the closed rows."""
        values = {"lost": lost_after, "unowned": _UNOWNED_SECONDS}
        lost: Rows = []
        while True:
            async with self.database.transaction() as connection:
                closed = await _close(connection, _FIND_LOST, values, "the process of this call has died")
            lost += closed
            if not closed:
                return lost

    async def close_open_of_job(self, connection: AsyncConnection[Any], job_id: int) -> int:
        """Close as failed the calls that an earlier worker of a job left open; how many."""
        return len(await _close(connection, _FIND_OPEN_OF_JOB, {"job": job_id}, "the worker died in mid-call"))

    async def forget_old(self, days: int) -> int:
        """Delete ended calls of more than that many days ago, but none of this month; how many."""
        total = 0
        while True:
            async with self.database.transaction() as connection:
                old = await _locked(connection, _FIND_OLD, {"days": days})
                for ids in old:
                    await connection.execute(b"DELETE FROM biz.ai_run_logs WHERE id = ANY(%s)", [ids])
            total += sum(map(len, old))
            if not old:
                return total

    # ── reading ──

    @patient
    async def finished_steps(self, job_id: int) -> dict[str, dict[str, Any]]:
        """The results of a job's steps that have succeeded."""
        sql = "SELECT step, response_text FROM biz.ai_run_logs WHERE trigger_job_id = %s AND status = 'success'"
        return {step: object_or_text(text) for step, text in await self.database.all(sql, [job_id]) if step}

    async def get(self, log_id: int) -> Row | None:
        """One row with everything."""
        rows = await self.database.rows("SELECT * FROM biz.ai_run_logs WHERE id = %s", [log_id])
        return rows[0] if rows else None

    async def list(
        self,
        *,
        status: str | None = None,
        app: str | None = None,
        site: int | None = None,
        member: int | None = None,
        job: int | None = None,
        conversation: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        before_id: int | None = None,
        bodies: bool = False,
        only_open: bool = False,
    ) -> Rows:
        """Rows that match, newest first; the next page is ``before_id`` the last id of this one.

        ``only_open``: calls that have not ended, each with what it has reserved.
        """
        where = {
            "status = %s": status,
            "app_type = %s": app,
            "site_id = %s": site,
            "member_id = %s": member,
            "trigger_job_id = %s": job,
            "conversation_id = %s": conversation,
            "created_at >= %s": since,
            "created_at < %s": until,
            f"{_OPEN} AND %s": only_open or None,
        }
        columns = _COLUMNS + (", request_prompt, response_text" if bodies else "")
        return await self.database.newest("ai_run_logs", columns, where, limit=limit, before_id=before_id)


def cut_prompt(prompt: str | None) -> str | None:
    """What the run log stores of a prompt."""
    return None if prompt is None else storable_text(prompt[:PROMPT_LIMIT])


async def _close(connection: AsyncConnection[Any], find: bytes, values: Mapping[str, object], reason: str) -> Rows:
    closed: Rows = []
    for ids in await _locked(connection, find, values):
        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_CLOSE, [LOST + reason, ids])
            closed += await cursor.fetchall()
    return closed


async def _locked(connection: AsyncConnection[Any], find: bytes, values: Mapping[str, object]) -> list[list[int]]:
    """Lock rows that no other transaction has locked; their ids by day, oldest first."""
    days: dict[date, list[int]] = {}
    for log_id, day in await (await connection.execute(find, values)).fetchall():
        days.setdefault(day, []).append(log_id)
    return [days[day] for day in sorted(days)]


async def _repeat(connection: AsyncConnection[Any], log_id: int, writes: Sequence[SqlCall]) -> None:
    for write in writes:
        if write.on_result is not None:
            cursor = await connection.execute(write.statement, values_of(write) | {"settled": Int8(log_id)})
            pass_results(await cursor.fetchone() or (), [write])


def _settled_values(outcome: CallOutcome) -> Row:
    # Numbers of one size whatever their value: for each combination of sizes psycopg would prepare a statement.
    return {
        "status": outcome.status,
        "response_text": None if outcome.response_text is None else storable_text(outcome.response_text),
        "error_message": None if outcome.error_message is None else storable_text(outcome.error_message),
        "tokens_used": Int4(outcome.tokens_used),
        "tokens_estimated": outcome.tokens_estimated,
        "input_tokens": Int4(outcome.input_tokens),
        "output_tokens": Int4(outcome.output_tokens),
        "model": outcome.model and storable_text(outcome.model[:_NAME_LIMIT]),
        "request_id": storable_text(outcome.request_id[:_NAME_LIMIT]) or None,
        "attempts": Int4(outcome.attempts),
        "latency_ms": Int4(outcome.latency_ms),
    }


def _requested_values(request: CallRequest) -> Row:
    return {
        "site_id": request.site_id,
        "app_type": request.app_type,
        "trigger_type": request.trigger_type,
        "member_id": request.member_id,
        "request_prompt": cut_prompt(request.prompt),
        "session_id": request.session_id,
        "user_id": request.user_id,
        "conversation_id": request.conversation_id,
        "trigger_job_id": request.job_id,
        "step": request.step,
        "tokens_prompt": request.prompt_tokens,
    }
