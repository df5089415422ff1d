"""The run half for a command: opened, asked one thing, closed; what may go wrong with its database is told clearly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from agenttrace.cli import figures, opening, output
from agenttrace.cli.errors import USAGE, CommandError, UsageError

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.run.engine import Engine

T = TypeVar("T")

#: What a status looks like; jobs, runs, cached results and breakers share their words.
STYLES = {
    "success": "green",
    "completed": "green",
    "valid": "green",
    "closed": "green",
    "running": "bold cyan",
    "generating": "bold cyan",
    "half_open": "bold yellow",
    "failed": "bold red",
    "timeout": "bold red",
    "open": "bold red",
    "circuit_open": "yellow",
    "rate_limited": "yellow",
    "budget_exceeded": "yellow",
    "cancelled": "dim",
    "skipped_duplicate": "dim",
    "expired": "dim",
    "invalidated": "dim",
}


def ask(action: Callable[[Engine], Awaitable[T]]) -> T:
    """What ``action`` gives, done with everything opened for it and closed again."""
    import asyncio

    settings = opening.settings()
    with database_errors(settings.database.url):
        return asyncio.run(_asked(settings, action))


@contextmanager
def database_errors(url: str | None) -> Iterator[None]:
    """What may go wrong with the database inside the block, as errors of a command."""
    from psycopg import Error
    from psycopg_pool import PoolTimeout
    from sqlalchemy.exc import DBAPIError

    from agenttrace.run.catalog import CatalogError
    from agenttrace.run.postgres import PostgresError

    try:
        yield
    except PostgresError as error:
        raise CommandError(error.problem, error.fix) from error
    except CatalogError as error:
        raise wrong_catalog(error) from error
    except (Error, PoolTimeout, DBAPIError) as error:
        # A migration has the driver's error wrapped.
        known = told(url, getattr(error, "orig", None) or error)
        if known is None:
            raise
        raise known from error


async def _asked(settings: Settings, action: Callable[[Engine], Awaitable[T]]) -> T:
    from agenttrace.run.engine import open_engine

    async with open_engine(settings, role="cli", sweep=False) as engine:
        return await action(engine)


def wrong_catalog(error: Exception) -> CommandError:
    """The tables ``[apps.…]`` and ``[events.…]`` of the file say something that cannot be."""
    return CommandError(f"agenttrace.toml: {error}", "Correct that table.", code=USAGE)


def told(url: str | None, error: BaseException) -> CommandError | None:
    """What can be expected of a database; None for a bug."""
    from psycopg import DataError, InterfaceError, OperationalError, ProgrammingError
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.errors import InsufficientPrivilege
    from psycopg_pool import PoolTimeout

    fix = "Check AGENTTRACE_DATABASE_URL, and that the server it names runs." if url else ""
    try:
        password = conninfo_to_dict(url or "").get("password")
    except ProgrammingError:
        # The driver would quote all of it, with the password in it.
        return CommandError("the database cannot be used: its address is not one that PostgreSQL understands", fix)
    if isinstance(error, DataError):
        return UsageError("a number that was given is too large", "Give one that could be in the database.")
    if isinstance(error, OperationalError | InterfaceError | InsufficientPrivilege | PoolTimeout):
        reason = output.one_line(str(error))
        reason = reason.replace(str(password), "***") if password else reason
        return CommandError(f"the database cannot be used: {reason}", fix)
    return None


def micros(moment: datetime | None) -> int | None:
    """A moment of the database as the tables count time."""
    if moment is None:
        return None
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * figures.MICROS)


def clock(moment: datetime | None) -> str:
    """A moment of the database, as short as can be."""
    return figures.clock(micros(moment))


def fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: times in UTC."""
    return {name: figures.iso(micros(value)) if isinstance(value, datetime) else value for name, value in row.items()}
