"""Conversations keep a summary of what no longer fits the model, and go on in a new session after a loss."""

from __future__ import annotations

from alembic import op

from agenttrace.run.postgres.migrations import run_frozen

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns, and the functions that fill them."""
    run_frozen("0005_up")


def downgrade() -> None:
    """Back to the functions of before; summaries are gone, messages are not."""
    op.execute("DROP FUNCTION biz.ai_conversation_resolve, biz.ai_conversation_answer")
    op.execute(
        "ALTER TABLE biz.ai_conversations DROP COLUMN summary, DROP COLUMN summary_until, DROP COLUMN cloud_tokens"
    )
    run_frozen("0003_conversations")
