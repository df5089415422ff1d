"""AgentTrace: what AI agents did, and what it cost."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # a hook that an agent waits for imports this package: ``typing`` takes as long as all the rest
if TYPE_CHECKING:
    from typing import Any

    from agenttrace.client import TriggerClient
    from agenttrace.compat.deduplicator import EventDeduplicator
    from agenttrace.compat.offsets import FileFingerprint, FileOffset, PersistentOffsetStore
    from agenttrace.compat.reader import IncrementalJSONLReader, JSONLRecord
    from agenttrace.ids import generate_event_id
    from agenttrace.library.objects import Annotation, Hit, Message, Session, Span, Usage
    from agenttrace.library.recorder import Recorder
    from agenttrace.library.rows import Rows
    from agenttrace.library.store import Store, open_store
    from agenttrace.record.lock import AlreadyRecordingError
    from agenttrace.store.errors import StoreError

__all__ = [
    "AlreadyRecordingError",
    "Annotation",
    "EventDeduplicator",
    "FileFingerprint",
    "FileOffset",
    "Hit",
    "IncrementalJSONLReader",
    "JSONLRecord",
    "Message",
    "PersistentOffsetStore",
    "Recorder",
    "Rows",
    "Session",
    "Span",
    "Store",
    "StoreError",
    "TriggerClient",
    "Usage",
    "generate_event_id",
    "open_store",
]

#: Where each public name is defined. Loaded on first use: a shell prompt that asks for one short line must not
#: wait for a recorder.
_HOMES = {
    "AlreadyRecordingError": "agenttrace.record.lock",
    "Annotation": "agenttrace.library.objects",
    "EventDeduplicator": "agenttrace.compat.deduplicator",
    "FileFingerprint": "agenttrace.compat.offsets",
    "FileOffset": "agenttrace.compat.offsets",
    "Hit": "agenttrace.library.objects",
    "IncrementalJSONLReader": "agenttrace.compat.reader",
    "JSONLRecord": "agenttrace.compat.reader",
    "Message": "agenttrace.library.objects",
    "PersistentOffsetStore": "agenttrace.compat.offsets",
    "Recorder": "agenttrace.library.recorder",
    "Rows": "agenttrace.library.rows",
    "Session": "agenttrace.library.objects",
    "Span": "agenttrace.library.objects",
    "Store": "agenttrace.library.store",
    "StoreError": "agenttrace.store.errors",
    "TriggerClient": "agenttrace.client",
    "Usage": "agenttrace.library.objects",
    "generate_event_id": "agenttrace.ids",
    "open_store": "agenttrace.library.store",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a module attribute may be anything
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
