"""The state of recording: log files and lines that could not be understood."""

from __future__ import annotations

from typing import Literal

from agenttrace.serve.api.shapes.base import Shape


class LineCounts(Shape):
    """Every line that was read is one of these."""

    lines: int
    recorded: int
    duplicate: int
    ignored: int
    quarantined: int


class DedupTier(Shape):
    """How often a tier of the deduplicator knew an event."""

    tier: Literal["l0", "l1", "l2"]
    hits: int
    rate: float


class RecorderState(Shape):
    """Whether agents are recorded, without what takes a look at every log file."""

    running: bool
    pid: int | None
    #: Why recording fails now, and how often it was restarted since; null while it works.
    problem: str | None
    restarts: int
    lines: LineCounts
    quarantine_open: int


class RecordingState(RecorderState):
    """The state of recording."""

    file_count: int
    read_bytes: int
    behind_bytes: int
    behind_files: int
    lost_bytes: int
    dedup: list[DedupTier]
    new_events: int
    #: Lines that could not be understood and are only counted, because there were too many.
    counted_only: int
    unreadable: int
    #: Links that lead out of the watched directories.
    links_not_followed: int
    search_backlog: int
    database_bytes: int


class FileRow(Shape):
    """A log file."""

    path: str
    offset: int
    size: int | None
    behind: int
    lines: int
    #: Lines that could not be understood, and those of them that are only counted.
    quarantined: int
    counted_only: int
    generation: int
    lost_bytes: int
    last_read_at: str | None
    gone: bool
    error: str | None


class FileList(Shape):
    """A page of files, and the sums over all of them."""

    items: list[FileRow]
    next: str | None
    total: int
    recording: RecordingState


class QuarantineRow(Shape):
    """A line that could not be understood."""

    id: int
    file: str
    offset: int
    length: int
    reason: str
    salvaged: int
    found_at: str
    resolved_at: str | None
    #: When a retry was requested, and its result; null while it is pending.
    retry_asked_at: str | None
    retry_result: str | None


class QuarantineList(Shape):
    """A page of them, newest first."""

    items: list[QuarantineRow]
    next: str | None
    open: int
    #: Further lines that are only counted, because there were too many.
    counted_only: int


class QuarantineDetail(QuarantineRow):
    """One of them with its line; null where it was too long to be stored."""

    line: str | None
    cut: bool


class RetryAnswer(Shape):
    """How many lines will be tried again."""

    asked: int
