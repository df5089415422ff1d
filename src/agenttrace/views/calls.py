"""The arguments of a tool call as people write them: the command, the file, the pattern, and not JSON."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agenttrace import nesting
from agenttrace.views.plain import one_line

#: The arguments that describe a call best, in order.
_TELLING = (
    "command",
    "cmd",
    "file_path",
    "path",
    "notebook_path",
    "absolute_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "question",
    "message",
    "title",
    "name",
    "id",
)
_PATHS = frozenset(("file_path", "path", "notebook_path", "absolute_path"))
_SOUGHT = ("pattern", "query", "regex")
_SHELL = re.compile(r"(?:.*/)?(?:ba|z|da)?sh")
_SHELL_OPTION = re.compile(r"-\w*c")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
#: A field of JSON that is cut off, and as much of its text as there is.
_BEGUN = re.compile(r'"(' + "|".join(_TELLING) + r')"\s*:\s*"((?:[^"\\]|\\.)*)')


def call_line(arguments: str, limit: int = 0) -> str:
    """One safe line about a call: ``pytest -q`` instead of ``{"command": "pytest -q"}``."""
    fields = _fields(arguments)
    if fields is None:
        return one_line(_patch(arguments) or _begun(arguments) or arguments, limit)
    return one_line(_telling(fields) or _listed(fields), limit)


def call_text(arguments: str) -> str:
    """The whole call: what describes it best first, then the other arguments, one on a line; not made safe."""
    fields = _fields(arguments)
    if fields is None:
        return arguments
    name = next((name for name in _TELLING if _said(fields.get(name))), None)
    first = [] if name is None else [_said(fields[name])]
    return "\n".join([*first, *(f"{other}: {_value(value)}" for other, value in fields.items() if other != name)])


def is_begun(arguments: str) -> bool:
    """Whether the text is the beginning of arguments, and the rest is to come."""
    return arguments.lstrip().startswith("{") and _fields(arguments) is None


def _fields(arguments: str) -> dict[str, Any] | None:
    """The arguments by name; ``None`` where the text is no object of JSON."""
    if not arguments.lstrip().startswith("{"):
        return None
    try:
        fields = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return nesting.cut(fields) if isinstance(fields, dict) else None


def _telling(fields: dict[str, Any]) -> str:
    name = next((name for name in _TELLING if _said(fields.get(name))), None)
    if name is None:
        return next((patch for value in fields.values() if isinstance(value, str) and (patch := _patch(value))), "")
    sought = next((_said(fields[each]) for each in _SOUGHT if _said(fields.get(each))), "") if name in _PATHS else ""
    return f"{sought} in {_said(fields[name])}" if sought else _said(fields[name])


def _listed(fields: dict[str, Any]) -> str:
    """All arguments of a call that has none of the usual ones."""
    return ", ".join(f"{name}: {_value(value)}" for name, value in fields.items())


def _said(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return _command(value)
    return ""


def _command(parts: list[str]) -> str:
    """``bash -lc "ls"`` is shown as ``ls``."""
    wrapped = len(parts) == 3 and _SHELL.fullmatch(parts[0]) and _SHELL_OPTION.fullmatch(parts[1])
    return parts[2] if wrapped else " ".join(parts)


def _value(value: object) -> str:
    """A value without the quotes and brackets of JSON."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ("; " if any(isinstance(part, dict) for part in value) else ", ").join(map(_value, value))
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _patch(text: str) -> str:
    """The files of a patch in the form that Codex writes."""
    return ", ".join(_PATCHED.findall(text)) if text.startswith("*** Begin Patch") else ""


def _begun(arguments: str) -> str:
    """What describes a call best, of arguments that were cut off or are streamed."""
    if not arguments.lstrip().startswith("{"):
        return ""
    found = {match[1]: match[2] for match in _BEGUN.finditer(arguments)}
    name = next((name for name in _TELLING if found.get(name)), None)
    if name is None:
        return ""
    try:
        return str(msgspec.json.decode(f'"{found[name]}"'))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return found[name]
