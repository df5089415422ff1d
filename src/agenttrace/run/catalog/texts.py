"""The texts that users of applications read, in their language: ``texts.toml`` and those of a catalog."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_FILE = Path(__file__).with_name("texts.toml")
#: Of an Accept-Language header, no more than this is read.
_HEADER_CHARS = 200

#: The texts of one language, by their names.
Texts = Mapping[str, str]


class TextsError(Exception):
    """A catalog has texts that cannot be used; the message says which."""


@cache
def default_texts() -> Mapping[str, Texts]:
    """The texts that ship, by language."""
    found = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return MappingProxyType({language: MappingProxyType(texts) for language, texts in found.items()})


class UserTexts:
    """All texts of a catalog; ``language`` is for users whose languages it does not have."""

    def __init__(self, language: str = "en", own: Mapping[str, Texts] = MappingProxyType({})) -> None:
        known = default_texts()
        for name, texts in own.items():
            if unknown := sorted(set(texts) - set(known["en"])):
                raise TextsError(f"texts.{name}: there is no text {unknown[0]!r}; there are {', '.join(known['en'])}")
        # A new language may have a few texts only; the others are the English ones.
        self._texts = {name: {**known["en"], **known.get(name, {}), **own.get(name, {})} for name in {**known, **own}}
        if language not in self._texts:
            raise TextsError(f"language {language!r} has no texts; there are {', '.join(sorted(self._texts))}")
        self.language = language

    @property
    def default(self) -> Texts:
        """The texts in the language of the catalog."""
        return self._texts[self.language]

    def preferred(self, accepted: str | None) -> Texts:
        """The texts for an ``Accept-Language`` header."""
        for name in _by_preference(accepted or ""):
            # "zh-CN" is content with "zh".
            for language in (name, name.partition("-")[0]):
                if language in self._texts:
                    return self._texts[language]
        return self.default


def _by_preference(header: str) -> list[str]:
    weighted = []
    for place, part in enumerate(header[:_HEADER_CHARS].lower().split(",")):
        name, _, options = part.partition(";")
        weight = _weight(options.strip().removeprefix("q="))
        if weight > 0:
            weighted.append((-weight, place, name.strip()))
    return [name for _, _, name in sorted(weighted)]


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0
