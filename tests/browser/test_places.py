"""The list of places has every page, tab and pattern of the console."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from .conftest import PAGES
from .places import PLACES

SOURCE = Path(__file__).resolve().parents[2] / "web" / "src"
#: Where the tabs of a page are named; the first is shown without a name in the address.
TABS = {
    "/sessions/": ("pages/session/data/use-view.ts", r"VIEWS = \[(.*?)\]"),
    "/runs": ("pages/runs/index.tsx", r"TABS = \[(.*?)\]"),
    "/insights": ("pages/insights/question.ts", r"TABS = \[(.*?)\]"),
    "/files": ("pages/files/index.tsx", r'useChoice\("tab", \[(.*?)\]\)'),
    "/settings": ("pages/settings/index.tsx", r"TABS = \[(.*?)\]"),
}


def routes() -> dict[str, str]:
    """The address of each page, by its name, as the router has them."""
    text = (SOURCE / "routes.ts").read_text("utf-8")
    found = dict(re.findall(r'name: "(\w+)",\s*path: "([^"]+)"', text))
    assert len(found) == text.count("page: lazy("), "a route that this test does not understand"
    return found


def paths() -> list[str]:
    return [urlsplit(place.path).path for place in PLACES]


def test_every_route_is_a_place() -> None:
    """Each address of the router, and each page of the navigation."""
    found = routes()
    missing = {
        name
        for name, path in found.items()
        if not any(each == path or (path.endswith("/") and path != "/" and each.startswith(path)) for each in paths())
    }
    assert missing == set()
    assert set(PAGES) <= set(paths())
    assert any(re.fullmatch(r"/runs/jobs/\d+", path) for path in paths())
    assert any(re.fullmatch(r"/runs/calls/\d+", path) for path in paths())


def test_every_tab_is_a_place() -> None:
    """Each tab of each page, and no tab that does not exist; a page with tabs that is not known here is found, too."""
    for page, (file, pattern) in TABS.items():
        source = re.search(pattern, (SOURCE / file).read_text("utf-8"))
        assert source is not None, file
        first, *others = re.findall(r'"(\w+)"', source[1])
        here = [urlsplit(place.path) for place in PLACES]
        here = [each for each in here if each.path == page or (page.endswith("/") and each.path.startswith(page))]
        shown = {parse_qs(each.query).get("tab", [first])[0] for each in here}
        assert shown == {first, *others}, page
    users = {
        path.relative_to(SOURCE / "pages").parts[0]
        for path in (SOURCE / "pages").rglob("*.tsx")
        if re.search(r"<Tabs\b[^>]*id=", path.read_text("utf-8"))
    }
    assert users == {page.strip("/").replace("sessions", "session") for page in TABS}


def test_names_are_unique() -> None:
    """Snapshots are stored by the name."""
    assert len({place.name for place in PLACES}) == len(PLACES)
