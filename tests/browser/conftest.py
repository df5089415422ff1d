"""A real browser in front of a real ``agenttrace up``; skipped, with a message, where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from agenttrace.config import Settings
from agenttrace.console import PAGE
from agenttrace.ids import session_number
from agenttrace.serve.access.cookie import NAME as COOKIE
from cli.conftest import Program, stop
from console_login import login_token
from run.fixtures import execute
from team_rig import write_team

from .furnished import failed_span, furnishing, work

if TYPE_CHECKING:
    from .places import Server, Tour

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: What a page may take on a machine that runs other tests beside it.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

#: Every page that is in the navigation, by its address.
PAGES = {
    "/": "Overview",
    "/sessions": "Sessions",
    "/usage": "Usage",
    "/insights": "Insights",
    "/rules": "Rules",
    "/runs": "Runs",
    "/chat": "Chat",
    "/guards": "Guards",
    "/cache": "Cache",
    "/files": "Files",
    "/exports": "Exports",
    "/settings": "Settings",
}
#: The session of the fixtures that is written in Chinese.
CHINESE = "zh-1"
#: A session with a failed tool call.
FAILING = "failing-1"
DELIVERED, DARK = "包裹今天下午配送。", "the lighthouse is dark"

#: An address of every server that loads nothing else.
EMPTY = "/healthz"

Databases = Callable[[], str]


def key_of(agent: str, session_id: str) -> str:
    """The key of a session in addresses."""
    return f"{session_number(agent, session_id):016x}"


# Not of the session: while Playwright runs, this thread has a running loop, and other tests want theirs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium as Debian has it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    assert (PAGE / "index.html").exists(), "the console is not built: make console"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        _idle.clear()
        found.close()


@dataclass
class Watched:
    """What a page did that it should not have."""

    complaints: list[str] = field(default_factory=list)

    def watch(self, page: Page, base: str) -> Callable[[], None]:
        """Listen to a page until the function that comes back is called."""

        def on_console(message: ConsoleMessage) -> None:
            # Answers that a test provokes are reported by the browser itself; they are no mistake of the page.
            if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
                self.complaints.append(message.text)

        def on_request(request: Request) -> None:
            if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(base):
                self.complaints.append(f"asked another host: {request.url}")

        def on_error(error: Error) -> None:
            self.complaints.append(str(error))

        page.on("console", on_console)
        page.on("pageerror", on_error)
        page.on("request", on_request)

        def leave() -> None:
            page.remove_listener("console", on_console)
            page.remove_listener("pageerror", on_error)
            page.remove_listener("request", on_request)

        return leave


#: Windows of the browser that wait for the next test, by server and language. A new one costs five
#: times the CPU of a used one: a process, and the page's code to be compiled.
_idle: dict[tuple[str, str], list[Page]] = {}


class Visit:
    """Somebody with a browser: opens pages, and complains at the end about whatever a page logged."""

    def __init__(self, browser: Browser, base: str, token: str | None) -> None:
        self._browser, self.base, self._token = browser, base, token
        self._leaving: dict[Page, Callable[[], None]] = {}
        self.watched = Watched()

    def enter(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        theme: Literal["light", "dark"] = "light",
        language: str = "en-US",
        fresh: bool = False,
        timezone: str | None = None,
    ) -> Page:
        """An empty page in a browser that remembers nothing; ``fresh`` where a test changes what cannot be undone."""
        idle = [] if fresh else _idle.setdefault((self.base, language), [])
        page = idle.pop() if idle else self._new_page(language, timezone)
        page.set_viewport_size(ViewportSize(width=width, height=height))
        page.emulate_media(color_scheme=theme)
        if self._token is not None:
            page.context.add_cookies([{"name": COOKIE, "value": self._token, "url": self.base}])
        unwatch = self.watched.watch(page, self.base)

        def leave() -> None:
            unwatch()
            if fresh or not self._is_forgotten(page):
                page.context.close()
            else:
                _idle[self.base, language].append(page)

        self._leaving[page] = leave
        return page

    def _new_page(self, language: str, timezone: str | None) -> Page:
        context = self._browser.new_context(
            locale=language, base_url=self.base, accept_downloads=True, timezone_id=timezone
        )
        context.set_default_timeout(PATIENCE_MS)
        return context.new_page()

    def _is_forgotten(self, page: Page) -> bool:
        """Whether a browser is as new: nothing loaded, no other window, no cookie, nothing stored, nothing rerouted."""
        for other in page.context.pages:
            if other is not page:
                other.close()
        try:
            page.unroute_all()
            page.goto(EMPTY)
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
        except Error:
            return False  # such as after a test that has stopped its server
        page.context.clear_cookies()
        return True

    def open(self, path: str, **how: Any) -> Page:  # noqa: ANN401 - as enter has them
        """A page in a browser of its own, at an address."""
        page = self.enter(**how)
        page.goto(path)
        return page

    def leave(self, page: Page) -> None:
        """Close a page before the visit ends."""
        self._leaving.pop(page)()

    def close(self) -> None:
        """End the visit."""
        for page in list(self._leaving):
            self.leave(page)


class running:  # noqa: N801 - used like a function
    """``agenttrace up`` until the block is left; ``stop`` and ``start`` end it before, and begin it again."""

    def __init__(self, program: Program, *, env: Mapping[str, str] | None = None, command: str = "up") -> None:
        self.program, self._command = program, command
        program.environment |= env or {}
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def home(self) -> Path:
        """The data directory."""
        return self.program.home

    def start(self) -> None:
        """Begin, at the same port if there was one before."""
        port = str(urlsplit(self.url).port or 0)
        self._process = self.program.start(self._command, "--port", port, "--json")
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "url" in told:
                self.url = told["url"]
                return
        raise AssertionError(f"{self._command} ended: {self._process.communicate()[1]}")

    def stop(self) -> None:
        """End it, as a user would with Ctrl-C."""
        if self._process is not None:
            stop(self._process)
        self._process = None

    def __enter__(self) -> running:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for key in [key for key in _idle if key[0] == self.url]:
            for page in _idle.pop(key):
                page.context.close()
        self.stop()


@pytest.fixture(scope="session")
def databases(postgres_url: str, template: str, worker_id: str) -> Databases:
    """Migrated databases, a fresh one for each server: quicker than a PostgreSQL for each of them."""
    numbers = count(1)

    def make() -> str:
        name = f"browser_{worker_id}_{next(numbers)}"
        execute(postgres_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        execute(postgres_url, f"CREATE DATABASE {name} TEMPLATE {template}")
        return urlsplit(postgres_url)._replace(path=f"/{name}").geturl()

    return make


def new_user(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Program:
    """Somebody without any logs, and with a database."""
    user = tmp_path_factory.mktemp("user") / "home"
    user.mkdir()
    program = Program(user)
    program.home.mkdir(mode=0o700)
    program.environment["AGENTTRACE_DATABASE_URL"] = databases()
    # As where it is installed: the commands that pages advise are the same in every checkout.
    program.environment["PATH"] += f"{os.pathsep}{Path(sys.executable).parent}"
    return program


def write_extra_logs(program: Program, now: float | None = None) -> None:
    """What the agents' fixtures do not have: a Chinese session, a failed tool, a line that is no JSON."""
    now = time.time() if now is None else now
    program.log(
        CHINESE,
        {"type": "session.begin", "id": "s", "ts": now, "agent": "客服", "project": "商城", "title": "包裹到哪里了？"},
        {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "我的包裹 4711 什么时候送到？"},
        {"type": "step.begin", "id": "a", "ts": now, "turn": 1, "step": 1, "model": "qwen-max"},
        {
            "type": "message",
            "id": "m",
            "ts": now,
            "turn": 1,
            "step": 1,
            "role": "assistant",
            "text": DELIVERED,
        },
        {
            "type": "step.end",
            "id": "a",
            "ts": now + 1,
            "turn": 1,
            "step": 1,
            "usage": {"input_tokens": 400, "output_tokens": 50},
        },
        {"type": "turn.end", "id": "t", "ts": now + 1, "turn": 1},
    )
    path = program.log(
        FAILING,
        {"type": "session.begin", "id": "s", "ts": now - 9, "agent": "helpdesk", "title": "Deploy the harbour"},
        {"type": "turn.begin", "id": "t", "ts": now - 9, "turn": 1, "prompt": "Deploy it, please"},
        {"type": "step.begin", "id": "a", "ts": now - 8, "turn": 1, "step": 1, "model": "qwen-max"},
        {
            "type": "tool.begin",
            "id": "c1",
            "ts": now - 7,
            "turn": 1,
            "step": 1,
            "name": "deploy",
            "arguments": {"to": "prod"},
        },
        {
            "type": "tool.end",
            "id": "c1",
            "ts": now - 6,
            "turn": 1,
            "status": "error",
            "error": DARK,
        },
        {"type": "step.end", "id": "a", "ts": now - 5, "turn": 1, "step": 1},
        {"type": "turn.end", "id": "t", "ts": now - 5, "turn": 1},
    )
    with path.open("a", encoding="utf-8") as stream:
        stream.write("this is no JSON\n")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[running]:
    """The logs of four agents and two sessions more, recorded and served; for tests that only look."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    program = new_user(tmp_path_factory, databases)
    program.use_fixtures()
    write_extra_logs(program)
    program.run("record", "--once", "--index")
    with running(program) as found:
        yield found


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[running]:
    """A server with something on every page; for tests that only look."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    program = new_user(tmp_path_factory, databases)
    with furnishing(program, write_extra_logs), running(program) as found:
        work(program, found.url)
        yield found


@pytest.fixture(scope="session")
def teamed(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[running]:
    """The server of a team of five machines; for tests that only look."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    program = new_user(tmp_path_factory, databases)
    write_team(Settings(home=program.home))
    # Sessions that work go on doing so until the last test has looked at them.
    (program.home / "agenttrace.toml").write_text('[team]\nname = "Checkout"\n[record]\nstale_minutes = 600\n')
    with running(program) as found:
        yield found


@pytest.fixture(scope="session")
def unused(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[running]:
    """A server of a machine without any logs; for tests that only look."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    with running(new_user(tmp_path_factory, databases)) as found:
        yield found


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """An empty store, served to this module alone: its tests may write logs and stop the server."""
    with running(new_user(tmp_path_factory, databases)) as found:
        yield found


def visiting(browser: Browser, server: running, *, url: str = "", logged_in: bool = True) -> Iterator[Visit]:
    """A visitor; a page that logs an error or asks another host fails the test."""
    found = Visit(browser, url or server.url, login_token(server.home) if logged_in else None)
    yield found
    found.close()
    assert found.watched.complaints == []


@pytest.fixture
def visit(browser: Browser, served: running) -> Iterator[Visit]:
    """A visitor of the recorded fixtures."""
    yield from visiting(browser, served)


@pytest.fixture
def own_visit(browser: Browser, own: running) -> Iterator[Visit]:
    """A visitor of this module's own server."""
    yield from visiting(browser, own)


@pytest.fixture(scope="session")
def servers(furnished: running, teamed: running, unused: running) -> dict[Server, running]:
    """The servers of all places."""
    return {"furnished": furnished, "teamed": teamed, "unused": unused}


@pytest.fixture(scope="session")
def names(furnished: running) -> dict[str, str]:
    """What is in the addresses of places and known only when it was recorded."""
    return {"span": failed_span(furnished.program)}


@pytest.fixture
def still(browser: Browser, servers: dict[Server, running], names: dict[str, str]) -> Iterator[Tour]:
    """A visitor of every place of the console; the clock of the browser stands still, two hours after the data."""
    from .places import Tour  # uses what is above

    with Tour(browser, servers, names, datetime.now(UTC) + timedelta(hours=2)).begun() as found:
        yield found


def settled(page: Page) -> None:
    """Wait until a page shows what it has to show: its heading, and nothing that is still loading."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("main [role=status] .unseen", has_text="…")).to_have_count(0)
    page.wait_for_function("() => !document.querySelector('main [class*=loading]')")


def turn_to(page: Page, path: str) -> None:
    """Go on to another page as a link does, which loads nothing anew; to the same page by its address."""
    if urlsplit(page.url).path in (EMPTY, "blank", urlsplit(path).path):
        page.goto(path)
    else:
        page.evaluate("(path) => history.pushState(null, '', path)", path)
    settled(page)


def overflow(page: Page) -> int:
    """How many pixels the page is wider than its window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return wide
