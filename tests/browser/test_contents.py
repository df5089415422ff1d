"""The pages say what the commands say: the same sessions, tokens, files and settings."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import forked
from cli.conftest import CLAUDE, CLAUDE_FORK, KIMI_CLI, Program

from .conftest import DARK, FAILING, Visit, key_of, running


@pytest.fixture(scope="module")
def told(served: running) -> Program:
    """The commands, of the same user."""
    return served.program


def hint(usage: dict[str, int]) -> str:
    """How the tokens of a bill are told in the hint of their sum."""
    parts = {"Input": "input", "Cache read": "cache_read", "Cache write": "cache_write", "Output": "output"}
    return "\n".join(f"{name}: {usage[f'{kind}_tokens']:,}" for name, kind in parts.items())


def figure(within: Page | Locator, name: str) -> Locator:
    """The value beside a name in a list of names and values."""
    return within.locator(f"dl > div:has(> dt:text-is('{name}')) > dd").first


def test_overview(visit: Visit, told: Program) -> None:
    """The overview has the figures of ``agenttrace overview`` and the sums of thirty days, and what needs the user."""
    page = visit.open("/")
    seen, usage = told.json("overview"), told.json("usage", "--by", "model", "--since", "30d")
    for name, period in zip(("Today", "This week", "This month"), seen["periods"], strict=True):
        card = page.get_by_role("region", name=name, exact=True)
        expect(figure(card, "Tokens").locator("span").first).to_have_attribute("title", hint(period["bill"]))
    month = page.get_by_role("region", name="Last 30 days", exact=True)
    expect(figure(month, "Responses")).to_have_text(f"{usage['total']['requests']:,}")
    expect(figure(month, "Tokens").locator("span")).to_have_attribute("title", hint(usage["total"]))
    expect(figure(month, "Cost")).to_contain_text("+?")
    names = {row["model"] for row in usage["rows"]}
    assert {name.get_attribute("title") for name in month.locator("li a bdi").all()} <= names
    projects = page.get_by_role("table", name="Top projects").locator("tbody tr")
    expect(projects).to_have_count(len(seen["projects"]))
    needs = page.get_by_role("region", name="Needs you")
    expect(needs.get_by_role("link", name="1 line could not be parsed")).to_be_visible()
    # Who only records is not told what applications would need.
    expect(page.get_by_text("No LLM applications are configured.")).to_be_visible()
    expect(page.get_by_text("DASHSCOPE")).to_have_count(0)
    page.get_by_role("region", name="Activity").get_by_role("radio", name="Table").click()
    table = page.get_by_role("table", name="Responses by day and hour, last 4 weeks")
    totals = [cell.inner_text() for cell in table.locator("tbody td:nth-child(2)").all()]
    assert totals == [f"{sum(day['hours']):,}" for day in reversed(seen["activity"])]
    # Nothing on the first page needs the library for charts.
    assert page.locator("canvas").count() == 0


def test_sessions(visit: Visit, told: Program) -> None:
    """The list has every session once, the newest first, with its figures; the columns sort, filters filter."""
    page = visit.open("/sessions")
    sessions = told.json("sessions")
    rows = page.get_by_role("listitem").filter(has=page.locator("article"))
    expect(rows).to_have_count(len(sessions))
    links = rows.locator("a[id^=session-]")
    keys = [key_of(each["agent"], each["session_id"]) for each in sessions]
    assert [link.get_attribute("href") for link in links.all()] == [f"/sessions/{key}" for key in keys]
    for key, each in zip(keys, sessions, strict=True):
        row = rows.filter(has=page.locator(f"#session-{key}"))
        expect(row).to_contain_text(each["title"] or "Untitled")
        expect(row.get_by_title(re.compile("^Input: "))).to_have_attribute("title", hint(each["usage"]))
        expect(row).to_contain_text(f"Errors {each['errors']}")
    page.get_by_role("group", name="Sort").get_by_role("button", name="Turns").click()
    expect(page).to_have_url(re.compile("sort=turns"))
    most = max(sessions, key=lambda each: each["turns"])
    expect(links.first).to_have_attribute("href", f"/sessions/{key_of(most['agent'], most['session_id'])}")
    page.get_by_role("button", name="With errors").click()
    expect(rows).to_have_count(sum(each["errors"] > 0 for each in sessions))
    page.get_by_role("button", name="Clear filters").click()
    expect(rows).to_have_count(len(sessions))


def test_session(visit: Visit, told: Program) -> None:
    """A session shows its figures, its forks, every turn, and of a span its arguments, result, lines and price."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}")
    shown: dict[str, Any] = told.json("show", CLAUDE)
    session, usage = shown["session"], shown["session"]["usage"]
    expect(page.get_by_role("heading", level=1)).to_have_text(session["title"])
    expect(figure(page, "turns")).to_have_text(str(session["turns"]))
    expect(figure(page, "tool calls")).to_have_text(str(session["tools"]))
    expect(figure(page, "error")).to_have_text(str(session["errors"]))
    expect(page.locator(f"[title='{usage['output_tokens']}']").first).to_be_visible()
    family = page.get_by_role("paragraph").filter(has_text="Fork")
    fork = family.locator(f"a[href='/sessions/{key_of('claude-code', CLAUDE_FORK)}']")
    expect(fork).to_be_visible()
    rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem")
    expect(rows.first).to_contain_text("SCENARIO parallel please")
    page.keyboard.press("e")
    page.keyboard.press("Enter")
    pane = page.get_by_role("complementary", name="Span details")
    failed = next(span for span in shown["spans"] if span["status"] == "error" and span["kind"] == "tool")
    expect(pane.get_by_role("heading", level=2)).to_contain_text(failed["name"].removeprefix("execute_tool "))
    expect(page).to_have_url(re.compile(f"span={failed['span_id']}"))
    pane.get_by_role("tab", name="Raw lines").click()
    expect(pane).to_contain_text(f"{CLAUDE}.jsonl")
    pane.get_by_role("tab", name="Attributes").click()
    expect(pane).to_contain_text("gen_ai.operation.name")
    fork.click()
    expect(page.get_by_text("Fork of")).to_be_visible()
    expect(family.locator(f"a[href='/sessions/{key_of('claude-code', CLAUDE)}']")).to_be_visible()


def test_prices(visit: Visit, told: Program) -> None:
    """A model call shows its tokens and its cost with the price and the price's source."""
    spans = told.json("show", CLAUDE)["spans"]
    step = next(span for span in spans if span["kind"] == "step")
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}?span={step['span_id']}")
    pane = page.get_by_role("complementary", name="Span details")
    expect(pane.get_by_role("heading", level=2)).to_contain_text("claude-sonnet-4-5")
    expect(pane).to_contain_text("Price per million")
    expect(pane).to_contain_text("$3.00 in, $15.00 out")
    expect(pane).to_contain_text("Price source")


def test_waterfall(visit: Visit, told: Program) -> None:
    """The waterfall has a row for every span, each with a bar, subagents inside their tool calls."""
    page = visit.open(f"/sessions/{key_of('claude-code', CLAUDE)}?view=waterfall", height=1400)
    spans = told.json("show", CLAUDE)["spans"]
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid).to_have_attribute("aria-rowcount", str(len(spans) + 1))
    rows = grid.locator("[role=row][data-index]")
    expect(rows).to_have_count(len(spans))
    levels = [int(row.get_attribute("aria-level") or 0) for row in rows.all()]
    assert levels[0] == 1
    assert max(levels) > 3, "a subagent is inside the tool call that started it"
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    expect(page.get_by_role("group", name=re.compile("whole session")).locator("canvas")).to_be_visible()


def test_requests(visit: Visit, told: Program) -> None:
    """The requests have a chart and a row for every call of the agent, cache breaks marked; a call opens its span."""
    found = told.json("requests", KIMI_CLI)
    calls = [item for item in found["items"] if item["stream"] == "main"]
    page = visit.open(f"/sessions/{key_of('kimi-cli', KIMI_CLI)}")
    page.get_by_text("Requests", exact=True).click()
    expect(page).to_have_url(re.compile("tab=requests"))
    rows = page.get_by_role("table", name="Model calls and their context").locator("tbody tr")
    expect(rows).to_have_count(len(calls))
    expect(page.get_by_role("figure").locator("canvas").first).to_be_visible()
    expect(page.get_by_text(f"Model calls: {len(found['items'])} · cache breaks: 1 · compactions: 1")).to_be_visible()
    breaks = page.get_by_role("listitem").filter(has_text="cache lost")
    expect(breaks).to_have_count(1)
    expect(breaks).to_contain_text(f"cache lost {found['cache_lost_tokens']} tokens: compaction")
    broken = next(index for index, call in enumerate(calls) if call["cache_lost_tokens"])
    expect(rows.nth(broken)).to_contain_text(f"cache lost {calls[broken]['cache_lost_tokens']} tokens")
    page.get_by_role("combobox", name="Agent").select_option(
        label=next(i["stream"] for i in found["items"] if i["stream"] != "main")
    )
    expect(rows).to_have_count(2)
    rows.first.get_by_role("button", name="Details of call").click()
    expect(page.get_by_role("complementary", name="Span details")).to_be_visible()


@pytest.mark.parametrize("by", ["day", "month", "model", "agent", "project", "session"])
def test_usage(visit: Visit, told: Program, by: str) -> None:
    """Grouped by anything, the table has the groups and the total of ``agenttrace usage``, and says what is unsure."""
    page = visit.open(f"/usage?by={by}&since=all")
    usage = told.json("usage", "--by", by)
    table = page.get_by_role("table", name="Usage by group")
    expect(table.locator("tbody tr")).to_have_count(len(usage["rows"]))
    total = [cell.get_attribute("title") for cell in table.locator("tfoot td span[title]").all()]
    kinds = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    assert total[1:6] == [f"{usage['total'][kind]:,}" for kind in kinds]
    assert total[0] == f"{usage['total']['requests']:,}"
    expect(page.get_by_text(re.compile(r"tokens are unpriced"))).to_be_visible()
    expect(page.get_by_text(f"{usage['total']['folded_copies']} duplicates")).to_be_visible()
    expect(page.get_by_text("1 response is estimated")).to_be_visible()
    expect(page.get_by_role("figure").locator("canvas").first).to_be_visible()
    page.get_by_role("figure").get_by_text("Table", exact=True).click()
    expect(page.get_by_role("figure").get_by_role("table")).to_be_visible()


def test_insights(visit: Visit, told: Program) -> None:
    """The tables are those of ``agenttrace insights``; a row leads to its failures, and these to their spans."""
    page = visit.open("/insights?tab=tools&since=all")
    tools = told.json("insights", "tools", "--since", "all")["items"]
    table = page.get_by_role("table", name="Tools")
    expect(table.locator("tbody tr")).to_have_count(len(tools))
    table.get_by_role("button", name="Failure rate").click()
    expect(table.locator("tbody tr").first).to_contain_text("100%")
    table.get_by_role("link", name="deploy", exact=True).click()
    drawer = page.get_by_role("dialog", name="deploy")
    expect(drawer.get_by_text(DARK)).to_be_visible()
    page.go_back()
    expect(drawer).to_be_hidden()
    page.go_forward()
    drawer.get_by_role("link", name=DARK).first.click()
    expect(page.get_by_role("complementary", name="Span details")).to_contain_text(DARK)
    page.goto("/insights?since=all")
    findings = told.json("insights", "--since", "all", "--kind", "expensive_turn")["items"]
    section = page.get_by_role("region", name="The most expensive turns")
    expect(section.locator("ol > li")).to_have_count(min(5, len(findings)))
    section.locator("ol > li").first.get_by_role("link").first.click()
    expect(page.get_by_role("complementary", name="Span details")).to_be_visible()
    page.goto("/insights?tab=models&since=all")
    models = told.json("insights", "models", "--since", "all")["items"]
    expect(page.get_by_role("table", name="Models").locator("tbody tr")).to_have_count(len(models))


def test_files(visit: Visit, told: Program) -> None:
    """Every log file is there with offset and size, the sums are those of ``agenttrace status``, filters filter."""
    page = visit.open("/files")
    status = told.json("status")
    table = page.get_by_role("table", name="Files")
    expect(table.locator("tbody tr")).to_have_count(status["file_count"])
    for file in status["files"]:
        row = table.get_by_role("row").filter(has=page.get_by_title(file["path"], exact=True))
        expect(row).to_contain_text(f"{file['offset']:,}")
        expect(row).to_contain_text(f"{file['size']:,}")
    for name in ("recorded", "duplicate", "quarantined"):
        expect(figure(page, name.capitalize())).to_have_text(f"{status['lines'][name]:,}")
    lines = page.get_by_role("table", name=re.compile("lines read"))
    expect(lines).to_contain_text(f"{status['lines']['recorded']:,}")
    expect(page.get_by_role("table", name=re.compile("Deduplication hits"))).to_be_visible()
    page.get_by_role("textbox", name="Filter by path").or_(page.get_by_role("searchbox", name="Filter by path")).fill(
        "logs/"
    )
    expect(table.locator("tbody tr")).to_have_count(2)
    page.get_by_role("radio", name="Deleted").click()
    expect(page.get_by_text("No matching files")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(table.locator("tbody tr")).to_have_count(status["file_count"])


def test_quarantine(visit: Visit, told: Program) -> None:
    """A line that was not understood is listed with its reason and place, and shown as it is."""
    page = visit.open("/files")
    page.get_by_role("tab", name="Quarantine").click()
    table = page.get_by_role("table", name="Lines that could not be parsed")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table).to_contain_text(f"{FAILING}.jsonl")
    table.locator("tbody button").first.click()
    drawer = page.get_by_role("dialog", name="Line 1")
    expect(drawer).to_contain_text("this is no JSON")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()


def test_settings(visit: Visit, told: Program) -> None:
    """Every setting is there with its value and origin, secrets masked, and the doctor's findings with fixes."""
    page = visit.open("/settings")
    database = told.environment["AGENTTRACE_DATABASE_URL"]
    row = page.get_by_role("row").filter(has=page.get_by_text("database.url", exact=True))
    expect(row).to_contain_text("AGENTTRACE_DATABASE_URL")
    password = re.search(r":([^:@/]+)@", database)
    if password:
        assert password[1] not in page.content()
    page.get_by_role("tab", name="Health check").click()
    checks = page.get_by_role("list", name="Checks").get_by_role("listitem")
    expect(checks.first).to_be_visible()
    assert sorted(checks.locator("strong").all_inner_texts()) == sorted(doctors_checks(told))


def doctors_checks(told: Program) -> list[str]:
    """What the doctor looks at; what it thinks of this machine does not matter here."""
    done = forked.run(told.command("doctor", "--json"), env=told.environment, capture_output=True, check=False)
    return [check["name"] for check in json.loads(done.stdout)["checks"]]


def test_run_half_without_applications(visit: Visit) -> None:
    """Guards, cache, exports and runs of a machine without applications are empty, in words, not broken."""
    page = visit.open("/guards")
    expect(page.get_by_role("table", name="Circuit breakers").locator("tbody tr").first).to_contain_text("closed")
    expect(page.get_by_text("No running calls.")).to_be_visible()
    page.goto("/cache")
    expect(page.get_by_text("No matching results")).to_be_visible()
    page.goto("/exports")
    expect(page.get_by_text("No destination is configured")).to_be_visible()
