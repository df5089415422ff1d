"""What can be wrong with a store; callers catch these and never an engine's own exceptions."""

from __future__ import annotations

import sqlite3


class StoreError(Exception):
    """The store cannot be used; the message says why and what to do."""


class CorruptStoreError(StoreError):
    """The store's file is damaged or is no database at all."""


class NewerStoreError(StoreError):
    """The store was written by a newer AgentTrace."""


class QueryInterruptedError(StoreError):
    """A question was stopped before it was answered: it took too long, or its answer is not wanted any more."""


#: Whatever a question or a commit may raise because of the store: for ``except`` clauses. The exceptions of an engine
#: are not wrapped, as a wrapper for each statement costs more than the statement.
STORE_FAILURES: tuple[type[Exception], ...] = (StoreError, sqlite3.Error)
