"""Lines that were set aside, for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.store.sqlite.quarantine import QuarantineEntry


def entry_fields(entry: QuarantineEntry) -> dict[str, Any]:
    """An entry for JSON."""
    resolved = entry.resolved_at
    return {
        "id": entry.quarantine_id,
        "file": entry.filepath,
        "offset": entry.offset,
        "length": entry.length,
        "reason": entry.reason,
        "salvaged": entry.salvaged,
        "found_at": iso(round(entry.found_at * 1e6)),
        "resolved_at": None if resolved is None else iso(round(resolved * 1e6)),
    }
