"""Changed files in the notations that agents write: unified diffs, hunks, patches, and texts before and after."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

import msgspec

from agenttrace.record.formats.contract import FileChange
from agenttrace.record.formats.lenient import DECODING_ERRORS

#: Added lines of one change that are carried along, and how much of each.
MOST_LINES = 400
_MOST_CHARACTERS = 400
#: Texts with more lines than this are not compared line by line, which could take minutes.
_MOST_COMPARED = 4_000
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_anything = msgspec.json.Decoder()


def decoded(raw: bytes, *hints: bytes) -> object:
    """The value of a line that contains one of the hints; ``None`` of any other, at next to no cost."""
    if not any(hint in raw for hint in hints):
        return None
    try:
        return _anything.decode(raw)
    except DECODING_ERRORS:
        return None


def change_of(path: str | None, marked: Iterable[str], call: str | None = None) -> Iterator[FileChange]:
    """A change from its lines, each with ``+``, ``-`` or a blank before it."""
    if not path:
        return
    added: list[str] = []
    removed = 0
    for line in marked:
        if line.startswith("+"):
            added.append(line[1:])
        elif line.startswith("-"):
            removed += 1
    yield made(path, added, removed, call)


def made(path: str, added: list[str], removed: int, call: str | None = None) -> FileChange:
    """A change from the lines that it added."""
    lines = tuple(line[:_MOST_CHARACTERS] for line in added[:MOST_LINES])
    return FileChange(path=path, added=len(added), removed=removed, lines=lines, call=call)


def hunk_lines(diff: str) -> Iterator[str]:
    """The marked lines inside the hunks of a unified diff of one file; its header is not among them."""
    old = new = 0
    for line in diff.split("\n"):
        hunk = _HUNK.match(line) if old <= 0 and new <= 0 else None
        if hunk is not None:
            old, new = (int(number) if number else 1 for number in hunk.groups())
        elif old > 0 or new > 0:
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
            yield line


def diff_change(path: str | None, diff: str | None, call: str | None = None) -> Iterator[FileChange]:
    """A change from a unified diff."""
    if diff is not None:
        yield from change_of(path, hunk_lines(diff), call)


def text_change(path: str | None, old: str, new: str, call: str | None = None) -> Iterator[FileChange]:
    """A change from the text before and after."""
    if not path:
        return
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_COMPARED:
        yield FileChange(path=path, call=call)
        return
    yield _compared(path, before, after, call)


def _compared(path: str, before: list[str], after: list[str], call: str | None) -> FileChange:
    added: list[str] = []
    removed = 0
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            removed += end - start
            added += after[new_start:new_end]
    return made(path, added, removed, call)


def envelope_changes(patch: str, call: str | None = None) -> Iterator[FileChange]:
    """The changes of a patch between ``*** Begin Patch`` and ``*** End Patch``."""
    path: str | None = None
    marked: list[str] = []
    for line in [*patch.splitlines(), "*** End Patch"]:
        if not line.startswith("*** "):
            marked.append(line)
            continue
        if line.startswith("*** Move to: "):
            path = line.removeprefix("*** Move to: ").strip()
            continue
        if line == "*** End of File":
            continue
        yield from change_of(path, marked, call)
        found = _PATCHED.fullmatch(line)
        path, marked = (found.group(2).strip() if found else None), []
        if line == "*** End Patch":
            return


def asked(changes: Iterable[FileChange]) -> list[FileChange]:
    """Changes as a call asks for them."""
    return [msgspec.structs.replace(change, asked=True) for change in changes]


def written(path: str | None, content: str | None, call: str | None) -> list[FileChange]:
    """A file that a call writes as a whole; what it overwrites is not known."""
    changes = asked(text_change(path, "", content or "", call))
    return [msgspec.structs.replace(change, removed=None) for change in changes]
