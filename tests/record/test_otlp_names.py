"""What spans are and say, in the words of every convention that is understood; and that no bytes break reading them."""

# ruff: noqa: ANN401 - attributes are anything

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openinference.semconv.trace import (
    MessageAttributes,
    OpenInferenceSpanKindValues,
    SpanAttributes,
    ToolCallAttributes,
)
from otlp_rig import line, span_id, trace_id

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.otlp import Otlp
from agenttrace.record.formats.otlp_lines import SESSION_NAMES
from agenttrace.record.ingest import acts as a

otlp = Otlp()


def nothing(_trace: str, _type: str, _key: str) -> None:
    """No line refers to another."""


SOURCE = Source(agent="otlp", session_id="s")


def read(attributes: dict[str, Any] | None = None, **more: Any) -> Event:
    """A span of the log as an event; with a parent, unless it is a root."""
    made = line(1, attributes=attributes, **({"parent": 9} | more))
    event = otlp.decode(json.dumps(made).encode(), SOURCE)
    assert isinstance(event, Event)
    return event


def finished(attributes: dict[str, Any] | None = None, **more: Any) -> a.Finished:
    found = [act for act in otlp.acts(read(attributes, **more), SOURCE, {}) if isinstance(act, a.Finished)]
    (act,) = found
    return act


def said(attributes: dict[str, Any] | None = None, **more: Any) -> list[tuple[str, str]]:
    event = read(attributes, **more)
    return [(content.kind, content.text) for content in otlp.content(event, SOURCE)]


# -- what they are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.operation.name": "chat"}, "step"),
        ({"gen_ai.operation.name": "text_completion"}, "step"),
        ({"gen_ai.operation.name": "embeddings"}, "step"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, "turn"),
        ({"gen_ai.operation.name": "plan"}, "span"),
        ({"gen_ai.operation.name": "plan", "gen_ai.request.model": "m"}, "span"),
        ({"openinference.span.kind": "LLM"}, "step"),
        ({"openinference.span.kind": "TOOL"}, "tool"),
        ({"openinference.span.kind": "AGENT"}, "turn"),
        ({"openinference.span.kind": "CHAIN"}, "span"),
        ({"openinference.span.kind": "RETRIEVER", "llm.model_name": "m"}, "span"),
        ({"traceloop.span.kind": "tool"}, "tool"),
        ({"traceloop.span.kind": "workflow"}, "turn"),
        ({"traceloop.span.kind": "task"}, "span"),
        ({"llm.request.type": "chat"}, "step"),
        ({"traceloop.span.kind": "task", "llm.request.type": "chat"}, "step"),
        ({"langfuse.observation.type": "generation"}, "step"),
        ({"langfuse.observation.type": "span"}, "span"),
        ({"langfuse.observation.type": "tool"}, "tool"),
        ({"langfuse.observation.type": "agent"}, "turn"),
        ({"ai.operationId": "ai.generateText"}, "turn"),
        ({"ai.operationId": "ai.generateText.doGenerate"}, "step"),
        ({"ai.operationId": "ai.streamText.doStream"}, "step"),
        ({"ai.operationId": "ai.toolCall"}, "tool"),
        ({"gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o"}, "step"),
        ({"gen_ai.tool.name": "find"}, "tool"),
        ({"http.request.method": "GET"}, "span"),
        ({}, "span"),
        ({"gen_ai.operation.name": 7, "openinference.span.kind": None}, "span"),
    ],
)
def test_kinds(attributes: dict[str, Any], kind: str) -> None:
    """Model calls, tools and agents are known by what they say of themselves; a root that is none of them is a turn."""
    assert finished(attributes).kind == kind
    assert finished(attributes, parent=None).kind == ("turn" if kind == "span" else kind)


def test_announcements() -> None:
    """A span that only announces another one is known, and ignored."""
    made = json.dumps(line(1, attributes={"logfire.span_type": "pending_span"})).encode()
    found = otlp.decode(made, SOURCE)
    assert isinstance(found, Unusable)
    assert found.harmless


def test_ids_stay() -> None:
    """A span keeps its own ids, and its times to the microsecond."""
    act = finished({}, start=1, seconds=0.0000015)
    assert (act.trace_id.hex(), act.span_id.hex(), act.parent_id) == (
        trace_id(1),
        span_id(1),
        bytes.fromhex(span_id(9)),
    )
    assert act.end - act.start == 1


@pytest.mark.parametrize("name", SESSION_NAMES)
def test_sessions(name: str) -> None:
    """Every name for a session is understood; numbers are names, too, and nothing else is."""
    assert read({name: "talk"}).session == "talk"
    assert read({name: 7}).session == "7"
    assert read({name: ""}).session is None
    assert read({name: True}).session is None
    assert read({name: ["talk"]}).session is None


def test_threads_of_the_system_are_no_sessions() -> None:
    """``thread.id`` is a thread of the operating system."""
    assert read({"thread.id": 140_234}).session is None


# -- tokens -------------------------------------------------------------------------------------------------------

NEW = {
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 30,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.cache_creation.input_tokens": 10,
    "gen_ai.usage.reasoning.output_tokens": 20,
}
WHOLE = Usage(input_tokens=50, output_tokens=30, cache_read_tokens=40, cache_write_tokens=10, reasoning_tokens=20)


@pytest.mark.parametrize(
    ("attributes", "usage"),
    [
        (NEW, WHOLE),
        (
            {
                "gen_ai.usage.prompt_tokens": 100,
                "gen_ai.usage.completion_tokens": 30,
                "gen_ai.usage.cache_read_input_tokens": 40,
                "gen_ai.usage.cache_creation_input_tokens": 10,
                "gen_ai.usage.reasoning_tokens": 20,
            },
            WHOLE,
        ),
        (
            {
                SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 100,
                SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 30,
                SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: 40,
                SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE: 10,
                SpanAttributes.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING: 20,
            },
            WHOLE,
        ),
        (NEW | {"gen_ai.usage.cache_write.input_tokens": 10}, WHOLE),
        (
            {name.replace("cache_creation", "cache_write"): count for name, count in NEW.items()},
            WHOLE,
        ),
        ({"ai.usage.promptTokens": 7.0, "ai.usage.completionTokens": 2.0}, Usage(input_tokens=7, output_tokens=2)),
        (
            {"langfuse.observation.usage_details": json.dumps({"input": 60, "output": 5, "input_cached_tokens": 40})},
            Usage(input_tokens=60, output_tokens=5, cache_read_tokens=40),
        ),
        (
            {
                "langfuse.observation.usage_details": json.dumps(
                    {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 40}}
                )
            },
            Usage(input_tokens=60, output_tokens=5, cache_read_tokens=40),
        ),
        # More was cached than was told in all: this sender does not count it in.
        (
            {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 40},
            Usage(input_tokens=3, cache_read_tokens=40),
        ),
        (
            {"gen_ai.usage.output_tokens": 3, "gen_ai.usage.reasoning_tokens": 9},
            Usage(output_tokens=3, reasoning_tokens=3),
        ),
        ({"gen_ai.usage.input_tokens": -5, "gen_ai.usage.output_tokens": 1}, Usage(output_tokens=1)),
        ({"gen_ai.usage.input_tokens": "100"}, None),
        ({"gen_ai.usage.input_tokens": True}, None),
        ({"langfuse.observation.usage_details": "{"}, None),
        ({}, None),
    ],
)
def test_usage(attributes: dict[str, Any], usage: Usage | None) -> None:
    """Each token is in one field, whatever the sender calls it; what is no number is no usage."""
    assert finished({"gen_ai.operation.name": "chat", **attributes}).usage == usage


def test_only_model_calls_and_roots_tell_usage() -> None:
    """Other spans repeat sums; a root may, which is marked."""
    assert finished({"openinference.span.kind": "CHAIN", **NEW}).usage is None
    assert finished({"gen_ai.operation.name": "invoke_agent", **NEW}).usage is None
    root = finished({"gen_ai.operation.name": "invoke_agent", **NEW}, parent=None)
    assert (root.usage, root.sum) == (WHOLE, True)
    assert not finished({"gen_ai.operation.name": "chat", **NEW}).sum


def test_names_of_responses() -> None:
    """A provider's id names the response everywhere; one that may come again names it in its trace only."""
    long, short = "chatcmpl-9aX2kLm40PqRsT", "chatcmpl-712"
    chat = {"gen_ai.operation.name": "chat", **NEW}
    named = {trace: finished({**chat, "gen_ai.response.id": long}, trace=trace).response for trace in (1, 2)}
    assert named[1] == named[2]
    named = {trace: finished({**chat, "gen_ai.response.id": short}, trace=trace).response for trace in (1, 2)}
    assert named[1] != named[2]
    unnamed = {finished(chat, trace=trace).response for trace in (1, 2)}
    assert len(unnamed) == 2


# -- what was said ------------------------------------------------------------------------------------------------

ASKED, ANSWER, THOUGHT = "Any shoes?", "Two pairs.", "Let me see."
MESSAGES = [
    {"role": "system", "parts": [{"type": "text", "content": "You sell shoes."}]},
    {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
]
OPENAI = [{"role": "system", "content": "You sell shoes."}, {"role": "user", "content": ASKED}]
CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}

CONVERSATIONS: dict[str, dict[str, Any]] = {
    "GenAI": {
        "gen_ai.input.messages": json.dumps(MESSAGES),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "reasoning", "content": THOUGHT},
                        {"type": "text", "content": ANSWER},
                        {"type": "tool_call", "id": "c", "name": "find", "arguments": {"q": 1}},
                    ],
                }
            ]
        ),
    },
    "GenAI, values instead of JSON": {
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": [
            {
                "role": "assistant",
                "parts": [
                    {"type": "thinking", "thinking": THOUGHT},
                    {"type": "text", "text": ANSWER},
                    {"type": "tool_use", "name": "find", "input": {"q": 1}},
                ],
            }
        ],
    },
    "GenAI before 1.30": {
        "gen_ai.prompt": json.dumps(OPENAI),
        "gen_ai.completion": json.dumps(
            [{"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT, "tool_calls": [CALL]}]
        ),
    },
    "OpenInference": {
        f"{SpanAttributes.LLM_INPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_ROLE}": "system",
        f"{SpanAttributes.LLM_INPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_CONTENT}": "You sell shoes.",
        f"{SpanAttributes.LLM_INPUT_MESSAGES}.1.{MessageAttributes.MESSAGE_ROLE}": "user",
        f"{SpanAttributes.LLM_INPUT_MESSAGES}.1.message.contents.0.message_content.type": "text",
        f"{SpanAttributes.LLM_INPUT_MESSAGES}.1.message.contents.0.message_content.text": ASKED,
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_ROLE}": "assistant",
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.message.contents.0.message_content.type": "reasoning",
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.message.contents.0.message_content.text": THOUGHT,
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_CONTENT}": ANSWER,
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_TOOL_CALLS}.0."
        f"{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}": "find",
        f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_TOOL_CALLS}.0."
        f"{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}": '{"q":1}',
        # Said again, as a whole: the messages are the better source.
        SpanAttributes.INPUT_VALUE: json.dumps({"messages": OPENAI}),
    },
    "OpenLLMetry": {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "You sell shoes.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": ASKED}]),
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": json.dumps(
            [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": ANSWER}]
        ),
        "gen_ai.completion.0.tool_calls.0.name": "find",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"q":1}',
    },
    "Langfuse": {
        "langfuse.observation.input": json.dumps(OPENAI),
        "langfuse.observation.output": json.dumps(
            {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT, "tool_calls": [CALL]}
        ),
    },
    "AI SDK": {
        "ai.prompt.messages": json.dumps([{"role": "user", "content": [{"type": "text", "text": ASKED}]}]),
        "ai.response.text": ANSWER,
        "ai.response.reasoning": THOUGHT,
        "ai.response.toolCalls": json.dumps([{"type": "tool-call", "toolName": "find", "args": {"q": 1}}]),
    },
    "LangChain": {
        "input.value": json.dumps(
            {"messages": [[{"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": ASKED}}]]}
        ),
        "output.value": json.dumps(
            {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT, "tool_calls": [CALL]}
        ),
    },
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(name: str) -> None:
    """Prompt, thoughts, answer and calls of a model call, as every convention tells them, and the first prompt of the
    session."""
    attributes = {"gen_ai.operation.name": "chat", **CONVERSATIONS[name]}
    expected = [("prompt", ASKED), ("thinking", THOUGHT), ("text", ANSWER), ("note", 'find({"q":1})')]
    assert said(attributes) == expected
    assert finished(attributes).prompt == ASKED


def event(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "time": 1, "attributes": attributes}


@pytest.mark.parametrize(
    "events",
    [
        [
            event("gen_ai.system.message", content="You sell shoes."),
            event("gen_ai.user.message", content=ASKED),
            event("gen_ai.choice", message=json.dumps({"role": "assistant", "content": ANSWER})),
        ],
        [
            event("gen_ai.content.prompt", **{"gen_ai.prompt": json.dumps(OPENAI)}),
            event(
                "gen_ai.content.completion",
                **{"gen_ai.completion": json.dumps([{"role": "assistant", "content": ANSWER}])},
            ),
        ],
        [
            event(
                "gen_ai.client.inference.operation.details",
                **{
                    "gen_ai.input.messages": MESSAGES,
                    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}],
                },
            )
        ],
    ],
)
def test_messages_as_events(events: list[dict[str, Any]]) -> None:
    """Messages may be events of the span, in the three ways in which the conventions had them."""
    assert said({"gen_ai.operation.name": "chat"}, events=events) == [("prompt", ASKED), ("text", ANSWER)]


def test_what_a_tool_said_is_no_prompt() -> None:
    """A model call after a tool has no prompt."""
    messages = [*OPENAI, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "2 pairs"}]
    assert said({"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}) == []


def test_an_agent_tells_the_whole_conversation() -> None:
    """An agent's prompt is the last thing that the user said, its answer the last thing that it said."""
    messages = [*OPENAI, {"role": "assistant", "content": "Which size?"}]
    told = [*messages, {"role": "user", "content": "43"}, {"role": "assistant", "content": ANSWER}]
    agent = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": json.dumps(told)}
    assert said({**agent, "output.value": json.dumps(told)}) == [("prompt", "43"), ("text", ANSWER)]


@pytest.mark.parametrize(
    ("attributes", "arguments", "result"),
    [
        ({"gen_ai.tool.call.arguments": '{"q":1}', "gen_ai.tool.call.result": "2"}, '{"q":1}', "2"),
        ({"gen_ai.tool.call.arguments": {"q": 1}, "gen_ai.tool.call.result": [2]}, '{"q":1}', "[2]"),
        ({"input.value": "shoes", "output.value": "2"}, "shoes", "2"),
        ({"traceloop.entity.input": "shoes", "traceloop.entity.output": "2"}, "shoes", "2"),
        ({"langfuse.observation.input": "shoes", "langfuse.observation.output": "2"}, "shoes", "2"),
        ({"ai.toolCall.args": "{}", "ai.toolCall.result": "2"}, "{}", "2"),
    ],
)
def test_tools(attributes: dict[str, Any], arguments: str, result: str) -> None:
    """Arguments and result of a tool, as every convention tells them."""
    assert said({"gen_ai.tool.name": "find", **attributes}) == [("arguments", arguments), ("result", result)]


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}, "find"),
        ({"openinference.span.kind": OpenInferenceSpanKindValues.TOOL.value, "tool.name": "find"}, "find"),
        ({"traceloop.span.kind": "tool", "traceloop.entity.name": "find"}, "find"),
        ({"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find"}, "find"),
        ({"langfuse.observation.type": "tool"}, "work"),
    ],
)
def test_names_of_tools(attributes: dict[str, Any], name: str) -> None:
    """A tool is called what its sender calls it, or else like its span."""
    act = finished(attributes)
    assert (act.name, act.attributes["tool"]) == (f"execute_tool {name}", name)


def test_other_work() -> None:
    """Of other work it is shown what went in and came out."""
    assert said({"db.query.text": "SELECT 1"}) == [("arguments", "SELECT 1")]
    documents = {"retrieval.documents.0.document.content": "one", "retrieval.documents.1.document.content": "two"}
    asked = {"openinference.span.kind": "RETRIEVER", "input.value": "shoes"}
    assert said({**asked, **documents}) == [("arguments", "shoes"), ("result", "one"), ("result", "two")]


def test_errors() -> None:
    """What failed is in short on the span, and whole among its texts."""
    raised = event(
        "exception", **{"exception.type": "ValueError", "exception.message": "no", "exception.stacktrace": "at 1"}
    )
    act = finished({}, status="error", events=[raised])
    assert (act.status, act.attributes["error"]) == ("error", "ValueError: no")
    assert said({}, status="error", events=[raised]) == [("error", "ValueError: no\nat 1")]
    assert said({}, status="error", message="deadline") == [("error", "deadline")]
    assert finished({}, status="error", message="deadline").attributes["error"] == "deadline"
    # An exception that was handled is told, but the span did not fail.
    assert finished({}, events=[raised]).status == "ok"
    assert finished({"langfuse.observation.level": "ERROR"}).status == "error"


def test_endless_texts() -> None:
    """What a span is called, and what failed in it, is cut for lists; the line has all of it."""
    endless = "x" * 100_000
    act = finished({"gen_ai.tool.name": endless}, status="error", message=endless)
    assert max(len(act.name), len(act.attributes["tool"]), len(act.attributes["error"])) <= 500
    assert said({}, status="error", message=endless) == [("error", endless)]


def test_facts_of_the_session() -> None:
    """Program, version, model and title are reported once, and again when they change."""
    memory: dict[str, Any] = {}

    def told(attributes: dict[str, Any], **more: Any) -> list[a.Act]:
        acts = list(otlp.acts(read(attributes, **more), SOURCE, memory))
        return [act for act in acts if isinstance(act, a.SessionInfo)]

    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
    assert told(chat) == [a.SessionInfo(cwd="shop", model="m1")]
    assert told(chat) == []
    assert told({**chat, "gen_ai.request.model": "m2"}) == [a.SessionInfo(model="m2")]
    assert told({}, service="other") == []
    assert told({}, parent=None, name="POST /chat") == [a.SessionInfo(title="POST /chat")]


def test_a_prompt_is_a_better_title_than_a_root() -> None:
    """Where something was asked, the name of the root is no title."""
    memory: dict[str, Any] = {}
    asked = {"gen_ai.operation.name": "chat", **CONVERSATIONS["GenAI"]}
    for attributes, parent in ((asked, 9), ({}, None)):
        acts = list(otlp.acts(read(attributes, parent=parent), SOURCE, memory))
        assert all(act.title is None for act in acts if isinstance(act, a.SessionInfo))


def test_everything_received_can_be_shown() -> None:
    """Whatever was received about a span is among its attributes."""
    made = line(
        1, attributes={"own": 1}, kind="client", scope={"name": "lib"}, events=[event("x")], links=[{"span": "2"}]
    )
    shown = otlp.attributes(json.dumps(made).encode(), nothing)
    assert shown["own"] == 1
    assert shown["otlp.resource"] == {"service.name": "shop"}
    assert (shown["otlp.kind"], shown["otlp.scope"], shown["otlp.links"]) == (
        "client",
        {"name": "lib"},
        [{"span": "2"}],
    )
    assert otlp.attributes(b"\xff", nothing) == {}


# -- anything at all ----------------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
#: Names that mean something, so that what stands behind them is looked at.
KNOWN = sorted(
    {name for each in CONVERSATIONS.values() for name in each}
    | {"gen_ai.operation.name", "openinference.span.kind", "langfuse.observation.usage_details", "ai.operationId"}
    | {"session.id", "gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.response.finish_reasons", *NEW}
)
MEANING = st.sampled_from(["chat", "execute_tool", "invoke_agent", "LLM", "TOOL"])
ATTRIBUTES = st.dictionaries(st.sampled_from(KNOWN), JSON_VALUES | MEANING | JSON_VALUES.map(json.dumps), max_size=8)
LINES = st.fixed_dictionaries(
    {},
    optional={
        "otlp": JSON_VALUES,
        "trace": st.just(trace_id(1)) | JSON_VALUES,
        "span": st.just(span_id(1)) | JSON_VALUES,
        "parent": st.just(span_id(2)) | JSON_VALUES,
        "name": JSON_VALUES,
        "start": JSON_VALUES,
        "end": JSON_VALUES,
        "status": st.just("error") | JSON_VALUES,
        "message": JSON_VALUES,
        "attributes": ATTRIBUTES | JSON_VALUES,
        "events": st.lists(st.fixed_dictionaries({"name": JSON_VALUES, "attributes": ATTRIBUTES}), max_size=3)
        | JSON_VALUES,
        "resource": JSON_VALUES,
        "flags": JSON_VALUES,
    },
)


@given(LINES.map(lambda made: json.dumps(made).encode()) | st.binary(max_size=200))
def test_no_line_breaks_anything(raw: bytes) -> None:
    """Any bytes and any JSON object give an event or a reason, and texts; the same line always gives the same."""
    found = otlp.decode(raw, SOURCE)
    if isinstance(found, Unusable):
        assert found.reason
        return
    assert otlp.decode(raw, SOURCE) == found
    memory: dict[str, Any] = {}
    acts = list(otlp.acts(found, SOURCE, memory))
    assert sum(isinstance(act, a.Finished) for act in acts) == 1
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(memory)) == memory
    for content in otlp.content(found, SOURCE):
        assert content.text
    otlp.attributes(raw, nothing)


def test_recognised_by_content() -> None:
    """A log is known by its lines, wherever it is, also behind a damaged one; nothing else is."""
    raw = json.dumps(line(1)).encode()
    assert otlp.recognise(Path("x.jsonl"), b"\0\n" + raw + b"\n") is not None
    assert otlp.recognise(Path("x.jsonl"), b'{"v":1,"session":"s","type":"note"}\n') is None
    assert otlp.recognise(Path("x.jsonl"), b'{"otlp":1}\n') is None
