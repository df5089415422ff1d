"""A session of thirty thousand spans: it opens, moves and zooms, with no more in the document than is seen."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.conftest import Program

from .conftest import Databases, Visit, key_of, new_user, running, visiting

TURNS, STEPS, TOOLS = 100, 100, 2
SPANS = TURNS * (1 + STEPS * (1 + TOOLS))
FAILED = {(0, 3), (50, 50), (99, 98)}
KEY = key_of("agenttrace", "big")
#: Collects what kept the page from answering for more than 50 ms.
LONG_TASKS = """() => {
  window.long = [];
  const keep = (list) => window.long.push(...list.getEntries().map((task) => Math.round(task.duration)));
  new PerformanceObserver(keep).observe({ type: 'longtask', buffered: true });
}"""


def lines() -> Iterator[dict[str, object]]:
    """The session, two seconds a model call."""
    now = 1_790_000_000.0
    yield {"type": "session.begin", "id": "s", "ts": now, "title": "Thirty thousand", "model": "qwen-max"}
    for turn in range(TURNS):
        yield {"type": "turn.begin", "id": f"t{turn}", "ts": now, "turn": turn + 1, "prompt": f"Prompt {turn}"}
        for step in range(STEPS):
            place = {"turn": turn + 1, "step": step + 1}
            yield {"type": "step.begin", "id": f"{turn}.{step}", "ts": now, "model": "qwen-max"} | place
            for tool in range(TOOLS):
                call = {"id": f"c{turn}.{step}.{tool}"} | place
                state = "error" if (turn, step) in FAILED and tool else "ok"
                yield {
                    "type": "tool.begin",
                    "ts": now + 0.5,
                    "name": "grep",
                    "arguments": {"n": turn * 1000 + step},
                } | call
                yield {"type": "tool.end", "ts": now + 1, "status": state, "result": f"result {turn} {step}"} | call
            usage = {"input_tokens": 100, "output_tokens": 10}
            yield {"type": "step.end", "id": f"{turn}.{step}", "ts": now + 1.5, "usage": usage} | place
            now += 2
        yield {"type": "turn.end", "id": f"t{turn}", "ts": now, "turn": turn + 1}
        now += 60


def write_big(program: Program) -> None:
    path = program.home / "logs" / "big.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"v": 1, "session": "big"} | line) + "\n" for line in lines())


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """The session, recorded before it is served."""
    program = new_user(tmp_path_factory, databases)
    write_big(program)
    program.run("record", "--once")
    with running(program) as found:
        yield found


@pytest.fixture
def reader(browser: Browser, big: running) -> Iterator[Visit]:
    """A visitor of it."""
    yield from visiting(browser, big)


def nodes(page: Page) -> int:
    count: int = page.locator("main").evaluate("(main) => main.querySelectorAll('*').length")
    return count


def note(page: Page, name: str, record_property: Callable[[str, object], None]) -> None:
    """Write down how long the page did not answer, without judging it."""
    found = sorted(page.evaluate("window.long"), reverse=True)
    figures = {"count": len(found), "longest_ms": found[:5], "sum_ms": sum(found)}
    figures["heap_mb"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6)
    record_property(f"long_tasks_{name}", figures)
    if path := os.environ.get("BROWSER_FIGURES"):
        with Path(path).open("a") as stream:
            stream.write(json.dumps({name: figures}) + "\n")


def test_conversation(reader: Visit, record_property: Callable[[str, object], None]) -> None:
    """It opens with every span counted, scrolls to its end, and keys lead from error to error across all of it."""
    page = reader.enter(fresh=True)
    page.add_init_script(f"({LONG_TASKS})()")
    page.goto(f"/sessions/{KEY}")
    rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem")
    expect(rows.first).to_contain_text("Prompt 0")
    expect(rows.first).to_have_attribute("aria-setsize", str(SPANS))
    assert nodes(page) < 2_000
    rows.first.locator("..").evaluate("(list) => { list.parentElement.scrollTop = list.parentElement.scrollHeight }")
    # Heights are known only of what was seen, so the end may move on while it is scrolled to.
    rows.first.locator("..").evaluate("(list) => { list.parentElement.scrollTop = list.parentElement.scrollHeight }")
    expect(page.get_by_text("result 99 99").last).to_be_visible()
    assert nodes(page) < 2_000
    rows.first.locator("..").evaluate("(list) => { list.parentElement.scrollTop = 0 }")
    expect(rows.first).to_contain_text("Prompt 0")
    for turn, step in sorted(FAILED):
        page.keyboard.press("e")
        current = page.locator("[role=listitem][aria-current=true]")
        expect(current).to_contain_text(f"result {turn} {step}")
        expect(current).to_be_in_viewport()
        expect(current).to_be_focused()
    page.keyboard.press("E")
    expect(current).to_contain_text("result 50 50")
    page.keyboard.press("]")
    expect(current).to_contain_text("Prompt 51")
    assert nodes(page) < 2_000
    note(page, "conversation_of_30000", record_property)


def test_waterfall(reader: Visit, record_property: Callable[[str, object], None]) -> None:
    """The waterfall has every row, follows them, zooms by key and by its ends, and folding a turn takes its rows away.

    A group of the aggregated view, which such a session has, leaves the spans behind it.
    """
    page = reader.enter(fresh=True)
    page.add_init_script(f"({LONG_TASKS})()")
    page.goto(f"/sessions/{KEY}?view=waterfall")
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid).to_have_attribute("aria-rowcount", str(SPANS + 1))
    assert nodes(page) < 2_000
    grid.evaluate("(grid) => { grid.scrollTop = grid.scrollHeight }")
    expect(grid.locator(f"[aria-rowindex='{SPANS + 1}']")).to_be_visible()
    start, end = (page.get_by_role("slider", name=f"{which} of the time range") for which in ("Start", "End"))
    expect(start).to_have_attribute("aria-valuenow", "100")
    page.keyboard.press("0")
    expect(start).to_have_attribute("aria-valuenow", "0")
    for _ in range(5):
        page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"from=\d+"))
    expect(end).not_to_have_attribute("aria-valuenow", "100")
    page.keyboard.press("0")
    expect(end).to_have_attribute("aria-valuenow", "100")
    start.focus()
    page.keyboard.press("PageUp")
    expect(start).to_have_attribute("aria-valuenow", "10")
    page.keyboard.press("0")
    page.keyboard.press("e")
    expect(page.locator("[role=row][data-current]")).to_contain_text("grep")
    expect(page.locator("[role=row][data-current]")).to_be_in_viewport()
    # The failed call took half a second: so much, and half of it on both sides.
    within = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert within is not None
    assert 900 <= int(within[2]) - int(within[1]) <= 1100
    page.keyboard.press("p")
    expect(page).not_to_have_url(re.compile("from=|pin="))
    grid.evaluate("(grid) => { grid.scrollTop = 0 }")
    expect(start).to_have_attribute("aria-valuenow", "0")
    groups = page.get_by_role("tree", name="Spans grouped by the path of their names")
    groups.get_by_role("treeitem", name=re.compile(f"^grep .*, {TURNS * STEPS * TOOLS:,} spans")).click()
    expect(grid).to_have_attribute("aria-rowcount", str(SPANS + 1))
    page.get_by_role("button", name="All spans").click()
    expect(page).not_to_have_url(re.compile("path="))
    grid.get_by_role("row", name=re.compile("Prompt 0")).get_by_role("button", name="Collapse").click()
    expect(grid).to_have_attribute("aria-rowcount", str(SPANS + 1 - STEPS * (1 + TOOLS)))
    assert nodes(page) < 2_000
    note(page, "waterfall_of_30000", record_property)


def test_a_link_into_the_middle(reader: Visit, big: running) -> None:
    """A link to one span of thirty thousand opens at that span, and errors alone are a short list."""
    page = reader.open(f"/sessions/{KEY}?errors=true&view=waterfall")
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid.locator("[role=row][data-index]").first).to_be_visible()
    assert int(grid.get_attribute("aria-rowcount") or 0) <= 1 + len(FAILED) * 4
    page.keyboard.press("e")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("span="))
    span = re.search("span=([0-9a-f]{16})", page.url)
    assert span is not None
    other = reader.open(f"/sessions/{KEY}?span={span[1]}")
    expect(other.locator("[role=listitem][aria-current=true]")).to_be_in_viewport()
    expect(other.locator("[role=listitem][aria-current=true]")).to_contain_text("result 0 3")
