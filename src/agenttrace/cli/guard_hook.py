"""``agenttrace guard`` as a hook calls it: quick, and whatever fails, the agent goes on.

The usual call reads a small file. Only where that is missing, too old or of other settings, the store is asked.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from agenttrace.rules import guard, state_files

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from typing import Any

    from agenttrace.rules.hook_replies import Reply

#: How long to wait for what the agent says of its session.
_INPUT_SECONDS = 1.0


def run(agent: str) -> int:
    """Answer a hook; the exit code."""
    home = ""
    try:
        from agenttrace.cli.hook_input import read_json

        home = state_files.data_directory()
        reply = answer(home, agent, read_json(_INPUT_SECONDS))
        if reply.stdout:
            sys.stdout.write(reply.stdout + "\n")
            sys.stdout.flush()
        if reply.stderr:
            sys.stderr.write(reply.stderr + "\n")
        return reply.code
    except BaseException as error:  # an agent must not stop because of its hook
        if home:
            state_files.log(home, f"let {agent} go on after {type(error).__name__}: {error}")
        return 0


def answer(home: str, agent: str, said: object) -> Reply:
    """What to say to an agent."""
    from agenttrace.rules.hook_replies import reply_to

    call = guard.Call(agent, said)
    now = time.time()
    state = current_state(home, call, now)
    if not state["budgets"]:
        return reply_to(agent, call.event, guard.Verdict("go"))
    verdict, keys = guard.decide(state, call, guard.allowances(home), now)
    if keys:
        fresh = [reason for reason, key in zip(verdict.reasons, keys, strict=True) if guard.first_time(home, key)]
        verdict = guard.Verdict("warn" if fresh else "go", fresh)
    if verdict.kind != "go":
        state_files.log(home, f"{verdict.kind} {agent} session {call.session}: {verdict.text}")
    return reply_to(agent, call.event, verdict)


def current_state(home: str, call: guard.Call, now: float) -> Any:  # noqa: ANN401 - JSON
    """The budgets, from the file; made anew where that cannot be used."""
    state = guard.read_state(home)
    age = guard.freshness(state, home, now)
    if age == "current" or (age == "changed" and guard.usable(state, now)):
        behind = age == "changed" or guard.has_grown(call, state)
        if behind and guard.refresh_is_due(state, home, now):
            start_refresh(call.transcript)
        return state
    from agenttrace.cli.guard_refresh import refreshed

    found = refreshed(home)
    start_refresh(call.transcript)
    return found


def start_refresh(transcript: str | None) -> None:
    """Make the state anew in a process that outlives this one; where it cannot be started, the next call may."""
    with suppress(OSError):
        _spawn(transcript)


def _spawn(transcript: str | None) -> None:
    command = [sys.executable, "-m", "agenttrace.cli.main", "guard", "--refresh"]
    if transcript:
        command += ["--transcript", transcript]
    if os.name == "nt":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NO_WINDOW  # type: ignore[attr-defined,unused-ignore]
        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=flags)
        return
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet, setsid=True)
    except NotImplementedError:
        os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet)
