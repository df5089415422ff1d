"""What every log format of the demo needs: a clock, random ids, token counts and log lines."""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from agenttrace.demo.stories import Story, StoryStep, StoryTurn

Json = dict[str, Any]

#: So long a provider caches a prompt that is not asked for.
_CACHE_SECONDS = 300.0
#: An agent summarises a conversation that has grown by so many tokens.
_COMPACT_TOKENS = 40_000

_ALPHANUMERIC = string.ascii_letters + string.digits


class LogLine(msgspec.Struct, frozen=True):
    """Bytes for a file below the demo's home, and how long the session pauses after them."""

    path: str
    data: bytes
    delay: float = 0.0
    #: True: ``data`` replaces the file, as agents do with their small state files.
    whole: bool = False


class StepTokens(msgspec.Struct, frozen=True):
    """The size of one request and its response."""

    #: The part of the prompt that is not in the provider's cache.
    fresh: int
    cached: int
    #: All output tokens, ``reasoning`` included.
    output: int
    reasoning: int

    @property
    def prompt(self) -> int:
        """All input tokens, cached or not."""
        return self.fresh + self.cached


class FakeSession:
    """The random values of one session, or of one subagent in it, from a seed."""

    def __init__(
        self,
        *,
        seed: str,
        clock: Callable[[], float],
        home: str,
        context: tuple[int, int] = (9_000, 14_000),
        longest_wait: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.clock = clock
        self.home = home
        #: The tokens of the next request; at first a random number between these.
        self.context = self._least = self.rng.randrange(*context)
        self._cached = 0
        self._longest_wait = longest_wait

    def child(self) -> FakeSession:
        """For a subagent: the same clock, a separate context."""
        return FakeSession(seed=self.letters(12), clock=self.clock, home=self.home)

    def tokens(self, step: StoryStep) -> StepTokens:
        """The tokens of this step's request; the context grows by the response and the tool output."""
        reasoning = _weight(step.thinking)
        output = reasoning + _weight(step.text) + sum(20 + _weight(call.subject) for call in step.calls)
        request = StepTokens(self.context - self._cached, self._cached, output + self.rng.randrange(3, 20), reasoning)
        self._cached = self.context
        self.context += request.output + sum(_weight(call.output) for call in step.calls) + 30
        return request

    def until_answer(self, turn: StoryTurn) -> float:
        """How many seconds it takes until the user goes on after this turn."""
        seconds = max(self.pause(3, 7), min(turn.wait, self._longest_wait))
        if self.context > self._least + _COMPACT_TOKENS:
            self.context = self._least
            self._cached = 0
        if seconds >= _CACHE_SECONDS:
            self._cached = 0
        return seconds

    def pause(self, low: float, high: float) -> float:
        """A random number of seconds."""
        return self.rng.uniform(low, high)

    def writing(self, text: str) -> float:
        """How many seconds a model takes to write this."""
        return 0.4 + len(text) / 160

    def uuid(self) -> str:
        """A random uuid."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def uuid7(self) -> str:
        """A uuid that begins with the time."""
        value = (int(self.clock() * 1000) << 80) | self.rng.getrandbits(80)
        value = value & ~(0xF << 76) | (0x7 << 76)
        return str(uuid.UUID(int=value & ~(0x3 << 62) | (0x2 << 62)))

    def letters(self, length: int) -> str:
        """Letters and digits, as in the ids of providers."""
        return "".join(self.rng.choices(_ALPHANUMERIC, k=length))

    def hexes(self, length: int) -> str:
        """Hexadecimal digits."""
        return f"{self.rng.getrandbits(4 * length):0{length}x}"

    def milliseconds(self) -> int:
        """Now, in milliseconds since the epoch."""
        return int(self.clock() * 1000)

    def iso(self) -> str:
        """Now, as ``2026-11-15T09:09:05.205Z``."""
        moment = datetime.fromtimestamp(self.clock(), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class FakeLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log format the demo can write."""

    agent: str
    #: Environment variables that name the agent's home, and that home below the demo's.
    variables: tuple[str, ...]
    home: str
    session: Callable[[Story, FakeSession], Iterator[LogLine]]
    #: True: the log says when a session is over.
    ends: bool = False


def silence(seconds: float) -> LogLine:
    """Nothing is written while a tool runs."""
    return LogLine("", b"", seconds)


def json_line(value: object) -> bytes:
    """A line of JSON as ``JSON.stringify`` writes it."""
    return msgspec.json.encode(value) + b"\n"


def numbered(text: str) -> str:
    """File content with line numbers, as reading tools print it."""
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(text.splitlines(), 1))


def _weight(text: str) -> int:
    """Roughly the tokens of a text: four bytes of UTF-8 each."""
    return (len(text.encode()) + 3) // 4
