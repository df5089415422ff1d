"""Destinations and the spans on their way there, as ``--json`` and the API show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from agenttrace.destinations import DestinationSettings, keys_hidden, shown_address
from agenttrace.export.lock import owner
from agenttrace.store.exports import STATES, DestinationRow, Ledgers, ListedSpan
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso, iso_seconds

if TYPE_CHECKING:
    from agenttrace.config import Settings

#: idle: everything is acknowledged; confirming: all is sent, not all is acknowledged; waiting: for the next retry;
#: unused: it cannot be used as it is configured; stopped: no exporter runs; removed: from the settings.
DestinationState = Literal["idle", "sending", "confirming", "waiting", "paused", "unused", "stopped", "removed"]

_TITLE_CHARS = 300


def exports_fields(known: Ledgers, settings: Settings, *, removed: bool = False) -> dict[str, Any]:
    """The exporter and the state of each destination; with ``removed`` also those removed from the settings."""
    process = owner(settings.home)
    configured = {each.name: each for each in settings.destinations}
    found = [
        _discreet(_fields(row, known, _state(row, configured, known, process)), keys_hidden_of(settings, row.name))
        for row in known.rows
        if removed or not _is_removed(row, configured, process)
    ]
    names = {row.name for row in known.rows if row.removed_at is None}
    found += [_unknown(each, process) for each in settings.destinations if each.name not in names]
    return {"exporter": {"running": process is not None, "pid": process}, "destinations": found}


# -- the state of a destination -------------------------------------------------------------------------------------


def _is_removed(row: DestinationRow, configured: Mapping[str, DestinationSettings], process: int | None) -> bool:
    """Whether it is removed from the settings; the next exporter writes that into the store."""
    return row.removed_at is not None or (process is None and row.name not in configured)


def _state(
    row: DestinationRow, configured: Mapping[str, DestinationSettings], known: Ledgers, process: int | None
) -> tuple[DestinationState, str | None]:
    """The state, and the reason for it if there is one."""
    if _is_removed(row, configured, process):
        return "removed", None
    # The exporter knows best: a key may be in its environment only.
    unusable = row.unusable if process is not None else _missing(configured[row.name])
    if unusable is not None:
        return "unused", unusable
    if row.paused:
        return "paused", None
    if process is None:
        return "stopped", None
    if row.retry_at is not None and row.retry_at > time.time():
        return "waiting", row.last_error
    states = known.counts.get(row.destination_id, {})
    if states.get("queued", 0):
        return "sending", None
    return ("confirming" if states.get("sending", 0) else "idle"), None


def _missing(configured: DestinationSettings) -> str | None:
    names = configured.missing
    if not names:
        return None
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set in the environment"


def _fields(row: DestinationRow, known: Ledgers, state: tuple[DestinationState, str | None]) -> dict[str, Any]:
    number = row.destination_id
    states = known.counts.get(number, {})
    return {
        "name": row.name,
        "kind": row.kind,
        "address": row.address,
        "state": state[0],
        "reason": state[1],
        "retry_at": iso_seconds(row.retry_at) if state[0] == "waiting" else None,
        "paused": bool(row.paused),
        **{name: states.get(name, 0) for name in STATES},
        "late": known.late.get(number, 0),
        "rejected": row.rejected,
        "annotations": known.annotations.get(number, {}).get("acknowledged", 0),
        "refused_annotations": known.annotations.get(number, {}).get("refused", 0),
        "refusal": known.refusals.get(number) or None,
        "oldest_queued_at": iso_seconds(known.oldest.get(number)),
        "last_success_at": iso_seconds(row.last_success_at),
        "last_error": row.last_error,
        "last_error_at": iso_seconds(row.last_error_at),
        "requests": row.requests,
        "sent_bytes": row.sent_bytes,
        "added_at": iso_seconds(row.added_at),
        "since": iso(row.since) if row.since else None,
    }


def keys_hidden_of(settings: Settings, name: str) -> Callable[[str], str]:
    """Hides the keys of a destination in what it answered, where an earlier version wrote them down."""
    found = next((each for each in settings.destinations if each.name == name), None)
    return str if found is None else keys_hidden(found)


def _discreet(fields: dict[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    told = {name: hide(fields[name]) for name in ("reason", "last_error", "refusal") if fields[name]}
    address = fields["address"]
    return fields | told | {"address": shown_address(address) if "://" in address else address}


def _unknown(each: DestinationSettings, process: int | None) -> dict[str, Any]:
    """A destination that is not in the store yet."""
    unusable = _missing(each)
    later = "added after the exporter was started; start it again" if process is not None else None
    return {
        "name": each.name,
        "kind": each.type,
        "address": each.address,
        "state": "unused" if unusable else "stopped",
        "reason": unusable or later,
        "retry_at": None,
        "paused": False,
        **dict.fromkeys((*STATES, "late", "rejected", "annotations", "refused_annotations"), 0),
        **dict.fromkeys(("refusal", "oldest_queued_at", "last_success_at", "last_error", "last_error_at")),
        "requests": 0,
        "sent_bytes": 0,
        "added_at": None,
        "since": None,
    }


# -- its spans ------------------------------------------------------------------------------------------------


def span_fields(span: ListedSpan, hide: Callable[[str], str]) -> dict[str, Any]:
    """A span of a destination's ledger; ``hide``: what ``keys_hidden_of`` gives for the destination."""
    session = span.session
    return {
        "session": f"{span.session_id:016x}",
        "session_id": None if session is None else session.session_id,
        "agent": None if session is None else session.agent,
        "title": None if session is None else title_of(session)[:_TITLE_CHARS] or None,
        "span_id": span.span_id.hex(),
        "span": span.name,
        "kind": span.kind,
        "started_at": iso(span.start),
        "state": span.state,
        "attempts": span.attempts,
        "at": iso_seconds(span.at),
        "answer": span.answer and hide(span.answer),
        "late": span.late,
    }
