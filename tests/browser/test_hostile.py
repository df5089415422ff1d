"""Hostile logs: whatever an agent wrote is shown as text, nothing of it acts, and the page keeps its shape."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.conftest import Program

from .conftest import Databases, Visit, Watched, key_of, new_user, overflow, running, settled, visiting

SCRIPT = "<script>window.__pwned=1</script>"
IMAGE = "<img src=x onerror='window.__pwned=1'><svg onload=window.__pwned=1>"
MARKDOWN = (
    "# Heading\n\n[click me](javascript:window.__pwned=1) [data](data:text/html,<script>1</script>) "
    "![pixel](https://elsewhere.example/pixel.png) <iframe src=https://elsewhere.example></iframe> "
    "<a href='javascript:window.__pwned=1'>raw</a> [out](https://elsewhere.example/page)\n\n"
    "<https://elsewhere.example/auto> <style>body{display:none}</style>\n\n"
    "```html\n<script>window.__pwned=1</script>\n```\n\n| a | b |\n|---|---|\n| <b onclick=1>x</b> | y |\n"
)
BIDI = "admin\u202etxt.exe\u2066\u2067 \u200f\u200b end"
RTL = "مرحبا بالعالم، هذا نص طويل من اليمين إلى اليسار"
CONTROL = (
    "nul \x00 bell \x07 \x1b[31mred\x1b[0m \x1b]8;;https://elsewhere.example\x1b\\link\x1b]8;;\x1b\\ del \x7f c1 \x9b"
)
LONE = "lone \ud83d surrogate \udc00 end"
LONG = "unbroken" * 3_000
HUGE = "5 megabytes " * 430_000
TEXTS = {
    "script": SCRIPT,
    "image": IMAGE,
    "markdown": MARKDOWN,
    "bidi": BIDI,
    "rtl": RTL,
    "control": CONTROL,
    "lone": LONE,
    "long": LONG,
    "huge": HUGE,
}


def write_hostile(program: Program) -> Path:
    """Every text in every place of a session of its own."""
    path = program.home / "logs" / "hostile.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.time()
    with path.open("w", encoding="utf-8") as stream:
        for name, text in TEXTS.items():
            place = {"v": 1, "session": f"hostile-{name}", "ts": now}
            short = text[:3_000]
            for line in (
                {
                    "type": "session.begin",
                    "title": short,
                    "project": f"/home/dev/{short}",
                    "branch": short,
                    "version": short,
                },
                {"type": "turn.begin", "id": "t", "turn": 1, "prompt": text},
                {"type": "step.begin", "id": "a", "turn": 1, "step": 1, "model": short},
                {"type": "message", "id": "m1", "turn": 1, "step": 1, "role": "thinking", "text": short},
                {"type": "message", "id": "m2", "turn": 1, "step": 1, "role": "assistant", "text": text},
                {"type": "tool.begin", "id": "c", "turn": 1, "step": 1, "name": short, "arguments": {short: text}},
                {"type": "tool.end", "id": "c", "turn": 1, "status": "error", "error": text, "result": {short: [text]}},
                {"type": "note", "id": "n", "turn": 1, "kind": short, "text": text},
                {
                    "type": "usage",
                    "id": "u",
                    "turn": 1,
                    "model": short,
                    "usage": {"input_tokens": 7, "output_tokens": 7},
                },
                {"type": "turn.end", "id": "t", "turn": 1},
            ):
                # Escaped, as JSON allows: lone surrogates and NULs have no other form.
                stream.write(json.dumps(place | line) + "\n")
        stream.write(f"{SCRIPT}{IMAGE} is no JSON\n")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """A store of nothing but hostile sessions."""
    program = new_user(tmp_path_factory, databases)
    write_hostile(program)
    program.run("record", "--once", "--index")
    with running(program) as found:
        yield found


@pytest.fixture
def victim(browser: Browser, hostile: running) -> Iterator[Visit]:
    """A visitor of it; asking another host is a complaint."""
    yield from visiting(browser, hostile)


def unharmed(page: Page) -> None:
    """Nothing ran, nothing was made an element, nothing is wider than the window, and the page answers."""
    assert page.evaluate("window.__pwned") is None
    assert page.locator("main :is(script, iframe, object, embed, style, img[src^=http])").count() == 0
    assert page.locator("a[href^='javascript:' i], a[href^='data:' i], [onclick], [onerror], [onload]").count() == 0
    assert overflow(page) <= 0, page.url
    assert page.evaluate("new Promise((done) => requestAnimationFrame(() => done(1)))") == 1


def unharmed_at_any_width(page: Page) -> None:
    """Unharmed, wide and on a phone."""
    unharmed(page)
    page.set_viewport_size({"width": 390, "height": 844})
    unharmed(page)
    page.set_viewport_size({"width": 1280, "height": 844})


def test_no_page_is_harmed(victim: Visit) -> None:
    """Lists, usage, search, files and quarantine show hostile names and texts as text."""
    page = victim.enter(width=1280, height=844)
    places = ("/", "/sessions", "/sessions?q=script", "/usage?by=model&since=all", "/usage?by=project&since=all")
    for path in (
        *places,
        "/usage?by=session&since=all",
        "/files",
        "/files?tab=quarantine&line=1",
        "/settings?find=%3Cscript%3E",
    ):
        page.goto(path)
        settled(page)
        if path == "/sessions":
            expect(page.get_by_text(SCRIPT).first).to_be_visible()
        unharmed_at_any_width(page)


def test_no_session_is_harmed(victim: Visit) -> None:
    """Conversation, waterfall and details of every hostile session are shown, whatever is in them."""
    page = victim.enter(width=1280, height=844)
    for name, text in TEXTS.items():
        page.goto(f"/sessions/{key_of('agenttrace', f'hostile-{name}')}")
        rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem")
        expect(rows.first.get_by_role("group", name="Prompt")).to_be_visible()
        settled(page)
        unharmed_at_any_width(page)
        if name == "script":
            expect(rows.first).to_contain_text(text)
        page.keyboard.press("e")
        page.keyboard.press("Enter")
        pane = page.get_by_role("complementary", name="Span details")
        expect(pane.get_by_role("tab").first).to_be_visible()
        for tab in range(pane.get_by_role("tab").count()):
            pane.get_by_role("tab").nth(tab).click()
            unharmed_at_any_width(page)
        page.goto(f"/sessions/{key_of('agenttrace', f'hostile-{name}')}?view=waterfall")
        expect(page.get_by_role("treegrid").locator("[role=row][data-index]").first).to_be_visible()
        unharmed_at_any_width(page)


def test_what_is_invisible_is_shown(victim: Visit) -> None:
    """Bidi controls, NULs and escape codes are seen for what they are instead of acting on the text around them."""
    page = victim.open(f"/sessions/{key_of('agenttrace', 'hostile-bidi')}")
    prompt = page.get_by_role("group", name="Prompt")
    expect(prompt).to_be_visible()
    for path in ("hostile-bidi", "hostile-control"):
        page.goto(f"/sessions/{key_of('agenttrace', path)}")
        expect(prompt).to_be_visible()
        settled(page)
        found = page.locator("body").inner_text() + page.title()
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200f\x00\x07\x1b\x7f\x9b]", found)
    page.goto(f"/sessions/{key_of('agenttrace', 'hostile-rtl')}")
    expect(prompt).to_be_visible()
    assert prompt.evaluate("(element) => getComputedStyle(element).direction") == "rtl"


def test_links_of_agents_lead_nowhere_by_themselves(victim: Visit) -> None:
    """Links in an answer are plain http links with no way back to this page, and images are not fetched."""
    page = victim.open(f"/sessions/{key_of('agenttrace', 'hostile-markdown')}")
    rows = page.get_by_role("list", name="Conversation, in reading order")
    expect(rows.get_by_role("link", name="out", exact=True)).to_be_visible()
    links = rows.locator("a[href*='elsewhere']")
    for link in links.all():
        assert re.match("https?://", link.get_attribute("href") or "")
        assert "noopener" in (link.get_attribute("rel") or "")
        assert link.get_attribute("target") == "_blank"
    unharmed(page)


def test_the_html_file_of_a_hostile_session(victim: Visit, hostile: running, browser: Browser, tmp_path: Path) -> None:
    """What is downloaded is as harmless as what is shown, for every hostile session."""
    page = victim.open("/exports")
    watched = Watched()
    context = browser.new_context()
    for name in TEXTS:
        answer = page.request.get(f"/api/v1/sessions/{key_of('agenttrace', f'hostile-{name}')}/export?format=html")
        assert answer.headers["content-disposition"].startswith("attachment")
        path = tmp_path / f"{name}.html"
        path.write_bytes(answer.body())
        file = context.new_page()
        watched.watch(file, "nothing at all")
        file.goto(path.as_uri())
        assert file.evaluate("window.__pwned") is None
        assert file.locator("script, iframe, object, embed, img, svg, [onload], [onerror]").count() == 0
        assert file.locator("a[href^='javascript:' i], a[href^='data:' i]").count() == 0
        file.close()
    context.close()
    assert watched.complaints == []


def test_a_huge_text_is_read_in_pieces(victim: Visit) -> None:
    """Of five megabytes a part is in the document; more of it comes when it is asked for."""
    page = victim.open(f"/sessions/{key_of('agenttrace', 'hostile-huge')}")
    prompt = page.get_by_role("group", name="Prompt")
    expect(prompt).to_contain_text("5 megabytes")
    assert page.evaluate("document.body.innerText.length") < 300_000
    before = len(prompt.inner_text())
    page.get_by_role("button", name=re.compile("Show (more|all)")).first.click()
    expect(prompt).to_have_text(re.compile(rf"^.{{{before + 1},}}", re.DOTALL))
    unharmed(page)
