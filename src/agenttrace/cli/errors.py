"""Expected errors: one line with its fix, and an exit code."""

from __future__ import annotations

#: It failed, or the thing asked for does not exist.
FAILED = 1
#: Wrong arguments or settings.
USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what was asked: the problem and its fix."""

    def __init__(self, problem: str, fix: str = "", *, code: int = FAILED) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.code = problem, fix, code


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem, fix, code=USAGE)


def described(error: BaseException) -> tuple[str, str]:
    """The problem and the fix of any error, expected or not."""
    known = explained(error)
    return (str(error) or type(error).__name__, "") if known is None else (known.problem, known.fix)


def explained(error: BaseException) -> CommandError | None:
    """An expected error as a ``CommandError``; ``None`` for a bug, which deserves its traceback.

    Exceptions with a ``problem`` and a ``fix`` are written for users; ``misused`` says that the arguments are wrong.
    """
    from agenttrace.config import SettingsError
    from agenttrace.export.lock import AlreadyExportingError
    from agenttrace.record.lock import AlreadyRecordingError
    from agenttrace.views.trouble import file_problem, store_trouble

    if isinstance(error, CommandError):
        return error
    if isinstance(error, SettingsError):
        return CommandError(str(error), code=USAGE)
    trouble = error if hasattr(error, "problem") else store_trouble(error)
    if trouble is not None:
        code = USAGE if getattr(trouble, "misused", False) else FAILED
        return CommandError(trouble.problem, getattr(trouble, "fix", ""), code=code)
    if isinstance(error, AlreadyRecordingError):
        return CommandError(str(error))
    if isinstance(error, AlreadyExportingError):
        return CommandError(str(error), "See its progress: agenttrace export status. Or stop it first.")
    if isinstance(error, OSError):
        return CommandError(file_problem(error), "Run agenttrace doctor to see what is wrong.")
    return None
