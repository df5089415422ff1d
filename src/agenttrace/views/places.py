"""Where things are on this machine: the store, and the logs of the agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace import store
from agenttrace.store.errors import STORE_FAILURES

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.record.files.discover import Listing, Root


def store_path(settings: Settings) -> Path:
    """Where the store is."""
    return store.store_path(settings.home)


def logs(settings: Settings) -> Listing:
    """The logs that are there."""
    from agenttrace.record.files.discover import list_files

    return list_files(roots(settings), settings.record.exclude, follow=settings.record.follow_symlinks)


def roots(settings: Settings) -> list[Root]:
    """Where logs are looked for on this machine."""
    from agenttrace.record.files.discover import agent_roots, demo_roots, named_roots
    from agenttrace.record.files.project_logs import ProjectLogs
    from agenttrace.record.formats import AGENTS

    chosen = [agent for agent in AGENTS if not settings.record.agents or agent.name in settings.record.agents]
    home = Path(os.environ.get("HOME") or Path.home())
    environ = {**os.environ, "AGENTTRACE_HOME": str(settings.home)}
    logs = ProjectLogs(chosen).roots(_projects(settings))
    named = named_roots(settings.record.paths, chosen)
    return [*agent_roots(chosen, environ, home), *named, *demo_roots(chosen, settings.home), *logs]


def _projects(settings: Settings) -> list[str]:
    """Where recorded sessions ran; nowhere if the store cannot be read."""
    from agenttrace.record.files.project_logs import MOST_PROJECTS

    if not store_path(settings).exists():
        return []
    try:
        with store.open_store(settings) as opened:
            return [each.name for each in opened.session_groups("project", MOST_PROJECTS)]
    except STORE_FAILURES:
        return []
