"""Aider: ``.aider.chat.history.md`` in the directory of a project; every chat in it begins with a line that says when.

Markdown is no log format: what is a prompt, an answer or a notice is told by how lines begin. The figures of tokens are
Aider's own estimates, rounded, and are marked as such. The last answer counts as complete when a notice follows it. A
response is named by all that was said in its chat until then, so that a copy of a project counts nothing again.

``memory`` holds ``model``, ``turn`` and ``step``, the latest ones.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, expanded, first_lines
from agenttrace.record.formats.contract import (
    Commit,
    Content,
    FileChange,
    Memory,
    Outcome,
    ResumeCommand,
    Source,
    Traits,
)
from agenttrace.record.formats.lenient import MOST_TOKENS, microseconds, time_at
from agenttrace.record.ingest import acts as a

LOG_NAME = ".aider.chat.history.md"
_BEGIN = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_MODEL = re.compile(r"(?:Main model|Model): (\S+)")
_VERSION = re.compile(r"Aider v(\S+)")
_ERROR = re.compile(r"litellm\.\w*Error|The API provider|Retries exhausted")
_COUNT = re.compile(r"([\d.,]+)([kM]?) (sent|cache write|cache hit|received)")
_FACTOR = {"": 1, "k": 1000, "M": 1_000_000}
_FIELDS = {
    "sent": "input_tokens",
    "received": "output_tokens",
    "cache write": "cache_write_tokens",
    "cache hit": "cache_read_tokens",
}

_COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.*)")


class AiderBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Some lines that belong together."""

    #: The chat, and when it began: local time.
    chat: str
    began: str
    #: Which block of the chat it is.
    n: int
    #: The digest of the chat up to here: a copy of a history at another path has the same ones.
    chain: str = ""
    #: ``chat``, ``prompt``, ``answer``, ``notice`` or ``note``.
    kind: str
    text: str


class Aider(LogFormat[AiderBlock]):
    """The chat history of Aider."""

    name = "aider"
    title = "Aider"
    parts_not_in_log = frozenset({"context", "files"})
    traits = Traits(
        integration="aider", variables=("AIDER_CHAT_HISTORY_FILE",), project_log=LOG_NAME, mixes_sessions=True
    )
    writes_documents = True
    decoder = LineDecoder(AiderBlock)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``$AIDER_CHAT_HISTORY_FILE``, and projects in the user's directory and one level below.

        Those where other sessions ran are found, too (``project_log``); the rest is named in ``record.paths``.
        """
        named = expanded(environ.get("AIDER_CHAT_HISTORY_FILE") or ".", home)
        file = [named] if named.is_absolute() else []
        return [*file, home / "*" / LOG_NAME, home / "*" / "*" / LOG_NAME]

    def is_log(self, path: Path) -> bool:
        """``.aider.chat.history.md``."""
        return path.name == LOG_NAME

    def lines_of(self, document: bytes, path: Path) -> list[bytes] | None:
        """A line for each block."""
        project = hashlib.sha256(str(path.parent).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        whole = document[: document.rfind(b"\n") + 1]  # more of the last line may be written
        blocks = list(_blocks(whole.decode("utf-8", "replace"), project))
        if not blocks and whole.strip():
            return None
        while blocks and blocks[-1].kind in ("answer", "prompt", "note"):
            blocks.pop()  # more of it may be written
        return [msgspec.json.encode(block) for block in blocks]

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first block."""
        block = self._block(first_lines(head, 1)[0])
        return None if block is None else self.source(path, block.chat, cwd=str(path.parent))

    def _block(self, raw: bytes) -> AiderBlock | None:
        try:
            return self.decoder.strict(raw)
        except msgspec.DecodeError:
            return None

    def event(self, line: AiderBlock, raw: bytes, source: Source) -> Event:
        """The block's place in its chat."""
        at = _time_of(line.began) if line.kind == "chat" else None
        session = None if line.chat == source.session_id else line.chat
        return Event(line.kind, f"{line.n}", at, line, None, session)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the block means."""
        block: AiderBlock = event.body
        match block.kind:
            case "chat":
                return [a.SessionInfo(cwd=source.cwd)]
            case "prompt":
                memory["turn"] = f"{block.n}"
                return [a.TurnBegin(block.text, turn=f"{block.n}")]
            case "answer":
                memory["step"] = f"{block.n}"
                return [a.StepBegin(f"{block.n}", model=memory.get("model"), implied=True)]
            case "notice":
                return list(_noticed(block, memory))
        return []

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The notices of edits and commits; how many lines were changed is not in the log."""
        block = self._block(raw) if b'"notice"' in raw else None
        if block is None or block.kind != "notice":
            return []
        if block.text.startswith("Applied edit to "):
            return [FileChange(path=block.text.removeprefix("Applied edit to "))]
        found = _COMMIT.match(block.text)
        return [Commit(hash=found.group(1), subject=found.group(2))] if found else []

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text of the block; the command line, which may hold keys, is left out."""
        block: AiderBlock = event.body
        kinds = {"prompt": "prompt", "answer": "text", "notice": "note", "note": "note"}
        if block.kind not in kinds or block.text.startswith("aider "):
            return []
        return [Content(kinds[block.kind], block.text)]  # type: ignore[arg-type]  # one of the kinds above

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``aider --restore-chat-history``."""
        return ResumeCommand(("aider", "--restore-chat-history"), "whole_history")


def _time_of(began: str) -> int | None:
    """Local time, as Aider writes it."""
    try:
        return time_at(microseconds(datetime.fromisoformat(began).astimezone()))
    except (ValueError, OverflowError, OSError):
        return None


def _blocks(text: str, project: str) -> Iterator[AiderBlock]:
    """The blocks of a history; what stands before the first chat is none."""
    chat, began, n = "", "", 0
    kind, lines, fenced, committed = "", [""], False, False
    begun: Counter[str] = Counter()
    digest = hashlib.sha256()
    for line in [*(line.removesuffix("\r") for line in text.split("\n")), "# "]:
        start = _BEGIN.fullmatch(line)
        found = "chat" if start else _kind_of(line, kind, fenced)
        if line == "# ":
            found = "end"
        elif found == "answer" and committed:
            found = "note"  # more of the message of a commit
        if found != kind or kind == "notice":
            body = "\n".join(lines).strip()
            if chat and body and kind:
                digest.update(f"{kind}\0{body}\0".encode())
                chain = digest.hexdigest()[:32]
                yield AiderBlock(chat=chat, began=began, n=n, chain=chain, kind=kind, text=body)
                n += 1
                committed = kind in ("notice", "note") and (committed or body.startswith("Commit "))
            kind, lines, fenced = found, [], False
        if start is not None:
            began = start.group(1)
            chat, n = f"{began.replace(' ', 'T').replace(':', '')}-{project}", 0
            digest = hashlib.sha256()
            begun[chat] += 1
            if begun[chat] > 1:  # two in one second
                chat = f"{chat}-{begun[chat]}"
            lines = [line]
            continue
        if found == "answer" and line.startswith("```"):
            fenced = not fenced
        lines.append(_stripped(line, found))


def _kind_of(line: str, before: str, fenced: bool) -> str:
    if fenced:
        return before
    if line.startswith("#### "):
        return "prompt"
    if line.startswith("> "):
        return "notice"
    if not line.strip():
        return before
    return "answer"


def _stripped(line: str, kind: str) -> str:
    if kind == "prompt":
        return line.removeprefix("#### ").rstrip()
    return line.removeprefix("> ").rstrip() if kind == "notice" else line


def _noticed(block: AiderBlock, memory: Memory) -> Iterator[a.Act]:
    text = block.text
    if (model := _MODEL.match(text)) is not None:
        memory["model"] = model.group(1).rsplit("/", 1)[-1]
        yield a.SessionInfo(model=memory["model"])
    elif (version := _VERSION.match(text)) is not None:
        yield a.SessionInfo(version=version.group(1))
    elif text.startswith("Tokens: "):
        step = memory.pop("step", None)
        usage = _usage(text)
        yield a.ResponseUsage(f"aider:{block.chain}", usage, memory.get("model"), step, estimated=True)
        yield a.StepEnd(step)
        yield a.TurnEnd()
    elif _ERROR.search(text):
        yield a.TurnEnd("error", text)
    elif text.startswith("Commit "):
        yield a.Note("commit")


def _usage(text: str) -> Usage:
    """``Tokens: 2.4k sent, 1.1k cache hit, 8 received.``"""
    counts: dict[str, int] = {}
    for amount, factor, name in _COUNT.findall(text.split("Cost:")[0]):
        try:
            number = round(float(amount.replace(",", "")) * _FACTOR[factor])
        except (ValueError, OverflowError):
            continue
        counts[_FIELDS[name]] = min(number, MOST_TOKENS)
    return Usage(**counts)
