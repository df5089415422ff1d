"""An application may have a rate limit of its own, which the admission checks beside that of the user or store."""

from __future__ import annotations

from pathlib import Path

from alembic import op
from sqlalchemy import text

from agenttrace.run.postgres.migrations.versions import r0004_budget_ceilings

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Replace the admission; the new parameters have defaults, so processes of the version before go on working."""
    _execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """Back to the admission of before."""
    op.execute("DROP FUNCTION biz.ai_admit_again, biz.ai_budget_check")
    op.execute("DELETE FROM biz.ai_rate_windows WHERE scope = 'app'")
    _execute(r0004_budget_ceilings._ADMISSION)


def _execute(sql: str) -> None:
    op.execute(text(sql.replace(":", r"\:")))
