"""Changed files in the notations that agents write: unified diffs, hunks, patches, and texts before and after."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from agenttrace.record.formats.contract import FileChange
from agenttrace.record.formats.lenient import DECODING_ERRORS

#: Added lines of one change that are carried along, and how much of each.
MOST_LINES = 400
_MOST_CHARACTERS = 400
#: Characters of the diff of one change.
MOST_DIFF = 400_000
#: Texts with more lines than this are not compared line by line, which could take minutes.
_MOST_COMPARED = 4_000
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
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


class Hunk(NamedTuple):
    """Lines of a diff, each with ``+``, ``-`` or a blank before it."""

    #: The first line before and after; ``None`` where the agent does not say.
    old: int | None
    new: int | None
    lines: list[str]


class Made(NamedTuple):
    """What a change did to the file itself."""

    created: bool = False
    deleted: bool = False


def change_of(
    path: str | None,
    hunks: Iterable[Hunk],
    call: str | None = None,
    made: Made = Made(),  # noqa: B008 - a tuple
) -> Iterator[FileChange]:
    """A change from its hunks."""
    if not path:
        return
    found = [hunk for hunk in hunks if hunk.lines]
    marked = [line for hunk in found for line in hunk.lines]
    added = [line[1:] for line in marked if line.startswith("+")]
    diff = _rendered(found)
    yield FileChange(
        path=path,
        added=len(added),
        removed=sum(line.startswith("-") for line in marked),
        lines=tuple(line[:_MOST_CHARACTERS] for line in added[:MOST_LINES]),
        diff=diff if len(diff) <= MOST_DIFF else "",
        cut=len(diff) > MOST_DIFF,
        numbered=all(hunk.old is not None for hunk in found),
        created=made.created,
        deleted=made.deleted,
        call=call,
    )


def _rendered(hunks: Sequence[Hunk]) -> str:
    """The text of hunks; those without numbers count from the one before."""
    pieces: list[str] = []
    next_old = next_new = 1
    for hunk in hunks:
        old = sum(line.startswith((" ", "-")) for line in hunk.lines)
        new = sum(line.startswith((" ", "+")) for line in hunk.lines)
        start_old = hunk.old if hunk.old is not None else next_old if old else next_old - 1
        start_new = hunk.new if hunk.new is not None else next_new if new else next_new - 1
        pieces += [f"@@ -{start_old},{old} +{start_new},{new} @@", *hunk.lines]
        next_old, next_new = next_old + old, next_new + new
    return "".join(f"{piece}\n" for piece in pieces)


def hunks_of(diff: str) -> Iterator[Hunk]:
    """The hunks of a unified diff of one file; its header is not among them."""
    old = new = 0
    hunk: Hunk | None = None
    for line in diff.split("\n"):
        found = _HUNK.match(line) if old <= 0 and new <= 0 else None
        if found is not None:
            if hunk is not None:
                yield hunk
            hunk = Hunk(int(found[1]), int(found[3]), [])
            old, new = int(found[2] or 1), int(found[4] or 1)
        elif hunk is not None and (old > 0 or new > 0):
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
            # Some agents leave out the blank of an empty line.
            hunk.lines.append(line or " ")
        elif hunk is not None and line.startswith("\\"):
            hunk.lines.append(line)
    if hunk is not None:
        yield hunk


def diff_change(path: str | None, diff: str | None, call: str | None = None) -> Iterator[FileChange]:
    """A change from a unified diff."""
    if diff is not None:
        hunks = list(hunks_of(diff))
        made = Made(
            created=_is_whole(hunks, "+") and hunks[0].old == 0, deleted=_is_whole(hunks, "-") and hunks[0].new == 0
        )
        yield from change_of(path, hunks, call, made)


def _is_whole(hunks: Sequence[Hunk], sign: str) -> bool:
    return len(hunks) == 1 and all(line.startswith((sign, "\\")) for line in hunks[0].lines)


def text_change(
    path: str | None,
    old: str,
    new: str,
    call: str | None = None,
    made: Made = Made(),  # noqa: B008 - a tuple
) -> Iterator[FileChange]:
    """A change from the text before and after; they are all of the file where it was created or deleted."""
    if not path:
        return
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > _MOST_COMPARED and before and after:
        yield FileChange(path=path, call=call, cut=True)
    else:
        yield from change_of(path, _compared(before, after, new if made.created else old, made), call, made)


def _compared(before: list[str], after: list[str], whole: str, made: Made) -> Iterator[Hunk]:
    numbered = made.created or made.deleted
    if not (before and after):
        # Nothing to compare; a file that is created or deleted may end without a line end.
        lines = [f"-{line}" for line in before] + [f"+{line}" for line in after]
        ending = ["\\ No newline at end of file"] if numbered and lines and not whole.endswith("\n") else []
        yield Hunk(int(bool(before)) if numbered else None, int(bool(after)) if numbered else None, lines + ending)
        return
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes():
        lines = []
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in before[start:end]]
            else:
                lines += [f"-{line}" for line in before[start:end]] + [f"+{line}" for line in after[new_start:new_end]]
        yield Hunk(None, None, lines)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def envelope_changes(patch: str, call: str | None = None) -> Iterator[FileChange]:
    """The changes of a patch between ``*** Begin Patch`` and ``*** End Patch``."""
    path: str | None = None
    made, hunks = Made(), [Hunk(None, None, [])]
    for line in [*patch.splitlines(), "*** End Patch"]:
        if line.startswith("@@"):
            hunks.append(Hunk(None, None, []))
        elif not line.startswith("*** "):
            hunks[-1].lines.append(line or " ")
        elif line.startswith("*** Move to: "):
            path = line.removeprefix("*** Move to: ").strip()
        elif line != "*** End of File":
            yield from change_of(path, hunks, call, made)
            found = _PATCHED.fullmatch(line)
            path = found.group(2).strip() if found else None
            made = Made(created=bool(found and found[1] == "Add"), deleted=bool(found and found[1] == "Delete"))
            hunks = [Hunk(0, 1, []) if made.created else Hunk(None, None, [])]
            if line == "*** End Patch":
                return


def asked(changes: Iterable[FileChange]) -> list[FileChange]:
    """Changes as a call asks for them."""
    return [msgspec.structs.replace(change, asked=True) for change in changes]


def written(path: str | None, content: str | None, call: str | None) -> list[FileChange]:
    """A file that a call writes as a whole; what it overwrites is not known."""
    changes = asked(text_change(path, "", content or "", call, Made(created=True)))
    return [msgspec.structs.replace(change, removed=None, created=False) for change in changes]
