"""Parrot: one message a line, numbered; cached tokens are counted inside the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, Source, Traits
from agenttrace.record.formats.lenient import Count, FieldByField, raw_text
from agenttrace.record.ingest import acts as a


class ParrotCall(msgspec.Struct):
    """A tool call, or the answer to one."""

    id: str = ""
    tool: str = "tool"
    with_: msgspec.Raw = msgspec.field(name="with", default=msgspec.Raw())


class ParrotTokens(msgspec.Struct):
    """The tokens of one answer."""

    in_: Count = msgspec.field(name="in", default=0)
    cached: Count = 0
    out: Count = 0


class ParrotLine(msgspec.Struct):
    """One message."""

    t: float | None = None
    n: int | None = None
    who: str = "unknown"
    say: str = ""
    call: ParrotCall | None = None
    tokens: ParrotTokens | None = None


class Parrot(LogFormat[ParrotLine]):
    """Logs of Parrot."""

    name = "parrot"
    title = "Parrot"
    traits = Traits(variables=("PARROT_HOME",))
    decoder = LineDecoder(ParrotLine, {"call": FieldByField(ParrotCall), "tokens": FieldByField(ParrotTokens)})

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """One directory."""
        return [agent_directory(environ, home, "PARROT_HOME", default=".parrot")]

    def is_log(self, path: Path) -> bool:
        """``<session>.log``."""
        return path.suffix == ".log"

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By its first lines; the session is in the name."""
        lines = [line for raw in first_lines(head, 8) if (line := self.decoder(raw)) is not None]
        known = any(line.n is not None and line.who in ("user", "parrot", "tool") for line in lines)
        return self.source(path, path.stem) if known else None

    def event(self, line: ParrotLine, raw: bytes, source: Source) -> Event:
        """The number of a line is its key."""
        key = None if line.n is None else str(line.n)
        at = round(line.t * 1_000_000) if line.t is not None and 0 < line.t < 1e11 else None
        return Event(line.who, key, at, line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
        """A user's line begins a turn, a parrot's line is a step; one without a call ends the turn."""
        line: ParrotLine = event.body
        if event.type == "user":
            yield a.TurnBegin(line.say)
        elif event.type == "parrot":
            yield a.StepBegin(event.key)
            if line.tokens:
                usage = usage_of_prompt(line.tokens.in_, line.tokens.out, line.tokens.cached)
                yield a.ResponseUsage(f"parrot:{source.session_id}:{event.key}", usage)
            if line.call:
                yield a.ToolBegin(line.call.id, line.call.tool)
            yield a.StepEnd()
            if not line.call:
                yield a.TurnEnd()
        elif event.type == "tool" and line.call:
            yield a.ToolEnd(line.call.id)

    def content(self, event: Event, source: Source) -> list[Content]:
        """What was said, and with what a tool was called."""
        line: ParrotLine = event.body
        if event.type == "tool":
            texts = [Content("result", line.say, line.call.id if line.call else None)]
        else:
            texts = [Content("prompt" if event.type == "user" else "text", line.say)]
            texts += [Content("arguments", raw_text(line.call.with_), line.call.id)] if line.call else []
        return [text for text in texts if text.text]
