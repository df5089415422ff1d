#!/bin/sh
# Asks the guard of AgentTrace. Without AgentTrace the agent goes on.
command -v agenttrace >/dev/null 2>&1 || exit 0
exec agenttrace guard --agent claude-code
