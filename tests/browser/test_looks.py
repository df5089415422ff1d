"""Dark and light, English and Chinese, wide and narrow, and nothing serious that axe finds, on every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cli.conftest import CLAUDE, CLAUDE_FORK

from .conftest import PAGES, Visit, key_of, overflow, settled, turn_to

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SESSION = f"/sessions/{key_of('claude-code', CLAUDE)}"
COMPARE = f"/compare?a={key_of('claude-code', CLAUDE)}&b={key_of('claude-code', CLAUDE_FORK)}"
#: Pages with what is opened on them.
PLACES = (
    *PAGES,
    SESSION,
    f"{SESSION}?tab=waterfall&flame=on",
    f"{SESSION}?tab=changes",
    f"{SESSION}?tab=tools",
    f"{SESSION}?tab=requests",
    f"{SESSION}?tab=raw",
    f"{SESSION}?replay=1",
    COMPARE,
    f"/sessions?compare={key_of('claude-code', CLAUDE)}",
    "/sessions?q=scenario",
    "/sessions?errors=true",
    "/usage?by=model&since=all",
    "/insights?since=all",
    "/insights?tab=tools&since=all",
    "/insights?tab=tools&since=all&tool=Bash",
    "/insights?tab=models&since=all",
    "/runs?tab=calls",
    "/files?tab=quarantine",
    "/files?tab=quarantine&line=1",
    "/settings?tab=doctor",
    "/settings?tab=audit",
    "/login",
    "/nowhere",
)
NARROW = (
    *PAGES,
    SESSION,
    f"{SESSION}?tab=waterfall&flame=on",
    f"{SESSION}?tab=changes",
    f"{SESSION}?tab=tools",
    f"{SESSION}?tab=requests",
    f"{SESSION}?tab=raw",
    f"{SESSION}?replay=1",
    COMPARE,
    "/sessions?q=scenario",
    "/insights?since=all",
    "/insights?tab=tools&since=all",
    "/insights?tab=models&since=all",
    "/settings?tab=doctor",
    "/login",
)


def ground(page: Page) -> int:
    """How light the page's ground is, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    numbers = [int(float(number)) for number in re.findall(r"[\d.]+", colour)[:3]]
    return sum(numbers) // 3


def problems(page: Page) -> list[str]:
    """What axe finds that is serious or worse, in light and then in dark, where only colours are others."""
    if page.evaluate("() => !window.axe"):
        # Run beside the page's own code by the browser's debugger, which no policy of the page forbids.
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = _found(page, "{preload: false, resultTypes: ['violations']}")
    page.emulate_media(color_scheme="dark")
    # Colours that are on their way to others are neither.
    page.evaluate("""() => Promise.all(
      document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)
    ).then(() => {})""")
    found += _found(page, "{preload: false, runOnly: ['color-contrast'], resultTypes: ['violations']}")
    page.emulate_media(color_scheme="light")
    return found


def _found(page: Page, options: str) -> list[str]:
    violations: list[dict[str, Any]] = page.evaluate(
        f"() => axe.run(document, {options}).then((result) => result.violations)"
    )
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(visit: Visit, width: int) -> None:
    """In light and dark no page has a problem that axe calls serious or critical, and none is too wide."""
    page = visit.enter(width=width, height=844 if width == 390 else 900)
    found: dict[str, list[str]] = {}
    for place in PLACES if width == 1280 else NARROW:
        turn_to(page, place)
        found[place] = [*problems(page), *(["too wide"] if overflow(page) > 0 else [])]
    assert not any(found.values()), found


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


CHINESE = {
    "/": "概览",
    "/sessions": "会话",
    "/usage": "用量",
    "/insights?since=all": "洞察",
    "/runs": "运行",
    "/chat": "对话",
    "/guards": "防护",
    "/cache": "缓存",
    "/files": "文件",
    "/exports": "导出",
    "/settings": "设置",
}
#: English words that are no names: of the interface, never of an agent or a setting.
ENGLISH = re.compile(
    r"\b(Loading|Search|Filter|Filters|Session|Sessions|Cost|Errors|State|Recorder|Nothing|Open|Close)\b"
)


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


def test_every_page_is_in_chinese(visit: Visit) -> None:
    """No page has an English word of the interface left, or the name of a text in place of the text."""
    page = visit.enter(language="zh-CN", width=390, height=844)
    for path, title in CHINESE.items():
        turn_to(page, path)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        interface = page.locator(
            "h1, h2, h3, button:not(:has(bdi)), label, th, dt, nav a, legend, figcaption, [role=tab]"
        )
        words = " ".join(interface.all_inner_texts())
        assert not ENGLISH.search(words), (path, ENGLISH.findall(words))
        assert not re.search(r"\b(undefined|NaN|\[object Object\]|Invalid Date)\b", page.locator("body").inner_text())
        assert overflow(page) <= 0, path
    page.goto(SESSION)
    settled(page)
    expect(page.get_by_role("list", name=re.compile("对话"))).to_be_visible()
    assert overflow(page) <= 0


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
