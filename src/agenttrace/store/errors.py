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


#: Whatever a question or a commit may raise because of the store: for ``except`` clauses. The exceptions of an engine
#: are not wrapped, as a wrapper for each statement costs more than the statement.
STORE_FAILURES: tuple[type[Exception], ...] = (StoreError, sqlite3.Error)
