"""The lines of one Claude Code session, in the formats of versions 2.1.92 and 2.1.197.

One content block per line, the usage of a response on all of its lines (final only on the last one in the older
version), tool output twice in a line, subagents in separate files.
"""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from benchmarks.text import Text, numbered
from benchmarks.truth import Truth

Json = dict[str, Any]

encode = msgspec.json.Encoder().encode
FINAL_ON_ALL, FINAL_ON_LAST = "2.1.197", "2.1.92"
_MODELS = ("claude-sonnet-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
_TOOLS, _TOOL_SHARES = ("Bash", "Read", "Edit", "Grep", "Agent"), (50, 20, 18, 12, 0.5)


class Source:
    """The random values, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.text = Text(self.rng)

    def uuid(self) -> str:
        """A version 4 uuid."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def token(self, prefix: str) -> str:
        """An id as the API makes them: ``msg_01…``, ``toolu_01…``, ``req_011…``."""
        raw = base64.b64encode(self.rng.randbytes(18)).decode()
        return prefix + raw.replace("+", "A").replace("/", "B")[:22]

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` up to ``high``, exclusive."""
        return low + int(self.rng.random() * (high - low))

    def chance(self, share: float) -> bool:
        """True in this share of calls."""
        return self.rng.random() < share


class Project:
    """A working directory with files that agents read repeatedly."""

    def __init__(self, source: Source, number: int) -> None:
        name = "-".join(source.text.names(2))
        self.cwd = f"/home/dev/{name}{number}"
        self.slug = self.cwd.replace("/", "-")
        self.branch = source.rng.choice(("main", "develop", f"feature/{name}"))
        sizes = [source.between(2_000, 40_000) for _ in range(60)]
        self.files = {source.text.path(): source.text.code(size).split("\n") for size in sizes}
        self.listing = source.text.prose(3_000)


class Log:
    """Builds one session file, or the file of one subagent."""

    def __init__(self, source: Source, project: Project, truth: Truth, *, session: str, at: int) -> None:
        self.source, self.project, self.truth = source, project, truth
        self.session, self.at = session, at
        self.agent: str | None = None
        self.parent: str | None = None
        self.prompt_id = source.uuid()
        self.version = FINAL_ON_ALL if source.chance(0.7) else FINAL_ON_LAST
        self.model = source.rng.choice(_MODELS)
        self.context = source.between(14_000, 22_000)
        self.lines: list[bytes] = []
        self.size = 0
        #: Agent id, companion file and log of every subagent.
        self.children: list[tuple[str, Json, Log]] = []

    def append(self, line: Json) -> None:
        """Append a line unchanged."""
        raw = encode(line) + b"\n"
        self.lines.append(raw)
        self.size += len(raw)

    def later(self, milliseconds: int) -> str:
        """Advance the clock; returns the time in Claude Code's format."""
        self.at += milliseconds
        moment = datetime.fromtimestamp(self.at / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def entry(self, body: Json, milliseconds: int, parent: str | None = None) -> str:
        """Append a line with the common envelope; returns its uuid."""
        own = self.source.uuid()
        line: Json = {"parentUuid": parent or self.parent, "isSidechain": self.agent is not None}
        if self.agent:
            line["agentId"] = self.agent
        line |= body
        line |= {
            "uuid": own,
            "timestamp": self.later(milliseconds),
            "userType": "external",
            "entrypoint": "cli",
        }
        line |= {"cwd": self.project.cwd, "sessionId": self.session, "version": self.version}
        line["gitBranch"] = self.project.branch
        self.append(line)
        self.parent = own
        return own


def prompt(log: Log, *, first: bool = False) -> None:
    """Append a prompt of the user."""
    source = log.source
    text = source.text.chinese(60) if source.chance(0.2) else source.text.prose(source.between(30, 600))
    log.prompt_id = source.uuid()
    snapshot = {"messageId": log.prompt_id, "trackedFileBackups": {}}
    snapshot["timestamp"] = log.later(source.between(5_000, 900_000))
    kind = {"type": "file-history-snapshot", "messageId": log.prompt_id}
    log.append(kind | {"snapshot": snapshot, "isSnapshotUpdate": False})
    log.entry(user(log, text) | {"permissionMode": "default"}, 5)
    log.truth.prompts += 1
    if first:
        listing = {
            "type": "skill_listing",
            "content": log.project.listing,
            "skillCount": 12,
            "isInitial": True,
        }
        log.entry({"attachment": listing, "type": "attachment"}, 1)
    elif source.chance(0.2):
        log.entry({"attachment": {"type": "task_reminder", "content": [], "itemCount": 0}, "type": "attachment"}, 1)


def turn(log: Log) -> None:
    """Append a turn, up to the final answer."""
    began, before = log.at, len(log.lines)
    for _ in range(log.source.between(1, 16)):
        step(log, tools=1 if log.source.chance(0.7) else log.source.between(2, 5))
        if log.source.chance(0.01):
            _api_error(log)
    step(log, tools=0)
    figures = {"durationMs": log.at - began, "messageCount": len(log.lines) - before, "isMeta": False}
    log.entry({"type": "system", "subtype": "turn_duration"} | figures, 20)


def step(log: Log, *, tools: int) -> None:
    """Append one model response and the results of its tool calls."""
    source = log.source
    words = list(_words(log, closing=tools == 0))
    calls = [_tool_use(log) for _ in range(tools)]
    blocks = words + calls
    final = usage(log, output=20 + sum(len(str(block)) for block in blocks) // 4)
    log.truth.count_response(final)
    log.truth.tool_calls += tools
    identity = response_identity(log, "tool_use" if tools else "end_turn")
    # Sometimes the first result arrives before the end of the response, so its lines are not contiguous.
    early = tools > 1 and source.chance(0.02)
    owners: list[str] = []
    for number, block in enumerate(blocks, 1):
        whole = log.version == FINAL_ON_ALL or number == len(blocks)
        figures = final if whole else final | {"output_tokens": min(final["output_tokens"] - 1, number)}
        line = assistant(log, identity, block, figures, finished=whole)
        owners.append(log.entry(line, source.between(40, 4_000)))
        if early and number == len(blocks) - 1:
            _result(log, calls[0], owners[len(words)])
    for call, owner in list(zip(calls, owners[len(words) :], strict=True))[int(early) :]:
        _result(log, call, owner)


def response_identity(log: Log, stop_reason: str) -> tuple[str, str, str]:
    """Message id, request id and stop reason of a new response."""
    return log.source.token("msg_01"), log.source.token("req_011"), stop_reason


def usage(log: Log, *, output: int) -> Json:
    """The usage of a response; the context grows with every response."""
    source = log.source
    read, wrote = log.context, source.between(150, 6_000)
    log.context = 20_000 if read > 170_000 else read + wrote
    hour = wrote if source.chance(0.3) else 0
    return {
        "input_tokens": source.between(2, 60),
        "cache_creation_input_tokens": wrote,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": wrote - hour},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
    }


def assistant(log: Log, identity: tuple[str, str, str], block: Json, figures: Json, *, finished: bool) -> Json:
    """One block of a response."""
    message_id, request_id, stop_reason = identity
    message: Json = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": log.model,
        "content": [block],
    }
    message |= {"stop_reason": stop_reason if finished else None, "stop_sequence": None}
    message |= {"usage": figures, "stop_details": None}
    return {"message": message, "requestId": request_id, "type": "assistant"}


def user(log: Log, content: str | list[Json]) -> Json:
    """A prompt, or the result of a tool."""
    return {"promptId": log.prompt_id, "type": "user", "message": {"role": "user", "content": content}}


def _words(log: Log, *, closing: bool) -> Iterator[Json]:
    source = log.source
    if source.chance(0.35):
        signature = base64.b64encode(source.rng.randbytes(source.between(120, 700))).decode()
        thought = source.text.prose(source.between(80, 1_600))
        yield {"type": "thinking", "thinking": thought, "signature": signature}
    if closing or source.chance(0.4):
        length = source.between(60, 2_400) if closing else source.between(30, 300)
        chinese = source.chance(0.15)
        yield {
            "type": "text",
            "text": source.text.chinese(length // 3) if chinese else source.text.prose(length),
        }


def _tool_use(log: Log) -> Json:
    source, cwd = log.source, log.project.cwd
    path = source.rng.choice(list(log.project.files))
    name = source.rng.choices(_TOOLS, _TOOL_SHARES)[0]
    given: Json
    if name == "Agent" and log.agent:
        name = "Grep"
    match name:
        case "Bash":
            command = f"cd {cwd} && pytest -q {path} -k {source.text.names(1)[0]}"
            given = {"command": command, "description": " ".join(source.text.names(4))}
        case "Read":
            given = {"file_path": f"{cwd}/{path}", "offset": source.between(1, 120), "limit": 50}
        case "Edit":
            lines = log.project.files[path]
            first = source.between(0, len(lines))
            old = "\n".join(lines[first : first + source.between(2, 16)])
            given = {
                "file_path": f"{cwd}/{path}",
                "old_string": old,
                "new_string": source.text.code(len(old)),
            }
        case "Grep":
            given = {"pattern": source.text.names(1)[0], "path": cwd, "output_mode": "content"}
        case _:
            wanted = {"description": " ".join(source.text.names(3)), "prompt": source.text.prose(500)}
            given = wanted | {"subagent_type": "Explore"}
    return {"type": "tool_use", "id": source.token("toolu_01"), "name": name, "input": given}


def _result(log: Log, call: Json, owner: str) -> None:
    content, detail = _answer(log, call)
    block = {"tool_use_id": call["id"], "type": "tool_result", "content": content}
    block["is_error"] = isinstance(detail, str)
    body = user(log, [block])
    if not log.agent:
        body["toolUseResult"] = detail
    body["sourceToolAssistantUUID"] = owner
    log.entry(body, log.source.between(20, 9_000), parent=owner)


def _answer(log: Log, call: Json) -> tuple[Any, Any]:
    """The result as the model sees it, and as the log stores it beside that."""
    source, name, given = log.source, call["name"], call["input"]
    if name == "Agent":
        return _spawn(log, call)
    if name == "Read":
        return _read(log, given)
    if name == "Edit":
        hunk: Json = {"oldStart": 10, "oldLines": 4, "newStart": 10, "newLines": 4}
        hunk["lines"] = ["-" + given["old_string"], "+" + given["new_string"]]
        detail = {"filePath": given["file_path"], "oldString": given["old_string"]}
        detail |= {"newString": given["new_string"], "structuredPatch": [hunk], "userModified": False}
        return f"The file {given['file_path']} has been updated.", detail
    if name == "Bash" and source.chance(0.08):
        text = "Exit code 1\n" + source.text.terminal(source.between(40, 1_500))
        return text, "Error: " + text
    text = source.text.terminal(int(min(60_000, source.rng.lognormvariate(5.4, 1.6))))
    return text, {
        "stdout": text,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }


def _read(log: Log, given: Json) -> tuple[str, Json]:
    path = given["file_path"].removeprefix(log.project.cwd + "/")
    first = given["offset"]
    lines = log.project.files[path][first : first + given["limit"]]
    file = {
        "filePath": given["file_path"],
        "content": "\n".join(lines),
        "numLines": len(lines),
        "startLine": first,
    }
    return numbered(lines, first), {"type": "text", "file": file}


def _spawn(log: Log, call: Json) -> tuple[Any, Any]:
    """Run a subagent in a separate file; returns its entry in the parent's log."""
    source, given = log.source, call["input"]
    child = Log(source, log.project, log.truth, session=log.session, at=log.at)
    child.agent, child.prompt_id = f"a{source.rng.getrandbits(64):016x}", log.prompt_id
    child.entry(user(child, given["prompt"]), 60)
    for _ in range(source.between(2, 9)):
        step(child, tools=1)
    answer = {"type": "text", "text": source.text.prose(700)}
    # The last line of a subagent's file has only the placeholder; the final usage is never written.
    placeholder = usage(child, output=2)
    log.truth.count_response(placeholder)
    line = assistant(child, response_identity(child, "end_turn"), answer, placeholder, finished=False)
    child.entry(line, 900)
    meta = {
        "agentType": "Explore",
        "description": given["description"],
        "toolUseId": call["id"],
        "spawnDepth": 1,
    }
    log.children.append((child.agent, meta, child))
    detail = {
        "status": "completed",
        "prompt": given["prompt"],
        "agentId": child.agent,
        "agentType": "Explore",
    }
    detail |= {"content": [answer], "totalDurationMs": child.at - log.at, "totalTokens": 4_321}
    detail |= {"totalToolUseCount": 5, "usage": placeholder | {"output_tokens": 175}}
    log.at = child.at
    return [answer, {"type": "text", "text": f"agentId: {child.agent}"}], detail


def _api_error(log: Log) -> None:
    cause = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    line = {
        "type": "system",
        "subtype": "api_error",
        "level": "error",
        "error": {"status": 529, "error": cause},
    }
    log.entry(line | {"retryInMs": 612.4, "retryAttempt": 1, "maxRetries": 10}, 700)
