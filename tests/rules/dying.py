"""An engine that dies before one of its statements, again and again, until one gets through: a program of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

from agenttrace.rules.actions.contract import ActionResult, Message
from rules.rig import Rig

RULES: dict[str, dict[str, object]] = {
    "tool": {"on": "tool.failed"},
    "held": {"on": "tool.failed", "cooldown": "1m"},
    "ended": {"on": "session.ended", "settle": "1m", "do": ["hook", "second"]},
    "broken": {"on": "session.ended", "settle": "1m", "do": ["fails", "flaky", "second"]},
    "first": {"on": "tool.failed", "once": "session"},
}
TABLES = {
    "rules": {name: {"do": ["hook"], "start": "all", **rule} for name, rule in RULES.items()},
    "actions": {
        name: {"type": "webhook", "url": "http://127.0.0.1:1/"} for name in ("hook", "second", "fails", "flaky")
    },
}


def prepare(root: Path) -> None:
    """Sessions that have ended, and calls that failed, recorded before the rules were written and after that."""
    for session, tables in (("a", {}), ("b", TABLES)):
        rig = Rig(root, tables)
        rig.write("turn.begin", session, turn=1, id="t1")
        for call in "xyz":
            rig.tool(call, session)
        rig.write("turn.end", session, turn=1, id="t1")
        rig.record()
        rig.close()


class _Writing:
    """An action that writes to a file what it gets."""

    def __init__(self, root: Path) -> None:
        self._file = os.open(root / "messages", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def run(self, message: Message) -> ActionResult:
        spans = sorted(each.event.span.hex() for each in message.events if each.event.span is not None)
        os.write(self._file, json.dumps([message.rule.name, message.idempotency_key, spans]).encode() + b"\n")
        if message.action.name == "fails":
            return ActionResult("failed", "410")
        return ActionResult("retry" if message.action.name == "flaky" and message.attempt == 1 else "done")


def messages(root: Path) -> set[tuple[str, str, tuple[str, ...]]]:
    """What was carried out, repeats once."""
    lines = map(json.loads, (root / "messages").read_text().splitlines())
    return {(rule, key, tuple(spans)) for rule, key, spans in lines}


def states(root: Path) -> set[tuple[str, str, str | None]]:
    """What came of the firings, but for those in the messages of others."""
    rig = Rig(root, TABLES)
    found: set[tuple[str, str, str | None]] = {
        (each.rule, each.state, each.reason) for each in rig.firings(states=("done", "failed"))
    }
    rig.close()
    return found


def run_and_die(root: Path, dies_at: int) -> None:
    """Everything that an engine does in ten minutes, but for what comes after its ``dies_at``-th statement."""
    rig = Rig(root, TABLES)
    rig.runner._actions = {"webhook": _Writing(root)}
    executed = count(1)

    def trace(_: str) -> None:
        if next(executed) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    rig.store.connection.set_trace_callback(trace)
    for _ in range(10):
        rig.wait(61)
        rig.look()
    rig.close()


def _die_again_and_again(root: Path, step: int) -> None:
    deaths, dies_at = 0, 1
    while True:
        child = os.fork()
        if child == 0:
            run_and_die(root, dies_at)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"failed with {status}") if status else sys.stdout.write(str(deaths))
            return
        deaths += 1
        dies_at += step


if __name__ == "__main__":
    _die_again_and_again(Path(sys.argv[1]), int(sys.argv[2]))
