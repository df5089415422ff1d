"""The files that a session changed, edit by edit, as JSON and as a patch; from the same facts as its outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agenttrace.record.formats.contract import FileChange
from agenttrace.record.outcomes import Fact, known_sum, relative_to
from agenttrace.views.outcomes import OutcomeSource
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session

#: Characters of all diffs that are read of a session, and of those in one answer.
MOST_READ = 20_000_000
MOST_CHARACTERS = 4_000_000
MOST_EDITS = 5_000

#: How the diff of a file that was written as a whole begins.
_WHOLE = "@@ -0,0 "
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class FileEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a file."""

    #: Its place among all edits of the session, from 1.
    number: int
    at: str | None
    #: The span of the line that says so.
    span_id: str | None
    added: int | None
    removed: int | None
    known_from: OutcomeSource
    #: The hunks of a unified diff; empty where the log does not have them, or ``cut``.
    diff: str
    #: Whether the numbers in the headers of hunks are those of the file.
    numbered: bool
    created: bool
    deleted: bool
    #: True where the diff is too long for this answer.
    cut: bool


class FileEdits(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its edits, in order."""

    #: Relative to the working directory, where it is below it.
    path: str
    #: As the log says; for editors.
    full_path: str
    added: int | None
    removed: int | None
    edits: list[FileEdit]


class SessionChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Every file that a session changed."""

    session_id: str
    agent: str
    project: str | None
    files: list[FileEdits]
    added: int | None
    removed: int | None
    #: All edits; further ones than ``MOST_EDITS`` are not listed.
    edits: int


def changes_of(
    session: Session, facts: Iterable[Fact], *, path: str | None = None, characters: int = MOST_CHARACTERS
) -> SessionChanges:
    """The files that a session changed, or one of them; beyond so many characters edits have no diff."""
    all_edits = [(fact, fact.what) for fact in facts if isinstance(fact.what, FileChange)]
    files: dict[str, list[tuple[FileChange, FileEdit]]] = {}
    for number, (fact, change) in enumerate(all_edits[:MOST_EDITS], 1):
        name = relative_to(session.project, change.path)
        if path is None or name == path:
            characters -= len(change.diff)
            files.setdefault(name, []).append((change, _edit(number, fact, change, whole=characters >= 0)))
    found = [_file(name, each, session.project) for name, each in files.items()]
    return SessionChanges(
        session_id=session.session_id,
        agent=session.agent,
        project=session.project,
        files=found,
        added=known_sum(file.added for file in found),
        removed=known_sum(file.removed for file in found),
        edits=len(all_edits),
    )


def _edit(number: int, fact: Fact, change: FileChange, *, whole: bool) -> FileEdit:
    return FileEdit(
        number=number,
        at=iso(fact.at),
        span_id=None if fact.span_id is None else fact.span_id.hex(),
        added=change.added,
        removed=change.removed,
        known_from=fact.known_from,
        diff=change.diff if whole else "",
        numbered=change.numbered,
        created=change.created,
        deleted=change.deleted,
        cut=change.cut or not whole,
    )


def _file(name: str, edits: Sequence[tuple[FileChange, FileEdit]], project: str | None) -> FileEdits:
    full = edits[0][0].path
    is_absolute = full.startswith(("/", "\\")) or full[1:2] == ":"
    return FileEdits(
        path=name,
        full_path=full if is_absolute or not project else f"{project.rstrip('/')}/{full}",
        added=known_sum(edit.added for _, edit in edits),
        removed=known_sum(edit.removed for _, edit in edits),
        edits=[edit for _, edit in edits],
    )


# -- as a patch ---------------------------------------------------------------------------------------------------


def patch_of(changes: SessionChanges) -> Iterator[str]:
    """A patch of all edits, in their order; those without a diff are named in a comment."""
    every = [(edit, file.path) for file in changes.files for edit in file.edits]
    for edit, path in sorted(every, key=lambda each: each[0].number):
        yield edit_patch(path, edit)


def edit_patch(path: str, edit: FileEdit) -> str:
    """One edit as a patch."""
    if not edit.diff:
        what = "deleted; " if edit.deleted else ""
        return f"# {one_line_path(path)}: {what}{'the diff is too long' if edit.cut else 'the log has no diff'}\n"
    before, after = _quoted("a", path), _quoted("b", path)
    head, old, new = f"diff --git {before} {after}\n", _ended(before), _ended(after)
    if edit.created or edit.diff.startswith(_WHOLE):
        head, old = f"{head}new file mode 100644\n", "/dev/null"
    elif edit.deleted:
        head, new = f"{head}deleted file mode 100644\n", "/dev/null"
    return f"{_remark(edit)}{head}--- {old}\n+++ {new}\n{edit.diff}"


def _remark(edit: FileEdit) -> str:
    if not edit.numbered:
        return "# the line numbers are not those of the file: the log does not have them\n"
    if edit.diff.startswith(_WHOLE) and not edit.created:
        return "# written as a whole: what the file was before is not in the log\n"
    return ""


def one_line_path(path: str) -> str:
    """A path in a comment."""
    return "".join(_ESCAPES.get(char, char) for char in path)


def _quoted(side: str, path: str) -> str:
    """A name as git writes it."""
    name = f"{side}/{path.lstrip('/')}"
    escaped = "".join(_ESCAPES.get(char, char if char >= " " else f"\\{ord(char):03o}") for char in name)
    return name if escaped == name else f'"{escaped}"'


def _ended(name: str) -> str:
    # A name with blanks ends with a tab, by which programs know its end.
    return f"{name}\t" if " " in name else name
