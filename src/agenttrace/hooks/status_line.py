"""The status line in a document of settings: AgentTrace's, alone or with the command of the user that was there before.

A command of the user becomes ``agenttrace statusline --then 'COMMAND'``. Only the text of the command is changed, so
that taking it out again leaves the document as it was, to the letter.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from agenttrace.hooks import json_text
from agenttrace.hooks.entries import EMPTY, HookConflictError, document_of, is_own, place_of
from agenttrace.hooks.json_text import Node

_KEY = "statusLine"
#: One program and its arguments, with no line of a shell around it; the user's command is quoted for a shell.
_LINE = re.compile(
    r"""(?: "[^"\n]*agenttrace[^"\n]*" | '[^'\n]*agenttrace[^'\n]*'
        | (?: (?: "[^"\n]*" | '[^'\n]*' ) \s+ )? [^;&|<>`$()\n"']* agenttrace (?: \.cli\.main | \.exe )? )
    \s+ statusline (?P<then> \s+ --then \s+ '(?: [^'] | '"'"' )*' )? \s*""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\u0027|\\.")
_THEN = re.compile(r"statusline\s+--then\s+'")
_BY_HAND = "set its command by hand to: agenttrace statusline --then 'YOUR COMMAND'"
#: A quote in a word that is quoted for a shell, as the text of a JSON string has it.
_QUOTE = "'\\\"'\\\"'"


class _Known(NamedTuple):
    """The command of a status line, in the document."""

    node: Node
    command: str
    #: Whether it is AgentTrace's, and with a command of the user.
    own: bool
    wraps: bool


def with_status_line(text: str, command: str) -> str:
    """The document with AgentTrace as the status line; the command of another one is called by it."""
    text = text if text.strip("\ufeff \t\r\n") else EMPTY
    root = document_of(text)
    if root.get(_KEY) is None:
        return json_text.added(text, root, _KEY, {"type": "command", "command": command}, 0)
    known = _known(root)
    if known is None:
        raise HookConflictError(f"another status line is set that is no command; {_BY_HAND}")
    if not known.own and is_own(known.command):
        raise HookConflictError(f"the status line calls AgentTrace in a command of your own; {_BY_HAND}")
    user = _user_text(text, known) if known.wraps else None if known.own else _inside(text, known.node)
    ours = json.dumps(command, ensure_ascii=False)[1:-1]
    if user is not None:
        quoted = user.replace("'", _QUOTE)
        ours = f"{ours} --then '{quoted}'"
    return _replaced(text, known.node, ours)


def without_status_line(text: str) -> str:
    """The document without AgentTrace in the status line: as it was before."""
    root = document_of(text)
    known = _known(root)
    if known is None or not known.own:
        return text
    if known.wraps:
        return _replaced(text, known.node, _user_text(text, known))
    return json_text.removed(text, root, place_of(root, _KEY))


def _known(root: Node) -> _Known | None:
    line = root.get(_KEY)
    node = line.get("command") if line is not None and line.kind == "object" else None
    if line is None or node is None or not isinstance(node.scalar, str) or not node.scalar.strip():
        return None
    kind = line.get("type")
    if kind is not None and kind.scalar != "command":
        return None
    found = _LINE.fullmatch(node.scalar)
    return _Known(node, node.scalar, found is not None, found is not None and found["then"] is not None)


def _inside(text: str, node: Node) -> str:
    """The text of a JSON string between its quotes, with its escapes as the user wrote them."""
    inside = text[node.start + 1 : node.end - 1]
    # A quote that is written as an escape would not be quoted for the shell.
    return _ESCAPE.sub(lambda found: "'" if found[0] == r"\u0027" else found[0], inside)


def _user_text(text: str, known: _Known) -> str:
    """The command of the user in one that calls it, as the user wrote it."""
    inside = _inside(text, known.node).rstrip()
    begin = _THEN.search(inside)
    assert begin is not None
    return inside[begin.end() : -1].replace(_QUOTE, "'")


def _replaced(text: str, node: Node, inside: str) -> str:
    return f'{text[: node.start]}"{inside}"{text[node.end :]}'
