"""Parrot: one numbered message per line; the input includes cached tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Content, Source, Unusable
from agenttrace.record.formats.lenient import DECODING_ERRORS, FieldByField
from agenttrace.record.ingest import acts as a


class Call(msgspec.Struct):
    """A tool call, or its result."""

    id: str = ""
    tool: str = "tool"
    with_: msgspec.Raw = msgspec.field(name="with", default=msgspec.Raw())


class Tokens(msgspec.Struct):
    """The tokens of one answer."""

    in_: int = msgspec.field(name="in", default=0)
    cached: int = 0
    out: int = 0


class Line(msgspec.Struct):
    """One message."""

    t: float | None = None
    n: int | None = None
    who: str | None = None
    say: str = ""
    call: Call | None = None
    tokens: Tokens | None = None


_decode = msgspec.json.Decoder(Line).decode
#: For lines with a field of the wrong type: skips that field.
_decode_leniently = FieldByField(Line)


class Parrot:
    """Logs of Parrot."""

    name = "parrot"
    title = "Parrot"

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """One directory."""
        return [home / ".parrot"]

    def is_log(self, path: Path) -> bool:
        """``<session>.log``."""
        return path.suffix == ".log"

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By its first line; the session is the file name."""
        line = _decode_leniently(head.partition(b"\n")[0])
        if line is None or line.n is None or line.who is None:
            return None
        return Source(agent=self.name, session_id=path.stem, directory=str(path.parent))

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """The number of a line is its key."""
        try:
            line = _decode(raw)
        except DECODING_ERRORS:
            found = _decode_leniently(raw)
            if found is None:
                return Unusable("not a JSON object", harmless=False)
            line = found
        key = None if line.n is None else str(line.n)
        at = None if line.t is None else round(line.t * 1_000_000)
        return Event(line.who or "unknown", key, at, line)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[a.Act]:
        """A user's line begins a turn, a parrot's line is a step; one without a call ends the turn."""
        line: Line = event.body
        if event.type == "user":
            yield a.TurnBegin(line.say[:500])
        elif event.type == "parrot":
            yield a.StepBegin(event.key)
            if line.tokens:
                yield a.ResponseUsage(f"parrot:{source.session_id}:{event.key}", usage(line.tokens))
            if line.call:
                yield a.ToolBegin(line.call.id, line.call.tool)
            yield a.StepEnd()
            if not line.call:
                yield a.TurnEnd()
        elif event.type == "tool" and line.call:
            yield a.ToolEnd(line.call.id)

    def content(self, event: Event, source: Source) -> list[Content]:
        """The messages, arguments and results."""
        line: Line = event.body
        call = line.call.id if line.call else None
        texts = [Content("arguments", bytes(line.call.with_).decode(), call)] if line.call else []
        if event.type == "tool":
            texts.append(Content("result", line.say, call))
        else:
            texts.append(Content("prompt" if event.type == "user" else "text", line.say))
        return [text for text in texts if text.text]


def usage(tokens: Tokens) -> Usage:
    """Subtract cached tokens from the input."""
    return Usage(
        input_tokens=tokens.in_ - tokens.cached,
        cache_read_tokens=tokens.cached,
        output_tokens=tokens.out,
    )
