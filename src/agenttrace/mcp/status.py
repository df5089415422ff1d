"""``status``: what is recorded at all, and whether recording goes on."""

from __future__ import annotations

from importlib.metadata import version

from agenttrace.mcp.naming import short_time
from agenttrace.mcp.past import Look
from agenttrace.mcp.tool import Answer, Arguments, Tool
from agenttrace.record.lock import owner
from agenttrace.views.places import store_path
from agenttrace.views.status import database_bytes

_MOST_PROJECTS = 30
_NAME_CHARS = 300

_AGENTS = """
SELECT agent, count(*), min(started_at), max(last_at) FROM sessions WHERE agent <> '' AND events > 0
GROUP BY agent ORDER BY max(last_at) DESC
"""
_PROJECTS = """
SELECT project, count(*), min(started_at), max(last_at) FROM sessions
WHERE agent <> '' AND events > 0 AND project IS NOT NULL GROUP BY project ORDER BY max(last_at) DESC LIMIT ?
"""


class Asked(Arguments, frozen=True, kw_only=True):
    """Nothing to choose."""


class Part(Answer):
    """The sessions of an agent, or in a directory."""

    name: str
    sessions: int
    first: str | None = None
    last: str | None = None


class Status(Answer):
    """What is recorded."""

    #: Whether new lines are being recorded now; if not, the latest of them are missing here.
    recording: bool
    agents: list[Part]
    #: The directories that were worked in last.
    projects: list[Part]
    #: Recorded, but not searchable yet.
    not_indexed: int = 0
    store_bytes: int = 0
    version: str = ""


def told(look: Look, asked: Asked) -> Status:
    """How things are."""
    return Status(
        recording=owner(look.settings.home) is not None,
        agents=_parts(look, _AGENTS, ()),
        projects=_parts(look, _PROJECTS, (_MOST_PROJECTS,)),
        not_indexed=look.store.search_index.backlog,
        store_bytes=database_bytes(store_path(look.settings)),
        version=version("agenttrace"),
    )


def _parts(look: Look, query: str, values: tuple[int, ...]) -> list[Part]:
    return [
        Part(name=look.shown.line(name, _NAME_CHARS), sessions=count, first=short_time(first), last=short_time(last))
        for name, count, first, last in look.connection.execute(query, values)
    ]


TOOL = Tool(
    name="status",
    title="What is recorded",
    description=(
        "Tell what is recorded on this machine: which agents, how many sessions and from when to when, the "
        "directories worked in last, and whether recording goes on at this moment. Use it once to learn the names "
        "that the other tools filter by."
    ),
    arguments=Asked,
    answer=Status,
    ask=told,
)
