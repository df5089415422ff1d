"""What is hidden in a shared session: secrets, and the names of users in paths where that is wanted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.masking import fields
from agenttrace.masking.rule import MARKER, marker
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.masking import Mask

#: Directories below those of users that belong to no user.
_NOT_USERS = frozenset({"public", "shared", "default", "all users", "linuxbrew", "lost+found"})
#: Of names that are also words in paths only the home directories are masked.
_WORDS = frozenset(
    {
        *("admin", "app", "build", "code", "coder", "data", "dev", "devel", "developer", "git", "home", "lib", "main"),
        *("me", "node", "opt", "postgres", "project", "projects", "root", "runner", "server", "service", "shared"),
        *("src", "test", "tmp", "ubuntu", "user", "users", "vagrant", "var", "vscode", "work", "workspace", "www"),
    }
)
_SEPARATOR = r"(?:/|\\{1,4})"
#: ``/home/ann``, ``/Users/ann``, ``C:\\Users\\Ann Lee``; and how Claude Code names directories after them.
_HOME = re.compile(
    rf"(?:(?<![\w.-])/(?:home|Users)/|\b[A-Za-z]:{_SEPARATOR}Users{_SEPARATOR}|(?<=/[A-Za-z])/Users/)"
    rf"(?P<name>[^/\\\s\"'`<>:|?*;,()\[\]{{}}$]+(?:(?: [^/\\\s\"'`<>:|?*;,()\[\]{{}}$]+){{1,3}}(?=\\))?)"
    r"|(?<![A-Za-z0-9])-(?:home|Users)-(?P<dashed>[A-Za-z0-9]+)(?![A-Za-z0-9])"
)
_USER = marker("user")
_NEAR = 60


class UserNames:
    """Masks the names of users in paths: their home directories, and directories and logins called like them."""

    def __init__(self, paths: Iterable[str | None]) -> None:
        names = {name for path in paths if path for name in _names_in(path)}
        known = sorted((re.escape(name) for name in names if name.lower() not in _WORDS), key=len, reverse=True)
        alternatives = "|".join(known)
        self._known = (
            re.compile(rf"(?<=[/\\~])(?:{alternatives})(?![\w.-])|(?<![\w.-])(?:{alternatives})(?=@[\w-])")
            if known
            else None
        )

    def text(self, text: str) -> str:
        """The text without these names."""
        hidden = _HOME.sub(_without_name, text)
        return hidden if self._known is None else self._known.sub(_USER, hidden)


def own_homes() -> list[str]:
    """The home directory of the user who shares."""
    try:
        return [str(Path.home())]
    except RuntimeError:
        return []


def _names_in(path: str) -> list[str]:
    found = (match["name"] or match["dashed"] for match in _HOME.finditer(path))
    return [name for name in found if name.lower() not in _NOT_USERS]


def _without_name(found: re.Match[str]) -> str:
    group = "name" if found["name"] is not None else "dashed"
    if found[group].lower() in _NOT_USERS:
        return found[0]
    start, whole = found.start(group) - found.start(), found[0]
    return f"{whole[:start]}{_USER}"


class ShareMask:
    """Hides what is not to be shared; without a mask and without names it changes nothing."""

    def __init__(self, secrets: Mask | None, names: UserNames | None = None) -> None:
        self._secrets, self._names = secrets, names

    @property
    def hides(self) -> bool:
        """Whether it hides anything."""
        return self._secrets is not None or self._names is not None

    def text(self, text: str) -> str:
        """The text with a marker in the place of all that is hidden."""
        hidden = text if self._secrets is None else self._secrets.text(text)
        return hidden if self._names is None else self._names.text(hidden)

    def value(self, value: object) -> object:
        """The same for any JSON value."""
        if self._secrets is not None:
            return fields.masked(value, self.text)
        return _mapped(value, self.text)


def _mapped(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(name)): _mapped(each, change) for name, each in value.items()}
    return [_mapped(each, change) for each in value] if isinstance(value, list) else value


class MaskedPlace(NamedTuple):
    """Where something is masked, with the text around it."""

    kind: str
    #: ``Turn 2, result``.
    where: str
    #: The span, as sixteen hexadecimal digits; ``None`` in the head of the document.
    span_id: str | None
    before: str
    after: str


class MaskedPlaces:
    """Counts what is masked by its kind, and keeps the first places of each."""

    def __init__(self, most: int = 0) -> None:
        self.kinds: Counter[str] = Counter()
        self.places: list[MaskedPlace] = []
        self._most = most
        self._kept: Counter[str] = Counter()

    def note(self, text: str, where: str, span_id: bytes | None = None) -> None:
        """Count the markers of a masked text."""
        if "[masked:" not in text:
            return
        for found in MARKER.finditer(text):
            kind = kind_of(found[0])
            self.kinds[kind] += 1
            if self._kept[kind] < self._most:
                self._kept[kind] += 1
                self.places.append(_place(text, found, kind, where, span_id))

    def listed(self) -> str:
        """``2 password, 1 openai-key``."""
        return ", ".join(f"{number:,} {kind}" for kind, number in self.kinds.most_common())


def kind_of(text: str) -> str:
    """The kind that a marker names."""
    return text.removeprefix("[masked:").removesuffix("]")


def _place(text: str, found: re.Match[str], kind: str, where: str, span_id: bytes | None) -> MaskedPlace:
    start, end = found.span()
    # A space at an end separates words, and is lost on one line.
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    lead = ("…" if start > _NEAR else "") + one_line(before) + (" " if before[-1:].isspace() else "")
    rest = (" " if after[:1].isspace() else "") + one_line(after) + ("…" if end + _NEAR < len(text) else "")
    return MaskedPlace(kind, where, None if span_id is None else span_id.hex(), lead, rest)
