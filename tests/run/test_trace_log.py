"""The run half's log file, and what the recorder makes of it."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.upstream.calls import CallOutcome, CallRequest, RateRule
from agenttrace.store.questions import SpanView, UsageQuery
from agenttrace.store.sqlite.sessions import find_sessions
from agenttrace.store.sqlite.span_rows import session_spans
from agenttrace.store.sqlite.usage import usage_rows

CALL = CallRequest(
    app_id="id-3",
    app_type="app3_clue",
    trigger_type="event",
    site_id=1,
    prompt="请提取线索",
    rate=RateRule(scope="store", limit=100, seconds=3600),
    estimate=100,
    session_id="job_7_1794732810",
    job_id=7,
    step="app3",
    claim=1,
)
CHAT = replace(CALL, app_type="app1_chat", job_id=None, step=None, claim=None, session_id="conv_5_1794732810")
GOOD = CallOutcome(
    status="success",
    latency_ms=5,
    response_text='{"clues": []}',
    tokens_used=70,
    input_tokens=50,
    output_tokens=20,
    model="qwen-plus",
    request_id="r-1",
)
BAD = CallOutcome(status="timeout", latency_ms=5, error_message="no answer in time", tokens_used=30, attempts=4)
JOB = "job_7_1794732810"
Recorded = Callable[[], Recorder]


def begin_job(trace: TraceLog) -> None:
    trace.job_begin(JOB, site_id=1, event_type="consumption", chain="app3→app8", prompt="consumption {}")


@pytest.fixture
def logs(home: Path) -> Path:
    return home / "logs"


@pytest.fixture
def recorded(home: Path) -> Iterator[Recorded]:
    """Everything in the logs so far, recorded."""
    made: list[Recorder] = []

    def record() -> Recorder:
        settings = load_settings({"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)})
        ensure_home(settings)
        recorder = made[0] if made else Recorder(settings, environ={"AGENTTRACE_HOME": str(home)})
        made[:] = [recorder]
        recorder.scan()
        recorder.drain()
        return recorder

    yield record
    for recorder in made:
        recorder.close()


@pytest.fixture
def trace(logs: Path) -> Iterator[TraceLog]:
    ticks = iter(range(1794732810, 1794739999))
    made = TraceLog(logs, clock=lambda: float(next(ticks)))
    yield made
    made.close()


def spans_of(recorder: Recorder, session: str) -> list[SpanView]:
    (found,) = find_sessions(recorder.connection, session)
    return session_spans(recorder.connection, found)


def steps_of(recorder: Recorder, session: str) -> list[SpanView]:
    return [span for span in spans_of(recorder, session) if span.kind == "step"]


def lines_in(logs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(logs.iterdir()) for line in path.read_text("utf-8").splitlines()]


def test_steps_side_by_side_become_spans_of_one_turn(trace: TraceLog, recorded: Recorded) -> None:
    """Steps that overlap keep their own times, ends, tokens and model, in the one turn of the job."""
    other = replace(CALL, step="app4", app_type="app4_analysis")
    begin_job(trace)
    trace.begin(CALL, 11)
    trace.begin(other, 12)
    trace.end(CALL, 11, GOOD, "stop")
    trace.end(other, 12, BAD)
    trace.job_end(JOB, "completed", "app4: timeout")
    recorder = recorded()
    spans = spans_of(recorder, JOB)
    assert [span.kind for span in spans] == ["turn", "step", "step"]
    turn, first, second = spans
    assert (turn.status, first.status, second.status) == ("ok", "ok", "error")
    assert first.start < second.start < (first.end or 0) < (second.end or 0) < (turn.end or 0)
    assert (first.model, first.attributes["finish_reason"]) == ("qwen-plus", "stop")
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens, first.estimated) == (50, 20, False)
    assert second.usage is not None
    assert (second.usage.total, second.estimated) == (30, True)
    assert second.attributes["error"] == "no answer in time"
    assert (first.attributes["notes"], second.attributes["notes"]) == ({"app3_clue": 1}, {"app4_analysis": 1})
    assert recorder.summary.quarantined == recorder.summary.duplicate == 0


def test_tokens_of_attempts_that_brought_nothing_count_too(trace: TraceLog, recorded: Recorded) -> None:
    """What was billed beside the answer is recorded, marked as an estimate, once."""
    trace.begin(CALL, 11)
    trace.end(CALL, 11, replace(GOOD, tokens_used=100))
    (row,) = usage_rows(recorded().connection, UsageQuery(by="agent"))
    assert row.usage.total == 100


@pytest.mark.parametrize("request_", [CALL, CHAT], ids=["step", "chat"])
def test_saying_everything_again_changes_nothing(trace: TraceLog, recorded: Recorded, request_: CallRequest) -> None:
    """After a crash all lines may be written a second time: spans and tokens stay as they are."""
    for _ in range(2):
        if request_.job_id is not None:
            begin_job(trace)
        trace.begin(request_, 11)
        trace.end(request_, 11, replace(GOOD, tokens_used=80))
    recorder = recorded()
    # The turn, the call that was answered, and what the attempts before it used.
    assert [span.kind for span in spans_of(recorder, request_.session_id or "")] == ["turn", "step", "step"]
    (row,) = usage_rows(recorder.connection, UsageQuery(by="agent"))
    assert row.usage.total == 80


def test_a_step_that_is_called_again_after_a_crash_is_another_span(trace: TraceLog, recorded: Recorded) -> None:
    """The call that was lost stays an error, the one that replaced it is fine."""
    begin_job(trace)
    trace.begin(CALL, 11)
    trace.end(CALL, 11, replace(BAD, status="failed", error_message="lost: the worker died in mid-call"))
    trace.begin(CALL, 13)
    trace.end(CALL, 13, GOOD)
    assert [span.status for span in steps_of(recorded(), JOB)] == ["error", "ok"]


def test_every_call_of_a_chat_is_a_turn(trace: TraceLog, recorded: Recorded) -> None:
    """Turns carry the question, and end as their call did; a refusal is a turn that failed, without tokens."""
    trace.begin(CHAT, 21)
    trace.end(CHAT, 21, replace(GOOD, response_text="您好"), "stop")
    trace.refused(replace(CHAT, prompt="还有呢?"), "rate_limited", "more than 10 calls")
    trace.begin(replace(CHAT, prompt="谢谢"), 24)
    trace.end(replace(CHAT, prompt="谢谢"), 24, replace(GOOD, request_id="r-2", tokens_estimated=True))
    recorder = recorded()
    turns = [span for span in spans_of(recorder, CHAT.session_id or "") if span.kind == "turn"]
    assert [turn.attributes["prompt"] for turn in turns] == ["请提取线索", "还有呢?", "谢谢"]
    assert [turn.status for turn in turns] == ["ok", "error", "ok"]
    steps = steps_of(recorder, CHAT.session_id or "")
    assert [step.estimated for step in steps if step.usage] == [False, True]
    assert steps[1].attributes["error"] == "rate_limited: more than 10 calls"
    (found,) = find_sessions(recorder.connection, CHAT.session_id or "")
    assert (found.project, found.turns) == ("site 1", 3)


def test_a_refused_step_is_an_error(trace: TraceLog, recorded: Recorded) -> None:
    """Two refusals of the same step are two spans, each with its reason."""
    begin_job(trace)
    trace.refused(CALL, "circuit_open", "open")
    trace.refused(replace(CALL, key=type(CALL.key)(int=5)), "budget_exceeded", "spent")
    trace.job_end(JOB, "failed", "nothing worked")
    recorder = recorded()
    steps = steps_of(recorder, JOB)
    assert [step.attributes["error"] for step in steps] == ["circuit_open: open", "budget_exceeded: spent"]
    (found,) = find_sessions(recorder.connection, JOB)
    assert found.title == "consumption: app3→app8"


@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=5))
def test_any_text_becomes_whole_lines(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Newlines, U+2028, NUL and halves of surrogate pairs never break a line or the call."""
    logs = tmp_path_factory.mktemp("logs")
    trace = TraceLog(logs)
    for number, text in enumerate(texts):
        trace.begin(replace(CHAT, prompt=text), number)
        trace.end(replace(CHAT, prompt=text), number, replace(GOOD, response_text=text))
    trace.close()
    data = b"".join(path.read_bytes() for path in logs.iterdir())
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert data.endswith(b"\n")
    assert sum(line["type"] == "step.end" for line in lines) == len(texts)
    assert trace.lost == 0


def test_the_file_is_private_and_of_its_day(tmp_path: Path) -> None:
    """Days are those of UTC; the directory and the files are their owner's alone."""
    now = [1794700799.0]
    trace = TraceLog(tmp_path / "logs", clock=lambda: now[0])
    trace.begin(CALL, 1)
    now[0] += 1
    trace.begin(CALL, 2)
    trace.close()
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["runs-2026-11-14.jsonl", "runs-2026-11-15.jsonl"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "logs", *files)] == [0o700, 0o600, 0o600]


def test_a_file_that_was_deleted_is_begun_anew(logs: Path, trace: TraceLog) -> None:
    """Lines after the deletion are not written into nowhere."""
    trace.begin(CALL, 1)
    for path in logs.iterdir():
        path.unlink()
    trace.begin(CALL, 2)
    assert {line["id"] for line in lines_in(logs)} == {"2"}


def test_a_log_that_cannot_be_written_is_reported_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is raised; when there is room again, the next lines are whole."""
    place = tmp_path / "logs"
    place.write_text("in the way")
    trace = TraceLog(place)
    with caplog.at_level(logging.WARNING):
        trace.begin(CALL, 1)
        trace.end(CALL, 1, GOOD)
    assert trace.lost == 2
    assert "cannot be written" in caplog.text
    place.unlink()
    trace.begin(CALL, 2)
    trace.close()
    assert {line["id"] for line in lines_in(place)} == {"2"}


_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from run.test_trace_log import CALL, GOOD
from agenttrace.run.results.trace_log import TraceLog

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
trace = TraceLog(Path(sys.argv[1]))
trace.begin(CALL, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))
trace.end(CALL, 1, GOOD)
trace.end(CALL, 2, GOOD)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
trace.end(CALL, 3, GOOD)
print(trace.lost)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of files")
def test_a_line_torn_by_a_full_disk_spoils_no_other(tmp_path: Path) -> None:
    """The half line is ended before the next ones are written, and what was lost is counted."""
    command = [sys.executable, "-c", _FULL_DISK, str(tmp_path), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "2\n"
    (path,) = tmp_path.iterdir()
    whole, torn = [], 0
    for line in path.read_bytes().splitlines():
        try:
            whole.append(json.loads(line))
        except ValueError:
            torn += 1
    assert torn == 1
    assert [line["type"] for line in whole if line["id"] == "3"] == ["message", "step.end"]


def test_without_a_directory_or_a_session_nothing_is_written(tmp_path: Path) -> None:
    """Such calls are simply not logged."""
    TraceLog(None).begin(CALL, 1)
    trace = TraceLog(tmp_path / "logs")
    trace.begin(replace(CALL, session_id=None), 1)
    assert not (tmp_path / "logs").exists()
