"""The sessions of the console benchmarks: one with 10,000 spans, one with 30,000, and five hundred small ones.

They are Claude Code logs; a span is a turn, a model call or a tool call, including subagents. An agent continues one
more session while pages are open: its lines are separate, and each has a mark by which it is found on the screen.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks import claude_session as claude
from benchmarks.truth import Truth

LARGE = (10_000, 30_000)
#: One turn each.
SMALL, SMALL_SPANS = 500, 1
#: Ten lines per second for a minute, and some more.
LIVE_LINES = 900
_STEPS_A_TURN = 10
_HOUR_MS = 3_600_000
#: The live session begins now and the others before it: overviews show the last weeks.
_HOURS = 600


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """The written logs and their directory."""

    folder: str
    #: Session ids of the large sessions, by their number of spans.
    large: dict[int, str]
    #: The live session: its id, and its file in the tree.
    live: str
    live_file: str
    size: int
    lines: int

    @property
    def tree(self) -> Path:
        """A directory like Claude Code's: sessions are under ``projects``."""
        return Path(self.folder) / "claude"

    def live_lines(self) -> list[bytes]:
        """The lines that are not in the tree yet; the line with mark N is at index N."""
        return (Path(self.folder) / "live.jsonl").read_bytes().splitlines(keepends=True)


def mark(number: int) -> str:
    """The mark of a line of the live session."""
    return f"mark-{number:05}"


def cached_logs(folder: Path) -> Logs:
    """The sessions, generated once and stored under ``folder``."""
    record = folder / "logs.json"
    if not record.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        record.write_bytes(msgspec.json.encode(_written(folder)))
    return msgspec.structs.replace(msgspec.json.decode(record.read_bytes(), type=Logs), folder=str(folder.resolve()))


def copied(logs: Logs, target: Path) -> Logs:
    """A copy of the sessions for one program, because the live session grows."""
    shutil.copytree(logs.folder, target, ignore=lambda *_: ["phoenix"])
    return msgspec.structs.replace(logs, folder=str(target))


def _written(folder: Path) -> Logs:
    source, truth = claude.Source(4), Truth()
    places = [claude.Project(source, number) for number in range(8)]
    tree = folder / "claude"
    start = int(time.time() * 1000) - _HOURS * _HOUR_MS
    large: dict[int, str] = {}
    for number, spans in enumerate([SMALL_SPANS] * SMALL + list(LARGE)):
        log = _session(source, places[number % len(places)], spans, at=start + number * _HOUR_MS)
        _save(tree, log, truth)
        if spans in LARGE:
            large[spans] = log.session
    live = _session(source, places[0], SMALL_SPANS, at=start + _HOURS * _HOUR_MS)
    path = _save(tree, live, truth)
    live.lines.clear()
    (folder / "live.jsonl").write_bytes(b"".join(_live_lines(live)))
    return Logs(
        folder=str(folder),
        large=large,
        live=live.session,
        live_file=str(path.relative_to(tree)),
        size=truth.bytes,
        lines=truth.lines,
    )


def _session(source: claude.Source, project: claude.Project, spans: int, *, at: int) -> claude.Log:
    """Turns with at least this many spans; the last turn is complete, so there may be a few more."""
    own = Truth()
    log = claude.Log(source, project, own, session=source.uuid(), at=at)
    log.append({"type": "permission-mode", "permissionMode": "default", "sessionId": log.session})
    for number in _until(own, spans):
        claude.prompt(log, first=number == 0)
        claude.turn(log)
    return log


def _until(own: Truth, spans: int) -> Iterator[int]:
    number = 0
    while own.prompts + own.responses + own.tool_calls < spans:
        yield number
        number += 1


def _live_lines(log: claude.Log) -> list[bytes]:
    """Turns of ten steps: model text, tool call, result, one line each."""
    source = log.source
    while len(log.lines) < LIVE_LINES:
        log.prompt_id = source.uuid()
        log.entry(claude.user(log, _marked(log, 120)), 10)
        for _ in range(_STEPS_A_TURN):
            identity, call = claude.response_identity(log, "tool_use"), source.token("toolu_01")
            figures = claude.usage(log, output=source.between(40, 400))
            _answer(log, identity, {"type": "text", "text": _marked(log, 200)}, figures)
            command = f"pytest -q -k {_marked(log, 30)}"
            asked = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
            owner = _answer(log, identity, asked, figures)
            output = {"tool_use_id": call, "type": "tool_result", "content": _marked(log, 600), "is_error": False}
            log.entry(claude.user(log, [output]), 10, parent=owner)
        last = claude.usage(log, output=90)
        said = {"type": "text", "text": _marked(log, 300)}
        _answer(log, claude.response_identity(log, "end_turn"), said, last)
    return log.lines[:LIVE_LINES]


def _answer(log: claude.Log, identity: tuple[str, str, str], block: claude.Json, figures: claude.Json) -> str:
    return log.entry(claude.assistant(log, identity, block, figures, finished=True), 10)


def _marked(log: claude.Log, characters: int) -> str:
    return f"{mark(len(log.lines))} {log.source.text.prose(characters)}"


def _save(tree: Path, log: claude.Log, truth: Truth) -> Path:
    folder = tree / "projects" / log.project.slug
    path = folder / f"{log.session}.jsonl"
    _write(path, log.lines, truth)
    for agent, meta, child in log.children:
        place = folder / log.session / "subagents"
        _write(place / f"agent-{agent}.jsonl", child.lines, truth)
        (place / f"agent-{agent}.meta.json").write_bytes(claude.encode(meta))
    return path


def _write(path: Path, lines: list[bytes], truth: Truth) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    truth.lines += len(lines)
    truth.bytes += path.write_bytes(b"".join(lines))
