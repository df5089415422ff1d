"""Text and JSON in a form that PostgreSQL takes: it refuses U+0000 everywhere, and lone surrogates, being UTF-8.

A model's answer or a user's message may hold either, and what was paid for must not be lost to one odd character.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from agenttrace import nesting

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_MARK = "\ufffd"


def storable_text(text: str) -> str:
    """The text, with U+FFFD in the place of each character that cannot be stored."""
    return text if _is_storable(text) else _REFUSED.sub(_MARK, text)


def storable_json(value: object) -> str:
    """The value as JSON for a ``jsonb`` column; what is no JSON at all, such as NaN, becomes null.

    What is nested too deep to be read back is cut.
    """
    value = nesting.cut(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_cleaned(value), ensure_ascii=False)
    # An escaped U+0000 is refused as well; a literal backslash before "u0000" only costs the slower way.
    if "\\u0000" in text or not _is_storable(text):
        text = json.dumps(_cleaned(value), ensure_ascii=False)
    return text


def stored_json(data: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a ``json`` or ``jsonb`` column; what is nested too deep is cut, however it got there."""
    try:
        return nesting.cut(json.loads(data))
    except RecursionError:
        return {"error": "nested too deep to be read"}


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _cleaned(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str():
            return storable_text(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {storable_text(str(key)): _cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case _:
            return value
