"""Recorded texts as they are told to a model: secrets masked, nothing in them that hides or acts."""

from __future__ import annotations

from collections.abc import Callable

from agenttrace.redaction import whole_words
from agenttrace.views.plain import one_line
from agenttrace.views.transcript import visible

#: Of a long text this much is looked at on either side of what is shown: a secret that is cut there is not shown.
_MARGIN = 65_536


class Shown:
    """Makes texts fit to be shown."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.mask = mask
        #: A long text is read page by page, and masked as a whole each time.
        self._last = ("", "")

    def whole(self, text: str) -> str:
        """All of the text."""
        known, shown = self._last
        if text == known:
            return shown
        shown = visible(self.mask(text))
        self._last = (text, shown)
        return shown

    def leaving(self, text: str) -> str:
        """A finished part of an answer; what was shown in it stays as it is."""
        return visible(self.mask(text))

    def line(self, text: str | None, most: int) -> str:
        """So many characters of a text, on one line."""
        return one_line(self.mask(whole_words((text or "")[: most + _MARGIN])), most)

    def ends(self, text: str, most: int) -> str:
        """The whole of a short text; of a longer one the beginning and the end, which hold what matters."""
        if len(text) <= most + 2 * _MARGIN:
            return _ends(self.whole(text), most)
        left_out = len(text) - most
        head = visible(self.mask(text[: most + _MARGIN]))[: most * 2 // 3]
        tail = visible(self.mask(text[-most - _MARGIN :]))[-(most // 3) :]
        return f"{head}\n[… {left_out:,} characters left out …]\n{tail}"

    def around(self, text: str, place: int) -> tuple[str, int]:
        """The part of a text around a place, and where about the place is in it."""
        start = max(0, place - _MARGIN)
        return self.mask(text[start : place + _MARGIN]), place - start


def _ends(shown: str, most: int) -> str:
    left_out = len(shown) - most
    if left_out <= 0:
        return shown
    return f"{shown[: most * 2 // 3]}\n[… {left_out:,} characters left out …]\n{shown[-(most // 3) :]}"
