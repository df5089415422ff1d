"""Checks of ``agenttrace doctor`` about export, from the ledger alone: nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.exports import NOTHING
from agenttrace.views import figures
from agenttrace.views.checks import Finding
from agenttrace.views.exports import exports_fields

if TYPE_CHECKING:
    from agenttrace.config import Settings


def destinations(settings: Settings) -> Iterator[Finding]:
    """Each destination, with what keeps spans from it."""
    if not settings.destinations:
        return
    found = _found(settings)
    for each in found["destinations"]:
        wrong = list(_wrong(each))
        yield from wrong
        if not wrong:
            place = f", {each['address']}" if each["address"] else ""
            yield Finding("export", "ok", f"{each['name']} ({each['kind']}{place}): {_progress(each)}")


def _found(settings: Settings) -> dict[str, Any]:
    try:
        with open_store(settings) as store:
            known = store.exports.ledgers()
    except STORE_FAILURES:
        # Another check reports problems of the store.
        known = NOTHING
    return exports_fields(known, settings)


def _progress(each: dict[str, Any]) -> str:
    queued = each["queued"] + each["sending"]
    sent = f"{figures.counted(each['acknowledged'], 'span')} acknowledged"
    return f"{sent}, {figures.count(queued)} queued{' (paused)' if each['paused'] else ''}"


def _wrong(each: dict[str, Any]) -> Iterator[Finding]:
    name, queued = each["name"], each["queued"] + each["sending"]
    if each["state"] == "unused":
        fix = "Set the missing variables where agenttrace is started, or remove the table from agenttrace.toml."
        yield Finding("export", "warn", f"{name} is not used: {each['reason']}", fix)
    elif each["state"] == "waiting":
        found = f"{name} takes nothing now: {each['reason']}; {figures.counted(queued, 'span')} queued"
        yield Finding("export", "warn", found, f"See what is wrong: agenttrace export check {name}")
    elif each["state"] == "stopped" and queued:
        found = f"{name}: {figures.counted(queued, 'span')} queued, and no exporter runs"
        yield Finding("export", "warn", found, "Start it: agenttrace up; or once: agenttrace export run --once")
    if each["refused"]:
        fix = f"See why: agenttrace export status {name}; then: agenttrace export retry {name}"
        yield Finding("export", "warn", f"{name} refused {figures.counted(each['refused'], 'span')}", fix)
    if each["unknown"]:
        found = f"{name}: it is unknown whether {figures.counted(each['unknown'], 'span')} arrived"
        fix = f"Check there; if so: agenttrace export accept {name}; if not: agenttrace export retry {name} --unknown"
        yield Finding("export", "warn", found, fix)
