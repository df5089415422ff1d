"""Generates Claude Code session logs with known contents.

One seed always writes the same bytes. Sessions have sizes from tens of kilobytes to tens of megabytes; some
have subagents, some are forks that copy the history of another session under a new id.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from benchmarks import claude_session as claude
from benchmarks.truth import Truth

_START_MS = 1_789_200_000_000
_DAY_MS = 86_400_000


def generate_claude(target: Path, megabytes: float, seed: int, projects: int = 8) -> Truth:
    """Write about this many megabytes of sessions under ``target/projects``; returns their counts."""
    source, truth = claude.Source(seed), Truth()
    places = [claude.Project(source, number) for number in range(projects)]
    limit = int(megabytes * 1_000_000)
    while truth.bytes < limit:
        size = min(source.rng.lognormvariate(13.3, 1.1), max(60_000, limit / 12))
        log = _session(source, source.rng.choice(places), truth, size)
        _write(target, log, truth)
        if source.chance(0.06):
            _write(target, _fork(log), truth)
    (target / "truth.json").write_bytes(msgspec.json.format(claude.encode(truth), indent=2))
    return truth


def generate_lines(target: Path, megabytes: float, seed: int = 1, line_bytes: int = 2048) -> Truth:
    """Write one session file of lines about ``line_bytes`` long, for the cost per gigabyte."""
    source, truth = claude.Source(seed), Truth(files=1, sessions=1)
    log = claude.Log(source, claude.Project(source, 0), truth, session=source.uuid(), at=_START_MS)
    log.version = claude.FINAL_ON_ALL
    envelope = 960
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while truth.bytes < megabytes * 1_000_000:
            _many_responses(log, line_bytes - envelope)
            truth.lines += len(log.lines)
            truth.bytes += out.write(b"".join(log.lines))
            log.lines.clear()
    return truth


def cached_claude(folder: Path, megabytes: float, seed: int = 1) -> tuple[Path, Truth]:
    """The tree of this size, generated once and stored under ``folder``."""
    target = folder / f"claude-{megabytes:g}mb-seed{seed}"
    record = target / "truth.json"
    if record.exists():
        return target, msgspec.json.decode(record.read_bytes(), type=Truth)
    return target, generate_claude(target, megabytes, seed)


def _session(source: claude.Source, project: claude.Project, truth: Truth, size: float) -> claude.Log:
    at = _START_MS + source.between(0, 55 * _DAY_MS)
    log = claude.Log(source, project, truth, session=source.uuid(), at=at)
    log.append({"type": "permission-mode", "permissionMode": "default", "sessionId": log.session})
    claude.prompt(log, first=True)
    claude.turn(log)
    while log.size < size:
        claude.prompt(log)
        claude.turn(log)
    return log


def _fork(log: claude.Log) -> claude.Log:
    """A session that begins with a copy of another: same uuids, same responses, another session id."""
    source = log.source
    fork = claude.Log(source, log.project, log.truth, session=source.uuid(), at=log.at + 60_000)
    fork.append({"type": "mode", "mode": "normal", "sessionId": fork.session})
    fork.parent, fork.version, fork.model = log.parent, log.version, log.model
    old, new = log.session.encode(), fork.session.encode()
    fork.lines += [raw.replace(old, new) for raw in log.lines if raw.startswith(b'{"parentUuid"')]
    log.truth.forks += 1
    claude.prompt(fork)
    claude.turn(fork)
    return fork


def _write(target: Path, log: claude.Log, truth: Truth) -> None:
    folder = target / "projects" / log.project.slug
    truth.sessions += 1
    truth.subagents += len(log.children)
    _save(folder / f"{log.session}.jsonl", log.lines, truth)
    for agent, meta, child in log.children:
        place = folder / log.session / "subagents"
        _save(place / f"agent-{agent}.jsonl", child.lines, truth)
        (place / f"agent-{agent}.meta.json").write_bytes(claude.encode(meta))


def _save(path: Path, lines: list[bytes], truth: Truth) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    truth.files += 1
    truth.lines += len(lines)
    truth.bytes += path.write_bytes(b"".join(lines))


def _many_responses(log: claude.Log, characters: int) -> None:
    """One prompt and a few hundred responses: model text, tool call, result, one line each."""
    source = log.source
    log.prompt_id = source.uuid()
    log.entry(claude.user(log, source.text.prose(characters)), 5_000)
    log.truth.prompts += 1
    for _ in range(256):
        figures = claude.usage(log, output=source.between(100, 500))
        log.truth.count_response(figures)
        log.truth.tool_calls += 1
        identity, call = claude.response_identity(log, "tool_use"), source.token("toolu_01")
        said = {"type": "text", "text": _exactly(source.text.prose(2 * characters), characters)}
        log.entry(claude.assistant(log, identity, said, figures, finished=True), 900)
        written = {"file_path": source.text.path(), "content": _exactly(source.text.code(characters), characters - 180)}
        block = {"type": "tool_use", "id": call, "name": "Write", "input": written}
        owner = log.entry(claude.assistant(log, identity, block, figures, finished=True), 900)
        output = _exactly(source.text.terminal(2 * characters), characters + 280)
        result = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        log.entry(claude.user(log, [result]) | {"sourceToolAssistantUUID": owner}, 300, parent=owner)


def _exactly(text: str, characters: int) -> str:
    """The text, cut or padded to a length."""
    return text[:characters].ljust(characters, ".")


def main() -> None:
    """Write a tree from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--mb", type=float, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(claude.encode(generate_claude(given.target, given.mb, given.seed)).decode())


if __name__ == "__main__":
    main()
