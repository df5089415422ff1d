"""What every format needs to tell a story: a clock, ids, token counts, and the lines it makes."""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

from agenttrace.demo.scenario import Call, Step, Story
from agenttrace.model import Usage

_ALPHANUMERIC = string.ascii_letters + string.digits


class Line(msgspec.Struct, frozen=True):
    """Bytes for a file below the demo's home, and how long the session pauses after them."""

    path: str
    data: bytes
    delay: float = 0.0
    #: True: the file is replaced by ``data``, as agents do with their small state files.
    whole: bool = False
    #: The tokens that count once this line is written. Repetitions of a usage carry none.
    spent: Usage | None = None


class Tokens(msgspec.Struct, frozen=True):
    """The size of one request and its answer."""

    #: The part of the prompt that the service had not seen before.
    fresh: int
    cached: int
    #: Everything written, ``reasoning`` included.
    output: int
    reasoning: int


class Teller:
    """Tells one session (or one subagent's part of it) with ids and figures from a seed."""

    def __init__(self, *, seed: str, clock: Callable[[], float], home: str) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.clock = clock
        self.home = home
        self.context = self.rng.randrange(9_000, 14_000)
        self._seen = 0

    def child(self) -> Teller:
        """For a subagent: the same clock, a context of its own."""
        return Teller(seed=self.letters(12), clock=self.clock, home=self.home)

    def tokens(self, step: Step) -> Tokens:
        """What the request for this step costs; the conversation grows by answer and tool output."""
        reasoning = _weight(step.thinking)
        output = reasoning + _weight(step.text) + sum(20 + _weight(call.subject) for call in step.calls)
        request = Tokens(self.context - self._seen, self._seen, output + self.rng.randrange(3, 20), reasoning)
        self._seen = self.context
        self.context += request.output + sum(_weight(call.output) for call in step.calls) + 30
        return request

    def pause(self, low: float, high: float) -> float:
        """Some seconds."""
        return self.rng.uniform(low, high)

    def writing(self, text: str) -> float:
        """How long a model takes to write this."""
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
        """Letters and digits, as in the ids of model services."""
        return "".join(self.rng.choices(_ALPHANUMERIC, k=length))

    def hexes(self, length: int) -> str:
        """Hexadecimal digits."""
        return f"{self.rng.getrandbits(4 * length):0{length}x}"

    def milliseconds(self) -> int:
        """Now, as JavaScript counts."""
        return int(self.clock() * 1000)

    def iso(self) -> str:
        """Now, as ``2026-11-15T09:09:05.205Z``."""
        moment = datetime.fromtimestamp(self.clock(), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A log format the demo can write."""

    agent: str
    #: Environment variables through which the agent is told where its home is, and that home.
    variables: tuple[str, ...]
    home: str
    session: Callable[[Story, Teller], Iterator[Line]]


def silence(seconds: float) -> Line:
    """Nothing is written for a while: a tool is at work."""
    return Line("", b"", seconds)


def compact(value: object) -> bytes:
    """A line of JSON as ``JSON.stringify`` writes it."""
    return msgspec.json.encode(value) + b"\n"


def numbered(text: str) -> str:
    """File content with line numbers, as reading tools print it."""
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(text.splitlines(), 1))


def by_completion(calls: tuple[Call, ...]) -> list[int]:
    """The indexes of parallel calls in the order in which their results arrive."""
    return sorted(range(len(calls)), key=lambda index: calls[index].seconds)


def _weight(text: str) -> int:
    """Roughly the tokens of a text: four bytes of UTF-8 each."""
    return (len(text.encode()) + 3) // 4
