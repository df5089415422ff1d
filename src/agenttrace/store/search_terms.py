"""What a user typed into a search: words, phrases in quotes, and beginnings such as ``migrat*``."""

from __future__ import annotations

import re
from typing import NamedTuple

_TERM = re.compile(r'"([^"]*)"|(\S+)')


class SearchTerm(NamedTuple):
    """A word or a phrase."""

    text: str
    #: Whether it is only the beginning of a word.
    prefix: bool

    @property
    def has_word(self) -> bool:
        """Whether there is anything in it to search for: signs alone are no word."""
        return any(map(str.isalnum, self.text))


def search_terms(text: str) -> list[SearchTerm]:
    """The terms of a search; all of them must occur."""
    found = []
    for phrase, word in _TERM.findall(text.encode("utf-8", "replace").decode().replace("\0", " ")):
        prefix = word.endswith("*") and len(word) > 1
        found.append(SearchTerm(phrase or (word.rstrip("*") if prefix else word), prefix))
    return [term for term in found if term.text]


def has_words(text: str) -> bool:
    """Whether there is anything to search for."""
    return any(term.has_word for term in search_terms(text))
