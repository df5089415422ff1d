"""A machine without any logs."""

from __future__ import annotations

from playwright.sync_api import expect

from .conftest import Visit

EMPTY = {
    "/": "Recording runs, but no agent has said anything yet",
    "/sessions": "Nothing is recorded yet",
    "/usage": "Nothing was used in this time",
    "/cache": "No result fits",
    "/files": "No file fits",
    "/files?tab=quarantine": "Nothing is in quarantine",
    "/exports": "No destination is configured",
    "/settings?tab=audit": "Nothing was changed yet",
    "/sessions?q=anything": "No text has these words",
    "/sessions/0000000000000001": "There is no such session",
}


def test_nothing_is_recorded_yet(own_visit: Visit) -> None:
    """On a machine without any logs every page says that there is nothing, and what to do about it."""
    page = own_visit.enter()
    for path, words in EMPTY.items():
        page.goto(path)
        expect(page.get_by_text(words).first).to_be_visible()
