"""The first look: every page opens by its address, by its link and by its keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import PAGES, Visit, settled

KEYS = "osuilrcbkfe,"
#: What the first view may weigh, as it is sent; charts, the palette and the Chinese font are loaded after it.
MOST_BYTES = 150_000
WEIGHED = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map(({ name, encodedBodySize }) => [new URL(name).pathname, encodedBodySize])
  .filter(([path]) => !/^\\/api\\/|chart-canvas|palette|chinese|noto-sans-sc/.test(path))"""


@pytest.mark.parametrize(("path", "title"), PAGES.items())
def test_every_page_opens_by_its_address(visit: Visit, path: str, title: str) -> None:
    """A bookmark shows the page it was made of, with its name as heading and in the window's title."""
    page = visit.open(path)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page).to_have_title(f"{title} · AgentTrace")
    expect(page.get_by_role("link", name=title, exact=True).first).to_have_attribute("aria-current", "page")


def test_every_page_opens_by_its_link_and_its_keys(visit: Visit) -> None:
    """The navigation and the keys ``g`` and a letter lead to every page, and back leads to where one was."""
    page = visit.open("/exports")
    side = page.get_by_role("navigation", name="Pages").first
    for path, title in PAGES.items():
        side.get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page).to_have_url(visit.base + path)
    for key, (path, title) in zip(KEYS, PAGES.items(), strict=True):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page).to_have_url(visit.base + path)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
    page.go_forward()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


def test_a_wrong_address_says_so(visit: Visit) -> None:
    """An address that leads nowhere says so and leads to the overview."""
    page = visit.open("/nowhere/at-all")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_first_view_is_small(visit: Visit) -> None:
    """Code, styles and fonts of the overview are below the limit, compressed; the font of the text is preloaded."""
    page = visit.open("/", fresh=True)
    settled(page)
    page.evaluate("() => document.fonts.ready.then(() => {})")
    files: dict[str, int] = dict(page.evaluate(WEIGHED))
    assert sum(files.values()) < MOST_BYTES, files
    assert page.evaluate("() => document.fonts.check('14px Inter')")
    preloaded = page.locator("link[rel=preload][as=font]").evaluate_all(
        "all => all.map((one) => one.getAttribute('href'))"
    )
    assert preloaded
    assert set(preloaded) < files.keys()
