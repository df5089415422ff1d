"""Conversations, cached results and retention clues, as they were before the applications had ids of their own."""

from __future__ import annotations

from alembic import op

from agenttrace.run.postgres.migrations import run_frozen

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the four tables."""
    run_frozen("0001_up")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP TABLE biz.member_retention_clue, biz.ai_cache, biz.ai_messages, biz.ai_conversations")
