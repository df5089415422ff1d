"""Breakers, rate windows and the budget, with the functions that admit a call; the queue; who is running.

The functions are SQL because an admission is one round trip and one transaction, whichever process asks: what is read
there is locked there. Each takes ``p_now`` so that tests own the clock; callers leave it out.
"""

from __future__ import annotations

from alembic import op
from procrastinate.schema import SchemaManager

from agenttrace.run.postgres.migrations import run_frozen, run_sql
from agenttrace.run.postgres.pool import QUEUE_SCHEMA

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the guards and the queue."""
    run_frozen("0003_up", "0003_budget", "0003_admission", "0003_conversations")
    op.execute("SELECT biz.ai_set_business_zone('Asia/Shanghai')")
    op.execute(f"CREATE SCHEMA {QUEUE_SCHEMA}")
    op.execute(f"SET LOCAL search_path TO {QUEUE_SCHEMA}")
    run_sql(SchemaManager.get_schema())
    op.execute("RESET search_path")


def downgrade() -> None:
    """Drop the guards and the queue, with the jobs that wait in it."""
    op.execute(f"DROP SCHEMA {QUEUE_SCHEMA} CASCADE")
    run_frozen("0003_down")
