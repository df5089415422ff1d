"""The run half for commands: opened, asked, closed, and the errors of its database reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec

from agenttrace.cli import opening, output
from agenttrace.cli.errors import USAGE, CommandError
from agenttrace.views import figures, run
from agenttrace.views.times import micros_of, parse_moment
from agenttrace.views.trouble import TroubleError, database_trouble

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.run.catalog.catalog import AppCatalog
    from agenttrace.run.engine import Engine

T = TypeVar("T")
#: More rows than a table can have: no limit.
ALL = 2**31

#: Styles of statuses; jobs, runs, cached results and breakers share them.
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
    """The result of ``action``, with an engine that is opened and closed for it."""
    require_run_half()
    settings = opening.settings()
    with database_errors(settings.database.url):
        return asyncio.run(_asked(settings, action))


def look(action: Callable[[Engine], Awaitable[T]], nothing: Callable[[], T]) -> T:
    """The same for commands that only read: if there is no database yet, none is created."""
    from agenttrace.run.availability import has_database

    require_run_half()
    if has_database(opening.settings()):
        return ask(action)
    output.note("Nothing has run on this machine yet: there is no database.")
    return nothing()


def require_run_half() -> None:
    """Raise CommandError where the packages of the run half are not installed."""
    from agenttrace.run.availability import INSTALL, NOT_INSTALLED, is_installed

    if not is_installed():
        raise CommandError(NOT_INSTALLED, INSTALL)


@contextmanager
def database_errors(url: str | None) -> Iterator[None]:
    """Turn expected errors of the database inside the block into errors of a command."""
    from agenttrace.run.availability import is_installed

    if not is_installed():
        yield
        return
    from psycopg import Error
    from psycopg_pool import PoolTimeout
    from sqlalchemy.exc import DBAPIError

    from agenttrace.run.catalog.catalog import CatalogError
    from agenttrace.run.catalog.config import WeakTokenError
    from agenttrace.run.postgres import PostgresError

    try:
        yield
    except PostgresError as error:
        raise CommandError(error.problem, error.fix) from error
    except CatalogError as error:
        raise wrong_catalog(error) from error
    except WeakTokenError as error:
        raise CommandError(error.problem, error.fix, code=USAGE) from error
    except (Error, PoolTimeout, DBAPIError) as error:
        # A migration has the driver's error wrapped.
        known = database_trouble(url, getattr(error, "orig", None) or error)
        if known is None:
            raise
        raise known from error


def explained(url: str | None, error: Exception) -> str | None:
    """An expected error of the database in a sentence or two; None for a bug."""
    try:
        with database_errors(url):
            raise error
    except (CommandError, TroubleError) as told:
        return f"{told.problem}. {told.fix}".strip()
    except Exception:
        return None


async def _asked(settings: Settings, action: Callable[[Engine], Awaitable[T]]) -> T:
    from agenttrace.run.engine import open_engine

    async with open_engine(settings, role="cli", sweep=False) as engine:
        return await action(engine)


def described_catalog(settings: Settings) -> tuple[AppCatalog, Sequence[str], str]:
    """The catalog, its missing variables and a message about them; needs no database."""
    require_run_half()
    from agenttrace.run.catalog.catalog import CatalogError

    try:
        return run.described_catalog(settings)
    except CatalogError as error:
        raise wrong_catalog(error) from error


def wrong_catalog(error: Exception) -> CommandError:
    """The error for wrong tables ``[apps.…]`` and ``[events.…]`` of the file."""
    return CommandError(f"agenttrace.toml: {error}", "Correct that table.", code=USAGE)


def moment_of(since: str | None) -> datetime | None:
    """The time of the option ``--since``."""
    return None if since is None else parse_moment(since, opening.settings().usage.timezone)


def took(milliseconds: int | None) -> str | None:
    """How long a call took, all attempts together."""
    return None if milliseconds is None else figures.duration(milliseconds * 1000)


def pretty(text: str) -> str:
    """JSON indented, anything else as it is."""
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def clock(moment: datetime | None) -> str:
    """A moment of the database, as short as can be."""
    return figures.clock(None if moment is None else micros_of(moment))
