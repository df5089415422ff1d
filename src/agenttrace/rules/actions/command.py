"""Commands: a program with the message on its standard input, without a shell, with a time limit.

It runs in a directory of its own below the data directory. Sessions of agents that it starts there are recognised by
that, and fire no rules.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path

from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.actions.inputs import InputText
from agenttrace.rules.actions.messages import MaskValue, message_fields
from agenttrace.rules.facts import Facts

_OUTPUT_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 2_000
#: Between the request to end and the end.
_GRACE_SECONDS = 2.0
#: Between the end of the program and the end of its output.
_LAST_WORDS_SECONDS = 1.0
_POLL_SECONDS = 0.02


def work_directory(home: Path, rule: str) -> Path:
    """Where the commands of a rule run."""
    return home / "rules" / "work" / rule


def is_caused(home: Path, facts: Facts) -> bool:
    """Whether a session was started by a command of a rule."""
    project = facts.session.project if facts.session is not None else None
    return project is not None and any(Path(project).is_relative_to(place) for place in _work_places(home))


@cache
def _work_places(home: Path) -> tuple[Path, ...]:
    """The directory of all commands as it is set, and without links: programs see the second one."""
    place = home / "rules" / "work"
    return (place, place.resolve())


class Command:
    """Runs programs."""

    def __init__(self, home: Path, mask: MaskValue, texts: InputText) -> None:
        self._home = home
        self._mask = mask
        self._texts = texts

    async def run(self, message: Message) -> ActionResult:
        """Run the program once; any exit code but 0 is a failure that is tried again."""
        action = message.action
        place = work_directory(self._home, message.rule.name)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = await asyncio.to_thread(self._input, message)
        try:
            process = await asyncio.create_subprocess_exec(
                *action.argv,
                cwd=place,
                env=self._environment(message),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return ActionResult("failed", f"{action.argv[0]} cannot be started: {error.strerror or error}")
        try:
            output = await asyncio.wait_for(self._talk(process, data), action.timeout_seconds)
        except TimeoutError:
            await _end(process)
            return ActionResult("failed", f"it took longer than {action.timeout_seconds:g} s")
        except asyncio.CancelledError:
            await _end(process)
            raise
        text = str(self._mask(output.decode("utf-8", "replace").strip()))[:_SHOWN_CHARACTERS]
        if process.returncode:
            return ActionResult("retry", f"exit code {process.returncode}{': ' + text if text else ''}")
        return ActionResult("done", "exit code 0", answer={"text": text})

    async def _talk(self, process: asyncio.subprocess.Process, data: bytes) -> bytes:
        """Write the input while the output is read, of which the beginning is kept."""
        assert process.stdin is not None
        assert process.stdout is not None
        kept = bytearray()
        tasks = [
            asyncio.create_task(_write(process.stdin, data)),
            asyncio.create_task(_read(process.stdout, kept)),
        ]
        try:
            await _exit(process)
            # What the program has started may keep its output open for as long as it likes.
            await asyncio.wait(tasks, timeout=_LAST_WORDS_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # The pipes, which stay open as long as another process has their other ends.
            process._transport.close()  # type: ignore[attr-defined]
        return bytes(kept)

    def _input(self, message: Message) -> bytes:
        if message.action.stdin == "none":
            return b""
        if message.action.stdin == "transcript":
            return "\n\n".join(self._texts(message.action, each) for each in message.events).encode("utf-8", "replace")
        return json.dumps(message_fields(message, self._mask), ensure_ascii=False).encode("utf-8", "replace")

    def _environment(self, message: Message) -> dict[str, str]:
        return {
            **os.environ,
            "AGENTTRACE_RULE": message.rule.name,
            "AGENTTRACE_EVENT": message.rule.on,
            "AGENTTRACE_IDEMPOTENCY_KEY": message.idempotency_key,
        }


async def _read(stream: asyncio.StreamReader, kept: bytearray) -> None:
    while block := await stream.read(_OUTPUT_BYTES):
        kept += block[: _OUTPUT_BYTES - len(kept)]


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    # A program need not read its input.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.close()


async def _exit(process: asyncio.subprocess.Process) -> None:
    """Until the program has ended; in some versions of Python ``process.wait`` waits for the ends of its pipes, too."""
    while process.returncode is None:
        await asyncio.sleep(_POLL_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program with everything that it started."""
    _signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(_exit(process), _GRACE_SECONDS)
    # Also where it has ended: what it started may still run.
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    await _exit(process)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
