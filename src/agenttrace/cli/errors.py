"""What can be expected to go wrong, told as one line with its fix, and the exit codes that say so to scripts."""

from __future__ import annotations

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
    from agenttrace.export.lock import AlreadyExportingError
    from agenttrace.record.lock import AlreadyRecordingError
    from agenttrace.views.trouble import TroubleError, file_problem, store_trouble

    if isinstance(error, CommandError):
        return error
    trouble = error if isinstance(error, TroubleError) else store_trouble(error)
    if trouble is not None:
        return CommandError(trouble.problem, trouble.fix, code=USAGE if trouble.misused else FAILED)
    if isinstance(error, SettingsError):
        return CommandError(str(error), code=USAGE)
    if isinstance(error, AlreadyRecordingError):
        return CommandError(str(error))
    if isinstance(error, AlreadyExportingError):
        return CommandError(str(error), "Let it: agenttrace export status shows how far it is. Or stop it first.")
    if isinstance(error, OSError):
        return CommandError(file_problem(error), "Run agenttrace doctor to see what is wrong.")
    return None
