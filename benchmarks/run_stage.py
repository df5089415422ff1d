"""AgentTrace set up for the run benchmarks: an embedded PostgreSQL, a fake DashScope, and the processes.

Limits are raised, not switched off: every call is still checked against breaker, rate window and budget, and written
to the run log and the trace.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import msgspec

from agenttrace.run.postgres import EmbeddedPostgres
from agenttrace.run.simulator import INTERNAL_TOKEN, environment
from benchmarks import run_fakes
from benchmarks.measure import sandbox_environ
from benchmarks.run_fakes import CHAT_TEXT, FRAMES
from benchmarks.run_load import Ask
from benchmarks.run_processes import Meter, Process, running

_SECRET = "a secret that only this benchmark knows"
_SITES = 500
_ROOT = Path(__file__).parents[1]
_RAISED = {
    "AGENTTRACE_RUN_USER_CALLS_PER_MINUTE": "1000000",
    "AGENTTRACE_RUN_STORE_CALLS_PER_HOUR": "1000000",
    "AGENTTRACE_RUN_DAILY_TOKENS": "1000000000000",
    "AGENTTRACE_RUN_MONTHLY_TOKENS": "1000000000000",
}


class Stage:
    """A running database and fake, and the environment variables for both."""

    def __init__(self, environ: dict[str, str], postgres: Meter, upstream: str) -> None:
        self.environ = environ
        #: The fake DashScope.
        self.upstream = upstream
        #: All processes of the database server.
        self.postgres = postgres

    @contextlib.contextmanager
    def process(self, *command: str | Path) -> Iterator[Process]:
        """Run a Python program of AgentTrace or of this benchmark while the block runs."""
        with running([sys.executable, *command], environ=self.environ, cwd=_ROOT) as process:
            yield process

    @contextlib.contextmanager
    def server(self) -> Iterator[tuple[Meter, str]]:
        """Run ``agenttrace serve``; yields its meter and its address."""
        with self.process("-m", "agenttrace.cli.main", "serve", "--port", "0", "--json") as process:
            yield Meter(process.pid), str(process.line()["url"])

    @contextlib.contextmanager
    def worker(self) -> Iterator[Meter]:
        """``agenttrace worker``."""
        with self.process("-m", "agenttrace.cli.main", "worker", "--json") as process:
            process.line()
            yield Meter(process.pid)


@contextlib.contextmanager
def stage(work: Path, *, frame_delay: float = 0.0) -> Iterator[Stage]:
    """Start an empty database and a fake with this delay before each frame."""
    shutil.rmtree(work, ignore_errors=True)
    home = work / "home"
    postgres = EmbeddedPostgres(home)
    url = postgres.start()
    environ = sandbox_environ(work, AGENTTRACE_HOME=str(home), AGENTTRACE_DATABASE_URL=url, **_RAISED)
    environ["AGENTTRACE_JWT_SECRET"] = _SECRET
    fake = run_fakes.start("dashscope", environ, frame_delay=frame_delay)
    try:
        pid = int((postgres.cluster / "postmaster.pid").read_text().split()[0])
        upstream = str(fake.line()["url"])
        yield Stage(environ | environment(upstream), Meter(pid), upstream)
    finally:
        fake.stop()
        postgres.stop()
        shutil.rmtree(work, ignore_errors=True)


def chats(url: str, *, users: int = 2000) -> Iterator[Ask]:
    """Chat messages of many users, each in a new conversation."""
    body = msgspec.json.encode({"message": "今天的营业额怎么样?", "entry": "general"})
    headers = [_chat_headers(number) for number in range(users)]
    for number in itertools.count():
        yield Ask(url=f"{url}/api/xcx/chat/stream", headers=headers[number % users], body=body, good=_all_streamed)


def direct_chats(upstream: str) -> Iterator[Ask]:
    """The same messages, sent to the fake directly."""
    body = {"input": {"prompt": "今天的营业额怎么样?"}, "parameters": {"incremental_output": True}}
    headers = {"Authorization": "Bearer none", "Content-Type": "application/json", "X-DashScope-SSE": "enable"}
    ask = Ask(
        url=f"{upstream}/apps/{run_fakes.CHAT_APP}/completion",
        headers=headers,
        body=msgspec.json.encode(body),
        good=lambda said: b'"finish_reason":"stop"' in said,
    )
    return itertools.repeat(ask)


def triggers(url: str) -> Iterator[Ask]:
    """Events of type consumption, each for another member."""
    headers = {"Authorization": f"Internal-Token {INTERNAL_TOKEN}", "Content-Type": "application/json"}
    for number in itertools.count(1):
        event = {
            "event_type": "consumption",
            "site_id": 1 + number % _SITES,
            "member_id": number,
            "payload": {"coach_id": 7, "amount": "168.00", "items": ["台费", "饮品"]},
        }
        yield Ask(
            url=f"{url}/api/internal/ai/trigger", headers=headers, body=msgspec.json.encode(event), good=_accepted
        )


def _chat_headers(number: int) -> dict[str, str]:
    claims = {"sub": f"user-{number}", "site_id": 1 + number % _SITES, "exp": int(time.time()) + 86_400}
    token = jwt.encode(claims, _SECRET, algorithm="HS256")
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _all_streamed(body: bytes) -> bool:
    *messages, last = [frame.split(b"\ndata: ", 1) for frame in body.strip().split(b"\n\n") if b"\ndata: " in frame]
    pieces = [msgspec.json.decode(data)["content"] for _, data in messages]
    return last[0] == b"event: done" and "".join(pieces) == CHAT_TEXT and len(pieces) == FRAMES


def _accepted(body: bytes) -> bool:
    return bool(msgspec.json.decode(body)["status"] == "pending")
