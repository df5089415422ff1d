"""What can be expected to go wrong, told as one line with its fix, and the exit codes that say so to scripts."""

from __future__ import annotations

import sqlite3

#: It did not work, or the thing asked for is not there.
FAILED = 1
#: The command was not used rightly.
USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what was asked: what is wrong, and what to do about it."""

    def __init__(self, problem: str, fix: str = "", *, code: int = FAILED) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.code = problem, fix, code


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem, fix, code=USAGE)


def explained(error: BaseException) -> CommandError | None:
    """An expected error as a ``CommandError``; ``None`` for a bug, which deserves its traceback."""
    from agenttrace.config import SettingsError
    from agenttrace.record.lock import AlreadyRecordingError
    from agenttrace.store.database import CorruptStoreError, StoreError, is_corruption
    from agenttrace.views.checks import REBUILD
    from agenttrace.views.trouble import TroubleError

    if isinstance(error, CommandError):
        return error
    if isinstance(error, TroubleError):
        return CommandError(error.problem, error.fix, code=USAGE if error.misused else FAILED)
    if isinstance(error, SettingsError):
        return CommandError(str(error), code=USAGE)
    if isinstance(error, CorruptStoreError) or (isinstance(error, sqlite3.Error) and is_corruption(error)):
        return CommandError(f"the store is damaged: {error}", REBUILD)
    if isinstance(error, StoreError | AlreadyRecordingError):
        return CommandError(str(error))
    if isinstance(error, sqlite3.OperationalError) and (fix := _store_fix(str(error))):
        return CommandError(f"the store cannot be used: {error}", fix)
    if isinstance(error, OSError):
        return CommandError(_os_problem(error), "Run agenttrace doctor to see what is wrong.")
    return None


def _store_fix(reason: str) -> str:
    if "locked" in reason or "busy" in reason:
        return "Another program holds it; try again when that is done."
    if "is full" in reason:
        return "Free some disk space, then run the command again: it goes on where it stopped."
    if "readonly" in reason or "unable to open" in reason:
        return "Check the permissions of the data directory, or set AGENTTRACE_HOME to another one."
    return "Check the disk, then run agenttrace doctor." if "disk" in reason else ""


def _os_problem(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
