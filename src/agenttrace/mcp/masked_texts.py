"""Recorded texts for a model: secrets masked, hidden characters made visible."""

from __future__ import annotations

from collections.abc import Callable

from agenttrace.redaction import whole_words
from agenttrace.views.plain import one_line
from agenttrace.views.transcript import visible

#: How many characters of a long text are masked on either side of what is shown, so that no secret is cut in two.
_MARGIN = 65_536


class MaskedTexts:
    """Masks texts, whole or in part; of those longer than ``longest`` the middle is left out."""

    def __init__(self, mask: Callable[[str], str], longest: int | None = None) -> None:
        self.mask = mask
        self._longest = longest
        #: A long text is read page by page, and masked as a whole each time.
        self._last = ("", "")

    def whole(self, text: str) -> str:
        """All of the text, unless it is longer than any may be."""
        if self._longest is not None and len(text) > self._longest:
            return self.ends(text, self._longest)
        return self._masked(text)

    def _masked(self, text: str) -> str:
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
            head = tail = text = self._masked(text)
        else:
            head, tail = (visible(self.mask(part)) for part in (text[: most + _MARGIN], text[-most - _MARGIN :]))
        if len(text) <= most:
            return text
        left_out = f"[… {len(text) - most:,} characters left out …]"
        return f"{head[: most * 2 // 3]}\n{left_out}\n{tail[-(most // 3) :]}"

    def around(self, text: str, place: int) -> tuple[str, int]:
        """The part of a text around a place, and where about the place is in it."""
        start = max(0, place - _MARGIN)
        return self.mask(text[start : place + _MARGIN]), place - start
