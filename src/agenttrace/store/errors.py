"""What can be wrong with a store; callers catch these and never an engine's own exceptions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from agenttrace.model import Session


class StoreError(Exception):
    """The store cannot be used; the message says why and what to do."""


class CorruptStoreError(StoreError):
    """The store's file is damaged or is no database at all."""


class NewerStoreError(StoreError):
    """The store was written by a newer AgentTrace."""


class SessionNameError(LookupError):
    """No session has this name, or several have it; each surface says so in its own words."""

    def __init__(self, name: str, found: Sequence[Session] = (), *, pruned: bool = False) -> None:
        super().__init__(f"{len(found)} sessions are called {name!r}")
        self.name = name
        #: Those that have it, where there are several.
        self.found = found
        #: Whether there was one, of which only the usage is kept.
        self.pruned = pruned


class QueryInterruptedError(StoreError):
    """A question was stopped before it was answered: it took too long, or its answer is not wanted any more."""


#: Whatever a question or a commit may raise because of the store: for ``except`` clauses. The exceptions of an engine
#: are not wrapped, as a wrapper for each statement costs more than the statement.
STORE_FAILURES: tuple[type[Exception], ...] = (StoreError, sqlite3.Error)


#: What SQLite refuses because of a value: anything else it says is about the store.
_VALUE_ERRORS = (
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_RANGE,
)


def is_corruption(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is damaged, as opposed to busy, full or locked."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "malformed" in str(error) or "not a database" in str(error)
    return (code & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: BaseException) -> bool:
    """Whether the store itself is damaged: it must be rebuilt before it can be used."""
    return isinstance(error, CorruptStoreError) or (isinstance(error, sqlite3.Error) and is_corruption(error))


def is_refused_value(error: BaseException) -> bool:
    """Whether the store refuses a value of the batch, as opposed to the batch as a whole."""
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # The driver's own: it cannot bind such a value.
        return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError)
    return (code & 0xFF) in _VALUE_ERRORS
