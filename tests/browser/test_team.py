"""A team's server in a browser: who works on what, the page Team, columns and filters; and none of it elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import Visit, overflow, running, settled, turn_to, visiting
from .test_looks import problems


@pytest.fixture
def own_visit(browser: Browser, teamed: running) -> Iterator[Visit]:
    """A visitor of the server of a team."""
    yield from visiting(browser, teamed)


def _rows(page: Page, table: str) -> list[str]:
    return page.get_by_role("table", name=table).locator("tbody tr").all_inner_texts()


def test_the_page_of_the_team(own_visit: Visit) -> None:
    """Reached by the navigation and by keys: who works on what, then persons and machines with their figures."""
    page = own_visit.open("/sessions")
    settled(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Team Checkout", level=1)).to_be_visible()
    settled(page)
    expect(page.get_by_role("navigation").get_by_role("link", name="Team").first).to_have_attribute(
        "aria-current", "page"
    )
    amy = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="amy"))
    expect(amy.get_by_role("link")).to_have_text(
        ["Repair the login form", "Speed up the nightly report", "Cache the prices"]
    )
    expect(amy).to_contain_text("laptop-amy · shop")
    persons, machines = _rows(page, "Persons"), _rows(page, "Machines")
    assert [re.split(r"\s", row.strip())[0] for row in persons] == ["amy", "ben", "陈晨", "no"]
    assert len(machines) == 5
    assert "1.10M" in persons[0]
    assert [*problems(page), overflow(page)] == [0]
    page.get_by_role("table", name="Machines").get_by_role("link", name="laptop-ben").click()
    expect(page).to_have_url(re.compile("/sessions\\?machine=laptop-ben"))
    expect(page.locator("article")).to_have_count(1)


def test_columns_and_filters_of_the_list(own_visit: Visit) -> None:
    """Person and machine stand in every row and in the filters; the session says where it was recorded."""
    page = own_visit.open("/sessions")
    settled(page)
    expect(page.get_by_text("Person, machine")).to_be_visible()
    row = page.locator("article").filter(has_text="Track parcels")
    expect(row).to_contain_text("ben")
    expect(row).to_contain_text("laptop-ben")
    filters = page.get_by_role("group", name="Filters")
    filters.get_by_role("button", name="Person").click()
    page.get_by_role("checkbox", name=re.compile("^amy")).check()
    expect(page).to_have_url(re.compile("person=amy"))
    expect(page.locator("article")).to_have_count(3)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Repair the login form").click()
    expect(page.get_by_text("on laptop-amy by amy")).to_be_visible()


def test_groups_of_usage_and_insights(own_visit: Visit) -> None:
    """Usage by person and tools by machine."""
    page = own_visit.open("/usage?by=person&since=all")
    settled(page)
    expect(page.get_by_role("table", name="Usage by group")).to_contain_text("陈晨")
    page.get_by_role("table", name="Usage by group").get_by_role("link", name="amy").click()
    expect(page).to_have_url(re.compile("person=amy"))
    turn_to(page, "/insights?tab=tools&by=machine&since=all")
    expect(page.get_by_role("table", name="Tools")).to_contain_text("desktop-amy")


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_narrow_screens_and_the_overview(own_visit: Visit, language: str) -> None:
    """The card stands on the overview, and nothing is wider than a phone."""
    page = own_visit.open("/", width=390, height=844, language=language)
    settled(page)
    title = {"en-US": "Who works on what now", "zh-CN": "谁正在做什么"}[language]
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    assert [*problems(page), overflow(page)] == [0]
    for path in ("/team", "/sessions"):
        turn_to(page, path)
        assert [*problems(page), overflow(page)] == [0]


def test_a_machine_of_its_own_shows_no_team(visit: Visit) -> None:
    """No page in the navigation, no column, no filters, no groups."""
    page = visit.open("/sessions")
    settled(page)
    expect(page.get_by_role("navigation").get_by_role("link", name="Team")).to_have_count(0)
    expect(page.get_by_text("Person, machine")).to_have_count(0)
    expect(page.get_by_role("group", name="Filters").get_by_role("button", name="Person")).to_have_count(0)
    turn_to(page, "/usage")
    expect(page.get_by_role("radio", name="Person").or_(page.get_by_role("button", name="Person"))).to_have_count(0)
    turn_to(page, "/team")
    expect(page.get_by_text("No machine has sent anything yet")).to_be_visible()
