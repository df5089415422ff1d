"""The PostgreSQL behind the run half: one pool a process, migrated at the start, patient when the server is away.

Statements are SQL text on psycopg; SQLAlchemy only serves Alembic, which runs the migrations.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from agenttrace.run.results.storable import stored_json

logger = logging.getLogger(__name__)

#: The schema of our tables, and that of Procrastinate's, which are apart: a database may be shared with other programs.
SCHEMA, QUEUE_SCHEMA = "biz", "agenttrace_queue"
#: The newest revision; ``migrate`` looks no further when the database has it.
HEAD = "0008"
_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x61674D69  # the number of our lock: the migrating process holds it
#: Seconds that a transaction waits for its process. One that is frozen, or whose machine is gone, would keep its locks
#: for ever, and the worker that takes its jobs over would wait for them.
ABSENCE_SECONDS = 5
#: What may go away and come back: the server restarts, a connection is cut.
AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    PoolTimeout,
)

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]
Clock = Callable[[], datetime]


def migrate(url: str, revision: str = "head") -> None:
    """Bring the database to ``revision``; several processes may try at once."""
    with psycopg.connect(url, autocommit=True) as connection:
        if revision == "head" and revision_of(connection) == HEAD:
            return
        connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        try:
            _run_alembic(url, revision, downgrade=_is_older(revision, revision_of(connection)))
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _is_older(revision: str, current: str | None) -> bool:
    return revision == "base" or (revision != "head" and (current or "") > revision)


def revision_of(connection: psycopg.Connection[Any]) -> str | None:
    """The revision that the database has; None before the first."""
    if connection.execute("SELECT to_regclass('biz.agenttrace_revision')").fetchone() == (None,):
        return None
    row = connection.execute("SELECT version_num FROM biz.agenttrace_revision").fetchone()
    return None if row is None else str(row[0])


def _run_alembic(url: str, revision: str, *, downgrade: bool) -> None:
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import NullPool, create_engine

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    # The URL is libpq's own, with whatever it allows; SQLAlchemy only gets the finished connection.
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            (command.downgrade if downgrade else command.upgrade)(config, revision)
    finally:
        engine.dispose()


async def _prepare(connection: AsyncConnection[Any]) -> None:
    set_json_loads(stored_json, connection)
    await connection.execute(f"SET search_path TO {QUEUE_SCHEMA}, public")
    await connection.execute(f"SET idle_in_transaction_session_timeout TO '{ABSENCE_SECONDS}s'")


class Database:
    """A pool of connections in autocommit mode, shared by everything in a process."""

    def __init__(self, url: str, *, size: int = 16) -> None:
        self._url = url
        self.pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=size,
            open=False,
            kwargs={"autocommit": True, "application_name": "agenttrace"},
            configure=_prepare,
            timeout=10,
            reconnect_timeout=30,
        )

    async def open(self) -> None:
        """Connect; raises ``psycopg_pool.PoolTimeout`` when the server cannot be reached."""
        await self.pool.open(wait=True, timeout=30)

    async def close(self) -> None:
        """Let all connections go."""
        await self.pool.close()

    async def __aenter__(self) -> Database:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection inside a transaction."""
        async with self.pool.connection() as connection, connection.transaction():
            yield connection

    async def one(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(sql.encode(), params)
            return await cursor.fetchone()

    async def all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(sql.encode(), params)
            return await cursor.fetchall()

    async def rows(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        """All rows by column name."""
        async with self.pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(sql.encode(), params)
            return await cursor.fetchall()

    async def newest(
        self, table: str, columns: str, where: Mapping[str, Any], *, limit: int, before_id: int | None = None
    ) -> list[dict[str, Any]]:
        """A page of rows with descending ids; ``before_id`` is the last id of the page before.

        ``where`` has a value for each condition, such as ``status = %s``; conditions without a value do not count.
        """
        given = {name: value for name, value in ({"id < %s": before_id} | dict(where)).items() if value is not None}
        # The cast refuses a number that no column can have.
        conditions = [name.replace("%s", "%s::bigint") if type(value) is int else name for name, value in given.items()]
        wanted = " AND ".join(conditions) or "true"
        sql = f"SELECT {columns} FROM {SCHEMA}.{table} WHERE {wanted} ORDER BY id DESC LIMIT %s"
        return await self.rows(sql, [*given.values(), limit])

    async def execute(self, sql: str, params: Params | None = None) -> int:
        """Run a statement; how many rows it touched."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(sql.encode(), params)
            return cursor.rowcount

    async def patiently(self, action: Callable[[], Awaitable[T]], seconds: float = 60.0) -> T:
        """Do something that may safely be done twice, with retries while the server is away.

        What is written this way (results, run logs) must not be lost to a restart of the server.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + seconds, 0.05
        while True:
            try:
                return await action()
            except AWAY as error:
                if loop.time() + pause > until:
                    raise
                logger.warning("the database is away (%s); retrying", type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)


class DatabaseService:
    """Works on one database, by its clock, which all processes share; tests may give another clock."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self.database = database
        self._clock = clock

    def now(self) -> datetime | None:
        """The time for a statement; None: that of the database."""
        return self._clock() if self._clock else None


def patient(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Decorate a method of an object with a ``database``, so that it is retried while the server is away."""

    @functools.wraps(method)
    async def trying(self: Any, *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - whatever the method takes
        database: Database = self.database
        return await database.patiently(lambda: method(self, *args, **kwargs))

    return trying
