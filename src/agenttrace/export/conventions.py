"""Attribute names of OpenTelemetry's conventions for generative AI, version 1.41.1, and of AgentTrace.

The conventions are in development and move between packages. Exported names must not change with a dependency, so they
are defined here, and a test compares them with the official ones.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.41.1"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"

# Operations: the first word of a span's name.
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"

# Tokens: on spans of model calls and nowhere else.
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
#: The name of the same tokens in the conventions' next release; sent in addition to the other name.
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

# Texts.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

# Conventions of other areas.
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"
ERROR_TYPE: Final = "error.type"
#: The value of ``error.type`` for an unknown error.
ERROR_OTHER: Final = "_OTHER"
#: The value for a tool that ran and reported that it failed.
ERROR_TOOL: Final = "tool_error"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
DEPLOYMENT_ENVIRONMENT: Final = "deployment.environment.name"

#: Not in the conventions; backends read a cost in US dollars from it.
USAGE_COST: Final = "gen_ai.usage.cost"

# AgentTrace's own.
OUR_PREFIX: Final = "agenttrace."
OUR_AGENT: Final = "agenttrace.agent"
OUR_PROJECT: Final = "agenttrace.project"
OUR_BRANCH: Final = "agenttrace.branch"
OUR_TITLE: Final = "agenttrace.title"
OUR_STATUS: Final = "agenttrace.status"
OUR_TURN: Final = "agenttrace.turn"
OUR_STEP: Final = "agenttrace.step"
#: True for the spans of a subagent; ``agenttrace.subagent`` marks the tool call that starts one.
OUR_IN_SUBAGENT: Final = "agenttrace.in_subagent"
OUR_ESTIMATED: Final = "agenttrace.estimated"
OUR_COPIED: Final = "agenttrace.copied"
OUR_COST: Final = "agenttrace.cost"
OUR_CURRENCY: Final = "agenttrace.currency"
OUR_NOTE: Final = "agenttrace.note"
