"""Opening the store: pragmas, migrations, and what to do with a file that SQLite cannot read."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from agenttrace.store.errors import CorruptStoreError, Failure, NewerStoreError, StoreError, failure_kind
from agenttrace.store.errors import is_corruption as is_corruption
from agenttrace.store.questions import folded
from agenttrace.store.session_state import state_now
from agenttrace.store.sqlite.schema import MIGRATIONS, PAGE_SIZE

logger = logging.getLogger(__name__)

Connection = sqlite3.Connection

BUSY_SECONDS = 10.0
#: How long after its beginning a reader waits for another process that creates the store at this moment.
CREATION_SECONDS = 2.0
#: Pages in the write-ahead log before it is folded back: few checkpoints while importing, a small file otherwise.
CHECKPOINT_PAGES = 16_384
#: The same while a recorder follows: many small commits touch the same pages again and again.
SMALL_CHECKPOINT_PAGES = 512
CACHE_KIB = 32 * 1024
#: Every SQLite binds at least twice as many in one statement.
_PARAMETERS = 500

T = TypeVar("T")


def connect(
    path: Path, *, read_only: bool = False, any_thread: bool = False, busy_seconds: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """Open the store, creating or upgrading it unless ``read_only``; with ``any_thread`` another may close it."""
    try:
        connection = (
            _connect_read_only(path, any_thread, busy_seconds) if read_only else _connect_writer(path, busy_seconds)
        )
    except sqlite3.DatabaseError as error:
        if is_corruption(error):
            raise CorruptStoreError(f"{path} is damaged: {error}") from error
        raise
    # Here and not with the queries: SQLite refuses to define a function while a statement is under way.
    connection.create_function("folded", -1, folded, deterministic=True)
    connection.create_function("state_now", 4, state_now, deterministic=True)
    return connection


def _connect_read_only(path: Path, any_thread: bool, busy_seconds: float) -> sqlite3.Connection:
    if not path.exists():
        raise _nothing_recorded(path, "does not exist")
    connection = sqlite3.connect(
        f"file:{_uri_path(path)}?mode=ro",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=not any_thread,
    )
    try:
        connection.execute("PRAGMA query_only = 1")
        _await_creation(connection, path)
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _await_creation(connection: sqlite3.Connection, path: Path) -> None:
    """A store is an empty file until its tables are committed, and stays one where its creator was killed."""
    age = max(0.0, time.time() - path.stat().st_mtime)
    deadline = time.monotonic() + CREATION_SECONDS - age
    while _version(connection) == 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
        if time.monotonic() > deadline:
            raise _nothing_recorded(path, "is empty")
        time.sleep(0.01)


def _nothing_recorded(path: Path, why: str) -> StoreError:
    return StoreError(f"nothing recorded yet ({path} {why}). Start with: agenttrace record --once")


def _uri_path(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _connect_writer(path: Path, busy_seconds: float) -> sqlite3.Connection:
    create_private(path)
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        _limit_log(connection, CHECKPOINT_PAGES)
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _limit_log(connection: sqlite3.Connection, pages: int) -> None:
    connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    connection.execute(f"PRAGMA journal_size_limit = {pages * PAGE_SIZE}")


def shorten_log(connection: sqlite3.Connection) -> None:
    """Keep the write-ahead log as short as small commits need it."""
    _limit_log(connection, SMALL_CHECKPOINT_PAGES)


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Several processes may create the store at once; for this one statement SQLite does not wait by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if failure_kind(error) is not Failure.BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def create_private(path: Path) -> None:
    """Create the file readable by its owner alone, before SQLite would create it with the umask's mode."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = _version(connection)
    if found > len(MIGRATIONS):
        raise NewerStoreError(
            f"{path} was written by a newer AgentTrace (schema {found}, this one knows {len(MIGRATIONS)}). "
            "Upgrade with: pip install --upgrade agenttrace"
        )
    if found < len(MIGRATIONS):
        raise StoreError(f"{path} has an older schema ({found}). Run any recording command once to upgrade it.")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) >= len(MIGRATIONS):
        _check_version(connection, path)
        return
    with transaction(connection):
        # Asked again under the lock: another process may have upgraded the file meanwhile.
        found = _version(connection)
        if found <= 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None:
            raise CorruptStoreError(f"{path} is damaged: it holds tables, but not the number of their version")
        for script in MIGRATIONS[found:]:
            for statement in statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def statements(script: str) -> Iterator[str]:
    """Split a script into statements, because ``executescript`` would commit the transaction that protects it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def portions(values: Iterable[T]) -> Iterator[list[T]]:
    """The values in lists of no more than one statement can bind."""
    iterator = iter(values)
    while part := list(islice(iterator, _PARAMETERS)):
        yield part


def marks(values: Sized) -> str:
    """Places for these parameters: ``(?,?)``."""
    return f"({','.join('?' * len(values))})"


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is committed together or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            # A full disk may fail this as well; SQLite then rolls back by itself, and the first error is the cause.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
