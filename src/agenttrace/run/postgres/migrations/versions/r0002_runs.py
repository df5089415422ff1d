"""Run logs, trigger jobs, sessions of the cloud, states of cached results, one clue row a member and day."""

from __future__ import annotations

from agenttrace.run.postgres.migrations import run_frozen

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the two tables of the document, and give the older ones what it adds."""
    run_frozen("0002_up")


def downgrade() -> None:
    """Back to the tables of before; run logs and jobs are gone then."""
    run_frozen("0002_down")
