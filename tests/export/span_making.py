"""Spans to send: one, a plain tree of known size, or any tree that hypothesis can think of.

Trees are lists in which parents come before their children; the first span is the root turn.
"""

from __future__ import annotations

import hashlib
import itertools
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from agenttrace.export.span import ExportSession, ExportSpan, PathStep, Text, TextKind
from agenttrace.model import Usage
from agenttrace.providers import provider_of
from agenttrace.record.formats import FACTS

#: A moment in November 2026, in microseconds that are not whole milliseconds.
START = 1_794_732_814_940_123
SESSION = ExportSession(
    session_id="3f6c1c62-5f0e-4a53-9d7e-1f3c7ab05a11",
    agent="claude-code",
    agent_title="Claude Code",
    integration="claude-code",
    agent_version="2.1.7",
    project="/home/user/shop",
    branch="main",
    title="Fix the basket",
)
MODEL = "claude-sonnet-4-5"
_numbers = itertools.count()


def some_id(name: object, size: int = 8) -> bytes:
    """An id made of a name: 8 bytes for a span, 16 for a trace."""
    return hashlib.sha256(repr(name).encode("utf-8", "surrogatepass")).digest()[:size]


def make_span(parent: ExportSpan | None = None, **changes: Any) -> ExportSpan:  # noqa: ANN401 - any field of a span
    """A span with the fields given; trace, session, path and start follow from ``parent``, or it is a root turn.

    Ids are new with every call unless they are given.
    """
    number = next(_numbers)
    kind = changes.get("kind", "turn" if parent is None else "step")
    start = changes.get("start", START if parent is None else parent.start + 1_000)
    span_id = changes.get("span_id", some_id(("span", number)))
    fields: dict[str, Any] = {
        "span_id": span_id,
        "trace_id": parent.trace_id if parent else some_id(("trace", number), 16),
        "parent_id": parent.span_id if parent else None,
        "session": parent.session if parent else SESSION,
        "kind": kind,
        "start": start,
        "end": start + 5_000,
        "status": "ok",
        "path": (*(parent.path if parent else ()), PathStep(span_id, start)),
        "turn_index": parent.turn_index if parent else 0,
        "step_n": 0,
        "subagent": parent.subagent if parent else False,
        **_of_kind(kind, number),
        **changes,
    }
    fields.setdefault("name", _name(fields))
    fields.setdefault("provider", provider_of(fields.get("model"), FACTS.get(fields["session"].agent)))
    return ExportSpan(**fields)


def _of_kind(kind: str, number: int) -> dict[str, Any]:
    if kind == "turn":
        return {"agent_name": SESSION.agent}
    if kind == "step":
        return {"model": MODEL, "step_n": 1, "response_id": f"msg_{number}", "finish_reason": "end_turn"}
    if kind == "tool":
        return {"tool": "Bash", "call": f"toolu_{number}", "step_n": 1}
    return {}


def _name(fields: dict[str, Any]) -> str:
    if fields["kind"] == "turn":
        return f"invoke_agent {fields['agent_name']}"
    if fields["kind"] == "step":
        return f"chat {fields['model']}"
    return f"execute_tool {fields['tool']}" if fields["kind"] == "tool" else "load"


def span_tree(
    steps: int = 2, tools: int = 1, *, subagents: int = 0, session: ExportSession = SESSION, start: int = START
) -> list[ExportSpan]:
    """A turn with ``steps`` model calls of ``tools`` tool calls each; the first ``subagents`` tools start one each.

    Every model call has usage and a cost, the turn a prompt and an answer, each tool arguments and a result.
    """
    root = make_span(
        session=session,
        start=start,
        end=start + 1_000_000,
        texts=(Text("prompt", "The basket forgets its last item."), Text("text", "It does no longer.")),
    )
    spans = [root, *_worked(root, steps, tools)]
    for call in [span for span in spans if span.kind == "tool"][:subagents]:
        below = make_span(call, kind="turn", agent_name="explorer", subagent=True)
        spans += [below, *_worked(below, 1, 1)]
    return spans


def _worked(turn: ExportSpan, steps: int, tools: int) -> list[ExportSpan]:
    spans = []
    for n in range(1, steps + 1):
        step = make_span(
            turn,
            kind="step",
            start=turn.start + n * 10_000,
            step_n=n,
            usage=Usage(input_tokens=3 * n, output_tokens=50 + n, cache_read_tokens=1_000 * n, cache_write_tokens=200),
            cost=Decimal("0.0123"),
            currency="USD",
            texts=(Text("thinking", "Where is the basket kept?"), Text("text", f"Step {n}.")),
        )
        spans.append(step)
        for k in range(tools):
            told = (Text("arguments", f'{{"command": "ls {k}"}}'), Text("result", f"file{k}.py"))
            spans.append(make_span(step, kind="tool", start=step.start + 1_000 + k, step_n=n, texts=told))
    return spans


#: Any text that a log can hold: NUL, lone surrogates and what no font has included.
any_text = st.text(st.characters(exclude_categories=()), max_size=12)
some_text = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12)
_tokens = st.integers(0, 10**9)
_moments = st.integers(0, 9_000_000_000_000_000)
_ids = st.binary(min_size=8, max_size=8).filter(any)
_text_kinds: tuple[TextKind, ...] = ("prompt", "text", "thinking", "arguments", "result", "error", "note")
_plain: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), any_text
)
_values = st.recursive(
    _plain,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(any_text, below, max_size=3)),
    max_leaves=3,
)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Tokens whose parts are never larger than what they are part of."""
    output, written = draw(_tokens), draw(_tokens)
    return Usage(
        input_tokens=draw(_tokens),
        output_tokens=output,
        cache_read_tokens=draw(_tokens),
        cache_write_tokens=written,
        cache_write_1h_tokens=draw(st.integers(0, written)),
        reasoning_tokens=draw(st.integers(0, output)),
    )


@st.composite
def sessions(draw: st.DrawFn) -> ExportSession:
    """A session of any agent, in which everything optional may be absent."""
    agent = draw(st.sampled_from(["claude-code", "codex", "kimi-cli", "kimi-code", "agenttrace"]) | some_text)
    facts = FACTS.get(agent)
    return ExportSession(
        session_id=draw(some_text),
        agent=agent,
        agent_title=None if facts is None else facts.title,
        integration=None if facts is None else facts.integration,
        agent_version=draw(st.none() | any_text),
        project=draw(st.none() | any_text),
        branch=draw(st.none() | any_text),
        title=draw(st.none() | any_text),
    )


_sessions = sessions()
_usages = usages()
_texts = st.lists(st.builds(Text, st.sampled_from(_text_kinds), any_text, st.none() | any_text), max_size=4).map(tuple)
_costs = st.decimals(min_value=0, max_value=10_000, places=6) | st.none()


@st.composite
def trees(draw: st.DrawFn, max_spans: int = 5, *, with_texts: bool = True) -> list[ExportSpan]:
    """Any trace: turns, model calls, tools, subagents and foreign spans in any shape, with any unicode in them.

    ``with_texts`` False: nothing that was said may be told.
    """
    count = draw(st.integers(1, max_spans))
    span_ids = draw(st.lists(_ids, min_size=count, max_size=count, unique=True))
    trace_id = draw(st.binary(min_size=16, max_size=16).filter(any))
    session = draw(_sessions)
    spans: list[ExportSpan] = []
    for span_id in span_ids:
        parent = draw(st.sampled_from(spans)) if spans else None
        spans.append(_drawn(draw, parent, span_id, trace_id, session, with_texts))
    return spans


def _drawn(
    draw: st.DrawFn, parent: ExportSpan | None, span_id: bytes, trace_id: bytes, session: ExportSession, told: bool
) -> ExportSpan:
    kind = draw(st.sampled_from(["turn", "step", "tool", "span"])) if parent else "turn"
    start = draw(_moments)
    status = draw(st.sampled_from(["ok", "error", "cancelled", "unclosed"]))
    fields: dict[str, Any] = {
        "kind": kind,
        "span_id": span_id,
        "trace_id": trace_id,
        "session": session,
        "name": draw(any_text),
        "start": start,
        "end": start + draw(st.integers(0, 10**12)),
        "status": status,
        "error": draw(st.none() | any_text) if status == "error" else None,
        "turn_index": draw(st.integers(0, 1_000)),
        "step_n": draw(st.integers(0, 1_000)),
        "subagent": parent is not None and (parent.subagent or kind == "turn"),
        "texts": draw(_texts) if told else (),
        "attributes": draw(st.dictionaries(any_text, _values, max_size=3)) if told else {},
        **_drawn_of_kind(draw, kind),
    }
    return make_span(parent, **fields)


def _drawn_of_kind(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    if kind == "turn":
        return {"agent_name": draw(st.none() | any_text)}
    if kind == "tool":
        return {"tool": draw(st.none() | any_text), "call": draw(st.none() | any_text)}
    if kind == "span":
        return {}
    usage = draw(st.none() | _usages)
    cost = draw(_costs) if usage else None
    return {
        "model": draw(st.sampled_from([MODEL, "gpt-5.1-codex", "kimi-k2.5", "qwen3-max"]) | st.none() | any_text),
        "usage": usage,
        "estimated": draw(st.booleans()),
        "copied": usage is None and draw(st.booleans()),
        "cost": cost,
        "currency": draw(st.sampled_from(["USD", "CNY"])) if cost is not None else None,
        "finish_reason": draw(st.none() | any_text),
        "response_id": draw(st.none() | any_text),
    }
