"""Two sessions side by side, the aggregated waterfall and the replay: by keys, in both languages and all widths."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from cli.conftest import CLAUDE, CLAUDE_FORK

from .conftest import FAILING, Visit, key_of, overflow, settled, turn_to
from .test_keyboard import here

ONE, OTHER = key_of("claude-code", CLAUDE), key_of("claude-code", CLAUDE_FORK)
COMPARE = f"/compare?a={ONE}&b={OTHER}"
FAILED = f"/sessions/{key_of('agenttrace', FAILING)}"
WIDTHS = (1280, 1920, 390)


def focus_session(page: Page, key: str) -> None:
    """Go down the list with ``j`` until this session has the focus."""
    target = page.locator(f"#session-{key}")
    expect(target).to_be_visible()
    ids = [link.get_attribute("id") for link in page.locator("a[id^=session-]").all()]
    page.locator(f"#{ids[0]}").focus()
    for _ in range(ids.index(f"session-{key}")):
        page.keyboard.press("j")
    expect(target).to_be_focused()
    here(page)


def test_two_sessions_are_selected_and_compared_by_keys(visit: Visit) -> None:
    """From the list by ``v`` and ``V`` to the comparison; swapped, its sides change places; from there to a session."""
    page = visit.open("/sessions")
    settled(page)
    for key in (ONE, OTHER):
        focus_session(page, key)
        page.keyboard.press("v")
        expect(page).to_have_url(re.compile(f"compare={key}"))
    expect(
        page.get_by_role("group", name="Selected for comparison").get_by_role("link", name="Compare")
    ).to_be_visible()
    page.keyboard.press("V")
    expect(page).to_have_url(visit.base + COMPARE)
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare")
    figures = page.get_by_role("table", name="Figures")
    turns = figures.get_by_role("row", name=re.compile("^Turns ")).get_by_role("cell")
    expect(turns).to_have_count(3)
    before = turns.all_inner_texts()
    expect(page.get_by_role("table", name="Tools").get_by_role("row")).not_to_have_count(1)
    for letter in "AB":
        expect(page.get_by_role("img", name=re.compile(f"^{letter}: "))).to_be_visible()
    page.get_by_role("button", name="Swap A and B").press("Enter")
    expect(page).to_have_url(f"{visit.base}/compare?a={OTHER}&b={ONE}")
    expect(turns.first).to_have_text(before[1])
    after = turns.all_inner_texts()
    assert after[:2] == [before[1], before[0]]
    signs = {sign for text in (before[2], after[2]) for sign in re.findall(r"▲ \+|▼ −|=", text)}
    assert signs in ({"▲ +", "▼ −"}, {"="})
    page.get_by_role("table", name="Turns").get_by_role("link").first.press("Enter")
    expect(page).to_have_url(re.compile(f"/sessions/{OTHER}\\?span="))
    page.get_by_role("link", name="Compare with…").press("Enter")
    expect(page).to_have_url(f"{visit.base}/sessions?compare={OTHER}")
    expect(page.get_by_text("Select another session to compare with")).to_be_visible()


def test_a_comparison_without_sessions_leads_to_the_list(visit: Visit) -> None:
    """An address with one session, or with one that is not there, says what to do."""
    page = visit.open(f"/compare?a={ONE}")
    expect(page.get_by_text("Choose two sessions to compare")).to_be_visible()
    expect(page.get_by_role("link", name="Choose sessions")).to_have_attribute("href", f"/sessions?compare={ONE}")
    page.goto(f"/compare?a={ONE}&b=nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no such session.")


def test_groups_of_spans_by_keys(visit: Visit) -> None:
    """Arrow keys go inside, around and beside; Enter leaves the spans behind a group; Escape takes that back."""
    page = visit.open(f"/sessions/{ONE}?view=waterfall")
    grid = page.get_by_role("treegrid", name="Spans by time")
    expect(grid).to_be_visible()
    tree = page.get_by_role("tree", name="Spans grouped by the path of their names")
    expect(tree).to_have_count(0)
    page.get_by_role("button", name="Aggregate").press("Enter")
    rows = int(grid.get_attribute("aria-rowcount") or 0)
    tree.locator("[tabindex='0']").focus()
    first = page.locator(":focus")
    expect(first).to_have_attribute("aria-level", "1")
    page.keyboard.press("ArrowDown")
    expect(page.locator(":focus")).to_have_attribute("aria-level", "2")
    page.keyboard.press("ArrowDown")
    expect(page.locator(":focus")).to_have_attribute("aria-level", "3")
    here(page)
    name = page.locator(":focus").text_content() or ""
    count = re.search(r", (\d+) spans?", name)
    assert count is not None
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("path=turn&path=step.*&path=tool"))
    tool = name.split()[0]
    # With the heading, what the calls are in, and what is in them: a subagent.
    expect(grid).not_to_have_attribute("aria-rowcount", str(rows))
    shown = grid.locator("[role=row][data-index]")
    assert shown.filter(has_text=tool).count() >= int(count[1])
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("path="))
    expect(grid).to_have_attribute("aria-rowcount", str(rows))
    page.get_by_role("radio", name="Tokens").press("Enter")
    expect(page).to_have_url(re.compile("measure=tokens"))
    page.reload()
    expect(page.get_by_role("radio", name="Tokens")).to_be_checked()


def test_replay_by_keys(visit: Visit) -> None:
    """Rows appear one after the other up to all; the address keeps the position; with reduced motion it waits."""
    page = visit.enter()
    page.emulate_media(reduced_motion="reduce")
    page.goto(FAILED)
    rows = page.get_by_role("list", name="Conversation, in reading order").get_by_role("listitem")
    expect(rows.first).to_be_visible()
    every = rows.count()
    page.keyboard.press("y")
    bar = page.get_by_role("group", name="Replay of the session")
    expect(bar.get_by_role("button", name=re.compile("^Play "))).to_be_visible()
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"replay=0$"))
    page.keyboard.press(".")
    expect(page).to_have_url(re.compile(r"replay=[1-9]"))
    expect(rows).not_to_have_count(1)
    some = rows.count()
    url = page.url
    page.reload()
    expect(rows).to_have_count(some)
    expect(bar).to_be_visible()
    assert page.url == url
    page.keyboard.press(",")
    expect(rows).to_have_count(1)
    page.emulate_media(reduced_motion="no-preference")
    page.keyboard.press(">")
    expect(bar.get_by_role("radio", name="16×")).to_be_checked()
    page.keyboard.press(" ")
    expect(bar).to_contain_text("End of the session")
    expect(rows).to_have_count(every)
    position = bar.get_by_role("slider", name="Position")
    position.focus()
    here(page)
    page.keyboard.press("Home")
    expect(rows).to_have_count(1)
    page.keyboard.press("End")
    expect(rows).to_have_count(every)
    page.locator("body").press("y")
    expect(bar).to_have_count(0)
    expect(page).to_have_url(visit.base + FAILED)
    page.emulate_media(reduced_motion=None)


def test_wide_narrow_and_chinese(visit: Visit) -> None:
    """No view is wider than its window, in both languages, and the Chinese ones are Chinese."""
    places = (COMPARE, f"/sessions/{ONE}?view=waterfall&flame=on", f"{FAILED}?replay=2000", f"/sessions?compare={ONE}")
    for language, words in (
        ("en-US", ("Difference", "Aggregate", "Replay", "Cancel")),
        ("zh-CN", ("差异", "聚合", "回放", "取消")),
    ):
        page = visit.enter(language=language)
        for place, word in zip(places, words, strict=True):
            turn_to(page, place)
            expect(page.get_by_text(word, exact=True).first).to_be_visible()
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 844})
                assert overflow(page) <= 0, (place, width, language)
