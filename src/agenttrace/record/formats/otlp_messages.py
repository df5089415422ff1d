"""The texts in a span: messages to and from a model, arguments and results, in every shape that senders use.

Messages come as one JSON text, as numbered attributes, or as events of the span; their contents as a text or as parts.
Whatever has none of these shapes is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from agenttrace.record.formats.contract import Content
from agenttrace.record.formats.lenient import DECODING_ERRORS
from agenttrace.record.formats.otlp_lines import Attributes, OtlpLine
from agenttrace.record.formats.otlp_names import error_of, exception_in, first

_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages", "pydantic_ai.all_messages", "request_data")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "response_data")
_NUMBERED_INPUTS = ("llm.input_messages.", "gen_ai.prompt.", "llm.prompts.")
_NUMBERED_OUTPUTS = ("llm.output_messages.", "gen_ai.completion.", "llm.completions.")
#: What went into any piece of work, and what came out of it.
_ANY_INPUTS = (
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
    "ai.prompt",
    "gen_ai.retrieval.query.text",
    "db.query.text",
    "db.statement",
)
_ANY_OUTPUTS = (
    "output.value",
    "langfuse.observation.output",
    "traceloop.entity.output",
    "ai.response.text",
    "ai.response.object",
    "final_result",
    "gen_ai.retrieval.documents",
)
_ARGUMENTS = ("gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments", *_ANY_INPUTS, "tool.parameters")
_RESULTS = ("gen_ai.tool.call.result", "ai.toolCall.result", "tool_response", *_ANY_OUTPUTS)
_DOCUMENTS = ("retrieval.documents.", "reranker.output_documents.")

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "HumanMessage": "user", "AIMessage": "assistant"}
_THOUGHTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
_CALLS = frozenset({"tool_call", "tool_use", "function_call", "tool-call"})
_RESULT_PARTS = frozenset({"tool_call_response", "tool_result", "tool-result", "function_call_output"})
#: Where a message or a part keeps its text, and a call its arguments.
_TEXTS = ("text", "content", "thinking", "reasoning")
_CALL_ARGUMENTS = ("arguments", "input", "args")
_DEEPEST = 8

_encode = msgspec.json.Encoder().encode


class MessagePart(NamedTuple):
    """A piece of a message: ``text``, ``thinking``, ``call`` or ``result``."""

    kind: str
    text: str


class SpanMessage(NamedTuple):
    """Something that one side said."""

    role: str
    parts: list[MessagePart]

    def text(self, kind: str = "text") -> str:
        """Its pieces of one kind."""
        return "\n\n".join(part.text for part in self.parts if part.kind == kind and part.text)


# -- the texts of a span --------------------------------------------------------------------------------------


def contents_of(line: OtlpLine, kind: str) -> list[Content]:
    """The texts of a span."""
    if kind in ("turn", "step"):
        found = _conversation(line, kind)
    else:
        found = _tool_call(line) if kind == "tool" else _work(line)
    return [content for content in (*found, *_failure(line)) if content.text]


def prompt_of(line: OtlpLine, kind: str) -> str | None:
    """The user's prompt. Of a model call, only where it is the last message."""
    messages = _inputs(line)
    asked = [message for message in (messages if kind == "turn" else messages[-1:]) if message.role == "user"]
    return asked[-1].text() or None if asked else None


def _conversation(line: OtlpLine, kind: str) -> Iterator[Content]:
    yield Content("prompt", prompt_of(line, kind) or "")
    for message in _outputs(line):
        yield Content("thinking", message.text("thinking"))
        yield Content("text", message.text())
        yield Content("note", message.text("call"))


def _tool_call(line: OtlpLine) -> Iterator[Content]:
    yield Content("arguments", _shown(first(line.attributes, _ARGUMENTS)))
    yield Content("result", _shown(first(line.attributes, _RESULTS)))


def _work(line: OtlpLine) -> Iterator[Content]:
    """Any other work: what went in, what came out."""
    yield Content("arguments", _shown(first(line.attributes, _ANY_INPUTS)))
    yield Content("result", _shown(first(line.attributes, _ANY_OUTPUTS)))
    for prefix in _DOCUMENTS:
        for document in _numbered(line.attributes, prefix):
            yield Content("result", _shown(document.get("document.content")))


def _failure(line: OtlpLine) -> Iterator[Content]:
    """What failed, with a stack trace where the sender has one."""
    raised = [event.attributes for event in line.events if event.name == "exception"]
    for attributes in raised:
        said = exception_in(attributes)
        yield Content("error", "\n".join(filter(None, (said, _shown(attributes.get("exception.stacktrace"))))))
    if not raised and line.status == "error":
        yield Content("error", error_of(line) or "")


# -- messages -------------------------------------------------------------------------------------------------


def _inputs(line: OtlpLine) -> list[SpanMessage]:
    return (
        _told(first(line.attributes, _INPUTS), "user")
        or _from_numbered(line.attributes, _NUMBERED_INPUTS, "user")
        or list(_from_events(line, said_to=True))
        or _told(first(line.attributes, _ANY_INPUTS), "user")
    )


def _outputs(line: OtlpLine) -> list[SpanMessage]:
    found = (
        _told(first(line.attributes, _OUTPUTS), "assistant")
        or _from_numbered(line.attributes, _NUMBERED_OUTPUTS, "assistant")
        or list(_from_events(line, said_to=False))
        or list(_from_ai_sdk(line.attributes))
        or _told(first(line.attributes, _ANY_OUTPUTS), "assistant")
    )
    # Some senders repeat the whole conversation.
    own = [message for message in found if message.role == "assistant"]
    return own[-1:] if len(found) > len(own) else own


def _told(value: object, role: str) -> list[SpanMessage]:
    """Messages in a value, which may be JSON in a text."""
    return list(_messages(_parsed(value), role, 0))


def _messages(value: object, role: str, depth: int) -> Iterator[SpanMessage]:
    if value is None or depth > _DEEPEST:
        return
    if isinstance(value, list):
        if value and all(_holds_messages(each) for each in value):
            for each in value:
                yield from _messages(each, role, depth + 1)
        else:
            yield SpanMessage(role, _parts(value, depth))
    elif isinstance(value, dict):
        yield from _in_object(value, role, depth)
    else:
        yield SpanMessage(role, [MessagePart("text", _shown(value))])


def _holds_messages(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and _is_message(value))


def _is_message(value: dict[str, Any]) -> bool:
    return "role" in value or "kwargs" in value or str(value.get("type")) in _ROLES or "message" in value


def _in_object(value: dict[str, Any], role: str, depth: int) -> Iterator[SpanMessage]:
    for name in ("messages", "message", "choices"):
        if isinstance(value.get(name), list | dict):
            yield from _messages(value[name], role, depth + 1)
            return
    if isinstance(value.get("kwargs"), dict):
        # As LangChain writes its objects.
        names = value.get("id")
        kind = names[-1] if isinstance(names, list) and names else ""
        yield from _in_object({"role": _ROLES.get(str(kind), role), **value["kwargs"]}, role, depth + 1)
    elif _is_message(value):
        said = value.get("role") or value.get("type")
        yield SpanMessage(_ROLES.get(str(said), str(said)), _message_parts(value, depth))
    else:
        texts = [each for each in value.values() if each]
        only = texts[0] if len(texts) == 1 and isinstance(texts[0], str) else _shown(value)
        yield SpanMessage(role, [MessagePart("text", only)])


def _message_parts(message: dict[str, Any], depth: int) -> list[MessagePart]:
    found: list[MessagePart] = []
    if isinstance(message.get("reasoning_content"), str):
        found.append(MessagePart("thinking", message["reasoning_content"]))
    for name in ("parts", "content"):
        if message.get(name):
            found += _parts(message[name], depth + 1)
            break
    calls = message.get("tool_calls")
    found += [_call(each) for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    return [MessagePart("result", part.text) for part in found] if message.get("role") == "tool" else found


def _parts(value: object, depth: int) -> list[MessagePart]:
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        return [part for each in value for part in _parts(each, depth + 1)]
    return [_part(value)] if isinstance(value, dict) else [MessagePart("text", _shown(value))]


def _part(value: dict[str, Any]) -> MessagePart:
    kind = str(value.get("type"))
    if kind in _CALLS:
        return _call(value)
    if kind in _RESULT_PARTS:
        return MessagePart("result", _shown(first(value, ("response", "result", "output", "content"))))
    said = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
    if said is None:
        return MessagePart("text", f"[{kind}]" if isinstance(kind, str) else _shown(value))
    return MessagePart("thinking" if kind in _THOUGHTS else "text", said)


def _call(value: dict[str, Any]) -> MessagePart:
    """A tool that the model asks for, in one line."""
    function = value.get("function")
    inner: dict[str, Any] = function if isinstance(function, dict) else value
    name = first(inner, ("name", "toolName")) or function
    return MessagePart("call", f"{_shown(name)}({_shown(first(inner, _CALL_ARGUMENTS))})")


def _from_numbered(attributes: Attributes, prefixes: Iterable[str], role: str) -> list[SpanMessage]:
    """Messages whose parts are separate attributes: ``llm.input_messages.0.message.role``."""
    for prefix in prefixes:
        found = [_flat_message(each, role) for each in _numbered(attributes, prefix)]
        if found:
            return found
    return []


def _flat_message(flat: Attributes, role: str) -> SpanMessage:
    said = first(flat, ("message.role", "role"))
    # Parts may themselves be JSON in a text, as OpenLLMetry has them.
    content = first(flat, ("message.content", "content"))
    parts = _parts(_parsed(content), 0) if content else []
    for each in _numbered(flat, "message.contents."):
        text = first(each, ("message_content.text", "message_content.type"))
        thought = str(each.get("message_content.type")) in _THOUGHTS
        parts.append(MessagePart("thinking" if thought else "text", _shown(text)))
    for each in (*_numbered(flat, "message.tool_calls."), *_numbered(flat, "tool_calls.")):
        name = first(each, ("tool_call.function.name", "name"))
        arguments = first(each, ("tool_call.function.arguments", "arguments"))
        parts.append(MessagePart("call", f"{_shown(name)}({_shown(arguments)})"))
    return SpanMessage(_ROLES.get(str(said), str(said or role)), parts)


def _numbered(attributes: Attributes, prefix: str) -> list[Attributes]:
    """``prefix`` + number + rest, as one object a number."""
    found: dict[int, Attributes] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            number, _, rest = name[len(prefix) :].partition(".")
            if number.isdecimal() and rest:
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def _from_events(line: OtlpLine, *, said_to: bool) -> Iterator[SpanMessage]:
    """Messages as events of the span, which the conventions had for a while."""
    for event in line.events:
        name, attributes = event.name, event.attributes
        if name in ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion"):
            yield from _told(first(attributes, _INPUTS if said_to else _OUTPUTS), "user" if said_to else "assistant")
        elif name == "gen_ai.choice" and not said_to:
            yield from _told(first(attributes, ("message", "gen_ai.event.content", "content")), "assistant")
        elif name.startswith("gen_ai.") and name.endswith(".message") and said_to:
            role = str(attributes.get("role") or name.split(".")[1])
            yield from _told(first(attributes, ("gen_ai.event.content", "content")), role)


def _from_ai_sdk(attributes: Attributes) -> Iterator[SpanMessage]:
    named = (("thinking", "ai.response.reasoning"), ("text", "ai.response.text"), ("text", "ai.response.object"))
    parts = [MessagePart(kind, _shown(attributes[name])) for kind, name in named if attributes.get(name)]
    calls = _parsed(attributes.get("ai.response.toolCalls"))
    parts += [_call(each) for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    if parts:
        yield SpanMessage("assistant", parts)


# -- values ---------------------------------------------------------------------------------------------------


def _parsed(value: object) -> object:
    """JSON in a text as a value; any other text as it is."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(value)
        except DECODING_ERRORS:
            return value
    return value


def _shown(value: object) -> str:
    """Any value as a text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return _encode(value).decode("utf-8", "replace")
