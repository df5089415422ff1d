"""Finding the one line that stops a batch, so that everything else of the batch is recorded.

Where a line cannot be decoded or folded, it is known at once. Where a batch cannot be stored, smaller ones are tried,
until the line at fault is the only one of its batch. It goes into quarantine with the reason. A full disk, a locked or
damaged store is not the fault of a line.
"""

from __future__ import annotations

from agenttrace.record.files.tracked import TrackedFile
from agenttrace.store.errors import STORE_FAILURES, is_refused_value


class BadLineError(Exception):
    """A line cannot be recorded. Half of it may be in memory, so the batch must be rolled back."""

    def __init__(self, file: TrackedFile, offset: int, raw: bytes, error: Exception, before: int) -> None:
        super().__init__(blame(error))
        self.file, self.offset, self.raw = file, offset, raw
        #: How many lines of the batch come before it.
        self.before = before


def blame(error: BaseException) -> str:
    """The reason that is stored with a line."""
    told = " ".join(str(error).split())[:200]
    return f"cannot be recorded: {type(error).__name__}{': ' if told else ''}{told}"


def is_a_lines_fault(error: BaseException) -> bool:
    """Whether a line may be the cause of a failure, as opposed to the store, the disk or the memory."""
    if isinstance(error, STORE_FAILURES):
        return is_refused_value(error)
    return isinstance(error, Exception) and not isinstance(error, OSError | MemoryError)


class BatchLimit:
    """The most lines of a batch: fewer after one has failed, more again with each that is stored."""

    def __init__(self, most: int) -> None:
        self._most = self.lines = most

    def failed(self, lines: int) -> None:
        """A batch of so many lines could not be stored: try half of it."""
        self.lines = max(1, lines // 2)

    def end_before(self, lines: int) -> None:
        """The line after so many is bad: store those first, so that they are not read again and again."""
        self.lines = max(1, lines)

    def stored(self) -> None:
        """A batch was stored."""
        self.lines = min(self._most, self.lines * 2)
