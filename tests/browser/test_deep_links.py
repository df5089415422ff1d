"""Deep links: an address shows just the state it was copied from, in a browser that has never been here."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cli.conftest import CLAUDE

from .conftest import FAILING, Visit, key_of, running

KEY = key_of("claude-code", CLAUDE)


@pytest.fixture(scope="module")
def spans(served: running) -> list[dict[str, Any]]:
    """The spans of a session, as the command shows them."""
    found: list[dict[str, Any]] = served.program.json("show", CLAUDE)["spans"]
    return found


def again(visit: Visit, page: Page) -> Page:
    """The same address in a fresh browser."""
    return visit.open(page.url.removeprefix(visit.base))


def test_filters_of_the_list(visit: Visit) -> None:
    """Filters and order are in the address, survive in a fresh browser, and back and forward go through them."""
    page = visit.open("/sessions")
    rows = page.get_by_role("listitem").filter(has=page.locator("article"))
    expect(rows.first).to_be_visible()
    everything = rows.count()
    bar = page.get_by_role("group", name="Filters")
    bar.get_by_role("button", name="Agent").click()
    page.get_by_role("checkbox", name=re.compile("kimi-cli")).check()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("agent=kimi-cli"))
    expect(rows).to_have_count(3)
    page.get_by_role("group", name="Sort").get_by_role("button", name="Tokens").click()
    expect(page).to_have_url(re.compile("sort=tokens"))
    other = again(visit, page)
    others = other.get_by_role("listitem").filter(has=other.locator("article"))
    expect(others).to_have_count(3)
    keys = [link.get_attribute("href") for link in rows.locator("a[id^=session-]").all()]
    assert [link.get_attribute("href") for link in others.locator("a[id^=session-]").all()] == keys
    expect(other.get_by_role("group", name="Sort").get_by_role("button", name="Tokens")).to_have_attribute(
        "aria-pressed", "true"
    )
    rows.first.locator("a[id^=session-]").click()
    expect(page).to_have_url(re.compile(f"{keys[0]}$"))
    page.go_back()
    expect(page).to_have_url(re.compile("agent=kimi-cli.*sort=tokens"))
    expect(rows).to_have_count(3)
    page.go_back()
    expect(page).not_to_have_url(re.compile("sort="))
    page.go_forward()
    expect(page).to_have_url(re.compile("sort=tokens"))
    page.get_by_role("button", name="Clear filters").click()
    expect(rows).to_have_count(everything)


def test_span_and_tab(visit: Visit, spans: list[dict[str, Any]]) -> None:
    """A link to a span opens its details and brings it into view; back closes them, forward opens them."""
    span = next(each for each in spans if each["status"] == "error")
    page = visit.open(f"/sessions/{KEY}?span={span['span_id']}")
    pane = page.get_by_role("complementary", name="Span details")
    expect(pane.get_by_role("heading", level=2)).to_contain_text(span["name"].split(" ")[-1])
    current = page.locator("[role=listitem][aria-current=true]")
    expect(current).to_be_in_viewport()
    page.get_by_role("button", name="Turn 1", exact=True).click()
    expect(page).not_to_have_url(re.compile(span["span_id"]))
    page.go_back()
    expect(page).to_have_url(re.compile(span["span_id"]))
    expect(pane.get_by_role("heading", level=2)).to_contain_text(span["name"].split(" ")[-1])
    page.go_forward()
    expect(pane.get_by_role("heading", level=2)).to_contain_text("Turn")


def test_zoom_of_the_waterfall(visit: Visit) -> None:
    """The window of time is in the address, and a fresh browser shows the same window of the same view."""
    page = visit.open(f"/sessions/{KEY}?view=waterfall")
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid).to_be_visible()
    start, end = (page.get_by_role("slider", name=f"{which} of the time range") for which in ("Start", "End"))
    for _ in range(3):
        page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"from=\d+.*to=\d+"))
    zoomed = page.url
    page.keyboard.press("l")
    expect(page).not_to_have_url(zoomed)
    window = [handle.get_attribute("aria-valuenow") for handle in (start, end)]
    assert window != ["0", "100"]
    other = again(visit, page)
    expect(other.get_by_role("treegrid", name="Spans by time")).to_be_visible()
    for which, value in zip(("Start", "End"), window, strict=True):
        assert value is not None
        expect(other.get_by_role("slider", name=f"{which} of the time range")).to_have_attribute("aria-valuenow", value)
    page.get_by_role("button", name="Whole session").click()
    expect(start).to_have_attribute("aria-valuenow", "0")
    expect(end).to_have_attribute("aria-valuenow", "100")


def test_filters_of_a_session(visit: Visit) -> None:
    """Errors alone, one tool alone and hidden thinking are in the address of a session."""
    page = visit.open(f"/sessions/{key_of('agenttrace', FAILING)}?errors=true&view=waterfall")
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid.get_by_text("deploy").first).to_be_visible()
    expect(page.get_by_role("button", name="Errors", exact=True)).to_have_attribute("aria-pressed", "true")
    page.goto(f"/sessions/{KEY}?tool=Bash&view=waterfall")
    expect(page.get_by_role("combobox", name="Tool")).to_have_value("Bash")
    page.goto(f"/sessions/{KEY}?tool=never-called")
    expect(page.get_by_text("No span matches the filters")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("list", name="Conversation, in reading order")).to_be_visible()


def test_other_pages(visit: Visit) -> None:
    """Usage, files and settings have their grouping, tab and filters in the address."""
    page = visit.open("/usage?by=agent&since=all&agent=codex")
    expect(page.get_by_role("radiogroup", name="Group by").get_by_role("radio", name="Agent")).to_be_checked()
    expect(page.get_by_role("table", name="Usage by group").locator("tbody tr")).to_have_count(1)
    page.get_by_role("radio", name="Model").first.click()
    expect(page).to_have_url(re.compile("by=model"))
    assert "agent=codex" in page.url
    page.goto("/files?find=.codex")
    expect(page.get_by_role("table", name="Files").locator("tbody tr")).to_have_count(1)
    page.goto("/settings?find=serve.login&changed=")
    expect(page.get_by_role("row").filter(has_text="serve.login_hours")).to_be_visible()
    page.goto("/settings?tab=doctor")
    expect(page.get_by_role("tab", name="Health check")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Audit log").click()
    page.go_back()
    expect(page.get_by_role("tab", name="Health check")).to_have_attribute("aria-selected", "true")


def test_an_address_of_nonsense_is_a_page_all_the_same(visit: Visit) -> None:
    """Values that mean nothing are left out instead of breaking the page."""
    page = visit.enter()
    for path in (
        "/sessions?state=x&sort=y&since=zz&min_cost=-1",
        "/usage?by=x&split=y&since=z",
        "/files?state=x&tab=y",
    ):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main [role=alert]")).to_have_count(0)
        expect(page.get_by_role("table").or_(page.locator("article")).first).to_be_visible()
    page.goto(f"/sessions/{KEY}?span=0123456789abcdef&from=9&to=1&view=nonsense")
    expect(page.get_by_text("Span not found in this session")).to_be_visible()


def test_the_command_that_resumes_a_session(visit: Visit) -> None:
    """The button of a session copies the agent's own command; what it is shows on hover."""
    page = visit.open(f"/sessions/{KEY}")
    button = page.get_by_role("button", name="Copy resume command")
    command = f"cd /home/dev/work && claude --resume {CLAUDE}"
    expect(button).to_have_attribute("title", re.compile(re.escape(command)))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    button.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("window.copied") == command
