"""Telemetry of agents: the log records and data points that coding agents send over OTLP.

A record becomes an event of the agent's own session, in a stream that counts only while no log of that session is
recorded (``store/sqlite/telemetry.py``). What an agent calls its events is in ``_AGENTS``; records of other programs,
and events that say nothing about turns, model calls and tools, are ignored and counted.

Data points of Claude Code's token counter are its totals: calls are checked against them. They are the usage of a
session of which no model call is known.

``memory`` has ``facts``, what was reported of the session; ``step``, the latest model call of the turn; ``meters``, the
sum of the counter by quarter of an hour and model; and ``points``, the latest value and time of each cumulative series.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from agenttrace.model import USAGE_FIELDS, Event, Usage
from agenttrace.record.formats.base import remember, usage_of, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, Unusable
from agenttrace.record.formats.lenient import MOST_TOKENS, iso_time, time_of
from agenttrace.record.formats.otlp_lines import Attributes, OtlpLine
from agenttrace.record.ingest import acts as a
from agenttrace.store.questions import TELEMETRY

#: A prompt that the agent was told not to send.
_REDACTED = frozenset({"", "<REDACTED>", "[REDACTED]", "REDACTED"})
_SESSIONS = ("session.id", "conversation.id", "gen_ai.conversation.id")
_LONGEST_SESSION = 200
_PROMPT_LIMIT, _NAME_LIMIT = 500, 300
#: Series of cumulative counters that are remembered of a session, and sums of quarters of an hour.
_SERIES, _METERS = 256, 64
#: In microseconds.
_QUARTER_HOUR = 900_000_000
#: What no tool and no model call takes, in milliseconds.
_MOST_MILLISECONDS = 10**9


class _Agent(NamedTuple):
    """How an agent names its events, and how it counts tokens."""

    name: str
    #: What its events begin with.
    prefix: str
    services: tuple[str, ...]
    usage: Callable[[Attributes], Usage]


def _claude_usage(attributes: Attributes) -> Usage:
    return usage_of(_counts(attributes), _CLAUDE_COUNTS)


def _codex_usage(attributes: Attributes) -> Usage:
    """The prompt includes cached tokens, and the output includes reasoning, as OpenAI counts."""
    names = ("input", "output", "cached", "cache_write", "reasoning")
    return usage_of_prompt(*(_count(attributes.get(f"{name}_token_count")) for name in names))


def _gemini_usage(attributes: Attributes) -> Usage:
    """Gemini counts thoughts apart; other providers have them in the output, which the total tells."""
    prompt, output, cached, thoughts, total = (
        _count(attributes.get(f"{name}_token_count"))
        for name in ("input", "output", "cached_content", "thoughts", "total")
    )
    if thoughts > output or total >= prompt + output + thoughts:
        output += thoughts
    return usage_of_prompt(prompt, output, cached, reasoning=thoughts)


_CLAUDE_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_creation_tokens",
}
_AGENTS = (
    _Agent("claude-code", "claude_code.", ("claude-code",), _claude_usage),
    _Agent("codex", "codex.", ("codex_cli_rs", "codex_exec", "codex-app-server", "codex"), _codex_usage),
    _Agent("gemini-cli", "gemini_cli.", ("gemini-cli",), _gemini_usage),
    _Agent("qwen-code", "qwen-code.", ("qwen-code",), _gemini_usage),
)
_BY_NAME = {agent.name: agent for agent in _AGENTS}

#: The counter of Claude Code, and what its types are here.
_COUNTER = "claude_code.token.usage"
_COUNTED = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheCreation": "cache_write_tokens",
}


# -- which event a record is --------------------------------------------------------------------------------------


def record_event(line: OtlpLine, raw: bytes) -> Event | Unusable:
    """A record is itself by all that it says, so one that is sent again changes nothing."""
    found = _named(line) if line.metric is None else _metered(line)
    if found is None:
        what = "log record" if line.metric is None else "metric"
        return Unusable(f"a {what} that is not about turns, model calls or tools of an agent", harmless=True)
    agent, name = found
    session = _session(line)
    if session is None:
        return Unusable("telemetry that names no session", harmless=True)
    key = hashlib.sha256(raw).hexdigest()[:32]
    return Event(f"{TELEMETRY}/{name}", key, _moment(line), line, stream=TELEMETRY, session=session, agent=agent.name)


def _named(line: OtlpLine) -> tuple[_Agent, str] | None:
    """The agent and its event, without the prefix; ``None`` where it is of no interest."""
    event = line.attributes.get("event.name")
    names = [name for name in (line.log, event, line.body) if isinstance(name, str) and name]
    whole = (
        (agent, name.removeprefix(agent.prefix)) for name in names for agent in _AGENTS if name.startswith(agent.prefix)
    )
    bare = ((agent, name) for name in names for agent in _AGENTS if line.resource.service in agent.services)
    for agent, name in (*whole, *bare):
        if _is_told(name, line.attributes):
            return agent, name
    return None


def _is_told(name: str, attributes: Attributes) -> bool:
    if name == "sse_event":
        # One for each piece of an answer; only the last has the tokens.
        return _is_completed(attributes) or "error.message" in attributes
    return name in _MEANINGS


def _metered(line: OtlpLine) -> tuple[_Agent, str] | None:
    known = line.metric == _COUNTER and line.attributes.get("type") in _COUNTED
    return (_BY_NAME["claude-code"], "token.usage") if known else None


def _session(line: OtlpLine) -> str | None:
    found = _text(line.attributes, *_SESSIONS) or line.resource.session
    return found[:_LONGEST_SESSION] if found else None


def _moment(line: OtlpLine) -> int | None:
    if line.time:
        return line.time // 1000
    told = line.attributes.get("event.timestamp")
    return time_of(iso_time(told)) if isinstance(told, str) else None


# -- what it means ------------------------------------------------------------------------------------------------


class _Record(NamedTuple):
    """An event with what its meaning depends on."""

    agent: _Agent
    session: str
    key: str
    at: int | None
    attributes: Attributes
    memory: Memory

    def text(self, *names: str) -> str | None:
        """The first of these attributes that is a text."""
        return _text(self.attributes, *names)

    @property
    def began(self) -> int | None:
        """When what it tells of began."""
        took = self.duration
        return None if took is None or self.at is None else self.at - took

    @property
    def duration(self) -> int | None:
        """In microseconds."""
        took = _number(self.attributes.get("duration_ms"))
        return None if took is None or not 0 <= took <= _MOST_MILLISECONDS else round(took * 1000)

    @property
    def model(self) -> str | None:
        """The model of a call."""
        found = self.text("model", "slug")
        return None if found is None else found[:_NAME_LIMIT]

    @property
    def call(self) -> str:
        """The id of a tool call."""
        return (self.text("tool_use_id", "call_id") or self.key)[:_NAME_LIMIT]

    @property
    def error(self) -> str | None:
        """What went wrong, if anything."""
        found = self.text("error", "error.message", "error_message", "error_type")
        status = _count(_number(self.attributes.get("status_code", self.attributes.get("http.response.status_code"))))
        return found or (f"HTTP {status}" if status >= 400 else None)


def _record(event: Event, memory: Memory) -> _Record:
    line: OtlpLine = event.body
    agent, session, key = _BY_NAME[event.agent or ""], event.session or "", event.key or ""
    return _Record(agent, session, key, event.at, line.attributes, memory)


def record_acts(event: Event, memory: Memory) -> Iterator[a.Act]:
    """What the event means, after the facts about the session in it."""
    line: OtlpLine = event.body
    if line.metric is not None:
        yield from _totals(event, line, memory)
        return
    record = _record(event, memory)
    facts = [record.text("app.version") or _version(record.agent, line), record.model]
    if facts != memory.get("facts") and any(facts):
        memory["facts"] = facts
        yield a.SessionInfo(version=facts[0], model=facts[1])
    yield from _MEANINGS[event.type.partition("/")[2]](record)


def _version(agent: _Agent, line: OtlpLine) -> str | None:
    """Gemini CLI and Qwen Code have the version of Node here."""
    return line.resource.version if agent.name == "claude-code" else None


def _prompt(record: _Record) -> Iterator[a.Act]:
    text = record.text("prompt")
    record.memory.pop("step", None)
    yield a.TurnBegin(
        None if text is None or text in _REDACTED else text[:_PROMPT_LIMIT],
        "user",
        record.text("prompt.id", "prompt_id") or record.key,
    )


def _response(record: _Record) -> Iterator[a.Act]:
    """A model call that is over. Whether it asked for a tool is not known until the tool has answered."""
    usage = record.agent.usage(record.attributes)
    name = _step_of(record)
    record.memory["step"] = name
    yield a.StepBegin(name, None, record.model, start=record.began)
    terms = "fast" if record.text("speed") == "fast" else ""
    yield a.ResponseUsage(name, usage, record.model, name, terms=terms)
    yield a.StepEnd(name)
    yield a.FinalAnswer()


def _step_of(record: _Record) -> str:
    """The model call that an event tells of."""
    own = record.text("request_id", "response_id") or record.key
    return f"{TELEMETRY}:{record.agent.name}:{record.session}:{own}"


def _text_of_answer(record: _Record) -> Iterator[a.Act]:
    """What Claude Code's model said in a call; its tokens are in the event of the request."""
    name = _step_of(record) if record.text("request_id") else record.memory.get("step")
    if name is not None:
        yield a.StepBegin(name, None, record.model)
        yield a.StepEnd(name)
        yield a.FinalAnswer()


def _failure(record: _Record) -> Iterator[a.Act]:
    yield a.StepBegin(record.key, None, record.model, start=record.began)
    yield a.StepEnd(record.key, "error", record.error or "the request failed")
    yield a.FinalAnswer()


def _request(record: _Record) -> Iterator[a.Act]:
    """Claude Code's request event is the answer with its tokens; that of others only says if it failed."""
    if record.agent.name == "claude-code":
        yield from _response(record)
    elif record.error is not None:
        yield from _failure(record)


def _answer(record: _Record) -> Iterator[a.Act]:
    if "error.message" in record.attributes:
        yield from _failure(record)
    else:
        yield from _response(record)


def _tool(record: _Record) -> Iterator[a.Act]:
    name = (record.text("tool_name", "function_name") or "unknown")[:_NAME_LIMIT]
    failed = str(record.attributes.get("success", True)).lower() == "false"
    # The model call before it: that is over, and so is the turn, for all that was known until now.
    yield a.ToolBegin(record.call, name, record.memory.get("step"), start=record.began)
    error = record.error or record.text("output") if failed else None
    yield a.ToolEnd(record.call, "error" if failed else "ok", error, record.duration)


def _decision(record: _Record) -> Iterator[a.Act]:
    if (record.text("decision") or "").startswith(("reject", "den", "abort")):
        yield a.Note("rejected tool")


def _start(record: _Record) -> Iterator[a.Act]:
    """The facts about the session are all that it says."""
    return iter(())


def _compaction(record: _Record) -> Iterator[a.Act]:
    yield a.Note("compaction")


_MEANINGS: dict[str, Callable[[_Record], Iterator[a.Act]]] = {
    "conversation_starts": _start,
    "user_prompt": _prompt,
    "api_request": _request,
    "api_response": _response,
    "assistant_response": _text_of_answer,
    "sse_event": _answer,
    "api_error": _failure,
    "tool_result": _tool,
    "tool_call": _tool,
    "tool_decision": _decision,
    "compaction": _compaction,
    "chat_compression": _compaction,
}


def _is_completed(attributes: Attributes) -> bool:
    return attributes.get("event.kind") == "response.completed" and "input_token_count" in attributes


# -- texts --------------------------------------------------------------------------------------------------------


def record_contents(event: Event) -> list[Content]:
    """What was said: only where the agent was told to send it."""
    line: OtlpLine = event.body
    if line.metric is not None:
        return []
    record = _record(event, {})
    kind = event.type.partition("/")[2]
    found: list[Content | None] = []
    if kind == "user_prompt":
        found.append(_content("prompt", record.text("prompt")))
    elif kind in ("tool_result", "tool_call"):
        arguments = record.text("arguments", "function_args", "tool_input", "tool_parameters")
        found.append(_content("arguments", arguments, record.call))
        found.append(_content("result", record.text("output", "tool_output"), record.call))
    elif kind == "api_response":
        found.append(_content("text", record.text("response_text")))
    elif kind == "assistant_response":
        found.append(_content("text", record.text("response")))
    if record.error is not None:
        found.append(_content("error", record.error, record.call if kind.startswith("tool") else None))
    return [content for content in found if content is not None]


def _content(kind: Any, text: str | None, call: str | None = None) -> Content | None:  # noqa: ANN401 - a literal
    return None if text is None or text in _REDACTED else Content(kind, text, call)


# -- totals -------------------------------------------------------------------------------------------------------


def _totals(event: Event, line: OtlpLine, memory: Memory) -> Iterator[a.Act]:
    """The counter as of this data point, by model: what was added to it in this quarter of an hour."""
    attributes = line.attributes
    fresh = _count(_number(line.value))
    if line.temporality == "cumulative":
        fresh = _increase(line, fresh, memory)
    model = (_text(attributes, "model") or "")[:_NAME_LIMIT]
    if model and "facts" not in memory:
        yield a.SessionInfo(model=model)
    meters: dict[str, dict[str, dict[str, int]]] = memory.setdefault("meters", {})
    name = _meter(event, meters)
    tokens = meters.get(name, {})
    counts = tokens.get(model, {})
    field = _COUNTED[attributes["type"]]
    remember(tokens, model, counts | {field: min(counts.get(field, 0) + fresh, MOST_TOKENS)})
    remember(meters, name, tokens, _METERS)
    by_model = {name: usage_of(each, {field: field for field in USAGE_FIELDS}) for name, each in tokens.items()}
    yield a.ReportedTotals(segment=name, usage=by_model, stream=TELEMETRY, counts_alone=True)


def _meter(event: Event, meters: Mapping[str, object]) -> str:
    """The sum that a point belongs to. One that may be forgotten by now is not begun anew: it has a name already."""
    name = f"{(event.at or 0) // _QUARTER_HOUR:012d}"
    late = len(meters) >= _METERS and name not in meters and name < min(meters)
    return f"{name} {event.key}" if late else name


def _increase(line: OtlpLine, value: int, memory: Memory) -> int:
    """What a cumulative point adds to its series. A restarted counter is another series: it has another beginning.

    A sender that names no beginning restarts where the counter of a later time is smaller.
    """
    named = repr((line.start, sorted(line.attributes.items(), key=repr)))
    series = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    points: dict[str, list[int]] = memory.setdefault("points", {})
    known, at = points.get(series, [0, 0])
    if line.start == 0 and value < known and line.time > at:
        known = 0
    remember(points, series, [max(known, value), max(at, line.time)], _SERIES)
    return max(known, value) - known


# -- values: numbers are texts in the telemetry of some agents ----------------------------------------------------


def _text(attributes: Mapping[str, Any], *names: str) -> str | None:
    found = (attributes.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), None)


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None


def _count(value: object) -> int:
    """A number of tokens; 0 for what cannot be one."""
    found = _number(value)
    return int(found) if found is not None and 0 <= found <= MOST_TOKENS else 0


def _counts(attributes: Attributes) -> dict[str, int]:
    return {name: _count(attributes.get(name)) for name in _CLAUDE_COUNTS.values()}
