"""Plays the stories: appends lines to session logs below a home directory, as running agents would.

The order of all lines, their texts, ids and figures come from the seed; only their times are the clock's.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from agenttrace.demo.claude_code import CLAUDE_CODE
from agenttrace.demo.codex import CODEX
from agenttrace.demo.kimi_cli import KIMI_CLI
from agenttrace.demo.kimi_code import KIMI_CODE
from agenttrace.demo.native import NATIVE
from agenttrace.demo.qwen_code import QWEN_CODE
from agenttrace.demo.stories import STORIES
from agenttrace.demo.telling import Format, Line, Teller
from agenttrace.demo.truth import Truth

FORMATS = {each.agent: each for each in (KIMI_CLI, KIMI_CODE, CLAUDE_CODE, CODEX, QWEN_CODE, NATIVE)}

_DAY = 86_400
#: Seconds between the first lines of two agents. The list of them is a heap from the start.
_APART = 1.5


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
    """Write, at once, the sessions of some days before today, so that nobody starts with an empty page."""
    truth = truth or Truth()
    end = time.time() if now is None else now
    chosen = [FORMATS[name] for name in formats]
    for day in range(days, 0, -1):
        rng = random.Random(f"{seed}/past/{day}")  # noqa: S311 - reproducible on purpose
        for each in rng.sample(chosen, k=rng.randint(min(2, len(chosen)), len(chosen))):
            _one_session(target_home, each, f"{seed}/past/{day}", end - day * _DAY + rng.uniform(0, _DAY / 3), truth)
    return truth


def _one_session(target_home: Path, each: Format, seed: str, start: float, truth: Truth) -> None:
    moment = start
    teller = Teller(seed=f"{seed}/{each.agent}", clock=lambda: moment, home=str(target_home))
    truth.began(each.agent)
    touched = set()
    for line in each.session(teller.rng.choice(STORIES), teller):
        write(target_home, each, line, truth)
        touched.add(line.path)
        moment += line.delay
    for path in touched - {""}:
        os.utime(target_home / path, (moment, moment))


def _lines(
    each: Format, home: Path, seed: int, sessions: int | None, truth: Truth, clock: Callable[[], float]
) -> Iterator[Line]:
    """One session after the other; every agent begins with another story."""
    offset = list(FORMATS).index(each.agent) + seed
    for number in count() if sessions is None else range(sessions):
        teller = Teller(seed=f"{seed}/{number}/{each.agent}", clock=clock, home=str(home))
        truth.began(each.agent)
        yield from each.session(STORIES[(offset + number) % len(STORIES)], teller)


def write(target_home: Path, each: Format, line: Line, truth: Truth) -> None:
    """Write one line, whole files by replacing them, and count what it spends."""
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
        truth.spent(each.agent, line.spent)
