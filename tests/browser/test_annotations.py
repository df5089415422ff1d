"""Notes, scores, labels and the star of a session in a browser: written, seen elsewhere at once, filtered by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from cli.conftest import CLAUDE, KIMI_CODE

from .conftest import Databases, Visit, key_of, new_user, overflow, running, settled
from .test_looks import problems


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """Recorded sessions, served to this module alone."""
    program = new_user(tmp_path_factory, databases)
    program.use_fixtures()
    program.run("record", "--once")
    with running(program) as found:
        yield found


PAGE = f"/sessions/{key_of('claude-code', CLAUDE)}"


def test_what_people_write_beside_a_session(own: running, own_visit: Visit) -> None:
    """Star, label, note and score by mouse and keyboard; the command sees them, and the page what the command wrote."""
    page = own_visit.open(PAGE)
    settled(page)
    page.get_by_role("button", name="Star", exact=True).click()
    expect(page.get_by_role("button", name="Starred")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Label", exact=True).click()
    page.get_by_role("textbox", name="Name of the label").fill("needs review")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove the label needs review")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("n")
    drawer = page.get_by_role("dialog", name="Notes")
    drawer.get_by_label("Write a note").fill("the retry loop\nwas wrong <b>here</b>")
    drawer.get_by_role("button", name="Add note").click()
    expect(drawer.get_by_text("was wrong <b>here</b>")).to_be_visible()
    drawer.get_by_label("What is scored").fill("quality")
    drawer.get_by_label("Number").fill("2.5")
    drawer.get_by_role("button", name="Add score").click()
    expect(drawer.get_by_text("quality = 2.5")).to_be_visible()
    assert problems(page) == []
    drawer.get_by_role("button", name="Edit").click()
    drawer.get_by_role("textbox", name="Edit").fill("another text")
    drawer.get_by_role("button", name="Save").click()
    expect(drawer.get_by_text("another text")).to_be_visible()
    page.keyboard.press("Escape")
    written = own.program.json("note", CLAUDE)["annotations"]
    assert {(each["kind"], each["name"], each["value"], each["text"]) for each in written} == {
        ("star", None, None, None),
        ("label", "needs review", None, None),
        ("note", None, None, "another text"),
        ("score", "quality", 2.5, None),
    }
    own.program.run("label", CLAUDE, "from-the-command")
    expect(page.get_by_role("button", name="Remove the label from-the-command")).to_be_visible()
    own.program.run("label", CLAUDE, "from-the-command", "--remove")
    expect(page.get_by_role("button", name="Remove the label from-the-command")).to_have_count(0)
    assert problems(page) == []
    page.locator("h1").click()
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="Star", exact=True)).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Remove the label needs review").click()
    expect(page.get_by_role("button", name="Remove the label needs review")).to_have_count(0)
    assert [each["kind"] for each in own.program.json("note", CLAUDE)["annotations"]] == ["note", "score"]


def test_the_list_shows_and_filters_them(own: running, own_visit: Visit) -> None:
    own.program.run("star", KIMI_CODE)
    own.program.run("label", KIMI_CODE, "bug", "a-very-long-label-that-does-not-fit-into-the-row-of-the-list")
    page = own_visit.open("/sessions")
    settled(page)
    row = page.get_by_role("article").filter(has=page.locator(f"#session-{key_of('kimi-code', KIMI_CODE)}"))
    expect(row.get_by_role("img", name="Starred")).to_be_visible()
    expect(row.get_by_text("bug")).to_be_visible()
    assert problems(page) == []
    page.get_by_role("button", name="Starred", exact=True).click()
    expect(page.get_by_role("article")).to_have_count(1)
    page.get_by_role("button", name="Label", exact=False).first.click()
    page.get_by_role("checkbox", name="bug").first.check()
    expect(page.get_by_role("article")).to_have_count(1)
    assert "starred=true" in page.url
    assert "label=bug" in page.url
    page.keyboard.press("Escape")
    own.program.run("score", KIMI_CODE, "speed", "3")
    page.goto(f"{own.url}/sessions")
    page.get_by_role("button", name="Score", exact=True).click()
    page.get_by_label("Name").select_option("speed")
    page.get_by_label("Comparison").select_option(">=")
    page.get_by_role("spinbutton", name="Number").fill("3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_have_count(1)
    assert "score=speed%3E%3D3" in page.url
    assert problems(page) == []
    page.get_by_role("button", name="Remove speed ≥ 3").click()
    expect(page.get_by_role("article")).not_to_have_count(1)
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 844})
    settled(page)
    assert overflow(page) <= 0


def test_chinese(own_visit: Visit) -> None:
    page = own_visit.open(PAGE, language="zh-CN")
    settled(page)
    expect(page.get_by_role("button", name="加星标")).to_be_visible()
