"""The specification's step-by-step run log and its sums.

AgentTrace admits and settles a call in one statement each (``biz.ai_admit``, ``AIRunLogService.settle``), so that no
row is ever ``pending``. Programs that log their own calls may use all states here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, Unpack

from agenttrace.run.results import run_log
from agenttrace.run.results.run_log import RunLogTransitionError, cut_prompt
from agenttrace.run.results.storable import storable_text
from agenttrace.run.states import RunStatus

#: States in which a row may be created; all but the first are refusals, and final.
FIRST_STATES = (RunStatus.PENDING, RunStatus.BUDGET_EXCEEDED, RunStatus.CIRCUIT_OPEN, RunStatus.RATE_LIMITED)
#: Which state leads to which.
TRANSITIONS = {
    RunStatus.RUNNING: RunStatus.PENDING,
    RunStatus.SUCCESS: RunStatus.RUNNING,
    RunStatus.FAILED: RunStatus.RUNNING,
    RunStatus.TIMEOUT: RunStatus.RUNNING,
}

_CREATE = """
INSERT INTO biz.ai_run_logs (
    site_id, app_type, trigger_type, status, error_message, request_prompt, member_id, user_id, session_id,
    conversation_id, trigger_job_id, step, tokens_reserved, call_key, process_id, finished_at)
VALUES (
    %(site_id)s, %(app_type)s, %(trigger_type)s, %(status)s, %(error_message)s, %(request_prompt)s, %(member_id)s,
    %(user_id)s, %(session_id)s, %(conversation_id)s, %(trigger_job_id)s, %(step)s, %(tokens_reserved)s, %(call_key)s,
    %(process_id)s, CASE WHEN %(status)s::varchar = 'pending' THEN NULL ELSE now() END)
RETURNING id
"""

_USAGE = """
SELECT coalesce(sum(l.tokens_used), 0)::bigint FROM biz.ai_run_logs AS l, biz.ai_business_zone AS z
WHERE l.status = 'success'
    AND l.created_at >= date_trunc(%(unit)s, coalesce(%(at)s, now()) AT TIME ZONE z.zone) AT TIME ZONE z.zone
    AND l.created_at < (date_trunc(%(unit)s, coalesce(%(at)s, now()) AT TIME ZONE z.zone)
                        + ('1 ' || %(unit)s)::interval) AT TIME ZONE z.zone
"""


class NewLog(TypedDict, total=False):
    """Optional columns of a new row."""

    status: str
    error_message: str | None
    request_prompt: str | None
    member_id: int | None
    user_id: str | None
    session_id: str | None
    conversation_id: int | None
    trigger_job_id: int | None
    step: str | None
    tokens_reserved: int
    call_key: uuid.UUID | None
    process_id: uuid.UUID | None


class AIRunLogService(run_log.AIRunLogService):
    """Rows of ``biz.ai_run_logs``, and their transitions from state to state."""

    async def create_log(self, site_id: int, app_type: str, trigger_type: str, **details: Unpack[NewLog]) -> int:
        """Insert a row, pending or in the state of a refusal; its id."""
        status = details.get("status", RunStatus.PENDING)
        if status not in FIRST_STATES:
            raise RunLogTransitionError(None, None, status)
        values = dict.fromkeys(NewLog.__annotations__) | {"tokens_reserved": 0} | details
        values |= {"site_id": site_id, "app_type": app_type, "trigger_type": trigger_type, "status": status}
        values |= {"request_prompt": cut_prompt(details.get("request_prompt"))}
        row = await self.database.one(_CREATE, values)
        assert row is not None
        return int(row[0])

    async def update_running(self, log_id: int) -> None:
        """The call was sent."""
        await self._move(log_id, RunStatus.RUNNING, {})

    async def update_success(self, log_id: int, response_text: str, tokens_used: int, latency_ms: int) -> None:
        """The call succeeded."""
        changes = {"response_text": storable_text(response_text), "tokens_used": tokens_used, "latency_ms": latency_ms}
        await self._move(log_id, RunStatus.SUCCESS, changes)

    async def update_failed(self, log_id: int, error_message: str, latency_ms: int) -> None:
        """The call failed."""
        changes = {"error_message": storable_text(error_message), "latency_ms": latency_ms}
        await self._move(log_id, RunStatus.FAILED, changes)

    async def update_timeout(self, log_id: int, latency_ms: int) -> None:
        """The call timed out."""
        await self._move(log_id, RunStatus.TIMEOUT, {"latency_ms": latency_ms})

    async def _move(self, log_id: int, status: RunStatus, changes: Mapping[str, object]) -> None:
        assignments = [f"{name} = %({name})s" for name in ("status", *changes)]
        if status != RunStatus.RUNNING:
            assignments.append("finished_at = now()")
        sql = f"UPDATE biz.ai_run_logs SET {', '.join(assignments)} WHERE id = %(id)s AND status = %(from)s"
        moved = await self.database.execute(
            sql, {"id": log_id, "status": status, "from": TRANSITIONS[status], **changes}
        )
        if not moved:
            found = await self.database.one("SELECT status FROM biz.ai_run_logs WHERE id = %s", [log_id])
            raise RunLogTransitionError(log_id, found[0] if found else None, status)

    async def get_daily_token_usage(self, at: datetime | None = None) -> int:
        """Tokens of the successful calls of the business day: today's, or that of ``at``."""
        return await self._usage("day", at)

    async def get_monthly_token_usage(self, at: datetime | None = None) -> int:
        """Tokens of the successful calls of the business month."""
        return await self._usage("month", at)

    async def _usage(self, unit: str, at: datetime | None) -> int:
        row = await self.database.one(_USAGE, {"unit": unit, "at": at})
        assert row is not None
        return int(row[0])
