"""Texts that can be sent: without halves of characters, without NUL, and no longer than a value may be.

Protobuf cannot carry the first; the second cannot be stored by PostgreSQL, which many backends have, and one of these
would be lost after it was accepted. And results have many megabytes at times, which no backend shows.
"""

from __future__ import annotations

import msgspec

from agenttrace.export.json_values import REPLACEMENT, clean

#: Bytes that one value may have.
LIMIT = 1_000_000
#: Room for the note that something was left out.
_NOTE_BYTES = 80


def shortened(text: str, limit: int = LIMIT) -> str:
    """A valid text of at most ``limit`` bytes; where something is missing, the end says how much."""
    # A character has one to four bytes: what is far too long is cut before it is looked at, and what is short, as
    # nearly all is, need not be encoded.
    head = clean(text[:limit], REPLACEMENT)
    if len(text) <= limit and (len(head) * 4 <= limit or len(head.encode()) <= limit):
        return head
    kept = head.encode()[: max(limit - _NOTE_BYTES, 0)].decode("utf-8", "ignore")
    return _cut(kept, len(text))


def shortened_in_json(text: str, limit: int) -> str:
    """A valid text that has at most ``limit`` bytes when written as a JSON string."""
    head = clean(text[:limit], REPLACEMENT)
    size = len(json_bytes(head))
    if size <= limit and len(text) <= limit:
        return head
    kept = len(head)
    while kept:
        # A few rounds find what fits: how much longer a text is in JSON depends on its characters.
        kept = kept * max(limit - _NOTE_BYTES, 0) // (size + 1)
        size = len(json_bytes(_cut(head[:kept], len(text))))
        if size <= limit:
            break
    return _cut(head[:kept], len(text))


def _cut(kept: str, whole: int) -> str:
    return f"{kept} … [cut: {whole - len(kept)} more characters]"


def json_bytes(value: object) -> bytes:
    """A value of clean texts as JSON."""
    return msgspec.json.encode(value)
