"""Pictures, videos and sounds in lines: the few notations that agents and providers use for them.

Providers agree on little: content blocks with a source, ``data:`` addresses, parts with inline data. Each of them is
recognised by what it consists of, so that one reader serves all formats. What a line says is not trusted: the type is
known from the bytes, and nothing that could run as a program counts as a picture.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from agenttrace.record.formats.lenient import DECODING_ERRORS

#: Bytes of a picture that is shown, and pictures of one line.
MOST_BYTES = 20 << 20
_MOST_IN_LINE = 100
_DEEPEST = 40
#: Base64 digits by which the type is recognised.
_OPENING = 64

#: Why a picture is not shown. ``elsewhere``: the line only names it. ``unsafe``: a format that can hold programs.
Problem = Literal["elsewhere", "too_large", "unsafe", "unknown_type", "damaged", "no_picture"]

_ELSEWHERE: Problem = "elsewhere"
_HINT = re.compile(rb'(?:image|video|audio)/|"(?:image|input_image|image_url|imageUrl|image_generation_call)"')
_ADDRESS = re.compile(r"data:((?:image|video|audio)/[\w.+-]{1,60})(?:;[\w=.+-]{1,60})*;base64,", re.IGNORECASE)
_TYPE = re.compile(r"(?:image|video|audio)/[\w.+-]{1,60}", re.IGNORECASE)
_TYPE_NAMES = ("media_type", "mimeType", "mime_type", "mediaType", "mime", "type")
_DATA_NAMES = ("data", "base64", "blob")
_PLACE_NAMES = ("url", "image_url", "imageUrl", "fileUri", "uri", "path", "file_id", "file_path")
_CALL_NAMES = ("tool_use_id", "call_id", "toolCallId", "tool_call_id", "callID", "callId")
_PICTURES = frozenset({"image", "input_image", "image_url", "imageUrl"})
_SIGNATURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    "image/avif": re.compile(rb"....ftypavi[fs]", re.DOTALL),
}
_MARKUP = re.compile(rb"[\s\xef\xbb\xbf]*<")
_URL_SAFE = str.maketrans("-_", "+/")
_anything = msgspec.json.Decoder()


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """A picture in a line, as the line has it."""

    #: As the line says; empty where it does not.
    media_type: str = ""
    #: In base64; ``None`` where the line only names it.
    data: str | None = None
    #: The address or path that the line names.
    place: str | None = None
    #: The tool call that it belongs to.
    call: str | None = None


class MediaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said about a picture without sending it."""

    #: From the bytes, where they are known; else as the line says, or empty.
    media_type: str
    #: Its size; ``None`` where the line only names it.
    bytes: int | None
    place: str | None
    problem: Problem | None
    #: Tells a picture from another one.
    digest: str


# -- finding ------------------------------------------------------------------------------------------------------


def media_in(raw: bytes) -> list[Media]:
    """The pictures of a line, each once, in their order."""
    if _HINT.search(raw) is None:
        return []
    try:
        value = _anything.decode(raw)
    except DECODING_ERRORS:
        return []
    found: dict[str, Media] = {}
    for media in _walked(value, None, 0):
        name = media.data or media.place or ""
        known = found.get(name)
        # Some agents write a picture twice: with its call, and among the facts of its result.
        if known is None or (known.call is None and media.call is not None):
            found[name] = media
        if len(found) >= _MOST_IN_LINE:
            break
    return list(found.values())


def _walked(value: object, call: str | None, depth: int) -> Iterator[Media]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from _of_address(value, call)
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str | list | dict):
                yield from _walked(each, call, depth + 1)
    elif isinstance(value, dict):
        yield from _of_object(value, _call_of(value) or call, depth)


def _of_address(text: str, call: str | None) -> Iterator[Media]:
    found = _ADDRESS.match(text) if text.startswith("data:") else None
    if found is not None:
        yield Media(media_type=found[1].lower(), data=text[found.end() :], call=call)


def _of_object(value: dict[str, Any], call: str | None, depth: int) -> Iterator[Media]:
    own = _inline(value, call) or _generated(value, call)
    if own is not None:
        yield own
        return
    inner = [
        media
        for name, each in value.items()
        if isinstance(each, str | list | dict)
        for media in _walked(each, _inner_call(name, each) or call, depth + 1)
    ]
    yield from inner or _named(value, call)


def _inline(value: dict[str, Any], call: str | None) -> Media | None:
    """Data beside its type."""
    kind = _type_of(value)
    data = next((each for name in _DATA_NAMES if isinstance(each := value.get(name), str)), None)
    if not kind or data is None:
        return None
    if (found := _ADDRESS.match(data)) is not None:
        data = data[found.end() :]
    return Media(media_type=kind, data=data, call=call)


def _generated(value: dict[str, Any], call: str | None) -> Media | None:
    """A picture that a provider made."""
    data = value.get("result")
    if value.get("type") != "image_generation_call" or not isinstance(data, str) or not data:
        return None
    own = value.get("id")
    return Media(media_type="image/png", data=data, call=call or (own if isinstance(own, str) else None))


def _named(value: dict[str, Any], call: str | None) -> Iterator[Media]:
    """A picture that is somewhere else."""
    kind, own = _type_of(value), value.get("type")
    is_picture = isinstance(own, str) and own in _PICTURES
    if not kind and not is_picture:
        return
    source = value.get("source")
    for holder in (value, source, *(value.get(name) for name in ("image_url", "imageUrl"))):
        for name in _PLACE_NAMES:
            place = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(place, str) and place:
                yield Media(media_type=kind, place=place, call=call)
                return
    if is_picture:
        yield Media(media_type=kind, call=call)


def _type_of(value: dict[str, Any]) -> str:
    """The type that an object names; empty where it names none of pictures, videos and sounds."""
    named = (each for name in _TYPE_NAMES if isinstance(each := value.get(name), str))
    return next((each.lower() for each in named if _TYPE.fullmatch(each)), "")


def _call_of(value: dict[str, Any]) -> str | None:
    return next((each for name in _CALL_NAMES if isinstance(each := value.get(name), str)), None)


def _inner_call(name: str, value: object) -> str | None:
    """The call of a response as Gemini writes it."""
    own = value.get("id") if name == "functionResponse" and isinstance(value, dict) else None
    return own if isinstance(own, str) else None


# -- judging ------------------------------------------------------------------------------------------------------


def facts_of(media: Media) -> MediaFacts:
    """What a picture is, from its first bytes."""
    size = None if media.data is None else len(media.data.rstrip("=\r\n ")) * 3 // 4
    kind, problem = (media.media_type, _ELSEWHERE) if size is None else _judged(media, size)
    digest = hashlib.blake2b((media.data or media.place or "").encode("utf-8", "replace"), digest_size=8).hexdigest()
    place = None if media.place is None else media.place[:2_000]
    return MediaFacts(media_type=kind, bytes=size, place=place, problem=problem, digest=digest)


def _judged(media: Media, size: int) -> tuple[str, Problem | None]:
    digits = "".join((media.data or "")[: 2 * _OPENING].split())[:_OPENING]
    head = _decoded(digits if len(digits) < _OPENING else digits[: _OPENING // 4 * 4])
    if not head:
        return media.media_type, "damaged"
    kind = next((name for name, pattern in _SIGNATURES.items() if pattern.match(head)), None)
    if kind is not None:
        return kind, "too_large" if size > MOST_BYTES else None
    if "svg" in media.media_type or "xml" in media.media_type or _MARKUP.match(head):
        return media.media_type, "unsafe"
    return media.media_type, "unknown_type" if media.media_type.startswith("image/") else "no_picture"


def picture_of(media: Media) -> tuple[str, bytes] | Problem:
    """Type and bytes of a picture that a browser may show, or why it may not."""
    facts = facts_of(media)
    if facts.problem is not None:
        return facts.problem
    data = _decoded(media.data or "")
    return (facts.media_type, data) if data else "damaged"


def _decoded(text: str) -> bytes:
    """The bytes; empty where it is no base64."""
    digits = "".join(text.split()).rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


_NAMES = {"image": "picture", "video": "video", "audio": "sound"}
_REASONS: dict[Problem, str] = {
    "elsewhere": "not in the log",
    "too_large": "too large to be shown",
    "unsafe": "not shown: the format can hold programs",
    "unknown_type": "not shown: of a kind that is not known",
    "damaged": "damaged",
    "no_picture": "not shown",
}


def described(facts: MediaFacts) -> str:
    """One line: ``picture, PNG, 120 kB``."""
    family, _, kind = facts.media_type.partition("/")
    size = "" if facts.bytes is None else _size(facts.bytes)
    reason = "" if facts.problem is None else _REASONS[facts.problem]
    place = "" if facts.place is None else facts.place[:200]
    parts = (_NAMES.get(family, "picture"), kind.upper().removesuffix("+XML"), size, reason, place)
    return ", ".join(filter(None, parts))


def _size(count: int) -> str:
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
