"""JSONL and Parquet files: they have every span once, whatever happens during the write."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forked
from agenttrace.destinations import DestinationSettings
from agenttrace.export import jsonl_files, parquet_files
from agenttrace.export.destination import Delivery
from agenttrace.export.kinds import UnusableDestinationError, destination_of
from agenttrace.export.span import ExportSpan, Text
from agenttrace.export.span_files import record_of
from agenttrace.export.wire_text import plain
from export.file_writing import destination_in, portion
from export.span_making import START, make_span, span_tree, trees

TESTS = Path(__file__).resolve().parents[1]
kinds = pytest.mark.parametrize("kind", ["jsonl", "parquet"])


def send(kind: str, path: Path, spans: Sequence[ExportSpan], **changes: object) -> Delivery:
    return asyncio.run(destination_in(kind, path, **changes).send(spans))


def present(kind: str, path: Path, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
    return asyncio.run(destination_in(kind, path).present(spans))


def rows(kind: str, path: Path) -> list[dict[str, Any]]:
    """All rows of a directory, read by other libraries."""
    if kind == "parquet":
        found: list[dict[str, Any]] = pa.dataset.dataset(path, format="parquet").to_table().to_pylist()
        return found
    files = sorted(path.glob("spans-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def ids(kind: str, path: Path) -> list[str]:
    return [row["span_id"] for row in rows(kind, path)]


# -- content --------------------------------------------------------------------------------------------------------


@given(tree=trees())
def test_a_line_has_every_fact_of_a_span(tree: list[ExportSpan]) -> None:
    """Any trace with any text: reading gives the values that were written."""
    settings = DestinationSettings(name="files", type="jsonl", path="x", user="somebody", environment="test")
    for span in tree:
        line = jsonl_files.line_of(span, settings)
        assert line.endswith(b"}\n")
        assert line.count(b"\n") == 1
        found = json.loads(line, parse_float=str)
        expected = plain(record_of(span, settings))
        assert datetime.fromisoformat(found["start"]) == _moment(span.start)
        assert datetime.fromisoformat(found["end"]) == _moment(span.end)
        assert found["cost"] == (None if span.cost is None else str(span.cost))
        assert list(found) == list(expected)
        for name in set(found) - {"start", "end", "cost", "duration_ms", "attributes"}:
            assert found[name] == expected[name]


@given(tree=trees(max_spans=6))
def test_a_row_has_every_fact_of_a_span(tree: list[ExportSpan]) -> None:
    """Any trace with any text: a row of the table has the values of the line."""
    settings = DestinationSettings(name="files", type="parquet", path="x", user="somebody")
    with tempfile.TemporaryDirectory() as name:
        assert send("parquet", Path(name), tree, user="somebody").verdict == "accepted"
        table = rows("parquet", Path(name))
    assert len(table) == len(tree)
    for span, row in zip(tree, table, strict=True):
        expected = plain(record_of(span, settings))
        assert (row["start"], row["end"]) == (_moment(span.start), _moment(span.end))
        assert row["cost"] == (None if span.cost is None else float(span.cost))
        assert json.loads(row["attributes"] or "{}") == json.loads(json.dumps(plain(span.attributes)))
        assert list(row) == list(expected)
        for column in set(row) - {"start", "end", "cost", "attributes"}:
            assert row[column] == expected[column]


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def test_columns_have_numeric_and_time_types(tmp_path: Path) -> None:
    """Times are times, tokens are integers, costs are numbers, and several files are one table."""
    for start in (START, START + 1):
        send("parquet", tmp_path, span_tree(steps=3, start=start))
    send("parquet", tmp_path, [make_span()])
    schema = pa.dataset.dataset(tmp_path, format="parquet").schema
    assert schema.field("start").type == pa.timestamp("us", tz="UTC")
    assert schema.field("input_tokens").type == pa.int64()
    assert schema.field("cost").type == pa.float64()
    assert schema.field("subagent").type == pa.bool_()
    assert schema.field("texts").type.value_type.names == ["kind", "text", "call"]
    assert schema.names == list(record_of(make_span(), DestinationSettings(name="f", type="parquet", path="x")))


@kinds
def test_files_are_private_to_the_owner(kind: str, tmp_path: Path) -> None:
    """A directory that is not there is made, readable by its owner, and so are the files in it."""
    path = tmp_path / "not" / "there"
    assert send(kind, path, span_tree()).verdict == "accepted"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()] == [0o600]


# -- once, and found again ------------------------------------------------------------------------------------------


@kinds
def test_written_spans_are_found_and_nothing_else(kind: str, tmp_path: Path) -> None:
    """Which spans of a doubtful portion are in the files is known exactly."""
    first, second, never = span_tree(), span_tree(), span_tree()
    assert present(kind, tmp_path / "none", first) == set()
    send(kind, tmp_path, first)
    send(kind, tmp_path, second)
    assert present(kind, tmp_path, [*never, *second[1:]]) == {span.span_id for span in second[1:]}
    assert ids(kind, tmp_path) == [span.span_id.hex() for span in (*first, *second)]


@kinds
def test_files_may_be_removed_at_any_time(kind: str, tmp_path: Path) -> None:
    """Writing continues in a new file; spans of removed files are missing."""
    first, second = span_tree(), span_tree()
    send(kind, tmp_path, first)
    for file in tmp_path.iterdir():
        file.unlink()
    assert send(kind, tmp_path, second).verdict == "accepted"
    assert ids(kind, tmp_path) == [span.span_id.hex() for span in second]
    assert present(kind, tmp_path, [*first, *second]) == {span.span_id for span in second}
    for file in tmp_path.iterdir():
        file.unlink()
    tmp_path.rmdir()
    assert send(kind, tmp_path, first).verdict == "accepted"


def test_a_rotated_file_is_still_read(tmp_path: Path) -> None:
    """The lines of a rotated file are found; compressed files are not read."""
    first, second = span_tree(), span_tree()
    send("jsonl", tmp_path, first)
    (file,) = tmp_path.iterdir()
    file.rename(file.with_name(file.name + ".1"))
    (tmp_path / (file.name + ".2.gz")).write_bytes(b"\x1f\x8b not really")
    (tmp_path / "spans-2026-99-99.jsonl").write_bytes(b"of no day")
    send("jsonl", tmp_path, second)
    assert present("jsonl", tmp_path, [*first, *second]) == {span.span_id for span in (*first, *second)}


def test_only_files_that_can_have_a_span_are_read(tmp_path: Path) -> None:
    """A file from before a span began cannot have it: years of files are not searched for a new one."""
    fresh = make_span(start=int(time.time() * 1_000_000))
    old = tmp_path / "spans-2020-01-01.jsonl"
    old.write_bytes(jsonl_files.line_of(fresh, DestinationSettings(name="f", type="jsonl", path="x")))
    assert present("jsonl", tmp_path, [fresh]) == set()
    assert present("jsonl", tmp_path, [fresh, make_span(start=0)]) == {fresh.span_id}


# -- what breaks off ------------------------------------------------------------------------------------------------


@given(share=st.floats(0, 1), zeros=st.sampled_from([0, 0, 100]))
def test_an_interrupted_write_is_completed(share: float, zeros: int) -> None:
    """Cut at any byte, or with zeros behind it as after a loss of power: each span is there once in the end."""
    before, doubtful, after = span_tree(), span_tree(), span_tree()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        send("jsonl", path, before)
        (file,) = path.iterdir()
        whole = file.stat().st_size
        send("jsonl", path, doubtful)
        os.truncate(file, whole + round(share * (file.stat().st_size - whole)))
        with file.open("ab") as behind:
            behind.write(bytes(zeros))
        found = present("jsonl", path, doubtful)
        assert found is not None
        missing = [span for span in doubtful if span.span_id not in found]
        if missing:
            send("jsonl", path, missing)
        send("jsonl", path, after)
        assert Counter(ids("jsonl", path)) == Counter(span.span_id.hex() for span in (*before, *doubtful, *after))


def test_half_a_line_of_another_day_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new day begins a new file, and leaves none behind that a reader would stumble over."""
    monkeypatch.setattr(jsonl_files, "today", lambda: date(2026, 11, 14))
    send("jsonl", tmp_path, span_tree())
    (file,) = tmp_path.iterdir()
    os.truncate(file, file.stat().st_size - 10)
    monkeypatch.setattr(jsonl_files, "today", lambda: date(2026, 11, 15))
    send("jsonl", tmp_path, span_tree())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["spans-2026-11-14.jsonl", "spans-2026-11-15.jsonl"]
    assert len(rows("jsonl", tmp_path)) == 2 * len(span_tree()) - 1


@contextmanager
def no_room_above(size: int) -> Iterator[None]:
    """No file may become longer than this, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@kinds
def test_a_full_disk_leaves_nothing_half_and_is_retried(kind: str, tmp_path: Path) -> None:
    """Nothing of a portion stays when there is no room for all of it; later it is written as if nothing had been."""
    first, second = span_tree(), [make_span(texts=(Text("text", os.urandom(20_000).hex()),)) for _ in range(3)]
    send(kind, tmp_path, first)
    (file,) = tmp_path.iterdir()
    size, content = file.stat().st_size, file.read_bytes()
    with no_room_above(size + 1_000):
        delivery = send(kind, tmp_path, second)
    assert delivery.verdict == "retry"
    assert "too large" in delivery.reason
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [content]
    assert present(kind, tmp_path, second) == set()
    assert send(kind, tmp_path, second).verdict == "accepted"
    assert ids(kind, tmp_path) == [span.span_id.hex() for span in (*first, *second)]


@kinds
def test_a_place_that_is_no_directory_blocks(kind: str, tmp_path: Path) -> None:
    """The spans wait until the path is corrected, and a check reports the problem."""
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        assert send(kind, path, span_tree()).verdict == "blocked"
        assert asyncio.run(destination_in(kind, path).check())


@kinds
def test_a_check_creates_nothing(kind: str, tmp_path: Path) -> None:
    """A directory that could be made is fine, and is not made yet."""
    assert asyncio.run(destination_in(kind, tmp_path / "a" / "b").check()) == ""
    assert list(tmp_path.iterdir()) == []


@kinds
def test_two_destinations_in_one_directory_do_not_cut_each_others_lines(kind: str, tmp_path: Path) -> None:
    """With concurrent writes every span of both is there once."""
    portions = [span_tree(steps=1) for _ in range(20)]

    async def write() -> None:
        writers = [destination_in(kind, tmp_path) for _ in range(2)]
        await asyncio.gather(*(writers[index % 2].send(each) for index, each in enumerate(portions)))

    asyncio.run(write())
    assert Counter(ids(kind, tmp_path)) == Counter(span.span_id.hex() for each in portions for span in each)


@pytest.mark.slow
@kinds
def test_a_process_killed_while_writing_loses_and_doubles_nothing(kind: str, tmp_path: Path) -> None:
    """Killed repeatedly at any moment: missing spans are sent again, and each span is there once."""
    chance = random.Random(kind)
    path, following, sent = tmp_path / "out", 0, []
    for _ in range(5):
        command = [sys.executable, "-m", "export.file_writing", kind, str(path), str(following)]
        last = _killed(command, chance)
        for number in range(following, last + 1):
            spans = portion(number)
            found = present(kind, path, spans)
            assert found is not None
            # All but the last were acknowledged.
            assert number == last or len(found) == len(spans)
            missing = [span for span in spans if span.span_id not in found]
            assert not missing or send(kind, path, missing).verdict == "accepted"
            sent += [span.span_id.hex() for span in spans]
        following = last + 1
    assert Counter(ids(kind, path)) == Counter(sent)
    assert following > 5


def _killed(command: Sequence[str], chance: random.Random) -> int:
    """Run a writer, kill it in the middle of a portion, and say which that was."""
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    with forked.popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        wanted, begun = chance.randint(1, 6), 0
        for line in process.stdout:
            begun += line.startswith("sending")
            if begun == wanted:
                break
        # Some moment of the writing.
        time.sleep(chance.random() * 0.02)
        process.kill()
        rest = process.stdout.read()
    last = (line + rest).strip().splitlines()[-1]
    return int(last.split()[-1])


# -- Parquet alone --------------------------------------------------------------------------------------------------


def test_small_portions_share_a_file_until_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns that come one by one do not make a file each; a full one is left as it is."""
    monkeypatch.setattr(parquet_files, "FULL_ROWS", 30)
    turns = [span_tree(steps=1, tools=1) for _ in range(25)]
    for turn in turns:
        send("parquet", tmp_path, turn)
    sizes = [pa.parquet.read_metadata(file).num_rows for file in sorted(tmp_path.iterdir())]
    assert sizes == [30, 30, 15]
    assert ids("parquet", tmp_path) == [span.span_id.hex() for turn in turns for span in turn]


def test_an_unreadable_file_is_not_overwritten(tmp_path: Path) -> None:
    """A damaged file stays as it is, and spans that may be in it are not reported as missing."""
    first, second = span_tree(), span_tree()
    send("parquet", tmp_path, first)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"PAR1 of no use")
    assert present("parquet", tmp_path, first) is None
    assert send("parquet", tmp_path, second).verdict == "accepted"
    assert file.read_bytes() == b"PAR1 of no use"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_unfinished_file_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    """Half a file under its other name is no part of the table, and is replaced by the next."""
    send("parquet", tmp_path, span_tree())
    (tmp_path / ".spans.parquet.unfinished").write_bytes(b"PAR1 half")
    spans = span_tree()
    send("parquet", tmp_path, spans)
    assert len(ids("parquet", tmp_path)) == 2 * len(spans)
    assert [file.suffix for file in tmp_path.iterdir()] == [".parquet"]


def test_without_pyarrow_the_destination_is_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it; spans wait, as for any destination that cannot be used."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnusableDestinationError, match=r"pip install 'agenttrace\[parquet\]'"):
        destination_of(DestinationSettings(name="files", type="parquet", path=str(tmp_path)))


def test_files_get_larger_portions_where_a_file_is_a_portion() -> None:
    """A Parquet file of 10,000 rows at least, lines as many as the settings say."""
    assert destination_in("parquet", Path("x")).max_spans == 10_000
    assert destination_in("jsonl", Path("x")).max_spans == 500
    assert destination_in("jsonl", Path("x"), batch_spans=7).max_spans == 7
