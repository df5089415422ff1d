"""The first look: every page opens, by its address and by its link."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import Visit

PAGES = {
    "/": "Overview",
    "/sessions": "Sessions",
    "/usage": "Usage",
    "/runs": "Runs",
    "/chat": "Chat",
    "/guards": "Guards",
    "/cache": "Cache",
    "/files": "Files",
    "/exports": "Exports",
    "/settings": "Settings",
}


@pytest.mark.parametrize(("path", "title"), PAGES.items())
def test_every_page_opens_by_its_address(visit: Visit, path: str, title: str) -> None:
    """A bookmark shows the page it was made of, with its name as heading."""
    page = visit.open(path)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
