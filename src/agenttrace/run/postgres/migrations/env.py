"""How Alembic runs our revisions: on the connection it is given, with its own table beside ours."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from agenttrace.run.postgres.pool import SCHEMA

VERSION_TABLE = "agenttrace_revision"

connection = context.config.attributes["connection"]
connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
context.configure(
    connection=connection,
    version_table=VERSION_TABLE,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
