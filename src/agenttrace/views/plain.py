"""Text from logs made safe: nothing in it that a terminal would act upon or that turns writing around."""

from __future__ import annotations

import re

#: Escape sequences: CSI, OSC and other strings (an open one ends with its line), and the short ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
#: Control characters, marks that turn the direction of writing around, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """The text without anything a terminal would act upon; tabs and line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, limit: int = 0) -> str:
    """Safe text on one line, cut to ``limit`` characters where one is given."""
    line = " ".join(safe(text).split())
    return line[: limit - 1].rstrip() + "…" if limit and len(line) > limit else line
