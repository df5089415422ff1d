"""How to go on with a recorded session: the agent's own command, in the session's directory."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.record.formats import AGENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.model import Session
    from agenttrace.record.formats.contract import ResumeCommand, ResumeLimit
    from agenttrace.record.texts.line_index import LineIndex
    from agenttrace.store.store import Store

_REMARKS: dict[ResumeLimit, str] = {
    "latest_only": "The agent can only go on with its latest session, which may be another one.",
    "whole_history": "The agent goes on with all chats of this directory, not with one of them.",
}


class Resume(NamedTuple):
    """A command, and where to run it."""

    arguments: tuple[str, ...]
    #: ``None`` where the log does not say.
    directory: str | None
    limit: ResumeLimit | None

    @property
    def command(self) -> str:
        """The agent's command for a shell."""
        return shlex.join(self.arguments)

    @property
    def line(self) -> str:
        """The whole line for a shell, directory included."""
        return self.command if self.directory is None else f"cd {shlex.quote(self.directory)} && {self.command}"

    @property
    def remark(self) -> str | None:
        """What the command cannot do."""
        return None if self.limit is None else _REMARKS[self.limit]

    @property
    def directory_gone(self) -> bool:
        """Whether the directory does not exist on this machine."""
        return self.directory is not None and not os.path.isdir(self.directory)


def resume_of(store: Store, session: Session, index: LineIndex) -> Resume | None:
    """How to go on with a session; ``None`` where its agent has no command for that."""
    agent = next((agent for agent in AGENTS if agent.name == session.agent), None)
    if agent is None or not _is_name(session.session_id):
        return None
    files = store.source_files(index.of(store, session.id).files())
    found = agent.resume_command(session.session_id, [Path(file.path) for file in files])
    return None if found is None else _checked(found, session.project)


def _checked(found: ResumeCommand, directory: str | None) -> Resume | None:
    """A command of which a user can see what it does."""
    if not _are_visible(found.arguments):
        return None
    known = directory is not None and os.path.isabs(directory) and directory.isprintable()
    return Resume(found.arguments, directory if known else None, found.limit)


def _are_visible(texts: Sequence[str]) -> bool:
    return all(text.isprintable() for text in texts)


def _is_name(session_id: str) -> bool:
    """Not an option, which would change what the command does: ids come from files that anyone may have written."""
    return bool(session_id) and not session_id.startswith("-")
