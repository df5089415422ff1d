"""No line stops the recorder: what cannot be recorded is set aside alone, everything else is as without it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.model import Event
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.native import Native
from agenttrace.record.ingest.acts import Act
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.store.batch import Batch
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore

DATA = Path(__file__).parents[1] / "data"
#: What no program counts to, in each of the ways in which JSON can write it.
ABSURD = ["9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e300", "-1e300", "1e999", "9" * 4000]
#: Rows that must be the same whatever stood between the lines.
SAME = ("processed_events", "spans", "sessions", "streams", "responses", "usage_rollup", "links")
DayOf = Callable[[int], str]
INCIDENTAL = {"event_no", "processed_at", "block_id", "line_n", "span_no", "changed", "state", "revision"}


def settings_of(root: Path, **record: int) -> Settings:
    flags = {f"record.{name}": value for name, value in record.items()}
    found = load_settings({"HOME": str(root), "AGENTTRACE_HOME": str(root / "home")}, flags)
    ensure_home(found)
    return found


def record(root: Path, **flags: int) -> Summary:
    """Record ``root/logs``; the five kinds must add up."""
    recorder = Recorder(settings_of(root, **flags), paths=[str(root / "logs")], environ={"HOME": str(root)})
    try:
        summary = recorder.run_once()
    finally:
        recorder.close()
    kinds = (summary.recorded, summary.duplicate, summary.ignored, summary.quarantined, summary.pending)
    assert summary.lines == sum(kinds), summary
    return summary


def stored(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The content of the store, whenever and in how many batches it was stored."""
    connection = connect(root / "home" / "agenttrace.db", read_only=True)
    try:
        found = {}
        for table in SAME:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            columns = ", ".join(f'"{name}"' for name in names if name not in INCIDENTAL)
            found[table] = sorted(connection.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)
        return found
    finally:
        connection.close()


def reasons(root: Path) -> list[str]:
    connection = connect(root / "home" / "agenttrace.db", read_only=True)
    try:
        return [row[0] for row in connection.execute("SELECT reason FROM quarantine ORDER BY filepath, offset")]
    finally:
        connection.close()


# -- numbers out of range -----------------------------------------------------------------------------------------


def samples() -> list[tuple[str, list[bytes]]]:
    """A log of each format, by a name under which it is recognised, cut to some lines that count something."""
    found = []
    for pattern in (
        "claude-code-2.1.197/**/*.jsonl",
        "codex-0.166.0/**/*.jsonl",
        "kimi-cli-1.49.0/**/wire.jsonl",
        "kimi-code-2.1.0/**/wire.jsonl",
        "qwen-code/**/*.jsonl",
        "native/**/*.jsonl",
    ):
        path = max(DATA.glob(pattern), key=lambda path: path.stat().st_size)
        lines = path.read_bytes().splitlines()[:60]
        found.append((path.name, [line for line in lines if len(line) < 20_000]))
    span = {"otlp": 1, "trace": "ab" * 16, "span": "cd" * 8, "name": "chat", "kind": "client", "start": 10**18}
    span |= {"end": 10**18 + 5, "attributes": {"gen_ai.usage.input_tokens": 5, "gen_ai.operation.name": "chat"}}
    found.append(("spans-1.jsonl", [json.dumps(span).encode(), json.dumps(span | {"span": "ef" * 8}).encode()]))
    return found


SAMPLES = samples()


def numbers_in(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a line has a number."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(part, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def with_number(line: bytes, choice: int, number: str) -> bytes:
    """The line with another number somewhere."""
    value = json.loads(line)
    places = list(numbers_in(value))
    if not places:
        return line
    *path, last = places[choice % len(places)]
    place = value
    for key in path:
        place = place[key]
    place[last] = "\0here\0"
    return json.dumps(value).replace(json.dumps("\0here\0"), number).encode()


@settings(max_examples=40)
@given(
    which=st.sampled_from(SAMPLES),
    changes=st.lists(
        st.tuples(st.integers(0, 59), st.integers(0, 200), st.sampled_from(ABSURD)), min_size=1, max_size=8
    ),
    batch=st.sampled_from([1, 3, 10_000]),
)
def test_absurd_numbers_never_reach_the_store(
    which: tuple[str, list[bytes]],
    changes: list[tuple[int, int, str]],
    batch: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Wherever it is, in any format: the line is recorded without it, or refused, by its decoder alone."""
    root = tmp_path_factory.mktemp("numbers")
    name, lines = which[0], list(which[1])
    for place, choice, number in changes:
        if place < len(lines):
            lines[place] = with_number(lines[place], choice, number)
    (root / "logs").mkdir()
    (root / "logs" / name).write_bytes(b"".join(line + b"\n" for line in lines))
    assert record(root, batch_lines=batch).lines == len(lines)
    assert not [reason for reason in reasons(root) if reason.startswith("cannot be recorded")]


@pytest.mark.parametrize("number", ABSURD)
@pytest.mark.parametrize(
    "line",
    [
        '{"v":1,"session":"s","type":"step.begin","step":@}',
        '{"v":1,"session":"s","type":"tool.begin","step":@,"name":"x","ts":1}',
        '{"v":1,"session":"s","type":"turn.begin","turn":@}',
        '{"v":1,"session":"s","type":"message","id":@,"ts":@}',
        '{"v":1,"session":"s","type":"tool.end","id":"c","duration":@}',
        '{"v":1,"session":"s","type":"usage","usage":{"output_tokens":@,"input_tokens":@}}',
    ],
)
def test_absurd_numbers_of_our_own_format(line: str, number: str, tmp_path: Path) -> None:
    """Treated as missing; the lines around it are recorded."""
    around = '{"v":1,"session":"s","type":"step.begin","turn":1,"step":1}\n'
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text(around + line.replace("@", number) + "\n" + around.replace("1}", "2}"))
    assert record(tmp_path).recorded == 3


def test_a_turn_of_many_digits_is_a_name(tmp_path: Path) -> None:
    """It is a text, and no number to compare with."""
    turns = [json.dumps({"v": 1, "session": "s", "type": "step.begin", "turn": turn}) for turn in ("7" * 5000, 8)]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text("\n".join(turns) + "\n")
    assert record(tmp_path).recorded == 2


def test_the_sum_of_all_responses_fits(tmp_path: Path) -> None:
    """However many responses say that they had as many tokens as one may have."""
    usage = {"output_tokens": 2**53, "input_tokens": 2**32}
    lines = [
        json.dumps({"v": 1, "session": "s", "type": "usage", "response": f"r{number}", "usage": usage})
        for number in range(2000)
    ]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text("\n".join(lines) + "\n")
    assert record(tmp_path, batch_lines=700).recorded == 2000
    (row,) = stored(tmp_path)["usage_rollup"]
    assert row[4] == 2000
    assert 2000 * 2**32 in row


# -- the net below ------------------------------------------------------------------------------------------------


class Scene:
    """Some sessions of our own format, in some files, with lines that will not be recorded."""

    def __init__(self, root: Path, files: list[list[bool]]) -> None:
        self.root = root
        self.bad = sum(map(sum, files))
        self.lines = sum(map(len, files))
        (root / "logs").mkdir()
        for number, kinds in enumerate(files):
            lines = [self._line(number, place, bad) for place, bad in enumerate(kinds)]
            self._save(root / "logs" / f"{number}.jsonl", lines)

    @staticmethod
    def _save(path: Path, lines: list[bytes]) -> None:
        path.write_bytes(b"".join(lines))
        # Older files are read first.
        os.utime(path, (1e9 + int(path.stem), 1e9 + int(path.stem)))

    @staticmethod
    def _line(file: int, place: int, bad: bool) -> bytes:
        kind = "poison" if bad else ("turn.begin", "step.begin", "tool.begin", "usage")[place % 4]
        line = {"v": 1, "session": f"s{file % 2}", "type": kind, "id": f"{file}-{place}", "ts": 1000.0 + place}
        line |= {"usage": {"output_tokens": place}, "text": "x" * (place % 7)}
        return json.dumps(line).encode() + b"\n"

    def without(self, root: Path) -> Path:
        """The same files with lines that are no JSON where the others cannot be recorded."""
        (root / "logs").mkdir()
        for path in (self.root / "logs").iterdir():
            lines = path.read_bytes().splitlines(keepends=True)
            lines = [b"x" * (len(line) - 1) + b"\n" if b"poison" in line else line for line in lines]
            self._save(root / "logs" / path.name, lines)
        return root


def poisoned(batch: Batch) -> bool:
    return any(row[4] == "poison" for row in batch.events)


@contextmanager
def failing(where: str, error: Exception) -> Iterator[None]:
    """Let the lines fail while they are decoded, understood, folded or stored."""
    with pytest.MonkeyPatch.context() as patch:
        if where == "commit":
            commit = SqliteStore.commit

            def committed(self: SqliteStore, batch: Batch, *, day_of: DayOf) -> None:
                if poisoned(batch):
                    raise error
                commit(self, batch, day_of=day_of)

            patch.setattr(SqliteStore, "commit", committed)
        elif where == "decode":
            decode = Native.decode

            def decoded(self: Native, raw: bytes, source: Source) -> Event | Unusable:
                if b"poison" in raw:
                    raise error
                return decode(self, raw, source)

            patch.setattr(Native, "decode", decoded)
        else:
            acts = Native.acts

            def acted(self: Native, event: Event, source: Source, memory: dict[str, Any]) -> Iterator[Act]:
                yield from acts(self, event, source, memory)
                if event.type == "poison":
                    memory["half"] = "done"
                    raise error

            patch.setattr(Native, "acts", acted)
        yield


ERRORS = [
    OverflowError("too large"),
    ValueError("no"),
    RecursionError(),
    AssertionError(),
    sqlite3.InterfaceError("binding"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
]


@settings(max_examples=25)  # each records twice
@given(
    files=st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=3),
    where=st.sampled_from(["commit", "acts", "decode"]),
    error=st.sampled_from(ERRORS),
    batch=st.integers(1, 40),
)
def test_one_line_is_set_aside_and_the_rest_recorded(
    files: list[list[bool]],
    where: str,
    error: Exception,
    batch: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever fails about it, wherever batches end: the store is that of the files without it, and its entry."""
    files = [[False, *kinds] for kinds in files]
    scene = Scene(tmp_path_factory.mktemp("bad"), files)
    with failing(where, error):
        summary = record(scene.root, batch_lines=batch)
    assert (summary.lines, summary.quarantined) == (scene.lines, scene.bad)
    assert len(reasons(scene.root)) == scene.bad
    assert all(reason.startswith(f"cannot be recorded: {type(error).__name__}") for reason in reasons(scene.root))
    other = scene.without(tmp_path_factory.mktemp("good"))
    reference = record(other, batch_lines=10_000)
    assert (summary.recorded, summary.bytes) == (reference.recorded, reference.bytes)
    assert stored(scene.root) == stored(other)
    # Another start has nothing left to fail on.
    assert record(scene.root).lines == 0


def test_many_bad_lines_in_a_row_cost_no_more_than_each_alone(tmp_path: Path) -> None:
    """What was read before one is stored, not read again for each."""
    scene = Scene(tmp_path, [[False, *[True] * 300, False]])
    taken = 0
    decode = Native.decode

    def counting(self: Native, raw: bytes, source: Source) -> Event | Unusable:
        nonlocal taken
        taken += 1
        return decode(self, raw, source)

    with pytest.MonkeyPatch.context() as patch, failing("acts", ValueError("no")):
        patch.setattr(Native, "decode", counting)
        assert record(scene.root).quarantined == 300
    assert taken < 20 * 300


@pytest.mark.parametrize("error", [OSError("disk"), MemoryError(), sqlite3.OperationalError("no such table: x")])
def test_what_is_no_lines_fault_is_not_blamed_on_one(error: Exception, tmp_path: Path) -> None:
    """It is raised, and nothing counts as read."""
    if isinstance(error, sqlite3.OperationalError):
        error.sqlite_errorcode = sqlite3.SQLITE_ERROR
    scene = Scene(tmp_path, [[False, True, False]])
    with failing("commit", error), pytest.raises(type(error)):
        record(scene.root)
    assert record(scene.root).recorded == 3


def test_a_store_that_takes_nothing_is_not_blamed_on_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the entry of the line can be written: that is no line's fault, and nothing is lost."""
    scene = Scene(tmp_path, [[False] * 5, [False] * 3])

    def commit(*_: object, **__: object) -> None:
        raise OverflowError("always")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "commit", commit)
        with pytest.raises(OverflowError):
            record(scene.root)
    assert record(scene.root).recorded == 8
    assert reasons(scene.root) == []


# -- batches ------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    files=st.lists(st.lists(st.just(False), min_size=1, max_size=20), min_size=1, max_size=3),
    batch=st.integers(1, 25),
    compressed=st.booleans(),
)
def test_batch_lines_is_the_most_of_a_transaction(
    files: list[list[bool]], batch: int, compressed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However many lines come in one piece, compressed or not."""
    scene = Scene(tmp_path_factory.mktemp("batches"), files)
    if compressed:
        for path in list((scene.root / "logs").iterdir()):
            path.with_name(path.name + ".zst").write_bytes(zstandard.compress(path.read_bytes()))
            path.unlink()
    sizes: list[int] = []

    commit = SqliteStore.commit

    def committed(self: SqliteStore, batch: Batch, *, day_of: DayOf) -> None:
        sizes.append(len(batch.events))
        commit(self, batch, day_of=day_of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "commit", committed)
        assert record(scene.root, batch_lines=batch).recorded == scene.lines
    assert max(sizes) <= batch
    assert sum(sizes) == scene.lines
