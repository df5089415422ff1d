"""Retention clues: what the chain found out about a member, one row a member and day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from psycopg.types.numeric import Int8

from agenttrace.run.postgres.pool import DatabaseService
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.results.storable import storable_json, storable_text


class RetentionClues(DatabaseService):
    """Writes and reads ``biz.member_retention_clue``."""

    def writing(
        self, site_id: int, member_id: int, day: date, summary: str, clues: Sequence[Any], job_id: int | None = None
    ) -> SqlCall:
        """The call that makes this the one row of the member and day, for the statement that settles a call."""
        job = None if job_id is None else Int8(job_id)
        arguments = (Int8(site_id), Int8(member_id), day, storable_text(summary), storable_json(clues), job)
        return SqlCall(function="ai_clue_write", arguments=arguments)

    async def of_member(self, site_id: int, member_id: int, limit: int = 30) -> list[dict[str, Any]]:
        """The rows of a member, the newest day first."""
        sql = """
            SELECT * FROM biz.member_retention_clue WHERE site_id = %s AND member_id = %s
            ORDER BY clue_date DESC LIMIT %s"""
        return await self.database.rows(sql, [site_id, member_id, limit])
