"""Every place, in light and dark, wide and narrow, in English and Chinese: it looks as it did (see ``layout.py``), axe
finds nothing, nothing is wider than its window, no English word is left in Chinese, and Tab reaches everything.

After a change of looks that is meant: ``make snapshots``, and read the differences that git shows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright.sync_api import Error

from .layout import differences, parts_of
from .places import GROUPS, PLACES, Place, Tour, listed, too_wide
from .test_chinese import not_chinese
from .test_keyboard import missed_by_tab
from .test_looks import violations

STORED = Path(__file__).with_name("snapshots")


class View(NamedTuple):
    """How a page is looked at."""

    width: int
    theme: Literal["light", "dark"]
    language: str

    def __str__(self) -> str:
        return f"{self.width} {self.theme} {self.language}"


#: Whether the ground has the colour of the theme.
THEMED = """(dark) => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)
  .every((number) => number < 128) === dark"""
HEIGHTS = {1280: 800, 1920: 1080, 390: 844}
#: Each place has one of these: both themes, both languages, two widths. Together they have every width, and every
#: language, in light and dark.
VIEWS = (
    (View(1280, "light", "en-US"), View(390, "dark", "zh-CN")),
    (View(1920, "light", "zh-CN"), View(1280, "dark", "en-US")),
    (View(390, "light", "en-US"), View(1920, "dark", "zh-CN")),
)
#: What differs from day to day or from one machine to another, or is gone after a minute, as calls that a limit counts.
TIMED = {
    "overview": '[class*="_periods_"], [class*="_map_"]',
    "team-overview": '[class*="_periods_"], [class*="_map_"]',
    "guards": "main section:last-of-type tbody tr",
    "empty-overview": '[class*="_periods_"], [class*="_map_"]',
}


@dataclass
class Looks:
    """A place in one of its views."""

    #: What it shows, for the snapshot.
    parts: str
    #: What is wrong with it.
    wrong: list[str]


def views_of(place: Place) -> tuple[View, ...]:
    return VIEWS[PLACES.index(place) % len(VIEWS)]


def looked_at(still: Tour, place: Place, view: View) -> Looks:
    """What is seen of it, and then all that can be wrong: the keyboard comes last, as it opens and closes things."""
    size = {"width": view.width, "height": HEIGHTS[view.width]}
    page = still.to(place, language=view.language, theme=view.theme, **size)
    page.wait_for_function(THEMED, arg=view.theme == "dark")
    in_english = view.language == "en-US"
    wrong = [] if in_english else not_chinese(page, place)
    parts = still.seen(page, partial(parts_of, page, TIMED.get(place.name, "")))
    wrong += violations(page)
    wrong += too_wide(page, 390, 1920, 1280)
    if in_english:
        wrong += missed_by_tab(page)
    return Looks(parts, wrong)


def written(views: dict[View, Looks]) -> str:
    return "".join(f"# {view}\n{looks.parts}\n" for view, looks in views.items())


def read(text: str) -> dict[str, str]:
    sections = (section.partition("\n") for section in text.removeprefix("# ").split("\n# "))
    return {view: parts.rstrip("\n") for view, _, parts in sections}


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_places_are_as_they_should_be(still: Tour, number: int) -> None:
    """No place has lost a control, a column, a text or a colour since it was stored, or has anything wrong."""
    found: dict[str, list[str]] = {}
    for place in GROUPS[number]:
        views = {view: looked_at(still, place, view) for view in views_of(place)}
        path = STORED / f"{place.name}.txt"
        if os.environ.get("SNAPSHOTS") == "write":
            STORED.mkdir(exist_ok=True)
            path.write_text(written(views), "utf-8")
            continue
        stored = read(path.read_text("utf-8")) if path.exists() else {}
        for view, looks in views.items():
            found[f"{place} {view}"] = [*differences(stored.get(str(view), ""), looks.parts), *looks.wrong]
    assert not listed(found), listed(found)


def test_no_snapshot_is_left_over() -> None:
    """Every file belongs to a place."""
    assert {path.stem for path in STORED.iterdir()} == {place.name for place in PLACES}


#: Changes of a page that must not pass.
CHANGES: dict[str, str] = {
    "a button less": "() => document.querySelector('main button').remove()",
    "a heading less": "() => document.querySelector('main h1').remove()",
    "a column moved": "() => document.querySelectorAll('main table tr > :nth-child(2)').forEach((cell) => {"
    "  cell.style.position = 'relative'; cell.style.left = '24px'; })",
    "a column less": "() => document.querySelectorAll('main table tr > :nth-child(2)').forEach((one) => one.remove())",
    "another word": "() => { document.querySelector('main table th:nth-child(2)').textContent = 'else'; }",
    "another colour": "() => { document.querySelector('main h1').style.color = 'rgb(1, 2, 3)'; }",
    "another ground": "() => { document.querySelector('main section').style.background = 'rgb(1, 2, 3)'; }",
    "narrower": "() => { document.querySelector('main').style.paddingInlineEnd = '80px'; }",
}


def test_a_small_change_is_seen(still: Tour) -> None:
    """One button, one column, one word or one colour is a difference; a page as it was is none."""
    place = next(place for place in PLACES if place.name == "usage-models")
    seen: dict[str, bool] = {}
    for what, change in CHANGES.items():
        page = still.to(place, width=1280, height=800)
        before = parts_of(page)
        assert list(differences(before, parts_of(page))) == []
        try:
            page.evaluate(change)
        except Error:
            continue  # there is no such part here
        seen[what] = any(differences(before, parts_of(page)))
    assert len(seen) > len(CHANGES) / 2
    assert all(seen.values()), seen
