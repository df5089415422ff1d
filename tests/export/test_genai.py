"""Spans in the words of the GenAI conventions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as official
from opentelemetry.semconv.attributes import error_attributes, exception_attributes, service_attributes

from agenttrace.export import conventions as c
from agenttrace.export.genai import described, usage
from agenttrace.export.span import ExportSpan, Text
from agenttrace.export.wire_text import LIMIT, shortened, shortened_in_json
from agenttrace.model import Usage
from export.span_making import any_text, make_span, span_tree, trees

CONTENT = (c.INPUT_MESSAGES, c.OUTPUT_MESSAGES, c.TOOL_ARGUMENTS, c.TOOL_RESULT)
OPERATIONS = {"turn": c.INVOKE_AGENT, "step": c.CHAT, "tool": c.EXECUTE_TOOL}


def messages(span: ExportSpan, key: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(str(described(span).attributes[key]))


# -- the names --------------------------------------------------------------------------------------------------


def test_our_names_are_the_official_ones() -> None:
    """Every name under ``gen_ai.`` is one of the conventions, except the cost, which is what backends read, and a name
    that only their next release has."""
    known = {getattr(official, name) for name in dir(official) if name.startswith("GEN_AI_")}
    ours = {value for value in vars(c).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours - known == {c.USAGE_COST, c.CACHE_WRITE_TOKENS}
    operations = {each.value for each in official.GenAiOperationNameValues}
    assert set(OPERATIONS.values()) <= operations
    assert error_attributes.ERROR_TYPE == c.ERROR_TYPE
    assert error_attributes.ErrorTypeValues.OTHER.value == c.ERROR_OTHER
    assert exception_attributes.EXCEPTION_MESSAGE == c.EXCEPTION_MESSAGE
    assert service_attributes.SERVICE_NAME == c.SERVICE_NAME


def test_no_name_is_also_the_beginning_of_another() -> None:
    """Backends make trees of dotted names: one that is both a value and a branch loses one of them."""
    names = [value for name, value in vars(c).items() if name.isupper() and isinstance(value, str) and "." in value]
    clashes = [(a, b) for a in names for b in names if b.startswith(f"{a}.")]
    assert clashes == []


# -- properties of any tree -------------------------------------------------------------------------------------


@given(trees())
def test_required_attributes_are_there(spans: list[ExportSpan]) -> None:
    """Operation and provider on every span of an agent, the tool's name on tools, the error's type on errors."""
    for span in spans:
        told = described(span)
        assert told.name
        assert told.client == (span.kind == "step")
        assert told.attributes.get(c.OPERATION_NAME) == OPERATIONS.get(span.kind)
        if span.kind != "span":
            assert told.attributes[c.PROVIDER_NAME]
            assert told.name.split(" ")[0] == OPERATIONS[span.kind]
        if span.kind == "tool":
            assert told.attributes[c.TOOL_NAME]
        assert (c.ERROR_TYPE in told.attributes) == (span.status == "error")


@given(trees())
def test_every_span_names_its_session(spans: list[ExportSpan]) -> None:
    """Backends put spans together by the session, which is on each of them under both names."""
    for span in spans:
        attributes = described(span).attributes
        assert attributes[c.CONVERSATION_ID] == attributes[c.SESSION_ID] == shortened(span.session.session_id)


@given(trees())
def test_tokens_are_on_model_calls_only_and_sum_up(spans: list[ExportSpan]) -> None:
    """The sums over all spans are those of the usage that was paid for; turns and tools have none."""
    told = [(span, described(span).attributes) for span in spans]
    for span, attributes in told:
        if span.kind != "step" or span.usage is None:
            assert not [key for key in attributes if key.startswith("gen_ai.usage.")]
            assert c.OUR_COST not in attributes

    def total(key: str) -> int:
        return sum(int(str(attributes.get(key, 0))) for _, attributes in told)

    paid = [span.usage for span in spans if span.usage is not None]
    assert total(c.INPUT_TOKENS) == sum(u.input_tokens + u.cache_read_tokens + u.cache_write_tokens for u in paid)
    assert total(c.OUTPUT_TOKENS) == sum(u.output_tokens for u in paid)
    assert total(c.CACHE_READ_TOKENS) == sum(u.cache_read_tokens for u in paid)
    assert total(c.CACHE_CREATION_TOKENS) == sum(u.cache_write_tokens for u in paid)
    assert total(c.CACHE_WRITE_TOKENS) == total(c.CACHE_CREATION_TOKENS)
    assert total(c.REASONING_TOKENS) == sum(u.reasoning_tokens for u in paid)
    assert total(c.INPUT_TOKENS) + total(c.OUTPUT_TOKENS) == sum(u.total for u in paid)


@given(trees(with_texts=False))
def test_without_texts_none_is_sent(spans: list[ExportSpan]) -> None:
    """Where the switches are off there is no key of content, not even an empty one."""
    for span in spans:
        assert not set(CONTENT) & set(described(span).attributes)
        assert c.OUR_NOTE not in described(span).attributes


@given(trees())
def test_values_are_what_opentelemetry_allows(spans: list[ExportSpan]) -> None:
    """Strings of valid Unicode without NUL, booleans, numbers, and lists of strings; no nulls and nothing empty."""
    for span in spans:
        for key, value in described(span).attributes.items():
            assert key.encode()
            assert isinstance(value, str | bool | int | float | tuple)
            assert value not in ("", ())
            for text in value if isinstance(value, tuple) else (value,):
                assert not isinstance(text, str) or b"\0" not in text.encode()


@given(trees())
def test_messages_are_json_of_the_schema(spans: list[ExportSpan]) -> None:
    """Each has a role and parts with a type; those of the model also say why it stopped."""
    for span in spans:
        attributes = described(span).attributes
        for key in (c.INPUT_MESSAGES, c.OUTPUT_MESSAGES):
            for message in json.loads(str(attributes.get(key, "[]"))):
                assert message["role"] in ("user", "tool", "assistant")
                assert message["parts"]
                assert all(part["type"] for part in message["parts"])
                assert ("finish_reason" in message) == (key == c.OUTPUT_MESSAGES)


# -- kinds of spans ---------------------------------------------------------------------------------------------


def test_a_turn() -> None:
    """A root turn is the agent at work, with the prompt as its input and the answer as its output."""
    root = span_tree()[0]
    told = described(root)
    assert (told.name, told.client, told.status) == ("invoke_agent claude-code", False, "ok")
    assert told.attributes[c.AGENT_NAME] == told.attributes[c.AGENT_ID] == "claude-code"
    assert told.attributes[c.AGENT_VERSION] == "2.1.7"
    assert told.attributes[c.OUR_PROJECT] == "/home/user/shop"
    part = {"type": "text", "content": "The basket forgets its last item."}
    assert messages(root, c.INPUT_MESSAGES) == [{"role": "user", "parts": [part]}]
    assert messages(root, c.OUTPUT_MESSAGES)[0]["parts"] == [{"type": "text", "content": "It does no longer."}]


def test_a_subagent() -> None:
    """Its turn has the name of the subagent, and every span below is marked."""
    spans = span_tree(subagents=1)
    turn = next(span for span in spans if span.subagent)
    told = described(turn)
    assert told.name == "invoke_agent explorer"
    assert told.attributes[c.AGENT_ID] == "claude-code/explorer"
    inside = [described(span).attributes.get(c.OUR_IN_SUBAGENT, False) for span in spans]
    assert inside == [span.subagent for span in spans]


def test_a_model_call() -> None:
    """A client span with model, response, reason and tokens; thinking is separate from the answer."""
    used = Usage(input_tokens=3, output_tokens=50, cache_read_tokens=1_000, cache_write_tokens=200, reasoning_tokens=7)
    texts = (Text("thinking", "Hm."), Text("text", "Done."))
    step = make_span(make_span(), usage=used, cost=Decimal("0.25"), currency="USD", texts=texts)
    told = described(step)
    assert (told.name, told.client) == ("chat claude-sonnet-4-5", True)
    assert told.attributes[c.REQUEST_MODEL] == told.attributes[c.RESPONSE_MODEL] == "claude-sonnet-4-5"
    assert told.attributes[c.FINISH_REASONS] == ("end_turn",)
    assert told.attributes[c.RESPONSE_ID] == step.response_id
    assert told.attributes[c.INPUT_TOKENS] == 1_203, "cached tokens are part of the input"
    assert told.attributes[c.USAGE_COST] == told.attributes[c.OUR_COST] == 0.25
    (message,) = messages(step, c.OUTPUT_MESSAGES)
    assert [part["type"] for part in message["parts"]] == ["reasoning", "text"]
    assert message["finish_reason"] == "end_turn"


def test_a_tool() -> None:
    """Arguments and result have their own attributes and are no messages."""
    tool = next(span for span in span_tree() if span.kind == "tool")
    told = described(tool)
    assert (told.name, told.client) == ("execute_tool Bash", False)
    assert told.attributes[c.TOOL_CALL_ID] == tool.call
    assert told.attributes[c.TOOL_TYPE] == "function"
    assert told.attributes[c.TOOL_ARGUMENTS] == '{"command": "ls 0"}'
    assert told.attributes[c.TOOL_RESULT] == "file0.py"
    assert c.INPUT_MESSAGES not in told.attributes


def test_a_foreign_span_keeps_its_name() -> None:
    """A received span without an agent keeps its name and gets no operation."""
    told = described(make_span(make_span(), kind="span", name="GET /basket"))
    assert told.name == "GET /basket"
    assert c.OPERATION_NAME not in told.attributes


def test_facts_of_the_store_have_our_prefix_and_never_hide_ours() -> None:
    """``duration`` becomes ``agenttrace.duration``; a fact called ``status`` does not replace the status."""
    told = described(make_span(attributes={"duration": 12, "notes": ["a", "b"], "status": "made up", "big": 2**80}))
    assert told.attributes["agenttrace.duration"] == 12
    assert told.attributes["agenttrace.notes"] == '["a","b"]'
    assert told.attributes[c.OUR_STATUS] == "ok"
    assert told.attributes["agenttrace.big"] == str(2**80)


# -- money ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("currency", "is_dollars"), [("USD", True), ("CNY", False), ("EUR", False)])
def test_the_cost_attribute_is_in_dollars_only(currency: str, is_dollars: bool) -> None:
    """Backends read ``gen_ai.usage.cost`` as dollars; other currencies have an attribute of AgentTrace only."""
    told = usage(make_span(make_span(), usage=Usage(input_tokens=1), cost=Decimal("7.5"), currency=currency))
    assert (c.USAGE_COST in told) == is_dollars
    assert (told[c.OUR_COST], told[c.OUR_CURRENCY]) == (7.5, currency)


def test_an_unknown_price_is_not_nothing() -> None:
    """Where the price is unknown there is no cost, not a cost of 0."""
    told = usage(make_span(make_span(), usage=Usage(input_tokens=1), cost=None, currency=None))
    assert not [key for key in told if "cost" in key]


def test_a_copied_call_says_so_and_has_no_tokens() -> None:
    """The session that had the response first pays for it."""
    told = described(make_span(make_span(), copied=True, usage=None)).attributes
    assert told[c.OUR_COPIED] is True
    assert c.INPUT_TOKENS not in told


# -- how it ended -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"), [("ok", "ok"), ("error", "error"), ("cancelled", "unset"), ("unclosed", "unset")]
)
def test_the_status(status: str, code: str) -> None:
    """Only what failed is an error; our own word for it is always there."""
    told = described(make_span(status=status, error="exit 1" if status == "error" else None))
    assert told.status == code
    assert told.attributes[c.OUR_STATUS] == status
    assert told.description == ("exit 1" if status == "error" else "")


def test_an_error_is_an_event_with_its_whole_text() -> None:
    """The status has the short text, the exception the long one, at the end of the span."""
    texts = (Text("error", "Traceback: and so on"),)
    tool = make_span(make_span(), kind="tool", status="error", error="exit 1", texts=texts)
    told = described(tool)
    (event,) = told.events
    assert (told.description, event.name, event.at) == ("exit 1", "exception", tool.end)
    assert event.attributes == {c.EXCEPTION_TYPE: "tool_error", c.EXCEPTION_MESSAGE: "Traceback: and so on"}


def test_an_error_without_its_text_is_still_an_error() -> None:
    """Without its text there is the status and the type, and nothing else."""
    told = described(make_span(status="error"))
    assert (told.status, told.description, told.events) == ("error", "", ())
    assert told.attributes[c.ERROR_TYPE] == "_OTHER"


# -- size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["x", "é", "🙂", '"', "\x01", "\ud800"])
def test_huge_texts_are_cut_and_say_so(letter: str) -> None:
    """No value has more than a megabyte, with characters of any size; messages stay valid JSON."""
    huge = letter * 3_000_000
    step = make_span(make_span(), texts=(Text("text", huge), Text("thinking", huge), Text("prompt", huge)))
    tool = make_span(make_span(), kind="tool", texts=(Text("arguments", huge), Text("result", huge)))
    for attributes in (described(step).attributes, described(tool).attributes):
        for key in CONTENT:
            value = str(attributes.get(key, ""))
            assert len(value.encode()) <= LIMIT
            assert not value or "more characters]" in value
    said = messages(step, c.OUTPUT_MESSAGES)[0]["parts"]
    assert said[0]["content"].startswith("\ufffd" if letter == "\ud800" else letter)
    assert said[-1]["content"] == "[1 more texts left out]"
    assert messages(step, c.INPUT_MESSAGES)


def test_very_many_texts_are_counted() -> None:
    """Texts that find no room are left out, and how many is said."""
    step = make_span(make_span(), texts=tuple(Text("text", f"line {n}") for n in range(50_000)))
    value = str(described(step).attributes[c.OUTPUT_MESSAGES])
    parts = json.loads(value)[0]["parts"]
    assert len(value) <= LIMIT
    assert parts[-1]["content"] == f"[{50_000 - len(parts) + 1} more texts left out]"


@given(any_text, st.integers(100, 400))
def test_texts_are_cut_by_bytes(text: str, limit: int) -> None:
    """A shortened text has no more bytes than it may, plain and as JSON, and begins like the whole."""
    long = text * 100
    assert len(shortened(long, limit).encode()) <= limit
    cut = shortened_in_json(long, limit)
    assert len(json.dumps(cut, ensure_ascii=False).encode()) <= max(limit, 100)
