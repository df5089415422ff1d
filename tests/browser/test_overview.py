"""The overview and the usage page by keyboard, on a wide screen, and with the periods that people ask for."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from cli.conftest import Program

from .conftest import Visit, overflow, running, settled, turn_to
from .test_looks import problems

TOOLS = {
    "items": [
        {"tool": "Bash", "calls": 40, "failures": 10, "failure_rate": 0.25, "p50_ms": 120.0, "p95_ms": 4200.0},
        {"tool": "Read", "calls": 40, "failures": 0, "failure_rate": 0.0, "p50_ms": 1.0, "p95_ms": None},
    ]
}


def _cell(page: Page) -> str:
    """What the cell with the focus says."""
    label: str = page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")
    return label


def test_the_activity_by_keyboard(visit: Visit, served: running) -> None:
    """One cell takes the Tab key, arrows move by hour and day, and Enter opens the sessions of an hour."""
    program: Program = served.program
    days = program.json("overview")["activity"]
    number, hour = next(
        (place, hour) for place, day in enumerate(days) for hour, count in enumerate(day["hours"]) if count
    )
    page = visit.open("/")
    settled(page)
    grid = page.get_by_role("grid", name="Responses by day and hour, last 4 weeks")
    expect(grid.locator("[tabindex='0']")).to_have_count(1)
    grid.locator("[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageUp")
    assert "00:00–01:00: " in _cell(page)
    for _ in range(number):
        page.keyboard.press("ArrowRight")
    for _ in range(hour):
        page.keyboard.press("ArrowDown")
    count = days[number]["hours"][hour]
    assert _cell(page).endswith("1 response" if count == 1 else f"{count:,} responses")
    expect(grid.locator("[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/sessions\\?since={days[number]['day']}T{hour:02d}"))
    expect(page.get_by_role("listitem").filter(has=page.locator("article")).first).to_be_visible()


def test_tools_that_fail_most(visit: Visit) -> None:
    """Those with failures are listed with their rate; without an answer there is nothing."""
    page = visit.enter(width=1920, height=1080, fresh=True)
    page.route("**/api/v1/insights/tools?*", lambda route: route.fulfill(json=TOOLS))
    page.goto("/")
    settled(page)
    rows = page.get_by_role("table", name="Tools that fail most").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text(re.compile("Bash.*25%.*10.*40.*4.2 s", re.DOTALL))
    assert [*problems(page), overflow(page)] == [0]


def test_periods_that_people_ask_for(visit: Visit) -> None:
    """Presets stay relative in the address, projects keep the split by model, and totals are seen without scrolling."""
    page = visit.open("/usage", width=1920, height=900)
    settled(page)
    for name, search in (
        ("Last month", "since=last-month&until=this-month"),
        ("Yesterday", "since=yesterday&until=today"),
        ("This week", "since=this-week"),
        ("All time", "since=all"),
    ):
        page.get_by_role("button", name=re.compile("^Time")).click()
        page.get_by_role("radiogroup", name="Time").get_by_role("radio", name=name).click()
        expect(page).to_have_url(re.compile(re.escape(search)))
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name=re.compile(f"^Time.*{name}"))).to_be_visible()
    page.get_by_role("radio", name="Project").click()
    expect(page.get_by_role("combobox", name="Split by")).to_have_value("model")
    settled(page)
    total = page.locator("dl > div:has(> dt:text-is('Cost')) > dd").first
    box = total.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 450
    page.get_by_role("checkbox", name="Show parts").check()
    parts = page.get_by_role("table", name="Usage by group").locator("bdi[title]")
    expect(parts.first).to_be_visible()
    named = {part.get_attribute("title"): part.inner_text() for part in parts.all()}
    assert named
    assert all(named.values())
    assert overflow(page) <= 0
    turn_to(page, "/usage?by=model&since=all")
    assert [*problems(page), overflow(page)] == [0]
