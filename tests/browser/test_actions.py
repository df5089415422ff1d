"""Applications behind guards: what admins do on the pages has its effect, is seen, and is in the audit log once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.conftest import Program, stop

from .conftest import Databases, Visit, new_user, overflow, running, settled, turn_to, visiting
from .test_looks import problems

UNAVAILABLE = "The AI service is not available at the moment."


@dataclass(frozen=True)
class Apps:
    """A server with applications, and the simulated DashScope behind it."""

    server: running
    simulator: str

    @property
    def program(self) -> Program:
        return self.server.program

    def order(self, **what: object) -> None:
        """Tell the simulator how to behave."""
        request = Request(f"{self.simulator}/__control", json.dumps(what).encode(), method="POST")
        with urlopen(request, timeout=30) as response:
            assert response.status == 200

    def trigger(self, member: int, *more: str) -> int:
        """Report an event; the number of its job."""
        told = self.program.json(
            "trigger", "consumption", "--site", "1", "--member", str(member), "--url", self.server.url, *more
        )
        return int(told["trigger_job_id"])

    def audit(self, action: str) -> list[dict[str, Any]]:
        """What the audit log has of an action."""
        return [row for row in self.program.json("user", "audit") if row["action"] == action]


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[Apps]:
    """Applications that a simulator answers for."""
    program = new_user(tmp_path_factory, databases)
    simulator = program.start("simulate-dashscope", "--port", "0", "--json")
    assert simulator.stdout is not None
    told = json.loads(simulator.stdout.readline())
    try:
        with running(program, env=told["environment"]) as server:
            yield Apps(server, urlsplit(told["base_url"])._replace(path="").geturl())
    finally:
        stop(simulator)


@pytest.fixture
def admin(browser: Browser, apps: Apps) -> Iterator[Visit]:
    """A visitor of it; on this machine that is an admin."""
    yield from visiting(browser, apps.server)


def confirm(page: Page, name: str) -> None:
    """Press the button of the question that has been asked."""
    dialog = page.get_by_role("dialog")
    dialog.locator("footer").get_by_role("button", name=name, exact=True).click()
    expect(dialog).to_have_count(0)


def audited_once(page: Page, apps: Apps, action: str, target: str) -> None:
    """Exactly one row of the audit log tells it, and the page of settings shows that row."""
    (row,) = [row for row in apps.audit(action) if row["target"] == target]
    assert row["outcome"] == "done"
    page.goto("/settings?tab=audit")
    rows = page.get_by_role("table", name="Audit log").get_by_role("row")
    expect(rows.filter(has_text=action).filter(has=page.get_by_text(target, exact=True))).to_have_count(1)


def test_breaker_and_chat(apps: Apps, admin: Visit) -> None:
    """The chat streams an answer; with the breaker held open it says what a user is told; closed, it answers again."""
    page = admin.open("/chat")
    box = page.get_by_role("textbox", name="Message")
    apps.order(chunk_delay=0.02)
    box.fill("今天的营业额怎么样？")
    page.keyboard.press("Enter")
    answers = page.get_by_role("region", name="Conversation").get_by_role("listitem")
    expect(answers.last).to_contain_text(re.compile(r"\d+ tokens"))
    apps.order(chunk_delay=0)
    expect(page).to_have_url(re.compile(r"conversation=\d+"))
    said = answers.last.inner_text()
    assert len(said) > 30
    guards = admin.open("/guards")
    row = guards.get_by_role("table", name="Circuit breakers").get_by_role("row").filter(has_text="app1")
    expect(row).to_contain_text("AI assistant")
    expect(row).to_contain_text("DashScope")
    expect(row).to_contain_text("closed")
    row.get_by_role("button", name="Open").click()
    confirm(guards, "Open")
    expect(row).to_contain_text("opened manually")
    box.fill("还在吗？")
    page.keyboard.press("Enter")
    expect(answers.last).to_contain_text(UNAVAILABLE)
    expect(answers.last).to_contain_text("circuit_open")
    row.get_by_role("button", name="Close").click()
    confirm(guards, "Close")
    expect(row).to_contain_text("closed")
    expect(row).not_to_contain_text("opened manually")
    box.fill("现在呢？")
    page.keyboard.press("Enter")
    expect(answers.last).to_contain_text(re.compile(r"\d+ tokens"))
    assert UNAVAILABLE not in answers.last.inner_text()
    assert [len(apps.audit(action)) for action in ("breaker.open", "breaker.close", "chat")] == [1, 1, 3]
    target = apps.audit("breaker.open")[0]["target"]
    audited_once(guards, apps, "breaker.open", target)
    audited_once(guards, apps, "breaker.close", target)


def test_job_chain_and_cache(apps: Apps, admin: Visit) -> None:
    """A job shows its chain, prompts and answers and its trace; its result is browsed and invalidated once."""
    job = apps.trigger(2, "--wait")
    page = admin.open("/runs")
    row = page.get_by_role("row").filter(has=page.locator(f"a[href='/runs/jobs/{job}']"))
    expect(row).to_contain_text("completed")
    row.locator(f"a[href='/runs/jobs/{job}']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Job {job}")
    chain = page.get_by_role("navigation", name="Chain")
    for app in ("app3", "app8", "app7"):
        expect(chain.get_by_role("link").filter(has_text=app)).to_be_visible()
    chain.get_by_role("link").filter(has_text="app7").click()
    expect(page).to_have_url(re.compile("step=app7"))
    expect(page.get_by_role("main")).to_contain_text("Prompt")
    trace = page.locator("main a[href^='/sessions/']").first
    expect(trace).to_be_visible()
    trace.click()
    expect(page.get_by_role("list", name="Conversation, in reading order")).to_be_visible()
    expect(page.get_by_role("link", name=f"Job {job}")).to_be_visible()
    page.goto("/cache?type=app3_clue&target=2")
    rows = page.get_by_role("table", name="Cached results").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("valid")
    number = rows.get_by_role("button").first.inner_text()
    rows.get_by_role("button").first.click()
    drawer = page.get_by_role("dialog", name=f"Result {number}", exact=True)
    expect(drawer.get_by_role("group", name="JSON")).to_be_visible()
    drawer.get_by_role("button", name="Invalidate").click()
    page.get_by_role("dialog", name=f"Invalidate result {number}?").get_by_role("button", name="Invalidate").click()
    expect(drawer).to_contain_text("invalidated")
    expect(drawer.get_by_role("button", name="Invalidate")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(rows).to_contain_text("invalidated")
    audited_once(page, apps, "cache.invalidate", number)


def test_cancel_and_run_again(apps: Apps, admin: Visit) -> None:
    """A running job is cancelled before its next step, and run again by hand it is a new job that is completed."""
    apps.order(latency=4)
    job = apps.trigger(3)
    page = admin.open(f"/runs/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel")
    apps.order(latency=0)
    expect(page.get_by_role("main").locator("header")).to_contain_text("cancelled")
    page.get_by_role("button", name="Run again").click()
    confirm(page, "Run again")
    expect(page).not_to_have_url(re.compile(rf"/runs/jobs/{job}$"))
    expect(page.get_by_role("main").locator("header")).to_contain_text("completed")
    expect(page.locator(f"main a[href='/runs/jobs/{job}']").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Job {job}")
    audited_once(page, apps, "job.cancel", str(job))
    audited_once(page, apps, "job.rerun", str(job))


def test_quarantine_is_tried_again(apps: Apps, admin: Visit) -> None:
    """A line in quarantine is tried again by a press; it is still no JSON, which is said; the log tells it once."""
    path = apps.program.log("torn", {"type": "message", "role": "user", "text": "whole"})
    with path.open("a", encoding="utf-8") as stream:
        stream.write("{torn in two\n")
    page = admin.open("/files?tab=quarantine")
    row = (
        page.get_by_role("table", name="Lines that could not be parsed")
        .locator("tbody tr")
        .filter(has_text="torn.jsonl")
    )
    expect(row).to_have_count(1)
    expect(row).to_contain_text("open")
    row.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Retrying 1 line")).to_be_visible()
    expect(row.get_by_role("cell").nth(5)).not_to_have_text(re.compile("open|waits"))
    assert len(apps.audit("quarantine.retry")) == 1


def test_pages_with_something_in_them(apps: Apps, admin: Visit) -> None:
    """The budget is that of the command, filters are in the address, and axe finds nothing on the filled pages."""
    job = apps.trigger(4, "--wait")
    page = admin.open("/guards")
    settled(page)
    budget = apps.program.json("budget")
    for period in ("day", "month"):
        meter = page.get_by_role("meter", name=re.compile(f"^{period}", re.IGNORECASE))
        expect(meter).to_have_attribute("aria-valuemax", str(budget[period]["limit"]))
        expect(meter).to_have_attribute("aria-valuenow", str(budget[period]["used"]))
    page.goto("/runs?tab=calls&app=app7&member=4")
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(1)
    page.goto("/runs?member=4&status=failed")
    expect(page.get_by_text("No matches for these filters")).to_be_visible()
    page.get_by_role("button", name="Clear filters").last.click()
    expect(page.get_by_role("table").locator("tbody tr").first).to_be_visible()
    calls = page.request.get(f"/api/v1/runs?job={job}").json()["items"]
    runs = ("/runs", "/runs?tab=calls", f"/runs/jobs/{job}", f"/runs/calls/{calls[0]['id']}")
    for width in (1280, 390):
        page = admin.enter(width=width, height=844)
        found = {}
        for path in (*runs, "/guards", "/cache", "/cache?result=1", "/chat", "/"):
            turn_to(page, path)
            found[path] = [*problems(page), *(["too wide"] if overflow(page) > 0 else [])]
        assert not any(found.values()), found
        admin.leave(page)


def test_an_event_is_started_by_hand(apps: Apps, admin: Visit) -> None:
    """The form refuses what is no number and no JSON object, then starts the event and opens its job."""
    page = admin.open("/runs")
    page.get_by_role("button", name="Trigger event").click()
    dialog = page.get_by_role("dialog")
    start = dialog.locator("footer").get_by_role("button", name="Trigger event")
    dialog.get_by_role("combobox", name="Event").select_option("consumption")
    dialog.get_by_label("Member (optional)").fill("x")
    expect(start).to_be_disabled()
    dialog.get_by_label("Member (optional)").fill("4711")
    dialog.get_by_label("Payload").fill("[1]")
    expect(dialog).to_contain_text("Not a JSON object")
    expect(start).to_be_disabled()
    dialog.get_by_label("Payload").fill('{"coach_id": 8}')
    assert problems(page) == []
    start.click()
    expect(page).to_have_url(re.compile(r"/runs/jobs/\d+"))
    job = int(page.url.rpartition("/")[2])
    expect(page.get_by_role("main")).to_contain_text("4711")
    audited_once(page, apps, "job.start", f"consumption of store 1: job {job}")
