"""AgentTrace: what AI agents did, and what it cost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttrace.compat.deduplicator import EventDeduplicator
    from agenttrace.compat.fingerprint import FileFingerprint
    from agenttrace.compat.offsets import FileOffset, PersistentOffsetStore
    from agenttrace.compat.reader import IncrementalJSONLReader, JSONLRecord
    from agenttrace.ids import generate_event_id

__all__ = [
    "EventDeduplicator",
    "FileFingerprint",
    "FileOffset",
    "IncrementalJSONLReader",
    "JSONLRecord",
    "PersistentOffsetStore",
    "generate_event_id",
]

#: Where each public name is defined. Loaded on first use: a shell prompt that asks for one short line must not
#: wait for a recorder.
_HOMES = {
    "EventDeduplicator": "agenttrace.compat.deduplicator",
    "FileFingerprint": "agenttrace.compat.fingerprint",
    "FileOffset": "agenttrace.compat.offsets",
    "IncrementalJSONLReader": "agenttrace.compat.reader",
    "JSONLRecord": "agenttrace.compat.reader",
    "PersistentOffsetStore": "agenttrace.compat.offsets",
    "generate_event_id": "agenttrace.ids",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a module attribute may be anything
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
