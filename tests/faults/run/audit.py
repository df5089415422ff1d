"""What must be true when everything has calmed down, whatever happened before: the books agree, nothing ran twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.run.simulator import SimulatedCall
from agenttrace.run.simulator.dashscope_endpoint import SYSTEM_TOKENS
from agenttrace.run.simulator.replies import tokens
from agenttrace.run.upstream.client import NOT_CONNECTED
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.span_rows import session_spans
from faults.run.rig import Rig
from run.crew import KEYS, facts_of
from run.world import BOOKS

LOST = "lost: "
#: Seconds that the processes may take to write the last lines of their trace.
_TELLING = 20.0
ADMITTED = ("success", "failed", "timeout")
_LOGS = """
SELECT l.id, l.status, l.app_type, l.step, l.trigger_job_id, l.session_id, coalesce(l.tokens_used, 0), l.attempts,
       coalesce(l.error_message, ''), coalesce(l.response_text, ''), extract(epoch FROM l.finished_at)::float8,
       (j.payload->>'mark')::integer, l.site_id, l.user_id
FROM biz.ai_run_logs AS l LEFT JOIN biz.ai_trigger_jobs AS j ON j.id = l.trigger_job_id ORDER BY l.id
"""


class Row(NamedTuple):
    """A call as the run log has it."""

    id: int
    status: str
    app_type: str
    step: str | None
    job: int | None
    session_id: str
    tokens: int
    attempts: int
    error: str
    text: str
    finished: float
    mark: int | None
    site_id: int
    user_id: str | None

    @property
    def is_lost(self) -> bool:
        """Closed for somebody who died: whether the call was ever sent is not known."""
        return self.error.startswith(LOST)


class Step(NamedTuple):
    """A step of the chain of an event."""

    mark: int
    name: str


async def run_logs(rig: Rig) -> list[Row]:
    """The run log, oldest first."""
    return [Row(*row) for row in await rig.rows(_LOGS)]


def calls_by_step(rig: Rig) -> dict[Step, list[SimulatedCall]]:
    """What the simulator was asked for the steps of chains."""
    found: dict[Step, list[SimulatedCall]] = defaultdict(list)
    for call in rig.simulator.calls:
        if not call.stream:
            facts = facts_of(call.body)
            key = KEYS[call.app_id]
            name = f"{key}:{facts['dimension']}" if facts["dimension"] else key
            found[Step(facts["payload"]["mark"], name)].append(call)
    return found


def billed(call: SimulatedCall) -> int:
    """The tokens that the simulator has charged for an answer."""
    seen = "".join(str(turn["content"]) for turn in call.context)
    return SYSTEM_TOKENS + tokens(seen) + tokens(call.text)


async def audit(rig: Rig, *, frozen: bool = False) -> list[Row]:
    """Check everything but the trace; the run log.

    A process that was ``frozen`` between admission and sending, while it connected, sends once it is thawed: nobody
    can call it back then. Such calls are allowed, each for one that was closed as lost. Frozen for longer than a
    connection may take, it finds its time to be up instead: that attempt is in the run log, and was never sent.
    """
    logs = await run_logs(rig)
    assert [row for row in logs if row.status in ("pending", "running")] == []
    await _check_books(rig)
    await _check_jobs(rig)
    _check_calls(rig, logs, frozen=frozen)
    return logs


async def _check_books(rig: Rig) -> None:
    """The budget's sums are those of the run log, and nothing is reserved."""
    used, failed, reserved, *from_logs = (await rig.rows(BOOKS))[0]
    assert [used, failed, reserved] == from_logs
    assert reserved == 0


async def _check_jobs(rig: Rig) -> None:
    """Every event of a day has run once, its job is over, and nothing waits in the queue."""
    jobs = await rig.rows(
        "SELECT id, status, event_type, site_id, member_id, started_at IS NULL, finished_at IS NULL, is_forced "
        "FROM biz.ai_trigger_jobs"
    )
    assert [job for job in jobs if job[1] in ("pending", "running") or job[6]] == []
    run = Counter(job[2:5] for job in jobs if job[1] != "skipped_duplicate" and not job[7])
    assert {event: times for event, times in run.items() if times != 1} == {}
    assert [job for job in jobs if job[5] != (job[1] == "skipped_duplicate")] == []
    assert await rig.rows("SELECT id FROM agenttrace_queue.procrastinate_jobs") == []


def _check_calls(rig: Rig, logs: list[Row], *, frozen: bool) -> None:
    """Each call is in the run log, a finished step was never called again, and what was charged is what counts."""
    rows: dict[Step, list[Row]] = defaultdict(list)
    for row in logs:
        if row.mark is not None and row.step is not None:
            rows[Step(row.mark, row.step)].append(row)
    calls = calls_by_step(rig)
    assert set(calls) <= set(rows)
    for step, found in rows.items():
        _check_step(step, found, calls[step], frozen=frozen)


def _check_step(step: Step, rows: list[Row], calls: list[SimulatedCall], *, frozen: bool) -> None:
    tried = sum(row.attempts for row in rows if not row.is_lost)
    # Of a row with several attempts only the last says how it ended; one that succeeded was sent.
    sent = sum(row.status == "success" for row in rows) if frozen else tried
    unknown = sum(row.is_lost for row in rows)
    assert sent <= len(calls) <= tried + unknown, (step, rows, [(call.at, call.outcome) for call in calls])
    for row in rows:
        # Apart from what was never sent, the application was called as often as the run log says.
        assert row.is_lost or row.status == "success" or NOT_CONNECTED in row.error or len(calls) >= row.attempts, row
    successes = [row for row in rows if row.status == "success"]
    assert len(successes) <= 1, (step, rows)
    for row in successes:
        after = [call for call in calls if call.at > row.finished]
        assert len(after) <= (unknown if frozen else 0), (step, rows)
        assert row.tokens in [billed(call) for call in calls if call.text == row.text], (step, row)


async def check_windows(rig: Rig, logs: list[Row]) -> None:
    """The rate windows hold one hit for each admitted call, of whichever process."""
    admitted = [row for row in logs if row.status in ADMITTED]
    expected = Counter(("user", row.user_id) if row.user_id else ("store", str(row.site_id)) for row in admitted)
    found = await rig.rows("SELECT scope, key, cardinality(hits) FROM biz.ai_rate_windows")
    assert {(scope, key): hits for scope, key, hits in found} == dict(expected)


class Recorded(NamedTuple):
    """A job or a conversation: how many calls of a model it has, and their tokens."""

    calls: int
    tokens: int


async def check_trace(rig: Rig, logs: list[Row]) -> None:
    """Recorded, each job and conversation is a session with a span a call, and with the run log's tokens."""
    by_session: dict[str, list[int]] = defaultdict(list)
    for row in logs:
        by_session[row.session_id].append(row.tokens)
    expected = {name: Recorded(len(used), sum(used)) for name, used in by_session.items()}
    deadline = time.monotonic() + _TELLING
    # A call is told once its row is written, so the last of them may be on their way.
    while (found := dict(_recorded(rig))) != expected and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    wrong = {name: (found.get(name), expected.get(name)) for name in found.keys() | expected.keys()}
    assert {name: pair for name, pair in wrong.items() if pair[0] != pair[1]} == {}, "in the trace, in the run log"


def _recorded(rig: Rig) -> Iterator[tuple[str, Recorded]]:
    """What ``agenttrace record --once`` makes of the run half's log."""
    environ = {"HOME": str(rig.home.parent), "AGENTTRACE_HOME": str(rig.home)}
    settings = load_settings(environ)
    ensure_home(settings)
    with closing(Recorder(settings, environ=environ)) as recorder:
        recorder.run_once()
        for session in list_sessions(recorder.connection):
            spans = [span for span in session_spans(recorder.connection, session) if span.kind == "step"]
            used = [0 if span.usage is None else span.usage.input_tokens + span.usage.output_tokens for span in spans]
            yield session.session_id, Recorded(len(spans), sum(used))
