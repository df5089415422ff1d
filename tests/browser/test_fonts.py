"""Chinese texts have a font on every machine, and a page without them loads none for them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from .conftest import CHINESE, Visit, key_of, settled

SESSION = f"/sessions/{key_of('agenttrace', CHINESE)}"
SHEET = """() => [...document.fonts].some((face) => /Noto Sans SC/.test(face.family))"""
LOADED = """() => [...document.fonts]
  .filter((face) => /Noto Sans SC/.test(face.family) && face.status === "loaded").length"""


def fonts_of(page: Page, selector: str) -> list[dict[str, Any]]:
    """The fonts that the browser draws an element with."""
    session = page.context.new_cdp_session(page)
    try:
        session.send("DOM.enable")
        session.send("CSS.enable")
        root = session.send("DOM.getDocument")["root"]["nodeId"]
        node = session.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
        found: list[dict[str, Any]] = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        return found
    finally:
        session.detach()


def test_an_english_page_loads_no_file_of_the_chinese_font(visit: Visit) -> None:
    """The style sheet comes after the page; of its files none is loaded where no character needs it."""
    page = visit.open("/nowhere", fresh=True)
    settled(page)
    page.wait_for_function(SHEET)
    page.evaluate("() => document.fonts.ready.then(() => {})")
    assert page.evaluate(LOADED) == 0
    assert not any("noto-sans-sc" in name for name in page.evaluate("performance.getEntries().map(({name}) => name)"))


def test_chinese_is_drawn_in_a_font_that_has_it(visit: Visit) -> None:
    """By a font of the system, or else by few files of the bundled one."""
    page = visit.open(SESSION, language="zh-CN", fresh=True)
    settled(page)
    page.wait_for_function(SHEET)
    expect(page.get_by_role("heading", level=1)).to_have_text("包裹到哪里了？")
    page.evaluate("() => document.fonts.ready.then(() => {})")
    bundled: int = page.evaluate(LOADED)
    fonts = fonts_of(page, "h1 bdi, h1")
    if bundled:
        assert [font["familyName"] for font in fonts if font["isCustomFont"]], fonts
        assert bundled < 40, "of about ninety"
    # A character that no font has would be drawn in a font of the system, as a box.
    assert sum(font["glyphCount"] for font in fonts if font["isCustomFont"] == bool(bundled)) >= len("包裹到哪里了")
