"""Opens pages in Chromium and measures the time until they are usable, and their memory.

A page is usable when its first rows are painted with their text and, after scrolling the list by three screens, new
rows are painted with their text; at once where there is nothing to scroll. The same script measures every program; only
the selector of a row differs. It is injected before the page loads, so no time passes between browser and benchmark.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

from benchmarks.peers import AbsentError
from benchmarks.run_processes import Meter, below

#: Only this machine is reachable: requests for fonts from elsewhere fail at once.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PATIENCE_S = 90.0
#: How long a usable page may continue loading before it is measured.
_SETTLE_S = 1.5
_MEGABYTE = 1e6

_WATCH = """
([rows, unready]) => {
  const bench = { rows: null, usable: null, long: 0, reach: 0 };
  window.__bench = bench;
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => { bench.long += entry.duration; }))
    .observe({ type: "longtask", buffered: true });
  const onScreen = (row) => {
    const { top, bottom, width } = row.getBoundingClientRect();
    return width > 0 && bottom > 0 && top < innerHeight;
  };
  const texts = () => {
    const found = [];
    for (const row of document.querySelectorAll(rows)) {
      if (!onScreen(row)) { if (found.length) break; continue; }
      const text = row.textContent.trim();
      if (text && !(unready && row.querySelector(unready))) found.push([row, text]);
    }
    return found;
  };
  const scrollerOf = (row) => {
    for (let at = row.parentElement; at; at = at.parentElement) {
      const scrolls = /auto|scroll/.test(getComputedStyle(at).overflowY);
      if (scrolls && at.scrollHeight > at.clientHeight + 50) return at;
    }
    return document.scrollingElement;
  };
  const afterPaint = (then) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => then(performance.now());
    channel.port2.postMessage(0);
  });
  let before = null;
  let away = 0;
  const look = () => {
    const found = texts();
    if (before === null && found.length >= 3) {
      const known = new Set(found.map(([, text]) => text));
      before = known;
      afterPaint((now) => {
        bench.rows = now;
        const scroller = scrollerOf(found[0][0]);
        bench.reach = scroller.scrollHeight / scroller.clientHeight;
        if (scroller.scrollHeight <= scroller.clientHeight + 50) {
          away = 2;
          bench.usable = now;
          return;
        }
        const end = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 5;
        scroller.scrollBy({ top: (end ? -3 : 3) * scroller.clientHeight, behavior: "instant" });
        away = 1;
      });
    } else if (away === 1 && found.some(([, text]) => !before.has(text))) {
      away = 2;
      afterPaint((now) => { bench.usable = now; });
      return;
    }
    if (away < 2) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
"""
#: Milliseconds from now until a hit is painted.
_FIND = """
([hit]) => {
  const began = performance.now();
  window.__found = null;
  const look = () => {
    const isShown = (each) => each.getClientRects().length > 0 && each.textContent.trim();
    if (![...document.querySelectorAll(hit)].some(isShown)) { requestAnimationFrame(look); return; }
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { window.__found = performance.now() - began; };
      channel.port2.postMessage(0);
    });
  };
  look();
}
"""
_RESULT = """
() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  rows: window.__bench.rows,
  usable: window.__bench.usable,
  long: window.__bench.long,
  reach: window.__bench.reach,
})
"""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A page to open, and what its rows are."""

    url: str
    #: A selector of rows.
    rows: str
    #: What a row contains while its text is still missing.
    unready: str = ""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A search of all texts: the page where it begins, and the keys of it."""

    page: View
    #: What opens it; the word follows.
    key: str
    #: Pressed after the word; empty: hits follow what is typed.
    then: str = ""
    #: A selector of the words that are marked in hits.
    hit: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One search."""

    milliseconds: float
    cpu_seconds: float


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """One visit; times are milliseconds since the navigation began."""

    paint: float
    rows: float
    usable: float
    #: The sum of all tasks longer than 50 ms, until the page had settled.
    long: float
    #: JavaScript's heap after a collection, and the resident memory of the page's process.
    heap_mb: float
    process_mb: float
    nodes: int
    cpu_seconds: float
    #: The length of the list in screens.
    reach: float


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser while the block runs."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise AbsentError("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def fresh(browser: Browser) -> Iterator[BrowserContext]:
    """A new browser context with an empty cache and no cookies."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        yield context
    finally:
        context.close()


def watch(page: Page, view: View) -> None:
    """Report when the page is usable, from its next navigation on."""
    page.add_init_script(f"({_WATCH})({msgspec.json.encode([view.rows, view.unready]).decode()})")


def visit(browser: Browser, view: View, servers: Meter, picture: Path | None = None) -> Opened | None:
    """Open a page once in a new context; None if it does not become usable."""
    with fresh(browser) as context:
        page = context.new_page()
        watch(page, view)
        before = servers.cpu_seconds()
        try:
            page.goto(view.url, wait_until="commit")
            page.wait_for_function("() => window.__bench?.usable !== null")
        except Error:
            _photograph(page, picture)
            return None
        time.sleep(_SETTLE_S)
        spent = servers.cpu_seconds() - before
        _photograph(page, picture)
        return _looked_at(context, page, spent)


def find(browser: Browser, search: Search, word: str, servers: Meter, picture: Path | None = None) -> Found | None:
    """Search once in a new context, on a page that has settled; None if nothing was found in time."""
    with fresh(browser) as context:
        page = context.new_page()
        try:
            page.goto(search.page.url, wait_until="commit")
            page.wait_for_selector(search.page.rows)
            time.sleep(_SETTLE_S)
            page.keyboard.press(search.key)
            page.wait_for_function("() => document.activeElement instanceof HTMLInputElement")
            before = servers.cpu_seconds()
            page.evaluate(_FIND, [search.hit])
            # All of it at once: how fast somebody types is not measured.
            page.keyboard.insert_text(word)
            if search.then:
                page.keyboard.press(search.then)
            page.wait_for_function("() => window.__found !== null")
        except Error:
            _photograph(page, picture)
            return None
        time.sleep(_SETTLE_S)
        _photograph(page, picture)
        return Found(milliseconds=page.evaluate("() => window.__found"), cpu_seconds=servers.cpu_seconds() - before)


def _looked_at(context: BrowserContext, page: Page, spent: float) -> Opened:
    seen = page.evaluate(_RESULT)
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return Opened(
        paint=seen["paint"],
        rows=seen["rows"],
        usable=seen["usable"],
        long=seen["long"],
        reach=seen["reach"],
        heap_mb=metrics["JSHeapUsedSize"] / _MEGABYTE,
        process_mb=_largest_renderer(),
        nodes=int(metrics["Nodes"]),
        cpu_seconds=spent,
    )


def _photograph(page: Page, picture: Path | None) -> None:
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(Error):
            page.screenshot(path=picture)


def _largest_renderer() -> float:
    """The memory of the page's process: the largest renderer process; shared memory counts proportionally."""
    return max((_megabytes(pid) for pid in below(os.getpid()) if _draws(pid)), default=0.0)


def _draws(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _megabytes(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / _MEGABYTE
    return 0.0
