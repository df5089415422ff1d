"""A real browser in front of a real ``agenttrace up``; skipped, with a message, where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from agenttrace.console import PAGE
from cli.conftest import Program, stop

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


# Of a module, not of the session: while Playwright runs, this thread has a running loop, and other tests want theirs.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as Debian has it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; to run these tests: apt install chromium")
    assert (PAGE / "index.html").exists(), "the console is not built: make console"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@dataclass
class Watched:
    """What a page did that it should not have."""

    complaints: list[str] = field(default_factory=list)

    def watch(self, page: Page, base: str) -> None:
        """Listen to a page."""

        def on_console(message: ConsoleMessage) -> None:
            # Answers that a test provokes are reported by the browser itself; they are no mistake of the page.
            if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
                self.complaints.append(message.text)

        def on_request(request: Request) -> None:
            if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(base):
                self.complaints.append(f"asked another host: {request.url}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", on_request)


class Visit:
    """Somebody with a browser: opens pages, and complains at the end about whatever a page logged."""

    def __init__(self, browser: Browser, base: str) -> None:
        self._browser, self.base = browser, base
        self._contexts: list[BrowserContext] = []
        self.watched = Watched()

    def open(
        self, path: str, *, width: int = 1280, height: int = 900, theme: str = "light", language: str = "en-US"
    ) -> Page:
        """A page in a browser of its own: nothing remembered."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            locale=language,
            base_url=self.base,
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        page = context.new_page()
        self.watched.watch(page, self.base)
        page.goto(path)
        return page

    def close(self) -> None:
        """End the visit."""
        for context in self._contexts:
            context.close()


@dataclass
class Served:
    """A running ``agenttrace up``."""

    program: Program
    url: str

    @property
    def home(self) -> Path:
        """The data directory."""
        return self.program.home


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The logs of four agents, recorded and served."""
    user = tmp_path_factory.mktemp("user") / "home"
    user.mkdir()
    program = Program(user)
    program.use_fixtures()
    with running(program) as found:
        yield found


class running:  # noqa: N801 - used like a function
    """``agenttrace up`` until the block is left."""

    def __init__(self, program: Program, *arguments: str) -> None:
        self._process = program.start("up", "--port", "0", "--json", *arguments)
        self._program = program

    def __enter__(self) -> Served:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "url" in told:
                return Served(self._program, told["url"])
        raise AssertionError(f"up ended: {self._process.communicate()[1]}")

    def __exit__(self, *_: object) -> None:
        stop(self._process)


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    """A visitor; a page that logs an error or asks another host fails the test."""
    found = Visit(browser, served.url)
    yield found
    found.close()
    assert found.watched.complaints == []
