"""What fits where: nothing is cut, broken or alone on a line at the widths of a small laptop and a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import FloatRect, Locator, Page, ViewportSize, expect

from .conftest import FAILING, Visit, key_of, overflow, settled

SESSION = f"/sessions/{key_of('agenttrace', FAILING)}"
PHONE: ViewportSize = {"width": 390, "height": 844}
#: Elements whose text is wider than they are.
CUT = "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"
#: Elements whose text is on several lines.
BROKEN = """cells => cells.filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((box) => Math.round(box.bottom / 4))).size > 1;
}).map((cell) => cell.textContent)"""
#: How many lines the boxes below an element make up: boxes of one line overlap from top to bottom.
LINES = """element => {
  let [lines, bottom] = [0, -Infinity];
  const boxes = [...element.children].map((child) => child.getBoundingClientRect()).filter((box) => box.width > 0);
  for (const { top, bottom: end } of boxes.sort((one, other) => one.top - other.top)) {
    if (top >= bottom - 1) lines += 1;
    bottom = Math.max(bottom, end);
  }
  return lines;
}"""


def lines(element: Locator) -> int:
    found: int = element.evaluate(LINES)
    return found


def opened(visit: Visit) -> Page:
    """A session with many figures."""
    page = visit.open("/sessions?agent=claude-code")
    page.locator("a[id^=session-]").first.click()
    settled(page)
    return page


def test_the_header_of_a_session(visit: Visit) -> None:
    """Its figures are on one line on a laptop, its actions on a phone; the words in its search are whole."""
    page = opened(visit)
    assert lines(page.get_by_role("group", name="View and filters")) == 1
    figures = page.locator("dl", has=page.get_by_text("duration", exact=True)).first
    assert lines(figures) == 1
    needed = page.locator("#session-search").evaluate(
        """input => {
          const style = getComputedStyle(input);
          const pen = document.createElement("canvas").getContext("2d");
          pen.font = style.font;
          const room = input.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
          return pen.measureText(input.placeholder).width - room;
        }"""
    )
    assert needed <= 0
    page.set_viewport_size(PHONE)
    actions = page.get_by_role("navigation", name="Other sessions").locator("xpath=..")
    assert lines(actions) == 1
    assert overflow(page) <= 0


def test_the_bar_of_a_replay(visit: Visit) -> None:
    """One line, also where nothing runs."""
    page = opened(visit)
    page.get_by_role("button", name="Replay", exact=True).click()
    assert lines(page.get_by_role("group", name="Replay of the session")) == 1


def test_what_can_be_copied_looks_different(visit: Visit) -> None:
    """Beside each other, each thing that is copied has a drawing of its own."""
    page = opened(visit)
    expect(page.get_by_role("button", name="Copy resume command")).to_be_visible()
    drawn = page.get_by_role("button", name=re.compile("^Copy")).locator("svg path")
    paths = [path.get_attribute("d") for path in drawn.all()[:3]]
    assert len(set(paths)) == 3


def test_the_list_of_sessions(visit: Visit) -> None:
    """Rows are as wide as the names of their columns and the list; the filters are on one line."""
    page = visit.open("/sessions")
    settled(page)
    right = "element => element.getBoundingClientRect().right"
    row = page.get_by_role("listitem").filter(has=page.locator("article")).first
    scroller = row.locator("xpath=ancestor::*[@role='group'][1]")
    end = scroller.evaluate("element => element.getBoundingClientRect().left + element.clientWidth")
    assert row.evaluate(right) == pytest.approx(end, abs=1)
    assert page.get_by_role("group", name="Sort").evaluate(right) == pytest.approx(end, abs=1)
    assert lines(page.get_by_role("group", name="Filters")) == 1


def test_the_requests_of_a_session(visit: Visit) -> None:
    """No cell is broken within a word, and columns that say the same of each call are not there."""
    page = visit.open(f"{SESSION}?tab=requests")
    table = page.get_by_role("table", name="Model calls and their context")
    expect(table).to_be_visible()
    assert table.locator("tbody td").evaluate_all(BROKEN) == []
    names = table.get_by_role("columnheader").all_inner_texts()
    assert "Known from" not in names
    expect(page.get_by_text("Known from:").first).to_be_visible()


def test_long_tables_on_a_phone(visit: Visit) -> None:
    """A few cards first, the others with a button; on wide screens all rows at once."""
    page = visit.open("/settings")
    settled(page)
    rows = page.get_by_role("table").first.locator("tbody tr")
    expect(rows.nth(10)).to_be_visible()
    count = rows.count()
    page.set_viewport_size(PHONE)
    expect(rows).to_have_count(10)
    page.get_by_role("button", name=f"{count - 10} more").click()
    expect(rows).to_have_count(count)


def test_figures_of_projects_on_a_phone(visit: Visit) -> None:
    """Tokens and cost are whole; it is names that are cut."""
    page = visit.open("/", **PHONE)
    table = page.get_by_role("table", name="Top projects")
    expect(table.locator("tbody tr").first).to_be_visible()
    assert table.locator("tbody td:not([aria-hidden])").evaluate_all(CUT) == []


def test_the_overview_on_a_large_screen(visit: Visit) -> None:
    """Three columns, which are those of the periods above them, and end together; on a laptop two."""
    page = visit.open("/", width=1920, height=1080)
    expect(page.get_by_role("region", name="Tools that fail most")).to_be_visible()
    column = {
        name: box(page, name) for name in ("Needs you", "Activity", "Working now", "Top projects", "Last 30 days")
    }
    column |= {name: box(page, name) for name in ("Today", "This week", "This month", "Tools that fail most")}
    tops = [("Today", "Needs you", "Activity"), ("This week", "Working now", "Top projects")]
    for names in (*tops, ("This month", "Last 30 days", "Tools that fail most")):
        assert len({round(column[name]["x"]) for name in names}) == 1
    ends = {
        round(column[name]["y"] + column[name]["height"])
        for name in ("Activity", "Top projects", "Tools that fail most")
    }
    assert len(ends) == 1
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_role("region", name="Activity")).to_be_visible()
    assert box(page, "Last 30 days")["x"] == box(page, "Needs you")["x"]


def box(page: Page, name: str) -> FloatRect:
    found = page.get_by_role("region", name=name, exact=True).bounding_box()
    assert found is not None
    return found


def test_filters_of_runs_on_a_phone(visit: Visit) -> None:
    """Behind one button, which says how many are set; on wide screens beside each other."""
    page = visit.open("/runs", **PHONE)
    settled(page)
    expect(page.get_by_role("combobox", name="Status")).to_have_count(0)
    page.get_by_role("button", name="Filters", exact=True).click()
    drawer = page.get_by_role("dialog", name="Filters")
    drawer.get_by_role("combobox", name="Status").select_option("failed")
    expect(page).to_have_url(re.compile("status=failed"))
    drawer.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_role("combobox", name="Status")).to_have_value("failed")
