#!/bin/sh
# Says how to install AgentTrace, if it is not on PATH.
command -v agenttrace >/dev/null 2>&1 && exit 0
printf '%s\n' '{"systemMessage": "The AgentTrace plugin needs the program agenttrace. Install it: uv tool install agenttrace (or pipx install agenttrace)"}'
