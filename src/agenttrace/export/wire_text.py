"""Texts and JSON that every server accepts, from values that an agent's log may contain.

Logs contain lone surrogates, NUL, NaN, and numbers and texts of any size. UTF-8 and protobuf cannot encode lone
surrogates. PostgreSQL, which many backends use, cannot store NUL and would lose the span after it was accepted.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import msgspec

#: The most bytes of one value: a result may have many megabytes, which no backend shows.
LIMIT = 1_000_000
REPLACEMENT = "\ufffd"
#: Room for the note about the characters that are left out.
_NOTE_BYTES = 80
_HALF = re.compile("[\ud800-\udfff]")
#: Deeper values become their text.
_MAX_DEPTH = 32
_INT64 = 2**63
_encoder = msgspec.json.Encoder(decimal_format="number")


def clean(text: str, nul: str = "\0") -> str:
    """The text with lone surrogates replaced, and NUL by ``nul``."""
    if not text.isascii() and _HALF.search(text):
        # Two halves that belong together become the character that they are halves of.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if nul == "\0" else text.replace("\0", nul)


def shortened(text: str, limit: int = LIMIT) -> str:
    """A valid text of at most ``limit`` bytes; where it is cut, the end says how many characters are missing."""
    # A character has one to four bytes: a text that is much too long is cut before it is encoded, and a short one, as
    # nearly all are, need not be encoded.
    head = clean(text[:limit], REPLACEMENT)
    if len(text) <= limit and (len(head) * 4 <= limit or len(head.encode()) <= limit):
        return head
    start = head.encode()[: max(limit - _NOTE_BYTES, 0)].decode("utf-8", "ignore")
    return _cut(start, len(text))


def shortened_in_json(text: str, limit: int) -> str:
    """A valid text that has at most ``limit`` bytes when encoded as a JSON string."""
    head = clean(text[:limit], REPLACEMENT)
    size = len(json_bytes(head))
    if size <= limit and len(text) <= limit:
        return head
    length = len(head)
    while length:
        # A few rounds find the length: how much longer a text is in JSON depends on its characters.
        length = length * max(limit - _NOTE_BYTES, 0) // (size + 1)
        size = len(json_bytes(_cut(head[:length], len(text))))
        if size <= limit:
            break
    return _cut(head[:length], len(text))


def _cut(start: str, whole: int) -> str:
    return f"{start} … [cut: {whole - len(start)} more characters]"


def json_bytes(value: object) -> bytes:
    """A value of clean texts as JSON."""
    return msgspec.json.encode(value)


def plain(value: object, nul: str = "\0", depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """The value as JSON: clean texts, finite numbers of 64 bits, and the text of any other value."""
    match value:
        case None | bool():
            return value
        case str():
            return clean(value, nul)
        case int():
            return value if -_INT64 <= value < _INT64 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal() if value.is_finite():
            return value
        case dict() if depth < _MAX_DEPTH:
            return {clean(str(name), nul): plain(each, nul, depth + 1) for name, each in value.items()}
        case list() | tuple() if depth < _MAX_DEPTH:
            return [plain(each, nul, depth + 1) for each in value]
    return clean(str(value), nul)


def encoded(value: object, nul: str = "\0") -> bytes:
    """Any value as JSON in UTF-8; amounts of money as exact numbers."""
    return _encoder.encode(plain(value, nul))


def parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text, where it is an object or a list; else the text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(clean(text))
    except (msgspec.MsgspecError, RecursionError):
        return text


def object_of(value: object) -> dict[str, Any]:
    """A JSON object, also one that is still bytes; an empty one for any other value."""
    if isinstance(value, bytes):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
