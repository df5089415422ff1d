"""Dark and light, English and Chinese, wide and narrow, and what axe finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from .conftest import PAGES, Visit, settled

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
#: Colours that are on their way to others are neither.
STILL = """() => Promise.all(
  document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)
).then(() => {})"""


def ground(page: Page) -> int:
    """How light the page's ground is, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    numbers = [int(float(number)) for number in re.findall(r"[\d.]+", colour)[:3]]
    return sum(numbers) // 3


def problems(page: Page) -> list[str]:
    """What axe finds in light, and then in dark, where only colours are others."""
    found = violations(page)
    page.emulate_media(color_scheme="dark")
    found += violations(page, "runOnly: ['color-contrast', 'link-in-text-block']")
    page.emulate_media(color_scheme="light")
    return found


def violations(page: Page, options: str = "") -> list[str]:
    """What axe finds with all its rules, however serious it is."""
    if page.evaluate("() => !window.axe"):
        # Run beside the page's own code by the browser's debugger, which no policy of the page forbids.
        page.evaluate(AXE.read_text(encoding="utf-8"))
    page.evaluate(STILL)
    found: list[dict[str, Any]] = page.evaluate(
        f"() => axe.run(document, {{preload: false, resultTypes: ['violations'], {options}}})"
        ".then((result) => result.violations)"
    )
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
    ]


def test_theme_follows_the_system_and_the_switch(visit: Visit) -> None:
    """The ground is dark where the system is, the switch overrules it, and the choice outlives a reload."""
    page = visit.open("/exports", theme="dark")
    settled(page)
    assert ground(page) < 60
    page.emulate_media(color_scheme="light")
    assert ground(page) > 200
    opener = page.get_by_role("button", name="Theme, Language")
    opener.click()
    page.get_by_role("radiogroup", name="Theme").get_by_role("radio", name="Dark").click()
    assert ground(page) < 60
    page.reload()
    settled(page)
    assert ground(page) < 60, "before anything is clicked"
    opener.click()
    page.get_by_role("radiogroup", name="Theme").get_by_role("radio", name="System").click()
    assert ground(page) > 200
    visit.leave(page)
    page = visit.open("/exports", theme="light")
    settled(page)
    assert ground(page) > 200


def test_language_of_the_browser_and_of_the_switch(visit: Visit) -> None:
    """A Chinese browser sees Chinese pages that say so, the switch overrules it, and the choice outlives a reload."""
    page = visit.open("/exports", language="zh-CN")
    settled(page)
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.get_by_role("heading", level=1)).to_have_text("导出")
    page.get_by_role("button", name="主题").click()
    page.get_by_role("radio", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_navigation_is_reachable_on_a_phone(visit: Visit) -> None:
    """At 390 pixels every page is reached by what is at the bottom of the screen, by touch."""
    page = visit.open("/", width=390, height=844)
    bottom = page.get_by_role("navigation", name="Pages").last
    for path, title in PAGES.items():
        link = bottom.get_by_role("link", name=title, exact=True)
        if not link.first.is_visible():
            bottom.get_by_role("button", name="More").click()
            link = page.get_by_role("dialog").get_by_role("link", name=title, exact=True)
        link.first.click()
        expect(page).to_have_url(visit.base + path)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.get_by_role("dialog")).to_have_count(0)
    bottom.get_by_role("button", name="More").click()
    page.get_by_role("dialog").get_by_role("radio", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
