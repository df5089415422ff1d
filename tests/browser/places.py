"""Every page and tab of the console, with what is opened on them: what tests of looks, keys and languages visit.

``test_places.py`` checks that no page and no tab is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from playwright.sync_api import Browser, Page, Request, expect
from playwright.sync_api import TimeoutError as TooLate

from cli.conftest import CLAUDE, CLAUDE_FORK, KIMI_CLI
from team_rig import MIDDAY

from .conftest import EMPTY, FAILING, Visit, key_of, running, settled, turn_to, visiting

#: For how long React leaves what it shows in place of something that is loaded, and a little more.
REPLACED_MS = 400
#: What a page loads some time after it was shown, such as the style sheet of the Chinese font, it loads at once.
AT_ONCE = """(() => {
  const later = window.setTimeout;
  window.setTimeout = (run, delay, ...values) => later(run, delay === 1500 ? 0 : delay, ...values);
})()"""
#: The stream of what happens.
LIVE = "/api/v1/live"
Server = Literal["furnished", "teamed", "unused"]
#: What is done on a page before it is looked at.
Step = Callable[[Page], None]

SESSION = f"/sessions/{key_of('claude-code', CLAUDE)}"
REQUESTS = f"/sessions/{key_of('kimi-cli', KIMI_CLI)}?tab=requests"
FAILED = f"/sessions/{key_of('agenttrace', FAILING)}"
COMPARE = f"/compare?a={key_of('claude-code', CLAUDE)}&b={key_of('claude-code', CLAUDE_FORK)}"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A page at an address, with what is opened on it."""

    name: str
    #: ``{span}`` is the failed span of the session.
    path: str
    server: Server = "furnished"
    open: Step | None = None

    def __str__(self) -> str:
        return self.name


def _pressed(english: str, chinese: str) -> Step:
    """A button is pressed, and a dialog opens."""

    def step(page: Page) -> None:
        page.get_by_role("button", name=re.compile(f"^({english}|{chinese})$")).first.click()
        expect(page.get_by_role("dialog").first).to_be_visible()

    return step


def _keys(keys: str) -> Step:
    """A key opens a dialog."""

    def step(page: Page) -> None:
        page.keyboard.press(keys)
        expect(page.get_by_role("dialog").first).to_be_visible()

    return step


def _dialog(page: Page) -> None:
    """The address opens a dialog."""
    expect(page.get_by_role("dialog").first).to_be_visible()


def _first_firing(page: Page) -> None:
    page.get_by_role("button", name=re.compile("Firing|触发")).first.click()
    _dialog(page)


def _pane(page: Page) -> None:
    expect(page.get_by_role("complementary").get_by_role("tab").first).to_be_visible()


PLACES = (
    Place(name="overview", path="/"),
    Place(name="sessions", path="/sessions"),
    Place(name="sessions-search", path="/sessions?q=scenario"),
    Place(name="sessions-errors", path="/sessions?errors=true&since=all"),
    Place(name="sessions-compare", path=f"/sessions?compare={key_of('claude-code', CLAUDE)}"),
    Place(name="usage", path="/usage"),
    Place(name="usage-models", path="/usage?by=model&since=all"),
    Place(name="usage-projects", path="/usage?by=project&since=all&parts=true"),
    Place(name="insights", path="/insights?since=all"),
    Place(name="insights-tools", path="/insights?tab=tools&since=all"),
    Place(name="insights-calls", path="/insights?tab=tools&since=all&tool=Bash", open=_dialog),
    Place(name="insights-models", path="/insights?tab=models&since=all"),
    Place(name="palette", path="/sessions", open=_keys("Control+k")),
    Place(name="help", path="/usage", open=_keys("?")),
    Place(name="session", path=SESSION),
    Place(name="session-failed", path=FAILED),
    Place(name="session-span", path=f"{SESSION}?span={{span}}", open=_pane),
    Place(name="session-replay", path=f"{SESSION}?replay=1"),
    Place(name="session-share", path=SESSION, open=_pressed("Share", "分享")),
    Place(name="session-waterfall", path=f"{SESSION}?tab=waterfall"),
    Place(name="session-flame", path=f"{SESSION}?tab=waterfall&flame=on"),
    Place(name="session-changes", path=f"{SESSION}?tab=changes"),
    Place(name="session-tools", path=f"{SESSION}?tab=tools"),
    Place(name="session-requests", path=REQUESTS),
    Place(name="session-raw", path=f"{SESSION}?tab=raw"),
    Place(name="session-missing", path="/sessions/0000000000000001"),
    Place(name="compare", path=COMPARE),
    Place(name="compare-nothing", path="/compare"),
    Place(name="runs", path="/runs"),
    Place(name="runs-start", path="/runs", open=_pressed("Trigger event", "触发事件")),
    Place(name="runs-calls", path="/runs?tab=calls"),
    Place(name="runs-job", path="/runs/jobs/1"),
    Place(name="runs-call", path="/runs/calls/1"),
    Place(name="chat", path="/chat"),
    Place(name="chat-conversation", path="/chat?conversation=1"),
    Place(name="guards", path="/guards"),
    Place(name="cache", path="/cache"),
    Place(name="cache-result", path="/cache?result=1", open=_dialog),
    Place(name="rules", path="/rules"),
    Place(name="rules-new", path="/rules?new=true", open=_dialog),
    Place(name="rules-firing", path="/rules?state=failed", open=_first_firing),
    Place(name="files", path="/files"),
    Place(name="files-quarantine", path="/files?tab=quarantine"),
    Place(name="files-line", path="/files?tab=quarantine&line=1", open=_dialog),
    Place(name="exports", path="/exports"),
    Place(name="exports-refused", path="/exports?of=archive&state=refused"),
    Place(name="settings", path="/settings"),
    Place(name="settings-doctor", path="/settings?tab=doctor"),
    Place(name="settings-audit", path="/settings?tab=audit"),
    Place(name="login", path="/login"),
    Place(name="nowhere", path="/nowhere"),
    Place(name="team", path="/team", server="teamed"),
    Place(name="team-overview", path="/", server="teamed"),
    Place(name="team-sessions", path="/sessions", server="teamed"),
    Place(name="team-usage", path="/usage?by=person&since=all", server="teamed"),
    Place(name="empty-overview", path="/", server="unused"),
    Place(name="empty-sessions", path="/sessions", server="unused"),
    Place(name="empty-exports", path="/exports", server="unused"),
    Place(name="empty-usage", path="/usage", server="unused"),
)
#: A test visits one of these. Neighbours are of different pages: one leads to the next without loading all anew.
GROUPS = tuple(PLACES[number::4] for number in range(4))


@dataclass
class Tour:
    """A visitor of all servers, with one browser for each of them and each language."""

    browser: Browser
    servers: Mapping[Server, running]
    #: What paths are filled with.
    names: Mapping[str, str]
    #: The time at which the clocks of the browsers stand still.
    now: datetime
    _pages: dict[tuple[Server, str], Page] = field(default_factory=dict)
    _visits: dict[Server, Visit] = field(default_factory=dict)
    #: What each page has asked and not heard of.
    _asked: dict[Page, set[Request]] = field(default_factory=dict)
    _count: dict[Page, int] = field(default_factory=dict)
    #: Where something was opened.
    _opened: set[tuple[Server, str]] = field(default_factory=set)

    def to(self, place: Place, *, language: str = "en-US", **how: Any) -> Page:  # noqa: ANN401 - as Visit.enter has them
        """Go to a place in the browser that was there before, if there is one."""
        at = (place.server, language)
        page = self._pages.get(at)
        if page is None:
            page = self._pages[at] = self._enter(place.server, language)
        if how.get("width"):
            page.set_viewport_size({"width": how["width"], "height": how.get("height", 900)})
        page.emulate_media(color_scheme=how.get("theme", "light"), reduced_motion="reduce")
        if at in self._opened:
            # Going on does not close everything.
            page.goto(EMPTY)
        turn_to(page, place.path.format(**self.names))
        self._opened.discard(at)
        if place.open is not None:
            self._opened.add(at)
            place.open(page)
            settled(page)
        self.await_answers(page)
        return page

    def await_answers(self, page: Page) -> None:
        """Wait until a page has everything that it asked for, but the live stream, which never ends."""
        while self._asked[page]:
            page.wait_for_timeout(10)

    def _enter(self, server: Server, language: str) -> Page:
        # Of its own, because nobody takes the listeners off again.
        page = self._visits[server].enter(language=language, fresh=True, timezone=MIDDAY)
        page.clock.set_fixed_time(self.now)
        page.add_init_script(AT_ONCE)
        asked: set[Request] = set()
        self._asked[page] = asked
        self._count[page] = 0

        def on_request(request: Request) -> None:
            if LIVE not in request.url:
                self._count[page] += 1
                asked.add(request)

        page.on("request", on_request)
        page.on("requestfinished", lambda request: asked.discard(request))
        page.on("requestfailed", lambda request: asked.discard(request))
        return page

    def seen(self, page: Page, look: Callable[[], str]) -> str:
        """What a page shows when it has asked for nothing more meanwhile, such as the code of a part of it."""
        while True:
            self.await_answers(page)
            before = self._count[page]
            page.wait_for_timeout(REPLACED_MS)
            found = look()
            if self._count[page] == before:
                return found

    @contextmanager
    def begun(self) -> Iterator[Tour]:
        """Enter all servers, and leave them at the end; nothing may have been complained about."""
        entered = {name: visiting(self.browser, server) for name, server in self.servers.items()}
        self._visits = {name: next(visits) for name, visits in entered.items()}
        yield self
        for visits in entered.values():
            next(visits, None)


#: How long a chart may take to get as narrow as its window.
NARROWED_MS = 5_000


def too_wide(page: Page, *widths: int) -> list[str]:
    """At which of these widths something is wider than the window."""
    found = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 844})
        try:
            page.wait_for_function(
                "() => document.documentElement.scrollWidth <= window.innerWidth", timeout=NARROWED_MS
            )
        except TooLate:
            found.append(f"too wide at {width}")
    return found


def listed(found: Mapping[str, list[str]]) -> str:
    """What was found, in lines by place; nothing if nothing was."""
    return "\n".join(f"{place}: {line}" for place, lines in found.items() for line in lines)
