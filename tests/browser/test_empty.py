"""A machine without any logs."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from .conftest import Visit

EMPTY = {
    "/": "The recorder is running; no agent has written a log yet",
    "/sessions": "The recorder is running; no agent has written a log yet",
    "/usage": "No usage in this period",
    "/insights": "Nothing stands out in this period",
    "/insights?tab=tools": "No tool was called in this period",
    "/insights?tab=models": "No model was called in this period",
    "/cache": "No matching results",
    "/files": "No matching files",
    "/files?tab=quarantine": "The quarantine is empty",
    "/exports": "No destination is configured",
    "/settings?tab=audit": "No entries yet",
    "/sessions?q=anything": "No text contains these words",
    "/sessions/0000000000000001": "Session not found",
}


def test_nothing_is_recorded_yet(own_visit: Visit) -> None:
    """On a machine without any logs every page says that there is nothing, and what to do about it.

    A button loads demo data, and another one removes it again.
    """
    page = own_visit.enter()
    for path, words in EMPTY.items():
        page.goto(path)
        expect(page.get_by_text(words).first).to_be_visible()
    page.goto("/")
    page.get_by_role("button", name="Load demo data").press("Enter")
    expect(page.get_by_text("Demo sessions are loaded")).to_be_visible()
    page.get_by_role("link", name="Sessions").first.click()
    expect(page.get_by_text(re.compile(r"^\d\d+ sessions"))).to_be_visible()
    expect(page.get_by_text("demo", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Remove demo data").press("Enter")
    expect(page.get_by_text("no agent has written a log yet")).to_be_visible()
    expect(page.get_by_text("Demo sessions are loaded")).to_be_hidden()
