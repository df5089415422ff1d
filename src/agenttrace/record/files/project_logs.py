"""Logs that an agent writes in the directory of a project: looked for where sessions of any agent ran.

Such directories are not watched, because a project may have any number of files. The logs that were found are looked at
often, new ones are found by the slow scan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agenttrace.record.files.discover import Root
from agenttrace.record.formats.contract import Agent

#: How many projects are looked at, the last active ones.
MOST_PROJECTS = 500


class ProjectLogs:
    """The logs of these agents in projects."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._agents = tuple(agent for agent in agents if agent.traits.project_log)
        self._tops: dict[str, str | None] = {}

    def __bool__(self) -> bool:
        return bool(self._agents)

    def roots(self, projects: Iterable[str]) -> list[Root]:
        """The logs that are there; links are not followed."""
        found: dict[Path, Root] = {}
        for directory in {each: None for project in projects for each in self._directories(project)}:
            for agent in self._agents:
                path = os.path.join(directory, agent.traits.project_log)
                if os.path.isfile(path) and not os.path.islink(path):
                    found[Path(path)] = Root(Path(path), agent)
        return list(found.values())

    def _directories(self, project: str) -> Iterator[str]:
        """The directory that a session ran in, and the top of the repository that it is in."""
        if os.path.isabs(project):
            yield project
            if project not in self._tops:
                self._tops[project] = _repository(project)
            if (top := self._tops[project]) is not None:
                yield top


def _repository(directory: str) -> str | None:
    places = (directory, *map(str, Path(directory).parents))
    return next((place for place in places if os.path.lexists(os.path.join(place, ".git"))), None)
