"""``agenttrace record``, as a user and as a script sees it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import DATA, Program, eventually, stop

FIELDS = [
    "files",
    "bytes",
    "lines",
    "recorded",
    "duplicate",
    "ignored",
    "quarantined",
    "pending",
    "sessions",
    "seconds",
]
KINDS = ("recorded", "duplicate", "ignored", "quarantined", "pending")


def check_sum(summary: dict[str, int]) -> None:
    assert list(summary) == FIELDS
    assert summary["lines"] == sum(summary[kind] for kind in KINDS)


def test_once_prints_the_summary_of_the_contract(program: Program) -> None:
    """Fields, order and golden numbers: 50 lines of Claude Code in 3 files, 2 sessions."""
    summary = program.json("record", str(DATA / "claude-code-2.1.197"), "--once")
    check_sum(summary)
    assert summary["files"] == 3
    assert summary["lines"] == summary["recorded"] == 50
    assert summary["sessions"] == 2
    assert summary["bytes"] == sum(path.stat().st_size for path in (DATA / "claude-code-2.1.197").rglob("*.jsonl"))


def test_broken_lines_are_counted_apart(program: Program) -> None:
    """Three lines of the hand-edited fixture are no JSON objects; copies count as duplicates; nothing is missing."""
    summary = program.json("record", str(DATA / "claude-code-log-testdata"), "--once")
    check_sum(summary)
    assert summary["lines"] == 46
    assert summary["quarantined"] == 3


def test_a_second_run_records_nothing(machine: Program) -> None:
    """What was read is not read again."""
    first = machine.json("record", "--once")
    check_sum(first)
    assert first["recorded"] > 0
    second = machine.json("record", "--once")
    check_sum(second)
    assert second["files"] == first["files"]
    assert second["lines"] == second["bytes"] == 0


def test_reading_again_from_the_start_finds_only_duplicates(machine: Program) -> None:
    """Offsets may be lost; the ids of the events keep everything single."""
    first = machine.json("record", "--once")
    with sqlite3.connect(machine.home / "agenttrace.db") as connection:
        connection.execute("DELETE FROM file_offsets")
    connection.close()
    again = machine.json("record", "--once")
    check_sum(again)
    assert again["recorded"] == 0
    assert again["duplicate"] == first["recorded"]


def test_json_is_all_there_is_on_stdout(machine: Program) -> None:
    """Scripts can read stdout as it is, and nothing is complained about."""
    done = machine.run("record", "--once", "--json")
    json.loads(done.stdout)
    assert done.stderr == ""


def test_people_get_a_summary_and_the_next_step(machine: Program) -> None:
    """Counts with their meaning, and what to do next."""
    text = machine.run("record", "--once").stdout
    assert "Read 507 kB from 14 files" in text
    assert "recorded" in text
    assert "agenttrace sessions" in text
    assert machine.run("record", "--once").stdout.startswith("Nothing new in 14 files.")


def test_one_agent_only(machine: Program) -> None:
    """``--agent`` leaves the others alone."""
    machine.json("record", "--once", "--agent", "codex")
    assert {session["agent"] for session in machine.json("sessions")} == {"codex"}


def test_a_path_that_does_not_exist(program: Program) -> None:
    """A clear line, the fix, exit code 2, and nothing is created."""
    done = program.run("record", "/no/such/place", "--once", code=2)
    assert "error: /no/such/place does not exist" in done.stderr
    assert "fix:" in done.stderr
    assert not program.home.exists()


def test_an_agent_that_does_not_exist(program: Program) -> None:
    """The nearest name is offered."""
    done = program.run("record", "--once", "--agent", "claude", code=2)
    assert "claude-code" in done.stderr


def test_nothing_found(program: Program) -> None:
    """It says where it looked and what to do."""
    text = program.run("record", "--once").stdout
    assert f"Claude Code: {program.user}/.claude/projects (not there)" in text
    assert "agenttrace demo" in text
    assert program.json("record", "--once")["files"] == 0


def test_the_data_directory_is_private(machine: Program) -> None:
    """0700 for the directory, 0600 for the store."""
    machine.run("record", "--once")
    assert machine.home.stat().st_mode & 0o777 == 0o700
    assert (machine.home / "agenttrace.db").stat().st_mode & 0o777 == 0o600


def test_a_damaged_store_is_rebuilt(own_recorded: Program) -> None:
    """The damaged file is kept, the logs are read again, and sessions and usage are what they were.

    What came of sessions is examined again while a recorder runs.
    """

    def sessions_now() -> list[dict[str, object]]:
        return [{name: each[name] for name in each if name != "outcomes"} for each in own_recorded.json("sessions")]

    sessions, usage = sessions_now(), own_recorded.json("usage", "--by", "session")
    path = own_recorded.home / "agenttrace.db"
    path.write_bytes(b"this was a database" + bytes(10_000))
    assert "agenttrace record --once" in own_recorded.run("sessions", code=1).stderr
    done = own_recorded.run("record", "--once", "--json")
    assert json.loads(done.stdout)["recorded"] == 560
    assert "nothing of it was deleted" in done.stderr
    assert len(list(own_recorded.home.glob("agenttrace.db.damaged-*"))) >= 1
    assert sessions_now() == sessions
    assert own_recorded.json("usage", "--by", "session") == usage


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_stops_cleanly(
    machine: Program, background: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    """Lines that appear while it runs are stored; a signal ends it with code 0 and the whole summary."""
    process = background("record", "--json")
    eventually(lambda: len(machine.json("sessions", "--limit", "0")) == 7 if _has_store(machine) else False, "import")
    machine.log("live", {"type": "turn.begin", "ts": time.time(), "prompt": "hello"})
    eventually(lambda: any(s["session_id"] == "live" for s in machine.json("sessions")), "the new session")
    out, err = stop(process, number)
    assert process.returncode == 0, err
    summary = json.loads(out)
    check_sum(summary)
    assert summary["sessions"] == 8
    assert machine.json("record", "--once")["recorded"] == 0


def _has_store(program: Program) -> bool:
    try:
        with sqlite3.connect(f"file:{program.home}/agenttrace.db?mode=ro", uri=True) as connection:
            found = bool(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.close()
    except sqlite3.Error:
        return False
    return found


def test_the_second_recorder_says_so_and_leaves(
    machine: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Who records already is named; the first one is not disturbed."""
    first = background("record")
    pid = eventually(machine.recorder_pid, "the first recorder's lock")
    assert pid == first.pid
    done = machine.run("record", "--once", code=1)
    assert f"already recording into {machine.home} (process {pid})" in done.stderr
    out, _ = stop(first)
    assert first.returncode == 0
    assert "Ctrl-C stops it" in out


def test_ctrl_c_during_an_import(machine: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """Exit code 130; what is missing comes with the next run, and nothing comes twice."""
    machine.run("record", "--once", "--agent", "codex")
    blocker = sqlite3.connect(machine.home / "agenttrace.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    process = background("record", "--once")
    eventually(lambda: machine.recorder_pid() == process.pid, "the import to begin")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    blocker.execute("ROLLBACK")
    blocker.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    machine.run("record", "--once")
    assert len(machine.json("sessions", "--limit", "0")) == 7
    totals = machine.json("usage")["total"]
    assert totals["requests"] == 45


def on_terminal(
    program: Program, *arguments: str, keys: Callable[[str], bytes | None] = lambda _: None
) -> tuple[str, int]:
    """Run on a terminal of 100 columns; ``keys`` may answer to what is on the screen so far."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update({**program.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"})
        os.execv(program.command()[0], program.command(*arguments))
    seen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                data = os.read(master, 65_536)
            except OSError:
                break
            if not data:
                break
            seen += data
        answer = keys(seen.decode("utf-8", "replace"))
        if answer:
            os.write(master, answer)
    os.close(master)
    _, status = os.waitpid(pid, 0)
    return seen.decode("utf-8", "replace"), os.waitstatus_to_exitcode(status)


def test_a_terminal_gets_a_progress_bar(machine: Program) -> None:
    """Importing and indexing each have a bar, and the summary follows."""
    text, code = on_terminal(machine, "record", "--once", "--index")
    assert code == 0
    assert "Importing" in text
    assert "Indexing" in text
    assert "507 kB of 507 kB" in text
    assert "560" in text


def test_a_terminal_gets_one_line_that_is_kept_up_to_date(machine: Program) -> None:
    """Ctrl-C on the keyboard ends following with code 0."""
    pressed: list[bool] = []

    def keys(seen: str) -> bytes | None:
        if "560 new events" in seen and not pressed:
            pressed.append(True)
            return b"\x03"
        return None

    text, code = on_terminal(machine, "record", keys=keys)
    assert code == 0
    assert "● recording" in text
    assert "560 new events recorded" in text


def test_another_agents_files_are_left_for_another_time(program: Program) -> None:
    """With ``--agent`` the other files are neither read nor quarantined, and can be recorded later."""
    only = program.json("record", str(DATA / "claude-code-2.1.197"), "--once", "--agent", "codex")
    assert (only["files"], only["lines"], only["quarantined"]) == (0, 0, 0)
    assert program.json("record", str(DATA / "claude-code-2.1.197"), "--once")["recorded"] == 50


def test_what_agents_keep_beside_their_logs_is_ignored(program: Program, tmp_path: Path) -> None:
    """Kimi's context files and the lists of sessions are no logs, and no damage either."""
    for name in ("context.jsonl", "context_1.jsonl", "context_sub_2.jsonl", "session_index.jsonl", "history.jsonl"):
        (tmp_path / name).write_text('{"role":"_checkpoint","id":0}\n')
    (tmp_path / "data.jsonl").write_text('{"role":"_checkpoint","id":0}\n')
    line = '{"v":1,"session":"s","type":"message","id":"a","ts":1794732814,"text":"a log, whatever its name"}\n'
    (tmp_path / "audit.jsonl").write_text(line)
    summary = program.json("record", str(tmp_path), "--once")
    assert (summary["files"], summary["lines"]) == (2, 2)
    assert (summary["recorded"], summary["quarantined"]) == (1, 1)


def test_one_agent_only_on_a_store_that_knows_others(program: Program, tmp_path: Path) -> None:
    """A file of another agent that has grown since it was recorded waits for a recorder that wants it."""
    log = tmp_path / "own.jsonl"
    line = '{"v":1,"session":"s","type":"message","id":"%s","ts":1794732814,"text":"hello"}\n'
    log.write_text(line % "a")
    assert program.json("record", str(tmp_path), "--once")["recorded"] == 1
    log.write_text(line % "a" + line % "b")
    assert program.json("record", str(tmp_path), "--once", "--agent", "codex")["recorded"] == 0
    assert program.json("record", str(tmp_path), "--once")["recorded"] == 1
