"""The agents that have hooks: where their settings are, and what is written there.

Claude Code, Codex, Gemini CLI and Qwen Code have hooks in a document of settings that is the user's. Copilot CLI and
OpenCode load every file of a directory, so a file there is all AgentTrace's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_SECONDS = 10


class Target(NamedTuple):
    """An agent that has hooks."""

    agent: str
    title: str
    #: What people may call it.
    aliases: tuple[str, ...]
    #: The environment variable that moves its directory, and where the settings are in it.
    variable: str
    directory: str
    file: str
    #: Before a tool, and before a prompt; none where the file is AgentTrace's own.
    events: tuple[str, ...] = ()
    #: Further fields of a hook; the units of time limits differ.
    fields: Mapping[str, Any] = {}
    #: Whether it has a status line.
    status_line: bool = False
    #: What the user has to do after installing.
    note: str = ""

    @property
    def owns_file(self) -> bool:
        """Whether the file is AgentTrace's own."""
        return not self.events

    def path(self, environ: Mapping[str, str], home: Path) -> Path:
        """The file."""
        named = environ.get(self.variable)
        base = Path(named).expanduser() if named else home / self.directory
        return base / self.file

    def groups(self, command: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What is written into the settings, by event."""
        hook = {"type": "command", "command": shell_line(command), **self.fields}
        return {event: {"hooks": [hook]} for event in self.events}

    def content(self, command: Sequence[str]) -> str:
        """The file that is AgentTrace's own."""
        if self.agent == "opencode":
            return _PLUGIN.replace("COMMAND_LINE", json.dumps(list(command)))
        line = shell_line(command)
        hook = {"type": "command", "bash": line, "powershell": f"& {line}", "timeoutSec": _SECONDS}
        return json.dumps({"version": 1, "hooks": {"preToolUse": [hook]}}, indent=2) + "\n"


TARGETS = (
    Target(
        "claude-code",
        "Claude Code",
        ("claude",),
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "settings.json",
        ("PreToolUse", "UserPromptSubmit"),
        {"timeout": _SECONDS},
        status_line=True,
    ),
    Target(
        "codex",
        "Codex",
        (),
        "CODEX_HOME",
        ".codex",
        "hooks.json",
        ("PreToolUse", "UserPromptSubmit"),
        {"timeout": _SECONDS},
        note="Codex asks once whether you trust the new hook: run /hooks in it.",
    ),
    Target(
        "gemini-cli",
        "Gemini CLI",
        ("gemini",),
        "GEMINI_CLI_HOME",
        "",
        ".gemini/settings.json",
        ("BeforeTool", "BeforeAgent"),
        {"name": "agenttrace-guard", "timeout": _SECONDS * 1000},
    ),
    Target(
        "qwen-code",
        "Qwen Code",
        ("qwen",),
        "QWEN_HOME",
        ".qwen",
        "settings.json",
        ("PreToolUse", "UserPromptSubmit"),
        {"name": "agenttrace-guard"},
    ),
    Target("copilot-cli", "GitHub Copilot CLI", ("copilot",), "COPILOT_HOME", ".copilot", "hooks/agenttrace.json"),
    Target("opencode", "OpenCode", (), "XDG_CONFIG_HOME", ".config", "opencode/plugins/agenttrace.js"),
)

_PLUGIN = """\
// Written by "agenttrace hooks install opencode". Remove it with "agenttrace hooks uninstall opencode".
import { spawnSync } from "node:child_process"

const command = COMMAND_LINE

// Whatever fails, the agent goes on.
function ask(said) {
  try {
    const options = { input: JSON.stringify(said), encoding: "utf8", timeout: 10000 }
    const done = spawnSync(command[0], command.slice(1), options)
    return done.stdout ? JSON.parse(done.stdout) : {}
  } catch {
    return {}
  }
}

export const AgentTraceGuard = async ({ client, directory }) => ({
  "tool.execute.before": async (input) => {
    const reply = ask({ hook_event_name: "PreToolUse", session_id: input.sessionID, cwd: directory })
    if (reply.decision === "deny") throw new Error(reply.reason)
    if (reply.systemMessage) {
      try {
        await client.tui.showToast({ body: { message: reply.systemMessage, variant: "warning" } })
      } catch {}
    }
  },
})
"""


def find_target(name: str) -> Target | None:
    """The agent that people call so."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    return next((each for each in TARGETS if wanted in (each.agent, *each.aliases)), None)


def own_program() -> list[str]:
    """How hooks start AgentTrace: by an absolute path, as agents may have another search path."""
    called = sys.argv[0]
    if os.path.basename(called).partition(".")[0] == "agenttrace" and os.path.isfile(called):
        return [os.path.abspath(called)]
    found = shutil.which("agenttrace")
    return [os.path.abspath(found)] if found else [sys.executable, "-m", "agenttrace.cli.main"]


def shell_line(command: Sequence[str]) -> str:
    """A command as a shell takes it."""
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)
