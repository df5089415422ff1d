"""The page of a session: pictures, roles, commands, outline, tabs, patch, neighbours; by keys; one server for all."""

# ruff: noqa: ANN401 - lines are JSON

from __future__ import annotations

import base64
import json
import re
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.conftest import Program

from .conftest import Visit, key_of, overflow, running, settled, visiting
from .test_keyboard import here
from .test_looks import problems

SESSION, OTHER = "7a7a1f8e-1111-4222-8333-444455556666", "7a7a1f8e-1111-4222-8333-444455556667"
KEY = key_of("claude-code", SESSION)
TABS = ("conversation", "waterfall", "changes", "tools", "requests", "raw")
TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 1\nAssertionError'


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int) -> str:
    """A picture, in base64."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((x * 7) % 256 for x in range(3 * width)) for _ in range(height))
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def image(data: str, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def use(number: int, name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}]


def answer(number: int, content: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}]


def log(session: str, entries: list[tuple[str, Any, dict[str, Any]]], minute: int) -> str:
    """A log of Claude Code."""
    lines = []
    for number, (kind, content, more) in enumerate(entries):
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            usage = {"input_tokens": 1000, "output_tokens": 50}
            message |= {"id": f"msg_{session[-2:]}{number}", "model": "claude-sonnet-4-5-20250929", "usage": usage}
        at = f"2026-11-16T09:{minute:02}:{number:02}.000Z"
        facts = {"sessionId": session, "isSidechain": False, "cwd": "/w/shop", "version": "2.1.197", "parentUuid": None}
        entry = {"type": kind, "message": message, "uuid": f"{session[-2:]}-{number}", "timestamp": at, **facts, **more}
        lines.append(json.dumps(entry))
    return "".join(f"{line}\n" for line in lines)


HUNK = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": [" a = 1", "+b = 2"]}
SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>").decode()
PROMPT = [{"type": "text", "text": "Look at this"}, image(png(64, 48)), image(SVG, "image/svg+xml")]
ENTRIES: list[tuple[str, Any, dict[str, Any]]] = [
    ("user", PROMPT, {}),
    ("assistant", [{"type": "text", "text": "```python\ndef f() -> int:\n    return 1\n```"}], {}),
    ("assistant", use(1, "Edit", file_path="/w/shop/a.py", old_string="a = 1", new_string="a = 1\nb = 2"), {}),
    ("user", answer(1, "done"), {"toolUseResult": {"filePath": "/w/shop/a.py", "structuredPatch": [HUNK]}}),
    ("assistant", use(2, "Bash", command="npm test", description="Run the tests"), {}),
    ("user", answer(2, TRACEBACK, is_error=True), {}),
    ("assistant", use(3, "Bash", command="false"), {}),
    ("user", answer(3, "", is_error=True), {}),
    ("assistant", use(4, "Screenshot", url="http://localhost"), {}),
    ("user", answer(4, [{"type": "text", "text": "taken"}, image(png(40, 40))]), {}),
    ("assistant", [{"type": "text", "text": "There you are."}], {}),
    ("user", "And now something else", {}),
    ("assistant", [{"type": "text", "text": "Gladly."}], {}),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[running]:
    """A server with two sessions, and nothing else: no recorder, no database."""
    user = tmp_path_factory.mktemp("user") / "home"
    user.mkdir()
    program = Program(user)
    place: Path = program.user / ".claude" / "projects" / "-w-shop"
    place.mkdir(parents=True)
    (place / f"{OTHER}.jsonl").write_text(log(OTHER, [("user", "An older one", {}), ("assistant", "Yes", {})], 1))
    (place / f"{SESSION}.jsonl").write_text(log(SESSION, ENTRIES, 2))
    program.run("record", "--once")
    program.run("note", SESSION, "Look at the end of it")
    with running(program, command="serve") as found:
        yield found


@pytest.fixture
def look(browser: Browser, recorded: running) -> Iterator[Visit]:
    yield from visiting(browser, recorded)


def opened(look: Visit, path: str = "", **how: Any) -> Page:
    page = look.open("/sessions", **how)
    expect(page.locator(f"#session-{KEY}")).to_be_visible()
    page.goto(f"/sessions/{KEY}{path}")
    settled(page)
    return page


def test_conversation(look: Visit) -> None:
    """Pictures are shown or said, roles and commands are seen, tracebacks keep their columns, no reason is said."""
    page = opened(look, height=2600)
    picture = page.get_by_role("img", name="Picture, PNG, ")
    expect(picture.first).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('main img')].every((each) => each.complete && each.naturalWidth > 0)"
    )
    expect(picture).to_have_count(2)
    expect(page.get_by_text("Picture, SVG, 54 B, not shown: this format can hold programs")).to_be_visible()
    conversation = page.get_by_role("list", name="Conversation, in reading order")
    for role in ("User", "Assistant", "Tool"):
        expect(conversation.get_by_text(role, exact=True).first).to_be_visible()
    expect(conversation.get_by_title("claude-sonnet-4-5-20250929").first).to_have_text("Sonnet 4.5")
    expect(conversation.get_by_text("$ npm test")).to_be_visible()
    expect(conversation.get_by_text("Failed. The log gives no reason.")).to_have_count(1)
    expect(conversation.locator("pre .hljs-keyword").first).to_have_text("def")
    expect(page.get_by_role("button", name="New below")).to_have_count(0)
    failed = conversation.get_by_role("listitem").filter(has_text="$ npm test")
    failed.get_by_role("button", name="npm test").click()
    traceback = failed.get_by_role("group", name="Error").last
    assert "mono" in traceback.evaluate("(each) => getComputedStyle(each).fontFamily")
    expect(failed.get_by_text("Run the tests")).to_be_visible()


def test_outline(look: Visit) -> None:
    """The outline has turns with their cost, failures, files and notes; each leads there. It can be hidden for good."""
    page = opened(look)
    outline = page.get_by_role("navigation", name="Outline")
    expect(outline.get_by_role("button", name=re.compile(r"Look at this.*2!.*\$0\.\d"))).to_be_visible()
    expect(outline.get_by_text("Look at the end of it")).to_be_visible()
    outline.get_by_role("button", name="Bash $ false").click()
    expect(page.locator("[role=listitem][aria-current=true]")).to_contain_text("$ false")
    outline.get_by_role("button", name=re.compile("a.py")).click()
    expect(page).to_have_url(re.compile(r"tab=changes&file=a.py"))
    page.keyboard.press("o")
    expect(outline).to_have_count(0)
    page.reload()
    expect(page.get_by_role("region", name="a.py")).to_be_visible()
    expect(outline).to_have_count(0)


def test_changes(look: Visit, tmp_path: Path) -> None:
    """Every file with its diff; the patch that is copied applies; an edit leads to its span."""
    page = opened(look, "?tab=changes")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    file = page.get_by_role("region", name="a.py")
    expect(file.get_by_role("row", name=re.compile("added b = 2"))).to_be_visible()
    expect(file.get_by_role("link", name="Open in VS Code")).to_have_attribute("href", "vscode://file/w/shop/a.py")
    page.get_by_role("button", name="Copy all as patch").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    patch: str = page.evaluate("navigator.clipboard.readText()")
    (tmp_path / "a.py").write_text("a = 1\n")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch.encode(), check=True)
    assert (tmp_path / "a.py").read_text() == "a = 1\nb = 2\n"
    file.get_by_role("button", name="Edit 1").click()
    expect(page.locator("[role=listitem][aria-current=true]")).to_contain_text("Edit")


def test_tools_and_lines(look: Visit) -> None:
    """Calls by tool lead to their spans; raw lines begin at any number."""
    page = opened(look, "?tab=tools")
    row = page.get_by_role("row", name=re.compile("^Calls of Bash"))
    expect(row).to_contain_text(re.compile("2.*2.*100%"))
    row.get_by_role("button").click()
    calls = page.get_by_role("region", name="Calls of Bash")
    calls.get_by_role("button", name=re.compile(r"\$ npm test")).click()
    expect(page.locator("[role=listitem][aria-current=true]")).to_contain_text("$ npm test")
    page.keyboard.press("6")
    lines = page.get_by_role("list", name="Recorded lines").get_by_role("article")
    expect(lines).to_have_count(len(ENTRIES))
    page.keyboard.press("#")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    expect(lines).to_have_count(len(ENTRIES) - 11)
    expect(lines.first).to_contain_text("And now something else")
    expect(page).to_have_url(re.compile("tab=raw&line=12"))


def test_by_keys_alone(look: Visit) -> None:
    """Tabs, neighbours in the order of the list, and back to the list with its filters."""
    page = look.open("/sessions?agent=claude-code&sort=started")
    page.locator(f"#session-{KEY}").press("Enter")
    settled(page)
    for number, name in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        expect(page.get_by_role("tab", selected=True)).to_have_attribute("id", f"session-tab-{name}")
        settled(page)
        here(page)
    page.keyboard.press("w")
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.keyboard.press("N")
    expect(page.get_by_role("heading", level=1)).to_have_text("An older one")
    page.keyboard.press("P")
    expect(page.get_by_role("heading", level=1)).to_have_text("Look at this")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("Show or hide the outline")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(r"/sessions\?agent=claude-code&sort=started"))


@pytest.mark.parametrize(("path", "asked"), [("/runs", "jobs"), ("/guards", "guards"), ("/cache", "cache")])
def test_pages_of_applications_where_there_are_none(look: Visit, path: str, asked: str) -> None:
    """They say so, and go on saying so while they ask again."""
    page = look.open(path)
    expect(page.get_by_text("Applications are not configured", exact=True)).to_be_visible()
    expect(page.get_by_text("agenttrace apps shows what to set")).to_be_visible()
    page.evaluate(
        """() => {
          const main = document.querySelector("main");
          const look = () => { window.gone ||= !main.textContent.includes("Applications are not configured"); };
          new MutationObserver(look).observe(main, { subtree: true, childList: true });
          window.gone = false;
        }"""
    )
    for _ in range(2):
        with page.expect_response(lambda found: f"/api/v1/{asked}" in found.url) as answer:
            pass
        assert answer.value.status == 503
    assert page.evaluate("window.gone") is False


@pytest.mark.parametrize(
    ("width", "theme", "language"), [(1280, "light", "en-US"), (1920, "dark", "zh-CN"), (390, "dark", "en-US")]
)
def test_looks(look: Visit, width: int, theme: Literal["light", "dark"], language: str) -> None:
    """Every tab fits; axe finds nothing serious; on a phone the outline opens over the page."""
    page = opened(look, width=width, theme=theme, language=language)
    for number, name in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        expect(page.get_by_role("tab", selected=True)).to_have_attribute("id", f"session-tab-{name}")
        settled(page)
        assert overflow(page) <= 0, name
        # The other pages' tests look at these tabs, too; pictures and diffs are only here.
        if width == 1280 and name in ("conversation", "changes"):
            assert problems(page) == [], name
    if width == 390:
        page.keyboard.press("o")
        expect(page.get_by_role("dialog").get_by_role("navigation", name="Outline")).to_be_visible()
        assert problems(page) == []
