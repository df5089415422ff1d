"""The sessions that every console is measured with: one of 10,000 and one of 30,000 spans, and five hundred small ones.

They are Claude Code logs; a span is a turn, a response of the model or a call of a tool, subagents' included. The last
session is the one that an agent goes on with while pages are open: its lines are kept aside.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks import claude_session as claude
from benchmarks.truth import Truth

LARGE = (10_000, 30_000)
SMALL, SMALL_SPANS = 500, 25
#: Ten lines a second for a minute, with room.
LIVE_LINES = 900
_START_MS = 1_789_200_000_000
_HOUR_MS = 3_600_000


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and where."""

    #: A directory as Claude Code's own: sessions are under ``projects``.
    tree: str
    #: Session ids of the large sessions, by their number of spans.
    large: dict[int, str]
    #: The session that goes on: its id, and its file below the tree.
    live: str
    live_file: str
    bytes: int
    lines: int

    def live_lines(self) -> list[bytes]:
        """The lines that are not in the tree yet."""
        return Path(self.tree).with_name("live.jsonl").read_bytes().splitlines(keepends=True)


def cached_logs(folder: Path) -> Logs:
    """The sessions, written once and kept under ``folder``."""
    record = folder / "logs.json"
    if not record.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        record.write_bytes(msgspec.json.encode(_written(folder)))
    return msgspec.json.decode(record.read_bytes(), type=Logs)


def copied(logs: Logs, target: Path) -> Logs:
    """The same sessions for one program alone, which may see them grow."""
    shutil.copytree(logs.tree, target)
    return msgspec.structs.replace(logs, tree=str(target))


def _written(folder: Path) -> Logs:
    source, truth = claude.Source(4), Truth()
    places = [claude.Project(source, number) for number in range(8)]
    tree = folder / "claude"
    large: dict[int, str] = {}
    for number, spans in enumerate([SMALL_SPANS] * SMALL + list(LARGE)):
        log = _session(source, places[number % len(places)], spans, at=_START_MS + number * _HOUR_MS)
        _save(tree, log, log.lines, truth)
        if spans in LARGE:
            large[spans] = log.session
    live = _live_session(source, places[0], at=_START_MS + 600 * _HOUR_MS)
    kept = next(at for at, line in enumerate(live.lines) if at > 20 and b'"end_turn"' in line) + 1
    path = _save(tree, live, live.lines[:kept], truth)
    (folder / "live.jsonl").write_bytes(b"".join(live.lines[kept : kept + LIVE_LINES]))
    return Logs(
        tree=str(tree),
        large=large,
        live=live.session,
        live_file=str(path.relative_to(tree)),
        bytes=truth.bytes,
        lines=truth.lines,
    )


def _session(source: claude.Source, project: claude.Project, spans: int, *, at: int) -> claude.Log:
    """Turns until there are this many spans; the last turn is not cut off, so that there may be a few more."""
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


def _live_session(source: claude.Source, project: claude.Project, *, at: int) -> claude.Log:
    """One without subagents: all that happens is in one file."""
    while True:
        log = _session(source, project, LIVE_LINES, at=at)
        if not log.children:
            return log


def _save(tree: Path, log: claude.Log, lines: list[bytes], truth: Truth) -> Path:
    folder = tree / "projects" / log.project.slug
    path = folder / f"{log.session}.jsonl"
    _write(path, lines, truth)
    for agent, meta, child in log.children:
        place = folder / log.session / "subagents"
        _write(place / f"agent-{agent}.jsonl", child.lines, truth)
        (place / f"agent-{agent}.meta.json").write_bytes(claude.encode(meta))
    return path


def _write(path: Path, lines: list[bytes], truth: Truth) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    truth.lines += len(lines)
    truth.bytes += path.write_bytes(b"".join(lines))
