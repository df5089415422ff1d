"""Events that come by the clock: which of their times were acted upon, and the schedule that a job is from."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table and the column."""
    op.execute("""
CREATE TABLE biz.ai_schedules (
    name VARCHAR(60) PRIMARY KEY,
    -- The last time that was acted upon; for a new schedule, when it was first seen.
    last_due TIMESTAMPTZ NOT NULL
);
ALTER TABLE biz.ai_trigger_jobs ADD COLUMN schedule VARCHAR(60);
""")


def downgrade() -> None:
    """Remove both."""
    op.execute("ALTER TABLE biz.ai_trigger_jobs DROP COLUMN schedule; DROP TABLE biz.ai_schedules")
