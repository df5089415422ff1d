"""Files that Codex changed: the patches of ``apply_patch``, and what the event of their end says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agenttrace.record.formats.contract import Applied, FileChange, Outcome
from agenttrace.record.formats.diffs import Made, asked, decoded, diff_change, envelope_changes, text_change
from agenttrace.record.formats.lenient import lookup, text_at

_BEGIN = "*** Begin Patch"
_SUCCEEDED = re.compile(r'"exit_code": ?0\b|\ASuccess\.|\AExit code: 0\b|^Process exited with code 0$', re.MULTILINE)


def changes(raw: bytes) -> Iterable[Outcome]:
    """The changes in a line, and whether those of a call were made."""
    payload = lookup(decoded(raw, b"*** Begin Patch", b"_call_output", b'"patch_apply_end"'), "payload")
    kind, call = text_at(payload, "type"), text_at(payload, "call_id")
    if call is None:
        return []
    if kind == "patch_apply_end":
        return _ended(payload, call)
    if kind in ("custom_tool_call_output", "function_call_output"):
        return [Applied(call=call)] if _SUCCEEDED.search(_output(payload)) else []
    patch = text_at(payload, "input") or text_at(payload, "arguments") or ""
    if kind == "function_call":
        patch = _inside(patch)
    place = patch.find(_BEGIN)
    return asked(envelope_changes(patch[place + len(_BEGIN) :], call)) if place >= 0 else []


def _output(payload: object) -> str:
    output = lookup(payload, "output")
    return output if isinstance(output, str) else text_at(output, "content") or ""


def _inside(arguments: str) -> str:
    """The patch among the arguments of a shell command."""
    value = decoded(arguments.encode("utf-8", "replace"), _BEGIN.encode())
    command = lookup(value, "command") or lookup(value, "cmd") or lookup(value, "input")
    texts = command if isinstance(command, list) else [command]
    return next((text for text in texts if isinstance(text, str) and _BEGIN in text), "")


def _ended(payload: object, call: str) -> Iterator[FileChange]:
    files = lookup(payload, "changes")
    if lookup(payload, "success") is not True or not isinstance(files, dict):
        return
    for path, change in files.items():
        kind = text_at(change, "type")
        content = text_at(change, "content") or ""
        if kind == "add":
            yield from text_change(path, "", content, call, Made(created=True))
        elif kind == "delete":
            yield from text_change(path, content, "", call, Made(deleted=True))
        else:
            yield from diff_change(text_at(change, "move_path") or path, text_at(change, "unified_diff"), call)
