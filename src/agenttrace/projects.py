"""Which directories a rule or a budget is about. A hook imports this: nothing that takes time to load."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def project_matches(project: str | None, wanted: Sequence[str]) -> bool:
    """Whether a directory is one of these: its name, its path, or a glob of paths."""
    if project is None:
        return False
    return any(project == each or _name(project) == each or fnmatchcase(project, each) for each in wanted)


def _name(path: str) -> str:
    separator = "\\" if "\\" in path and "/" not in path else "/"
    return path.rstrip(separator).rpartition(separator)[2]
