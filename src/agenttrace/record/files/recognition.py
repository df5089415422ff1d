"""The format of a file, from its first lines, or from the lines after them.

A session may begin with a pasted text or a snapshot of megabytes, or with lines that every format could have. So where
no format recognises the head, the next lines are tried, a few at a time, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agenttrace.record.files.reader import BOM
from agenttrace.record.files.tracked import HEAD_BYTES, TrackedFile
from agenttrace.record.formats.contract import Agent, Source

#: How many lines are tried, and how many bytes of them.
MOST_LINES = 400
MOST_BYTES = 4 << 20
#: Of a longer line only the beginning is used.
_LONG_LINE = 1 << 20
#: Every format reads at least so many lines of what it gets.
_AT_ONCE = 8


def openings(file: TrackedFile) -> Iterator[bytes]:
    """The beginning of a file, then its first lines whole, a few at a time."""
    head = file.head().removeprefix(BOM)
    yield head
    left = MOST_BYTES
    lines = islice(file.lines_from(0), MOST_LINES)
    while left > 0 and (few := list(islice(lines, _AT_ONCE))):
        part = b"\n".join(_looked_at(line) for line in few) + b"\n"
        left -= len(part)
        if not head.startswith(part):
            yield part.removeprefix(BOM)


def _looked_at(line: bytes) -> bytes:
    return line if len(line) <= _LONG_LINE else line[:HEAD_BYTES]


def recognised(agents: Sequence[Agent], path: Path, opening: bytes) -> Source | None:
    """The answer of the first format that recognises the file."""
    found = (agent.recognise(path, opening) for agent in agents)
    return next((source for source in found if source is not None), None)


def may_become_known(file: TrackedFile) -> bool:
    """Whether a file that was refused may be recognised by lines that were added."""
    return file.position < MOST_BYTES and file.row.lines + file.counts["lines"] < MOST_LINES
