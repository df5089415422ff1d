"""Model calls, and what changed from one to the next: system prompt, tools, messages, parameters, model, cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from agenttrace.model import Usage
from agenttrace.record.formats.context import PARTS, Part, Request, SystemPrompt, ToolSet

#: ``request``: the log has the request. ``conversation``: computed from the lines before the call.
#: ``usage``: only the tokens of the call are known.
KnownFrom = Literal["request", "conversation", "usage"]
ChangeKind = Literal["system", "tools", "messages", "parameters", "model", "compaction", "shorter", "pause"]

#: How long providers keep a prompt cache, in microseconds: the usual time, and the one that can be paid for.
CACHE_LIFETIME = 300_000_000
LONG_CACHE_LIFETIME = 3_600_000_000
#: The part of cached tokens that may be missing: providers count in blocks, and agents leave out old thinking.
TOLERATED = 0.05
Sizes = tuple[int, ...]
NOTHING: Sizes = (0,) * len(PARTS)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is not as it was in the call before."""

    kind: ChangeKind
    known_from: KnownFrom
    before: str | None = None
    after: str | None = None
    #: Names of tools or of parameters.
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    #: What is no longer sent: messages, where they are known, and characters by part.
    messages: int | None = None
    characters: dict[Part, int] = {}
    #: The first message that differs, counted from 0.
    first: int | None = None
    #: How long the pause was, in microseconds.
    pause: int | None = None


class ModelCall(msgspec.Struct, kw_only=True):
    """A model call and the context that it was sent."""

    stream: str
    known_from: KnownFrom
    at: int | None = None
    #: ``None`` for a request that was not answered.
    span_id: bytes | None = None
    model: str | None = None
    purpose: str = ""
    #: Characters by part; a part that the log does not have is missing.
    parts: dict[Part, int] = {}
    #: How many messages were sent, and how many of them the log does not have.
    messages: int | None = None
    unread: int = 0
    usage: Usage | None = None
    #: Tokens that the call before had in the cache and this one did not read from it.
    cache_lost: int = 0
    #: What changed since the call before that has tokens, where cached tokens were lost.
    causes: list[ChangeKind] = []
    changes: list[Change] = []


class ToolPresence(msgspec.Struct, kw_only=True):
    """From which call to which a tool was offered, by position in the list of calls."""

    name: str
    stream: str
    size: int
    came: int
    #: Whether the first calls of its kind had it already.
    initial: bool
    went: int | None = None


class ModelCalls(msgspec.Struct, kw_only=True):
    """All model calls of a session in order, and the tools that they were offered."""

    calls: list[ModelCall]
    tools: list[ToolPresence]


class Sent(msgspec.Struct):
    """The messages of a request with their sizes; ``None``: the log does not have the message."""

    messages: list[tuple[str, Sizes | None]]
    sizes: Sizes
    unread: int


class Lane:
    """What the latest call of one stream and purpose was sent: the next one is compared with it."""

    def __init__(self) -> None:
        self.call: ModelCall | None = None
        self.request: str | None = None
        self.sent: Sent | None = None
        self.system: SystemPrompt | None = None
        self.tools: ToolSet | None = None
        self.parameters: Mapping[str, str] | None = None
        self.presences: dict[str, ToolPresence] = {}


# -- sizes -------------------------------------------------------------------------------------------------------


def by_part(sizes: Sequence[int], all_but: tuple[int, ...] | None = None) -> dict[Part, int]:
    """Sizes by part: all but some, or else those that are not zero."""
    pairs = zip(PARTS, sizes, strict=True)
    if all_but is None:
        return {part: size for part, size in pairs if size}
    return {part: size for index, (part, size) in enumerate(pairs) if index not in all_but}


def plus(sizes: Sizes, others: Iterable[Sizes]) -> Sizes:
    """Sizes with others added."""
    return tuple(map(sum, zip(sizes, *others, strict=True)))


def minus(sizes: Sizes, others: Iterable[Sizes]) -> Sizes:
    """Sizes without others."""
    gone = plus(NOTHING, others)
    return tuple(size - less for size, less in zip(sizes, gone, strict=True))


# -- what changed ------------------------------------------------------------------------------------------------


def model_change(lane: Lane, call: ModelCall) -> Iterator[Change]:
    """Another model than in the call before."""
    before = None if lane.call is None else lane.call.model
    if before and call.model and before != call.model:
        yield Change(kind="model", known_from=call.known_from, before=before, after=call.model)


def settings_changes(
    lane: Lane, system: SystemPrompt | None, tools: ToolSet | None, call: ModelCall
) -> Iterator[Change]:
    """Another system prompt, or other tools."""
    if system is not None and lane.system is not None and system.digest != lane.system.digest:
        before, after = f"{lane.system.size} characters", f"{system.size} characters"
        yield Change(kind="system", known_from=call.known_from, before=before, after=after)
    if tools is None or lane.tools is None or tools is lane.tools:
        return
    now, then = tools.tools, lane.tools.tools
    added, removed = sorted(now.keys() - then.keys()), sorted(then.keys() - now.keys())
    changed = sorted(name for name in now.keys() & then.keys() if now[name] != then[name])
    if added or removed or changed:
        yield Change(
            kind="tools",
            known_from=call.known_from,
            added=tuple(added),
            removed=tuple(removed),
            changed=tuple(changed),
        )


def parameter_changes(lane: Lane, parameters: Mapping[str, str] | None, call: ModelCall) -> Iterator[Change]:
    """Parameters of the request, or settings, that are not what they were; nothing where those before are unknown."""
    before = lane.parameters
    if before is None or parameters is None:
        return
    names = sorted(before.keys() | parameters.keys())
    changed = tuple(name for name in names if before.get(name) != parameters.get(name))
    if changed:
        yield Change(kind="parameters", known_from=call.known_from, changed=changed)


def message_changes(lane: Lane, request: Request, sent: Sent, *, compacted: bool) -> Iterator[Change]:
    """An earlier message that is not sent any more, or not in its place."""
    if lane.sent is None:
        return
    before, now = lane.sent.messages, sent.messages
    first = min(request.keep, len(before), len(now)) if request.base == lane.request and request.base else 0
    while first < len(before) and first < len(now) and before[first][0] == now[first][0]:
        first += 1
    if first == len(before):
        return
    kept = {name for name, _ in now[first:]}
    gone = [(name, sizes) for name, sizes in before[first:] if name not in kept]
    yield Change(
        kind="compaction" if compacted else "messages",
        known_from="request",
        messages=len(gone),
        characters=by_part(plus(NOTHING, (sizes for _, sizes in gone if sizes is not None))),
        first=first,
    )


def find_cache_breaks(calls: Sequence[ModelCall]) -> None:
    """Mark the calls that read less from the cache than the call before them, with what is known to have changed."""
    latest: dict[tuple[str, str], ModelCall] = {}
    kinds: dict[tuple[str, str], list[ChangeKind]] = {}
    for call in calls:
        lane = (call.stream, call.purpose)
        kinds.setdefault(lane, []).extend(change.kind for change in call.changes)
        if call.usage is None or call.known_from == "usage" or not _prompt(call.usage):
            continue  # errors that the agent writes as answers have no tokens
        before, changed = latest.get(lane), kinds.pop(lane)
        latest[lane] = call
        if before is not None:
            _compare_cache(before, call, changed)


def _compare_cache(before: ModelCall, call: ModelCall, changed: Sequence[ChangeKind]) -> None:
    if before.usage is None or call.usage is None:
        return
    call.cache_lost = lost_tokens(before.usage, call.usage)
    if not call.cache_lost:
        return
    call.causes = list(dict.fromkeys(changed))
    then, now = _prompt(before.usage), _prompt(call.usage)
    if now < then and not {"compaction", "messages"} & set(call.causes):
        sizes = f"{then} tokens", f"{now} tokens"
        call.changes.append(Change(kind="shorter", known_from="usage", before=sizes[0], after=sizes[1]))
        call.causes.append("shorter")
    pause = None if call.at is None or before.at is None else call.at - before.at
    lifetime = LONG_CACHE_LIFETIME if before.usage.cache_write_1h_tokens else CACHE_LIFETIME
    if pause is not None and pause >= lifetime:
        call.changes.append(Change(kind="pause", known_from=call.known_from, pause=pause))
        call.causes.append("pause")


def lost_tokens(before: Usage, now: Usage) -> int:
    """Tokens that were in the cache at the call before and were not read from it now; 0 for a few of them.

    What was read and written before is in the cache; a shorter prompt reads less of it. A call that reads more than
    the one before, and at least half of what is there, is no break: the end of a prompt is often written in vain.
    """
    expected = min(before.cache_read_tokens + before.cache_write_tokens, _prompt(now))
    lost = expected - now.cache_read_tokens
    if now.cache_read_tokens > before.cache_read_tokens and lost <= now.cache_read_tokens:
        return 0
    return lost if lost > expected * TOLERATED else 0


def _prompt(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
