"""The revisions of the run store, oldest first: Alembic runs them when the product starts.

Their SQL is in ``frozen``: it never changes once it is released. The tables and functions of today are in
``postgres/sql``, and a test compares both.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op
from sqlalchemy import text

_FROZEN = Path(__file__).parent / "frozen"


def run_frozen(*names: str) -> None:
    """Run these files, in this order."""
    for name in names:
        run_sql((_FROZEN / f"{name}.sql").read_text(encoding="utf-8"))


def run_sql(sql: str) -> None:
    """Run SQL in which a colon is no parameter and a percent sign stands for itself."""
    op.execute(text(sql.replace(":", r"\:")))
