"""Live: what is written to a log is on the screen, all of it and once, however often the connection breaks."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from cli.conftest import eventually
from console_login import login_headers

from .cable import Cable
from .conftest import PATIENCE_MS, Visit, key_of, running, settled, visiting

#: Tells when a text came into the document, in milliseconds since 1970.
WATCH = """() => {
  window.came = {};
  const look = () => {
    for (const [text] of document.body.innerText.matchAll(/line-\\d+-end/g)) window.came[text] ??= Date.now();
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def answered(request: Request) -> bool:
    """Whether there is something at this address."""
    try:
        with urlopen(request, timeout=60):
            return True
    except HTTPError as error:
        error.close()
        return False


class Log:
    """A session that is being written."""

    def __init__(self, server: running, name: str) -> None:
        self.name, self.key = name, key_of("agenttrace", name)
        self.path: Path = server.program.log(
            name,
            {"type": "session.begin", "id": "s", "ts": time.time(), "title": f"Log {name}"},
            {"type": "turn.begin", "id": "t1", "ts": time.time(), "turn": 1, "prompt": f"Begin {name}"},
        )
        self._number = 0
        self._question = Request(f"{server.url}/api/v1/sessions/{self.key}", headers=login_headers(server.home))

    def recorded(self) -> Log:
        """Wait until the recorder has read of it."""
        eventually(lambda: answered(self._question), "the session is recorded")
        return self

    def step(self, text: str) -> bytes:
        """A model call that says something and takes a token, as lines."""
        self._number += 1
        place = {"v": 1, "session": self.name, "turn": 1, "step": self._number, "ts": time.time()}
        said = place | {"type": "message", "id": f"m{self._number}", "role": "assistant", "text": text}
        used = place | {"type": "usage", "id": f"u{self._number}", "usage": {"output_tokens": 1}}
        return b"".join(json.dumps(line).encode() + b"\n" for line in (said, used))

    def write(self, *texts: str) -> float:
        """Append model calls with these texts in one write; when it was done."""
        data = b"".join(self.step(text) for text in texts)
        with self.path.open("ab", buffering=0) as stream:
            stream.write(data)
            return time.time()


def conversation(page: Page) -> Callable[[], list[str]]:
    """All texts of a conversation, collected by scrolling through it."""
    rows = page.get_by_role("list", name="Conversation, in reading order")

    def read() -> list[str]:
        found: dict[int, str] = {}
        total = int(rows.get_by_role("listitem").first.get_attribute("aria-setsize") or 0)
        top = 0
        # Heights are measured as rows are seen, so what is passed over is gone back for.
        while len(found) < total:
            rows.evaluate("(list, top) => list.parentElement.scrollTo(0, top)", top)
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            # Texts come a moment after their rows.
            page.wait_for_function("() => !document.querySelector('[role=listitem] [class*=skeleton i]')")
            seen, height = rows.evaluate(
                "list => [[...list.children].map((row) => [Number(row.dataset.index), row.innerText]),"
                " list.parentElement.scrollHeight]"
            )
            found |= dict(seen)
            top = 0 if top > height else top + 300
        return [found[index] for index in sorted(found)]

    return read


def test_a_new_session_is_on_every_page(own: running, own_visit: Visit) -> None:
    """A session that begins while pages are open is on the overview and in the list, and its turns on its own page."""
    overview, sessions = own_visit.open("/"), own_visit.open("/sessions")
    for page in (overview, sessions):
        settled(page)
        expect(page.locator("header [role=status]")).to_have_text("Live")
    log = Log(own, "fresh")
    link = re.compile("Log fresh")
    expect(overview.get_by_role("region", name="Working").get_by_role("link", name=link)).to_be_visible()
    expect(sessions.get_by_role("link", name=link)).to_be_visible()
    page = own_visit.open(f"/sessions/{log.key}")
    expect(page.get_by_text("Begin fresh").first).to_be_visible()
    log.write("the tide comes in")
    expect(page.get_by_text("the tide comes in")).to_be_visible()
    page.get_by_role("tab", name="Waterfall").click()
    log.write("the tide goes out")
    expect(page.get_by_role("treegrid").get_by_text("the tide goes out")).to_be_visible()
    # A replay that has caught up with a working session is over, and the session goes on.
    page.keyboard.press("c")
    page.keyboard.press("y")
    expect(page).to_have_url(re.compile("replay="))
    page.keyboard.press(">")
    expect(page).not_to_have_url(re.compile("replay="))
    log.write("the tide turns")
    expect(page.get_by_text("the tide turns")).to_be_visible()


@pytest.fixture
def cable(own: running) -> Iterator[Cable]:
    """Between this module's server and whoever uses the cable's address."""
    with Cable(urlsplit(own.url).port or 0) as found:
        yield found


def test_nothing_is_missing_and_nothing_twice(own: running, browser: Browser, cable: Cable) -> None:
    """Hundreds of lines in bursts, with the connection cut and the server restarted in between: each once."""
    log = Log(own, "storm").recorded()
    visitors = visiting(browser, own, url=cable.url)
    visit = next(visitors)
    page, beside = visit.open(f"/sessions/{log.key}"), visit.open("/sessions")
    expect(page.get_by_text("Begin storm").first).to_be_visible()
    row = beside.get_by_role("listitem").filter(has=beside.locator(f"#session-{log.key}"))
    expect(row).to_have_count(1)
    mark = page.locator("header [role=status]")
    for each in (page, beside):
        expect(each.locator("header [role=status]")).to_have_text("Live")
    texts = [f"burst {burst} line {line} end" for burst in range(8) for line in range(50)]
    for burst in range(8):
        log.write(*texts[burst * 50 : burst * 50 + 20])
        if burst in (1, 3):
            cable.cut()
        if burst == 5:
            own.stop()
        log.write(*texts[burst * 50 + 20 : burst * 50 + 35])
        if burst in (1, 3, 5):
            expect(mark).not_to_have_text("Live")
        if burst in (1, 3):
            cable.mend()
        if burst == 5:
            own.start()
        log.write(*texts[burst * 50 + 35 : burst * 50 + 50])
    expect(mark).to_have_text("Live")
    rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem").first
    expect(rows).to_have_attribute("aria-setsize", str(len(texts) + 1))
    steps = [text for text in conversation(page)() if "burst" in text]
    said = [match[0] for text in steps if (match := re.search(r"burst \d line \d+ end", text))]
    assert said == texts
    expect(beside.locator("header [role=status]")).to_have_text("Live")
    expect(row).to_have_count(1)
    # What it shows is as new as the log: its tokens are those of all model calls.
    expect(row.get_by_title(re.compile("^Input: "))).to_have_attribute("title", re.compile(f"Output: {len(texts)}$"))
    next(visitors, None)


def test_what_comes_while_everything_is_loaded_again_is_seen(own: running, own_visit: Visit) -> None:
    """A page that was told to load everything again shows what was recorded before the old answer arrived, too."""
    log = Log(own, "again").recorded()
    page = own_visit.open(f"/sessions/{log.key}")
    expect(page.get_by_text("Begin again").first).to_be_visible()
    expect(page.locator("header [role=status]")).to_have_text("Live")

    def old(route: Route) -> None:
        answer = route.fetch()
        log.write("meanwhile")
        page.evaluate("() => new Promise((done) => setTimeout(done, 1500))")
        route.fulfill(response=answer)

    page.route(re.compile(rf"/api/v1/sessions/{log.key}/timeline"), old, times=1)
    own.stop()
    own.start()
    expect(page.get_by_text("meanwhile", exact=True)).to_be_visible()


def test_the_end_is_followed_from_the_beginning(own: running, own_visit: Visit) -> None:
    """A session at work is shown at its end and followed there, also where its facts come later than its spans."""
    log = Log(own, "follow")
    log.write(*(f"paragraph {number}" for number in range(40)))
    log.recorded()
    page = own_visit.enter()
    facts = re.compile(rf"/api/v1/sessions/{log.key}$")

    def later(route: Route) -> None:
        # Answered when the page has had time to draw what it has.
        page.evaluate("() => new Promise((done) => setTimeout(done, 500))")
        route.continue_()

    page.route(facts, later, times=1)
    with page.expect_response(re.compile("/timeline")):
        page.goto(f"/sessions/{log.key}")
    expect(page.get_by_text("paragraph 39", exact=True)).to_be_in_viewport()
    for number in range(40, 60):
        log.write(f"paragraph {number}")
    expect(page.get_by_text("paragraph 59", exact=True)).to_be_in_viewport()


def test_a_reader_is_not_moved(own: running, own_visit: Visit) -> None:
    """Who reads above the end stays there and is told of what is new below; a press leads to it."""
    log = Log(own, "reader").recorded()
    log.write(*(f"paragraph {number}" for number in range(60)))
    page = own_visit.open(f"/sessions/{log.key}")
    expect(page.get_by_text("paragraph 59", exact=True)).to_be_visible()
    scroller = page.get_by_role("list", name="Conversation, in reading order").locator("..")
    scroller.hover()
    page.mouse.wheel(0, -100_000)
    expect(page.get_by_text("Begin reader").first).to_be_visible()
    log.write("far below")
    page.get_by_role("button", name="New below").click()
    expect(page.get_by_text("far below")).to_be_visible()


def test_nothing_is_below_what_is_in_view(own: running, own_visit: Visit) -> None:
    """A session that waited goes on while all of it is in view: what comes is seen, and no button leads to it."""
    log = Log(own, "short").recorded()
    end = {"v": 1, "session": "short", "type": "turn.end", "id": "t1", "turn": 1, "ts": time.time()}
    with log.path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(end) + "\n")
    page = own_visit.open(f"/sessions/{log.key}")
    expect(page.get_by_role("main").get_by_text("waiting for you")).to_be_visible()
    log.write("a short one")
    expect(page.get_by_text("a short one")).to_be_visible()
    log.write("another")
    expect(page.get_by_text("another")).to_be_visible()
    expect(page.get_by_role("button", name="New below")).to_have_count(0)


def test_how_soon(own: running, own_visit: Visit, record_property: Callable[[str, object], None]) -> None:
    """Twenty lines, one at a time, are each seen; how many milliseconds each took is recorded, not judged."""
    log = Log(own, "clock").recorded()
    page = own_visit.open(f"/sessions/{log.key}")
    expect(page.get_by_text("Begin clock").first).to_be_visible()
    expect(page.locator("header [role=status]")).to_have_text("Live")
    page.evaluate(WATCH)
    took: list[int] = []
    for number in range(20):
        text = f"line-{number}-end"
        written = log.write(text)
        page.wait_for_function("(text) => window.came[text] !== undefined", arg=text, timeout=PATIENCE_MS)
        took.append(round(page.evaluate("(text) => window.came[text]", text) - written * 1000))
    record_property("milliseconds_from_line_to_screen", took)
    if path := os.environ.get("BROWSER_FIGURES"):
        figures = {"median": sorted(took)[10], "worst": max(took), "all": took}
        with Path(path).open("a") as stream:
            stream.write(json.dumps({"line_to_screen_ms": figures}) + "\n")
