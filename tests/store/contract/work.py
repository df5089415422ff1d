"""Random work for questions about many sessions: turns, model calls with a prompt cache, tools that fail, subagents."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .machine import Line, Logs

AGENT = "agenttrace"
#: Seconds; all sessions are over.
BASE = 1_700_000_000
PROJECTS = (None, "/home/dev/Shop", "/home/dev/shop/ÄPFEL", "/srv/log_1")
MODELS = ("claude-sonnet-4-5", "gpt-5", "nobody-knows", None)
TOOLS = ("Bash", "Bash", "Read", "Edit", "AskUserQuestion", "mcp__db__query")
ERRORS = ("Exit code 1", "Exit code 1\nNameError", "连接失败", "Exit code 2")
ARGUMENTS = ({"command": "make test"}, {"command": "make lint"}, {"path": "a.py"})


@dataclass
class _Session:
    """Writes the log of one session."""

    rng: random.Random
    name: str
    #: The session whose first responses this one repeats.
    parent: str | None = None
    #: Whether its lines have times.
    timed: bool = True
    now: float = BASE
    lines: list[Line] = field(default_factory=list)
    cached: int = 0
    #: Whether it tries the same again and again in this turn.
    stubborn: bool = False

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - JSON
        """Write a line."""
        at = {"ts": self.now} if self.timed else {}
        self.lines.append({"v": 1, "session": self.name, "type": kind, **at, **fields})

    def go_on(self, longest: float) -> None:
        """Let some time pass, or none."""
        self.now += self.rng.choice((0.0, self.rng.random() * longest, float(self.rng.randint(0, 3))))

    def turns(self) -> list[Line]:
        """The whole log."""
        named = {} if self.parent is None else {"parent": self.parent}
        project = self.rng.choice(PROJECTS)
        self.write("session.begin", **({} if project is None else {"project": project}), **named)
        for turn in range(1, self.rng.randint(1, 4) + 1):
            self.now += self.rng.choice((1.0, 30.0, 900.0, 5_000.0, 40_000.0))
            self._turn({"turn": turn})
        return self.lines

    def _turn(self, place: Line) -> None:
        origin = {"origin": "task"} if self.rng.random() < 0.2 else {}
        self.stubborn = self.rng.random() < 0.3
        self.write("turn.begin", prompt="do it", **place, **origin)
        for step in range(1, self.rng.randint(0, 5) + 1):
            self._step(place | {"step": step})
        if self.rng.random() < 0.8:
            self.go_on(5)
            status = self.rng.choice(("ok", "ok", "ok", "cancelled", "error"))
            self.write("turn.end", status=status, **place)

    def _step(self, place: Line) -> None:
        model = self.rng.choice(MODELS)
        self.write("step.begin", **place, **({} if model is None else {"model": model}))
        self.go_on(20)
        if self.rng.random() < 0.9:
            self._usage(place, model)
        for number in range(self.rng.choice((0, 1, 1, 2))):
            self._tool(place, f"{place['turn']}.{place['step']}.{number}{place.get('stream', '')}")
        if self.rng.random() < 0.4:
            failed = {"status": "error", "error": "overloaded"} if self.rng.random() < 0.3 else {}
            self.go_on(3)
            self.write("step.end", **place, **failed)

    def _usage(self, place: Line, model: str | None) -> None:
        added = self.rng.choice((0, 400, 2_000, 30_000))
        read = self.rng.choice((self.cached, self.cached, self.cached, 0, self.cached // 2))
        usage = {
            "input_tokens": self.rng.randint(0, 500),
            "cache_read_tokens": read,
            "cache_write_tokens": self.rng.choice((0, self.cached - read + added)),
            "output_tokens": self.rng.choice((0, self.rng.randint(1, 3_000))),
        }
        self.cached = usage["cache_read_tokens"] + usage["cache_write_tokens"]
        # A fork repeats the responses of the session that it is a copy of.
        owner = self.parent if self.parent is not None and place["turn"] == 1 else self.name
        response = f"{owner}/{place.get('stream', '')}/{place['turn']}.{place['step']}"
        named = {} if model is None else {"model": model}
        estimated = {"estimated": True} if self.rng.random() < 0.1 else {}
        self.write("usage", **place, **named, **estimated, response=response, usage=usage)

    def _tool(self, place: Line, call: str) -> None:
        stream = f"agent-{call}" if "stream" not in place and self.rng.random() < 0.15 else None
        spawns = {} if stream is None else {"spawns": stream}
        name = TOOLS[0] if self.stubborn else self.rng.choice(TOOLS)
        arguments = self.rng.choice(ARGUMENTS[:2] if self.stubborn else ARGUMENTS)
        self.write("tool.begin", id=call, name=name, arguments=arguments, **spawns, **place)
        if stream is not None:
            self._turn({"turn": 1, "stream": stream})
        self.now += self.rng.choice((0.0, 0.5, 3.0, 1_000.0))
        outcome = "error" if self.stubborn else self.rng.choice(("ok", "error", "error", "cancelled", None))
        if outcome is None:
            return
        failed = {"error": self.rng.choice(ERRORS)} if outcome == "error" else {}
        length = {"duration": self.rng.choice((0.25, 2.0))} if self.rng.random() < 0.2 else {}
        self.write("tool.end", id=call, name=name, status=outcome, **failed, **length, **place)


def random_work(seed: int) -> Logs:
    """The logs of some sessions, one of which may be a fork."""
    return dict(_sessions(random.Random(seed)))


def _sessions(rng: random.Random) -> Iterator[tuple[str, list[Line]]]:
    count = rng.randint(1, 4)
    for number in range(count):
        forked = number == count - 1 and count > 1 and rng.random() < 0.5
        made = _Session(
            rng, f"s{number}", parent="s0" if forked else None, timed=rng.random() < 0.9, now=BASE + number * 50_000
        )
        yield made.name, made.turns()
