"""How agents want a hook to answer. Each has its own contract; all of them take exit code 0 without output as "go on".

Claude Code, Codex, Gemini CLI and Qwen Code read JSON from stdout. ``continue: false`` ends the turn: an agent whose
tool is only denied tries another one, at further cost. Codex does not know it before tools, and ignores a reply that
has it.
"""

from __future__ import annotations

import json

from agenttrace.rules.guard import Verdict

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What each agent calls the moment before a tool is run, and the one before a prompt is sent.
BEFORE_TOOL = ("PreToolUse", "BeforeTool", "preToolUse")
BEFORE_PROMPT = ("UserPromptSubmit", "BeforeAgent", "userPromptSubmitted")
#: What a command ends with that blocks what it was asked about, where an agent has no JSON of its own.
BLOCKED = 2


class Reply:
    """What a hook prints, and its exit code."""

    def __init__(self, stdout: str = "", stderr: str = "", code: int = 0) -> None:
        self.stdout, self.stderr, self.code = stdout, stderr, code


def reply_to(agent: str, event: str | None, verdict: Verdict) -> Reply:
    """The answer to an agent's hook."""
    if verdict.kind == "go":
        return Reply()
    if verdict.kind == "warn":
        silent = agent == "copilot-cli"  # it has no place to show it
        return Reply(stderr=verdict.text) if silent else Reply(json.dumps({"systemMessage": verdict.text}))
    make = _REFUSALS.get(agent)
    fields = None if make is None else make(event or BEFORE_TOOL[0], verdict.text)
    return Reply(stderr=verdict.text, code=BLOCKED) if fields is None else Reply(json.dumps(fields))


def _denied(event: str, text: str) -> dict[str, Any]:
    decision = {"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": text}
    return {"hookSpecificOutput": decision}


def _claude(event: str, text: str) -> dict[str, Any] | None:
    if event in BEFORE_TOOL:
        return {"continue": False, "stopReason": text, **_denied(event, text)}
    return {"decision": "block", "reason": text} if event in BEFORE_PROMPT else {"systemMessage": text}


def _codex(event: str, text: str) -> dict[str, Any] | None:
    if event in BEFORE_TOOL:
        return {"systemMessage": text, **_denied(event, text)}
    return {"decision": "block", "reason": text} if event in BEFORE_PROMPT else {"systemMessage": text}


def _gemini(event: str, text: str) -> dict[str, Any] | None:
    if event in BEFORE_TOOL:
        return {"decision": "deny", "reason": text, "continue": False, "stopReason": text}
    return {"decision": "deny", "reason": text} if event in BEFORE_PROMPT else {"systemMessage": text}


def _copilot(event: str, text: str) -> dict[str, Any] | None:
    return {"permissionDecision": "deny", "permissionDecisionReason": text}


def _opencode(event: str, text: str) -> dict[str, Any] | None:
    return {"decision": "deny", "reason": text}  # read by the plug-in


_REFUSALS: dict[str, Callable[[str, str], dict[str, Any] | None]] = {
    "claude-code": _claude,
    "codex": _codex,
    "copilot-cli": _copilot,
    "gemini-cli": _gemini,
    "opencode": _opencode,
    "qwen-code": _claude,
}
