"""What can be wrong with a store; callers catch these and never an engine's own exceptions."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Sequence

from agenttrace.model import Session


class StoreError(Exception):
    """The store cannot be used; the message says why and what to do."""


class CorruptStoreError(StoreError):
    """The store's file is damaged or is no database at all."""


class StoreAwayError(StoreError):
    """The server of the store does not answer; it may do so later."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. {fix}")
        self.problem, self.fix = problem, fix


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


class Failure(enum.Enum):
    """The kinds of failures that callers treat differently."""

    #: The file is damaged; recovery saves what can be read.
    CORRUPT = "corrupt"
    #: Another process holds it; passes by itself.
    BUSY = "busy"
    #: The disk is full.
    FULL = "full"
    #: The file cannot be opened or written.
    NOT_WRITABLE = "not writable"
    #: The disk failed to read or write.
    DISK = "disk"
    #: A value cannot be stored; the store itself is well.
    VALUE = "value"


_CODES = {
    sqlite3.SQLITE_CORRUPT: Failure.CORRUPT,
    sqlite3.SQLITE_NOTADB: Failure.CORRUPT,
    sqlite3.SQLITE_BUSY: Failure.BUSY,
    sqlite3.SQLITE_LOCKED: Failure.BUSY,
    sqlite3.SQLITE_FULL: Failure.FULL,
    sqlite3.SQLITE_READONLY: Failure.NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: Failure.NOT_WRITABLE,
    sqlite3.SQLITE_PERM: Failure.NOT_WRITABLE,
    sqlite3.SQLITE_IOERR: Failure.DISK,
    sqlite3.SQLITE_CONSTRAINT: Failure.VALUE,
    sqlite3.SQLITE_MISMATCH: Failure.VALUE,
    sqlite3.SQLITE_TOOBIG: Failure.VALUE,
    sqlite3.SQLITE_RANGE: Failure.VALUE,
}
#: Errors of the driver itself have no code.
_WORDS = {
    "malformed": Failure.CORRUPT,
    "not a database": Failure.CORRUPT,
    "locked": Failure.BUSY,
    "busy": Failure.BUSY,
    "is full": Failure.FULL,
    "readonly": Failure.NOT_WRITABLE,
    "unable to open": Failure.NOT_WRITABLE,
    "disk i/o": Failure.DISK,
}


def failure_kind(error: BaseException) -> Failure | None:
    """What kind of failure of the store an exception is; None for any other exception, a bug included."""
    if isinstance(error, CorruptStoreError):
        return Failure.CORRUPT
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _CODES.get(code & 0xFF)
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError):
        # The driver cannot bind such a value.
        return Failure.VALUE
    text = str(error).lower()
    return next((kind for word, kind in _WORDS.items() if word in text), None)


def is_corruption(error: BaseException) -> bool:
    """Whether the store itself is damaged, as opposed to busy, full or not writable."""
    return failure_kind(error) is Failure.CORRUPT


def is_refused_value(error: BaseException) -> bool:
    """Whether the store refuses a value of a batch, as opposed to the batch as a whole."""
    return failure_kind(error) is Failure.VALUE
