"""Chinese: which English words of the interface are left on a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from playwright.sync_api import Page, expect

from .places import Place

SOURCE = Path(__file__).resolve().parents[2] / "web" / "src"
#: Words of the interface, with the names of what it is about: what agents and users wrote isolates its direction.
SHOWN = """() => {
  const written = "bdi, code, pre, kbd, samp, time, mark, .mono, option, textarea, [lang=en], [dir=auto]";
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const [own, others] = [[], []];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const part = text.parentElement;
    if (!part.matches("script, style, noscript")) (part.closest(written) ? others : own).push(text.data);
  }
  for (const part of document.querySelectorAll("[aria-label], [placeholder]")) {
    own.push(part.getAttribute("aria-label") ?? "", part.getAttribute("placeholder") ?? "");
  }
  return [own, others];
}"""
#: Settings, variables and keys, which have no translation.
IDENTIFIER = re.compile(r"\w+(?:[._]\w+)+")
WORD = re.compile(r"[A-Za-z]{3,}")
#: Names in the data of the tests; a model without a name is called unknown.
NAMES = {"archive", "shop", "lookout", "unreachable", "nowhere", "checkout", "unknown"}
#: What stands for a text that is missing.
BROKEN = re.compile(r"\b(undefined|NaN|\[object Object\]|Invalid Date)\b")


def words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(IDENTIFIER.sub(" ", text))}


def literals(source: str) -> Iterator[str]:
    """The texts in a part of a module, without what is put into them."""
    for found in re.finditer(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`', source):
        yield re.sub(r"\$\{[^}]*\}", " ", found[1] or found[2] or "")


@cache
def english() -> frozenset[str]:
    """Words that the English texts have and no Chinese one: names are in both."""
    in_english: set[str] = set()
    in_chinese: set[str] = set()
    for path in SOURCE.rglob("*.ts"):
        source = path.read_text("utf-8")
        start, end = source.find("\n  en: {"), source.find("\n  zh: {")
        if 0 <= start < end:
            in_english |= words(" ".join(literals(source[start:end])))
            in_chinese |= words(" ".join(literals(source[end:])))
    return frozenset(in_english - in_chinese)


def test_the_vocabulary_is_found() -> None:
    """The usual words of the interface are in it, and names are not."""
    assert {"sessions", "loading", "filters", "errors", "nothing", "open", "save", "budgets"} <= english()
    assert not {"agenttrace", "token", "json"} & english()


def not_chinese(page: Page, place: Place) -> list[str]:
    """What a place shows of the vocabulary of the English texts, but words that agents and users wrote."""
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    own, others = page.evaluate(SHOWN)
    left = words(" ".join(own)) & english() - words(" ".join(others)) - NAMES
    told = [f"{word}: {next(text for text in own if word in text.lower())[:80]}" for word in sorted(left)]
    told += BROKEN.findall(" ".join(own))
    heading = page.get_by_role("heading", level=1).inner_text()
    # Sessions, jobs and calls are named by what is in them.
    if place.path.count("/") == 1 and not re.search(r"[\u4e00-\u9fff]", heading):
        told.append(f"the name of the page: {heading}")
    return told
