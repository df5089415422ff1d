"""What can be expected to go wrong: in one sentence, with what to do about it."""

from __future__ import annotations

from agenttrace.views.plain import one_line


class TroubleError(Exception):
    """What was asked for cannot be done; ``misused`` where it was asked wrongly."""

    def __init__(self, problem: str, fix: str = "", *, misused: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.misused = problem, fix, misused


def database_trouble(url: str | None, error: BaseException) -> TroubleError | None:
    """What can be expected of the run half's database, without its password; None for a bug."""
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
