"""Logging in, by the link or by name: who gets in, what they see, and what they may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Page, expect

import forked
from agenttrace.cli.open import _PAGE
from agenttrace.serve.access.link import running_consoles
from cli.conftest import Program

from .conftest import Databases, Visit, new_user, running, settled, visiting, write_extra_logs

PASSWORDS = {"anna": "correct horse battery", "ben": "staple of the old harbour"}


def add_user(program: Program, name: str, role: str) -> None:
    forked.run(
        program.command("user", "add", name, "--role", role, "--password-stdin"),
        env=program.environment,
        input=PASSWORDS[name] + "\n",
        text=True,
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """A server that wants a login, with an admin and a viewer."""
    program = new_user(tmp_path_factory, databases)
    write_extra_logs(program)
    add_user(program, "ben", "admin")
    add_user(program, "anna", "viewer")
    with running(program, env={"AGENTTRACE_SERVE_LOGIN": "always"}) as found:
        yield found


@pytest.fixture
def guest(browser: Browser, guarded: running) -> Iterator[Visit]:
    """A visitor of it."""
    yield from visiting(browser, guarded, logged_in=False)


def enter(page: Page, name: str, password: str) -> None:
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("textbox", name="Password").fill(password)
    page.keyboard.press("Enter")


def post(page: Page, path: str, token: str | None = None) -> APIResponse:
    """A change, asked for with this browser's cookie but not by the page."""
    headers = {"X-CSRF-Token": token} if token is not None else {}
    return page.request.post(f"/api/v1{path}", data={"ids": None}, headers=headers)


def test_login_leads_to_where_one_wanted_to_go(guest: Visit) -> None:
    """Without a login nothing is shown but the way in; a wrong password is said; the right one goes on to the page."""
    page = guest.open("/files?tab=quarantine")
    expect(page).to_have_url(f"{guest.base}/login?next=%2Ffiles%3Ftab%3Dquarantine")
    assert page.request.get("/api/v1/sessions").status == 401
    assert "harbour" not in page.content()
    enter(page, "ben", "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page).to_have_url(f"{guest.base}/login?next=%2Ffiles%3Ftab%3Dquarantine")
    enter(page, "ben", PASSWORDS["ben"])
    expect(page).to_have_url(f"{guest.base}/files?tab=quarantine")
    expect(page.get_by_role("button", name="Retry all")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["value"] not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
    page.reload()
    expect(page.get_by_role("button", name="Retry all")).to_be_visible()


@pytest.mark.parametrize("after", ["https://elsewhere.example/", "//elsewhere.example/", "/\\elsewhere.example/"])
def test_login_never_leads_elsewhere(guest: Visit, after: str) -> None:
    """However the address was made up, a login ends on a page of this console."""
    page = guest.enter()
    page.goto(f"/login?next={after}")
    enter(page, "anna", PASSWORDS["anna"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    assert page.url.startswith(guest.base)


def test_viewers_look_and_change_nothing(guest: Visit) -> None:
    """A viewer sees the pages without their buttons, and whatever else asks with the viewer's cookie is refused."""
    page = guest.open("/files?tab=quarantine")
    enter(page, "anna", PASSWORDS["anna"])
    expect(page.get_by_role("table", name="Lines that could not be parsed").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Try")).to_have_count(0)
    page.get_by_role("link", name="Guards", exact=True).first.click()
    expect(page.get_by_role("table", name="Circuit breakers").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("table", name="Circuit breakers").get_by_role("button")).to_have_count(0)
    page.get_by_role("link", name="Settings", exact=True).first.click()
    settled(page)
    expect(page.get_by_role("tab", name="Audit log")).to_have_count(0)
    token = page.request.get("/api/v1/me").json()["csrf"]
    for path in ("/quarantine/retry", "/guards/breakers/app1_chat/open", "/cache/1/invalidate", "/jobs/1/cancel"):
        assert post(page, path, token).status == 403, path
    assert page.request.get("/api/v1/audit").status == 403


def test_a_change_needs_the_token(guest: Visit, guarded: running) -> None:
    """A change without the token, or with another's, is refused and leaves nothing behind; with it, it is made."""
    page = guest.open("/")
    enter(page, "ben", PASSWORDS["ben"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    assert post(page, "/quarantine/retry").status == 403
    assert post(page, "/quarantine/retry", "made-up").status == 403
    assert [row for row in audit(guarded.program) if row["action"] == "quarantine.retry"] == []
    token = page.request.get("/api/v1/me").json()["csrf"]
    assert post(page, "/quarantine/retry", token).status == 200
    (row,) = [row for row in audit(guarded.program) if row["action"] == "quarantine.retry"]
    assert row["user"] == "ben"


def audit(program: Program) -> list[dict[str, str]]:
    found: list[dict[str, str]] = program.json("user", "audit")
    return found


def test_logout_ends_it(guest: Visit) -> None:
    """After logging out the cookie is worth nothing, nothing of what was seen is left, and back shows the login."""
    page = guest.open("/sessions")
    enter(page, "anna", PASSWORDS["anna"])
    expect(page.get_by_role("link", name="Deploy the harbour")).to_be_visible()
    kept = page.context.cookies()
    page.get_by_role("button", name="Logged in as anna").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("textbox", name="Password")).to_be_visible()
    page.context.add_cookies([{"name": each["name"], "value": each["value"], "url": guest.base} for each in kept])
    assert page.request.get("/api/v1/sessions").status == 401
    page.go_back()
    expect(page.get_by_role("textbox", name="Password")).to_be_visible()
    assert "harbour" not in page.content()


# ── by the link ──


@pytest.fixture
def stranger(browser: Browser, served: running) -> Iterator[Visit]:
    """A browser of this machine that has no login."""
    yield from visiting(browser, served, logged_in=False)


def link_of(server: running) -> str:
    (console,) = running_consoles(server.home)
    assert console.link is not None
    return console.link


@pytest.mark.parametrize(("language", "says"), [("en-US", "follow the link it prints"), ("zh-CN", "打开它输出的链接")])
def test_without_the_link_the_page_says_how_to_get_in(stranger: Visit, language: str, says: str) -> None:
    """Nothing recorded is shown, but the command that prints the link; a link of an earlier start is told to be old."""
    page = stranger.open("/sessions", language=language)
    expect(page.get_by_text(says)).to_be_visible()
    expect(page.get_by_text("agenttrace open")).to_be_visible()
    assert page.request.get("/api/v1/sessions").status == 401
    assert "harbour" not in page.content()
    page.goto("/sessions?token=of-before")
    expect(page.get_by_role("alert")).to_be_visible()
    assert "of-before" not in page.url


def test_the_link_leads_in_and_is_gone(stranger: Visit, served: running, tmp_path: Path) -> None:
    """Opened as ``agenttrace open`` does, the console is there and live, and the token is in no address any more."""
    link = link_of(served)
    token = link.rpartition("=")[2]
    file = tmp_path / "open.html"
    file.write_text(_PAGE.format(link=link))
    page = stranger.enter()
    stranger.watched.complaints.clear()
    referers: list[str] = []
    page.on("request", lambda request: referers.append(request.headers.get("referer") or ""))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator("header [role=status]")).to_have_text("Live")
    assert page.url == f"{stranger.base}/"
    assert not any(token in each for each in referers)
    assert token not in page.evaluate("document.cookie + JSON.stringify(localStorage) + location.href")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["value"] != token
    page.get_by_role("button", name="Logged in as").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("agenttrace open")).to_be_visible()
    assert page.request.get("/api/v1/sessions").status == 401


def test_a_page_goes_on_when_the_link_was_opened_elsewhere(stranger: Visit, served: running) -> None:
    """The page that asks for a login notices that another window of this browser has one."""
    page = stranger.open("/usage")
    expect(page.get_by_text("agenttrace open")).to_be_visible()
    beside = page.context.new_page()
    beside.goto(link_of(served))
    page.bring_to_front()
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
