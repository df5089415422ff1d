"""Spans in files: the record of a span, the directory, and the base class of the destinations that write them.

A record is flat and the same in all files: one name for each fact, null where it is not known.

- ``span_id`` (16 hex digits), ``trace_id`` (32), ``parent_id`` (null for the root turn), ``path``
  (the ids from that turn to this span, both included)
- ``session_id`` (the agent's id of the session), ``agent``, ``agent_version``, ``project``, ``branch``, ``title``
- ``kind`` (``turn``, ``step``: a model call, ``tool``, ``span``: received from another program), ``name``
- ``start``, ``end`` (UTC, to the microsecond), ``duration_ms``
- ``status`` (``ok``, ``error``, ``cancelled``, ``unclosed``), ``error`` (the error message)
- ``turn_index`` (from 0), ``step_n`` (from 1), ``agent_name``, ``subagent`` (a subagent's turn, and all below it)
- ``model``, ``finish_reason``, ``response_id`` of a model call
- ``input_tokens`` (neither read from nor written to a cache), ``output_tokens``, ``cache_read_tokens``,
  ``cache_write_tokens``: every token once; ``reasoning_tokens`` is part of the output, ``cache_write_1h_tokens`` of
  the cache writes; null where the response is counted in another session (``copied``); ``estimated`` where the log
  has only a placeholder
- ``cost`` in ``currency``; null where the price is not known, which is not 0
- ``tool``, ``call`` (its id) of a tool call
- ``texts``, in order: ``kind`` (``prompt``, ``text``, ``thinking``, ``arguments``, ``result``, ``error``, ``note``),
  ``text``, and the ``call`` it belongs to
- ``attributes``, further facts; ``user`` and ``environment`` of the settings

Files are named by the day (UTC) on which they are written, ``spans-2026-11-15…``. The newest spans are in the newest
file, and files of past days may be moved or removed at any time.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Delivery
from agenttrace.export.moments import moment
from agenttrace.export.span import ExportSpan

#: Errors that a retry does not fix.
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
#: Two destinations may share a directory.
_writing = threading.Lock()
TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)


def record_of(span: ExportSpan, settings: DestinationSettings) -> dict[str, Any]:
    """The record of a span; texts are as in the log."""
    session = span.session
    return {
        "span_id": span.span_id.hex(),
        "trace_id": span.trace_id.hex(),
        "parent_id": span.parent_id.hex() if span.parent_id else None,
        "path": [step.span_id.hex() for step in span.path],
        "session_id": session.session_id,
        "agent": session.agent,
        "agent_version": session.agent_version,
        "project": session.project,
        "branch": session.branch,
        "title": session.title,
        "kind": span.kind,
        "name": span.name,
        "start": moment(span.start),
        "end": moment(span.end),
        "duration_ms": (span.end - span.start) / 1_000,
        "status": span.status,
        "error": span.error,
        "turn_index": span.turn_index,
        "step_n": span.step_n,
        "agent_name": span.agent_name,
        "subagent": span.subagent,
        "model": span.model,
        **{name: getattr(span.usage, name) if span.usage is not None else None for name in TOKENS},
        "cost": span.cost,
        "currency": span.currency,
        "estimated": span.estimated,
        "copied": span.copied,
        "finish_reason": span.finish_reason,
        "response_id": span.response_id,
        "tool": span.tool,
        "call": span.call,
        "texts": [{"kind": text.kind, "text": text.text, "call": text.call} for text in span.texts],
        "attributes": span.attributes,
        "user": settings.user,
        "environment": settings.environment,
    }


class DoubtfulError(Exception):
    """Spans were written, and may or may not stay in the file."""


class UnreadableError(Exception):
    """A file cannot be read, so that it is not known which spans it has."""


class SpanFile(NamedTuple):
    """A file of a day."""

    day: date
    #: The part of its name after the day.
    rest: str
    path: Path


class FileDestination(ABC):
    """A destination that writes files into one directory, which is created when it is needed, with mode 0700."""

    #: A span that is written twice is in the files twice.
    ignores_repeats = False
    can_read_back = True
    #: The file is synced before the answer.
    accepted_is_stored = True
    #: Matches the part of a file's name after the day.
    names: str

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self.path = Path(settings.path or "")
        self.max_spans = settings.batch_spans

    @abstractmethod
    def _write(self, spans: Sequence[ExportSpan]) -> int:
        """Write spans and sync them; the number of bytes. Raises OSError where nothing was written."""

    @abstractmethod
    def _ids(self, path: Path, wanted: Set[str]) -> Iterable[str]:
        """The span ids in a file, at least those that are wanted; raises OSError or UnreadableError."""

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Write spans to the files of today."""
        return await asyncio.to_thread(self._written, spans)

    def _written(self, spans: Sequence[ExportSpan]) -> Delivery:
        try:
            with _writing:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                return Delivery(verdict="accepted", sent_bytes=self._write(spans))
        except DoubtfulError as error:
            return Delivery(verdict="unknown", reason=str(error))
        except OSError as error:
            return _not_written(error)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans are in the files; None where a file cannot be read."""
        wanted = {span.span_id.hex(): span.span_id for span in spans}
        try:
            return await asyncio.to_thread(self._found, wanted, _earliest(spans))
        except (OSError, UnreadableError):
            return None

    def _found(self, wanted: dict[str, bytes], since: date) -> set[bytes]:
        found: set[bytes] = set()
        with _writing:
            for each in self.files():
                if each.day < since or len(found) == len(wanted):
                    break
                with suppress(FileNotFoundError):  # removed in this moment
                    found |= {wanted[name] for name in self._ids(each.path, wanted.keys()) if name in wanted}
        return found

    def files(self) -> list[SpanFile]:
        """The files of this destination's kind, newest first."""
        pattern = re.compile(rf"spans-(\d{{4}}-\d\d-\d\d)({self.names})")
        found = []
        for path in self.path.iterdir() if self.path.exists() else ():
            match = pattern.fullmatch(path.name)
            if match is not None:
                with suppress(ValueError):  # the digits are no date
                    found.append(SpanFile(date.fromisoformat(match[1]), match[2], path))
        return sorted(found, reverse=True)

    def sync_directory(self) -> None:
        """Make sure that a new file name survives a loss of power; the file itself is written by then."""
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

    async def check(self) -> str:
        """Whether the directory can be written to, without creating it."""
        return await asyncio.to_thread(self._problem)

    def _problem(self) -> str:
        existing = next(each for each in (self.path, *self.path.parents) if os.path.exists(each))
        if not os.path.isdir(existing):
            return f"{existing} is not a directory. Set path to one."
        if os.access(existing, os.W_OK | os.X_OK):
            return ""
        return f"{existing} cannot be written to. Change its permissions, or set path to another directory."

    async def close(self) -> None:  # noqa: B027 - no file stays open, as files may be moved at any time
        """Nothing to close."""


def today() -> date:
    """The day of the file that is written to."""
    return datetime.now(UTC).date()


def _earliest(spans: Iterable[ExportSpan]) -> date:
    """The day before which none of these spans can have been written, as none had begun."""
    begun = moment(min((span.start for span in spans), default=0))
    return min(begun, datetime.now(UTC)).date() - _MARGIN


def _not_written(error: OSError) -> Delivery:
    """Nothing was written: a full disk may have room later, a directory without permission will not."""
    reason = f"{error.strerror or error} ({error.filename or 'writing'})"
    if error.errno == errno.EROFS:
        reason += "; a service may write to the directories it was installed with: agenttrace service install"
    return Delivery(verdict="blocked" if error.errno in _BLOCKED else "retry", reason=reason)
