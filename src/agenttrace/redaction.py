"""Masking of whole records before they leave: every text in every field.

An exit assembles a record, redacts it whole, and only then writes it. So a field that is added later cannot be
forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import msgspec

from agenttrace.model import Session

T = TypeVar("T")
#: The text of a mask, such as ``Mask(patterns).text``.
Hide = Callable[[str], str]


class LineMask(Protocol):
    """Masks texts and values of JSON, such as ``Mask(patterns)``."""

    def text(self, text: str) -> str:
        """The text with a marker in the place of every secret."""
        ...

    def value(self, value: object) -> object:
        """The same for any JSON value."""
        ...


#: Fields with words of AgentTrace's own, by which programs tell records apart.
_OURS = frozenset({"kind", "status", "state"})
_SAID = "text"
#: Types without text; most fields have these.
_NUMBERS = frozenset({type(None), bool, int, float, bytes, Decimal})
#: Recording keeps the beginnings of prompts and errors at these lengths. A key that was cut there is still a part of a
#: key, and may be too short to be recognised.
CUT_LENGTHS = frozenset({200, 300, 400, 500})
_LAST_WORD = re.compile(r"[\x21-\x7e]+…?\Z")


def redacted(record: T, hide: Hide, *, keep: Collection[str] = ()) -> T:
    """The same record with all its texts masked; of its fields those named in ``keep`` stay as they are."""
    return _any(record, hide, frozenset(keep))  # type: ignore[no-any-return]


def _any(value: Any, hide: Hide, keep: Collection[str]) -> Any:  # noqa: ANN401 - any part of a record
    if isinstance(value, str):
        return hide(whole_words(value))
    if isinstance(value, msgspec.Struct):
        changed = _fields(value, value.__struct_fields__, hide, keep)
        return msgspec.structs.replace(value, **changed) if changed else value
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        changed = _fields(value, names, hide, keep)
        return type(value)(*(changed.get(name, each) for name, each in zip(names, value, strict=True)))
    if isinstance(value, Mapping):
        return {_any(name, hide, ()): _any(each, hide, ()) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_any(each, hide, ()) for each in value)
    return value


def _fields(record: object, names: Collection[str], hide: Hide, keep: Collection[str]) -> dict[str, Any]:
    """The fields that hold a text, or something with texts in it, masked."""
    masked = {}
    for name in names:
        value = getattr(record, name)
        if type(value) not in _NUMBERS and name not in _OURS and name not in keep:
            # Contents are never cut: the log has them in full.
            masked[name] = hide(value) if name == _SAID else _any(value, hide, ())
    return masked


def session_name(session: Session, hide: Hide) -> str:
    """What a session is called outside: its id, or the store's number of it where there is a secret in its id.

    Both are the same every time, and no two sessions have the same.
    """
    return session.session_id if hide(session.session_id) == session.session_id else f"{session.id:016x}"


def redacted_session(session: Session, hide: Hide) -> Session:
    """A session with all its texts masked, under the name that it has outside."""
    return msgspec.structs.replace(redacted(session, hide), session_id=session_name(session, hide))


def whole_words(preview: str) -> str:
    """The beginning of a text without its last word, where that word may have been cut in the middle."""
    was_cut = len(preview) in CUT_LENGTHS or (len(preview) > min(CUT_LENGTHS) and preview.endswith("…"))
    return _LAST_WORD.sub("…", preview) if was_cut else preview


def redacted_line(raw: bytes, mask: LineMask) -> bytes:
    """A line of a log, masked field by field; byte for byte as it was where nothing in it is masked."""
    text = raw.decode("utf-8", "surrogateescape")
    try:
        line = json.loads(text, object_pairs_hook=_unambiguous)
        masked = mask.value(line)
        if masked == line:
            return raw
        found = json.dumps(masked, ensure_ascii=text.isascii(), separators=(",", ":"), allow_nan=False)
        return found.encode()
    except (ValueError, RecursionError):
        # No JSON, or none that could be written again as it was.
        return mask.text(text).encode("utf-8", "surrogateescape")


def _unambiguous(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        raise ValueError("a field occurs twice")
    return found
