"""The lock of the exporter: two exporters of a data directory would send the same spans."""

from __future__ import annotations

from pathlib import Path

from agenttrace.locking import LockedError, ProcessLock, owner_of

_NAME = "exporter.lock"


class AlreadyExportingError(Exception):
    """Another process sends the spans of this data directory."""

    def __init__(self, home: Path, owner: str) -> None:
        super().__init__(f"the spans of {home} are sent by process {owner or 'unknown'} already")
        self.owner = owner


class ExporterLock(ProcessLock):
    """Held while sending."""

    def __init__(self, home: Path) -> None:
        try:
            super().__init__(home / _NAME)
        except LockedError as error:
            raise AlreadyExportingError(home, error.owner) from None


def owner(home: Path) -> int | None:
    """The process that sends the spans of this directory now, if any."""
    return owner_of(home / _NAME)
