"""What a page shows, as text: its parts with their words, boxes and colours; and in what two such texts differ.

Numbers, times and paths are left out of the words, and boxes are relative to the region that a part is in, so that
other figures, a longer path or a region that has moved are no difference of everything below them.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Page

#: Pixels that a box may be off sideways, and up or down, where a line more may be above it.
ACROSS, DOWN = 12, 32
#: The parts of a page that is at rest: three times the same, with its fonts.
PARTS = r"""async (hidden) => {
  const REGIONS = "header, nav, main, section, article, aside, footer, form, figure, dialog, table, fieldset, " +
    "[role=dialog], [role=region], [role=group], [role=list], [role=listitem], [role=treegrid], [role=tree], " +
    "[role=grid], [role=tabpanel], [role=tablist], [role=radiogroup], [role=listbox], [role=complementary]";
  const PARTS = "h1, h2, h3, h4, a[href], button, input, select, textarea, summary, label, th, td, dt, dd, p, " +
    "legend, figcaption, img, canvas, [role=img], [role=meter], [role=tab], [role=radio], [role=option], " +
    "[role=columnheader], [role=slider], [role=status], kbd, pre";
  const PATH = /(~|\b[A-Z]:)?(\/[\w.…@+-]+){2,}\/?/g;
  const MONTH = /\b(Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)\b/g;
  // The first of many that are alike stand for all.
  const ALIKE = 3;
  const REPEATED = "tr, li, article, " +
    "[role=row], [role=listitem], [role=treeitem], [role=option], [role=gridcell]";
  const WHOLE = "button, select, pre, kbd, [role=img], [role=tab], [role=radio], [role=option]";
  const skipped = (part) => {
    if (!part.matches(REPEATED)) return false;
    let before = 0;
    for (let each = part.previousElementSibling; each; each = each.previousElementSibling) {
      if (each.tagName === part.tagName) before += 1;
    }
    return before >= ALIKE;
  };
  const words = (part) => {
    const label = part.getAttribute("aria-label") ?? part.getAttribute("placeholder");
    let text = label ?? (part.matches("table, canvas, select, input, textarea, pre") ? "" : part.innerText ?? "");
    for (const time of label ? [] : part.querySelectorAll("time")) text = text.replace(time.innerText, "0");
    return text.replace(/\s+/g, " ").trim()
      .replace(/https?:\/\/\S+/g, "URL")
      .replace(PATH, "PATH")
      .replace(MONTH, "Mon")
      .replace(/GMT[+\u2212-]\d+/g, "GMT")
      .replace(/\b(?=[0-9a-f]*\d)[0-9a-f-]{8,}\b/g, "0")
      .replace(/[\d][\d.,:]*(\s?(ms|sec|min|hr?|days?|s|m|d|[kMG]?B|k|M|毫秒|秒|分钟|分|小时|天)(?![a-z]))?/g, "0")
      .replace(/0( 0)+/g, "0")
      .slice(0, 60);
  };
  const colours = (style) => {
    const ground = style.backgroundColor;
    return style.color + (/, 0\)$/.test(ground) ? "" : " on " + ground);
  };
  const seen = (part) =>
    part.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !part.closest(".unseen");
  // Times, durations and paths are of one width everywhere, so that columns and lines are as wide as before.
  const UNIT = "(ms|sec|min|hr?|s|m|d|[kMG]?B|毫秒|秒|分钟|分|小时|天)";
  const TIMED = new RegExp(`^[\\d.,:]+\\s?${UNIT}( [\\d.,]+\\s?${UNIT})?$`);
  const even = () => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const isTime = text.parentElement.tagName === "TIME";
      const even = isTime ? "00:00" : TIMED.test(text.data.trim()) ? "00 ms" : text.data.replace(PATH, "/a/path");
      if (text.data !== even) text.data = even;
    }
  };
  const lines = [];
  const collect = (part, region, left, top) => {
    if (hidden && part.matches(hidden)) return;
    if (skipped(part) || !seen(part)) return;
    const isRegion = part.matches(REGIONS);
    if (isRegion || part.matches(PARTS)) {
      const box = part.getBoundingClientRect();
      if (box.width > 1 && box.height > 1) {
        const kind = part.getAttribute("role") ?? part.tagName.toLowerCase();
        const name = isRegion && !part.matches(PARTS) ? "" : words(part);
        const at = [box.left - left, box.top - top, box.width, box.height].map(Math.round).join(" ");
        lines.push([kind, name, at, colours(getComputedStyle(part))].join("\t"));
        if (isRegion) [left, top] = [box.left, box.top];
      }
      // What is in a control or a paragraph is a part of its words.
      if (!isRegion && part.matches(WHOLE)) return;
    }
    for (const child of part.children) collect(child, region, left, top);
  };
  const look = () => {
    lines.length = 0;
    even();
    const modal = document.querySelector("dialog:modal");
    collect(modal ?? document.body, null, modal ? 0 : -window.scrollX, modal ? 0 : -window.scrollY);
    return lines.join("\n");
  };
  const rest = () => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50));
  await document.fonts.ready;
  let [before, same] = [look(), 0];
  for (let tries = 0; tries < 60 && same < 2; tries += 1) {
    await rest();
    await document.fonts.ready;
    const after = look();
    same = after === before ? same + 1 : 0;
    before = after;
  }
  return before;
}"""


@dataclass(frozen=True)
class Part:
    """Something that is seen: a control, a heading, a cell, a region."""

    kind: str
    words: str
    box: tuple[int, ...]
    colours: str

    @classmethod
    def read(cls, line: str) -> Part:
        kind, words, box, colours = line.split("\t")
        return cls(kind, words, tuple(int(number) for number in box.split()), colours)

    def __str__(self) -> str:
        return f"{self.kind} “{self.words}”"


def parts_of(page: Page, hidden: str = "") -> str:
    """What a page shows once it is at rest, one part in a line; ``hidden`` is a selector of what is left out."""
    found: str = page.evaluate(PARTS, hidden)
    return found


def differences(before: str, after: str) -> Iterator[str]:
    """What is missing, new, elsewhere or of another colour."""
    old, new = ([Part.read(line) for line in text.splitlines()] for text in (before, after))
    names, new_names = ([(part.kind, part.words) for part in parts] for parts in (old, new))
    for operation, first, last, start, end in difflib.SequenceMatcher(
        None, names, new_names, autojunk=False
    ).get_opcodes():
        if operation != "equal":
            yield from (f"missing: {part}" for part in old[first:last])
            yield from (f"new: {part}" for part in new[start:end])
            continue
        for was, part in zip(old[first:last], new[start:end], strict=True):
            if not is_near(was, part):
                yield f"elsewhere: {part} was at {was.box}, is at {part.box}"
            if was.colours != part.colours:
                yield f"colour: {part} was {was.colours}, is {part.colours}"


def is_near(was: Part, part: Part) -> bool:
    # How high a region is depends on what is in it, such as the number of hits.
    limits = (ACROSS, DOWN, ACROSS, DOWN if part.words or part.kind in ("img", "canvas") else math.inf)
    return all(abs(one - other) <= limit for one, other, limit in zip(was.box, part.box, limits, strict=True))
