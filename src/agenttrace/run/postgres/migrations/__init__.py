"""The revisions of the run store, oldest first: Alembic runs them when the product starts."""

from __future__ import annotations
