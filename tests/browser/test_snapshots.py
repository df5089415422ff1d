"""Every page looks as it did: how much ink each part of its picture has is compared with what is stored.

Fonts and texts may differ a little between machines, so a page fails only where many parts of it have more or less.
After a change that is meant, write them again: ``SNAPSHOTS=write pytest -n 0 tests/browser/test_snapshots.py``.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from cli.conftest import CLAUDE, CLAUDE_FORK

from .conftest import PAGES, Visit, key_of, turn_to

STORED = Path(__file__).with_name("snapshots.json")
SESSION = f"/sessions/{key_of('claude-code', CLAUDE)}"
COMPARE = f"/compare?a={key_of('claude-code', CLAUDE)}&b={key_of('claude-code', CLAUDE_FORK)}"
#: Without the raw lines: they have paths of the machine.
TABS = ("waterfall", "changes", "tools", "requests")
PLACES = (
    *PAGES,
    "/insights?tab=models&since=all",
    SESSION,
    *(f"{SESSION}?tab={tab}" for tab in TABS),
    COMPARE,
    "/nowhere",
)
#: On a phone, paths of the machine take too much of the page.
SIZES = ((1280, 800, "light"), (1920, 1080, "dark"))
COLUMNS, ROWS = 40, 24
#: How much the ink of a part may differ, in steps of four of 256 levels, and in which share of all parts.
LEVELS, SHARE = 2, 0.08
#: What differs from hour to hour is left out: the figures of today, this week and this month, and the map of hours.
TIMED = {"/": '[class*="_periods_"], [class*="_map_"]'}
HIDDEN = "(selector) => document.querySelectorAll(selector).forEach((part) => { part.style.display = 'none'; })"
#: Pictures of a page until two are the same: texts and colours of code come a moment after the page.
TRIES = 20
SHRUNK = """async ([picture, columns, rows]) => {
  const bytes = Uint8Array.from(atob(picture), (one) => one.charCodeAt(0));
  const { width, height } = await createImageBitmap(new Blob([bytes]));
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(await createImageBitmap(new Blob([bytes])), 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const ground = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number);
  const [sums, counts] = [new Float64Array(columns * rows), new Float64Array(columns * rows)];
  for (let at = 0; at < data.length; at += 4) {
    const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)];
    const part = Math.floor(y * rows / height) * columns + Math.floor(x * columns / width);
    for (let colour = 0; colour < 3; colour += 1) sums[part] += Math.abs(data[at + colour] - ground[colour]) / 3;
    counts[part] += 1;
  }
  const ink = [...sums].map((sum, part) => Math.min(Math.round(sum / counts[part] / 4), 35).toString(36));
  return Array.from({ length: rows }, (_, row) => ink.slice(row * columns, (row + 1) * columns).join(""));
}"""


def shrunk(page: Page) -> list[str]:
    """The picture of a page as lines of digits: how far the colours of each part are from the ground."""
    picture = page.screenshot(animations="disabled", caret="hide")
    lines: list[str] = page.evaluate(SHRUNK, [base64.b64encode(picture).decode(), COLUMNS, ROWS])
    return lines


def at_rest(page: Page) -> list[str]:
    """A page once it changes no more."""
    before = shrunk(page)
    for _ in range(TRIES):
        after = shrunk(page)
        if after == before:
            break
        before = after
    return before


def changed(before: list[str], after: list[str]) -> float:
    """The share of parts that have more ink or less than they had."""
    pairs = list(zip("".join(before), "".join(after), strict=True))
    return sum(abs(int(old, 36) - int(new, 36)) > LEVELS for old, new in pairs) / len(pairs)


@pytest.mark.parametrize(("width", "height", "theme"), SIZES)
def test_pages_look_as_they_did(visit: Visit, width: int, height: int, theme: Literal["light", "dark"]) -> None:
    """No page has lost its layout, its colours or a part since its picture was stored."""
    page = visit.enter(width=width, height=height, theme=theme)
    found: dict[str, list[str]] = {}
    for place in PLACES:
        turn_to(page, place)
        page.evaluate("() => document.fonts.ready.then(() => {})")
        if place in TIMED:
            page.evaluate(HIDDEN, TIMED[place])
        found[place] = at_rest(page)
    stored: dict[str, dict[str, list[str]]] = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    name = f"{width} {theme}"
    if os.environ.get("SNAPSHOTS") == "write":
        STORED.write_text(json.dumps(stored | {name: found}, indent=1) + "\n", "utf-8")
        return
    shares = {place: changed(stored[name][place], lines) for place, lines in found.items()}
    assert max(shares.values()) <= SHARE, {place: share for place, share in shares.items() if share > SHARE}
