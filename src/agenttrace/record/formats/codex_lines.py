"""The lines of a Codex log: their fields as far as recording needs them, long ones left undecoded."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from agenttrace.model import Usage
from agenttrace.record.formats.base import LineDecoder, usage_of_prompt
from agenttrace.record.formats.lenient import (
    DECODING_ERRORS,
    LARGEST_NUMBER,
    FieldByField,
    as_text,
    count,
    lookup,
    moment,
    raw_text,
    text_at,
    time_of,
    value_of,
)

#: A thread counts all its responses together.
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_NUMBER)]

_T = TypeVar("_T", bound=Struct)

#: How text begins that Codex says in the user's name.
_NOT_SAID_BY_THE_USER = (
    "<environment_context",
    "<user_instructions",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS",
    "<permissions",
    "<turn_aborted",
    "<skill",
    "<user_action",
    "<user_shell_command",
    "<subagent_notification",
)

_VERSION = re.compile(r"0\.(\d{1,4})\.")
_DIRECTORY = re.compile(r"<cwd>([^<\n]+)</cwd>|^Current working directory: (.+)$", re.MULTILINE)
#: 0.115 to 0.119: the command comes first, and may be long.
_COMMAND = b'"Command: '
_COMMAND_BYTES = 1 << 16
_AFTER_COMMAND = b"\\nChunk ID: "
_OUTPUT_HEADERS = (b'"Exit code: ', b'"Chunk ID: ', b'"Wall time: ')
_EXIT = re.compile(rb"(?:Exit code: |Process exited with code )(-?\d{1,18})\b")
_WALL = re.compile(rb"Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds")
_OLD_OUTPUT = b'"{\\"output\\":'
_OLD_END = re.compile(rb'exit_code\\": ?(-?\d{1,18})(?:, ?\\"duration_seconds\\": ?(\d{1,9}(?:\.\d{1,9})?))?')
_FAILURES = (
    b'"apply_patch verification failed',
    b'"execution error',
    b'"failed to parse',
    b'"unsupported call',
)


class PayloadKind(Struct, gc=False):
    """A payload, for its type alone."""

    type: str | None = None


class CodexHead(Struct, gc=False):
    """What identifies a line."""

    timestamp: datetime | None = None
    type: str | None = None
    ordinal: int | None = None
    payload: PayloadKind | None = None


class Git(Struct):
    """The state of the working directory's repository."""

    branch: str | None = None


class SessionMeta(Struct):
    """A ``session_meta``."""

    id: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    git: Git | None = None
    source: Any = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None

    @property
    def counts_first(self) -> bool:
        """Whether tokens are logged before the items of their response, as in versions 0.36 to 0.65."""
        found = _VERSION.match(self.cli_version or "")
        return found is not None and 36 <= int(found[1]) <= 65

    @property
    def subagent(self) -> object:
        """``review`` and the like, an object for a spawned thread, ``None`` when a user began it."""
        return lookup(self.source, "subagent")

    def lineage(self) -> tuple[str | None, str | None]:
        """The parent thread, and what began this one if it was no user: ``review``, a subagent's role."""
        subagent = self.subagent
        parent = self.forked_from_id or self.parent_thread_id
        if isinstance(subagent, str):
            return parent, subagent
        spawn = lookup(subagent, "thread_spawn")
        role = text_at(spawn, "agent_role") or text_at(spawn, "agent_nickname")
        return parent or text_at(spawn, "parent_thread_id"), role or ("subagent" if subagent else None)


class ResponseItem(Struct):
    """A ``response_item``."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    namespace: str | None = None
    name: str | None = None
    role: str | None = None
    status: str | None = None
    content: Raw = Raw()
    summary: Raw = Raw()
    encrypted_content: Raw = Raw()
    arguments: Raw = Raw()
    input: Raw = Raw()
    action: Raw = Raw()
    output: Raw = Raw()


class CodexTokens(Struct):
    """Codex's five counts; their sum is not a total, see ``usage``."""

    input_tokens: Count | None = 0
    cached_input_tokens: Count | None = 0
    cache_write_input_tokens: Count | None = 0
    output_tokens: Count | None = 0
    reasoning_output_tokens: Count | None = 0

    def vector(self) -> list[int]:
        """All counts in order, for comparing and naming."""
        return [
            self.input_tokens or 0,
            self.cached_input_tokens or 0,
            self.cache_write_input_tokens or 0,
            self.output_tokens or 0,
            self.reasoning_output_tokens or 0,
        ]

    def usage(self) -> Usage:
        """Cached tokens, read or written, are inside the input; reasoning is inside the output."""
        prompt, cached, written, output, reasoning = map(count, self.vector())
        return usage_of_prompt(prompt, output, cached, written, reasoning)


class TokenInfo(Struct):
    """The thread's tokens so far, and those of its latest response."""

    total_token_usage: CodexTokens | None = None
    last_token_usage: CodexTokens | None = None


class TokenCount(Struct):
    """An ``event_msg/token_count``; without ``info`` it has only rate limits."""

    info: TokenInfo | None = None
    rate_limits: Any = None


class UsageRecord(Struct):
    """A ``token_usage_record``."""

    response_id: str | None = None
    usage: CodexTokens | None = None
    turn_id: str | None = None
    turn_token_usage: CodexTokens | None = None


class TurnMark(Struct):
    """The beginning or the end of a turn."""

    turn_id: str | None = None
    reason: str | None = None
    #: 0.166: why the turn failed, as an object with a message.
    error: Any = None

    def failure(self) -> str | None:
        """What made the turn fail; ``None`` where nothing did."""
        if not self.error:
            return None
        return as_text(self.error) or text_at(self.error, "message") or "failed"


class EventMessage(Struct):
    """An ``event_msg`` with a message."""

    message: str | None = None
    #: 2025: ``plain``, or what Codex says in the user's name.
    kind: str | None = None
    user_facing_hint: str | None = None
    thread_name: str | None = None


class ThreadSettings(Struct):
    """The settings of a thread."""

    model: str | None = None


class TurnContext(Struct):
    """A ``turn_context`` or an ``event_msg/thread_settings_applied``."""

    model: str | None = None
    turn_id: str | None = None
    thread_settings: ThreadSettings | None = None


class ItemEnd(Struct):
    """How something ended: the item of an ``item_completed``, or one of the older ``*_end`` events."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    status: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    duration: Any = None
    result: Raw = Raw()
    content: Raw = Raw()
    text: str | None = None
    user_facing_hint: str | None = None

    def verdict(self) -> list[Any]:
        """Status, error and duration in microseconds."""
        exited = f"exit code {self.exit_code}" if self.exit_code else None
        failed = exited or self.success is False or self.status == "failed"
        if failed or bytes(self.result).startswith(b'{"Err"'):
            status = "error"
        else:
            status = "cancelled" if self.status == "declined" else "ok"
        return [status, exited, _span_micros(self.duration)]


class CompletedItem(Struct):
    """An ``event_msg/item_completed``; of a review also those of the reviewer's thread."""

    thread_id: str | None = None
    turn_id: str | None = None
    item: ItemEnd | None = None


def _reader(kind: type[_T]) -> Callable[[bytes], _T | None]:
    """Read a line's payload as ``kind``, skipping all that it does not name; ``None`` if it is no object."""
    line = msgspec.defstruct("Line", [("payload", kind | None, None)])
    decoder: Any = LineDecoder(line, {"payload": FieldByField(kind)})

    def read(raw: bytes) -> _T | None:
        try:
            found = decoder.strict(raw)
        except DECODING_ERRORS:
            found = decoder.lenient(raw)
        return None if found is None else found.payload

    return read


read_meta = _reader(SessionMeta)
read_item = _reader(ResponseItem)
read_token_count = _reader(TokenCount)
read_record = _reader(UsageRecord)
read_turn = _reader(TurnMark)
read_said = _reader(EventMessage)
read_context = _reader(TurnContext)
read_done = _reader(ItemEnd)
read_completed = _reader(CompletedItem)


def micros(moment: datetime | None) -> int | None:
    """Microseconds since the epoch; a time without a zone is UTC."""
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return time_of(moment)


HEADS = LineDecoder(
    CodexHead,
    {"timestamp": moment, "payload": FieldByField(PayloadKind)},
    openings=r'\{"timestamp":',
    is_line=lambda value: "type" in value and "payload" in value,
)


def is_said_by_user(text: str) -> bool:
    """False for messages that Codex adds in the user's name: environment, instructions, notifications."""
    return not text.lstrip().startswith(_NOT_SAID_BY_THE_USER)


def working_directory(text: str) -> str | None:
    """The working directory, as Codex reports it to the model."""
    if not text.lstrip().startswith("<environment_context"):
        return None
    found = _DIRECTORY.search(text)
    return (found[1] or found[2]).strip() if found else None


def text_of(raw: Raw) -> str:
    """The text in a string, a list of parts or an object; another object as it is written."""
    value = value_of(raw)
    if isinstance(value, list):
        return "\n".join(text for text in map(_part_text, value) if text)
    if isinstance(value, dict):
        return _part_text(value) or raw_text(raw)
    return value if isinstance(value, str) else ""


def answer_text(item: ResponseItem) -> str:
    """What a tool answered; older shells answered with JSON in a string."""
    text = text_of(item.output)
    if not text.startswith('{"output":'):
        return text
    output = lookup(value_of(Raw(text.encode("utf-8", "surrogatepass"))), "output")
    return output if isinstance(output, str) else text


def answer_verdict(output: Raw) -> tuple[str, str | None, int | None]:
    """Status, error and duration from the first and last bytes of an answer, without decoding it."""
    view = memoryview(output)
    start, end = bytes(view[:400]), bytes(view[-200:])
    code = took = None
    if start.startswith(_COMMAND):
        start = b'"' + bytes(view[:_COMMAND_BYTES]).partition(_AFTER_COMMAND)[2][:400]
        start = _OUTPUT_HEADERS[1] + start[1:] if len(start) > 1 else start
    if start.startswith(_OUTPUT_HEADERS):
        header = start.partition(b"Output:")[0]
        code, took = _EXIT.search(header), _WALL.search(header)
    elif start.startswith(_OLD_OUTPUT):
        code = _OLD_END.search(end)
    seconds = took[1] if took else code[2] if code and code.re is _OLD_END else None
    duration = round(float(seconds) * 1_000_000) if seconds else None
    if code and int(code[1]) != 0:
        return "error", f"exit code {int(code[1])}", duration
    if start.startswith(_FAILURES) or (start.startswith(b"{") and b'"success":false' in start + end):
        return "error", start.strip(b'"{}').decode("utf-8", "replace"), duration
    return "cancelled" if start.startswith(b'"aborted by user') else "ok", None, duration


def _part_text(part: object) -> str:
    text = part.get("text", part.get("content")) if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def _span_micros(duration: object) -> int | None:
    seconds, nanos = lookup(duration, "secs"), lookup(duration, "nanos")
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    return min(abs(seconds) * 1_000_000 + abs(nanos) // 1000, LARGEST_NUMBER)
