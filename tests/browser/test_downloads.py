"""Downloads: files with sensible names, whole, and harmless when they are opened."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from cli.conftest import CLAUDE

from .conftest import Visit, Watched, key_of, running, settled


def saved(visit: Visit, name: str, tmp_path: Path) -> Path:
    """A session, downloaded by a click on this entry of the menu, under the name that the browser was told."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}")
    settled(page)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("link", name=name).click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


@pytest.mark.parametrize(("name", "ending"), [("HTML", "html"), ("Markdown", "md"), ("JSON lines", "jsonl")])
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


def test_secrets_are_masked_unless_somebody_asks(visit: Visit) -> None:
    """The menu says so, and offers the other file to an admin, who works on this machine."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}")
    settled(page)
    page.get_by_role("button", name="Export").click()
    link = page.get_by_role("link", name="Markdown")
    expect(page.get_by_text("Secrets are masked.")).to_be_visible()
    expect(link).to_have_attribute("href", re.compile(r"format=md$"))
    page.get_by_label("Include secrets").check()
    expect(page.get_by_text("The download is written to the audit log.")).to_be_visible()
    expect(link).to_have_attribute("href", re.compile(r"format=md&full=true$"))


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
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
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
