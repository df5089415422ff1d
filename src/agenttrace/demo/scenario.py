"""What happens in a demo session, told once and written by every format in its own way."""

from __future__ import annotations

from typing import Literal

import msgspec


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and what came of it."""

    kind: Literal["shell", "read", "edit", "search", "delegate"]
    #: The command, the path, the pattern, or what the subagent is to do.
    subject: str
    output: str
    #: What an edit replaces, and by what.
    old: str = ""
    new: str = ""
    failed: bool = False
    seconds: float = 0.8
    #: What the subagent did, for ``delegate``.
    work: tuple[Step, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model."""

    thinking: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    #: The first attempt broke off, and the agent tried again.
    retried: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt and the work it caused."""

    prompt: str
    steps: tuple[Step, ...]
    #: True when the model's service refused the last request, so that the turn has no answer.
    refused: bool = False


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session."""

    title: str
    folder: str
    branch: str
    turns: tuple[Turn, ...]

    @property
    def cwd(self) -> str:
        """Where the agent works."""
        return f"/home/dev/{self.folder}"


def shell(command: str, output: str, *, failed: bool = False, seconds: float = 0.8) -> Call:
    """A command."""
    return Call(kind="shell", subject=command, output=output, failed=failed, seconds=seconds)


def read(path: str, output: str) -> Call:
    """A file is read."""
    return Call(kind="read", subject=path, output=output, seconds=0.1)


def edit(path: str, old: str, new: str) -> Call:
    """A file is changed."""
    return Call(kind="edit", subject=path, output="", old=old, new=new, seconds=0.1)


def search(pattern: str, output: str) -> Call:
    """The tree is searched."""
    return Call(kind="search", subject=pattern, output=output, seconds=0.3)


def delegate(task: str, report: str, work: tuple[Step, ...]) -> Call:
    """A subagent does it and reports."""
    return Call(kind="delegate", subject=task, output=report, work=work)
