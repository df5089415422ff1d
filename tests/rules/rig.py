"""A store that lines are recorded into, rules over it, clocks that a test sets, and actions that note what they get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttrace.calendar import day_finder
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.config.rule_tables import RuleTables, parse_tables
from agenttrace.config.rules import ActionType
from agenttrace.prices.costing import Cashier
from agenttrace.record.recorder import Recorder
from agenttrace.rules.actions.contract import Action, ActionResult, Message
from agenttrace.rules.engine import EventSource, RuleEngine
from agenttrace.rules.runner import ActionRunner
from agenttrace.rules.service import run_once
from agenttrace.rules.silence import Silence
from agenttrace.store import open_store
from agenttrace.store.rules import Firing, FiringState
from agenttrace.store.sqlite.store import SqliteStore

#: When the clocks of a test begin, in seconds: long ago, as the store asks the real clock whether a session is stale.
START = 1_700_000_000.0


class Noting:
    """An action that notes its messages, and answers as it is told."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.results: list[ActionResult] = []

    async def run(self, message: Message) -> ActionResult:
        self.messages.append(message)
        return self.results.pop(0) if self.results else ActionResult("done", answer={"said": message.action.name})


class Rig:
    """Everything that rules need, in one process."""

    def __init__(
        self,
        root: Path,
        tables: Mapping[str, Any],
        *,
        home: Path | None = None,
        sources: Sequence[Callable[[Rig], EventSource]] = (),
        waiting_hours: int = 0,
    ) -> None:
        self.root = root
        #: Made anew for every engine.
        self.sources = sources
        self.now = START
        self.steady = 0.0
        self.logs = root / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.settings: Settings = load_settings(
            {
                "HOME": str(root),
                "AGENTTRACE_HOME": str(home or root / "home"),
                "AGENTTRACE_USAGE_TIMEZONE": "UTC",
                # The store goes by the real clock, by which all this was long ago.
                "AGENTTRACE_RECORD_WAITING_HOURS": str(waiting_hours),
            }
        )
        ensure_home(self.settings)
        self.noting = Noting()
        #: Instead of those that only note what they get.
        self.actions: dict[ActionType, Action] = {}
        self.tables: RuleTables = parse_tables(tables, Path("agenttrace.toml"), {})
        self.recorder = Recorder(self.settings, paths=[str(self.logs)])
        self.open()

    def open(self) -> None:
        """Start engine and runner, as after a restart."""
        self.store: SqliteStore = open_store(self.settings, read_only=False)
        cashier = Cashier.load(self.settings)
        self.engine = RuleEngine(
            self.store,
            self.tables,
            home=self.settings.home,
            cashier=cashier,
            day_of=day_finder("UTC"),
            silence=Silence(lambda: self.now, lambda: self.steady),
            sources=[source(self) for source in self.sources],
        )
        actions: dict[ActionType, Action] = {"webhook": self.noting, "notify": self.noting, "command": self.noting}
        actions |= self.actions
        self.runner = ActionRunner(
            self.store,
            self.engine,
            home=self.settings.home,
            cashier=cashier,
            actions=actions,
            clock=lambda: self.now,
        )

    def restart(self) -> None:
        """A new engine on the same store."""
        self.store.close()
        self.open()

    def close(self) -> None:
        """Release everything."""
        self.store.close()
        self.recorder.close()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.steady += seconds

    def write(self, kind: str, session: str = "s", /, **fields: object) -> None:
        """A line of a log, at this moment, recorded."""
        line = {"v": 1, "session": session, "type": kind, "ts": self.now, **fields}
        with (self.logs / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def record(self) -> None:
        """Record what was written."""
        self.recorder.scan()
        self.recorder.drain()

    def turn(self, number: int, session: str = "s", **end: object) -> None:
        """A whole turn, recorded; the session waits then."""
        self.write("turn.begin", session, turn=number, id=f"t{number}", prompt="Go on.")
        self.write("turn.end", session, turn=number, id=f"t{number}", **end)
        self.record()

    def tool(self, call: str, session: str = "s", status: str = "error", name: str = "shell") -> None:
        """A tool call in the turn, recorded."""
        self.write("tool.begin", session, id=call, name=name, arguments={})
        self.write("tool.end", session, id=call, status=status, result="x")
        self.record()

    def look(self) -> list[Message]:
        """Decide and run what can be now; the new messages."""
        known = len(self.noting.messages)
        asyncio.run(run_once(self.engine, self.runner))
        return self.noting.messages[known:]

    def firings(self, states: Sequence[FiringState] = ()) -> list[Firing]:
        """What was decided, the oldest first."""
        return self.store.rules.firings(states=states)[::-1]

    def reasons(self) -> list[str | None]:
        """Why events did not fire, the oldest first."""
        return [each.reason for each in self.firings(states=["skipped"])]


def sessions_of(message: Message) -> list[str]:
    """The sessions that a message is about."""
    return [each.session.session_id for each in message.events if each.session is not None]
