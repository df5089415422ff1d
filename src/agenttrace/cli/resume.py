"""``agenttrace resume``: go on with a session in its agent."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import find_one

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.views.resume import Resume

EPILOG = """
  agenttrace resume 5bc45ad6          print the command: cd DIRECTORY && claude --resume ID
  agenttrace resume 5bc45ad6 --run    run it here
  eval "$(agenttrace resume 5bc45ad6)"

The agent itself goes on with the session: it must still have it.
"""


def resume(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")],
    run: Annotated[bool, typer.Option("--run", help="Run the command in the session's directory.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the agent's own command that goes on with a session, or run it."""
    if run and as_json:
        raise UsageError("--run and --json cannot be combined", "Leave one of them out.")
    found, how = _asked(session)
    if how.directory_gone:
        fix = f"Create it again, or run this in another directory: {how.command}"
        raise CommandError(f"the directory of the session does not exist on this machine: {how.directory}", fix)
    if how.remark is not None:
        output.note(how.remark, "yellow")
    if run:
        _run(how)
    if as_json:
        output.print_json(_fields(found, how))
    else:
        print(how.line)


def _asked(name: str) -> tuple[Session, Resume]:
    from agenttrace.ids import session_key
    from agenttrace.record.texts.line_index import LineIndex
    from agenttrace.views.resume import resume_of

    with opening.shown_store(opening.settings()) as store:
        found = find_one(store, name)
        how = resume_of(store, found, LineIndex())
    if how is None:
        title = opening.agent_title(found.agent)
        raise CommandError(
            f"{title} has no command to go on with session {found.session_id}",
            # An id is whatever a file says; what is pasted into a shell must not be.
            f"Read it: agenttrace show {session_key(found.id)}",
        )
    return found, how


def _fields(session: Session, how: Resume) -> dict[str, object]:
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "directory": how.directory,
        "arguments": list(how.arguments),
        "command": how.line,
        "limit": how.limit,
    }


def _run(how: Resume) -> NoReturn:
    """Become the agent."""
    program = shutil.which(how.arguments[0])
    if program is None:
        raise CommandError(
            f"{how.arguments[0]} is not installed, or not in PATH", f"Where it is installed, run: {how.line}"
        )
    # Found from here: a PATH may have relative directories, and the session's directory may have such a program.
    program = os.path.abspath(program)
    if how.directory is not None:
        os.chdir(how.directory)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *how.arguments[1:]])  # noqa: S606 - the user asked for it, and no shell is needed
