"""Texts and what is searched in them as words, so that a search is a look for a part of a text.

Words are lower case without accents, with a blank around each. Chinese, Japanese and Korean characters are words of
their own, without blanks between them: a phrase of them is a part of the text, and an index of pairs finds it.
"""

from __future__ import annotations

import re
import unicodedata

from agenttrace.store.search_terms import SearchTerm, search_terms

_CJK = "\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_BETWEEN = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")
_IS_CJK = re.compile(f"[{_CJK}]")


def words_of(text: str) -> str:
    """A text as it is searched; empty where there is no word in it."""
    found = _joined(text)
    return f" {found} " if found else ""


def _joined(text: str) -> str:
    return _BETWEEN.sub("", " ".join(_WORD.findall(_plain(text))))


def _plain(text: str) -> str:
    """Lower case, without accents."""
    if text.isascii():
        return text.lower()
    # Syllables of Korean are characters of their own, as they are written.
    parts = unicodedata.normalize("NFD", text.lower())
    return unicodedata.normalize("NFC", "".join(sign for sign in parts if not unicodedata.combining(sign)))


def parts_of(text: str) -> list[str]:
    """What must occur in the words of a text that matches what a user typed; empty where there is no word in it."""
    return [part for term in search_terms(text) if (part := _part(term))]


def _part(term: SearchTerm) -> str:
    found = _joined(term.text)
    if not found:
        return ""
    before = "" if _IS_CJK.match(found[0]) else " "
    after = "" if term.prefix or _IS_CJK.match(found[-1]) else " "
    return before + found + after
