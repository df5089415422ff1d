"""An application may have a rate limit of its own, which the admission checks beside that of the user or store."""

from __future__ import annotations

from alembic import op

from agenttrace.run.postgres.migrations import run_frozen

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Replace the admission; the new parameters have defaults, so processes of the version before go on working."""
    run_frozen("0007_up")


def downgrade() -> None:
    """Back to the admission of before."""
    op.execute("DROP FUNCTION biz.ai_admit_again, biz.ai_budget_check")
    op.execute("DELETE FROM biz.ai_rate_windows WHERE scope = 'app'")
    run_frozen("0004_admission")
