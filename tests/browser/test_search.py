"""Search: English and Chinese words are found, marked, and lead to the span that says them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .conftest import CHINESE, DARK, DELIVERED, FAILING, Visit, key_of, settled

WORDS = [
    pytest.param("lighthouse", FAILING, DARK, id="english"),
    pytest.param("配送", CHINESE, DELIVERED, id="chinese"),
]


@pytest.mark.parametrize(("word", "session", "text"), WORDS)
def test_search_leads_to_the_span(visit: Visit, word: str, session: str, text: str) -> None:
    """From any page, what is typed into the search is found in texts, marked, and opened at its span by one click."""
    page = visit.open("/exports")
    settled(page)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search all sessions")).to_be_focused()
    page.keyboard.type(word)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/sessions\?q="))
    hit = page.locator(f"a[href^='/sessions/{key_of('agenttrace', session)}?span=']").first
    expect(hit.locator("mark")).to_have_text(word)
    hit.click()
    expect(page).to_have_url(re.compile(rf"/sessions/{key_of('agenttrace', session)}\?span=[0-9a-f]{{16}}"))
    pane = page.get_by_role("complementary", name="Span details")
    expect(pane).to_contain_text(text)
    page.go_back()
    expect(page.get_by_role("searchbox", name="Search all sessions")).to_have_value(word)
    expect(hit.locator("mark")).to_have_text(word)


@pytest.mark.parametrize(("word", "session", "text"), WORDS)
def test_search_within_a_session(visit: Visit, word: str, session: str, text: str) -> None:
    """Inside a session its own hits are listed, marked, and open the span; closing the search clears the address."""
    page = visit.open(f"/sessions/{key_of('agenttrace', session)}")
    settled(page)
    page.keyboard.press("f")
    page.keyboard.type(word)
    hits = page.get_by_role("region", name="Matches")
    expect(hits.locator("mark").first).to_have_text(word)
    expect(page).to_have_url(re.compile("q="))
    hits.get_by_role("listitem").first.get_by_role("button").click()
    expect(page.get_by_role("complementary", name="Span details")).to_contain_text(text)
    page.get_by_role("button", name="Close search").click()
    expect(hits).to_have_count(0)
    assert "q=" not in page.url


def test_titles_are_found_as_they_are_typed(visit: Visit) -> None:
    """On the page of sessions titles follow the typing, marked, and what nobody said is said to be nowhere."""
    page = visit.open("/sessions")
    box = page.get_by_role("searchbox", name="Search all sessions")
    box.press_sequentially("HARBOUR")
    link = page.locator(f"#session-{key_of('agenttrace', FAILING)}")
    expect(link.locator("mark")).to_have_text("harbour")
    box.fill("包裹到哪")
    expect(page.locator(f"#session-{key_of('agenttrace', CHINESE)}").locator("mark")).to_have_text("包裹到哪")
    box.fill("zyzzyva")
    expect(page.get_by_text("No text contains these words")).to_be_visible()
    box.fill("")
    expect(page.locator(f"#session-{key_of('agenttrace', FAILING)}")).to_be_visible()
    chinese = visit.open("/sessions?q=HARBOUR", language="zh-CN")
    expect(chinese.get_by_text("1 个会话标题匹配", exact=True)).to_be_visible()
