"""Who answers a model call: the provider's name as the conventions spell it, from the model's name or the agent's.

A log rarely says where a request went; the name of a model nearly always tells whose it is. Where the conventions have
no value of their own (DashScope, Zhipu, …) a plain one stands in, which they allow.
"""

from __future__ import annotations

import re

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
#: ``anthropic.claude-sonnet-4-5-20250929-v1:0``, also with a region before it.
_ON_BEDROCK = re.compile(r"^([a-z]{2,6}\.)?(anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai)\.[a-z0-9]")
#: ``claude-sonnet-4-5@20250929``.
_ON_VERTEX = re.compile(r"^claude[^/]*@")

_AGENTS = {
    "claude-code": "anthropic",
    "codex": "openai",
    "kimi-cli": "moonshot_ai",
    "kimi-code": "moonshot_ai",
    "qwen-code": "dashscope",
    # The run half calls applications of DashScope.
    "agenttrace": "dashscope",
}


def provider_of(model: str | None, agent: str) -> str:
    """The provider's name: by the model where there is one that is known, else the one that the agent was made for."""
    return (_by_model(model) if model else None) or _AGENTS.get(agent, UNKNOWN)


def _by_model(model: str) -> str | None:
    name = model.strip().lower()
    if _ON_BEDROCK.match(name):
        return BEDROCK
    # Routers write "vendor/model", Google "models/gemini-…".
    name = name.rsplit("/", 1)[-1]
    if _ON_VERTEX.match(name):
        return VERTEX
    if _O_SERIES.match(name):
        return "openai"
    return next((provider for beginning, provider in _MODELS if name.startswith(beginning)), None)
