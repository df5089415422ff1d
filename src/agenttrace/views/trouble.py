"""Expected errors: a sentence, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.store.errors import Failure

#: The fix for a damaged store.
REBUILD = "Rebuild it with agenttrace record --once: the damaged file is kept, and its readable rows are salvaged."


class TroubleError(Exception):
    """A request cannot be answered; ``misused``: because its arguments are wrong."""

    def __init__(self, problem: str, fix: str = "", *, misused: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.misused = problem, fix, misused


def database_trouble(url: str | None, error: BaseException) -> TroubleError | None:
    """An expected error of the run half's database, without its password; None for a bug."""
    from psycopg import DataError, InterfaceError, OperationalError, ProgrammingError
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.errors import InsufficientPrivilege
    from psycopg_pool import PoolTimeout

    fix = "Check AGENTTRACE_DATABASE_URL, and that the server it names runs." if url else ""
    try:
        password = conninfo_to_dict(url or "").get("password")
    except ProgrammingError:
        # The driver would quote all of it, with the password in it.
        return TroubleError("the database cannot be used: its address is not one that PostgreSQL understands", fix)
    if isinstance(error, DataError):
        fix = "Give one that could be in the database."
        return TroubleError("a number that was given is too large", fix, misused=True)
    if isinstance(error, OperationalError | InterfaceError | InsufficientPrivilege | PoolTimeout):
        reason = one_line(str(error))
        reason = reason.replace(str(password), "***") if password else reason
        return TroubleError(f"the database cannot be used: {reason}", fix)
    return None


def store_trouble(error: BaseException) -> TroubleError | None:
    """An expected error of the trace store; None for a bug."""
    from agenttrace.store.errors import Failure, StoreError, failure_kind

    kind = failure_kind(error)
    if kind is Failure.CORRUPT:
        return TroubleError(f"the store is damaged: {error}", REBUILD)
    if isinstance(error, StoreError):
        return TroubleError(str(error))
    fix = _store_fix(kind)
    return TroubleError(f"the store cannot be used: {error}", fix) if fix else None


def _store_fix(kind: Failure | None) -> str:
    from agenttrace.store.errors import Failure

    fixes = {
        Failure.BUSY: "Another program has locked it; try again when it is done.",
        Failure.FULL: "Free some disk space, then run the command again: it continues where it stopped.",
        Failure.NOT_WRITABLE: "Check the permissions of the data directory, or set AGENTTRACE_HOME to another one.",
        Failure.DISK: "Check the disk, then run agenttrace doctor.",
    }
    return "" if kind is None else fixes.get(kind, "")


def file_problem(error: OSError) -> str:
    """What is wrong, and with which file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
