"""Logs with a secret of its own in every text, and a look for secrets in whatever leaves.

The secrets are of a kind that is recognised anywhere, so that what is found outside was never shown to the mask.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import string
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import msgspec

from agenttrace.record.formats import otlp_names
from agenttrace.record.formats.native import NativeLine
from format_samples import LOGS, Log
from telemetry_rig import claude, conversation, lines

DATA = Path(__file__).resolve().parent / "data"
#: Logs of each agent that are small and have a bit of everything.
SAMPLES = (
    "claude-code-2.1.197/projects",
    "codex-0.166.0/sessions",
    "kimi-cli-1.49.0",
    "kimi-code-2.1.0",
    "qwen-code",
    "native",
)
#: By these a format is recognised, its lines are told apart, and times are read.
_STRUCTURE = frozenset({"type", "subtype", "role", "timestamp", "ts", "time", "created_at", "v", "event.name", "kind"})
#: The same in agents whose logs are written from ``format_samples``.
_MORE_STRUCTURE = _STRUCTURE | {
    *("status", "sessionUpdate", "say", "ask", "displayRole", "infoType", "stopReason", "finish", "stop_reason"),
    *("table", "event", "startTime", "apiProtocol", "provenance", "$set", "lastUpdated"),
}
#: The longest ones of each agent, which have a bit of everything.
_MOST_LOGS = 4
_ALPHABET = string.ascii_letters + string.digits
_TRACE = re.compile(rb"ghp_\w*")


def secret(name: str) -> str:
    """A token of GitHub's that is always the same for a name, and stands for no account."""
    digest = hashlib.sha512(name.encode("utf-8", "surrogatepass")).digest()
    return "ghp_" + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:36])


def with_secret(text: str) -> str:
    """A text with its secret behind it; the same text has the same one, so that what is linked stays linked."""
    return f"{text} {secret(text)}"


def planted(value: Any, key: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """The same value with a secret in every text of it that is not structure."""
    if isinstance(value, dict):
        return {name: planted(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [planted(each, key) for each in value]
    return with_secret(value) if isinstance(value, str) and value and key not in _STRUCTURE else value


def plant_samples(root: Path) -> None:
    """The logs of all agents, with secrets in them."""
    for path in sorted(each for sample in SAMPLES for each in (DATA / sample).rglob("*") if each.is_file()):
        target = root / path.relative_to(DATA)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_planted_file(path) if path.suffix in (".json", ".jsonl") else path.read_bytes())


def _planted_file(path: Path) -> bytes:
    if path.suffix == ".json":
        return json.dumps(planted(json.loads(path.read_bytes()))).encode()
    return b"".join(_planted_line(raw) + b"\n" for raw in path.read_bytes().splitlines())


def _planted_line(raw: bytes) -> bytes:
    try:
        return json.dumps(planted(json.loads(raw))).encode()
    except ValueError:
        return raw


# -- lines, documents and databases of the other agents ----------------------------------------------------------------


def plant_agents(root: Path) -> None:
    """Logs of every agent in ``format_samples``, each in the layout of a home directory."""
    for agent, logs in LOGS.items():
        taken: dict[str, Log] = {}
        for log in sorted(logs, key=lambda log: -len(log.records)):
            taken.setdefault(log.path, log)
        for log in list(taken.values())[:_MOST_LOGS]:
            home = root / agent
            path = log.put(home, [_planted_record(record) for record in log.records])
            for name, _ in log.beside:
                _plant_beside(home / name)
            if path.suffix == ".db" and agent != "goose":
                _plant_parents(path)


def _planted_record(record: bytes) -> bytes:
    try:
        value = json.loads(record)
    except ValueError:  # Markdown
        text = record.decode()
        return record if not text.strip() or text.startswith(("# ", "```")) else with_secret(text.strip()).encode()
    return json.dumps(_planted_value(value)).encode()


def _planted_value(value: Any) -> Any:  # noqa: ANN401 - JSON
    """With a secret in every text, also in those of JSON inside of texts, which stays JSON."""
    if isinstance(value, dict):
        return {
            name: each if name in _MORE_STRUCTURE and isinstance(each, str) else _planted_value(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_planted_value(each) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if value[0] in "[{":
        try:
            return json.dumps(_planted_value(json.loads(value)))
        except ValueError:
            pass
    return with_secret(value)


def _plant_beside(path: Path) -> None:
    """A small file beside a log: JSON, or lines with a value each."""
    if path.suffix == ".json":
        path.write_text(json.dumps(_planted_value(json.loads(path.read_bytes()))))
    else:
        path.write_text("".join(with_secret(line) + "\n" for line in path.read_text().splitlines()))


def _plant_parents(path: Path) -> None:
    """The sessions of subagents, by their planted names."""
    with closing(sqlite3.connect(path)) as connection, connection:
        pairs = connection.execute("SELECT id, parent_id FROM session").fetchall()
        named = [(with_secret(name), parent and with_secret(parent)) for name, parent in pairs]
        connection.executemany("INSERT INTO session VALUES (?, ?)", named)


# -- our own format, exhaustively -----------------------------------------------------------------------------------

TYPES = (
    "session.begin",
    "turn.begin",
    "step.begin",
    "message",
    "tool.begin",
    "tool.end",
    "step.end",
    "usage",
    "note",
    "error",
    "turn.end",
)
#: Fields that decide what a line is and where it belongs; ids are planted by ``_NAMES``.
_PLAIN_FIELDS = frozenset({"v", "type", "ts", "session", "turn", "step", "id", "role", "stream", "status"})


def native_lines(session: str = "planted") -> Iterator[dict[str, Any]]:
    """Lines of all types, each with every text that a line can have; states that exist and one that does not."""
    for turn, status in enumerate(("ok", "error", "cancelled", with_secret("odd")), 1):
        for number, kind in enumerate(TYPES):
            line = {
                "v": 1,
                "session": with_secret(session),
                "type": kind,
                "ts": 1_794_733_000.0 + turn * 100 + number,
                "turn": turn,
                "step": with_secret(f"step {turn}"),
                "id": with_secret(f"{'call' if kind.startswith('tool') else kind} {turn}"),
                "role": "assistant",
                "status": status,
                "usage": {"input_tokens": 5, "output_tokens": 7},
            }
            yield line | {name: with_secret(f"{kind} {name} {turn}") for name in text_fields()}


def cut_lines(session: str = "cut") -> Iterator[dict[str, Any]]:
    """Prompts, titles and errors whose secret stands where recording cuts them off."""
    for turn, length in enumerate((200, 300, 400, 500), 1):
        text = with_secret("word " * (length // 5 - 2) + "xx")
        place = {"v": 1, "session": f"{session} {turn}", "turn": turn, "ts": 1_794_733_000.0 + turn}
        yield place | {"type": "session.begin", "id": "b", "title": text}
        yield place | {"type": "turn.begin", "id": "t", "prompt": text}
        yield place | {"type": "step.begin", "id": "s", "model": "kimi-k2.5"}
        yield place | {"type": "tool.begin", "id": "c", "name": "Bash"}
        yield place | {"type": "tool.end", "id": "c", "status": "error", "error": text}
        yield place | {"type": "step.end", "id": "s", "status": "error", "error": text}
        yield place | {"type": "turn.end", "id": "e", "status": "error", "error": text}


def received_lines() -> Iterator[dict[str, Any]]:
    """Spans that other programs sent, with a secret in every attribute that means something, and in another."""
    kinds = ("invoke_agent", "chat", "execute_tool", "unheard_of")
    for number, operation in enumerate(kinds, 1):
        attributes = {name: with_secret(f"{operation} {name}") for name in sorted(_attribute_names())}
        attributes["session.id"] = with_secret("received")
        yield {
            "otlp": 1,
            "trace": f"{7:032x}",
            "span": f"{number:016x}",
            **({"parent": f"{1:016x}"} if number > 1 else {}),
            "name": with_secret(operation),
            "start": (1_794_732_814 + number) * 10**9,
            "end": (1_794_732_815 + number) * 10**9,
            "status": "error",
            "message": with_secret(f"{operation} failed"),
            "attributes": attributes | {"gen_ai.operation.name": operation},
            "events": [
                {"name": "exception", "time": 0, "attributes": {"exception.message": with_secret(f"{operation} broke")}}
            ],
            "resource": {"service.name": with_secret("program"), "service.version": with_secret("1.0")},
        }


def telemetry_lines() -> Iterator[dict[str, Any]]:
    """Events of Claude Code's telemetry with a secret in every attribute that is a text."""
    failed = claude("api_error", 40, "telemetry", prompt__id="p1", model="claude-x", error="refused", attempt=1)
    for raw in lines(*conversation("telemetry"), failed):
        line = json.loads(raw)
        attributes = _planted_value(line["attributes"]) | {"event.name": line["attributes"]["event.name"]}
        resource = _planted_value(line["resource"]) | {"service.name": line["resource"]["service.name"]}
        yield line | {"attributes": attributes, "resource": resource}


def _attribute_names() -> set[str]:
    """All attributes that are looked at, whatever for."""
    told = [name for names in vars(otlp_names).values() if isinstance(names, tuple) for name in names]
    return {name for name in told if isinstance(name, str) and "." in name} | {"own.note"}


def plant(root: Path) -> None:
    """Logs of all agents and of our own format."""
    plant_samples(root)
    plant_agents(root)
    own = {"own": native_lines(), "cut": cut_lines(), "received": received_lines(), "telemetry": telemetry_lines()}
    for name, values in own.items():
        (root / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in values))


def text_fields() -> list[str]:
    """Every field of a line that can hold a text of anybody's."""
    fields = msgspec.structs.fields(NativeLine)
    texts = [each.name for each in fields if str in (each.type, *get_args(each.type)) or each.type is msgspec.Raw]
    return [name for name in texts if name not in _PLAIN_FIELDS]


def leaks(data: bytes | str) -> list[bytes]:
    """Secrets, and what is left of them, in what leaves."""
    return _TRACE.findall(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
