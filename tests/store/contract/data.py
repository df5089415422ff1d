"""Generated recordings for the contract of a store: made-up sessions, written as logs and recorded by the recorder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from .machine import Line, Logs

NATIVE, CLAUDE = "agenttrace", "claude-code"
IDS = ("ab", "abc", "Abd", "session_x1", "x1", "a%b", "a_b", "0000000000000001")
PROJECTS = ("/home/Shop", "/home/shop/ÄPFEL", "/srv/log_1", "100%", "/agenttrace-demo/shop")
TITLES = ("Fix it", "Straße", "轮转", "a\\b")
MODELS = ("gpt-5", "kimi-k3", "nobody-knows")
#: How long ago a session was active, in seconds: on both sides of what counts as stale and as recent.
AGES = (10.0, 300.0, 1_500.0, 172_800.0)


@dataclass(frozen=True, kw_only=True)
class Response:
    """What one model response used; two sessions that name the same one are copies."""

    name: str
    model: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class Made:
    """A made-up session."""

    agent: str
    session_id: str
    project: str | None = None
    branch: str | None = None
    title: str | None = None
    prompt: str = "hello"
    model: str | None = None
    #: What its log says last.
    state: str = "working"
    failed: bool = False
    #: Seconds since it was active; ``None``: its lines have no times.
    age: float | None = 10.0
    responses: tuple[Response, ...] = field(default=())

    @property
    def file(self) -> str:
        """The log file, without its ending."""
        return f"{self.agent}-{self.session_id.encode().hex()}"

    def lines(self) -> list[Line]:
        """The log."""
        return list(self._claude_lines() if self.agent == CLAUDE else self._native_lines())

    def _native_lines(self) -> Iterator[Line]:
        facts = {"project": self.project, "branch": self.branch, "title": self.title, "model": self.model}
        yield self._native("session.begin", id="s", **{name: value for name, value in facts.items() if value})
        yield self._native("turn.begin", id="t", turn=1, prompt=self.prompt)
        for number, each in enumerate(self.responses):
            tokens = {"input_tokens": each.input_tokens, "output_tokens": each.output_tokens}
            yield self._native("usage", id=f"u{number}", turn=1, model=each.model, response=each.name, usage=tokens)
        if self.failed:
            yield self._native("error", id="e", turn=1, error="no")
        if self.state != "working":
            yield self._native("turn.end", id="t", turn=1, status="cancelled" if self.state == "interrupted" else "ok")
        if self.state == "ended":
            yield self._native("session.end", id="s")

    def _native(self, kind: str, **fields: Any) -> Line:  # noqa: ANN401 - JSON
        at = {} if self.age is None else {"ts": time.time() - self.age}
        return {"v": 1, "session": self.session_id, "type": kind, **at, **fields}

    def _claude_lines(self) -> Iterator[Line]:
        yield self._claude("user", "u", {"role": "user", "content": self.prompt})
        for number, each in enumerate(self.responses):
            usage = {"input_tokens": each.input_tokens, "output_tokens": each.output_tokens}
            said = {"role": "assistant", "id": f"msg_{each.name}", "model": each.model, "usage": usage}
            text = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
            yield self._claude("assistant", f"a{number}", {**said, **text}, requestId=f"req_{each.name}")

    def _claude(self, kind: str, name: str, message: Line, **more: Any) -> Line:  # noqa: ANN401 - JSON
        at = datetime.fromtimestamp(time.time() - (self.age or 0.0), UTC).isoformat().replace("+00:00", "Z")
        place = {"sessionId": self.session_id, "cwd": self.project or "/", "gitBranch": self.branch or "main"}
        line = {"type": kind, "uuid": f"{self.session_id}-{name}", "parentUuid": None, "timestamp": at}
        return {**line, **place, "version": "2.1.0", "isSidechain": False, "message": message, **more}


def logs_of(sessions: Sequence[Made]) -> Logs:
    """The logs of made-up sessions."""
    return {each.file: each.lines() for each in sessions}


def _maybe(values: Sequence[str]) -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(values)


responses = st.builds(
    Response,
    name=st.sampled_from([f"r{number}" for number in range(6)]),
    model=st.sampled_from(MODELS),
    input_tokens=st.integers(0, 1_000),
    output_tokens=st.integers(0, 1_000),
)

_made = st.builds(
    Made,
    agent=st.sampled_from((NATIVE, NATIVE, CLAUDE)),
    session_id=st.sampled_from(IDS),
    project=_maybe(PROJECTS),
    branch=_maybe(("main", "Feature/1")),
    title=_maybe(TITLES),
    prompt=st.sampled_from(("hello", "please FIX", "转")),
    model=_maybe(MODELS),
    state=st.sampled_from(("working", "waiting", "ended", "interrupted")),
    failed=st.booleans(),
    age=st.none() | st.sampled_from(AGES),
    responses=st.lists(responses, max_size=3, unique_by=lambda each: each.name).map(tuple),
)

#: Some sessions; two agents may have one of the same id.
recordings = st.lists(_made, max_size=7, unique_by=lambda each: (each.agent, each.session_id))
