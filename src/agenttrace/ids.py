"""Deterministic ids: the same content gives the same id, in every process and after every rebuild."""

from __future__ import annotations

import hashlib
import re

_SESSION_KEY = re.compile("[0-7][0-9a-f]{15}")


def generate_event_id(session_id: str, turn_index: int, step_n: int, event_type: str, *, key: str | None = None) -> str:
    """Name an event by where it stands and, with ``key``, by what makes it unique there.

    Four arguments alone collide for parallel tool calls and content parts; ``key`` is the event's native id
    (uuid, call id, exact timestamp) or a digest of its line with the ordinal among identical lines.

    >>> generate_event_id("s", 1, 2, "ToolCall")
    '6a644781f05063d5994d31e1fe1953c7'
    """
    text = f"{session_id}:turn:{turn_index}:step:{step_n}:type:{event_type}"
    if key is not None:
        text += f":key:{key}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def trace_event_id(trace: str, event_type: str, key: str) -> bytes:
    """The id of a recorded line that belongs to a trace: the trace's session may change, the id must not."""
    text = f"trace:{trace}:{event_type}:key:{key}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def line_key(raw: bytes, ordinal: int) -> str:
    """The key of a line without a native id: its digest and its ordinal among identical lines."""
    digest = hashlib.sha256(raw).hexdigest()[:24]
    return f"{digest}#{ordinal}"


def span_id(*parts: str) -> bytes:
    """Eight bytes for a span, from whatever names it inside its session."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()[:8]


def tool_span_id(session_id: str, stream: str, step: bytes, call: str) -> bytes:
    """The span of a tool call, which is named inside the model call that asked for it."""
    return span_id(session_id, stream, "tool", step.hex(), call)


def trace_id(*parts: str) -> bytes:
    """Sixteen bytes for a trace."""
    return hashlib.sha256("\x1f".join(("trace", *parts)).encode("utf-8", "surrogatepass")).digest()[:16]


def response_key(response: str) -> bytes:
    """Sixteen bytes that name a model response across all sessions, so that its tokens count once."""
    return hashlib.sha256(response.encode("utf-8", "surrogatepass")).digest()[:16]


def session_number(agent: str, session_id: str) -> int:
    """The store's number for a session: a hash, so that a rebuilt store gives it the same one."""
    text = f"{agent}\x1f{session_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")


def session_key(number: int) -> str:
    """What addresses call the session of this number, and no other one."""
    return f"{number:016x}"


def key_number(key: str) -> int | None:
    """The number of the session of this key; ``None`` for what is no key."""
    return int(key, 16) if _SESSION_KEY.fullmatch(key) else None


def file_number(path: str, attempt: int) -> int:
    """The store's number for a file; ``attempt`` tells files apart that followed each other at one path."""
    text = f"{path}\x1f{attempt}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest()[:5], "big")


def crossing_key(*parts: str) -> bytes:
    """Sixteen bytes for a threshold that was crossed, from what names it: the same whenever it is noticed."""
    return hashlib.sha256("\x1f".join(("crossing", *parts)).encode("utf-8", "surrogatepass")).digest()[:16]
