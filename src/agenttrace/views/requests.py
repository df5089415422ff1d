"""The requests of a session: what each model call was sent, by part, and where the prompt cache broke.

Shared by CLI, API and MCP; ``record/texts/model_calls.py`` computes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.record.formats.context import PARTS
from agenttrace.record.texts.call_changes import ChangeKind, KnownFrom
from agenttrace.record.texts.model_calls import model_calls
from agenttrace.views import figures
from agenttrace.views.times import MICROS, iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agenttrace.model import Session
    from agenttrace.record.texts.call_changes import Change, ModelCall, ModelCalls, ToolPresence
    from agenttrace.store.store import Store

#: Names of tools and parameters in one text.
_MOST_NAMES = 8
_TITLES = {
    "system": "system prompt",
    "tools": "tools",
    "messages": "an earlier message",
    "parameters": "parameters",
    "model": "model",
    "compaction": "compaction",
    "shorter": "a shorter prompt",
    "pause": "pause",
}
UNEXPLAINED = "nothing in the log explains it"


class RequestChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is not as it was in the model call before."""

    kind: ChangeKind
    known_from: KnownFrom
    #: Of a model its name, of a system prompt and of a shorter prompt the size.
    before: str | None
    after: str | None
    #: Names of tools; of parameters only ``changed``.
    added: list[str]
    removed: list[str]
    changed: list[str]
    #: Messages that are no longer sent; null where they are not known one by one.
    dropped_messages: int | None
    #: What is no longer sent, in characters by part.
    dropped_characters: dict[str, int]
    #: The first message that differs, counted from 0.
    first_message: int | None
    pause_seconds: float | None


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model call and the context that it was sent."""

    #: Its number in the session, from 1 on.
    call: int
    at: str | None
    #: ``main``, or the subagent.
    stream: str
    #: Null for a request that was not answered.
    span_id: str | None
    model: str | None
    #: What the agent says that it is for.
    purpose: str | None
    #: ``request``: the log has the request itself. ``conversation``: computed. ``usage``: only tokens are known.
    known_from: KnownFrom
    #: Characters by part; parts that the log does not have are in ``unknown_parts``.
    parts: dict[str, int]
    unknown_parts: list[str]
    #: The sum of ``parts``.
    characters: int
    messages: int | None
    messages_not_in_log: int
    #: Null where the log has no usage of it.
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    #: More than 0: the prompt cache broke here.
    cache_lost_tokens: int
    #: What changed since the call before that has tokens, where the cache broke; empty: the log does not say why.
    causes: list[ChangeKind]
    changes: list[RequestChange]


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """From which model call on a tool was offered, and from which on it was not any more."""

    name: str
    stream: str
    characters: int
    #: From the first call on.
    initial: bool
    came: int
    went: int | None


class SessionRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of a session, with figures and tools of all of them."""

    calls: int
    cache_breaks: int
    cache_lost_tokens: int
    compactions: int
    items: list[RequestRow]
    tools: list[OfferedTool]


class Requests:
    """The model calls of a session, with numbers that begin with 1."""

    def __init__(self, found: ModelCalls) -> None:
        self.calls, self._tools = found.calls, found.tools
        self.cache_breaks = sum(call.cache_lost > 0 for call in found.calls)
        self.cache_lost = sum(call.cache_lost for call in found.calls)
        self.compactions = sum(change.kind == "compaction" for call in found.calls for change in call.changes)

    @classmethod
    def of(cls, store: Store, session: Session) -> Requests:
        """The requests of a session, read from its lines."""
        return cls(model_calls(store, session))

    def page(self, start: int = 0, limit: int | None = None) -> SessionRequests:
        """The calls from the ``start``-th on, and what is known of all of them."""
        end = len(self.calls) if limit is None else min(start + limit, len(self.calls))
        return SessionRequests(
            calls=len(self.calls),
            cache_breaks=self.cache_breaks,
            cache_lost_tokens=self.cache_lost,
            compactions=self.compactions,
            items=[request_row(number + 1, self.calls[number]) for number in range(start, end)],
            tools=[_offered(tool) for tool in self._tools],
        )

    def fields(self) -> dict[str, Any]:
        """All of it for JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self.page())
        return found

    def moved_tools(self) -> list[str]:
        """The tools that were not offered all the time, each with its calls."""
        moved = [tool for tool in self._tools if tool.went is not None or not tool.initial]
        return _few([_presence_text(tool) for tool in moved])


def request_row(number: int, call: ModelCall) -> RequestRow:
    """A model call for JSON; a part that the log does not have is in ``unknown_parts``."""
    usage = call.usage
    return RequestRow(
        call=number,
        at=iso(call.at),
        stream=call.stream,
        span_id=None if call.span_id is None else call.span_id.hex(),
        model=call.model,
        purpose=call.purpose or None,
        known_from=call.known_from,
        parts={part: call.parts[part] for part in PARTS if part in call.parts},
        unknown_parts=[part for part in PARTS if part not in call.parts],
        characters=sum(call.parts.values()),
        messages=call.messages,
        messages_not_in_log=call.unread,
        input_tokens=None if usage is None else usage.input_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read_tokens,
        cache_write_tokens=None if usage is None else usage.cache_write_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        cache_lost_tokens=call.cache_lost,
        causes=list(call.causes),
        changes=[_change(change) for change in call.changes],
    )


def _change(change: Change) -> RequestChange:
    return RequestChange(
        kind=change.kind,
        known_from=change.known_from,
        before=change.before,
        after=change.after,
        added=list(change.added),
        removed=list(change.removed),
        changed=list(change.changed),
        dropped_messages=change.messages,
        dropped_characters=dict(change.characters.items()),
        first_message=change.first,
        pause_seconds=None if change.pause is None else change.pause / MICROS,
    )


def _offered(tool: ToolPresence) -> OfferedTool:
    """From which call on a tool was offered, and from which on it was not any more."""
    return OfferedTool(
        name=tool.name,
        stream=tool.stream,
        characters=tool.size,
        initial=tool.initial,
        came=tool.came + 1,
        went=None if tool.went is None else tool.went + 1,
    )


# -- as text -----------------------------------------------------------------------------------------------------


def change_text(change: Change) -> str:
    """What changed, in a few words."""
    match change.kind:
        case "tools":
            return "tools " + " ".join(
                [*_signed("+", change.added), *_signed("−", change.removed), *_signed("~", change.changed)]
            )
        case "parameters":
            return "parameters " + ", ".join(_few(change.changed))
        case "model":
            return f"model {change.before} → {change.after}"
        case "system":
            sizes = change.before if change.before == change.after else f"{change.before} → {change.after}"
            return f"system prompt changed, {sizes}"
        case "shorter":
            return f"prompt {change.before} → {change.after}"
        case "pause":
            return f"pause of {figures.duration(change.pause or 0)}"
        case "messages":
            return f"message {(change.first or 0) + 1} changed, {_dropped(change)}"
        case _:
            return f"compaction, {_dropped(change)}"


def break_text(call: ModelCall) -> str:
    """Where the cache broke: how much was lost, and what is known to have changed."""
    causes = ", ".join(_TITLES[cause] for cause in call.causes) or UNEXPLAINED
    return f"cache lost {figures.tokens(call.cache_lost)} tokens: {causes}"


def reason_text(call: ModelCall) -> str:
    """Why the cache broke: everything that changed, also at a call before that was not answered."""
    told = {change.kind for change in call.changes}
    before = [_TITLES[cause] for cause in call.causes if cause not in told]
    return "; ".join([*before, *map(change_text, call.changes)]) or UNEXPLAINED


def _presence_text(tool: ToolPresence) -> str:
    if tool.went is None:
        return f"{tool.name} from call {tool.came + 1}"
    return f"{tool.name} until call {tool.went}" if tool.initial else f"{tool.name} calls {tool.came + 1}–{tool.went}"


def changes_text(call: ModelCall) -> str:
    """Everything that changed at a call, the cache first."""
    lost = [break_text(call)] if call.cache_lost else []
    return "; ".join([*lost, *map(change_text, call.changes)])


def _dropped(change: Change) -> str:
    messages = "" if change.messages is None else f"{figures.counted(change.messages, 'message')}, "
    return f"{messages}{figures.tokens(sum(change.characters.values()))} characters dropped"


def _signed(sign: str, names: Sequence[str]) -> Iterable[str]:
    return (name if name.startswith("… ") else sign + name for name in _few(names))


def _few(names: Sequence[str]) -> list[str]:
    more = len(names) - _MOST_NAMES
    return [*names[:_MOST_NAMES], f"… {more} more"] if more > 0 else list(names)
