"""Settings files that AgentTrace writes: tables as TOML, in files that only their owner can read."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read: all of it, or it stays what it was."""
    # A file of mkstemp can be read by its owner only.
    number, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def table_lines(kind: str, name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table ``[KIND.NAME]``."""
    yield f"\n[{kind}.{_key(name)}]\n"
    yield from (f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(key))} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else _text(str(value))


def _text(text: str) -> str:
    # The escapes of JSON are those of TOML, which wants one more.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
