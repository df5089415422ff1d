"""Ids for destinations that want a UUID: version 7, made of a span's start and its id, so always the same.

Such a UUID begins with the time (RFC 9562): 48 bits of milliseconds. The 12 bits behind the version hold the part below
a millisecond, as the RFC's third method has it, so that ids are in the order of the starts to the microsecond. The
other 62 bits are of a hash.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

_LATEST = 2**48 - 1


def span_uuid(scope: str, trace_id: bytes, span_id: bytes, start: int) -> UUID:
    """The UUID of a span that began at ``start`` (microseconds); spans of different scopes have different ones."""
    named = f"{scope}\x1f".encode("utf-8", "surrogatepass") + trace_id + span_id
    digest = hashlib.sha256(named).digest()
    millis, micros = divmod(max(start, 0), 1_000)
    value = min(millis, _LATEST) << 80 | 7 << 76 | (micros * 4096 // 1_000) << 64
    return UUID(int=value | 0b10 << 62 | int.from_bytes(digest[:8], "big") & (1 << 62) - 1)
