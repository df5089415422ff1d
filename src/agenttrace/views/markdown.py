"""Markdown with recorded texts escaped or fenced."""

from __future__ import annotations

import re

from agenttrace.views.transcript import visible

_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&$])")
_RUN = re.compile(r"`+")
_LABELS = {"prompt": "Prompt", "text": "Answer", "media": "Attached"}
DEEPEST_HEADING = 6


def fenced(text: str, language: str = "text") -> str:
    """The text in a fence that is longer than every run of backticks in it."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def escaped(text: str) -> str:
    """A text without Markdown in it."""
    return _SPECIAL.sub(r"\\\1", visible(text))


def label_of(kind: str) -> str:
    """The label above a text of this kind."""
    return _LABELS.get(kind, kind.capitalize())
