"""Generated conversations in the native log format, recorded by the real recorder and indexed for search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from agenttrace.ids import session_number

from .machine import Line, Logs

#: Times are in the past, so that sessions are over.
BASE = 1_700_000_000
SECOND = 1_000_000
WORDS = ("alpha", "Beta", "gamma", "重试", "连接池", "naïve", "x1")
#: The agent of all generated sessions, and one that has none.
AGENT, AGENTS = "agenttrace", ("agenttrace", "codex")
PROJECTS = ("/projects/Shop", "/projects/ÄPFEL", "/srv/100%_done")
TOOLS = ("grep", "read")


class Conversation(NamedTuple):
    """A generated session."""

    name: str
    project: str | None
    lines: list[Line]

    @property
    def number(self) -> int:
        """The session's number."""
        return session_number(AGENT, self.name)


def logs_of(conversations: Sequence[Conversation]) -> Logs:
    """The logs of these sessions, one file each."""
    return {each.name: each.lines for each in conversations}


def texts_of(line: Line) -> list[str]:
    """What a line says, in the words of the generator."""
    return [str(line[name]) for name in ("prompt", "text", "arguments", "result", "error") if line.get(name)]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
moments = st.none() | st.integers(0, 50).map(lambda second: BASE + second)


@st.composite
def conversations(draw: st.DrawFn, *, min_size: int = 1, max_size: int = 3) -> list[Conversation]:
    """Sessions with subagents, failures and lines without a time."""
    return [_conversation(draw, f"s{number}") for number in range(draw(st.integers(min_size, max_size)))]


def _conversation(draw: st.DrawFn, name: str) -> Conversation:
    project = draw(st.none() | st.sampled_from(PROJECTS))
    lines = [_line(draw, "session.begin", **({} if project is None else {"project": project}))]
    for turn in range(1, draw(st.integers(1, 2)) + 1):
        lines += _turn(draw, turn)
    numbered = [{"v": 1, "session": name, "id": f"{name}-{place}"} | line for place, line in enumerate(lines)]
    return Conversation(name, project, numbered)


def _turn(draw: st.DrawFn, turn: int, **place: str) -> list[Line]:
    lines = [_line(draw, "turn.begin", turn=turn, prompt=draw(texts), **place)]
    for step in range(1, draw(st.integers(0, 2)) + 1):
        place_in = {"turn": turn, "step": step, **place}
        lines.append(_line(draw, "step.begin", model="qwen-max", **place_in))
        lines.append(_line(draw, "message", role="assistant", text=draw(texts), **place_in))
        for number in range(draw(st.integers(0, 2))):
            lines += _tool(draw, f"call-{turn}-{step}-{number}{place.get('stream', '')}", place_in)
        if draw(st.booleans()):
            failed = {"status": "error", "error": draw(texts)} if draw(st.booleans()) else {}
            lines.append(_line(draw, "step.end", **failed, **place_in))
    if draw(st.booleans()):
        lines.append(_line(draw, "turn.end", turn=turn, **place))
    return lines


def _tool(draw: st.DrawFn, call: str, place: Line) -> Iterator[Line]:
    stream = f"agent-{call}" if "stream" not in place and draw(st.integers(0, 4)) == 0 else None
    spawns = {} if stream is None else {"spawns": stream}
    name = draw(st.sampled_from(TOOLS))
    yield _line(draw, "tool.begin", id=call, name=name, arguments=draw(texts), **spawns, **place)
    if stream is not None:
        yield from _turn(draw, 1, stream=stream)
    if draw(st.booleans()):
        status = draw(st.sampled_from(["ok", "error"]))
        yield _line(draw, "tool.end", id=call, status=status, result=draw(texts), **place)


def _line(draw: st.DrawFn, kind: str, **fields: Any) -> Line:  # noqa: ANN401 - JSON
    at = draw(moments)
    return {"type": kind, **fields} | ({} if at is None else {"ts": at})
