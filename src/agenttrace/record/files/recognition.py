"""What a file is: told by its first lines, and where those say nothing, by the ones that follow.

A session may begin with a pasted text or a snapshot of megabytes, or with lines that every format could have. So what
no agent knows by its head is looked at further, a few lines at a time, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agenttrace.record.files.reader import BOM
from agenttrace.record.files.tracked import HEAD_BYTES, TrackedFile
from agenttrace.record.formats.contract import Agent, Source

#: So many lines are looked at, and so many bytes of them.
MOST_LINES = 400
MOST_BYTES = 4 << 20
#: Of a longer line only the beginning is looked at.
_LONG_LINE = 1 << 20
#: Every agent looks at as many lines of what it is given.
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
    """The first that knows it."""
    found = (agent.recognise(path, opening) for agent in agents)
    return next((source for source in found if source is not None), None)


def may_become_known(file: TrackedFile) -> bool:
    """Whether a file that was refused may be known by what was added to it."""
    return file.position < MOST_BYTES and file.row.lines + file.counts["lines"] < MOST_LINES
