"""Rows of many machines as their stores send them: sessions of Claude Code, page after page, all machines in turn.

Texts are drawn from a pool of several megabytes, much larger than the window of a compressor.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import msgspec

from agenttrace.ids import session_number
from agenttrace.model import Session, Usage
from agenttrace.store.rows import (
    ChangesCursor,
    EventRow,
    FileOfLines,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
)
from agenttrace.store.team import Page
from benchmarks.text import Text

#: When the work begins (microseconds), and how long it goes on.
START, DAYS = 1_789_200_000_000_000, 60
LARGE_SPANS = 10_000
#: Spans of a machine, and of its usual sessions.
SPANS_OF_MACHINE = 50_000
_SIZES = (20, 50, 100, 100, 200, 400)
#: A turn: a prompt, four model calls, five tool calls.
_STEPS, _SPANS_OF_TURN = 4, 10
#: A machine that was away sends what its user did in this many sessions at a time.
_ROUND_SESSIONS = 10
_PAGE_ROWS, _PAGE_BYTES = 4_000, 4 << 20
_LIVE_ROWS = 20
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MODELS = ("claude-sonnet-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
_TOOLS = ("Bash", "Bash", "Read", "Edit", "Grep")
_FAILURES = 0.05
_VERSION = "2.1.197"
#: Rows of the kinds that are sent first.
_ORDER: dict[type, int] = {StoredSession: 1, StoredSpan: 2, ResponseRow: 3, EventRow: 4, FileOfLines: 0}

Sent = tuple[Page, list[Row]]


class Pool(NamedTuple):
    """Texts to choose from."""

    prose: list[str]
    output: list[str]

    @classmethod
    def of(cls, chance: random.Random) -> Pool:
        """Prose, some of it Chinese, and output of programs."""
        text = Text(chance)
        prose = [text.prose(chance.randint(60, 400)) for _ in range(12_000)]
        prose += [text.chinese(chance.randint(20, 120)) for _ in range(1_500)]
        output = [text.terminal(chance.randint(80, 900)) for _ in range(8_000)]
        output += [text.code(chance.randint(80, 900)) for _ in range(4_000)]
        return cls([_inside(each) for each in prose], [_inside(each) for each in output])


def _inside(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return msgspec.json.encode(text).decode()[1:-1]


def pages(spans: int, seed: int = 1) -> Iterator[Sent]:
    """What all machines send; about so many spans in all."""
    pool = Pool.of(random.Random(seed))
    count = max(4, spans // SPANS_OF_MACHINE)
    machines = [Sender(pool, number, spans // count) for number in range(count)]
    rounds = zip_longest(*(machine.pages() for machine in machines), fillvalue=())
    yield from chain.from_iterable(chain.from_iterable(rounds))


def live_pages(count: int) -> list[Sent]:
    """Pages of a machine that sends what an agent does at once."""
    return list(islice(Sender(Pool.of(random.Random(2)), 9_999, 2_000).live_pages(), count))


class Sender:
    """A machine whose store grew for two months and is sent round by round."""

    def __init__(self, pool: Pool, number: int, spans: int) -> None:
        self.name, self.person = f"laptop-{number:04}", f"person-{number * 3 // 4:04}"
        self._pool, self._spans = pool, spans
        self._chance = random.Random(number + 1)
        # The projects of a team are shared.
        self._projects = [f"/home/dev/{self._chance.choice(_PROJECTS)}" for _ in range(3)]
        self._large = number % 4 == 0
        self._event, self._span, self._revision = 0, 0, 0
        self._cursor = ChangesCursor()

    def pages(self) -> Iterator[list[Sent]]:
        """The pages of each round."""
        sizes = list(self._sizes())
        for first in range(0, len(sizes), _ROUND_SESSIONS):
            rows: list[Row] = []
            for place, size in enumerate(sizes[first : first + _ROUND_SESSIONS], first):
                rows += Conversation(self, f"{self.name}/{place}", place / len(sizes), size).rows()
            rows.sort(key=lambda row: _ORDER[type(row)])
            yield list(self._paged(rows))

    def live_pages(self) -> Iterator[Sent]:
        """The session as it is by then, some lines, and what became of them."""
        for place, size in enumerate(self._sizes()):
            file, session, *rows = Conversation(self, f"{self.name}/{place}", 1.0, size).rows()
            assert isinstance(session, StoredSession)
            for first in range(0, len(rows), _LIVE_ROWS):
                portion = [*([] if first else [file]), session, *rows[first : first + _LIVE_ROWS]]
                yield from self._paged(sorted(portion, key=lambda row: _ORDER[type(row)]))
                session = msgspec.structs.replace(session, revision=self.next_revision())

    def _sizes(self) -> Iterator[int]:
        """How many spans each session has."""
        left = self._spans
        if self._large and left > 2 * LARGE_SPANS:
            yield LARGE_SPANS
            left -= LARGE_SPANS
        while left > 0:
            size = min(self._chance.choice(_SIZES), left)
            yield size
            left -= size

    def _paged(self, rows: list[Row]) -> Iterator[Sent]:
        until = (self._revision, self._event)
        for portion, last in _portions(rows, _PAGE_ROWS):
            if last:
                after = ChangesCursor(until, until)
            else:
                after = ChangesCursor(self._cursor.since, until, "event", (id(portion) % 1000, len(portion)))
            yield Page(machine=self.name, person=self.person, store="1", after=self._cursor, until=after), portion
            self._cursor = after

    # -- numbers ------------------------------------------------------------------------------------------------

    def next_event(self) -> int:
        """The number of the next event of this store."""
        self._event += 1
        return self._event

    def next_span(self) -> int:
        """The number of the next span of this store."""
        self._span += 1
        return self._span

    def next_revision(self) -> int:
        """The revision of the next change."""
        self._revision += 1
        return START // 1000 + self._revision

    @property
    def chance(self) -> random.Random:
        """The random numbers of this machine."""
        return self._chance

    @property
    def pool(self) -> Pool:
        """Texts to choose from."""
        return self._pool

    @property
    def project(self) -> str:
        """One of its projects."""
        return self._chance.choice(self._projects)


_PROJECTS = tuple(f"{name}-{part}" for name in ("shop", "search", "billing", "mobile") for part in ("api", "web", "ml"))


def _portions(rows: list[Row], most: int) -> Iterator[tuple[list[Row], bool]]:
    """Pages of rows, and whether each is the last one."""
    page: list[Row] = []
    size = 0
    for number, row in enumerate(rows, 1):
        page.append(row)
        size += len(row.raw) if isinstance(row, EventRow) else 0
        if len(page) >= most or size >= _PAGE_BYTES or number == len(rows):
            yield page, number == len(rows)
            page, size = [], 0


class Conversation:
    """One session: its rows in the order in which they came to be."""

    def __init__(self, machine: Sender, name: str, progress: float, spans: int) -> None:
        self._machine, self._chance, self._pool = machine, machine.chance, machine.pool
        digits = _digest(name).hex()
        self._id = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
        self._number = session_number("claude-code", self._id)
        self._file = int.from_bytes(_digest("file", name)[:5], "big")
        self._at = START + int(progress * DAYS * _DAY) + self._chance.randrange(_DAY // 4)
        self._spans_left, self._project = spans, machine.project
        self._model = self._chance.choice(_MODELS)
        self._count, self._offset, self._errors, self._steps, self._tools = 0, 0, 0, 0, 0
        self._rows: list[Row] = []

    def rows(self) -> list[Row]:
        """The session, its file, spans, responses and events."""
        began, prompt = self._at, self._chance.choice(self._pool.prose)
        turns = max(1, round(self._spans_left / _SPANS_OF_TURN))
        for turn in range(turns):
            self._turn(turn, prompt if turn == 0 else self._chance.choice(self._pool.prose))
        session = Session(
            id=self._number,
            agent="claude-code",
            session_id=self._id,
            project=self._project,
            branch="main",
            title=prompt[:60] if self._chance.random() < 0.5 else None,
            first_prompt=prompt[:200],
            version=_VERSION,
            model=self._model,
            born=began,
            state="waiting",
            started_at=began,
            last_at=self._at,
            turns=turns,
            steps=self._steps,
            tools=self._tools,
            errors=self._errors,
            events=self._count,
        )
        source = {"agent": "claude-code", "session_id": self._id, "stream": "main", "cwd": self._project}
        facts = {"parent_stream": None, "parent_call": None, "parent_session": None, "copied": False, "title": None}
        path = f"/home/dev/.claude/projects/{self._project.replace('/', '-')}/{self._id}.jsonl"
        encoded = msgspec.json.encode({**source, **facts, "name": None, "model": None, "directory": "/home/dev"})
        revision = self._machine.next_revision()
        return [FileOfLines(self._file, path, encoded, revision), StoredSession(session, revision), *self._rows]

    def _turn(self, turn: int, prompt: str) -> None:
        began, trace = self._at, _digest(self._id, "trace", turn)
        span = _digest(self._id, "turn", turn)[:8]
        self._line(turn, 0, "user", span, f'{{"role":"user","content":"{prompt}"}}')
        for step in range(1, _STEPS + 1):
            self._step(turn, step, trace, span, tools=2 if step == _STEPS else 1)
        self._span(
            span, trace, None, "turn", "invoke_agent claude-code", began, turn, 0, f'{{"prompt":"{prompt[:200]}"}}'
        )

    def _step(self, turn: int, step: int, trace: bytes, parent: bytes, *, tools: int) -> None:
        began, name = self._at, _digest(self._id, turn, step)
        span, message = name[:8], f"msg_{name.hex()[:24]}"
        usage = Usage(
            input_tokens=self._chance.randint(3, 900),
            output_tokens=self._chance.randint(20, 900),
            cache_read_tokens=self._chance.randint(9_000, 120_000),
            cache_write_tokens=self._chance.randint(0, 4_000),
        )
        self._at += self._chance.randint(1, 12) * _SECOND
        head = f'{{"id":"{message}","model":"{self._model}","role":"assistant","content":[{{"type":'
        tail = f'}}],"usage":{{"input_tokens":{usage.input_tokens},"output_tokens":{usage.output_tokens}}}}}'
        said = self._chance.choice(self._pool.prose)
        self._line(turn, step, "assistant", span, f'{head}"text","text":"{said}"{tail}')
        attributes = f'{{"finish_reason":"tool_use","response":"{message}"}}'
        self._span(span, trace, parent, "step", f"chat {self._model}", began, turn, step, attributes, self._model, name)
        self._steps += 1
        self._rows.append(
            ResponseRow(name, self._number, self._at, self._model, False, 0, "", usage, self._machine.next_revision())
        )
        for number in range(tools):
            self._tool(turn, step, number, trace, span, head, tail)

    def _tool(self, turn: int, step: int, number: int, trace: bytes, parent: bytes, head: str, tail: str) -> None:
        began, name = self._at, _digest(self._id, turn, step, number)
        call, tool = f"toolu_{name.hex()[:22]}", self._chance.choice(_TOOLS)
        self._at += self._chance.randint(100_000, 20 * _SECOND)
        failed = self._chance.random() < _FAILURES
        given = (
            f'"tool_use","id":"{call}","name":"{tool}","input":{{"command":"{self._chance.choice(self._pool.prose)}"}}'
        )
        self._line(turn, step, "assistant", name[:8], head + given + tail)
        output = self._chance.choice(self._pool.output)
        result = (
            f'{{"tool_use_id":"{call}","type":"tool_result","content":"{output}","is_error":{str(failed).lower()}}}'
        )
        self._line(turn, step, "user", name[:8], f'{{"role":"user","content":[{result}]}}')
        attributes = f'{{"call":"{call}","tool":"{tool}"' + (',"error":"Exit code 1"}' if failed else "}")
        status = "error" if failed else "ok"
        self._span(
            name[:8], trace, parent, "tool", f"execute_tool {tool}", began, turn, step, attributes, status=status
        )
        self._tools += 1
        self._errors += failed

    def _span(
        self,
        span: bytes,
        trace: bytes,
        parent: bytes | None,
        kind: str,
        name: str,
        began: int,
        turn: int,
        step: int,
        attributes: str,
        model: str | None = None,
        response: bytes | None = None,
        status: str = "ok",
    ) -> None:
        number, revision = self._machine.next_span(), self._machine.next_revision()
        place = (number, span, trace, parent, self._number, "main", kind, name, began, self._at, status, model)
        self._rows.append(StoredSpan(*place, turn, step, response, attributes, revision))

    def _line(self, turn: int, step: int, kind: str, span: bytes, message: str) -> None:
        number, self._count = self._machine.next_event(), self._count + 1
        event = _digest(self._id, "event", self._count)
        uuid = event.hex()
        raw = (
            f'{{"parentUuid":"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}","isSidechain":false,"type":"{kind}","message":'
            f'{message},"uuid":"{uuid}","timestamp":"{_stamp(self._at)}","sessionId":"{self._id}",'
            f'"cwd":"{self._project}","version":"{_VERSION}","gitBranch":"main"}}'
        ).encode()
        place = (number, self._number, event, turn, step, kind, span, self._at / 1e6, self._file, 0, self._offset)
        self._rows.append(EventRow(*place, raw))
        self._offset += len(raw) + 1


def _digest(*parts: str | int) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).digest()


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
