"""The base class of a format, and what formats share: directories, first lines, reading a line, counting tokens.

A format derives from ``LogFormat`` and adds what is its own; ``docs/adding-a-format.md`` shows a whole one. Some things
are no format's business: ``ingest/fold.py`` pairs a ``ToolBegin`` with the ``ToolEnd`` of the same call, closes what
the log left open, and cuts prompts and errors to a preview; the store merges the usage of one response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Agent, Source, Unusable
from agenttrace.record.formats.lenient import DECODING_ERRORS, FieldByField, count, whole_objects

L = TypeVar("L", bound=msgspec.Struct)

#: How many entries a mapping in ``memory`` has unless a format says otherwise.
REMEMBERED = 64
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class LineDecoder(Generic[L]):
    """Reads a line into a struct: one strict pass, and field by field where that fails.

    ``nested`` has the readers of fields that are structs, times or lists themselves. ``openings`` says how lines begin
    and ``is_line`` what they are: with both, whole lines are cut out of a torn one.
    """

    def __init__(
        self,
        kind: type[L],
        nested: Mapping[str, Callable[[msgspec.Raw], Any]] | None = None,
        *,
        openings: str | None = None,
        is_line: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> None:
        #: The fast path; raises one of ``DECODING_ERRORS``.
        self.strict: Callable[[bytes], L] = msgspec.json.Decoder(kind).decode
        #: A field of another type than expected keeps its default; ``None`` if the line is no JSON object.
        self.lenient = FieldByField(kind, nested)
        self._openings = None if openings is None else re.compile(openings)
        self._is_line = is_line

    def __call__(self, raw: bytes) -> L | None:
        """The line, or ``None`` if it is no JSON object."""
        try:
            return self.strict(raw)
        except DECODING_ERRORS:
            return self.lenient(raw)

    def unusable(self, raw: bytes) -> Unusable:
        """Why a line that is no JSON object is refused."""
        if not raw.strip():
            return Unusable("blank line", harmless=True)
        salvaged = () if self._openings is None else whole_objects(raw, self._openings, self._is_line)
        return Unusable("not a JSON object", harmless=False, salvaged=salvaged)


class LogFormat(Agent, Generic[L]):
    """A format whose lines are JSON objects, each read into the same struct."""

    decoder: LineDecoder[L]

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """The event of a line; texts and results are not built, only found."""
        try:
            line = self.decoder.strict(raw)
        except DECODING_ERRORS:
            read = self.decoder.lenient(raw)
            if read is None:
                return self.decoder.unusable(raw)
            line = read
        return self.event(line, raw, source)

    def event(self, line: L, raw: bytes, source: Source) -> Event | Unusable:
        """The event of a line that was read."""
        raise NotImplementedError

    def source(self, path: Path, session_id: str, **facts: Any) -> Source:  # noqa: ANN401 - the fields of a source
        """What a recognised file is."""
        return Source(agent=self.name, session_id=session_id, directory=str(path.parent), **facts)


def agent_directory(environ: Mapping[str, str], home: Path, *variables: str, default: str) -> Path:
    """Where an agent keeps its files: in the directory that one of its variables names, else in ``default``."""
    named = next((environ[name] for name in variables if environ.get(name)), None)
    return home / default if named is None else expanded(named, home)


def expanded(path: str, home: Path) -> Path:
    """A path as a user writes it."""
    return home / path[2:] if path.startswith("~/") else Path(path)


def first_lines(head: bytes, most: int) -> list[bytes]:
    """The lines that a file begins with; the last one may be cut off."""
    return head.split(b"\n", most)[:most]


def first(values: Iterable[str | None]) -> str | None:
    """The first text that is one."""
    return next((value for value in values if value), None)


def remember(known: dict[str, Any], key: str, value: object, most: int = REMEMBERED) -> None:
    """Add an entry, which is the latest; the oldest is dropped, so that ``memory`` stays small."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def usage_of(counts: Mapping[str, Any], names: Mapping[str, str]) -> Usage:
    """Usage whose counts have no token twice; ``names`` has the agent's name of each of our fields."""
    return Usage(**{ours: count(counts.get(theirs)) for ours, theirs in names.items()})


def usage_of_prompt(prompt: int, output: int, cached: int, written: int = 0, reasoning: int = 0) -> Usage:
    """Usage whose prompt includes the cached tokens, those read and those written."""
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return Usage(
        input_tokens=prompt - cached - written,
        output_tokens=output,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=min(reasoning, output),
    )
