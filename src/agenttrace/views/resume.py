"""How to go on with a recorded session: the agent's own command, in the session's directory."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.record.files.stored_paths import path_on_disk
from agenttrace.record.formats import AGENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.model import Session
    from agenttrace.record.formats.contract import ResumeCommand, ResumeLimit
    from agenttrace.record.texts.line_index import LineIndex
    from agenttrace.store.store import Store

_REMARKS: dict[ResumeLimit, str] = {
    "latest_only": "The agent can only go on with its latest session, which may be another one.",
    "copy": "The agent can only go on with its latest session: this command begins a copy of this one.",
    "whole_history": "The agent goes on with all chats of this directory, not with one of them.",
}


#: What single quotes do not protect in every shell: fish reads a backslash in them.
_UNPROTECTED = re.compile(r"['\\]")


def quoted(text: str) -> str:
    """A word that sh, bash, zsh and fish read alike."""
    if shlex.quote(text) == text:
        return text
    return "'" + _UNPROTECTED.sub(lambda found: "'\"'\"'" if found[0] == "'" else "'\"\\\\\"'", text) + "'"


class Resume(NamedTuple):
    """A command, and where to run it."""

    arguments: tuple[str, ...]
    #: ``None`` where the log does not say.
    directory: str | None
    limit: ResumeLimit | None
    #: Whether the agent's own log of the session is on this machine.
    has_log: bool = True
    #: Whether the directory is left out because it has characters that cannot be seen.
    directory_left_out: bool = False

    @property
    def command(self) -> str:
        """The agent's command for a shell."""
        return " ".join(map(quoted, self.arguments))

    @property
    def line(self) -> str:
        """The whole line for a shell, directory included."""
        return self.command if self.directory is None else f"cd {quoted(self.directory)} && {self.command}"

    @property
    def remark(self) -> str | None:
        """What the command cannot do."""
        if not self.has_log:
            return "The log of this session is not on this machine, so the agent may not know it here."
        if self.directory_left_out:
            return "The directory of the session has characters that cannot be seen: change to it first."
        return None if self.limit is None else _REMARKS[self.limit]

    @property
    def directory_gone(self) -> bool:
        """Whether the directory does not exist on this machine."""
        return self.directory is not None and not os.path.isdir(self.directory)


def resume_of(store: Store, session: Session, index: LineIndex) -> Resume | None:
    """How to go on with a session; ``None`` where its agent has no command for that."""
    agent = next((agent for agent in AGENTS if agent.name == session.agent), None)
    if agent is None or not _is_name(session.session_id) or not store.shows(session.id):
        return None
    files = store.source_files(index.of(store, session.id).files())
    logs = [Path(file.path) for file in files]
    found = agent.resume_command(session.session_id, logs)
    return None if found is None else _checked(found, session.project, any(map(_is_there, logs)))


def _is_there(log: Path) -> bool:
    """Whether an agent's own log exists; what it sent as telemetry is none."""
    telemetry = next((agent for agent in AGENTS if agent.name == "otlp"), None)
    place = path_on_disk(str(log))
    return place is not None and os.path.exists(place) and not (telemetry is not None and telemetry.is_log(log))


def _checked(found: ResumeCommand, directory: str | None, has_log: bool) -> Resume | None:
    """A command of which a user can see what it does."""
    if not _are_visible(found.arguments):
        return None
    if directory is None or not os.path.isabs(directory):
        return Resume(found.arguments, None, found.limit, has_log)
    seen = directory.isprintable()
    return Resume(found.arguments, directory if seen else None, found.limit, has_log, directory_left_out=not seen)


def _are_visible(texts: Sequence[str]) -> bool:
    return all(text.isprintable() for text in texts)


def _is_name(session_id: str) -> bool:
    """Not an option, which would change what the command does: ids come from files that anyone may have written."""
    return bool(session_id) and not session_id.startswith("-")
