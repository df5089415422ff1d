"""Questions to the git repository that a session worked in: read-only, with a time limit, and nothing of it is run.

The configuration of a repository can name programs (hooks, a monitor of the file system, a pager, a verifier of
signatures, a transport for missing objects). The directory of a session is whatever its log says, so none of them may
ever be started: every command here turns them off.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds that one question may take, and all questions of a page or command together.
TIMEOUT = 3.0
BUDGET = 10.0
#: Bytes of an answer; git is stopped at more.
_MOST_OUTPUT = 4 << 20
#: Commits of one session that are asked about.
MOST_COMMITS = 100
#: Commits of an author among which the successors of others are looked for.
_MOST_LOGGED = 20_000
#: Files with more bytes are not compared.
_LARGEST_FILE = 4 << 20

_SAFE = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "log.mailmap=false",
    "maintenance.auto=false",
    "gc.auto=0",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "uploadpack.packObjectsHook=",
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_HASH = re.compile(r"[0-9a-f]{7,64}")
_FORMAT = "--format=%H%x00%ct%x00%at%x00%ae%x00%s"


class LoggedCommit(NamedTuple):
    """A commit as the repository has it; times are microseconds since the epoch."""

    hash: str
    committed_at: int
    #: Kept when a commit is amended, rebased or cherry-picked.
    authored_at: int
    author: str
    subject: str

    @property
    def origin(self) -> tuple[int, str, str]:
        """What a commit has in common with the one that it was amended or rebased from."""
        return self.authored_at, self.author, self.subject


class KeptCommit(NamedTuple):
    """A commit that the repository has, and which branches have it today."""

    hash: str
    #: Some of many; ``None`` where git did not answer.
    branches: list[str] | None
    #: The commit that these branches have instead of it.
    successor: str | None = None

    @property
    def kept(self) -> bool | None:
        """Whether a branch has it, or its successor."""
        return None if self.branches is None else bool(self.branches)


class Repository:
    """The git repository of a directory; questions it cannot answer are answered with ``None``."""

    def __init__(self, directory: str, *, deadline: float | None = None) -> None:
        self._directory = directory
        self._git = shutil.which("git")
        #: By the monotonic clock; later questions are not asked.
        self._deadline = time.monotonic() + BUDGET if deadline is None else deadline
        self.exists = self._is_repository()

    def _is_repository(self) -> bool:
        if self._git is None or not os.path.isabs(self._directory) or not os.path.isdir(self._directory):
            return False
        return (self._ask("rev-parse", "--is-inside-work-tree") or "").strip() == "true"

    def _ask(self, *arguments: str) -> str | None:
        left = min(TIMEOUT, self._deadline - time.monotonic())
        if self._git is None or left <= 0:
            return None
        options = [part for setting in _SAFE for part in ("-c", setting)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            process = subprocess.Popen(
                [self._git, "--no-pager", "--literal-pathspecs", *options, *arguments],
                cwd=self._directory,
                env=environment | _ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError):
            return None
        return _answer(process, left)

    def author(self) -> str | None:
        """The mail address that commits are made with here."""
        return (self._ask("config", "--get", "user.email") or "").strip() or None

    def commits_between(self, start: int, end: int) -> list[LoggedCommit]:
        """The commits of local branches that this user made in this time, oldest first; times in microseconds."""
        author = self.author()
        if author is None:
            return []
        text = self._ask(
            "log",
            "--branches",
            "--no-show-signature",
            f"--max-count={MOST_COMMITS}",
            f"--since=@{start // 1_000_000 - 1}",
            f"--until=@{end // 1_000_000 + 1}",
            "--fixed-strings",
            f"--author=<{author}>",
            _FORMAT,
        )
        found = _logged(text)
        return [each for each in found[::-1] if each.author == author and _within(each, start, end)]

    def commit(self, name: str) -> LoggedCommit | None:
        """A commit that the repository still has, in a branch or not."""
        if not _HASH.fullmatch(name):
            return None
        found = _logged(self._ask("log", "--no-walk", "--no-show-signature", _FORMAT, "--end-of-options", name, "--"))
        # A branch can have a name that looks like a hash.
        return next((each for each in found if each.hash.startswith(name)), None)

    def branches_with(self, commit: str) -> list[str] | None:
        """Branches that contain a commit today, some of many; ``None`` where git did not answer."""
        if not _HASH.fullmatch(commit):
            return None
        places = ("refs/heads", "refs/remotes")
        names = "--format=%(refname:short) %(symref)"
        text = self._ask("for-each-ref", "--count=10", names, f"--contains={commit}", *places)
        if text is None:
            return None
        # ``refs/remotes/origin/HEAD`` is another name of a branch.
        return [line.strip() for line in text.splitlines() if line.endswith(" ")][:5]

    def kept(self, names: Sequence[str]) -> dict[str, KeptCommit]:
        """What became of these commits, without those that the repository does not have."""
        found = {name: commit for name in names if (commit := self.commit(name)) is not None}
        branches = {commit.hash: self.branches_with(commit.hash) for commit in found.values()}
        lost = [commit for commit in found.values() if branches[commit.hash] == []]
        successors, answered = self._successors(lost)
        if not answered:
            branches |= {commit.hash: None for commit in lost}
        return {name: self._kept(commit.hash, branches, successors) for name, commit in found.items()}

    def _kept(self, name: str, branches: dict[str, list[str] | None], successors: dict[str, str]) -> KeptCommit:
        successor = successors.get(name)
        if successor is None:
            return KeptCommit(name, branches[name])
        return KeptCommit(name, self.branches_with(successor), successor)

    def _successors(self, lost: Sequence[LoggedCommit]) -> tuple[dict[str, str], bool]:
        """The commits in branches that commits became which are in none, by their hashes; and whether these are all.

        An amended, rebased or cherry-picked commit has the author, time and subject of the first one. A squashed one
        names it in its message.
        """
        if not lost:
            return {}, True
        since = f"--since=@{min(each.authored_at for each in lost) // 1_000_000 - 1}"
        branches = ("log", "--branches", "--remotes", "--no-show-signature", since, "--fixed-strings")
        authors = [f"--author=<{author}>" for author in {each.author for each in lost}]
        text = self._ask(*branches, *authors, f"--max-count={_MOST_LOGGED}", _FORMAT)
        logged = _logged(text)
        answered = text is not None and len(logged) < _MOST_LOGGED
        origins = {each.origin: each.hash for each in logged}
        found = {each.hash: origins[each.origin] for each in lost if each.origin in origins}
        rest = [each.hash for each in lost if each.hash not in found][:MOST_COMMITS]
        if rest:
            named = [f"--grep={name}" for name in rest]
            text = self._ask(*branches, *named, "--max-count=1000", "--format=%H%x00%B%x01")
            answered = answered and text is not None
            found |= _named_in(text or "", rest)
        return found, answered


def _answer(process: subprocess.Popen[bytes], seconds: float) -> str | None:
    """What a program prints; it is stopped when it takes too long or prints too much."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, _kill, (process,))
    timer.start()
    try:
        with process.stdout as pipe:
            output = pipe.read(_MOST_OUTPUT + 1)
        if len(output) > _MOST_OUTPUT:
            _kill(process)
        return output.decode("utf-8", "replace") if process.wait() == 0 else None
    finally:
        _kill(process)
        timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Stop a program that still runs, and everything that it has started."""
    with contextlib.suppress(OSError):
        if process.poll() is None:
            process.kill() if sys.platform == "win32" else os.killpg(process.pid, signal.SIGKILL)


def _within(commit: LoggedCommit, start: int, end: int) -> bool:
    """A second is the finest that git has."""
    return start // 1_000_000 <= commit.committed_at // 1_000_000 <= end // 1_000_000


def _logged(text: str | None) -> list[LoggedCommit]:
    lines = [line.split("\0") for line in (text or "").split("\n") if line.count("\0") == 4]
    return [
        LoggedCommit(name, int(at) * 1_000_000, int(authored) * 1_000_000, author, subject)
        for name, at, authored, author, subject in lines
    ]


def _named_in(text: str, names: Sequence[str]) -> dict[str, str]:
    """The commits whose messages name one of these, in the order of the log; a revert is the opposite."""
    found: dict[str, str] = {}
    for entry in text.split("\x01"):
        commit, _, message = entry.strip().partition("\0")
        found |= {name: commit for name in names if name in message and f"reverts commit {name}" not in message}
    return found


# -- files ----------------------------------------------------------------------------------------------------------


def lines_still_there(directory: str, path: str, added: Sequence[str]) -> tuple[int, int] | None:
    """How many of these added lines a file of a directory has today, and of how many; blank ones do not count.

    ``None`` where it cannot be told: nothing to compare, another machine's directory, a file outside of it.
    """
    wanted = [line.strip() for line in added if line.strip()]
    if not wanted or not os.path.isabs(directory) or not os.path.isdir(directory):
        return None
    try:
        root = Path(os.path.realpath(directory))
        place = Path(os.path.realpath(root / path))
    except ValueError:
        return None  # a path that no file can have
    if not place.is_relative_to(root):
        return None
    present = _lines_of(place)
    return None if present is None else (sum(line in present for line in wanted), len(wanted))


def _lines_of(place: Path) -> set[str] | None:
    """The lines of a regular file; none where there is no such file, ``None`` where it cannot be read."""
    try:
        with open(os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
                return None
            return {line.strip() for line in file.read(_LARGEST_FILE).decode("utf-8", "replace").splitlines()}
    except FileNotFoundError:
        return set()
    except OSError:
        return None
