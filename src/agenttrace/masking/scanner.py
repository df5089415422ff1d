"""Finds the secrets of a text: one pass for all anchors of all rules, then a check where one of them is found.

Most texts have few anchors (``sk-``, ``token``, ``://``) and no secret, so the pass is nearly all of the cost. Measured
on 27 MB of agents' texts with all 343 anchors, CPU seconds for a gigabyte (``zlib.crc32`` takes 0.8):

- 380 one alternation of the anchors in ``re``,
- 190 ``str.find`` for each anchor; 10 with few anchors, chosen so that all secrets are near them,
- 17 ``pyahocorasick``,
- 11 ``google-re2``, whose every hit is handed over by itself (6 where only the first is asked for),
- 3.7 ``ahocorasick_rs`` with its automaton as a table.

The last is taken. It is linear whatever the text, a further rule costs nothing, and it has wheels for more systems.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ahocorasick_rs import AhoCorasick, Implementation

from agenttrace.masking import assignments, commands, forms, headers, urls, vendors
from agenttrace.masking.colours import COLOURS, without_colours
from agenttrace.masking.rule import MARKER, Rule, Secret

#: Where two rules find the same secret, the first names it.
RULES: tuple[Rule, ...] = (
    *vendors.RULES,
    *forms.RULES,
    *urls.RULES,
    *headers.RULES,
    *commands.RULES,
    *assignments.RULES,
)


def _sign(*anchors: str) -> Rule:
    """A rule that finds nothing: it only notes that one of its anchors is in the text."""
    return Rule(anchors, lambda _text, _start, _end: None)


_SIGNS = range(len(RULES), len(RULES) + 3)
#: Markers; colours; letters of names that JSON need not escape.
_MARKED, _COLOURED, _ESCAPED = _SIGNS
_ALL = (*RULES, _sign("[masked:"), _sign(*COLOURS), _sign("\\u004", "\\u005", "\\u006", "\\u007"))
_ANCHORS = [(anchor, number) for number, rule in enumerate(_ALL) for anchor in rule.anchors]
_RULE_OF = [number for _, number in _ANCHORS]
_LOOKS = [rule.look for rule in _ALL]
_AUTOMATON = AhoCorasick([anchor for anchor, _ in _ANCHORS], implementation=Implementation.DFA)
#: No secret is shorter together with what gives it away.
_SHORTEST = 8
_LONGEST = max(len(anchor) for anchor, _ in _ANCHORS)
_PART_CHARS = 1 << 20
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


#: The number of an anchor, where it begins, where it ends.
Hits: TypeAlias = "Iterable[tuple[int, int, int]]"


class Markers:
    """Where the markers of a text are."""

    def __init__(self, text: str) -> None:
        spans = [found.span() for found in MARKER.finditer(text)] if "[masked:" in text else []
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def hold(self, place: int) -> bool:
        """Whether this place is inside a marker."""
        return self._which(place) is not None

    def cut(self, start: int, end: int) -> bool:
        """Whether this begins or ends in the middle of a marker."""
        return any(self.hold(place) and self._which(place) == self._which(place - 1) for place in (start, end))

    def _which(self, place: int) -> int | None:
        before = bisect_right(self._starts, place) - 1
        return before if before >= 0 and place < self._ends[before] else None


def hits_of(text: str) -> Hits:
    """The places of anchors, with the number of each. Without any, there is nothing to mask."""
    if len(text) < _SHORTEST:
        return ()
    return _hits_of_part(text) if len(text) <= _PART_CHARS else _hits_of_parts(text)


def secrets(text: str, hits: Hits | None = None) -> list[Secret]:
    """What the rules find; of secrets that begin at the same place the longest, then the best known, comes first."""
    hits = hits_of(text) if hits is None else hits
    if not hits:
        return []
    # The anchors of a long text are not all known at once.
    said = {_RULE_OF[anchor] for anchor, _, _ in hits} if isinstance(hits, list) else _SIGNS
    found = _looked_at(text, hits, Markers(text if _MARKED in said else ""))
    if _COLOURED not in said:
        return found
    # A secret after a colour may be in the middle of a word without it, so both texts are searched.
    plain = without_colours(text)
    more = _looked_at(plain.text, hits_of(plain.text), Markers(plain.text))
    uncoloured = [Secret(*plain.origin(start, end), kind) for start, end, kind in more]
    return sorted([*found, *uncoloured], key=lambda each: (each.start, -each.end))


def _looked_at(text: str, hits: Hits, markers: Markers) -> list[Secret]:
    found: list[tuple[int, int, int, Secret]] = []
    last: dict[int, Secret] = {}
    for anchor, start, end in hits:
        number = _RULE_OF[anchor]
        before = last.get(number)
        # Inside a secret the same rule would find a part of it; and the text of a marker is no name.
        if (before and before.start <= start < before.end) or markers.hold(start):
            continue
        secret = _LOOKS[number](text, start, end)
        if secret and not markers.cut(secret.start, secret.end):
            last[number] = secret
            found.append((secret.start, -secret.end, number, secret))
    return [secret for *_, secret in sorted(found)]


def _hits_of_parts(text: str) -> Iterator[tuple[int, int, int]]:
    """The same for a long text: if it is mostly anchors, all of them at once take much memory."""
    for begin in range(0, len(text), _PART_CHARS):
        part = text[begin : begin + _PART_CHARS + _LONGEST - 1]
        for anchor, start, end in _hits_of_part(part):
            if start < _PART_CHARS:
                yield anchor, begin + start, begin + end


def _hits_of_part(text: str) -> list[tuple[int, int, int]]:
    try:
        return _AUTOMATON.find_matches_as_indexes(text, overlapping=True)
    except UnicodeEncodeError:
        # Half of a character, as in a text that was cut. It is part of no anchor.
        return _AUTOMATON.find_matches_as_indexes(_HALF_CHARACTER.sub("\ufffd", text), overlapping=True)
