"""The entries of AgentTrace in a document of settings: put in, found, and taken out again.

Documents have ``{"hooks": {EVENT: [{"hooks": [{"type": "command", "command": …}]}]}}``. Only commands of AgentTrace are
taken out, and what was created for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agenttrace.hooks import json_text
from agenttrace.hooks.json_text import Node

_OWN = re.compile(r"agenttrace(?:\.cli\.main|\.exe)?[\"']?\s+(guard\s+--agent|statusline)\b")
#: A document that has nothing.
EMPTY = "{}\n"


class HookConflictError(ValueError):
    """A document in which a hook cannot be written without changing what the user wrote."""


class Edited(NamedTuple):
    """A document, and what had to be created in it, by path: ``hooks``, ``hooks.PreToolUse``."""

    text: str
    created: tuple[str, ...]


def is_own(command: object) -> bool:
    """Whether a command is one of AgentTrace."""
    return isinstance(command, str) and _OWN.search(command) is not None


def with_hooks(text: str, groups: Mapping[str, Mapping[str, Any]]) -> Edited:
    """The document with one group of hooks for each event; own ones that are there are replaced."""
    text = without_hooks(text if text.strip("\ufeff \t\r\n") else EMPTY, ()).text
    created: list[str] = []
    text = _ensured(text, (), "hooks", {}, created)
    for event, group in groups.items():
        text = _ensured(text, ("hooks",), event, [], created)
        target = _at(json_text.parse(text), ("hooks", event))
        if target is None or target.kind != "array":
            raise HookConflictError(f'"hooks"."{event}" is not a list')
        text = json_text.added(text, target, "", group, 2)
    return Edited(text, tuple(created))


def without_hooks(text: str, created: Sequence[str]) -> Edited:
    """The document without commands of AgentTrace, and without what was created for them if it is empty now."""
    text = _without_own(text)
    for path in sorted(created, key=lambda each: -each.count(".")):
        root = json_text.parse(text)
        names = path.split(".", 1)
        target = _at(root, names)
        if target is not None and target.kind != "scalar" and not target.parts:
            container = _at(root, names[:-1])
            assert container is not None
            text = json_text.removed(text, container, place_of(container, names[-1]))
    return Edited(text, ())


def own_commands(text: str) -> dict[str, list[str]]:
    """The commands of AgentTrace in a document, by event."""
    hooks = _at(json_text.parse(text), ("hooks",))
    found: dict[str, list[str]] = {}
    for part in hooks.parts if hooks is not None and hooks.kind == "object" else ():
        commands = [command for _, _, _, command in _own_places(part.value)]
        if commands:
            found.setdefault(part.key, []).extend(commands)
    return found


def _without_own(text: str) -> str:
    """Each command is taken out on its own, as what stands behind it moves; a group that had no other goes too."""
    while True:
        hooks = _at(document_of(text), ("hooks",))
        found = next(
            (
                (part.value, *place)
                for part in (hooks.parts if hooks is not None and hooks.kind == "object" else ())
                for place in _own_places(part.value)
            ),
            None,
        )
        if found is None:
            return text
        groups, number, commands, place, _ = found
        if len(commands.parts) == 1:
            text = json_text.removed(text, groups, number)
        else:
            text = json_text.removed(text, commands, place)


def _own_places(groups: Node) -> list[tuple[int, Node, int, str]]:
    """Group, its list of commands, the place in that, and the command, of each that is of AgentTrace."""
    found = []
    for number, group in enumerate(groups.parts if groups.kind == "array" else ()):
        commands = group.value.get("hooks") if group.value.kind == "object" else None
        for place, each in enumerate(commands.parts if commands is not None and commands.kind == "array" else ()):
            command = each.value.get("command") if each.value.kind == "object" else None
            if commands is not None and command is not None and is_own(command.scalar):
                found.append((number, commands, place, command.scalar))
    return found


def _ensured(text: str, path: Sequence[str], key: str, empty: object, created: list[str]) -> str:
    container = _at(document_of(text), path)
    if container is None or container.kind != "object":
        raise HookConflictError(f'"{".".join(path)}" is not an object')
    if container.get(key) is not None:
        return text
    created.append(".".join((*path, key)))
    return json_text.added(text, container, key, empty, len(path))


def document_of(text: str) -> Node:
    """The object that a document is."""
    root = json_text.parse(text)
    if root.kind != "object":
        raise HookConflictError("the document is not an object")
    return root


def _at(node: Node | None, path: Sequence[str]) -> Node | None:
    for key in path:
        node = None if node is None or node.kind != "object" else node.get(key)
    return node


def place_of(container: Node, key: str) -> int:
    """Which part of an object has this name; of several the last."""
    return max(number for number, part in enumerate(container.parts) if part.key == key)
