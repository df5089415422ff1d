"""``agenttrace tail``."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Callable

from .conftest import CLAUDE, Program, eventually, stop


def test_the_latest_events_one_line_each(recorded: Program) -> None:
    """So many lines as asked for, each with time, session, agent, and what was said."""
    lines = recorded.run("tail", "--no-follow", "--lines", "5").stdout.splitlines()
    assert len(lines) == 5
    lines = recorded.run("tail", CLAUDE[:8], "--no-follow", "--lines", "100").stdout.splitlines()
    assert all(CLAUDE[:8] in line and "claude-code" in line for line in lines)
    assert any("▶ user  SCENARIO parallel please" in line for line in lines)
    assert any("⚙ Bash" in line and "echo first" in line for line in lines)
    assert any("↳ Bash  first" in line for line in lines)


def test_every_event_as_json(recorded: Program) -> None:
    """One object a line, all events of the session, with where they stand."""
    out = recorded.run("tail", CLAUDE, "--no-follow", "--lines", "1000", "--json").stdout
    events = [json.loads(line) for line in out.splitlines()]
    session = next(each for each in recorded.json("sessions") if each["session_id"] == CLAUDE)
    assert len(events) == session["events"]
    assert [event["event_no"] for event in events] == sorted(event["event_no"] for event in events)
    assert {event["session_id"] for event in events} == {CLAUDE}
    assert list(events[0]) == [
        "event_no",
        "at",
        "agent",
        "session_id",
        "type",
        "turn_index",
        "step_n",
        "span_id",
        "span",
        "contents",
        "file",
        "offset",
    ]


def test_live_while_another_process_records(program: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """What a recorder elsewhere stores appears; older events do not, unless asked for."""
    program.log("old", {"type": "turn.begin", "ts": 1.0, "prompt": "long ago"})
    recorder = background("record")
    eventually(lambda: program.recorder_pid() == recorder.pid, "the recorder")
    eventually(lambda: (program.home / "agenttrace.db").exists() and _count(program) == 1, "the first event")
    tail = background("tail", "--lines", "0", "--json")
    line = _speak_until_heard(program, tail)
    assert json.loads(line)["session_id"] == "new"
    _, err = stop(tail)
    assert tail.returncode == 0, err
    stop(recorder)


def _speak_until_heard(program: Program, tail: subprocess.Popen[str]) -> str:
    """The tail begins when it is ready; what is written from then on is seen."""
    deadline = time.monotonic() + 60
    for number in range(1000):
        assert time.monotonic() < deadline, "nothing was heard"
        line = {"type": "message", "id": f"m{number}", "ts": float(number), "role": "assistant"}
        line["text"] = f"word {number}"
        program.log("new", line)
        if heard := _ready_line(tail):
            return heard[0]
    raise AssertionError("unreachable")


def _ready_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 1.0)
    return [process.stdout.readline()] if ready else []


def _count(program: Program) -> int:
    out = program.run("tail", "--no-follow", "--json").stdout
    return len(out.splitlines())


def test_it_records_when_no_recorder_runs(program: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """Without a recorder the tail is one, and what it saw is stored when it ends."""
    tail = background("tail", "--lines", "0")
    eventually(lambda: program.recorder_pid() == tail.pid, "the tail to hold the lock")
    assert "says  word" in _speak_until_heard(program, tail)
    _, err = stop(tail)
    assert tail.returncode == 0, err
    assert program.json("sessions")[0]["session_id"] == "new"
    assert program.json("record", "--once")["recorded"] == 0


def test_an_unknown_session(recorded: Program) -> None:
    """As with show."""
    assert "no session begins with" in recorded.run("tail", "nope", "--no-follow", code=1).stderr
