"""Finds log files: in the directories that agents write to, and in the paths that the user adds."""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from agenttrace.record import demo_data
from agenttrace.record.files.reader import database_stat
from agenttrace.record.formats.contract import Agent

logger = logging.getLogger(__name__)

#: Log files by name, rotated ones (``x.jsonl.1``) and compressed ones included.
LOG_NAME = re.compile(r"\.jsonl(\.\d+)?(\.zst)?$")


@dataclass(frozen=True)
class Root:
    """A directory to search, a single file, or a pattern for either."""

    path: Path
    #: The agent whose home it is; ``None`` for a path the user named, where any format may be.
    agent: Agent | None = None
    #: Agents whose databases and documents are recognised by their names at a path that the user named.
    others: tuple[Agent, ...] = ()

    def log_at(self, path: str) -> tuple[bool, Agent | None]:
        """Whether a file is a log by its name, and whose, where that is known."""
        if self.agent is not None:
            return self.agent.is_log(Path(path)), self.agent
        if LOG_NAME.search(path) is not None:
            return True, None
        found = next((agent for agent in self.others if agent.is_log(Path(path))), None)
        return found is not None, found


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A log file as a listing shows it."""

    path: str
    agent: Agent | None
    size: int
    mtime_ns: int
    device: int
    inode: int


@dataclass
class Listing:
    """What one search found, and what it could not read."""

    files: list[FoundFile] = field(default_factory=list)
    #: Directories that could not be read now; the files in them are not gone.
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    #: Links that lead out of the watched directories, and where they lead: they are not followed.
    links: list[tuple[str, str]] = field(default_factory=list)


def agent_roots(agents: Sequence[Agent], environ: Mapping[str, str], home: Path) -> list[Root]:
    """The homes of all agents, whether they exist yet or not."""
    return [Root(path, agent) for agent in agents for path in agent.homes(environ, home)]


def demo_roots(agents: Sequence[Agent], home: Path) -> list[Root]:
    """The homes of agents in the demo logs of a data directory, as long as there are some."""
    place = demo_data.directory(home)
    if not place.is_dir():
        return []
    return [root for root in agent_roots(agents, {}, place) if place in root.path.parents and root.path.is_dir()]


def named_roots(paths: Sequence[str], agents: Sequence[Agent] = ()) -> list[Root]:
    """Paths, directories and patterns from the command line or the settings."""
    others = tuple(agent for agent in agents if not agent.writes_lines)
    return [Root(Path(os.path.expanduser(path)), others=others) for path in paths]


class Bounds:
    """Where links may lead: into the watched directories, or anywhere if the settings say so."""

    def __init__(self, roots: Sequence[Root], *, follow: bool = False) -> None:
        self._follow = follow
        places = (_named_place(root) for root in roots if not _is_agents_pattern(root))
        self._tops = [os.path.realpath(place) for place in places if place is not None]

    def hold(self, target: str) -> bool:
        """Whether a link may be followed to ``target``, a path without links."""
        return self._follow or any(_is_within(target, top) for top in self._tops)


def _is_agents_pattern(root: Root) -> bool:
    """Whether a root is a pattern of an agent's: it begins in the user's directory, which is not watched for that."""
    return root.agent is not None and glob.has_magic(os.fspath(root.path)) and not os.path.lexists(root.path)


def _is_plain(match: str, target: str, root: Root) -> bool:
    """Whether a match is no link, and no link leads to it out of where its pattern begins."""
    return not os.path.islink(match) and _is_within(target, os.path.realpath(_named_place(root) or os.curdir))


def _named_place(root: Root) -> str | None:
    """The path that the user named; of a pattern, the directory that it begins in."""
    path = os.fspath(root.path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return path
    parts = list(takewhile(lambda part: not glob.has_magic(part), root.path.parts))
    return os.path.join(*parts) if parts else os.curdir


def _is_within(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip(os.sep) + os.sep)


def expanded(root: Root, bounds: Bounds | None = None, listing: Listing | None = None) -> list[Root]:
    """What a pattern matches now, because new files may match it any time; a path is its own match."""
    pattern = os.fspath(root.path)
    if os.path.lexists(pattern) or not glob.has_magic(pattern):
        return [root]
    matches = []
    bounds = bounds or Bounds([root])
    for match in sorted(glob.glob(pattern, recursive=True)):
        target = os.path.realpath(match)
        if bounds.hold(target) or (_is_agents_pattern(root) and _is_plain(match, target, root)):
            matches.append(Root(Path(match), root.agent, root.others))
        elif listing is not None:
            listing.links.append((match, target))
    return matches


def list_files(roots: Sequence[Root], exclude: Sequence[str] = (), *, follow: bool = False) -> Listing:
    """Every log file under the roots, each inode once, oldest first; ``follow`` links that lead out of them."""
    listing = Listing()
    bounds = Bounds(roots, follow=follow)
    seen: set[tuple[int, int]] = set()
    for part in (part for root in roots for part in expanded(root, bounds, listing)):
        for found in _look(part, bounds, listing):
            if (found.device, found.inode) in seen or is_excluded(found.path, exclude):
                continue
            seen.add((found.device, found.inode))
            listing.files.append(found)
    listing.files.sort(key=_reading_order)
    return listing


def _reading_order(found: FoundFile) -> tuple[bool, int, str]:
    """Companions by name: several replay the same lines, and a time of the file system must not say whose they are."""
    companion = is_companion(found.path)
    return companion, 0 if companion else found.mtime_ns, found.path


def is_companion(path: str) -> bool:
    """Whether a file belongs to a session's main log.

    Main logs are read first, because subagents' files replay parts of them: what both hold belongs to the main
    log. Among those, originals come before the forks that copy them, as far as times can tell, then names settle it.
    """
    return f"{os.sep}subagents{os.sep}" in path


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether the settings exclude a path."""
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def _look(root: Root, bounds: Bounds, listing: Listing) -> Iterator[FoundFile]:
    top = os.fspath(root.path)
    try:
        is_directory = os.path.isdir(top)
        if not is_directory:
            if os.path.isfile(top):
                yield found_file(os.path.realpath(top), root.log_at(top)[1], os.stat(top))
            return
    except OSError as error:
        listing.unreadable.append((top, error.strerror or str(error)))
        return
    yield from _walk(os.path.realpath(top), root, bounds, listing)


def _walk(top: str, root: Root, bounds: Bounds, listing: Listing) -> Iterator[FoundFile]:
    pending = [top]
    visited: set[tuple[int, int]] = set()
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    linked = entry.is_symlink()
                    path = _followed(entry, root, bounds, listing) if linked else entry.path
                    if path is not None:
                        yield from _entry(entry, path, root, pending, visited if linked else None)
        except FileNotFoundError:
            continue
        except OSError as error:
            listing.unreadable.append((directory, error.strerror or str(error)))


def _entry(
    entry: os.DirEntry[str], path: str, root: Root, pending: list[str], visited: set[tuple[int, int]] | None
) -> Iterator[FoundFile]:
    """A log, or a directory to walk. ``visited``, for a link: it may lead back up, so only its first visit counts."""
    try:
        if entry.is_dir():
            if visited is None or not _is_visited(entry.stat(), visited):
                pending.append(path)
            return
        is_log, agent = root.log_at(entry.path)
        if is_log and entry.is_file():
            yield found_file(path, agent, entry.stat())
    except OSError:
        # It vanished after it was listed; if it comes back, the next search finds it.
        return


def _is_visited(stat: os.stat_result, visited: set[tuple[int, int]]) -> bool:
    known = (stat.st_dev, stat.st_ino) in visited
    visited.add((stat.st_dev, stat.st_ino))
    return known


def _followed(entry: os.DirEntry[str], root: Root, bounds: Bounds, listing: Listing) -> str | None:
    """Where a link leads; ``None`` if that is none of ours."""
    target = os.path.realpath(entry.path)
    if bounds.hold(target):
        return target
    if root.log_at(entry.path)[0] or os.path.isdir(target):
        listing.links.append((entry.path, target))
    return None


def found_file(path: str, agent: Agent | None, stat: os.stat_result) -> FoundFile:
    """A file as a look at it shows it; what is in a database's log counts with the database."""
    size, mtime_ns = stat.st_size, stat.st_mtime_ns
    if agent is not None and agent.table is not None:
        size, mtime_ns = database_stat(path, size, mtime_ns)
    return FoundFile(path, agent, size, mtime_ns, stat.st_dev, stat.st_ino)
