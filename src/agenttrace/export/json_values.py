"""JSON that every reader takes, of values and texts that an agent's log may have held.

Logs hold half surrogate pairs, numbers of any size and NaN; UTF-8 and JSON have no room for them, and a server that
meets one refuses the whole request.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(decimal_format="number")
#: Deeper nesting than any reader goes; what is below becomes its text.
_DEEPEST = 32
_LARGEST = 2**63 - 1
_HALF = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def clean(text: str, nul: str = "\0") -> str:
    """The same text with what cannot be written as UTF-8 replaced, and NUL by ``nul``."""
    if not text.isascii() and _HALF.search(text):
        # Two halves that belong together become the character that they are halves of.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if nul == "\0" else text.replace("\0", nul)


def plain(value: object, nul: str = "\0", depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """The same value as JSON has it: texts clean, numbers finite and of 64 bits, everything else its text."""
    match value:
        case None | bool():
            return value
        case str():
            return clean(value, nul)
        case int():
            return value if -_LARGEST - 1 <= value <= _LARGEST else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal() if value.is_finite():
            return value
        case dict() if depth < _DEEPEST:
            return {clean(str(name), nul): plain(each, nul, depth + 1) for name, each in value.items()}
        case list() | tuple() if depth < _DEEPEST:
            return [plain(each, nul, depth + 1) for each in value]
    return clean(str(value), nul)


def encoded(value: object, nul: str = "\0") -> bytes:
    """A value as JSON in UTF-8; amounts of money as exact numbers."""
    return _encoder.encode(plain(value, nul))


def parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """What a text says as JSON, where it is an object or a list; else the text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(clean(text))
    except (msgspec.MsgspecError, RecursionError):
        return text


def object_of(value: object) -> dict[str, Any]:
    """A JSON object, also one that is still bytes; an empty one for whatever is none."""
    if isinstance(value, bytes):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
