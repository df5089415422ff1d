"""Reads lines that deviate from their format: mended, field by field, or cut out of a torn line.

The fast path of an agent module is one strict msgspec decoder. What is here runs only after that has failed,
and keeps the promise that one odd field costs that field, not the line. Values of any shape and the small files
beside a log are read here too.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

#: What decoding can raise for bad input: bad JSON or types, bad UTF-8, nesting beyond every limit.
DECODING_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: Attempts at reading an object inside one torn line; real ones need two or three.
_MAX_ATTEMPTS = 64
#: Above this a number of epoch time is milliseconds, below it seconds.
_MILLISECONDS_FROM = 1e11
#: No response has more tokens. What is beyond is not a count, and sums over all responses must fit into SQLite.
MOST_TOKENS = 2**32
#: The largest integer that every program, browsers too, represents exactly.
LARGEST_NUMBER = 2**53
#: Times from here on (the year 9999) are refused: they have no day in every time zone.
_END_OF_TIME = 253_370_764_800_000_000
#: The most that is read of a companion file.
_COMPANION_SIZE = 4 << 20

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: A number of tokens, or of anything else that is counted; a decoder refuses what cannot be one.
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
#: The number of a turn or a step.
Number = Annotated[int, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()
_scanner = json.JSONDecoder(strict=False)
_mender = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
#: How a JSON value can begin.
_BEGINNINGS = frozenset(b'{["-0123456789tfnNI')


def microseconds(moment: datetime) -> int:
    """Integer microseconds since the epoch of a moment with a time zone."""
    return (moment - _EPOCH) // _MICROSECOND


def time_at(micros: int) -> int | None:
    """Microseconds since the epoch; ``None`` for what cannot be the time of a line."""
    return micros if 0 <= micros < _END_OF_TIME else None


def time_of(moment: datetime | None) -> int | None:
    """The same of a moment with a time zone."""
    return None if moment is None else time_at((moment - _EPOCH) // _MICROSECOND)


def iso_time(text: str) -> datetime | None:
    """A time in ISO 8601, in UTC if it names no zone; ``None`` for what is none."""
    with suppress(ValueError, OverflowError):
        parsed = datetime.fromisoformat(text.strip())
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    return None


def moment(raw: msgspec.Raw) -> datetime | None:
    """A time written in any of the usual ways: ISO 8601 with or without a zone, or a number of epoch time."""
    return as_moment(value_of(raw))


def as_moment(value: object) -> datetime | None:
    """The same of a value that was read."""
    if isinstance(value, str):
        return iso_time(value)
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
    return None


def count(value: object) -> int:
    """A number of tokens; 0 for what cannot be one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
        return value
    return 0


def token_sum(value: object) -> int:
    """A number of tokens of many responses, which may be more than one can have; 0 for what cannot be one."""
    return max(number(value) or 0, 0)


def number(value: object) -> int | None:
    """The number of a step; ``None`` for what cannot be one."""
    return value if type(value) is int and abs(value) <= LARGEST_NUMBER else None


def as_text(value: object) -> str | None:
    """The value if it is a text with something in it."""
    return value if isinstance(value, str) and value else None


def lookup(value: object, *keys: str) -> object:
    """What a path of keys leads to in nested objects; ``None`` where it leads nowhere."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_at(value: object, *keys: str) -> str | None:
    """The text that a path of keys leads to; ``as_text(lookup(…))``, which formats ask for ten times a line."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value if isinstance(value, str) and value else None


def duration(milliseconds: object) -> int | None:
    """Microseconds of a length of time in milliseconds; ``None`` for what cannot be one."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    return round(milliseconds * 1000) if 0 <= milliseconds < 1e12 else None


def epoch(milliseconds: object) -> int | None:
    """Microseconds of a time in milliseconds since the epoch; ``None`` for what cannot be one."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    return round(milliseconds * 1000) if 0 <= milliseconds < _END_OF_TIME // 1000 else None


def json_text(value: object) -> str:
    """A value as JSON for people; empty where there is none, or where it cannot be written."""
    if value is None:
        return ""
    with suppress(OverflowError, RecursionError):
        return msgspec.json.encode(value).decode()
    with suppress(ValueError, RecursionError):  # integers that no machine has
        return json.dumps(value, ensure_ascii=False)
    return ""


def one_line(raw: msgspec.Raw | bytes) -> bytes:
    """A JSON value without the newlines and spaces between its parts."""
    with suppress(*DECODING_ERRORS):
        return msgspec.json.format(bytes(raw), indent=-1)
    return bytes(raw).replace(b"\n", b" ")


def raw_text(raw: msgspec.Raw) -> str:
    """A part that was left undecoded, as it is written."""
    return bytes(raw).decode("utf-8", "replace")


def mended(raw: bytes) -> bytes | None:
    """The same JSON with what strict decoders refuse replaced; ``None`` if it is no JSON at all.

    Agents cut texts in the middle of an emoji and write half a surrogate pair (``\\ud83d``), which makes a
    strict decoder refuse the whole line. Bytes that are no UTF-8 and raw control characters are met too.
    """
    if (text := raw.lstrip()) and text[0] not in _BEGINNINGS:
        return None
    try:
        value = _mender.decode(raw.decode("utf-8", "replace"))
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def value_of(raw: msgspec.Raw) -> object:
    """The Python value of a raw part; ``None`` if it is absent or unreadable."""
    if not raw:
        return None
    with suppress(*DECODING_ERRORS):
        return _mending(_anything.decode, raw)
    return None


def document_as(kind: type[S], document: bytes) -> S | None:
    """A document as a struct; ``None`` where it has another shape, or is not whole."""
    with suppress(*DECODING_ERRORS):
        return _mending(msgspec.json.Decoder(kind).decode, document)
    return None


def read_as(kind: type[S], raw: bytes | msgspec.Raw) -> S:
    """The object as a struct; one of defaults where the text has another shape."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except DECODING_ERRORS:
        return kind()


def read_object(path: Path) -> dict[str, Any]:
    """The object in a companion file; empty where it cannot be read."""
    return json_object(read_companion(path))


def json_object(raw: bytes) -> dict[str, Any]:
    """The object of a line; empty where it cannot be read."""
    value = value_of(msgspec.Raw(raw))
    return value if isinstance(value, dict) else {}


def read_companion(path: Path, most: int = _COMPANION_SIZE) -> bytes:
    """The first bytes of a file beside a log; empty where it cannot be read, or is a pipe, which would wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):
        return b""
    with open(descriptor, "rb") as file:
        try:
            return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        except OSError:
            return b""


class FieldByField(Generic[S]):
    """Reads an object into a struct; a field of another type than expected keeps its default."""

    def __init__(self, kind: type[S], nested: Mapping[str, Callable[[msgspec.Raw], Any]] | None = None) -> None:
        self._kind = kind
        self._fields = [
            (field.name, field.encode_name, (nested or {}).get(field.name) or msgspec.json.Decoder(field.type).decode)
            for field in msgspec.structs.fields(kind)
        ]

    def __call__(self, raw: bytes | msgspec.Raw) -> S | None:
        """The struct, or ``None`` when this is no JSON object."""
        parts: dict[str, msgspec.Raw] | None = None
        with suppress(*DECODING_ERRORS):
            parts = _mending(_parts.decode, raw)
        if parts is None:
            return None
        found = {}
        for name, encoded, decode in self._fields:
            part = parts.get(encoded)
            if part is not None:
                with suppress(*DECODING_ERRORS):
                    found[name] = _mending(decode, part)
        return self._kind(**found)


def list_of(read: Callable[[msgspec.Raw], S | None]) -> Callable[[msgspec.Raw], list[S]]:
    """Reads a list of objects, without those that are none."""
    return lambda raw: [found for part in _raws.decode(raw) if (found := read(part)) is not None]


def _mending(decode: Callable[[Any], T], raw: bytes | msgspec.Raw) -> T:
    """Decode; if the text, not its shape, is at fault, decode it mended."""
    try:
        return decode(raw)
    except msgspec.ValidationError:
        raise
    except DECODING_ERRORS:
        better = mended(bytes(raw))
        if better is None:
            raise
    return decode(better)


def whole_objects(
    raw: bytes, openings: re.Pattern[str], is_line: Callable[[dict[str, Any]], bool]
) -> tuple[bytes, ...]:
    """The objects inside a broken line that are lines by themselves.

    Two processes on one session write into each other's lines: half an object, then a whole one. ``is_line``
    tells a line from an object that merely stood inside the half that was cut.
    """
    text = raw.decode("utf-8", "surrogateescape")
    found: list[bytes] = []
    position = 0
    for _ in range(_MAX_ATTEMPTS):
        opening = openings.search(text, position)
        if opening is None:
            break
        try:
            value, position = _scanner.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            position = opening.start() + 1
            continue
        if isinstance(value, dict) and is_line(value):
            found.append(text[opening.start() : position].encode("utf-8", "surrogateescape"))
    return tuple(found)
