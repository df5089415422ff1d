"""What is shared of a session, and what is said of it before; importing this takes no time."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ShareFormat: TypeAlias = Literal["html", "md", "jsonl"]
#: Places of each kind that a preview shows.
MOST_PLACES = 20


class ShareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is shared of a session."""

    format: ShareFormat = "html"
    #: True: nothing is masked but what ``hide_paths`` masks.
    secrets: bool = False
    #: Names of users in paths are masked.
    hide_paths: bool = False
    #: False: prompts and answers only.
    tools: bool = True


class MaskedKind(msgspec.Struct, frozen=True, kw_only=True):
    """How often something of a kind is masked."""

    kind: str
    count: int


class MaskedExcerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A masked place with the text around it."""

    kind: str
    #: ``Turn 2, Bash, result``.
    where: str
    #: The span; null in the head of the document.
    span_id: str | None
    before: str
    after: str


class SharePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a shared file would be: its name and size, and what is masked in it."""

    name: str
    bytes: int
    masked: int
    kinds: list[MaskedKind]
    #: The first places of each kind.
    places: list[MaskedExcerpt]
