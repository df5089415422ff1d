"""The palette and saved views: everything by its name, and what is shown under a name of its own."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from cli.conftest import eventually

from .conftest import Visit, overflow, running, settled
from .test_keyboard import here
from .test_looks import ground, problems


@pytest.fixture(scope="module")
def own_with_demo(own: running) -> running:
    """The demo data, as somebody loads it who looks around."""
    own.program.run("demo", "load")
    eventually(lambda: "Flaky link checker test" in _titles(own) and _behind(own) == 0, "the demo sessions")
    return own


def _titles(own: running) -> set[str]:
    return {session["title"] for session in own.program.json("sessions", "--limit", "0")}


def _behind(own: running) -> int:
    found: int = own.program.json("status")["behind_bytes"]
    return found


@pytest.fixture
def page(own_with_demo: running, own_visit: Visit) -> Page:
    found = own_visit.open("/")
    settled(found)
    return found


#: What a fast typist does: Enter comes before the browser has drawn the list for the last letter.
TYPED_AND_ENTERED = """(input, text) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
}"""


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("Go to anything|快速前往"))).to_be_focused()


def test_the_keyboard_reaches_everything(page: Page) -> None:
    """Sessions by words of title and project, projects, models, pages and actions; what was chosen comes first."""
    palette = page.get_by_role("dialog", name="Go to anything")
    options = palette.get_by_role("option")
    open_palette(page)
    page.keyboard.type("link flaky")
    session = page.get_by_role("group", name="Sessions").get_by_role("option").first
    expect(session).to_contain_text("Flaky link checker test")
    expect(session).to_contain_text("linkcheck")
    while session.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    active = palette.get_by_role("combobox").get_attribute("aria-activedescendant")
    assert session.get_attribute("id") == active
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Flaky link checker test")
    here(page)

    open_palette(page)
    expect(page.get_by_role("group", name="Recent").get_by_role("option").first).to_contain_text("Flaky link checker")
    page.keyboard.press("Escape")
    expect(palette).to_have_count(0)
    here(page)

    for typed, address in (
        ("shopfr", r"/sessions\?project=%2Fagenttrace-demo%2Fshopfront$"),
        ("sonnet 4.5", r"/sessions\?model=claude-sonnet-4-5$"),
        ("sonnet-4-5", r"/sessions\?model=claude-sonnet-4-5$"),
        ("usag", "/usage$"),
        ("new rule", r"/rules\?new=true$"),
    ):
        open_palette(page)
        page.keyboard.type(typed)
        expect(options.first).to_have_attribute("aria-selected", "true")
        # Projects and models come a moment later; until then only a search is offered.
        expect(options.first).not_to_contain_text("Search all texts")
        expect(options.first).to_contain_text(re.compile(typed.split()[0], re.IGNORECASE))
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(address))
    expect(page.get_by_role("dialog")).to_be_visible()
    page.goto("/files")
    settled(page)
    open_palette(page)
    palette.get_by_role("combobox").evaluate(TYPED_AND_ENTERED, "theme dark")
    expect(palette).to_have_count(0)
    expect(page).to_have_url(re.compile("/files$"))
    assert ground(page) < 60
    open_palette(page)
    page.keyboard.type("zzz nothing")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/sessions\?q=zzz\+nothing$"))


def test_looks(own_with_demo: running, own_visit: Visit) -> None:
    """In light and dark, at every width, in English and Chinese: nothing that axe finds, nothing too wide."""
    for language, width in (("en-US", 1280), ("en-US", 390), ("zh-CN", 1920)):
        page = own_visit.open("/sessions?errors=true", language=language, width=width)
        settled(page)
        open_palette(page)
        page.keyboard.type("e")
        expect(page.get_by_role("listbox").get_by_role("option").nth(5)).to_be_visible()
        assert problems(page) == []
        assert overflow(page) <= 0
        own_visit.leave(page)


def test_views_are_on_the_server(own_with_demo: running, own_visit: Visit) -> None:
    """What a browser kept moves to the server; another browser has it; views are renamed, shared and removed."""
    page = own_visit.open("/exports", fresh=True)
    kept = json.dumps([{"name": "Old one", "search": "state=ended"}])
    page.evaluate("(kept) => localStorage.setItem('agenttrace.saved-filters', kept)", kept)
    page.goto("/sessions?errors=true&since=last-week")
    views = page.get_by_role("group", name="Saved views")
    expect(views.get_by_role("button", name="Old one", exact=True)).to_be_visible()
    assert page.evaluate("() => localStorage.getItem('agenttrace.saved-filters')") is None
    expect(page.get_by_role("button", name=re.compile("Time"))).to_be_visible()
    views.get_by_role("button", name="Save view").press("Enter")
    page.keyboard.type("Failed lately")
    page.keyboard.press("Enter")
    saved = views.get_by_role("button", name="Failed lately", exact=True)
    expect(saved).to_have_attribute("aria-pressed", "true")

    other = own_visit.open("/sessions", fresh=True)
    settled(other)
    views = other.get_by_role("group", name="Saved views")
    views.get_by_role("button", name="Failed lately", exact=True).press("Enter")
    expect(other).to_have_url(re.compile(r"/sessions\?since=last-week&errors=true$"))
    views.get_by_role("button", name="Change or share “Failed lately”").press("Enter")
    other.get_by_role("checkbox", name="Share with all users").press("Space")
    expect(other.get_by_role("checkbox", name="Share with all users")).to_be_checked()
    other.get_by_role("button", name="Delete").press("Enter")
    expect(views.get_by_role("button", name="Failed lately", exact=True)).to_have_count(0)

    other.goto("/usage?by=model&since=yesterday&until=today")
    settled(other)
    expect(other.get_by_role("button", name=re.compile("Time")).get_by_text("Yesterday")).to_be_visible()
    other.get_by_role("group", name="Saved views").get_by_role("button", name="Save view").press("Enter")
    other.keyboard.type("Models of yesterday")
    other.keyboard.press("Enter")
    other.goto("/files")
    settled(other)
    open_palette(other)
    other.keyboard.type("models of yes")
    expect(other.get_by_role("listbox").get_by_role("option").first).to_contain_text("Models of yesterday")
    other.keyboard.press("Enter")
    expect(other).to_have_url(re.compile(r"/usage\?by=model&since=yesterday&until=today$"))
