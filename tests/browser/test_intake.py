"""Spans that a program sends are on the screen: live, in their session, with what they say and what they are."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from .conftest import Visit, key_of, overflow, running, settled

TRACE = "5b8efff798038103d269b633813fc60c"
TALK = "talk about shoes"
ASKED, ANSWER = "Any shoes in blue?", "Two pairs, both in 43."


def span(number: int, parent: int | None, name: str, second: float, **attributes: Any) -> dict[str, Any]:  # noqa: ANN401 - anything
    """A span in OTLP's JSON; dots in the names of attributes are written as two underscores."""
    begun = int((time.time() - 60 + second) * 1e9)
    found: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + 500_000_000),
        "attributes": [
            {"key": key.replace("__", "."), "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in attributes.items()
        ],
    }
    return found if parent is None else found | {"parentSpanId": f"{parent:016x}"}


def send(server: running, *spans: dict[str, Any]) -> None:
    """Send spans, as an exporter would."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{server.url}/v1/traces", json.dumps(body).encode(), headers), timeout=60) as response:
        assert response.status == 200


def rows(page: Page) -> Any:  # noqa: ANN401 - a locator
    return page.get_by_role("listitem").filter(has=page.locator("article"))


@pytest.fixture(scope="module")
def talk(own: running) -> str:
    """A trace whose root, which alone knows the session, comes last; and a span whose parent never comes."""
    said = [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}]
    answered = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    chat = {
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "gpt-4o",
        "gen_ai__usage__input_tokens": 100,
        "gen_ai__usage__output_tokens": 20,
        "gen_ai__input__messages": json.dumps(said),
        "gen_ai__output__messages": json.dumps(answered),
    }
    tool = {"gen_ai__tool__name": "find", "gen_ai__tool__call__arguments": '{"colour":"blue"}'}
    send(
        own,
        span(4, 3, "SELECT shoes", 2, db__query__text="SELECT * FROM shoes"),
        span(3, 2, "execute_tool find", 2, gen_ai__operation__name="execute_tool", **tool),
        span(5, 2, "chat gpt-4o", 3, **chat),
        span(6, 99, "audit", 4, audit__level="high"),
    )
    send(
        own,
        span(2, 1, "invoke_agent shopper", 1, gen_ai__operation__name="invoke_agent"),
        span(1, None, "POST /chat", 0, session__id=TALK),
    )
    return f"/sessions/{key_of('otlp', TALK)}"


def test_the_list(own_visit: Visit, talk: str) -> None:
    """The trace is one session, beside those of agents, under the name that its root gave and the first prompt."""
    page = own_visit.open("/sessions")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text(ASKED)
    expect(rows(page)).to_contain_text("shop")
    expect(rows(page)).to_contain_text("ended")


def test_the_conversation(own_visit: Visit, talk: str) -> None:
    """Prompt, answer, tool and other work can be read in order; agents have their names."""
    page = own_visit.open(talk)
    settled(page)
    conversation = page.get_by_role("list", name="Conversation, in reading order")
    for text in ("Turn 1", "POST /chat", "shopper", "find", ASKED, ANSWER, "audit"):
        expect(conversation.get_by_text(text, exact=True).first).to_be_visible()
    conversation.get_by_role("button", name="Show children (1 spans)").click()
    expect(conversation.get_by_text("SELECT shoes", exact=True)).to_be_visible()
    assert overflow(page) == 0


def test_the_waterfall(own_visit: Visit, talk: str) -> None:
    """All spans stand under their parents; one whose parent never came stands by itself."""
    page = own_visit.open(f"{talk}?view=waterfall")
    settled(page)
    shown = page.get_by_role("treegrid", name="Spans by time").locator("[role=row][data-index]")
    expect(shown).to_have_count(6)
    for row, (level, name) in enumerate(
        [(1, "Turn 1"), (2, "shopper"), (3, "find"), (4, "SELECT shoes"), (3, "GPT-4o"), (1, "audit")]
    ):
        expect(shown.nth(row)).to_have_attribute("aria-level", str(level))
        expect(shown.nth(row)).to_contain_text(name)


def test_the_details(own_visit: Visit, talk: str) -> None:
    """Whatever was sent about a span is among its attributes."""
    page = own_visit.open(f"{talk}?span={6:016x}")
    pane = page.get_by_role("complementary", name="Span details")
    expect(pane.get_by_role("heading", level=2)).to_contain_text("audit")
    expect(pane.get_by_role("tab", name="Attributes")).to_have_attribute("aria-selected", "true")
    expect(pane).to_contain_text("audit.level")
    expect(pane).to_contain_text("high")
    expect(pane).to_contain_text("service.name")


def test_live(own_visit: Visit, own: running, talk: str) -> None:
    """A span that arrives while somebody looks appears in its place."""
    page = own_visit.open(f"{talk}?view=waterfall")
    settled(page)
    send(own, span(7, 3, "GET /stock", 2.1))
    expect(page.get_by_role("treegrid", name="Spans by time").get_by_text("GET /stock")).to_be_visible()


def test_in_chinese_and_in_the_dark(own_visit: Visit, talk: str) -> None:
    """The page of such a session has its words in both languages, and looks in both themes."""
    page = own_visit.open(f"{talk}?span={6:016x}", language="zh-CN", theme="dark")
    expect(page.get_by_role("complementary", name="span 详情").get_by_role("heading", level=2)).to_contain_text("span")
