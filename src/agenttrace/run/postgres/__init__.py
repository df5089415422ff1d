"""PostgreSQL as the run half uses it: the embedded server, the tables, the SQL functions and their migrations."""

from __future__ import annotations

from agenttrace.run.postgres.server import EmbeddedPostgres, PostgresError, embedded

__all__ = ["EmbeddedPostgres", "PostgresError", "embedded"]
