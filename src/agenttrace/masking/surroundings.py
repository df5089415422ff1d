"""What is before a place in a text: the rest of a name, the beginning of a line, a URL."""

from __future__ import annotations

import re

#: A name is at most this long.
_NAME_CHARS = 64
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_OF_A_NAME = _LETTERS + "0123456789_-."
#: The ends of lines, also of those that JSON has escaped, and of the numbers that tools put before lines.
_LINE_ENDS = ("\n", "\r", "\u2192", "\\n")
_LOGIN = re.compile(r"login[ \t]+\S{1,64}[ \t]+$")
#: The ampersand also as Go's JSON and as HTML write it.
_PARAMETER = ("?", "&", "\\u0026", "&amp;")


def name_start(text: str, word: int) -> int:
    """Where the name begins that ends in the word at this place."""
    head = text[max(0, word - _NAME_CHARS) : word]
    start = word - len(head) + len(head.rstrip(_OF_A_NAME))
    if start < word and text[start - 1 : start] == "\\":
        # The first letter is that of an escape.
        start += 5 if text[start] == "u" else 1
    return min(start, word)


def word_before(text: str, start: int) -> str:
    """The word and the space before this place; empty if something else is there."""
    if start == 0 or text[start - 1] != " ":
        return ""
    head = text[max(0, start - 17) : start - 1]
    return head[len(head.rstrip(_LETTERS)) :] + " "


def is_parameter(text: str, start: int) -> bool:
    """Whether a parameter of a URL begins here."""
    return text[max(0, start - 6) : start].endswith(_PARAMETER)


def indent(text: str, start: int) -> str | None:
    """The white space between the beginning of the line and this place; None if there is more."""
    head = text[max(0, start - 40) : start].removesuffix("export ")
    before = head.rstrip(" \t")
    if before.endswith("-"):  # an item of a list
        before = before[:-1].rstrip(" \t")
    rest = head[len(before) :]
    if before.endswith(_LINE_ENDS) or (not before and start <= 40):
        return rest
    if rest.startswith("\t") and before[-1:].isdigit():  # a number and a tab
        return rest[1:]
    return None


def follows_login(text: str, start: int) -> bool:
    """Whether ``login NAME`` is before this place, as in a file of logins (netrc)."""
    return _LOGIN.search(text[max(0, start - 80) : start]) is not None
