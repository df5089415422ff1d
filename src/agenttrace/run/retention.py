"""Retention clues: what the chain found out about a member, one row a member and day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from psycopg import AsyncConnection

from agenttrace.run.database import Database
from agenttrace.run.storable import storable_json, storable_text

#: The document's DELETE + INSERT would let two writers at the same instant in; the unique day and one statement do not.
_WRITE = b"""
INSERT INTO biz.member_retention_clue (site_id, member_id, clue_date, summary, clues, trigger_job_id)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (site_id, member_id, clue_date) DO UPDATE
SET summary = excluded.summary, clues = excluded.clues, trigger_job_id = excluded.trigger_job_id,
    source = excluded.source, updated_at = clock_timestamp()
"""


class RetentionClues:
    """Writes and reads ``biz.member_retention_clue``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def write(
        self,
        connection: AsyncConnection[Any],
        site_id: int,
        member_id: int,
        day: date,
        summary: str,
        clues: Sequence[Any],
        job_id: int | None = None,
    ) -> None:
        """Make this the one row of the member and day, in the caller's transaction."""
        values = [site_id, member_id, day, storable_text(summary), storable_json(clues), job_id]
        await connection.execute(_WRITE, values)

    async def of_member(self, site_id: int, member_id: int, limit: int = 30) -> list[dict[str, Any]]:
        """The rows of a member, the newest day first."""
        sql = """
            SELECT * FROM biz.member_retention_clue WHERE site_id = %s AND member_id = %s
            ORDER BY clue_date DESC LIMIT %s"""
        return await self.database.rows(sql, [site_id, member_id, limit])
