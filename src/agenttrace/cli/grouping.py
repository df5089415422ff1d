"""Groups of commands with a default: without a command they list, with a number they show that one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

_HELP = ("-h", "--help")


class ListFirst(TyperGroup):
    """``jobs`` is ``jobs list``, ``jobs --status failed`` too, and ``jobs 12`` is ``jobs show 12``."""

    first = "list"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        """Insert the command that was left out."""
        first = args[0] if args else ""
        if not args or (first.startswith("-") and first not in _HELP):
            args = [self.first, *args]
        elif self.names_one(first) and "show" in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def names_one(self, word: str) -> bool:
        """Whether a first word names one of the listed things."""
        return word.isdecimal()


class StatusFirst(ListFirst):
    """``export`` is ``export status``."""

    first = "status"


class NameFirst(ListFirst):
    """``prices claude-opus-5`` is ``prices show claude-opus-5``: a first word that is no command is a name."""

    def names_one(self, word: str) -> bool:
        """Whether a first word names one of the listed things."""
        return word not in self.commands and not word.startswith("-")
