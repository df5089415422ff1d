"""The provider of a model call, as the GenAI conventions spell it: ``gen_ai.provider.name`` wherever spans are shown.

A log rarely has the address of a request; the name of a model nearly always shows its maker. Where the conventions have
no value (DashScope, Zhipu, …) another one is used, which they allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from agenttrace.model import AgentFacts, Session

#: For formats that need a value where the provider is not known.
UNKNOWN = "unknown"
BEDROCK = "aws.bedrock"
VERTEX = "gcp.vertex_ai"

#: The beginning of a model's name and whose it is.
_MODELS = (
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt", "openai"),
    ("codex", "openai"),
    ("text-embedding-", "openai"),
    ("kimi", "moonshot_ai"),
    ("moonshot", "moonshot_ai"),
    ("deepseek", "deepseek"),
    ("gemini", "gcp.gen_ai"),
    ("gemma", "gcp.gen_ai"),
    ("mistral", "mistral_ai"),
    ("mixtral", "mistral_ai"),
    ("ministral", "mistral_ai"),
    ("magistral", "mistral_ai"),
    ("codestral", "mistral_ai"),
    ("devstral", "mistral_ai"),
    ("grok", "x_ai"),
    ("command", "cohere"),
    ("sonar", "perplexity"),
    ("qwen", "dashscope"),
    ("qwq", "dashscope"),
    ("qvq", "dashscope"),
    ("glm", "zhipu_ai"),
    ("minimax", "minimax"),
    ("abab", "minimax"),
    ("doubao", "volcengine"),
)
#: OpenAI's reasoning models: ``o1``, ``o3-mini``, …
_O_SERIES = re.compile(r"^o\d+(-|$)")
#: ``anthropic.claude-sonnet-4-5-20250929-v1:0``, also with a region before it, and ARNs.
_ON_BEDROCK = re.compile(
    r"^arn:aws[a-z-]*:bedrock:|^([a-z-]{2,8}\.)?(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|"
    r"moonshot|moonshotai|nvidia|openai|qwen|stability|writer|zai)\.[a-z0-9]"
)
#: ``claude-sonnet-4-5@20250929``.
_ON_VERTEX = re.compile(r"^claude[^/]*@")
#: What the ledger says where it does not know the model.
_NO_MODEL = (None, "", UNKNOWN)


class ModelSpan(Protocol):
    """The model names of a span."""

    @property
    def model(self) -> str | None:
        """The model that the log names."""
        ...

    @property
    def billed_model(self) -> str | None:
        """The model that the ledger names for the response."""
        ...


def model_of(span: ModelSpan) -> str | None:
    """The model that answered: the one that is billed, where the ledger knows it."""
    return (span.model if span.billed_model in _NO_MODEL else span.billed_model) or None


def provider_of_span(
    span: ModelSpan, attributes: Mapping[str, Any], session: Session, agent: AgentFacts | None
) -> str | None:
    """The provider of a span: from the log, else by its model or the session's, else the agent's own."""
    told = attributes.get("provider")
    if isinstance(told, str) and told:
        return told
    return provider_of(model_of(span) or session.model, agent)


def provider_of(model: str | None, agent: AgentFacts | None = None) -> str | None:
    """The provider of a model; if its name is unknown, the provider that the agent was made for."""
    return (_by_model(model) if model else None) or (agent.provider if agent is not None else None)


def _by_model(model: str) -> str | None:
    # Routers write "vendor/model", Google "models/gemini-…".
    name = model.strip().lower()
    last = name.rsplit("/", 1)[-1]
    if _ON_BEDROCK.match(name) or _ON_BEDROCK.match(last):
        return BEDROCK
    if _ON_VERTEX.match(last):
        return VERTEX
    if _O_SERIES.match(last):
        return "openai"
    return next((provider for beginning, provider in _MODELS if last.startswith(beginning)), None)
