"""The keyboard alone: every way of a mouse is a way of keys, and one always sees where one is."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from .conftest import DARK, FAILING, Visit, key_of, settled
from .places import GROUPS, Tour

#: What is wrong with the focus: lost, or nothing around it shows where it is.
SEEN = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return "the focus is lost";
  // A heading that was only given the focus to be read from.
  if (here.matches("h1, h2, main")) return "";
  const outlined = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  const framed = (style) => outlined(style) || style.boxShadow !== "none";
  // The frame may be that of the field or the row that it is in.
  const around = [here, here.parentElement, here.parentElement?.parentElement].filter(Boolean);
  if ([null, "::before", "::after"].some((part) => framed(getComputedStyle(here, part)))) return "";
  const look = () => around.map((each) => {
    const style = getComputedStyle(each);
    return [style.backgroundColor, style.borderColor, style.outline, style.boxShadow].join();
  }).join();
  const before = look();
  here.blur();
  const after = look();
  here.focus();
  return before === after ? `nothing shows the focus on ${here.outerHTML.slice(0, 200)}` : "";
}"""


def here(page: Page) -> None:
    """The focus is somewhere, and is seen."""
    assert page.evaluate(SEEN) == ""


def test_from_a_fresh_page_to_an_error_and_back(visit: Visit) -> None:
    """By keys alone: to the sessions, down to one, into it, to its error, its details, close, back."""
    page = visit.open("/")
    settled(page)
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    here(page)
    target = page.locator(f"#session-{key_of('agenttrace', FAILING)}")
    expect(target).to_be_visible()
    links = page.locator("a[id^=session-]")
    place = [link.get_attribute("id") for link in links.all()].index(f"session-{key_of('agenttrace', FAILING)}")
    for _ in range(place + 2):
        page.keyboard.press("j")
        here(page)
    page.keyboard.press("k")
    expect(target).to_be_focused()
    here(page)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Deploy the harbour")
    here(page)
    rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem")
    expect(rows.first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("[role=listitem][aria-current=true]")).to_be_focused()
    here(page)
    page.keyboard.press("e")
    current = page.locator("[role=listitem][aria-current=true]")
    expect(current).to_contain_text("deploy")
    expect(current).to_be_focused()
    here(page)
    page.keyboard.press("Enter")
    pane = page.get_by_role("complementary", name="Span details")
    expect(pane).to_contain_text(DARK)
    here(page)
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    here(page)
    page.keyboard.press("w")
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.keyboard.press("]")
    page.keyboard.press("t")
    expect(page.locator("[role=row][data-current]")).to_contain_text("deploy")
    here(page)
    page.keyboard.press("Alt+ArrowLeft")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    here(page)


def test_help_lists_the_keys(visit: Visit) -> None:
    """``?`` shows the keys of this page and of all, keeps the focus inside, and Escape gives it back."""
    page = visit.open(f"/sessions/{key_of('agenttrace', FAILING)}")
    settled(page)
    page.keyboard.press("j")
    expect(page.locator("[role=listitem][aria-current=true]")).to_be_focused()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Next error")
    expect(dialog).to_contain_text("Go to Sessions")
    here(page)
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    here(page)


#: Controls of the page, or of the dialog that is open; and a listener that notes which have had the focus.
CONTROLS = """(most) => {
  const root = document.querySelector("dialog:modal") ?? document.querySelector("main");
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
  const reachable = (part) => part.tabIndex >= 0 && !part.matches(":disabled") && !part.closest("[inert]") &&
    part.checkVisibility({ visibilityProperty: true });
  // Of radio buttons Tab reaches one.
  const first = (part) => part.type !== "radio" || part.checked || !part.name;
  const all = [...root.querySelectorAll(FOCUSABLE)].filter((part) => reachable(part) && first(part));
  const outlined = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  const framed = (part) => [null, "::before", "::after"].map((pseudo) => getComputedStyle(part, pseudo))
    .some((style) => outlined(style) || style.boxShadow !== "none");
  window.walk = { root, all: all.slice(0, most), whole: all.length <= most, visited: new Set(), bare: [] };
  document.addEventListener("focusin", ({ target }) => {
    window.walk.visited.add(target);
    if (root.contains(target) && !framed(target)) window.walk.bare.push(target);
  });
  // What a mouse can press, keys can reach: itself, what it is in, what is in it, or what arrow keys lead to.
  const pressed = [...root.querySelectorAll("*")].filter((part) => getComputedStyle(part).cursor === "pointer" &&
    part.checkVisibility() && !part.closest(FOCUSABLE + ", label") && !part.querySelector(FOCUSABLE));
  root.tabIndex = root.tabIndex >= 0 ? root.tabIndex : -1;
  if (!root.contains(document.activeElement) || root.matches("main")) root.focus();
  return [window.walk.all.length, pressed.map((part) => part.outerHTML.slice(0, 120))];
}"""
#: Whether the walk has come to its end: out of the page, or around the dialog.
LEFT = """() => !window.walk.root.contains(document.activeElement) || window.walk.all.every(
  (part) => window.walk.visited.has(part) || !part.isConnected)"""
#: What was not reached, and where nothing showed the focus: not even a change of what is around it.
MISSED = """async () => {
  // With reduced motion every change is a transition that ends at once: with the next frame.
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { all, visited, bare } = window.walk;
  const told = all.filter((part) => part.isConnected && part.checkVisibility({ visibilityProperty: true }) &&
    part.tabIndex >= 0 && !part.matches(":disabled") && !visited.has(part))
    .map((part) => "not reached: " + part.outerHTML.slice(0, 160));
  const look = (part) => [part, part.parentElement, part.parentElement?.parentElement].filter(Boolean).map((each) => {
    const style = getComputedStyle(each);
    return [style.backgroundColor, style.borderColor, style.outline, style.boxShadow].join();
  }).join();
  for (const part of new Set(bare)) {
    if (part.matches("h1, h2, main, dialog") || !part.isConnected) continue;
    part.focus({ focusVisible: true, preventScroll: true });
    await frame();
    const during = look(part);
    part.blur();
    await frame();
    if (look(part) === during) told.push("not seen: " + part.outerHTML.slice(0, 160));
  }
  return told;
}"""
#: Stops of one place; on longer pages the first ones are walked through.
MOST = 60


def missed_by_tab(page: Page) -> list[str]:
    """Controls that Tab does not reach, stops that are not seen, and what Tab or Escape do not lead out of."""
    page.set_viewport_size({"width": 1280, "height": 900})
    count, pressed = page.evaluate(CONTROLS, MOST)
    told = [f"only by mouse: {part}" for part in pressed]
    for _ in range(3):
        # Areas that scroll are stops as well.
        for _ in range(count // 2 + 8):
            page.keyboard.press("Tab")
        if page.evaluate(LEFT):
            break
    else:
        told.append("Tab does not lead out")
    told += page.evaluate(MISSED)
    if page.locator("dialog:modal").count():
        page.keyboard.press("Escape")
        expect(page.locator("dialog:modal")).to_have_count(0)
    return told


def test_the_first_stop_leads_past_the_navigation(still: Tour) -> None:
    """On pages with a navigation, which is then walked through: each stop is seen."""
    for place in (each for each in GROUPS[0][::2] if each.open is None and each.path != "/login"):
        page = still.to(place)
        page.evaluate("() => document.activeElement.blur()")
        page.goto(page.url)
        settled(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content", place
        here(page)
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.closest('main') !== null"), place
    page.goto("/")
    settled(page)
    for _ in range(20):
        page.keyboard.press("Tab")
        here(page)


def test_typing_is_not_a_shortcut(visit: Visit) -> None:
    """Letters typed into a field are text, and Escape leaves the search."""
    page = visit.open("/sessions")
    settled(page)
    page.keyboard.press("/")
    page.keyboard.type("gs jk e?")
    expect(page.get_by_role("searchbox", name="Search all sessions")).to_have_value("gs jk e?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("/sessions"))


def test_popups_and_dialogs_give_the_focus_back(visit: Visit) -> None:
    """A popup opened with Enter is left with Escape, and the focus is where it was."""
    page = visit.open("/sessions")
    settled(page)
    opener = page.get_by_role("button", name="Theme, Language")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("radiogroup", name="Theme")).to_be_visible()
    page.keyboard.press("Tab")
    here(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("radiogroup", name="Theme")).to_have_count(0)
    expect(opener).to_be_focused()
    page.goto("/files?tab=quarantine")
    button = page.get_by_role("table").locator("tbody button").first
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Line 1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Line 1")).to_be_hidden()
    here(page)
