"""The page of destinations: what became of every span, and everything that can be done about it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cli.collector import Collector, collecting
from cli.conftest import Program, eventually

from .conftest import Databases, Visit, new_user, overflow, running, settled, visiting
from .test_actions import confirm
from .test_keyboard import here
from .test_looks import problems

#: Spans of which nobody knows whether they arrived.
UNKNOWN = 3
NAMES = ("looked-at", "acted-on")


def table(name: str, url: str) -> str:
    return f'[destinations.{name}]\ntype = "otlp"\nurl = "{url}"\nstart = "all"\n'


@pytest.fixture(scope="module")
def there() -> Iterator[Collector]:
    """Somebody to send to."""
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def sending(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser, there: Collector
) -> Iterator[running]:
    """Two destinations that have refused everything but three spans, which are unknown, and one that is not there."""
    program = new_user(tmp_path_factory, databases)
    program.use_fixtures()
    file = program.home / "agenttrace.toml"
    file.write_text("".join(table(name, there.url) for name in NAMES))
    program.run("record", "--once")
    there.manner = "refuse"
    program.run("export", "run", "--once", code=1)
    there.manner = "take"
    with closing(sqlite3.connect(program.home / "agenttrace.db")) as connection, connection:
        for number in (1, 2):
            connection.execute(
                "UPDATE export_spans SET state = 'unknown', answer = 'it hung up' WHERE queue_no IN "
                "(SELECT queue_no FROM export_spans WHERE destination_id = ? ORDER BY queue_no LIMIT ?)",
                (number, UNKNOWN),
            )
    file.write_text(file.read_text() + table("gone", "http://127.0.0.1:1"))
    with running(program) as found:
        yield found


@pytest.fixture
def look(browser: Browser, sending: running) -> Iterator[Visit]:
    """A visitor; on this machine that is an admin."""
    yield from visiting(browser, sending)


def card(page: Page, name: str) -> Locator:
    """What the page shows of one destination."""
    return page.get_by_role("region", name=name, exact=True)


def status(program: Program, name: str) -> dict[str, Any]:
    found: dict[str, Any] = program.json("export", "status", name)
    return found


def figure(where: Locator, state: str) -> Locator:
    return where.get_by_role("listitem").filter(has_text=re.compile(rf"^{state} [\d,]+$"))


def test_the_figures_are_those_of_the_ledger(look: Visit, sending: running) -> None:
    """Each destination with its state, its counts and why it waits, as the command line has them."""
    page = look.open("/exports")
    known = status(sending.program, "looked-at")
    assert known["refused"] > 20
    where = card(page, "looked-at")
    expect(figure(where, "Refused")).to_have_text(f"Refused {known['refused']}")
    expect(figure(where, "Unknown")).to_have_text(f"Unknown {UNKNOWN}")
    expect(where).to_contain_text("up to date")
    expect(where.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(f"Refused {known['refused']}, Unknown {UNKNOWN}")
    )
    gone = card(page, "gone")
    expect(gone).to_contain_text(re.compile(r"waiting\s*next retry at \d\d:\d\d:\d\d"))
    expect(figure(gone, "Queued")).to_have_text(f"Queued {known['refused'] + UNKNOWN}")
    expect(gone).to_contain_text("127.0.0.1:1")


def test_a_span_leads_to_its_place_in_its_session(look: Visit) -> None:
    """The list of refused spans has the destination's answer, is in the address, and leads to the span itself."""
    page = look.open("/exports")
    where = card(page, "looked-at")
    where.get_by_role("button", name="Show", exact=True).first.click()
    expect(page).to_have_url(re.compile(r"of=looked-at&state=refused"))
    rows = where.get_by_role("table", name="Refused: spans of looked-at").locator("tbody tr")
    expect(rows.first).to_contain_text("these are no good")
    link = rows.get_by_role("link").first
    target = link.get_attribute("href")
    page.reload()
    expect(rows.first).to_be_visible()
    link.click()
    assert target is not None
    span = target.partition("span=")[2]
    expect(page).to_have_url(re.compile(rf"/sessions/[0-9a-f]{{16}}\?.*span={span}"))
    expect(page.get_by_role("complementary", name="Span details")).to_be_visible()
    page.go_back()
    expect(rows.first).to_be_visible()
    where.get_by_role("button", name="Close the list").click()
    expect(rows).to_have_count(0)


def test_everything_that_can_be_done(look: Visit, sending: running, there: Collector) -> None:
    """Paused and resumed; refused spans sent again; unknown ones noted down as arrived; each once in the audit log."""
    page = look.open("/exports")
    where = card(page, "acted-on")
    where.get_by_role("button", name="Pause").click()
    expect(where).to_contain_text("paused")
    where.get_by_role("button", name="Resume").click()
    expect(where).not_to_contain_text("paused")
    refused = status(sending.program, "acted-on")["refused"]
    before = there.spans.total()
    where.get_by_role("button", name="Send again").first.click()
    expect(page.get_by_text(f"{refused} spans queued again")).to_be_visible()
    expect(figure(where, "Acknowledged")).to_have_text(f"Acknowledged {refused}")
    eventually(lambda: there.spans.total() == before + refused, "the spans to arrive")
    where.get_by_role("button", name="Mark as delivered").click()
    confirm(page, "Mark as delivered")
    expect(figure(where, "Acknowledged")).to_have_text(f"Acknowledged {refused + UNKNOWN}")
    expect(where.get_by_role("button", name="Mark as delivered")).to_have_count(0)
    assert there.spans.total() == before + refused
    told = [row["action"] for row in sending.program.json("user", "audit") if row["target"].startswith("acted-on")]
    assert sorted(told) == ["export.accept", "export.pause", "export.resume", "export.retry"]


def test_earlier_turns(look: Visit, sending: running) -> None:
    """A day or everything can be chosen; the page says how many turns are looked at; Escape changes nothing."""
    page = look.open("/exports")
    opener = card(page, "gone").get_by_role("button", name="Backfill…")
    opener.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Since")).to_have_value(re.compile(r"\d{4}-\d\d-\d\d"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    opener.click()
    dialog.get_by_label("Everything recorded").check()
    expect(dialog.get_by_label("Since")).to_be_disabled()
    dialog.get_by_role("button", name="Backfill").click()
    expect(page.get_by_text(re.compile(r"\d+ turns checked"))).to_be_visible()
    expect(dialog).to_have_count(0)
    assert len([row for row in sending.program.json("user", "audit") if row["action"] == "export.backfill"]) == 1


def test_by_keys_alone(look: Visit) -> None:
    """Every control is reached in order, one always sees where one is, and a number opens its list."""
    page = look.open("/exports")
    settled(page)
    unknown = figure(card(page, "looked-at"), "Unknown").get_by_role("button")
    unknown.focus()
    here(page)
    page.keyboard.press("Enter")
    expect(unknown).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("table", name="Unknown: spans of looked-at").locator("tbody tr")).to_have_count(UNKNOWN)
    for _ in range(12):
        page.keyboard.press("Tab")
        here(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_looks(look: Visit, width: int) -> None:
    """With everything open axe finds nothing serious in light or dark, and nothing is too wide; Chinese is Chinese."""
    page = look.enter(width=width, height=844)
    page.goto("/exports?of=looked-at&state=refused")
    settled(page)
    expect(page.get_by_role("table")).to_be_visible()
    assert problems(page) == []
    assert overflow(page) <= 0
    card(page, "looked-at").get_by_role("button", name="Backfill…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert problems(page) == []
    chinese = look.open("/exports", width=width, language="zh-CN")
    expect(chinese.get_by_role("heading", level=1)).to_have_text("导出")
    expect(card(chinese, "looked-at")).to_contain_text("被拒绝")
    assert overflow(chinese) <= 0


def test_nothing_is_configured(own_visit: Visit, own: running) -> None:
    """The page shows what to write and into which file, to be copied; nothing is too wide."""
    page = own_visit.open("/exports", width=390, height=844)
    expect(page.get_by_text("No destination is configured")).to_be_visible()
    expect(page.get_by_text(str(own.home / "agenttrace.toml"))).to_be_visible()
    expect(page.get_by_role("group", name="Example of destinations")).to_contain_text("[destinations.phoenix]")
    page.get_by_role("button", name="Copy the example").click()
    assert overflow(page) <= 0
