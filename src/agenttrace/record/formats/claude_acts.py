"""What the lines of a Claude Code log mean.

The log does not mark where a turn begins or ends. A prompt begins one; a response that stops for good ends it, on
each of its lines, and the fold takes the repeated end as the same end, later. A stream remembers the turn, whether it
is over, and the latest response.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec

from agenttrace.model import Usage
from agenttrace.record.formats.base import remember
from agenttrace.record.formats.claude_lines import (
    INTERRUPTED,
    NOISE,
    ClaudeBlock,
    ClaudeLine,
    ClaudeMessage,
    ClaudeTokens,
    flat,
    is_result,
    plain,
    prompt_text,
)
from agenttrace.record.formats.contract import Memory
from agenttrace.record.formats.lenient import (
    FieldByField,
    count,
    lookup,
    number,
    text_at,
    time_at,
    time_of,
    token_sum,
    value_of,
)
from agenttrace.record.ingest import acts as a

#: Output that is no more than this, in a response without a stop reason, is the placeholder of its start.
_PLACEHOLDER = 32
#: A fork's first own line is later than the history it goes on with, by more than lines swap places.
_FORK_GAP = 1_000_000
#: Among so many first lines that have a time a fork has some of its original.
_OPENING_LINES = 16
#: How many linked subagents a stream remembers, so that their progress lines do not repeat the link.
_LINKS = 16
#: How many lines of responses without a unique id a stream remembers, for the lines that refer to them.
_CHAIN = 64
#: An id made from a clock alone, as some proxies give: another response may have the same.
_NOT_UNIQUE = re.compile(r"[A-Za-z_.:-]{0,16}[0-9][0-9TZ:._+-]{7,}")
_SYNTHETIC = "<synthetic>"
#: How a response was served, as far as prices depend on it: ``speed`` and ``inference_geo``.
_PRICED_TERMS = frozenset({"fast", "us"})
_SUBAGENT_TOOLS = frozenset({"Agent", "Task", "Workflow"})
#: Tools that ask the user something; everything else that waits for the user is not logged.
_ASKING = frozenset({"AskUserQuestion", "ExitPlanMode"})
_ENDING = frozenset({"end_turn", "stop_sequence", "refusal"})
#: The kinds of titles; a higher one replaces a lower one.
_TITLES = {"summary": 1, "ai-title": 2, "custom-title": 3}
_REFUSED = (INTERRUPTED, "The user doesn't want to ")
_STOP_HOOK = "Stop hook feedback"
_FROM_TASKS = ("<task-notification", "<teammate-message")
_COMMAND = (
    re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL),
    re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL),
)


class _Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The few facts about a tool's outcome beside its result, or in a subagent's progress."""

    type: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    interrupted: bool | None = None


_outcome = FieldByField(_Outcome)
#: What the run of a workflow is called, in its call's outcome and as the directory of its agents.
_RUN = re.compile(r"wf_[0-9a-f-]{4,40}")
#: The counts of ``cost-state`` by the names of our fields.
_COSTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadInputTokens",
    "cache_write_tokens": "cacheCreationInputTokens",
    "cache_write_1h_tokens": "cacheCreationEphemeral1hInputTokens",
    "reasoning_tokens": "thinkingTokens",
    "web_searches": "webSearchRequests",
}


def meaning(line: ClaudeLine, memory: Memory, main: bool) -> list[a.Act]:
    """The acts of a line; ``main``: it belongs to the session's own stream, not to a subagent's."""
    found: list[a.Act] = []
    if main:
        _note_facts(line, memory, found)
    handle = _MEANINGS.get(line.type or "")
    if handle is not None:
        handle(line, memory, found, main)
    return found


def _note_facts(line: ClaudeLine, memory: Memory, found: list[a.Act]) -> None:
    facts = [line.cwd, line.git_branch, line.version]
    if facts != memory.get("facts") and any(facts):
        memory["facts"] = facts
        found.append(a.SessionInfo(cwd=line.cwd, branch=line.git_branch, version=line.version))
    if memory.get("opening") != 0:
        _note_fork(line, memory, found)


def _note_fork(line: ClaudeLine, memory: Memory, found: list[a.Act]) -> None:
    """A fork names its original in the lines it copied, or they are only older than its first own line."""
    origin, at = text_at(value_of(line.forked_from), "sessionId"), time_of(line.timestamp)
    left, began = memory.get("opening") or (_OPENING_LINES, at)
    if origin or (at is not None and began is not None and began - at > _FORK_GAP):
        found.append(a.SessionInfo(parent=origin, copied=True))
        left = 1
    if at is not None:
        memory["opening"] = [left - 1, began or at] if left > 1 else 0


def _user(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    content = None if line.message is None else line.message.content
    if not content:
        return
    if not isinstance(content, str):
        results = [block for block in content if is_result(block)]
        if results:
            _continue_chain(line, memory)
            _tool_results(line, results, found)
            return
    if line.tool_use_result:
        return
    text = prompt_text(content).lstrip()
    if line.is_meta or line.is_compact_summary or text.startswith(NOISE):
        if memory.pop("fired", None) and text:
            # The prompt of a schedule; the turn began when it fired.
            found.append(a.TurnBegin(text, "system", memory.get("turn")))
        else:
            _injected(text, memory, found)
    elif text.startswith(INTERRUPTED):
        _end_turn(memory, found, a.TurnEnd("cancelled"))
    else:
        _begin_turn(line, text, memory, found, main)


def _begin_turn(line: ClaudeLine, text: str, memory: Memory, found: list[a.Act], main: bool) -> None:
    turn = memory["turn"] if memory.pop("fired", None) else _turn_of(line, text, memory)
    memory["turn"] = turn
    memory.pop("over", None)
    if text.startswith("<command-message>"):
        # A command that expands to a prompt, which follows as an injected line.
        text = " ".join(found_part[1] for part in _COMMAND if (found_part := part.search(text)))
    found.append(a.TurnBegin(text or None, _origin(line, text) if main else "subagent", turn))


def _turn_of(line: ClaudeLine, text: str, memory: Memory) -> str | None:
    """The name of a prompt's turn. In a fork all prompts have one prompt id; there they differ by position.

    What tasks report while their turn goes on belongs to that turn.
    """
    place = lookup(value_of(line.turn_position), "turnIndex")
    turn, before = line.prompt_id or line.uuid, memory.get("prompt")
    memory["prompt"] = [turn, place]
    if text.startswith(_FROM_TASKS) or before is None or before[0] != turn:
        return turn
    another = memory.get("over") or (place is not None and place != before[1])
    return line.uuid if another else memory.get("turn")


def _origin(line: ClaudeLine, text: str) -> str:
    if text.startswith(_FROM_TASKS):
        return "task"
    return "user" if lookup(value_of(line.origin), "kind") in (None, "human") else "task"


def _injected(text: str, memory: Memory, found: list[a.Act]) -> None:
    """A text that the user did not type. After the end of a turn it may start work that is not part of that turn."""
    if text.startswith(_STOP_HOOK):
        _reopen_turn(memory, found)
        found.append(a.Note("hook"))
    elif memory.get("over"):
        memory.pop("turn", None)


def _reopen_turn(memory: Memory, found: list[a.Act]) -> None:
    if memory.pop("over", None) and memory.get("turn"):
        found.append(a.TurnBegin(turn=memory["turn"]))


def _end_turn(memory: Memory, found: list[a.Act], end: a.TurnEnd) -> None:
    memory["over"] = True
    found.append(end)


def _tool_results(line: ClaudeLine, results: list[ClaudeBlock], found: list[a.Act]) -> None:
    outcome = _outcome_of(line.tool_use_result)
    for block in results:
        assert block.tool_use_id is not None
        if outcome.agent_id and len(results) == 1:
            found.append(a.Spawned(block.tool_use_id, outcome.agent_id, outcome.agent_type))
        elif (run := _run_of(line.tool_use_result)) and len(results) == 1:
            found.append(a.Spawned(block.tool_use_id, run))
        found.append(_tool_end(block, bool(outcome.interrupted)))


def _outcome_of(raw: msgspec.Raw) -> _Outcome:
    """Tool results are long: they are searched for what matters before they are decoded."""
    if raw:
        text = bytes(raw)
        if b'"agentId"' in text or b'"interrupted":true' in text:
            return _outcome(text) or _Outcome()
    return _Outcome()


def _run_of(raw: msgspec.Raw) -> str | None:
    """The run of a workflow that a call started: a fact of its outcome, not a word in what a tool printed."""
    if not raw or b'"wf_' not in bytes(raw):
        return None
    outcome = value_of(raw)
    facts = outcome.values() if isinstance(outcome, dict) else ()
    return next((fact for fact in facts if isinstance(fact, str) and _RUN.fullmatch(fact)), None)


def _tool_end(block: ClaudeBlock, interrupted: bool) -> a.ToolEnd:
    assert block.tool_use_id is not None
    if not block.is_error and not interrupted:
        return a.ToolEnd(block.tool_use_id)
    text = plain(block.content)
    status = "cancelled" if interrupted or text.startswith(_REFUSED) else "error"
    return a.ToolEnd(block.tool_use_id, status, text or None)


def _assistant(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    message = line.message
    if message is None:
        return
    if line.is_api_error_message:
        text = prompt_text(message.content or "") or "API error"
        found.append(a.Error(text, "turn"))
        _end_turn(memory, found, a.TurnEnd("error", text))
    if line.is_api_error_message or message.model == _SYNTHETIC:
        return
    step = _response_name(line, message, memory)
    if step != memory.get("step"):
        _reopen_turn(memory, found)
        memory["step"] = step
    if main and message.model != memory.get("model"):
        memory["model"] = message.model
        found.append(a.SessionInfo(model=message.model))
    found.append(a.StepBegin(step, None, message.model, implied=True))
    asking = isinstance(message.content, list) and _tool_calls(message.content, step, found)
    _usage(message, step, memory, found)
    if message.stop_reason is not None:
        found.append(a.StepEnd(step, finish_reason=message.stop_reason))
        if message.stop_reason in _ENDING:
            _end_turn(memory, found, a.TurnEnd())
    elif _speaks(message.content):
        found.append(a.FinalAnswer())
    if asking:
        found.append(a.Waiting())


def _response_name(line: ClaudeLine, message: ClaudeMessage, memory: Memory) -> str:
    """A name that the lines of one response and their copies share, and no other response has: usually its message id.

    An id that is not unique counts together with the model, and with the request id or else with the first line of the
    response, which is an ancestor of the others.
    """
    name = message.id or line.request_id or line.uuid or str(line.timestamp)
    if message.id is None or _NOT_UNIQUE.fullmatch(name) is None:
        return name
    name = f"{name}\x1f{message.model}\x1f"
    if line.request_id and _NOT_UNIQUE.fullmatch(line.request_id) is None:
        return name + line.request_id
    above = memory.get("chain", {}).get(line.parent_uuid or "", "")
    name = above if above.startswith(name) else name + (line.uuid or "")
    _remember_chain(memory, line.uuid, name)
    return name


def _remember_chain(memory: Memory, uuid: str | None, response: str) -> None:
    """The latest response is also stored under an empty uuid, for lines without a parent."""
    for key in (uuid or "", ""):
        remember(memory.setdefault("chain", {}), key, response, _CHAIN)


def _continue_chain(line: ClaudeLine, memory: Memory) -> None:
    """A line whose parent is the result of a call may still be part of the response that called."""
    chain: dict[str, str] | None = memory.get("chain")
    if chain and line.uuid and line.parent_uuid in chain:
        _remember_chain(memory, line.uuid, chain[line.parent_uuid])


def repeated_usage(line: ClaudeLine, memory: Memory) -> a.ResponseUsage | None:
    """The usage in a line that was recorded before; the replay made for a compaction may be the first to have it."""
    message = line.message
    if line.type == "user":
        _continue_chain(line, memory)
    if line.type != "assistant" or message is None or line.is_api_error_message or message.model == _SYNTHETIC:
        return None
    step = _response_name(line, message, memory)
    return None if message.usage is None else _told(message, message.usage, step, finished=False)


def _speaks(content: str | list[ClaudeBlock] | None) -> bool:
    """Whether there is text and no tool call."""
    if not isinstance(content, list):
        return bool(content)
    asks = any(block.type is not None and block.type.endswith("tool_use") for block in content)
    return not asks and any(block.text for block in content)


def _tool_calls(blocks: list[ClaudeBlock], step: str, found: list[a.Act]) -> bool:
    """Begin the tools of an answer, and end those that the provider ran itself; true if one asks the user."""
    asking = False
    for block in blocks:
        if block.id and block.type is not None and block.type.endswith("tool_use"):
            name = block.name or "unknown"
            asking = asking or name in _ASKING
            found.append(a.ToolBegin(block.id, name, step, name in _SUBAGENT_TOOLS))
        elif is_result(block):
            found.append(_tool_end(block, interrupted=False))
    return asking


def _usage(message: ClaudeMessage, step: str, memory: Memory, found: list[a.Act]) -> None:
    tokens = message.usage
    if tokens is None:
        return
    if message.stop_reason is not None:
        memory["done"] = step
    found.append(_told(message, tokens, step, finished=memory.get("done") == step))


def _told(message: ClaudeMessage, tokens: ClaudeTokens, step: str, *, finished: bool) -> a.ResponseUsage:
    output = count(tokens.output_tokens)
    estimated = message.stop_reason is None and output <= _PLACEHOLDER and not finished
    terms = " ".join(term for term in (tokens.speed, tokens.inference_geo) if term in _PRICED_TERMS)
    return a.ResponseUsage(f"claude:{step}", _counted(tokens, output), message.model, step, estimated, terms=terms)


@lru_cache(maxsize=256)
def _counted(tokens: ClaudeTokens, output: int) -> Usage:
    """Every line of a response repeats its usage, so most of them come from the cache."""
    written, one_hour = count(tokens.cache_creation_input_tokens), 0
    if tokens.cache_creation is not None:
        one_hour = count(tokens.cache_creation.ephemeral_1h_input_tokens)
        written = written or one_hour + count(tokens.cache_creation.ephemeral_5m_input_tokens)
    details, tools = tokens.output_tokens_details, tokens.server_tool_use
    return Usage(
        input_tokens=count(tokens.input_tokens),
        output_tokens=output,
        cache_read_tokens=count(tokens.cache_read_input_tokens),
        cache_write_tokens=written,
        cache_write_1h_tokens=min(one_hour, written),
        reasoning_tokens=min(count(details.thinking_tokens), output) if details is not None else 0,
        web_searches=count(tools.web_search_requests) if tools is not None else 0,
    )


def _system(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    if line.subtype == "turn_duration":
        if not memory.get("over"):
            _end_turn(memory, found, a.TurnEnd())
    elif line.subtype == "compact_boundary":
        found.append(a.Note("compaction"))
    elif line.subtype == "api_error":
        found.append(a.Note("retry"))
    elif line.subtype == "scheduled_task_fire":
        # Its prompt is in the next line.
        memory.update(turn=line.uuid, fired=True)
        memory.pop("over", None)
        found.append(a.TurnBegin(None, "system", line.uuid))


def _cost_state(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    """What the process counted, and those before it that ended by themselves: since ``startTime``."""
    told, started = value_of(line.model_usage), number(line.start_time)
    since = time_at(started * 1000) if started else None
    if not main or not isinstance(told, dict) or since is None:
        return
    usage = {
        model: Usage(**{ours: token_sum(counts.get(theirs)) for ours, theirs in _COSTS.items()})
        for model, counts in told.items()
        if isinstance(counts, dict)
    }
    found.append(a.ReportedTotals(segment=f"claude:{started}", usage=usage, since=since))


def _progress(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    """A subagent's message is embedded here, usage and all: it links, it does not count."""
    call = line.parent_tool_use_id
    linked: list[str] = memory.get("linked", [])
    if call is None or call in linked or b'"agent_progress"' not in bytes(line.data)[:4096]:
        return
    data = _outcome(line.data)
    if data is not None and data.type == "agent_progress" and data.agent_id:
        memory["linked"] = [*linked[1 - _LINKS :], call]
        found.append(a.Spawned(call, data.agent_id, data.agent_type))


def _attachment(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    """What was typed, or reported by a task, while the agent was at work."""
    if b'"queued_command"' not in bytes(line.attachment):
        return
    value = value_of(line.attachment)
    if lookup(value, "type") == "queued_command":
        from_task = flat(lookup(value, "prompt")).startswith(_FROM_TASKS)
        found.append(a.Note("notification" if from_task else "steer"))


def _titled(line: ClaudeLine, memory: Memory, found: list[a.Act], main: bool) -> None:
    title = line.custom_title or line.ai_title or line.summary
    rank = _TITLES[line.type or ""]
    if main and title and rank >= memory.get("title", 0):
        memory["title"] = rank
        found.append(a.SessionInfo(title=title))


_MEANINGS: dict[str, Callable[[ClaudeLine, Memory, list[a.Act], bool], None]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "progress": _progress,
    "attachment": _attachment,
    "summary": _titled,
    "ai-title": _titled,
    "custom-title": _titled,
    "cost-state": _cost_state,
}
