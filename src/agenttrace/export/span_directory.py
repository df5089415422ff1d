"""The directory that a destination writes files to: made when it is needed, and readable by its owner alone.

Files are named by the day (UTC) on which they are written, ``spans-2026-11-15…``: what is written last is then in the
newest file, and whoever removes or moves away files of past days is in nobody's way.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from agenttrace.export.destination import Delivery
from agenttrace.export.records import moment
from agenttrace.export.span import ExportSpan

#: What no waiting puts right.
_BLOCKED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
#: Clocks are not always right.
_MARGIN = timedelta(days=2)


class DoubtfulError(Exception):
    """Something was written that may or may not stay."""


class SpanFile(NamedTuple):
    """A file of a day."""

    day: date
    #: What follows the day in its name.
    rest: str
    path: Path


class SpanDirectory:
    """One directory."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def ensure(self) -> None:
        """Make it, readable by its owner alone."""
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def sync(self) -> None:
        """Make sure that a new name in it survives a loss of power; what has the name is written by then."""
        if os.name != "posix":
            return
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DoubtfulError(f"written, but {self.path} could not be synced: {error.strerror}") from error

    def files(self, pattern: str) -> list[SpanFile]:
        """Its files whose rest of the name matches, newest first."""
        wanted = re.compile(rf"spans-(\d{{4}}-\d\d-\d\d)({pattern})")
        found = []
        for path in _listed(self.path):
            match = wanted.fullmatch(path.name)
            if match is not None:
                with suppress(ValueError):  # a name like ours that is no day
                    found.append(SpanFile(date.fromisoformat(match[1]), match[2], path))
        return sorted(found, reverse=True)

    def problem(self) -> str:
        """Why nothing can be written to it, and what to do; empty where all is well."""
        existing = next(each for each in (self.path, *self.path.parents) if os.path.exists(each))
        if not os.path.isdir(existing):
            return f"{existing} is not a directory. Set path to one."
        if os.access(existing, os.W_OK | os.X_OK):
            return ""
        return f"{existing} cannot be written to. Give yourself the right to, or set path to another directory."


def _listed(path: Path) -> Iterator[Path]:
    try:
        yield from path.iterdir()
    except FileNotFoundError:
        return


def today() -> date:
    """The day in whose file is written."""
    return datetime.now(UTC).date()


def earliest(spans: Iterable[ExportSpan]) -> date:
    """The day before which none of these can have been written: nobody writes what has not happened."""
    begun = moment(min((span.start for span in spans), default=0))
    return min(begun, datetime.now(UTC)).date() - _MARGIN


def not_written(error: OSError) -> Delivery:
    """Nothing was written, and why: a full disk may have room later, a directory that is not ours will not."""
    reason = f"{error.strerror or error} ({error.filename or 'writing'})"
    if error.errno == errno.EROFS:
        reason += "; the service may write where it was told when it was installed: agenttrace service install"
    return Delivery(verdict="blocked" if error.errno in _BLOCKED else "retry", reason=reason)
