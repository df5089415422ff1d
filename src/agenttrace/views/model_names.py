"""Models as people say them: ``Sonnet 4.5``, ``GPT-5.2 Codex``. The console has the same names, from ``models.ts``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

#: Where ids come from: ``us.anthropic.``, ``anthropic/``, ``models/``, ``openrouter/anthropic/``.
_ORIGIN = re.compile(r"(?:[a-z0-9_-]+/)+|(?:(?:us|eu|apac|global|jp|au)\.)?[a-z0-9]+\.(?=claude)", re.IGNORECASE)
#: What names a build of a model: a date, a version of Bedrock, ``latest``, ``preview``.
_BUILD = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-20\d\d|latest|preview|exp)|-v\d+(?::\d+)?|:\d+|\*)\Z",
    re.IGNORECASE | re.ASCII,
)
#: A long context, which Claude Code writes behind the id.
_CONTEXT = re.compile(r"\[(\d+)(k|m)\]\Z", re.IGNORECASE | re.ASCII)
_FUSED = re.compile(r"(qwen|gemini|gpt|glm|kimi|deepseek)(\d[\w.]*)", re.ASCII)
_VERSION = re.compile(r"v?\d+(?:\.\d+)*[a-z]?|k\d.*", re.ASCII)
_NUMBER = re.compile(r"\d[\d.]*", re.ASCII)
_LINES = frozenset({"gpt", "codex", "kimi", "qwen", "deepseek", "glm", "gemini"})
#: Words that are not written with a capital letter first, or not only there.
_WORDS = {"mini": "mini", "nano": "nano", "flashx": "FlashX", "vl": "VL", "ai": "AI", "oss": "OSS", "for": "for"}


class _Parts(NamedTuple):
    #: The name of the line of models, such as ``claude-sonnet`` or ``gpt``.
    line: str
    version: str
    #: What follows: ``codex``, ``mini``, ``thinking``.
    more: list[str]


@lru_cache(maxsize=1024)
def model_name(model: str) -> str:
    """The name people say; an id of a line that is not known stays as it is."""
    parts = _parts(model)
    if parts is None:
        return model
    context = _CONTEXT.search(model.strip())
    rest = [*map(_capital, parts.more), *([context[1] + context[2].upper()] if context else [])]
    return " ".join([_said(parts.line, parts.version), *rest])


def model_names(models: Iterable[str]) -> dict[str, str]:
    """The names of models that stand side by side: where two would be called the same, each has its id."""
    names = {model: model_name(model) for model in models}
    counts = Counter(names.values())
    return {model: model if counts[name] > 1 else name for model, name in names.items()}


def _plain(model: str) -> str:
    """The id without its origin and build."""
    left = _CONTEXT.sub("", model.strip())
    if origin := _ORIGIN.match(left):
        left = left[origin.end() :]
    while (shorter := _BUILD.sub("", left)) != left:
        left = shorter
    return left.lower()


def _parts(model: str) -> _Parts | None:
    first, *rest = [word for word in _plain(model).split("-") if word] or [""]
    if first == "claude":
        return _claude(rest)
    if re.fullmatch(r"o\d", first, re.ASCII):
        return _Parts("o", first[1:], rest)
    if fused := _FUSED.fullmatch(first):
        return _Parts(fused[1], fused[2], rest)
    if first not in _LINES:
        return None
    if rest and _VERSION.fullmatch(rest[0]):
        return _Parts(first, rest[0], rest[1:])
    return _Parts(first, "", rest)


def _claude(words: list[str]) -> _Parts | None:
    """``sonnet-4-5``, ``3-5-sonnet``, ``sonnet-4.5``: the version stands before or after the name."""
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    name, *more = [word for word in words if word not in numbers] or [""]
    version = re.sub(r"\.0\Z", "", ".".join(numbers))
    return _Parts(f"claude-{name}", version, more) if name else None


def _capital(word: str) -> str:
    return _WORDS.get(word, word[:1].upper() + word[1:])


def _said(line: str, version: str) -> str:
    if line.startswith("claude-"):
        return " ".join(filter(None, (_capital(line.removeprefix("claude-")), version)))
    if line == "o":
        return f"o{version}"
    if line in ("gpt", "glm"):
        return "-".join(filter(None, (line.upper(), version)))
    if line == "qwen":
        return f"Qwen{version}"
    name = "DeepSeek" if line == "deepseek" else _capital(line)
    return " ".join(filter(None, (name, version.upper())))
