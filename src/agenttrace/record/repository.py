"""Questions to the git repository that a session worked in: read-only, with a time limit, and nothing of it is run.

The configuration of a repository can name programs (hooks, a monitor of the file system, a pager, a verifier of
signatures, a transport for missing objects). The directory of a session is whatever its log says, so none of them may
ever be started: every command here turns them off.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds that one question may take, and all of one session together.
TIMEOUT = 3.0
BUDGET = 10.0
_MOST_OUTPUT = 4 << 20
#: Commits of one session that are asked about.
MOST_COMMITS = 100
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


class LoggedCommit(NamedTuple):
    """A commit as the repository has it; times are microseconds since the epoch."""

    hash: str
    committed_at: int
    author: str
    subject: str


class Repository:
    """The git repository of a directory; questions it cannot answer are answered with ``None``."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._git = shutil.which("git")
        self._deadline = time.monotonic() + BUDGET
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
            done = subprocess.run(
                [self._git, "--no-pager", "--literal-pathspecs", *options, *arguments],
                cwd=self._directory,
                env=environment | _ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=left,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout[:_MOST_OUTPUT].decode("utf-8", "replace") if done.returncode == 0 else None

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
            "--format=%H%x00%ct%x00%ae%x00%s",
        )
        found = [_logged(line) for line in (text or "").split("\n") if line.count("\0") == 3]
        return [each for each in found[::-1] if each.author == author and _within(each, start, end)]

    def full_hash(self, name: str) -> str | None:
        """The whole hash of a commit that the repository still has."""
        if not _HASH.fullmatch(name):
            return None
        return (
            self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") or ""
        ).strip() or None

    def branches_with(self, commit: str) -> list[str] | None:
        """Branches that contain a commit today, some of many; ``None`` where git did not answer."""
        if not _HASH.fullmatch(commit):
            return None
        places = ("refs/heads", "refs/remotes")
        text = self._ask("for-each-ref", "--count=5", "--format=%(refname:short)", f"--contains={commit}", *places)
        return None if text is None else text.split()


def _within(commit: LoggedCommit, start: int, end: int) -> bool:
    """A second is the finest that git has."""
    return start // 1_000_000 <= commit.committed_at // 1_000_000 <= end // 1_000_000


def _logged(line: str) -> LoggedCommit:
    name, at, author, subject = line.split("\0")
    return LoggedCommit(name, int(at) * 1_000_000, author, subject)


# -- files ----------------------------------------------------------------------------------------------------------


def lines_still_there(directory: str, path: str, added: Sequence[str]) -> tuple[int, int] | None:
    """How many of these added lines a file of a directory has today, and of how many; blank ones do not count.

    ``None`` where it cannot be told: nothing to compare, another machine's directory, a file outside of it.
    """
    wanted = [line.strip() for line in added if line.strip()]
    if not wanted or not os.path.isabs(directory) or not os.path.isdir(directory):
        return None
    root = Path(os.path.realpath(directory))
    place = Path(os.path.realpath(root / path))
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
