"""Logs with a secret of its own in every text, and a look for secrets in whatever leaves.

The secrets are of a kind that is recognised anywhere, so that what is found outside was never shown to the mask.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from agenttrace.record.formats import otlp_names
from agenttrace.record.formats.native import NativeLine

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


def _attribute_names() -> set[str]:
    """All attributes that are looked at, whatever for."""
    told = [name for names in vars(otlp_names).values() if isinstance(names, tuple) for name in names]
    return {name for name in told if isinstance(name, str) and "." in name} | {"own.note"}


def plant(root: Path) -> None:
    """Logs of all agents and of our own format."""
    plant_samples(root)
    for name, lines in (("own", native_lines()), ("cut", cut_lines()), ("received", received_lines())):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def text_fields() -> list[str]:
    """Every field of a line that can hold a text of anybody's."""
    fields = msgspec.structs.fields(NativeLine)
    texts = [each.name for each in fields if str in (each.type, *get_args(each.type)) or each.type is msgspec.Raw]
    return [name for name in texts if name not in _PLAIN_FIELDS]


def leaks(data: bytes | str) -> list[bytes]:
    """Secrets, and what is left of them, in what leaves."""
    return _TRACE.findall(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
