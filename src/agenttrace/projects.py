"""Which directories a rule or a budget is about, and those of demo data.

A hook imports this: nothing that takes time to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

#: The directory that the projects of demo sessions are in; it marks them, and does not exist.
DEMO = "/agenttrace-demo"


def is_demo(project: str | None) -> bool:
    """Whether a session with this project is one of the demo data."""
    return project is not None and project.startswith(f"{DEMO}/")


def project_matches(project: str | None, wanted: Sequence[str]) -> bool:
    """Whether a directory is one of these: its name, its path, or a glob of paths."""
    if project is None:
        return False
    return any(project == each or _name(project) == each or fnmatchcase(project, each) for each in wanted)


def _name(path: str) -> str:
    separator = "\\" if "\\" in path and "/" not in path else "/"
    return path.rstrip(separator).rpartition(separator)[2]
