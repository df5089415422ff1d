"""What the arguments of a tool call say to a reader: a shell command, changes of files, or one line about it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from agenttrace.record.formats.lenient import DECODING_ERRORS
from agenttrace.record.outcomes import shell_command
from agenttrace.views.plain import one_line

_PATHS = ("file_path", "path", "notebook_path", "absolute_path", "filename")
_OLD = ("old_string", "old_str", "old", "old_text")
_NEW = ("new_string", "new_str", "new", "new_text", "new_source")
#: Tools that write a whole file: a ``content`` elsewhere may be anything.
_WRITES = re.compile(r"(?:write|create|save)(?:_?(?:file|to_file))?", re.IGNORECASE)
_PATCH = re.compile(r"^\*\*\* Begin Patch", re.MULTILINE)
_PATCHED_FILE = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.+)")
#: The arguments that describe a call best, in order.
_TELLING = (
    *("command", "cmd", "file_path", "path", "notebook_path", "absolute_path", "pattern", "query", "url"),
    *("description", "prompt", "question", "message", "title", "name", "id"),
)
#: What editing tools do, which is no command of a shell.
_EDITOR_COMMANDS = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})
_LINE_CHARS = 300
#: Comparing lines takes longer than linear time: of longer texts only what they begin and end with alike is found.
_MOST_LINES = 1_000
#: Lines that are shown around a change.
_AROUND = 3

_anything = msgspec.json.Decoder()


class FileEdit(NamedTuple):
    """A change of a file, as texts before and after."""

    path: str
    before: str
    after: str


class DiffLine(NamedTuple):
    """A line of a comparison; ``skipped`` stands for unchanged lines that are not shown."""

    change: Literal["added", "removed", "same", "skipped"]
    text: str


class ToolCall(NamedTuple):
    """A tool call for a reader."""

    #: The shell command, where it is one.
    command: str | None
    edits: list[FileEdit]
    #: One line about the call.
    summary: str
    #: Where it is neither a command nor an edit: the arguments, a line each.
    arguments: str


def tool_call(tool: str, arguments: str) -> ToolCall:
    """What these arguments say."""
    fields = _fields(arguments)
    edits = _edits(tool, arguments, fields)
    command = None if edits or fields is None else shell_command(fields)
    if command in _EDITOR_COMMANDS:
        command = None
    return ToolCall(command, edits, _summary(arguments, fields, command, edits), _listed_fields(arguments, fields))


def _listed_fields(arguments: str, fields: Mapping[str, Any] | None) -> str:
    if not fields:
        return arguments
    return "\n".join(f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in fields.items())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fields(arguments: str) -> dict[str, Any] | None:
    if not arguments.lstrip().startswith("{"):
        return None
    try:
        value = _anything.decode(arguments)
    except DECODING_ERRORS:
        return None
    return value if isinstance(value, dict) else None


def _summary(arguments: str, fields: Mapping[str, Any] | None, command: str | None, edits: list[FileEdit]) -> str:
    if command is not None:
        return one_line(command[: 4 * _LINE_CHARS], _LINE_CHARS)
    if edits:
        return one_line(", ".join(dict.fromkeys(edit.path for edit in edits if edit.path)), _LINE_CHARS)
    if fields is None:
        return one_line(arguments[: 4 * _LINE_CHARS], _LINE_CHARS)
    told = [fields.get(name) for name in _TELLING if fields.get(name) not in _EDITOR_COMMANDS] + list(fields.values())
    text = next((each for each in told if isinstance(each, str) and each.strip()), "")
    return one_line(text[: 4 * _LINE_CHARS], _LINE_CHARS)


# -- changes of files ---------------------------------------------------------------------------------------------


def _edits(tool: str, arguments: str, fields: Mapping[str, Any] | None) -> list[FileEdit]:
    if fields is None:
        return list(_patch_edits(arguments)) if _PATCH.search(arguments) else []
    patch = _patch_in(fields)
    if patch is not None:
        return list(_patch_edits(patch))
    path = _first(fields, _PATHS) or ""
    whole = _first(fields, ("content", "contents")) if _WRITES.fullmatch(tool) else None
    content = whole if whole is not None else _first(fields, ("file_text",))
    if content is not None:
        return [FileEdit(path, "", content)]
    return list(_replacements(fields, path))


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _replacements(fields: Mapping[str, Any], path: str) -> Iterator[FileEdit]:
    several = [each for name in ("edits", "edit") for each in _listed(fields.get(name)) if isinstance(each, dict)]
    parts: list[Mapping[str, Any]] = [*several] or [fields]
    for part in parts:
        after = _first(part, _NEW)
        if after is not None:
            yield FileEdit(_first(part, _PATHS) or path, _first(part, _OLD) or "", after)


def _patch_in(fields: Mapping[str, Any]) -> str | None:
    """A patch as one of the arguments, or inside a command."""
    given = [each for name in ("input", "patch", "command", "cmd") for each in _listed(fields.get(name))]
    return next((each for each in given if isinstance(each, str) and _PATCH.search(each)), None)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _patch_edits(patch: str) -> Iterator[FileEdit]:
    """The edits of an ``apply_patch`` text; each hunk is one edit."""
    begin = _PATCH.search(patch)
    path, before, after = "", list[str](), list[str]()
    for line in patch[begin.start() if begin else 0 :].split("\n"):
        if line.startswith(("@@", "*** ")):
            if before or after:
                yield FileEdit(path, _joined(before), _joined(after))
            before, after = [], []
        if file := _PATCHED_FILE.fullmatch(line.rstrip("\r")):
            path = file[1]
        elif line.startswith("*** End Patch"):
            return
        else:
            if line[:1] in ("-", " "):
                before.append(line[1:])
            if line[:1] in ("+", " "):
                after.append(line[1:])
    if before or after:
        yield FileEdit(path, _joined(before), _joined(after))


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def diff_lines(edit: FileEdit) -> Iterator[DiffLine]:
    """An edit line by line, with a few unchanged lines around each change."""
    before, after = _lines(edit.before), _lines(edit.after)
    if len(before) + len(after) > _MOST_LINES:
        blocks = _by_ends(before, after)
    else:
        blocks = [*difflib.SequenceMatcher(None, before, after).get_opcodes()]
    for number, (tag, start, end, new_start, new_end) in enumerate(blocks):
        if tag == "equal":
            yield from _unchanged(before[start:end], first=number == 0, last=number == len(blocks) - 1)
        else:
            yield from (DiffLine("removed", line) for line in before[start:end])
            yield from (DiffLine("added", line) for line in after[new_start:new_end])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    # A line end closes the last line and begins no new one.
    return lines[:-1] if lines[-1] == "" else lines


_Block = tuple[str, int, int, int, int]


def _by_ends(before: list[str], after: list[str]) -> list[_Block]:
    """One changed block between what both begin and end with."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    ends = len(before) - tail, len(after) - tail
    return [
        ("equal", 0, head, 0, head),
        ("replace", head, ends[0], head, ends[1]),
        ("equal", ends[0], len(before), ends[1], len(after)),
    ]


def _unchanged(lines: list[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    head = 0 if first else _AROUND
    tail = 0 if last else _AROUND
    if len(lines) <= head + tail + 1:
        yield from (DiffLine("same", line) for line in lines)
        return
    yield from (DiffLine("same", line) for line in lines[:head])
    yield DiffLine("skipped", f"{len(lines) - head - tail:,} unchanged lines")
    yield from (DiffLine("same", line) for line in lines[len(lines) - tail :])
