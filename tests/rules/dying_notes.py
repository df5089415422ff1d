"""Programs that write notes and die before one of their statements, again and again, until one gets through."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from agenttrace.cli.kept_answers import kept_in
from agenttrace.cli.program import app
from agenttrace.masking import Mask
from agenttrace.rules.actions.chain import Chain, ChainResult, Order, StepAnswer
from agenttrace.store.sqlite import database
from rules.rig import Rig
from serve.servers import Answer
from serve.views_rig import Client, ask

TABLES = {
    "rules": {"r": {"on": "session.waiting", "do": ["summary"], "start": "all"}},
    "actions": {"summary": {"type": "chain", "apps": ["session-summary"], "keep": ["note", "score", "label"]}},
}
ANSWER = json.dumps({"summary": "All is well.", "score": 7, "reason": "It is.", "labels": ["smooth", "short"]})
TEXTS = {"rule": "All is well.", "command": "from a script", "api": "from a program"}


def prepare(root: Path) -> None:
    """A session that waits, and the rules."""
    rig = Rig(root, TABLES)
    rig.turn(1)
    rig.close()


class _Answering:
    async def run(self, order: Order) -> ChainResult:
        return ChainResult("done", answers=(StepAnswer("session-summary", ANSWER),), tokens=5, job=1, session="rule-1")


def by_rule(root: Path) -> None:
    """What a rule keeps of an answer."""
    rig = Rig(root, TABLES)
    rig.actions["chain"] = Chain(
        _Answering(), lambda _, __: "text", Mask(()).value, lambda kept: kept_in(rig.store, str)(kept)
    )
    rig.restart()
    rig.look()
    rig.close()


def by_command(root: Path) -> None:
    """A note of a script."""
    environ = {"HOME": str(root), "AGENTTRACE_HOME": str(root / "home")}
    done = CliRunner().invoke(app, ["note", "s", "--key", "k", TEXTS["command"], "--json"], env=environ)
    assert done.exit_code == 0, done.output


def by_api(root: Path) -> None:
    """A note of a program."""
    rig = Rig(root, TABLES)
    rig.close()

    async def body(client: Client) -> None:
        headers = {"X-CSRF-Token": (await client.json("/me"))["csrf"], "Idempotency-Key": "k"}
        note = {"kind": "note", "text": TEXTS["api"]}
        address = f"{client.url}/api/v1/sessions/s/annotations"
        async with client.http.post(address, json=note, headers=headers) as response:
            assert Answer(response.status, response.headers, await response.read()).status == 200

    ask(rig.settings, body)


WAYS: dict[str, Callable[[Path], None]] = {"rule": by_rule, "command": by_command, "api": by_api}


def _dies(dies_at: int) -> None:
    """Have this process die before its so-many-th statement since it began to write."""
    opened = database._connect_writer
    writes = 0

    def traced(path: Path, busy_seconds: float) -> sqlite3.Connection:
        connection = opened(path, busy_seconds)

        def trace(statement: str) -> None:
            nonlocal writes
            writes += writes > 0 or statement.startswith("BEGIN IMMEDIATE")
            if writes >= dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

        connection.set_trace_callback(trace)
        return connection

    database._connect_writer = traced


def main(root: Path, way: str, step: int) -> None:
    """Print how often it died."""
    deaths, dies_at = 0, 1
    while True:
        child = os.fork()
        if child == 0:
            _dies(dies_at)
            WAYS[way](root)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"failed with {status}") if status else sys.stdout.write(str(deaths))
            return
        deaths += 1
        dies_at += step


if __name__ == "__main__":
    asyncio.set_event_loop(None)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
