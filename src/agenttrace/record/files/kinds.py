"""The kinds of sources: append-only files, compressed ones, databases, and documents that are written anew."""

from __future__ import annotations

from pathlib import Path

from agenttrace.record.files.archives import TrackedArchive
from agenttrace.record.files.databases import TrackedDatabase
from agenttrace.record.files.discover import FoundFile
from agenttrace.record.files.documents import TrackedDocument
from agenttrace.record.files.tracked import TrackedFile
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Agent, stored_source
from agenttrace.store.batch import FileRow


def home_of(row: FileRow) -> Agent | None:
    """The agent whose database or document a file is, by what the store or its name says; ``None`` for other logs."""
    source = stored_source(row.source)
    for agent in AGENTS:
        if agent.writes_lines:
            continue
        if agent.name == source.agent if source is not None else agent.is_log(Path(row.filepath)):
            return agent
    return None


def tracked_file(
    path: str, row: FileRow, max_line_bytes: int, home: Agent | None = None, *, max_unpacked_bytes: int = 1 << 62
) -> TrackedFile:
    """A file under watch, of the kind that its agent writes."""
    kind = TrackedFile
    if path.endswith(".zst"):
        kind = TrackedArchive
    elif home is not None and home.table is not None:
        kind = TrackedDatabase
    elif home is not None and home.writes_documents:
        kind = TrackedDocument
    return kind(path, row, max_line_bytes, home, max_unpacked_bytes=max_unpacked_bytes)


def is_recorded(found: FoundFile, row: FileRow | None, max_line_bytes: int) -> bool:
    """Whether all that a file has now is in the store, as its kind tells."""
    if row is None:
        return False
    home = found.agent if found.agent is not None and not found.agent.writes_lines else home_of(row)
    return tracked_file(found.path, row, max_line_bytes, home).is_recorded(found.size, found.mtime_ns)
