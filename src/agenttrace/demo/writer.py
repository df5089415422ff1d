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
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import msgspec

from agenttrace.demo.claude_code import CLAUDE_CODE
from agenttrace.demo.codex import CODEX
from agenttrace.demo.fake_session import FakeLog, FakeSession, LogLine
from agenttrace.demo.kimi_cli import KIMI_CLI
from agenttrace.demo.kimi_code import KIMI_CODE
from agenttrace.demo.native import NATIVE
from agenttrace.demo.qwen_code import QWEN_CODE
from agenttrace.demo.stories import STORIES

FORMATS = {each.agent: each for each in (KIMI_CLI, KIMI_CODE, CLAUDE_CODE, CODEX, QWEN_CODE, NATIVE)}

_DAY = 86_400
#: How many sessions begin at each hour of a day, and when there are few.
_HOURS = (1, 0, 0, 0, 0, 0, 0, 1, 3, 8, 10, 9, 4, 5, 9, 10, 8, 6, 3, 2, 3, 3, 2, 1)
_WEEKEND = (5, 6)
#: Sessions of the past are over by now, and nobody has gone on with them for an hour.
_LONGEST_SESSION = 1_800
_LEFT_ALONE = 3_600
#: Sessions of the past were large ones, so that what is written live changes their sums little.
_LONG_CONTEXT = (40_000, 120_000)
#: Seconds between the first lines of two agents; agents that rest do not all rest at the same time.
_APART = 1.5
#: How long ago each agent began its session of today, in seconds.
_AGO = (20_000.0, 11_000.0, 4_500.0, 1_500.0, 6.0, 3.0)


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
    sessions: int | None = None,
    rest: float = 0.0,
    stories: int = 1,
    clock: Callable[[], float] = time.time,
) -> None:
    """Write live until ``stop`` is set or every agent has had its number of ``sessions``.

    ``speed`` 2 takes half the time, infinity none at all. ``rest``: seconds between two stories of an agent.
    ``stories``: so many are one session, where the log does not say that a session is over. It would wait for its user.
    """
    began = time.monotonic()
    order = count()
    # In the order of time, which makes the list a heap.
    waiting = [
        (
            number * max(_APART, rest / len(FORMATS)),
            next(order),
            _lines(each, target_home, seed, sessions, rest, stories, clock),
        )
        for number, each in enumerate(FORMATS.values())
    ]
    while waiting and not stop.is_set():
        due, _, lines = waiting[0]
        if not math.isinf(speed) and stop.wait(began + due / speed - time.monotonic()):
            break
        line = next(lines, None)
        if line is None:
            heapq.heappop(waiting)
            continue
        write(target_home, line)
        heapq.heapreplace(waiting, (due + line.delay, next(order), lines))


def past(
    target_home: Path,
    *,
    days: int,
    seed: int = 0,
    now: float | None = None,
    work: str | None = None,
) -> None:
    """Write, at once, the sessions of some days before today into a directory, at the hours at which people work.

    ``work``: the directory of their projects.
    """
    end = time.time() if now is None else now
    for day in range(days, 0, -1):
        rng = random.Random(f"{seed}/past/{day}")  # noqa: S311 - reproducible on purpose
        begin = end - day * _DAY
        rest = time.localtime(begin + _DAY / 2).tm_wday in _WEEKEND
        for each in rng.sample(list(FORMATS.values()), k=rng.randint(1, 2) if rest else rng.randint(3, len(FORMATS))):
            for number in range(1 if rest else rng.randint(1, 3)):
                start = min(_at_work(begin, rng), end - _LONGEST_SESSION - _LEFT_ALONE)
                _one_session(target_home, each, f"{seed}/past/{day}/{number}", start, end, work)


def _at_work(begin: float, rng: random.Random) -> float:
    """A time in the 24 hours after ``begin``, rarely at night and at noon."""
    hour = rng.choices(range(24), _HOURS)[0]
    midnight = time.mktime((*time.localtime(begin)[:3], 0, 0, 0, 0, 0, -1))
    return begin + (midnight + hour * 3600 - begin) % _DAY + rng.uniform(0, 3600)


def today(target_home: Path, *, seed: int = 0, now: float | None = None, work: str | None = None) -> None:
    """Write one session of every agent in the hours before now; the last ones are still at work."""
    end = time.time() if now is None else now
    for each, ago in zip(FORMATS.values(), _AGO, strict=True):
        _one_session(target_home, each, f"{seed}/today", end - ago, end, work)


def _one_session(target_home: Path, each: FakeLog, seed: str, start: float, end: float, work: str | None) -> None:
    """A session as far as it has come by ``end``."""
    moment = start
    fake = FakeSession(
        seed=f"{seed}/{each.agent}",
        clock=lambda: moment,
        home=str(target_home),
        context=_LONG_CONTEXT,
        longest_wait=_LONGEST_SESSION,
    )
    story = fake.rng.choice(STORIES).committed_as(fake.hexes(7))
    touched = set()
    for line in each.session(story if work is None else msgspec.structs.replace(story, work=work), fake):
        if moment > end:
            break
        write(target_home, line)
        touched.add(line.path)
        moment += line.delay
    for path in touched - {""}:
        os.utime(target_home / path, (moment, moment))


def _lines(
    each: FakeLog,
    home: Path,
    seed: int,
    sessions: int | None,
    rest: float,
    stories: int,
    clock: Callable[[], float],
) -> Iterator[LogLine]:
    """One session after the other; every agent begins with a different story."""
    offset = list(FORMATS).index(each.agent) + seed
    length = 1 if each.ends else stories
    for number in count() if sessions is None else range(sessions):
        fake = FakeSession(seed=f"{seed}/{number}/{each.agent}", clock=clock, home=str(home), longest_wait=rest)
        begin = offset + number * length
        first, *others = (STORIES[at % len(STORIES)].committed_as(fake.hexes(7)) for at in range(begin, begin + length))
        yield from each.session(first.followed_by(others, rest), fake)
        if rest:
            yield LogLine(path="", data=b"", delay=rest)


def write(target_home: Path, line: LogLine) -> None:
    """Append one line, or replace a whole file."""
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
