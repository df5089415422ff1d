"""``agenttrace prune``: what was said goes, what it cost stays, and nothing comes back."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.retention import Retention
from example_counts import COSTLY

from .conftest import Program

NOW = time.time()
DAY = 86_400


def write_session(program: Program, name: str, age_days: float, word: str = "word") -> Path:
    """A session of that age: a prompt, a tool, an answer with its usage."""
    at = NOW - age_days * DAY
    return program.log(
        name,
        {"type": "turn.begin", "ts": at, "prompt": f"{word} {name}"},
        {"type": "step.begin", "ts": at + 1, "id": "s1", "model": "claude-sonnet-4-5"},
        {"type": "tool.begin", "ts": at + 2, "id": "t1", "name": "Bash", "arguments": "{}"},
        {"type": "tool.end", "ts": at + 3, "id": "t1", "result": "fine"},
        {"type": "usage", "ts": at + 4, "response": f"r-{name}", "usage": {"input_tokens": 1000, "output_tokens": 10}},
        {"type": "turn.end", "ts": at + 5},
    )


def rows(program: Program, query: str) -> list[Any]:
    with sqlite3.connect(program.home / "agenttrace.db") as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


def forget_offsets(program: Program) -> None:
    rows(program, "DELETE FROM file_offsets")


def test_old_sessions_go_and_their_cost_stays(program: Program) -> None:
    """Spans, raw lines and texts are gone; usage by any grouping is as it was."""
    write_session(program, "old", 100, "zebra")
    write_session(program, "young", 1, "zebra")
    program.run("record", "--once")
    before = {by: program.json("usage", "--by", by) for by in ("day", "agent", "project", "session", "model")}
    removed = program.json("prune", "--older-than", "90d", "--yes")
    assert (removed["sessions"], removed["events"], removed["spans"]) == (1, 6, 3)
    assert removed["blocks"] == 1
    assert removed["dry_run"] is False
    assert [session["session_id"] for session in program.json("sessions")] == ["young"]
    assert {by: program.json("usage", "--by", by) for by in before} == before
    assert [hit["session_id"] for hit in program.json("search", "zebra")] == ["young"]
    assert "was pruned" in program.run("show", "old", code=1).stderr
    assert rows(program, "SELECT count(*) FROM raw_blocks") == [(1,)]


def test_nothing_comes_back(program: Program) -> None:
    """Reading the same files again, with or without offsets, finds duplicates only."""
    write_session(program, "old", 100)
    write_session(program, "young", 1)
    program.run("record", "--once")
    program.run("prune", "--older-than", "90d", "--yes")
    tables = ("spans", "raw_blocks", "sessions", "streams", "responses", "usage_rollup", "processed_events")
    before = {table: contents(program, table) for table in tables}
    assert program.json("record", "--once")["lines"] == 0
    forget_offsets(program)
    again = program.json("record", "--once")
    assert again["recorded"] == 0
    assert again["duplicate"] == 12
    assert {table: contents(program, table) for table in tables} == before


def contents(program: Program, table: str) -> list[tuple[object, ...]]:
    """The rows of a table, without the revision that says when a row was written."""
    names = [name for (name,) in rows(program, f"SELECT name FROM pragma_table_info('{table}')") if name != "revision"]
    columns = ", ".join(f'"{name}"' for name in names)
    return rows(program, f"SELECT {columns} FROM {table}")


def test_a_pruned_session_that_goes_on_is_shown_again(program: Program) -> None:
    """Only what is new of it; its old usage still counts."""
    write_session(program, "old", 100)
    program.run("record", "--once")
    program.run("prune", "--older-than", "90d", "--yes")
    assert program.json("sessions") == []
    program.log("old", {"type": "turn.begin", "ts": NOW, "prompt": "back again"}, {"type": "turn.end", "ts": NOW + 1})
    assert program.json("record", "--once")["recorded"] == 2
    session = program.json("sessions")[0]
    assert (session["session_id"], session["turns"], session["events"]) == ("old", 1, 2)
    assert session["usage"]["requests"] == 1
    assert len(program.json("show", "old")["spans"]) == 1


def test_lines_that_stand_together_go_together(program: Program) -> None:
    """Where one file holds two sessions, their block stays until both are pruned, and the young one stays whole."""
    old, young = NOW - 100 * DAY, NOW - 50 * DAY
    program.log(
        "server",
        {"session": "old", "type": "turn.begin", "ts": old, "prompt": "ancient"},
        {"session": "young", "type": "turn.begin", "ts": young, "prompt": "recent"},
        {"session": "old", "type": "turn.end", "ts": old + 1},
        {"session": "young", "type": "turn.end", "ts": young + 1},
    )
    program.run("record", "--once")
    removed = program.json("prune", "--older-than", "90d", "--yes")
    assert (removed["sessions"], removed["blocks"]) == (1, 0)
    assert "recent" in program.run("show", "young", "--full").stdout
    assert program.json("search", "ancient") == []
    assert program.json("search", "recent")
    removed = program.json("prune", "--older-than", "30d", "--yes")
    assert (removed["sessions"], removed["blocks"]) == (1, 1)
    assert rows(program, "SELECT count(*) FROM raw_blocks") == [(0,)]
    forget_offsets(program)
    assert program.json("record", "--once")["recorded"] == 0


def test_dry_run_changes_nothing(program: Program) -> None:
    """It prints exactly what the real run then does."""
    write_session(program, "old", 100)
    program.run("record", "--once")
    planned = program.json("prune", "--older-than", "90d", "--dry-run")
    assert len(program.json("sessions")) == 1
    removed = program.json("prune", "--older-than", "90d", "--yes")
    assert {**planned, "dry_run": False, "before": ""} == {**removed, "before": ""}


def test_no_terminal_to_ask_at(program: Program) -> None:
    """Without a terminal and without --yes nothing is removed; exit code 2."""
    write_session(program, "old", 100)
    program.run("record", "--once")
    done = program.run("prune", "--older-than", "90d", code=2)
    assert "--yes" in done.stderr
    assert len(program.json("sessions")) == 1


def test_the_setting_decides_without_a_flag(program: Program) -> None:
    """``retention.days``; and with neither, an error that says how."""
    write_session(program, "old", 100)
    program.run("record", "--once")
    assert "--older-than 90d" in program.run("prune", "--yes", code=2).stderr
    assert program.json("prune", "--yes", env={"AGENTTRACE_RETENTION_DAYS": "30"})["sessions"] == 1


def test_nothing_is_old_enough(program: Program) -> None:
    """It says so and ends well."""
    write_session(program, "young", 1)
    program.run("record", "--once")
    assert "nothing to remove" in program.run("prune", "--older-than", "90d").stdout


def test_vacuum_gives_the_space_back(program: Program) -> None:
    """The file is smaller afterwards, and sound."""
    for number in range(40):
        noise = "".join(chr(0x4E00 + (number * 7919 + place * 104_729) % 20_000) for place in range(20_000))
        program.log(f"old{number}", {"type": "turn.begin", "ts": NOW - 100 * DAY, "prompt": noise})
    program.run("record", "--once", "--no-index")
    before = program.json("status")["database_bytes"]
    program.run("prune", "--older-than", "90d", "--yes", "--vacuum")
    assert program.json("status")["database_bytes"] < before / 2
    assert all(check["state"] != "fail" for check in program.json("doctor")["checks"])


def test_wrong_span(program: Program) -> None:
    """``--older-than soon`` is a usage error."""
    assert "7d" in program.run("prune", "--older-than", "soon", code=2).stderr


ages = st.lists(st.sampled_from([0.5, 10.0, 50.0, 200.0]), min_size=1, max_size=5)


@COSTLY
@given(ages, st.lists(st.sampled_from([5, 30, 100, 300]), min_size=1, max_size=3))
def test_any_prunes_in_any_order(session_ages: list[float], spans: list[int]) -> None:
    """After any prunes: usage as before, exactly the young sessions readable, no orphan left, nothing comes back."""
    with tempfile.TemporaryDirectory() as place:
        program = Program(Path(place))
        for number, age in enumerate(session_ages):
            write_session(program, f"s{number}", age)
        settings = load_settings({"HOME": place, "AGENTTRACE_HOME": str(program.home)})

        def record() -> int:
            recorder = Recorder(settings, environ={"HOME": place, "AGENTTRACE_HOME": str(program.home)})
            try:
                return recorder.run_once().recorded
            finally:
                recorder.close()

        assert record() == 6 * len(session_ages)
        usage = rows(program, "SELECT * FROM usage_rollup")
        connection = connect(program.home / "agenttrace.db")
        for days in spans:
            planned = Retention(connection).measure(NOW - days * DAY)
            assert Retention(connection).prune(NOW - days * DAY) == planned
        connection.close()
        young = {f"s{n}" for n, age in enumerate(session_ages) if all(age * DAY < days * DAY for days in spans)}
        assert {row[0] for row in rows(program, "SELECT session_id FROM sessions WHERE events > 0")} == young
        assert rows(program, "SELECT count(*) FROM raw_blocks") == [(len(young),)]
        assert rows(program, "SELECT count(*) FROM spans") == [(3 * len(young),)]
        forget_offsets(program)
        assert record() == 0
        assert rows(program, "SELECT count(*) FROM raw_blocks") == [(len(young),)]
        assert rows(program, "SELECT * FROM usage_rollup") == usage
