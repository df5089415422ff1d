"""Downloads: files with sensible names, whole, and harmless when they are opened."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cli.conftest import CLAUDE

from .conftest import Visit, Watched, key_of, overflow, running, settled
from .test_looks import problems


def shared(page: Page) -> Locator:
    """The dialog, when its preview is there."""
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share this session")
    expect(dialog.get_by_role("status")).to_contain_text("masked")
    return dialog


def saved(visit: Visit, name: str, tmp_path: Path) -> Path:
    """A session, saved as this format, under the name that the browser was told."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}")
    settled(page)
    dialog = shared(page)
    dialog.get_by_role("radio", name=name).click()
    with page.expect_download() as waiting:
        dialog.get_by_role("link", name="Save").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


@pytest.mark.parametrize(("name", "ending"), [("HTML", "html"), ("Markdown", "md"), ("JSON Lines", "jsonl")])
def test_a_session_is_saved(visit: Visit, served: running, tmp_path: Path, name: str, ending: str) -> None:
    """Each format arrives whole, named after its session, with every prompt and tool in it."""
    path = saved(visit, name, tmp_path)
    assert re.fullmatch(rf"[\w.-]+\.{ending}", path.name), path.name
    assert CLAUDE[:8] in path.name
    text = path.read_text(encoding="utf-8")
    shown = served.program.json("show", CLAUDE)
    assert "SCENARIO parallel please" in text
    assert all(span["name"].removeprefix("execute_tool ") in text for span in shown["spans"] if span["kind"] == "tool")
    if ending == "jsonl":
        assert len([json.loads(line) for line in text.splitlines()]) == shown["session"]["events"]


def test_what_is_masked_is_shown_before(visit: Visit) -> None:
    """The dialog counts what is masked by kind and shows the places; its options change the file and the preview."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}")
    settled(page)
    dialog = shared(page)
    save = dialog.get_by_role("link", name="Save")
    expect(save).to_have_attribute("href", re.compile(r"/export\?format=html$"))
    expect(dialog.get_by_text("Nothing had to be masked.")).to_be_visible()
    dialog.get_by_label("Hide names of users in paths").check()
    expect(save).to_have_attribute("href", re.compile(r"hide_paths=true"))
    kind = dialog.locator("summary", has_text="user")
    expect(kind).to_be_visible()
    kind.click()
    expect(dialog.locator("mark").first).to_have_text("[masked:user]")
    assert problems(page) == []
    dialog.get_by_label("Tool calls").uncheck()
    expect(save).to_have_attribute("href", re.compile(r"tools=false"))
    dialog.get_by_label("Include secrets").check()
    expect(dialog.get_by_text("The download is written to the audit log.")).to_be_visible()
    expect(save).to_have_attribute("href", re.compile(r"full=true"))
    expect(dialog.locator("mark")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) <= 0


def test_the_html_file_is_harmless(visit: Visit, browser: Browser, tmp_path: Path) -> None:
    """Opened from the disk it shows the session, runs no script, loads nothing and is not wider than a phone."""
    path = saved(visit, "HTML", tmp_path)
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    watched = Watched()
    watched.watch(page, "nothing at all")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    expect(page.get_by_role("heading", level=1)).to_contain_text("SCENARIO parallel please")
    assert asked == [path.as_uri()]
    assert watched.complaints == []
    assert page.locator("script, iframe, object, embed, link, [src], [onload], [onerror]").count() == 0
    page.emulate_media(media="print")
    expect(page.locator("pre.result").first).to_be_visible()
    page.emulate_media(media="screen")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert problems(page) == []
    context.close()


def test_usage_is_saved_as_csv(visit: Visit, served: running, tmp_path: Path) -> None:
    """The table of usage arrives as CSV with the same groups and sums as the page's question."""
    page = visit.open("/usage?by=model&since=all")
    settled(page)
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    assert re.fullmatch(r"[\w.-]*usage[\w.-]*\.csv", path.name), path.name
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    usage = served.program.json("usage", "--by", "model")
    counted = {row["model"]: int(row["output_tokens"]) for row in rows if row.get("model") not in ("", "total")}
    assert counted == {row["model"]: row["output_tokens"] for row in usage["rows"]}
