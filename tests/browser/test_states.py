"""An answer that is an error, code that is not there, a server that is away: said, and over by itself."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Route, expect

from cli.conftest import CLAUDE

from .conftest import PAGES, Visit, key_of, running, settled

DETAIL = "The harbour is closed until the tide comes in."
#: What each page is made of; a failure of it is the page's.
QUESTIONS = {
    "/": "overview",
    "/sessions": "sessions",
    "/usage": "usage",
    "/insights?tab=tools": "insights/tools",
    "/runs": "jobs",
    "/guards": "guards",
    "/cache": "cache",
    "/files": "files",
    "/exports": "exports",
    "/settings": "settings",
    "/settings?tab=doctor": "doctor",
    "/sessions/0000000000000001": "sessions/0000000000000001",
    f"/compare?a={key_of('claude-code', CLAUDE)}&b={key_of('claude-code', CLAUDE)}": "compare",
}


@pytest.mark.parametrize("status", [500, 503])
def test_an_error_is_said_and_tried_again(visit: Visit, status: int) -> None:
    """A page whose question fails shows the server's sentence, the others work, and another try shows the page."""
    page = visit.enter()
    # The pages of applications tell a server that does not run them from one that fails.
    paths = QUESTIONS if status == 500 else ("/", "/runs", "/cache")
    for path, question in ((path, QUESTIONS[path]) for path in paths):
        failing = re.compile(rf"/api/v1/{question}(\?|$)")

        def fail(route: Route) -> None:
            route.fulfill(
                status=status, content_type="application/problem+json", json={"title": "No", "detail": DETAIL}
            )

        page.route(failing, fail)
        page.goto(path)
        expect(page.get_by_text(DETAIL).first).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.unroute(failing)
        # Where applications cannot be run, there is no button: the page asks again by itself.
        again = page.get_by_role("button", name="Retry").first
        if again.is_visible():
            again.click()
        expect(page.get_by_text(DETAIL)).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_page_whose_code_cannot_be_loaded_fails_alone(visit: Visit) -> None:
    """Code that is not there any more breaks its page with a way out; the others still work."""
    page = visit.open("/exports")
    settled(page)
    page.route(re.compile(r"/assets/.*\.js"), lambda route: route.abort())
    page.get_by_role("link", name="Guards", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This page failed")
    expect(page.get_by_role("button", name="Reload")).to_be_visible()
    page.get_by_role("link", name="Exports", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
    # That the module could not be loaded is the browser's word, and right.
    own = [each for each in visit.watched.complaints if "dynamically imported module" not in each]
    visit.watched.complaints[:] = own


def test_every_page_survives_the_server(own: running, own_visit: Visit) -> None:
    """A server that goes away is said above every page; when it is back, all catch up without being loaded again."""
    own.program.log("before", {"type": "message", "ts": time.time(), "role": "user", "text": "Before the storm"})
    pages = {path: own_visit.open(path) for path in ("/", "/sessions", "/files")}
    expect(pages["/sessions"].get_by_role("link", name=re.compile("Before the storm"))).to_be_visible()
    for page in pages.values():
        settled(page)
        expect(page.locator("header [role=status]")).to_have_text("Live")
        page.evaluate("window.loaded = 'once'")
    own.stop()
    for page in pages.values():
        expect(page.get_by_text("Cannot reach AgentTrace. The page may be out of date.")).to_be_visible()
        expect(page.locator("header [role=status]")).to_have_text("Offline")
    # What is there can still be read, and a page that was not open yet says why it cannot be shown.
    expect(pages["/sessions"].get_by_role("link", name=re.compile("Before the storm"))).to_be_visible()
    own.program.log("during", {"type": "message", "ts": time.time(), "role": "user", "text": "During the storm"})
    own.start()
    for page in pages.values():
        expect(page.locator("header [role=status]")).to_have_text("Live")
        expect(page.get_by_text("Cannot reach AgentTrace")).to_have_count(0)
    for path in ("/", "/sessions"):
        expect(pages[path].get_by_role("link", name=re.compile("During the storm"))).to_be_visible()
    expect(pages["/files"].get_by_title(re.compile("during.jsonl")).first).to_be_visible()
    for page in pages.values():
        assert page.evaluate("window.loaded") == "once"


def test_pages_opened_while_the_server_is_away(own: running, own_visit: Visit) -> None:
    """Going on to another page without a server shows that page's name and what is wrong, and it recovers, too."""
    page = own_visit.open("/exports")
    for title in PAGES.values():
        page.get_by_role("link", name=title, exact=True).first.click()
        settled(page)
    own.stop()
    expect(page.locator("header [role=status]")).to_have_text("Offline")
    page.evaluate("window.loaded = 'once'")
    page.get_by_role("link", name="Usage", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
    own.start()
    expect(page.locator("header [role=status]")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.evaluate("window.loaded") == "once"
