"""Jobs that name their applications themselves, and a key for each that orders one only once."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns and the index."""
    op.execute("""
ALTER TABLE biz.ai_trigger_jobs ADD COLUMN idempotency_key VARCHAR(100), ADD COLUMN apps TEXT[];
CREATE UNIQUE INDEX idx_ai_trigger_jobs_key ON biz.ai_trigger_jobs (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
""")


def downgrade() -> None:
    """Remove them."""
    op.execute("ALTER TABLE biz.ai_trigger_jobs DROP COLUMN idempotency_key, DROP COLUMN apps")
