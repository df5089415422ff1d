"""The player of the stories: it appends lines to session logs below a home directory, as running agents do.

The order of all lines, their texts, ids and figures come from the seed; only their times are the clock's.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

import msgspec

from agenttrace.demo.claude_code import CLAUDE_CODE
from agenttrace.demo.codex import CODEX
from agenttrace.demo.fake_session import FakeSession, LogFormat, LogLine
from agenttrace.demo.kimi_cli import KIMI_CLI
from agenttrace.demo.kimi_code import KIMI_CODE
from agenttrace.demo.native import NATIVE
from agenttrace.demo.qwen_code import QWEN_CODE
from agenttrace.demo.stories import STORIES
from agenttrace.model import Usage

FORMATS = {each.agent: each for each in (KIMI_CLI, KIMI_CODE, CLAUDE_CODE, CODEX, QWEN_CODE, NATIVE)}

_DAY = 86_400
#: Seconds between the first lines of two agents.
_APART = 1.5


class DemoTotals(msgspec.Struct, kw_only=True):
    """The usage of one agent, every response counted once."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    requests: int = 0

    def add(self, spent: Usage) -> None:
        """Count one more response."""
        self.input += spent.input_tokens
        self.output += spent.output_tokens
        self.cache_read += spent.cache_read_tokens
        self.cache_write += spent.cache_write_tokens
        self.reasoning += spent.reasoning_tokens
        self.requests += 1


class Truth(msgspec.Struct, kw_only=True):
    """The totals of every agent, exact at any moment while the demo writes, to compare recordings with."""

    agents: dict[str, DemoTotals] = msgspec.field(default_factory=dict)
    #: Sessions begun, by agent.
    sessions: Counter[str] = msgspec.field(default_factory=Counter)


def environment(target_home: Path) -> dict[str, str]:
    """The agents' own environment variables, pointing below this home."""
    places = [(name, each.home) for each in FORMATS.values() for name in each.variables]
    return {name: str(target_home / home) for name, home in places}


def play(
    target_home: Path,
    *,
    speed: float = 1.0,
    seed: int = 0,
    stop: threading.Event,
    formats: Iterable[str] = tuple(FORMATS),
    sessions: int | None = None,
    truth: Truth | None = None,
    clock: Callable[[], float] = time.time,
) -> Truth:
    """Write live until ``stop`` is set or every agent has had its number of ``sessions``.

    ``speed`` 2 takes half the time, infinity none at all. The truth counts what has been written so far.
    """
    truth = truth or Truth()
    began = time.monotonic()
    chosen = [FORMATS[name] for name in formats]
    order = count()
    # In the order of time, which makes the list a heap.
    waiting = [
        (number * _APART, next(order), each, _lines(each, target_home, seed, sessions, truth, clock))
        for number, each in enumerate(chosen)
    ]
    while waiting and not stop.is_set():
        due, _, each, lines = waiting[0]
        if not math.isinf(speed) and stop.wait(began + due / speed - time.monotonic()):
            break
        line = next(lines, None)
        if line is None:
            heapq.heappop(waiting)
            continue
        write(target_home, each, line, truth)
        heapq.heapreplace(waiting, (due + line.delay, next(order), each, lines))
    return truth


def past(
    target_home: Path,
    *,
    days: int,
    seed: int = 0,
    formats: Iterable[str] = tuple(FORMATS),
    truth: Truth | None = None,
    now: float | None = None,
) -> Truth:
    """Write, at once, the sessions of some days before today, so that the console is not empty."""
    truth = truth or Truth()
    end = time.time() if now is None else now
    chosen = [FORMATS[name] for name in formats]
    for day in range(days, 0, -1):
        rng = random.Random(f"{seed}/past/{day}")  # noqa: S311 - reproducible on purpose
        for each in rng.sample(chosen, k=rng.randint(min(2, len(chosen)), len(chosen))):
            _one_session(target_home, each, f"{seed}/past/{day}", end - day * _DAY + rng.uniform(0, _DAY / 3), truth)
    return truth


def _one_session(target_home: Path, each: LogFormat, seed: str, start: float, truth: Truth) -> None:
    moment = start
    fake = FakeSession(seed=f"{seed}/{each.agent}", clock=lambda: moment, home=str(target_home))
    truth.sessions[each.agent] += 1
    touched = set()
    for line in each.session(fake.rng.choice(STORIES), fake):
        write(target_home, each, line, truth)
        touched.add(line.path)
        moment += line.delay
    for path in touched - {""}:
        os.utime(target_home / path, (moment, moment))


def _lines(
    each: LogFormat, home: Path, seed: int, sessions: int | None, truth: Truth, clock: Callable[[], float]
) -> Iterator[LogLine]:
    """One session after the other; every agent begins with a different story."""
    offset = list(FORMATS).index(each.agent) + seed
    for number in count() if sessions is None else range(sessions):
        fake = FakeSession(seed=f"{seed}/{number}/{each.agent}", clock=clock, home=str(home))
        truth.sessions[each.agent] += 1
        yield from each.session(STORIES[(offset + number) % len(STORIES)], fake)


def write(target_home: Path, each: LogFormat, line: LogLine, truth: Truth) -> None:
    """Write one line, replace a whole file, and count the usage."""
    if line.path:
        path = target_home / line.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if line.whole:
            fresh = path.with_name(path.name + ".tmp")
            fresh.write_bytes(line.data)
            fresh.replace(path)
        else:
            with path.open("ab", buffering=0) as file:
                file.write(line.data)
    if line.spent is not None:
        truth.agents.setdefault(each.agent, DemoTotals()).add(line.spent)
