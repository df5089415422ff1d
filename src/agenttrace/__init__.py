"""AgentTrace: what AI agents did, and what it cost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttrace.ids import generate_event_id
    from agenttrace.record.dedup import EventDeduplicator
    from agenttrace.record.fingerprint import FileFingerprint
    from agenttrace.record.offsets import FileOffset, PersistentOffsetStore
    from agenttrace.record.reader import IncrementalJSONLReader, JSONLRecord

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
    "EventDeduplicator": "agenttrace.record.dedup",
    "FileFingerprint": "agenttrace.record.fingerprint",
    "FileOffset": "agenttrace.record.offsets",
    "IncrementalJSONLReader": "agenttrace.record.reader",
    "JSONLRecord": "agenttrace.record.reader",
    "PersistentOffsetStore": "agenttrace.record.offsets",
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
