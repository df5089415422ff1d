"""Logs of every format with lines that were damaged in every way: the same seed always gives the same bytes."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from otlp_rig import chat, line, shared

DATA = Path(__file__).resolve().parents[1] / "data"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "samples"

#: The home of each agent, and where the samples that belong there are.
HOMES = {
    ".claude": ("claude-code-2.1.197", "claude-code-2.1.325"),
    ".codex": ("codex-0.166.0", "codex-0.166.0-review"),
    ".kimi": ("kimi-cli-1.49.0",),
    ".kimi-code": ("kimi-code-2.1.0",),
    ".qwen": ("qwen-code-0.24.4",),
    ".copilot": ("copilot-1.0.102/.copilot",),
    ".gemini": ("gemini-cli-0.61.0/.gemini",),
    ".pi": ("pi-0.87.1/.pi",),
}
#: Documents of agents, in the layout of their home directories.
DOCUMENTS = {
    "cline-3.0.65": "*.messages.json",
    "continue-cli-1.5.47": "????????-*.json",
    "aider-0.86.2": ".aider.chat.history.md",
}
#: Where the database of OpenCode is in a home directory.
DATABASE = ".local/share/opencode/opencode.db"
#: Logs without a home, given by path.
LOOSE = ("claude-code-log-testdata", "kimi-code-migration-fixtures", "qwen-code", "native")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Longer lines cost time and show nothing that short ones do not.
_LONGEST = 20_000
_MOST_LINES = 60

#: What stands where something else was expected, as it is written in JSON.
VALUES = (
    *("null", "true", "false", "0", "-1", "1", "0.5", "-0.0", "1e300", "-1e300", "1e999", "9" * 4000, "1e-400"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "4294967297"),
    *("NaN", "Infinity", "-Infinity", '"NaN"', '"-1"', '"1e300"', '"9223372036854775808"', '"nan"', '"inf"'),
    *('""', '" "', '"x"', '"\\u0000"', '"\\ud83d"', '"\\ude00\\ud83d"', '"a\\nb\\r\\u2028c"', '"\\u202e\\u001b[31m"'),
    *("[]", "{}", "[[]]", "[{}]", "[null]", '{"":null}', '{"type":"text"}', '[{"type":"text"}]', "[1,2,3]"),
    *("[" * 200 + "]" * 200, '{"a":' * 700 + "1" + "}" * 700, "[" * 5000 + "]" * 5000),
    *('"9999-12-31T23:59:59Z"', '"0001-01-01T00:00:00Z"', '"2026-02-30T00:00:00Z"', '"1969-12-31T23:59:59.999Z"'),
    *('"' + "x" * 70_000 + '"', '"' + "字" * 3000 + '"'),
)
_PLACE = "\0here\0"

Parts = list[tuple[dict[str, Any] | list[Any], Any]]


class Written(NamedTuple):
    """What was written for one store."""

    lines: int
    mutated: int


class Mutator:
    """Damages lines; ``others`` are lines of all formats to swap with."""

    def __init__(self, chance: random.Random, others: list[bytes]) -> None:
        self._chance = chance
        self._others = others
        self._kinds: list[Callable[[bytes], bytes]] = [
            *(self._other_value, self._other_value, self._other_value, self._without, self._key_again, self._moved_key),
            *(self._bit, self._bytes, self._cut, self._glued, self._torn_and_whole, self._another, self._swapped_id),
            *(self._wrapped, self._escape, self._blank, self.number),
        ]

    def __call__(self, raw: bytes) -> bytes:
        """The line with one to three faults; never with a newline in it."""
        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
            raw = self._chance.choice(self._kinds)(raw)
        return raw.replace(b"\n", b" ")

    # Faults of meaning.

    def _parts(self, raw: bytes) -> tuple[Any, Parts]:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return None, []
        return value, list(_parts_of(value))

    def _other_value(self, raw: bytes) -> bytes:
        value, parts = self._parts(raw)
        if not parts:
            return raw
        place, key = self._chance.choice(parts)
        place[key] = _PLACE
        return json.dumps(value).replace(json.dumps(_PLACE), self._chance.choice(VALUES)).encode()

    def number(self, raw: bytes) -> bytes:
        """Another value for a number, which may be a count of tokens or a time."""
        value, parts = self._parts(raw)
        numbers = [(place, key) for place, key in parts if type(place[key]) in (int, float)]
        if not numbers:
            return raw
        place, key = self._chance.choice(numbers)
        place[key] = _PLACE
        return json.dumps(value).replace(json.dumps(_PLACE), self._chance.choice(VALUES)).encode()

    def _without(self, raw: bytes) -> bytes:
        value, parts = self._parts(raw)
        if not parts:
            return raw
        place, key = self._chance.choice(parts)
        del place[key]
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _key_again(self, raw: bytes) -> bytes:
        """An object with one of its keys twice."""
        value, parts = self._parts(raw)
        named = [(place, key) for place, key in parts if isinstance(place, dict)]
        if not named:
            return raw
        place, key = self._chance.choice(named)
        place[_PLACE] = 0
        again = f"{json.dumps(key)}: {self._chance.choice(VALUES)}"
        return json.dumps(value).replace(f"{json.dumps(_PLACE)}: 0", again).encode()

    def _moved_key(self, raw: bytes) -> bytes:
        """The value of one field under the name of another."""
        value, parts = self._parts(raw)
        if len(parts) < 2:
            return raw
        (place, key), (other, name) = self._chance.sample(parts, 2)
        moved = json.dumps(other[name])
        place[key] = _PLACE
        return json.dumps(value).replace(json.dumps(_PLACE), moved).encode()

    def _swapped_id(self, raw: bytes) -> bytes:
        """An id that another line has."""
        own, foreign = _UUID.findall(raw.decode("utf-8", "replace")), _ids_in(self._chance.choice(self._others))
        if not own or not foreign:
            return raw
        return raw.replace(self._chance.choice(own).encode(), self._chance.choice(foreign).encode())

    def _wrapped(self, raw: bytes) -> bytes:
        return self._chance.choice((b"[%s]", b'{"a":%s}', b"%s ", b"\xef\xbb\xbf%s", b"%s,", b"\x00%s")) % raw

    def _blank(self, raw: bytes) -> bytes:
        return self._chance.choice((b"{}", b"[]", b"", b" ", b"null", b"0", b'""', b"{", b"\x00" * 50, b"\r", b"\xff"))

    # Faults of bytes.

    def _bit(self, raw: bytes) -> bytes:
        if not raw:
            return raw
        changed = bytearray(raw)
        for _ in range(self._chance.choice((1, 1, 8))):
            changed[self._chance.randrange(len(raw))] ^= 1 << self._chance.randrange(8)
        return bytes(changed)

    def _bytes(self, raw: bytes) -> bytes:
        """Bytes that are no UTF-8, or raw control characters."""
        place = self._chance.randint(0, len(raw))
        return raw[:place] + self._chance.choice((b"\xff", b"\xed\xa0\x80", b"\x00", b"\x1b", b"\x80")) + raw[place:]

    def _escape(self, raw: bytes) -> bytes:
        """Half a surrogate pair where a text begins."""
        places = [found.end() for found in re.finditer(rb': ?"', raw)]
        if not places:
            return raw
        place = self._chance.choice(places)
        return raw[:place] + self._chance.choice((b"\\ud83d", b"\\udc00x", b"\\u0000", b"\\u12")) + raw[place:]

    def _cut(self, raw: bytes) -> bytes:
        return raw[: self._chance.randint(0, len(raw))]

    def _glued(self, raw: bytes) -> bytes:
        return raw + self._chance.choice((b"", b" ", b",")) + self._chance.choice(self._others)

    def _torn_and_whole(self, raw: bytes) -> bytes:
        return self._cut(raw) + self._chance.choice(self._others)

    def _another(self, raw: bytes) -> bytes:
        """A line of any format."""
        return self._chance.choice(self._others)


def _parts_of(value: object) -> Iterator[tuple[dict[str, Any] | list[Any], Any]]:
    """The paths of values, outer ones first."""
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _parts_of(value[key])
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value, index
            yield from _parts_of(value[index])


def _ids_in(raw: bytes) -> list[str]:
    return _UUID.findall(raw.decode("utf-8", "replace"))


class Sample(NamedTuple):
    """A log: its path below the home of its user, its lines, and the small files beside it."""

    path: str
    lines: list[bytes]
    beside: tuple[tuple[str, Path], ...] = ()


def samples() -> list[list[Sample]]:
    """Logs of every format, those of one format together."""
    found = []
    for home, names in HOMES.items():
        roots = [DATA / name for name in names]
        found.append([_sample(path, f"{home}/{path.relative_to(root)}") for root in roots for path in _logs(root)])
    for name in LOOSE:
        root = DATA / name
        found.append([_sample(path, f"logs/{name}/{path.relative_to(root)}") for path in _logs(root)])
    for root in sorted(SHARED.glob("*/*-scrubbed")):
        found.append([_sample(path, f"logs/{root.name}/{path.relative_to(root)}") for path in _logs(root)])
    found.append([_sample(DATA / "native" / "server.jsonl", ".agenttrace/logs/server.jsonl")])
    found.append([Sample(".agenttrace/logs/otlp/spans-2026-11-15.1.jsonl", _spans())])
    return found


def _logs(root: Path) -> list[Path]:
    """The logs that a recorder reads; an agent's other files have no lines."""
    found = (path for path in root.rglob("*.jsonl") if path.is_file() and path.name != "context.jsonl")
    return sorted(path for path in found if path.parent.name != "before-resume")


def _sample(path: Path, name: str) -> Sample:
    lines = [raw for raw in path.read_bytes().splitlines() if len(raw) < _LONGEST]
    beside = tuple(
        (str(Path(name).parent / other.relative_to(path.parent)), other)
        for other in (path.with_suffix(".meta.json"), path.parent / "state.json", path.parent / "meta.json")
        if other.is_file()
    )
    return Sample(name, lines, beside)


def _spans() -> list[bytes]:
    """Spans as the intake writes them: some traces, calls that cost something, a resource on a separate line."""
    found: list[dict[str, Any]] = []
    for trace in range(1, 5):
        root = line(trace * 10, trace=trace, name="work", attributes={"session.id": f"s{trace % 3}"})
        found += [shared(trace), root]
        found += [chat(trace * 10 + step, trace=trace, parent=trace * 10, tokens=step) for step in range(1, 5)]
        found.append(line(trace * 10 + 6, trace=trace, parent=trace * 10 + 1, name="execute_tool x", resource_ref="d1"))
    return [json.dumps(each).encode() for each in found]


SAMPLES = samples()


def write_logs(user: Path, *, seed: int, mutated: int) -> Written:
    """Logs of all formats in the homes of a user, with at least so many damaged lines; file times by order."""
    chance = random.Random(seed)
    others = [chance.choice(group).lines for group in SAMPLES for _ in range(3)]
    mutate = Mutator(chance, [raw for lines in others for raw in lines[:40] if len(raw) < 4000])
    total = Written(0, 0)
    number = 0
    while total.mutated < mutated:
        # Every format in turn.
        sample = chance.choice(SAMPLES[number % len(SAMPLES)])
        number += 1
        written = _write(user, _renamed(sample, chance, number), chance, mutate)
        total = Written(total.lines + written.lines, total.mutated + written.mutated)
    return total


def write_sources(user: Path, *, seed: int) -> None:
    """A database with damaged rows, and documents damaged in their messages and in their bytes."""
    chance = random.Random(seed)
    others = [raw for group in SAMPLES for raw in chance.choice(group).lines[:5] if len(raw) < 4000]
    mutate = Mutator(chance, others)
    _write_database(user / DATABASE, chance, mutate)
    for name, pattern in DOCUMENTS.items():
        for path in sorted((DATA / name).rglob(pattern)):
            if "before-resume" in str(path):
                continue
            place = user / path.relative_to(DATA / name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(_damaged(path.read_bytes(), chance, mutate))


def _write_database(place: Path, chance: random.Random, mutate: Mutator) -> None:
    """The rows of the sample in a table that takes anything, many of them with a column that no agent writes."""
    place.parent.mkdir(parents=True)
    with sqlite3.connect(DATA / "opencode-1.18.33" / DATABASE) as sample:
        rows = sample.execute("SELECT id, aggregate_id, seq, type, data FROM event ORDER BY rowid").fetchall()
        sessions = sample.execute("SELECT id, parent_id FROM session").fetchall()
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE session (id, parent_id)")
    connection.execute("CREATE TABLE event (id, aggregate_id, seq, type, data)")
    connection.executemany("INSERT INTO session VALUES (?, ?)", [*sessions, ("a", "b"), ("b", "a")])
    for row in rows:
        values = list(row)
        if chance.random() < 0.5:
            values[4] = mutate(values[4].encode())
            if chance.random() < 0.5:
                values[4] = values[4].decode("utf-8", "replace")
        if chance.random() < 0.3:
            values[chance.randrange(5)] = chance.choice(_COLUMNS)
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", values)
    connection.commit()
    connection.close()


#: What stands in a column where something else was expected.
_COLUMNS = (
    *(None, 0, -1, 2**63 - 1, 0.5, float("inf"), "", "x", "a", "\ud83d".encode("utf-8", "surrogatepass"), b"\xff\x00"),
    *("x" * 70_000, "[" * 5000 + "]" * 5000, '{"a":\n1}', "{", '{"part":', "[1,2", '"text"', "{}\n{}", "a\nb\r\u2028c"),
)


def _damaged(document: bytes, chance: random.Random, mutate: Mutator) -> bytes:
    """A document with messages that were damaged, or one that is none."""
    kind = chance.random()
    try:
        value = json.loads(document)
    except ValueError:
        value = None
    if kind < 0.2 or value is None:
        return document if kind < 0.1 else document[: chance.randrange(len(document))]
    name = "messages" if "messages" in value else "history"
    if kind < 0.4:
        value[name] = json.loads(chance.choice(("null", "{}", '"x"', "[null, 1, []]", "[]", '[[{"id": 1}]]')))
        return json.dumps(value, indent=2).encode()
    messages = [
        mutate(json.dumps(each).encode()) if chance.random() < 0.5 else json.dumps(each).encode()
        for each in value[name]
    ]
    value[name] = _PLACE
    whole = json.dumps(value, indent=2).encode()
    return whole.replace(json.dumps(_PLACE).encode(), b"[" + b",\n".join(messages + messages[:1]) + b"]")


def _renamed(sample: Sample, chance: random.Random, number: int) -> Sample:
    """Under new ids, so that it is another session; sometimes only the file has another name: a copy."""
    path, lines = sample.path, sample.lines
    for old in dict.fromkeys(_UUID.findall(path)):
        new = f"{chance.getrandbits(128):032x}"
        new = f"{new[:8]}-{new[8:12]}-{new[12:16]}-{new[16:20]}-{new[20:]}"
        path = path.replace(old, new)
        if chance.random() < 0.8:
            lines = [raw.replace(old.encode(), new.encode()) for raw in lines]
    if path == sample.path:
        name = Path(path)
        path = str(name.with_name(f"{name.stem}-{number}.jsonl"))
        if name.stem == "wire":
            path = str(name.parent.with_name(f"{name.parent.name}-{number}") / name.name)
    beside = tuple((str(Path(path).parent / Path(name).name), source) for name, source in sample.beside)
    return Sample(path, lines, beside)


def _write(user: Path, sample: Sample, chance: random.Random, mutate: Mutator) -> Written:
    path = user / sample.path
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, source in sample.beside:
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, user / name)
    first = chance.randrange(max(1, len(sample.lines) - _MOST_LINES)) if chance.random() < 0.3 else 0
    lines, mutated = sample.lines[first : first + _MOST_LINES], 0
    rate = chance.choice((0.1, 0.5, 0.9))
    for place in range(len(lines)):
        if chance.random() < (rate if place else 0.15):
            lines[place] = mutate(lines[place])
            mutated += 1
    end = b"" if chance.random() < 0.1 else b"\n"
    path.write_bytes(b"\n".join(lines) + end)
    return Written(len(lines), mutated)
