"""A budget for many calls at once: learned sizes of answers, and what open calls may take at most.

A call reserves what its application's largest answer of the last days took. Since the next answer may be larger, a
call also has a ceiling, and calls run side by side only while the ceilings of all of them fit into what is left.
"""

from __future__ import annotations

from alembic import op

from agenttrace.run.postgres.migrations import run_frozen

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Give calls a ceiling, and the admission what it knows about sizes."""
    run_frozen("0004_up", "0004_admission")


def downgrade() -> None:
    """Back to the admission of before."""
    op.execute("DROP FUNCTION biz.ai_admit_again, biz.ai_admit, biz.ai_budget_check")
    run_frozen("0004_down", "0003_budget", "0003_admission")
