"""What a span is by the names of its attributes: GenAI conventions old and new, OpenInference, OpenLLMetry, Langfuse,
the AI SDK of Vercel.

Each fact has a list of names, the best one first. A new name of another instrumentation needs a new entry in a
table, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agenttrace.model import Usage
from agenttrace.record.formats.lenient import count, value_of
from agenttrace.record.formats.otlp_lines import NAMELESS, Attributes, OtlpLine

#: Where spans say what they are, and which of our kinds that is. Other words are other work: ``span``.
_KINDS: tuple[tuple[str, Mapping[str, str]], ...] = (
    (
        "gen_ai.operation.name",
        {
            "chat": "step",
            "text_completion": "step",
            "generate_content": "step",
            "embeddings": "step",
            "execute_tool": "tool",
            "invoke_agent": "turn",
            "invoke_workflow": "turn",
        },
    ),
    (
        "openinference.span.kind",
        {"LLM": "step", "EMBEDDING": "step", "TOOL": "tool", "AGENT": "turn"},
    ),
    (
        "langfuse.observation.type",
        {"generation": "step", "embedding": "step", "tool": "tool", "agent": "turn"},
    ),
    ("traceloop.span.kind", {"tool": "tool", "agent": "turn", "workflow": "turn"}),
    ("llm.request.type", {"chat": "step", "completion": "step", "embedding": "step"}),
)
#: The AI SDK: the outer span of a call is an agent at work, with a span for each request to the model inside.
_AI_OPERATION = "ai.operationId"
_AI_REQUESTS = (".doGenerate", ".doStream", ".doEmbed")
_AI_AGENTS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_AI_TOOL = "ai.toolCall"

#: A span without a kind that has one of these is a model call, or a tool.
_ONLY_MODELS = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "langfuse.observation.model.name")
_ONLY_TOOLS = ("gen_ai.tool.name", "gen_ai.tool.call.id")

_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "llm.request.model_name",
    "embedding.model_name",
    "langfuse.observation.model.name",
    "ai.response.model",
    "ai.model.id",
    "llm.request.model",
)
PROVIDERS = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider", "llm.vendor")
_AGENTS = (
    "gen_ai.agent.name",
    "agent.name",
    "traceloop.entity.name",
    "gen_ai.workflow.name",
    "ai.telemetry.functionId",
)
_TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_CALLS = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
_RESPONSES = ("gen_ai.response.id", "ai.response.id", "llm.response.id", "gen_ai.openai.response.id")
_FINISHES = (
    "gen_ai.response.finish_reasons",
    "llm.finish_reason",
    "ai.response.finishReason",
    "llm.response.finish_reason",
)
TITLES = ("langfuse.trace.name", "gen_ai.conversation.name", "ai.telemetry.functionId", "traceloop.workflow.name")
_ERRORS = ("langfuse.observation.status_message", "error.message", "exception.message", "error.type")

_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
)
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.prompt_details.cache_input",
    "llm.usage.cache_read_input_tokens",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
    "llm.usage.cache_creation_input_tokens",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "ai.usage.reasoningTokens",
)
_USAGE = (_INPUT, _OUTPUT, _CACHE_READ, _CACHE_WRITE, _REASONING)
#: Langfuse has one object of counts, in the words of whichever API they came from.
_LANGFUSE = "langfuse.observation.usage_details"
_LANGFUSE_USAGE = (
    ("input", "input_tokens", "prompt_tokens", "promptTokens"),
    ("output", "output_tokens", "completion_tokens", "completionTokens"),
    ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read", "cached_tokens"),
    ("cache_creation_input_tokens", "input_cache_creation", "input_cache_write"),
    ("output_reasoning_tokens", "reasoning_tokens", "output_reasoning"),
)

#: Shorter names of responses are not the only ones of their kind: some servers draw them from a thousand.
_UNIQUE_RESPONSE = 20


def first(attributes: Attributes, names: Iterable[str]) -> Any:  # noqa: ANN401 - attributes are anything
    """The first of these attributes that says something."""
    for name in names:
        found = attributes.get(name)
        if found is not None and found != "":
            return found
    return None


def first_text(attributes: Attributes, names: Iterable[str]) -> str | None:
    """The first of these attributes that is a text."""
    for name in names:
        found = attributes.get(name)
        if found and isinstance(found, str):
            return found
    return None


def kind_of(line: OtlpLine) -> str:
    """``turn``, ``step``, ``tool`` or ``span``."""
    attributes = line.attributes
    found = _said_kind(attributes)
    if found is None:
        if any(name in attributes for name in _ONLY_TOOLS):
            found = "tool"
        elif any(name in attributes for name in _ONLY_MODELS):
            found = "step"
    return "turn" if found in (None, "span") and not line.parent else found or "span"


def _said_kind(attributes: Attributes) -> str | None:
    """The kind that a span names; ``None`` where it names none."""
    said = False
    for name, kinds in _KINDS:
        word = attributes.get(name)
        if isinstance(word, str):
            said = True
            if word in kinds:
                return kinds[word]
    operation = attributes.get(_AI_OPERATION)
    if isinstance(operation, str):
        return _ai_kind(operation)
    return "span" if said else None


def _ai_kind(operation: str) -> str:
    if operation.endswith(_AI_REQUESTS):
        return "step"
    if operation in _AI_AGENTS:
        return "turn"
    return "tool" if operation == _AI_TOOL else "span"


def model_of(attributes: Attributes) -> str | None:
    """The model that answered, or else the one that was asked."""
    return first_text(attributes, _MODELS)


def agent_of(line: OtlpLine) -> str | None:
    """The agent at work; without one the program is it."""
    return first_text(line.attributes, _AGENTS) or line.resource.program


def call_of(attributes: Attributes) -> str | None:
    """The model's own id of a tool call."""
    found = first(attributes, _CALLS)
    return None if found is None else str(found)


def finish_of(attributes: Attributes) -> str | None:
    """Why the model stopped."""
    found = first(attributes, _FINISHES)
    if isinstance(found, list):
        found = next((each for each in found if each), None)
    return found if isinstance(found, str) else None


def name_of(line: OtlpLine, kind: str) -> str:
    """What a span is called: as the recorded agents call theirs, where that is known."""
    attributes = line.attributes
    if kind == "step":
        model = model_of(attributes)
        return f"chat {model}" if model else line.name or "chat"
    if kind == "tool":
        return f"execute_tool {first_text(attributes, _TOOLS) or tool_in(line.name)}"
    return line.name or NAMELESS


def tool_in(name: str) -> str:
    """The tool in the name of a span."""
    return name.removeprefix("execute_tool ") or NAMELESS


def error_of(line: OtlpLine) -> str | None:
    """What failed, in short."""
    for event in line.events:
        if event.name == "exception":
            said = exception_in(event.attributes)
            if said:
                return said
    return line.message or first_text(line.attributes, _ERRORS)


def exception_in(attributes: Attributes) -> str:
    """An exception in one line."""
    parts = (attributes.get("exception.type"), attributes.get("exception.message"))
    return ": ".join(str(part) for part in parts if part)


def status_of(line: OtlpLine) -> str:
    """``ok`` or ``error``: unset is fine, by OpenTelemetry's own rule."""
    failed = line.status == "error" or line.attributes.get("langfuse.observation.level") == "ERROR"
    return "error" if failed else "ok"


# -- tokens -------------------------------------------------------------------------------------------------------


def usage_of(attributes: Attributes) -> Usage | None:
    """The usage in a span; each token in one field only."""
    details = attributes.get(_LANGFUSE)
    if details is None:
        return _usage(attributes, _USAGE, inclusive=True)
    if isinstance(details, str):
        details = value_of(msgspec.Raw(details.encode("utf-8", "replace")))
    if not isinstance(details, dict):
        return None
    # In OpenAI's words the cached tokens are part of the prompt.
    inclusive = "prompt_tokens" in details or "promptTokens" in details
    parts = details.get("prompt_tokens_details")
    return _usage(parts | details if isinstance(parts, dict) else details, _LANGFUSE_USAGE, inclusive=inclusive)


def _usage(counts: Attributes, names: Iterable[Iterable[str]], *, inclusive: bool) -> Usage | None:
    """The conventions count cached tokens into the input; where there are more of them, the sender does not."""
    told, written, read, cached, reasoning = (_count(counts, each) for each in names)
    if told is None and written is None:
        return None
    told, written, read, cached = told or 0, written or 0, read or 0, cached or 0
    inclusive = inclusive and read + cached <= told
    return Usage(
        input_tokens=told - read - cached if inclusive else told,
        output_tokens=written,
        cache_read_tokens=read,
        cache_write_tokens=cached,
        reasoning_tokens=min(reasoning or 0, written),
    )


def _count(attributes: Attributes, names: Iterable[str]) -> int | None:
    """The first of these that is a number; JavaScript has no whole ones."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, int) and not isinstance(found, bool):
            return count(found)
    return None


def response_of(line: OtlpLine) -> str:
    """Names the model response: the provider's id, which two instrumentations of one call share; else the span."""
    found = first_text(line.attributes, _RESPONSES)
    if found is None:
        return f"otlp:{line.trace}:{line.span}"
    return f"otlp:{found}" if len(found) >= _UNIQUE_RESPONSE else f"otlp:{line.trace}:{found}"
