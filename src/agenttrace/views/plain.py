"""Text from logs made safe: nothing in it that a terminal acts upon, that turns writing around or cannot be seen."""

from __future__ import annotations

import re
from collections.abc import Callable

#: Escape sequences: CSI, OSC and other strings (an open one ends with its line), and the short ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

#: Invisible everywhere: C1 controls, marks that change the direction of writing, spaces without
#: width, fillers, tags (U+E0000 and following, in which whole sentences can be hidden), halves of surrogate pairs.
_NEVER_SEEN = (
    "\x80-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff\ud800-\udfff"
)
_JOINERS = "\u200c\u200d"
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_OTHER_SELECTORS = "\ufe00-\ufe0d\u180b-\u180d\u180f\U000e0100-\U000e01ef"
_UNSEEN = _NEVER_SEEN + _JOINERS + _EMOJI_SELECTORS + _OTHER_SELECTORS
#: The flags of England, Scotland and Wales are made of tags; no others are in use.
_FLAGS = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in f"{region}\x7f")
    for region in ("gbeng", "gbsct", "gbwls")
)
#: What belongs to writing: one joiner between letters of such scripts, or in an emoji; one selector behind what it
#: selects a form of. Several in a row mean nothing to a reader, and can hold a message.
_WRITING = (
    f"{_FLAGS}"
    f"|(?<=[^\x00-\x7f{_NEVER_SEEN}{_JOINERS}{_OTHER_SELECTORS}])[{_JOINERS}](?=[^\x00-\x7f{_UNSEEN}])"
    f"|(?<=[^\x00-\x20{_UNSEEN}])[{_EMOJI_SELECTORS}]"
    f"|(?<=[^\x00-\x7f{_UNSEEN}])[{_OTHER_SELECTORS}]"
)
_HIDDEN = re.compile(f"({_WRITING})|[{_UNSEEN}]+")


_PARTS = re.compile(f"[{_UNSEEN}]")
#: No character that is made of several has more.
_LONGEST_CHARACTER = 40


def cut_before(text: str, end: int) -> int:
    """Where to cut a text, at ``end`` or a little before it, so that no emoji or letter is taken apart."""
    for place in range(end, max(0, end - _LONGEST_CHARACTER), -1):
        if not _PARTS.search(text, place - 1, place + 1):
            return place
    return 0 if end < _LONGEST_CHARACTER else end


def hidden_replaced(text: str, replacement: Callable[[str], str]) -> str:
    """The text with each run of characters that cannot be seen replaced; those that writing needs stay."""
    if text.isascii():
        return text
    return _HIDDEN.sub(lambda found: found[1] or replacement(found[0]), text)


def safe(text: str) -> str:
    """The text without anything a terminal would act upon; tabs and line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    printed = _CONTROLS.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))
    return hidden_replaced(printed, lambda run: "")


def one_line(text: str, limit: int = 0) -> str:
    """Safe text on one line, cut to ``limit`` characters where one is given."""
    line = " ".join(safe(text).split())
    return line[: limit - 1].rstrip() + "…" if limit and len(line) > limit else line
