"""A home directory with the logs of every agent, each where its agent writes it, and the tokens that are in them."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
KINDS = ("input", "cache_read", "cache_write", "output")

#: The samples by the directory that they belong in.
_PLACES = {
    ".": (
        "cline-3.0.65/.cline",
        "continue-cli-1.5.47/.continue",
        "copilot-1.0.102/.copilot",
        "gemini-cli-0.61.0/.gemini",
        "opencode-1.18.33/.local",
        "pi-0.87.1/.pi",
    ),
    ".claude/projects": ("claude-code-2.1.197/projects/*", "claude-code-2.1.325/projects/*"),
    ".codex": ("codex-0.166.0/sessions",),
    ".kimi": ("kimi-cli-1.49.0/*",),
    ".kimi-code": ("kimi-code-2.1.0/*",),
    ".qwen": ("qwen-code-0.24.4/projects",),
    "shop": ("aider-0.86.2/project/.aider.chat.history.md",),
    ".agenttrace/logs": ("native/server.jsonl",),
}
#: Samples whose golden figures have the same form.
_BOOKS = {
    "claude-code": "claude-code-2.1.325",
    "cline": "cline-3.0.65",
    "continue": "continue-cli-1.5.47",
    "copilot-cli": "copilot-1.0.102",
    "gemini-cli": "gemini-cli-0.61.0",
    "opencode": "opencode-1.18.33",
    "pi": "pi-0.87.1",
    "qwen-code": "qwen-code-0.24.4",
}
#: How older golden figures call the kinds of tokens.
_NAMES = {
    "kimi-cli": ("root_usage", ("input_other", "input_cache_read", "input_cache_creation", "output")),
    "kimi-code": ("usage_record", ("inputOther", "inputCacheRead", "inputCacheCreation", "output")),
    "codex": ("usage_dedup", ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")),
    "claude-code": (
        "usage_dedup_by_message_id",
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"),
    ),
}
_SAMPLES = {
    "kimi-cli": "kimi/generated-kimi-cli-1.49.0",
    "kimi-code": "kimi/generated-kimi-code-2.1.0",
    "codex": "codex/generated-0.166.0",
    "claude-code": "claude/generated-2.1.197",
}
#: A copy of another Kimi CLI session, which has these responses.
_FORK = "675e04d1-f6cf-41be-8bd2-82353f98e5ea"


def fill_home(home: Path) -> None:
    """Put every sample in its place."""
    for place, samples in _PLACES.items():
        (home / place).mkdir(parents=True, exist_ok=True, mode=0o700)
        for pattern in samples:
            for sample in DATA.glob(pattern):
                if sample.is_dir():
                    shutil.copytree(sample, home / place / sample.name, dirs_exist_ok=True)
                else:
                    shutil.copy(sample, home / place)
    (home / ".agenttrace").chmod(0o700)
    write_kilo(home / ".local" / "share" / "kilo" / "kilo.db")


def golden_tokens() -> dict[str, Counter[str]]:
    """The tokens of all samples by agent."""
    found: dict[str, Counter[str]] = {name: _booked(sample) for name, sample in _BOOKS.items()}
    older = json.loads((DATA / "EXPECTED.json").read_text())
    for name, (field, kinds) in _NAMES.items():
        figures = [value[field] for key, value in older.items() if key.startswith(_SAMPLES[name]) and _FORK not in key]
        total = Counter(
            {ours: sum(each[theirs] for each in figures) for ours, theirs in zip(KINDS, kinds, strict=True)}
        )
        if name == "codex":
            total["input"] -= total["cache_read"]
        found[name] = found.get(name, Counter()) + total
    return found | {"kilo": KILO_TOKENS, "aider": _estimated()}


def _booked(sample: str) -> Counter[str]:
    books: dict[str, Any] = json.loads((DATA / sample / "EXPECTED.json").read_text())
    usages = [books["totals"]["usage_recorded"]]
    if sample in ("claude-code-2.1.325", "qwen-code-0.24.4"):
        # Their own totals and telemetry tell of calls that no message has.
        missing = books["answered_by_mock_but_not_in_the_log"]
        usages += [call["usage"] for call in missing if call["complete"]]
    return Counter({kind: sum(usage[kind] for usage in usages) for kind in KINDS})


def _estimated() -> Counter[str]:
    """What Aider says: ``Tokens: 2.4k sent, 8 received.``"""
    books = json.loads((DATA / "aider-0.86.2" / "EXPECTED.json").read_text())
    lines = [line.split("Cost:")[0] for session in books["sessions"] for line in session["token_lines"]]
    found: Counter[str] = Counter()
    for amount, thousand, kind in re.findall(r"([\d.]+)(k?) (sent|received)", " ".join(lines)):
        found[{"sent": "input", "received": "output"}[kind]] += round(float(amount) * (1000 if thousand else 1))
    return found


# -- Kilo: the tables of OpenCode and two more ---------------------------------------------------------------------

KILO_SESSION = "ses_kilo_main"
KILO_HELPER = "ses_kilo_helper"
KILO_TOKENS = Counter({"input": 1500, "cache_read": 700, "cache_write": 90, "output": 137})
_KILO_START = 1_794_800_000_000
_KILO_TABLES = """
CREATE TABLE kilo_board (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL);
CREATE TABLE kilo_board_message (id TEXT PRIMARY KEY, board_id TEXT NOT NULL, data TEXT NOT NULL);
"""


def write_kilo(path: Path) -> None:
    """A database as Kilo CLI 7.7.7 writes it: a session that started a subagent, empty parts removed again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript((DATA / "opencode-1.18.33" / "schema.sql").read_text() + _KILO_TABLES)
        connection.execute("PRAGMA foreign_keys = OFF")
        for session, parent in ((KILO_SESSION, None), (KILO_HELPER, KILO_SESSION)):
            _insert_session(connection, session, parent)
        for session, events in (
            (KILO_SESSION, _main_events()),
            (KILO_HELPER, opencode_turn(KILO_HELPER, "Count the lines.", 60, (500, 100, 0, 37), "Three.")),
        ):
            for number, (kind, data) in enumerate([_created(session), *events]):
                row = (f"evt_{session}_{number}", session, number, f"{kind}.1", json.dumps(data))
                connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)


def _insert_session(connection: sqlite3.Connection, session: str, parent: str | None) -> None:
    known = {"id": session, "parent_id": parent, "title": "Count lines", "directory": "/home/dev/kilo-work"}
    columns = {
        name: kind
        for _, name, kind, needed, default, _ in connection.execute("PRAGMA table_info(session)")
        if (needed and default is None) or name in known
    }
    values = [known.get(name, 0 if kind.lower() == "integer" else "") for name, kind in columns.items()]
    names = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f"INSERT INTO session ({names}) VALUES ({', '.join('?' * len(values))})", values)


def _created(session: str) -> tuple[str, dict[str, Any]]:
    info = {
        "id": session,
        "directory": "/home/dev/kilo-work",
        "title": "Count lines",
        "version": "7.7.7",
        "agent": "code",
    }
    return "session.created", {"sessionID": session, "info": info | {"time": {"created": _KILO_START}}}


def _main_events() -> list[tuple[str, dict[str, Any]]]:
    """A turn whose tool started the subagent."""
    state = {
        "status": "completed",
        "input": {"subagent_type": "general"},
        "output": "Three.",
        "metadata": {"sessionId": KILO_HELPER},
        "time": {"start": _KILO_START + 50, "end": _KILO_START + 900},
    }
    tool = {"id": "prt_tool", "type": "tool", "callID": "call_kilo_1", "tool": "task", "state": state}
    return opencode_turn(KILO_SESSION, "How many lines?", 10, (1000, 600, 90, 100), "Three lines.", tool)


def opencode_turn(
    session: str,
    prompt: str,
    at: int,
    tokens: tuple[int, int, int, int],
    answer: str,
    tool: dict[str, Any] | None = None,
) -> list[tuple[str, dict[str, Any]]]:
    """A prompt and its answer; an empty text part is written and removed, as Kilo does."""
    asked, answered, time = f"msg_{session}_1", f"msg_{session}_2", _KILO_START + at
    fields = dict(zip(("input", "read", "write", "output"), tokens, strict=True))
    counted = {
        "input": fields["input"],
        "output": fields["output"],
        "reasoning": 0,
        "cache": {"read": fields["read"], "write": fields["write"]},
    }
    info = {
        "id": answered,
        "role": "assistant",
        "parentID": asked,
        "modelID": "claude-sonnet-4-5",
        "time": {"created": time},
    }
    part = {"messageID": answered, "type": "text"}
    over = {"created": time, "completed": time + 9}
    ended = {"start": time + 1, "end": time + 2}
    return [
        ("message.updated", {"info": {"id": asked, "role": "user", "time": {"created": time}}}),
        ("message.part.updated", {"part": {"messageID": asked, "type": "text", "text": prompt}, "time": time}),
        ("message.updated", {"info": info}),
        ("message.part.updated", {"part": {"id": "p2", **part, "text": "", "time": {"start": time}}, "time": time}),
        ("message.part.removed", {"messageID": answered, "partID": "p2"}),
        *([("message.part.updated", {"part": {"messageID": answered, **tool}, "time": time + 5})] if tool else []),
        ("message.part.updated", {"part": {"id": "p3", **part, "text": answer, "time": ended}, "time": time + 2}),
        ("message.updated", {"info": info | {"tokens": counted, "finish": "stop"}}),
        ("message.updated", {"info": info | {"tokens": counted, "finish": "stop", "time": over}}),
    ]
