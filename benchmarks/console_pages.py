"""Server CPU of fifty open pages, idle and while an agent writes ten lines per second.

One page is real, in Chromium; forty-nine HTTP clients repeat each of its requests and hold the same streams. The page
shows the session that the agent writes to.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from playwright.sync_api import Browser, Error, Page, Request

from benchmarks.console_browser import chromium, fresh, watch
from benchmarks.console_opening import all_served
from benchmarks.console_programs import Served, Write
from benchmarks.measure import sandbox_environ
from benchmarks.run_load import percentile
from benchmarks.run_processes import running
from benchmarks.table import Result, Row

PAGES, SECONDS, LINES_A_SECOND = 50, 60.0, 10
#: Written before pages are opened, so that the session is working.
_AHEAD = 10
_SETTLE_S = 6.0
_ROOT = Path(__file__).parents[1]
_TIMESTAMP = re.compile(rb'"timestamp":"[^"]*"')

#: Records when each mark is first on the screen, in milliseconds since 1970, after the frame that shows it.
_MARKS = """
() => {
  const seen = window.__marks = {};
  const note = (text) => {
    for (const found of text.match(/mark-\\d{5}/g) ?? []) {
      if (found in seen) continue;
      seen[found] = 0;
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => { seen[found] = performance.timeOrigin + performance.now(); };
        channel.port2.postMessage(0);
      });
    }
  };
  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "characterData") note(change.target.data);
      for (const node of change.addedNodes) note(node.textContent ?? "");
    }
  }).observe(document, { childList: true, subtree: true, characterData: true });
}
"""
#: The newest entry is at the end of a conversation. Not every page stays there, so it is scrolled there every second.
_TO_END = """
([rows]) => {
  const row = document.querySelector(rows);
  for (let at = row?.parentElement; at; at = at.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(at).overflowY) && at.scrollHeight > at.clientHeight + 50) {
      at.scrollTop = at.scrollHeight;
      return;
    }
  }
}
"""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU of one minute, and the requests of the clients."""

    cpu_seconds: float
    requests: int
    failed: int
    streams: int
    megabytes: float
    #: From the end of a write to the screen, in milliseconds, of the marks that were seen.
    delays: list[float]
    written: int


class Visitors:
    """A real page and the clients that repeat its requests."""

    def __init__(self, page: Page, mirror: Any, served: Served) -> None:  # noqa: ANN401 - a process
        self.page, self._mirror, self._served = page, mirror, served
        self._numbers, self._known = count(), dict[Request, int]()
        self._inside = False
        self._host = urlsplit(served.open_page.url).netloc
        page.on("request", self._repeat)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    def enter(self) -> None:
        """Open the page, scroll to the newest entry, and wait until it is idle.

        The cost of opening is another benchmark: of those requests the clients repeat only the streams.
        """
        watch(self.page, self._served.open_page)
        self.page.add_init_script(f"({_MARKS})()")
        self.page.goto(self._served.open_page.url, wait_until="commit")
        self.page.wait_for_function("() => window.__bench?.rows !== null")
        self.page.wait_for_timeout(_SETTLE_S * 500)
        self.to_end()
        self.page.wait_for_timeout(_SETTLE_S * 500)
        self._inside = True

    def to_end(self) -> None:
        """Scroll to the end of the conversation; a session list has its newest entry at the start."""
        if self._served.follows:
            self.page.evaluate(_TO_END, [self._served.open_page.rows])

    def report(self) -> dict[str, int]:
        """The requests of the clients since the last report."""
        self._tell('{"report":true}')
        said: dict[str, int] = self._mirror.line(30.0)
        return said

    def marks(self) -> dict[str, float]:
        """When each mark was first seen."""
        found: dict[str, float] = self.page.evaluate("() => window.__marks")
        return found

    def _repeat(self, request: Request) -> None:
        stream = request.resource_type == "eventsource" or "event-stream" in request.headers.get("accept", "")
        asks = stream or (self._inside and request.resource_type in ("xhr", "fetch"))
        if not asks or urlsplit(request.url).netloc != self._host:
            return
        number = self._known[request] = next(self._numbers)
        try:
            headers = request.all_headers()
        except Error:
            headers = request.headers
        line = {
            "number": number,
            "method": request.method,
            "url": request.url,
            "headers": headers,
            "body": request.post_data,
        }
        self._tell(msgspec.json.encode(line).decode())

    def _end(self, request: Request) -> None:
        number = self._known.pop(request, None)
        if number is not None:
            self._tell(f'{{"end":{number}}}')

    def _tell(self, line: str) -> None:
        # A client that has ended is detected by the request for a report.
        with contextlib.suppress(BrokenPipeError):
            self._mirror.say(line)


class Agent(threading.Thread):
    """Writes lines at a constant rate, with the current time."""

    def __init__(self, write: Write, lines: Sequence[tuple[int, bytes]]) -> None:
        super().__init__(daemon=True)
        self._write, self._lines = write, lines
        self._over = threading.Event()
        #: When each line was in the file, in milliseconds since 1970.
        self.written: dict[int, float] = {}

    def run(self) -> None:
        """Write one line after the other; late lines are not made up for."""
        began = time.monotonic()
        for at, (number, line) in enumerate(self._lines):
            if self._over.wait(max(0.0, began + at / LINES_A_SECOND - time.monotonic())):
                return
            self._write(number, stamped(line))
            self.written[number] = time.time() * 1000

    def stop(self) -> None:
        """Stop writing."""
        self._over.set()


def stamped(line: bytes) -> bytes:
    """The line with the current time."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _TIMESTAMP.sub(f'"timestamp":"{now}"'.encode(), line)


def measure(data: Path, peers: Path, work: Path) -> Result:
    """Measure all programs together while idle, and one after the other while an agent writes."""
    work = work / "console-pages"
    with all_served(data, peers, work) as (logs, programs, absent), chromium() as browser:
        lines = list(enumerate(logs.live_lines()))
        for program in programs:
            for number, line in lines[:_AHEAD]:
                program.write(number, stamped(line))
        quiet = _quiet(browser, programs)
        busy = [_busy(browser, program, lines[_AHEAD:], data / "console-pictures") for program in programs]
    base = busy[0].cpu_seconds if isinstance(busy[0], Spent) else None
    rows = [_row(*each, base) for each in zip(programs, quiet, busy, strict=True)]
    title = f"{PAGES} open pages for {SECONDS:.0f} s, quiet and with {LINES_A_SECOND} lines a second: CPU of the server"
    return Result(title, rows + absent)


def _quiet(browser: Browser, programs: Sequence[Served]) -> list[Spent | Exception]:
    """The idle figures; for a page that failed, its error."""
    with contextlib.ExitStack() as stack:
        visitors = [_entered(stack, browser, program) for program in programs]
        before = [program.servers.cpu_seconds() for program in programs]
        _pass([each for each in visitors if isinstance(each, Visitors)], SECONDS)
        spent = [program.servers.cpu_seconds() for program in programs]
        return [
            _spent(each, after - began, {}) if isinstance(each, Visitors) else each
            for each, began, after in zip(visitors, before, spent, strict=True)
        ]


def _entered(stack: contextlib.ExitStack, browser: Browser, program: Served) -> Visitors | Exception:
    try:
        visitors = stack.enter_context(_visitors(browser, program))
        visitors.report()
    except (Error, RuntimeError) as error:
        return error
    return visitors


def _busy(browser: Browser, program: Served, lines: Sequence[tuple[int, bytes]], pictures: Path) -> Spent | Exception:
    with contextlib.ExitStack() as stack:
        visitors = _entered(stack, browser, program)
        if not isinstance(visitors, Visitors):
            return visitors
        agent = Agent(program.write, lines[: int(SECONDS * LINES_A_SECOND)])
        before = program.servers.cpu_seconds()
        agent.start()
        for _ in range(int(SECONDS)):
            _pass([visitors], 1.0)
            visitors.to_end()
        agent.stop()
        spent = program.servers.cpu_seconds() - before
        # The last lines get time to arrive; CPU after this point is not counted.
        _pass([visitors], 2.0)
        visitors.page.screenshot(path=pictures / f"{program.name.replace(' ', '-')}-live.png")
        return _spent(visitors, spent, dict(agent.written))


def _pass(visitors: Sequence[Visitors], seconds: float) -> None:
    """Wait; Playwright handles events of pages only meanwhile."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for each in visitors:
            each.page.wait_for_timeout(20)


@contextlib.contextmanager
def _visitors(browser: Browser, program: Served) -> Iterator[Visitors]:
    command = [sys.executable, "-m", "benchmarks.console_mirror", str(PAGES - 1)]
    environ = sandbox_environ(_ROOT / "benchmarks" / "data")
    with running(command, environ=environ, cwd=_ROOT) as mirror, fresh(browser) as context:
        found = Visitors(context.new_page(), mirror, program)
        found.enter()
        yield found


def _spent(visitors: Visitors, cpu_seconds: float, written: dict[int, float]) -> Spent:
    did, seen = visitors.report(), visitors.marks()
    times = {int(mark.removeprefix("mark-")): at for mark, at in seen.items() if at}
    return Spent(
        cpu_seconds=cpu_seconds,
        requests=did["requests"],
        failed=did["failed"],
        streams=did["streams"],
        megabytes=did["bytes"] / 1e6,
        delays=sorted(times[number] - at for number, at in written.items() if number in times),
        written=len(written),
    )


def _row(program: Served, quiet: Spent | Exception, busy: Spent | Exception, base: float | None) -> Row:
    figures: dict[str, str] = {}
    if isinstance(quiet, Spent):
        figures |= {"quiet CPU s": f"{quiet.cpu_seconds:.2f}", "quiet requests": f"{quiet.requests}"}
    if not isinstance(busy, Spent):
        return Row(program.name, figures, note=str(busy).partition("\n")[0])
    delays = busy.delays
    figures |= {
        "CPU s": f"{busy.cpu_seconds:.2f}",
        "requests": f"{busy.requests}",
        "failed": f"{busy.failed}",
        "streams": f"{busy.streams}",
        "MB sent": f"{busy.megabytes:.0f}",
        "seen": f"{len(delays)}/{busy.written}",
        "p50 ms": f"{percentile(delays, 0.5):.0f}" if delays else "",
        "p95 ms": f"{percentile(delays, 0.95):.0f}" if delays else "",
    }
    return Row(program.name, figures, busy.cpu_seconds / base if base else None)
