"""What Codex says of its settings: of a turn, of a thread, and of the world that it tells the model about.

Only whether they changed is of interest here. The instructions that are named among them, and what the model is told of
the world, are sent as messages, which the log has as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agenttrace.record.formats.context import Parameters, digest
from agenttrace.record.formats.contract import Memory
from agenttrace.record.formats.lenient import json_object, lookup

#: Fields of ``turn_context``. Its model is known of each call; ids and the directory are no settings.
_OF_TURN = (
    *("effort", "summary", "personality", "service_tier", "collaboration_mode", "final_output_json_schema"),
    *("approval_policy", "approvals_reviewer", "sandbox_policy", "permission_profile"),
    *("user_instructions", "developer_instructions", "disabled_plugin_ids", "multi_agent_version", "realtime_active"),
)
#: So deep are settings looked into.
_LEVELS = 8
_KINDS = frozenset({"turn_context", "event_msg/thread_settings_applied", "world_state"})


def settings(kind: str, raw: bytes, memory: Memory) -> Iterator[Parameters]:
    """The settings of a line; ``memory`` holds ``settings`` and ``world``, as they are so far."""
    if kind not in _KINDS:
        return
    payload = json_object(raw).get("payload")
    match kind:
        case "turn_context":
            yield from _told(memory, "settings", {name: lookup(payload, name) for name in _OF_TURN})
        case "event_msg/thread_settings_applied":
            changed = lookup(payload, "thread_settings")
            if isinstance(changed, dict):
                named = {name: changed[name] for name in _OF_TURN if name in changed}
                yield from _told(memory, "settings", _merged(memory.get("settings"), named))
        case "world_state":
            state = lookup(payload, "state")
            if isinstance(state, dict):
                whole = lookup(payload, "full") is not False
                yield from _told(memory, "world", state if whole else _merged(memory.get("world"), state))


def _told(memory: Memory, kind: str, values: dict[str, object]) -> Iterator[Parameters]:
    memory[kind] = values
    world = memory.get("world") or {}
    found = {name: _without_model(value) for name, value in (memory.get("settings") or {}).items()}
    found |= {f"world_state.{name}": _without_model(value) for name, value in world.items() if name != "model"}
    yield Parameters({name: digest(value) for name, value in found.items() if value is not None})


def _merged(before: object, patch: Mapping[str, object], levels: int = _LEVELS) -> dict[str, object]:
    """An object with some fields changed; a field without a value is taken out."""
    found = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict) and levels > 1:
            found[name] = _merged(found.get(name), value, levels - 1)
        else:
            found[name] = value
    return found


def _without_model(value: object, levels: int = _LEVELS) -> object:
    """A mode names the model too, which is a change of its own; what has no value is left out."""
    if not isinstance(value, dict) or not levels:
        return value
    named = {name: each for name, each in value.items() if name != "model" and each is not None}
    return {name: _without_model(each, levels - 1) for name, each in named.items()}
